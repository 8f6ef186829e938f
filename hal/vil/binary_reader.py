"""The binary form to objects. Every error names the byte offset and the field."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar

from hal import dtypes
from hal.dtypes import DType
from hal.vil.errors import VilBinaryError, VilError
from hal.vil.expressions import Expr, decode_postfix
from hal.vil.features import feature_names
from hal.vil.model import Argument, Binding, Kernel, Launch, Module, Program, Workspace
from hal.vil.tables import ACCESS, KINDS, names_by_number

__all__ = ["Envelope", "Section", "decode", "decode_envelope", "decode_signature"]

NONE16, NONE32 = 0xFFFF, 0xFFFFFFFF
HEADER_BYTES = 48
_ENVELOPE_PARTS = ((16, "signature"), (24, "format"), (32, "payload"))
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
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
    from hal.vil.binary_program import decode_program

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
    from hal.vil.features import feature_bits, required_features

    needed = feature_bits(required_features(module))
    if bits != needed:
        raise root.error(24, "features", f"0x{bits:x}; the content needs exactly 0x{needed:x}")


def refuse_repeats(section: Section, names: list[str], at: int, field: str) -> None:
    """Refuses two equal names of one scope."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise section.error(at, field, f"two things are called {name}")
        seen.add(name)


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


class Section:
    """A range of an image with its own tables; offsets in errors are those of the image."""

    def __init__(self, data: bytes, start: int, length: int, name: str) -> None:
        self.data = data
        self.start = start
        self.bytes = length
        self.name = name
        self.code: tuple[int, int] = (0, 0)
        self.strings: tuple[int, int] = (0, 0)

    def error(self, at: int, field: str, problem: str) -> VilBinaryError:
        """An error about the field at section offset `at`."""
        return VilBinaryError(problem, offset=self.start + at, field=f"{self.name}.{field}")

    def number(self, at: int, kind: str, field: str) -> int:
        """One little-endian number; `kind` is a `struct` letter."""
        return int(self.fields(at, kind, field)[0])

    def fields(self, at: int, layout: str, field: str) -> tuple[Any, ...]:
        """Several numbers behind each other."""
        size = struct.calcsize("<" + layout)
        if at < 0 or at + size > self.bytes:
            raise self.error(at, field, f"ends beyond the section of {self.bytes} bytes")
        return struct.unpack_from("<" + layout, self.data, self.start + at)

    def span(self, at: int, name: str) -> tuple[int, int, str]:
        """(begin, end, name) of what a pair {offset, length} points to."""
        offset, length = self.fields(at, "II", name)
        return offset, offset + length, name

    def zero(self, at: int, size: int, field: str) -> None:
        """Refuses a reserved field that is not zero."""
        (raw,) = self.fields(at, f"{size}s", field)
        if any(raw):
            raise self.error(at, field, f"0x{raw[::-1].hex()}; a reserved field is 0")

    def extent(self, at: int, field: str) -> bytes:
        """The bytes that a pair {offset, length} at `at` points to."""
        offset, length = self.fields(at, "II", field)
        if offset % 8 or offset + length > self.bytes:
            problem = f"{length} bytes at {offset} do not fit {self.bytes} or are not aligned to 8"
            raise self.error(at, field, problem)
        return self.data[self.start + offset : self.start + offset + length]

    def subsection(self, at: int, name: str, magic: bytes) -> Section:
        """The section that a pair {offset, length} at `at` points to."""
        offset, length = self.fields(at, "II", name)
        if offset % 8 or offset < HEADER_BYTES or offset + length > self.bytes:
            problem = f"{length} bytes at {offset} do not fit {self.bytes} or are not aligned to 8"
            raise self.error(at, name, problem)
        inner = Section(self.data, self.start + offset, length, name)
        if self.data[inner.start : inner.start + 4] != magic:
            found = self.data[inner.start : inner.start + 4]
            raise inner.error(0, "magic", f"{found!r}; {magic!r} is right")
        if inner.number(4, "I", "bytes") != length:
            raise inner.error(4, "bytes", f"the section's own size differs from {length}")
        return inner

    def tables(self, at: int, layout: list[tuple[str, int]]) -> dict[str, tuple[int, int]]:
        """Reads {offset, count} pairs; `layout` gives name and record size in order."""
        result: dict[str, tuple[int, int]] = {}
        spans: list[tuple[int, int, str]] = []
        header = at + 8 * len(layout)
        for number, (name, size) in enumerate(layout):
            place = at + 8 * number
            offset, count = self.fields(place, "II", name)
            if count == 0:
                if offset:
                    raise self.error(place, name, f"an empty table at {offset}; offset 0 is right")
            elif offset % 8 or offset < header or offset + size * count > self.bytes:
                problem = f"{count} records of {size} at {offset} do not fit {self.bytes} bytes"
                raise self.error(place, name, problem)
            else:
                spans.append((offset, offset + size * count, name))
            result[name] = (offset, count)
        self.cover(header, spans)
        self.code, self.strings = result["code"], result["strings"]
        return result

    def cover(self, start: int, spans: list[tuple[int, int, str]]) -> None:
        """Refuses overlaps of (begin, end, name) and anything but zeros between them."""
        bounds = [(start, start, "header"), *sorted(spans), (self.bytes, self.bytes, "end")]
        for (_, end, first), (begin, _, second) in pairwise(bounds):
            if begin < end:
                raise self.error(begin, second, f"overlaps {first}")
            if any(self.data[self.start + end : self.start + begin]):
                raise self.error(end, "padding", f"not zero between {first} and {second}")

    def string(self, reference: int, at: int, field: str) -> str:
        """A name of the string blob."""
        offset, size = self.strings
        begin = self.start + offset + reference
        limit = self.start + offset + size
        end = self.data.find(b"\0", begin, limit) if reference < size else -1
        if end < 0:
            raise self.error(at, field, f"string {reference} is not inside the {size} bytes")
        raw = self.data[begin:end]
        text = raw.decode("utf-8", "replace")
        if not _NAME.fullmatch(text) or text in ("inf", "nan", "true", "false"):
            problem = f"{text[:70]!r}; a name has letters, digits, _ and at most 63 bytes"
            raise self.error(at, field, problem)
        return text

    def expression(
        self, table: tuple[int, int], index: int, names: list[str | None], at: int, field: str
    ) -> Expr:
        """Expression number `index`."""
        offset, count = table
        if index >= count:
            raise self.error(at, field, f"expression {index} of {count}")
        begin, size = self.fields(offset + 8 * index, "II", "expression")
        code_offset, code_bytes = self.code
        if begin + size > code_bytes:
            problem = f"{size} bytes at {begin} of {code_bytes} bytes of code"
            raise self.error(offset + 8 * index, "expression", problem)
        place = self.start + code_offset + begin
        try:
            return decode_postfix(self.data[place : place + size], names)
        except VilError as error:
            raise self.error(code_offset + begin, field, error.problem) from None

    def pick(self, table: Mapping[int, Item], number: int, at: int, field: str) -> Item:
        """The entry of an enumeration; an unknown number is an error."""
        if number not in table:
            allowed = " ".join(map(str, sorted(table)))
            raise self.error(at, field, f"{number}; allowed: {allowed}")
        return table[number]


_KIND_NAMES = names_by_number(KINDS)
_ACCESS_NAMES = names_by_number(ACCESS)
_DTYPES: dict[int, DType] = {dtype.number: dtype for dtype in dtypes.ALL}


def read_kind(
    section: Section, at: int, numbers: tuple[int, int, int], what: str
) -> tuple[str, DType | None, str]:
    """Kind, dtype and access of an argument or parameter whose kind byte is at `at`."""
    kind = section.pick(_KIND_NAMES, numbers[0], at, f"{what}.kind")
    dtype = section.pick(_DTYPES, numbers[1], at + 1, f"{what}.dtype")
    if kind == "buffer":
        return kind, dtype, section.pick(_ACCESS_NAMES, numbers[2], at + 2, f"{what}.access")
    if numbers[2]:
        raise section.error(at + 2, f"{what}.access", f"{numbers[2]}; 0 for a {kind}")
    if kind == "symbol" and dtype.name != "i64":
        raise section.error(at + 1, f"{what}.dtype", f"{dtype}; a symbol is i64")
    return kind, None if kind == "symbol" else dtype, ""


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
