"""The text form to objects: modules and their kernels."""

from __future__ import annotations

from hal.vil.expressions import Const, Expr
from hal.vil.model import Argument, Binding, Kernel, Launch, Program, Workspace
from hal.vil.module import Module
from hal.vil.text_program import read_program
from hal.vil.text_reader import TextReader

__all__ = ["parse"]


def parse(text: str, *, file: str = "<vil>") -> Module:
    """The module of a text.

    Args:
        text: A whole `.vil` file.
        file: Name for messages.

    Raises:
        VilTextError: with line, column, a caret and what is allowed.
    """
    return _ModuleText(TextReader(text, file)).module()


class _ModuleText:
    """Reads the parts of a module, program by program and kernel by kernel."""

    def __init__(self, reader: TextReader) -> None:
        self.reader = reader

    def module(self) -> Module:
        """Takes the whole text."""
        reader = self.reader
        reader.blank_lines()
        reader.expect("vil")
        version = reader.next()
        if version.text != "1.0":
            reader.fail(f"version {version.shown()}", allowed="1.0", at=version)
        reader.newline()
        kernels: list[Kernel] = []
        programs: list[Program] = []
        names: dict[str, set[str]] = {"kernel": set(), "program": set()}
        while reader.word.kind != "end":
            kind = reader.choice("a part of a module", ("kernel", "program"))
            name = reader.declare(names[kind], f"a {kind}")
            reader.symbols = set()
            if kind == "kernel":
                kernels.append(self._kernel(name))
            else:
                programs.append(read_program(self.reader, name))
        self._check_launches(kernels, programs)
        return Module(tuple(kernels), tuple(programs))

    def _check_launches(self, kernels: list[Kernel], programs: list[Program]) -> None:
        reader = self.reader
        known = {program.name for program in programs}
        for kernel in kernels:
            for launch in kernel.launches:
                if launch.program not in known:
                    start = next(word for word in reader.words if word.text == launch.program)
                    allowed = " ".join(sorted(known)) or "there is no program"
                    reader.fail(f"`{launch.program}` is not a program", allowed=allowed, at=start)

    def _kernel(self, name: str) -> Kernel:
        reader = self.reader
        arguments: list[Argument] = []
        workspaces: list[Workspace] = []
        launches: list[Launch] = []
        names: set[str] = set()
        reader.expect("{")
        reader.newline()
        reader.declare_symbols()
        while not reader.take("}"):
            kind = reader.choice("a part of a kernel", ("arg", "workspace", "launch"))
            if kind == "arg":
                arguments.append(self._argument(names, arguments))
            elif kind == "workspace":
                own = reader.declare(names, "a workspace")
                reader.expect("bytes")
                workspaces.append(Workspace(own, reader.expression()))
            else:
                launches.append(self._launch(arguments, workspaces))
            reader.newline()
        reader.newline()
        return Kernel(name, tuple(arguments), tuple(workspaces), tuple(launches))

    def _argument(self, names: set[str], before: list[Argument]) -> Argument:
        reader = self.reader
        name = reader.declare(names, "an argument")
        reader.expect(":")
        kind, dtype, access = reader.kind()
        if kind != "buffer":
            return Argument(name, kind, dtype)
        reader.expect("bytes")
        size = reader.expression()
        alias = None
        if reader.take("alias"):
            buffers = [item.name for item in before if item.kind == "buffer"]
            alias = reader.known(buffers, "an earlier buffer argument")
        return Argument(name, kind, dtype, access, size, alias)

    def _launch(self, arguments: list[Argument], workspaces: list[Workspace]) -> Launch:
        reader = self.reader
        program = reader.name("the name of a program")
        reader.expect("grid")
        grid: tuple[Expr, ...] | None = None
        if not reader.take("caller"):
            grid = reader.expressions(3, "the grid") or (Const(1),)
        by_name = {item.name for item in arguments if item.kind != "symbol"}
        spaces = {item.name for item in workspaces}
        bindings: list[Binding] = []

        def binding() -> None:
            text = reader.word.text if reader.word.kind == "name" else ""
            if text in by_name:
                bindings.append(Binding(argument=reader.next().text))
            elif text in spaces:
                bindings.append(Binding(workspace=reader.next().text))
            else:
                bindings.append(Binding(expression=reader.expression()))

        reader.expect("(")
        reader.separated(")", binding)
        block: tuple[Expr, Expr, Expr] | None = None
        if reader.at("block"):
            start = reader.next()
            threads = reader.expressions(3, "the block")
            if len(threads) != 3:
                reader.fail(f"the block has {len(threads)} entries", allowed="three", at=start)
            block = (threads[0], threads[1], threads[2])
        scratch = reader.expression() if reader.take("scratch") else None
        return Launch(program, grid, tuple(bindings), block, scratch)
