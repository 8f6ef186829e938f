"""The text form to objects. The grammar is one page: docs/ir.md."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TypeAlias, TypeVar

from hal.dtypes import DType
from hal.ir.expressions import INSTEAD, ExpressionReader
from hal.ir.lexer import DTYPES, Word
from hal.ir.nodes import (
    ASSIGNMENTS,
    Access,
    Array,
    Assign,
    Expr,
    Extent,
    Index,
    Kernel,
    Let,
    LetRef,
    ParamRef,
    Scalar,
    ScalarRef,
    Schedule,
    Span,
    Statement,
    transform,
    walk,
)
from hal.ir.program import Program

__all__ = ["parse"]

_Value = TypeVar("_Value")
_Pair: TypeAlias = tuple[tuple[str, _Value], Span]  # Of a schedule's clause, and where it stands.

_SECTIONS = "param index scalar input output inout temp let operation".split()
_CLAUSES = "tile stages space split".split()
_ROLES = ("input", "output", "inout", "temp")


def parse(text: str, name: str = "<text>", *, verify: bool = True) -> Program:
    """Read kernels and schedules.

    Args:
        text: The text form, docs/ir.md.
        name: Name of the text in messages, usually its file.
        verify: Also check all by the rules of `hal.ir.verify`.

    Raises:
        IrTextError: With `name:line:column`, the line and a caret; the first mistake only.
    """
    program = _Reader(text, name).program()
    if verify:
        from hal.ir.verify import check, check_schedules

        for kernel in program.kernels:
            check(kernel, source=text, name=name)
        check_schedules(program.schedules, program.kernels, source=text, name=name)
    return program


class _Reader(ExpressionReader):
    """Kernels and schedules."""

    def program(self) -> Program:
        kernels: list[Kernel] = []
        schedules: list[Schedule] = []
        places: list[tuple[int, int]] = []
        while self.word.kind != "end":
            if self.at("kernel"):
                kernel, place = self.kernel()
                kernels.append(kernel)
                places.append(place)
            elif self.at("schedule"):
                schedules.append(self.schedule())
            else:
                self.fail_word("`kernel` or `schedule`", ("kernel", "schedule"))
        return Program(
            tuple(kernels),
            tuple(schedules),
            comments=tuple(self.comments),
            places=tuple(places),
        )

    # --- kernels -----------------------------------------------------------------------------

    def kernel(self) -> tuple[Kernel, tuple[int, int]]:
        """One kernel; line of its first param, line of its end."""
        start = self.expect("kernel")
        parts = _Parts(self.kernel_name())
        self.expect("{")
        while not self.take("}"):
            if self.take(";"):
                continue
            word = self.word
            if word.kind == "end":
                self.fail(f"the kernel {parts.name} has no `}}`", at=start)
            if word.text not in _SECTIONS:
                if parts.in_operation and word.kind == "name":
                    parts.statements.append(self.statement())
                    continue
                self.fail_word("a section of a kernel or `}`", _SECTIONS)
            self.next()
            parts.in_operation = word.text == "operation" or (
                word.text == "let" and parts.in_operation
            )
            self.section(word, parts)
        end = self.words[self.position - 1].span.line
        return parts.resolved(self, start), (parts.param_line, end)

    def kernel_name(self) -> str:
        """Any name: here a word of the language is one too."""
        if self.word.kind != "name":
            self.fail(f"expected the kernel's name, found {self.word.shown()}")
        return self.next().text

    def section(self, word: Word, parts: _Parts) -> None:
        """What stands behind the first word of a section."""
        match word.text:
            case "param":
                parts.param_line = parts.param_line or word.span.line
                parts.params += [item.text for item in self.names("a param's name")]
                self.expect(":")
                if not self.take("int"):
                    self.fail("a param is an `int`", next_step="Write `param M, N : int`.")
            case "index":
                names = self.names("an index's name")
                self.expect(":")
                size = self.expression()
                parts.extents += [Extent(w.text, size, span=w.span) for w in names]
            case "scalar":
                while True:
                    dtype = self.dtype()
                    item = self.name_word("the scalar's name")
                    parts.scalars.append(Scalar(item.text, dtype, span=item.span))
                    if not self.take(","):
                        break
            case "let":
                item = self.name_word("a name for the value")
                self.expect("=")
                parts.statements.append(Let(item.text, self.expression(), span=item.span))
            case "operation":
                self.expect(":")
                parts.statements.append(self.statement())
            case role:
                self.expect(":")
                parts.arrays.append(self.array(role))
                while self.take(","):
                    parts.arrays.append(self.array(role))

    def names(self, what: str) -> list[Word]:
        """NAME {, NAME}"""
        found = [self.name_word(what)]
        while self.take(","):
            found.append(self.name_word(what))
        return found

    def dtype(self) -> DType:
        """The name of an element type."""
        word = self.word
        if word.text not in DTYPES:
            self.fail_word("an element type", tuple(DTYPES))
        self.next()
        return DTYPES[word.text]

    def array(self, role: str) -> Array:
        """dtype[extents] NAME"""
        dtype = self.dtype()
        self.expect("[")
        shape = self.items("]")
        item = self.name_word("the array's name")
        return Array(item.text, dtype, shape, role, span=item.span)

    def statement(self) -> Assign:
        """target {, target} = value"""
        first = self.word
        targets = [self.target()]
        while self.take(","):
            targets.append(self.target())
        word = self.word
        if word.text not in ASSIGNMENTS:
            hint = "Write `+=` and a minus on the right." if word.text == "-=" else ""
            listed = " ".join(ASSIGNMENTS)
            self.fail(
                f"expected one of {listed} behind the target, found {word.shown()}", next_step=hint
            )
        self.next()
        value = self.expression(named=True)
        return Assign(tuple(targets), word.text, value, span=self.span_from(first))

    def target(self) -> Access:
        """An access without a pad."""
        word = self.name_word("a statement's target, as `C[i, j]`")
        if not self.at("["):
            self.fail(
                f"the target {word.text} needs subscripts",
                at=word,
                next_step=INSTEAD.get(
                    word.text, f"Write {word.text}[i, j], or {word.text}[] for rank 0."
                ),
            )
        found = self.access(word)
        if found.pad is not None:
            self.fail("a target has no pad", at=word)
        return found

    # --- schedules ---------------------------------------------------------------------------

    def schedule(self) -> Schedule:
        """schedule KERNEL for "chip" { … }"""
        start = self.expect("schedule")
        kernel = self.kernel_name()
        if not self.take("for"):
            self.fail(
                f'a schedule names its chip, as schedule {kernel} for "sim/npu-small"; expected '
                f"`for`, found {self.word.shown()}"
            )
        if self.word.kind != "string":
            self.fail(f'expected the chip in quotes, as "sim/npu-small", found {self.word.shown()}')
        chip = self.next().text[1:-1]
        self.expect("{")
        tiles: list[_Pair[int]] = []
        spaces: list[_Pair[str]] = []
        split: list[_Pair[int]] = []
        stages: int | None = None
        while not self.take("}"):
            if self.take(";"):
                continue
            word = self.word
            if word.text not in _CLAUSES:
                self.fail_word("tile, stages, space, split or `}`", _CLAUSES)
            self.next()
            match word.text:
                case "tile":
                    tiles += self.pairs_of_lengths()
                case "split":
                    split += self.pairs_of_lengths()
                case "stages":
                    stages = self.count("the number of stages")
                case _:
                    spaces += self.pairs_of_spaces()
        return Schedule(
            kernel,
            chip,
            tuple(pair for pair, _ in tiles),
            stages,
            tuple(pair for pair, _ in spaces),
            tuple(pair for pair, _ in split),
            span=self.span_from(start),
            spans=tuple(span for _, span in (*tiles, *spaces, *split)),
        )

    def pairs_of_lengths(self) -> list[_Pair[int]]:
        """NAME INT {, NAME INT}"""
        found: list[_Pair[int]] = []
        while True:
            word = self.name_word("an index")
            pair = (word.text, self.count(f"a length for {word.text}"))
            found.append((pair, self.span_from(word)))
            if not self.take(","):
                return found

    def pairs_of_spaces(self) -> list[_Pair[str]]:
        """NAME SPACE {, NAME SPACE}"""
        found: list[_Pair[str]] = []
        while True:
            word = self.name_word("an array")
            if self.word.kind != "name":
                self.fail(f"expected a space for {word.text}, as near, found {self.word.shown()}")
            pair = (word.text, self.next().text)
            found.append((pair, self.span_from(word)))
            if not self.take(","):
                return found

    def count(self, what: str) -> int:
        """A literal of at least 1."""
        word = self.word
        if word.kind != "int" or not 0 < len(word.text) < 19 or int(word.text) < 1:
            self.fail(f"expected {what}, 1 or more, found {word.shown()}")
        return int(self.next().text)


class _Parts:
    """A kernel while it is read."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.params: list[str] = []
        self.param_line = 0
        self.extents: list[Extent] = []
        self.scalars: list[Scalar] = []
        self.arrays: list[Array] = []
        self.statements: list[Statement] = []
        self.in_operation = False

    def resolved(self, reader: _Reader, start: Word) -> Kernel:
        """The kernel, with each bare name made what its declaration says."""
        lets: set[str] = set()
        scalars = {item.name for item in self.scalars}
        arrays = {item.name for item in self.arrays}

        def one(expr: Expr) -> Expr:
            if not isinstance(expr, Index):
                return expr
            if expr.name in self.params:
                return ParamRef(expr.name, span=expr.span)
            if expr.name in scalars:
                return ScalarRef(expr.name, span=expr.span)
            if expr.name in lets:
                return LetRef(expr.name, span=expr.span)
            if expr.name in arrays:
                reader.fail_at(
                    expr.span,
                    f"the array {expr.name} needs subscripts",
                    next_step=f"Write {expr.name}[i, j], or {expr.name}[] for rank 0.",
                )
            return expr

        def size(expr: Expr) -> Expr:
            expr = transform(expr, one)
            for item in _bare(expr):
                near = get_close_matches(item.name, self.params, n=1)
                hint = f" Did you mean {near[0]}?" if near else ""
                reader.fail_at(
                    item.span,
                    f"{item.name} is no param",
                    next_step=f"Declare it: param {item.name} : int.{hint}",
                )
            return expr

        extents = tuple(Extent(e.name, size(e.size), span=e.span) for e in self.extents)
        made = tuple(
            Array(a.name, a.dtype, tuple(size(part) for part in a.shape), a.role, span=a.span)
            for a in self.arrays
        )
        statements: list[Statement] = []
        for item in self.statements:
            value = transform(item.value, one)
            if isinstance(item, Let):
                statements.append(Let(item.name, value, span=item.span))
                lets.add(item.name)
                continue
            targets = (transform(target, one) for target in item.targets)
            kept = tuple(target for target in targets if isinstance(target, Access))
            statements.append(Assign(kept, item.assignment, value, span=item.span))
        return Kernel(
            self.name,
            tuple(self.params),
            made,
            tuple(statements),
            tuple(self.scalars),
            extents,
            span=reader.span_from(start),
        )


def _bare(expr: Expr) -> list[Index]:
    return [item for item in walk(expr) if isinstance(item, Index)]
