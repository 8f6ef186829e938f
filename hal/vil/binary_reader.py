"""The binary form to objects. Every error names the byte offset and the field."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from hal.dtypes import DType
from hal.vil.binary_program import decode_program
from hal.vil.binary_section import HEADER_BYTES, NONE32, Section, read_kind, refuse_repeats
from hal.vil.expressions import Expr
from hal.vil.features import feature_bits, feature_names, required_features
from hal.vil.model import Argument, Binding, Kernel, Launch, Program, Workspace
from hal.vil.module import Module

__all__ = ["Envelope", "decode", "decode_envelope", "decode_signature"]

_ENVELOPE_PARTS = ((16, "signature"), (24, "format"), (32, "payload"))
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Envelope:
    """An `HIMG` image: kernels of the signature, name of the format and the payload."""

    kernels: tuple[Kernel, ...]
    format: str
    payload: bytes


def decode(image: bytes) -> Module:
    """The module of an `HVIL` image.

    Raises:
        VilBinaryError: the image is malformed. It says nothing about meaning: see `validate`.
    """
    root = Section(bytes(image), 0, len(image), "image")
    _check_header(root, b"HVIL")
    bits = root.number(24, "Q", "features")
    try:
        feature_names(bits)
    except KeyError as error:
        raise root.error(24, "features", f"unknown feature bit {error}") from None
    program_count = root.number(36, "I", "program_count")
    table = root.number(32, "I", "program_table_offset")
    if program_count and (table % 8 or table + 8 * program_count > len(image)):
        problem = f"{program_count} entries at {table} do not fit {len(image)} bytes"
        raise root.error(32, "program_table_offset", problem)
    programs: list[Program] = []
    spans = [(table, table + 8 * program_count, "program table")] if program_count else []
    for index in range(program_count):
        at = table + 8 * index
        section = root.subsection(at, "program", b"HPRG")
        spans.append((section.start, section.start + section.bytes, f"program {index}"))
        programs.append(decode_program(section))
    _refuse_duplicates(root, programs)
    kernels = _signature(root, [program.name for program in programs])
    root.cover(HEADER_BYTES, [*spans, root.span(16, "signature")])
    module = Module(kernels, tuple(programs))
    _check_features(root, module, bits)
    return module


def _check_features(root: Section, module: Module, bits: int) -> None:
    needed = feature_bits(required_features(module))
    if bits != needed:
        raise root.error(24, "features", f"0x{bits:x}; the content needs exactly 0x{needed:x}")


def _refuse_duplicates(root: Section, programs: list[Program]) -> None:
    refuse_repeats(root, [program.name for program in programs], 36, "programs")


def decode_envelope(image: bytes) -> Envelope:
    """The parts of an `HIMG` image; raises VilBinaryError."""
    root = Section(bytes(image), 0, len(image), "image")
    _check_header(root, b"HIMG")
    name = root.extent(24, "format")
    payload = root.extent(32, "payload")
    try:
        format_name = name.decode()
    except UnicodeDecodeError:
        raise root.error(24, "format", "the name is not UTF-8") from None
    kernels = _signature(root, None)
    root.cover(HEADER_BYTES, [root.span(*pair) for pair in _ENVELOPE_PARTS])
    return Envelope(kernels, format_name, payload)


def decode_signature(image: bytes) -> tuple[Kernel, ...]:
    """The kernels of an image of either kind; raises VilBinaryError."""
    root = Section(bytes(image), 0, len(image), "image")
    _check_header(root, b"HIMG" if image[:4] == b"HIMG" else b"HVIL")
    return _signature(root, None)


def _check_header(root: Section, magic: bytes) -> None:
    if root.bytes < HEADER_BYTES:
        raise root.error(0, "header", f"{root.bytes} bytes; at least {HEADER_BYTES} are needed")
    if root.data[:4] != magic:
        raise root.error(0, "magic", f"{root.data[:4]!r}; {magic!r} is right")
    major, minor = root.number(4, "H", "version_major"), root.number(6, "H", "version_minor")
    if major != 1:
        raise root.error(4, "version_major", f"{major}.{minor}; this reader knows 1.x")
    total = root.number(8, "I", "image_bytes")
    if total != root.bytes:
        raise root.error(8, "image_bytes", f"{total}, but the image has {root.bytes}")
    header = root.number(12, "I", "header_bytes")
    if header != HEADER_BYTES:
        raise root.error(12, "header_bytes", f"{header}; {HEADER_BYTES} is right")
    root.zero(40, 8, "reserved")


def _signature(root: Section, programs: list[str] | None) -> tuple[Kernel, ...]:
    section = root.subsection(16, "signature", b"HSIG")
    version = section.fields(8, "HH", "version")
    if version != (1, 0):
        raise section.error(8, "version", f"{version[0]}.{version[1]}; this reader knows 1.0")
    section.zero(12, 4, "reserved")
    layout = [
        ("kernels", 32),
        ("arguments", 24),
        ("workspaces", 8),
        ("launches", 48),
        ("bindings", 8),
        ("expressions", 8),
        ("code", 1),
        ("strings", 1),
    ]
    tables = section.tables(16, layout)
    reader = _SignatureReader(section, tables, programs)
    kernels = tuple(reader.kernel(index) for index in range(tables["kernels"][1]))
    refuse_repeats(section, [kernel.name for kernel in kernels], 16, "kernels")
    return kernels


class _SignatureReader:
    """Reads the records of one signature section."""

    def __init__(
        self,
        section: Section,
        tables: dict[str, tuple[int, int]],
        programs: list[str] | None,
    ) -> None:
        self.section = section
        self.tables = tables
        self.programs = programs
        self.symbols: list[str | None] = []

    def _slice(
        self, table: str, size: int, first: int, count: int, at: int, read: Callable[[int], Item]
    ) -> tuple[Item, ...]:
        offset, total = self.tables[table]
        if first + count > total:
            problem = f"records {first} to {first + count} of {total}"
            raise self.section.error(at, f"kernel.{table}", problem)
        return tuple(read(offset + size * (first + index)) for index in range(count))

    def _expression(self, index: int, at: int, field: str) -> Expr:
        table = self.tables["expressions"]
        return self.section.expression(table, index, self.symbols, at, field)

    def _optional(self, index: int, at: int, field: str) -> Expr | None:
        return None if index == NONE32 else self._expression(index, at, field)

    def kernel(self, index: int) -> Kernel:
        section = self.section
        at = self.tables["kernels"][0] + 32 * index
        numbers = section.fields(at, "8I", "kernel")
        name = section.string(numbers[0], at, "kernel.name")
        section.zero(at + 28, 4, "kernel.reserved")
        heads = self._slice("arguments", 24, numbers[1], numbers[2], at + 4, self._head)
        self.symbols = [name if kind == "symbol" else None for name, kind, _, _ in heads]
        self.arguments = [head[0] for head in heads]
        self.numbers = iter(range(len(heads)))
        self.heads = heads
        arguments = self._slice("arguments", 24, numbers[1], numbers[2], at + 4, self._argument)
        workspaces = self._slice("workspaces", 8, numbers[3], numbers[4], at + 12, self._workspace)
        self.workspaces = [item.name for item in workspaces]
        refuse_repeats(section, self.arguments + self.workspaces, at, "kernel.names")
        launches = self._slice("launches", 48, numbers[5], numbers[6], at + 20, self._launch)
        return Kernel(name, arguments, workspaces, launches)

    def _head(self, at: int) -> tuple[str, str, DType | None, str]:
        name, *numbers = self.section.fields(at, "IBBB", "argument")
        kind = read_kind(self.section, at + 4, (numbers[0], numbers[1], numbers[2]), "argument")
        return self.section.string(name, at, "argument.name"), *kind

    def _argument(self, at: int) -> Argument:
        section = self.section
        index = next(self.numbers)
        name, kind, dtype, access = self.heads[index]
        required, alias = section.fields(at + 8, "II", "argument")
        section.zero(at + 7, 1, "argument.reserved")
        section.zero(at + 16, 8, "argument.reserved")
        if kind != "buffer":
            if required != NONE32 or alias != NONE32:
                field = "argument.required_bytes"
                raise section.error(at + 8, field, f"set, but {name} is no buffer")
            return Argument(name, kind, dtype, access)
        if alias != NONE32 and alias >= index:
            raise section.error(at + 12, "argument.alias", f"{alias}; an earlier one than {index}")
        size = self._expression(required, at + 8, "argument.required_bytes")
        target = None if alias == NONE32 else self.arguments[alias]
        return Argument(name, kind, dtype, access, size, target)

    def _workspace(self, at: int) -> Workspace:
        name, size = self.section.fields(at, "II", "workspace")
        return Workspace(
            self.section.string(name, at, "workspace.name"),
            self._expression(size, at + 4, "workspace.bytes"),
        )

    def _launch(self, at: int) -> Launch:
        section = self.section
        numbers = section.fields(at, "12I", "launch")
        name = section.string(numbers[0], at, "launch.name")
        section.zero(at + 44, 4, "launch.reserved")
        if self.programs is not None:
            if numbers[1] >= len(self.programs):
                problem = f"{numbers[1]} of {len(self.programs)}"
                raise section.error(at + 4, "launch.program", problem)
            if self.programs[numbers[1]] != name:
                problem = f"program {numbers[1]} is {self.programs[numbers[1]]}, not {name}"
                raise section.error(at + 4, "launch.program", problem)
        grid = [self._optional(number, at + 8, "launch.grid") for number in numbers[2:5]]
        used = [axis for axis in grid if axis is not None]
        if grid[: len(used)] != used:
            raise section.error(at + 8, "launch.grid", "an axis follows an absent one")
        block = [self._optional(number, at + 28, "launch.block") for number in numbers[7:10]]
        threads = [axis for axis in block if axis is not None]
        if len(threads) not in (0, 3):
            raise section.error(at + 28, "launch.block", "all three or none")
        bindings = self._slice("bindings", 8, numbers[5], numbers[6], at + 20, self._binding)
        return Launch(
            name,
            tuple(used) if used else None,
            bindings,
            (threads[0], threads[1], threads[2]) if threads else None,
            self._optional(numbers[10], at + 40, "launch.scratch"),
        )

    def _binding(self, at: int) -> Binding:
        section = self.section
        kind, index = section.fields(at, "B3xI", "binding")
        section.zero(at + 1, 3, "binding.reserved")
        if kind == 3:
            return Binding(expression=self._expression(index, at + 4, "binding.index"))
        names = {1: self.arguments, 2: self.workspaces}.get(kind)
        if names is None:
            raise section.error(at, "binding.kind", f"{kind}; allowed: 1 2 3")
        if index >= len(names):
            raise section.error(at + 4, "binding.index", f"{index} of {len(names)}")
        return Binding(argument=names[index]) if kind == 1 else Binding(workspace=names[index])
