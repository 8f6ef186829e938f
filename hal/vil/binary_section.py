"""A section of a binary image: bounds, fields and names, with errors that name the byte."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, TypeVar

from hal import dtypes
from hal.dtypes import DType
from hal.vil.errors import VilBinaryError, VilError
from hal.vil.expressions import Expr, decode_postfix
from hal.vil.tables import ACCESS, KINDS, names_by_number

__all__ = ["DTYPES", "HEADER_BYTES", "NONE16", "NONE32", "Section", "read_kind", "refuse_repeats"]

NONE16, NONE32 = 0xFFFF, 0xFFFFFFFF
HEADER_BYTES = 48
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_KIND_NAMES = names_by_number(KINDS)
_ACCESS_NAMES = names_by_number(ACCESS)
DTYPES: dict[int, DType] = {dtype.number: dtype for dtype in dtypes.ALL}
Item = TypeVar("Item")


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


def refuse_repeats(section: Section, names: list[str], at: int, field: str) -> None:
    """Refuses two equal names of one scope."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise section.error(at, field, f"two things are called {name}")
        seen.add(name)


def read_kind(
    section: Section, at: int, numbers: tuple[int, int, int], what: str
) -> tuple[str, DType | None, str]:
    """Kind, dtype and access of an argument or parameter whose kind byte is at `at`."""
    kind = section.pick(_KIND_NAMES, numbers[0], at, f"{what}.kind")
    dtype = section.pick(DTYPES, numbers[1], at + 1, f"{what}.dtype")
    if kind == "buffer":
        return kind, dtype, section.pick(_ACCESS_NAMES, numbers[2], at + 2, f"{what}.access")
    if numbers[2]:
        raise section.error(at + 2, f"{what}.access", f"{numbers[2]}; 0 for a {kind}")
    if kind == "symbol" and dtype.name != "i64":
        raise section.error(at + 1, f"{what}.dtype", f"{dtype}; a symbol is i64")
    return kind, None if kind == "symbol" else dtype, ""
