"""Reads one `HPRG` section."""

from __future__ import annotations

import math
import struct

from hal.dtypes import DType
from hal.vil.binary_section import DTYPES, NONE16, Section, read_kind, refuse_repeats
from hal.vil.expressions import Expr
from hal.vil.model import (
    Axis,
    Descriptor,
    Digit,
    Dimension,
    Instruction,
    Param,
    Program,
    SReg,
    Term,
    Tile,
    TileRef,
    Token,
    Value,
)
from hal.vil.tables import (
    ENGINES,
    FUNCTIONS,
    LAYOUTS,
    OPS_BY_NUMBER,
    PROFILES,
    SPACES,
    names_by_number,
)

__all__ = ["decode_program"]

_PROFILES = names_by_number(PROFILES)
_ENGINES = names_by_number(ENGINES)
_SPACES = names_by_number(SPACES)
_LAYOUTS = names_by_number(LAYOUTS)
_FUNCTIONS = names_by_number(FUNCTIONS) | {0: ""}
_SOURCES = {0: "sreg", 1: "row", 2: "column"}
_TABLES = [
    ("params", 8),
    ("tiles", 32),
    ("descriptors", 88),
    ("terms", 8),
    ("tokens", 8),
    ("constants", 8),
    ("expressions", 8),
    ("code", 1),
    ("strings", 1),
    ("instructions", 32),
]


def decode_program(section: Section) -> Program:
    """The program of a section; raises VilBinaryError."""
    return _ProgramReader(section).program()


class _ProgramReader:
    def __init__(self, section: Section) -> None:
        self.section = section
        self.tables = section.tables(16, _TABLES)
        self.params = tuple(self._param(at) for at in self._places("params", 8))
        self.names: list[str | None] = [
            item.name if item.kind == "symbol" else None for item in self.params
        ]
        self.tiles = tuple(self._tile(at) for at in self._places("tiles", 32))
        self.expressions: dict[int, Expr] = {}

    def _places(self, table: str, size: int) -> range:
        offset, count = self.tables[table]
        return range(offset, offset + size * count, size)

    def program(self) -> Program:
        section = self.section
        name, profile, flags, sregs = section.fields(8, "IBBH", "program")
        if flags > 3:
            raise section.error(13, "flags", f"0x{flags:x}; allowed bits 0 and 1")
        descriptors = tuple(self._descriptor(at) for at in self._places("descriptors", 88))
        tokens = tuple(self._token(at) for at in self._places("tokens", 8))
        tables = (self.params, self.tiles, descriptors, tokens)
        names = [item.name for table in tables for item in table]
        refuse_repeats(section, names, 16, "names")
        return Program(
            section.string(name, 8, "name"),
            section.pick(_PROFILES, profile, 12, "profile"),
            self.params,
            self.tiles,
            descriptors,
            tokens,
            tuple(self._instruction(at) for at in self._places("instructions", 32)),
            sregs,
            bool(flags & 1),
            bool(flags & 2),
        )

    def _param(self, at: int) -> Param:
        name, *numbers = self.section.fields(at, "IBBB", "param")
        self.section.zero(at + 7, 1, "param.reserved")
        kind = read_kind(self.section, at + 4, (numbers[0], numbers[1], numbers[2]), "param")
        return Param(self.section.string(name, at, "param.name"), *kind)

    def _tile(self, at: int) -> Tile:
        section = self.section
        name, dtype, space, layout, _, *sizes = section.fields(at, "IBBBBIIIHH", "tile")
        section.zero(at + 7, 1, "tile.reserved")
        section.zero(at + 24, 8, "tile.reserved")
        return Tile(
            section.string(name, at, "tile.name"),
            section.pick(DTYPES, dtype, at + 4, "tile.dtype"),
            sizes[0],
            sizes[1],
            section.pick(_SPACES, space, at + 5, "tile.space"),
            sizes[2],
            sizes[3],
            section.pick(_LAYOUTS, layout, at + 6, "tile.layout"),
            sizes[4],
        )

    def _token(self, at: int) -> Token:
        section = self.section
        name, producer, consumer, credit = section.fields(at, "IBBH", "token")
        return Token(
            section.string(name, at, "token.name"),
            section.pick(_ENGINES, producer, at + 4, "token.producer"),
            section.pick(_ENGINES, consumer, at + 5, "token.consumer"),
            credit,
        )

    def _value(self, number: int, at: int, field: str) -> Value | None:
        if number == NONE16:
            return None
        if number & 0x8000:
            return SReg(number & 0x7FFF)
        if number not in self.expressions:
            self.expressions[number] = self.section.expression(
                self.tables["expressions"], number, self.names, at, field
            )
        return self.expressions[number]

    def _needed(self, number: int, at: int, field: str) -> Value:
        value = self._value(number, at, field)
        if value is None:
            raise self.section.error(at, field, "absent, but it is needed")
        return value

    def _constant(self, bits: int, dtype: DType, at: int, field: str) -> float | int:
        raw = struct.pack("<Q", bits)
        if dtype.kind in ("float", "float8"):
            (number,) = struct.unpack("<d", raw)
            return math.nan if number != number else float(number)
        (integer,) = struct.unpack("<q", raw)
        if not dtype.minimum <= integer <= dtype.maximum:
            raise self.section.error(at, field, f"{integer} is not a {dtype}")
        return int(integer)

    def _descriptor(self, at: int) -> Descriptor:
        section = self.section
        name, param, dtype_number, rank, first, count, rows, columns, fill = section.fields(
            at, "IHBBIHBBQ", "descriptor"
        )
        dtype = section.pick(DTYPES, dtype_number, at + 6, "descriptor.dtype")
        if param != NONE16 and param >= len(self.params):
            raise section.error(at + 4, "descriptor.param", f"{param} of {len(self.params)}")
        if not 1 <= rank <= 5:
            raise section.error(at + 7, "descriptor.rank", f"{rank}; allowed 1 to 5")
        section.zero(at + 54, 2, "descriptor.reserved")
        terms = self._terms(at, first, count, rank)
        dims = section.fields(at + 24, "15H", "descriptor.dimensions")
        if any(number != NONE16 for number in dims[3 * rank :]):
            raise section.error(at + 24, "descriptor.dimensions", "a dimension beyond the rank")
        dimensions = []
        for number in range(rank):
            place = at + 24 + 6 * number
            extent, stride, base = (
                self._needed(dims[3 * number + part], place + 2 * part, f"descriptor.{what}")
                for part, what in enumerate(("extent", "stride", "base"))
            )
            dimensions.append(Dimension(extent, stride, base, tuple(terms[number])))
        return Descriptor(
            section.string(name, at, "descriptor.name"),
            None if param == NONE16 else self.params[param].name,
            dtype,
            tuple(dimensions),
            self._axis(at + 56, rows, "row"),
            self._axis(at + 72, columns, "column"),
            self._constant(fill, dtype, at + 16, "descriptor.fill"),
        )

    def _terms(self, at: int, first: int, count: int, rank: int) -> list[list[Term]]:
        section = self.section
        offset, total = self.tables["terms"]
        if first + count > total:
            problem = f"terms {first} to {first + count} of {total}"
            raise section.error(at + 8, "descriptor.first_term", problem)
        result: list[list[Term]] = [[] for _ in range(rank)]
        last = 0
        for place in range(offset + 8 * first, offset + 8 * (first + count), 8):
            dimension, kind, index, coefficient = section.fields(place, "BBHH", "term")
            section.zero(place + 6, 2, "term.reserved")
            if not last <= dimension < rank:
                problem = f"{dimension}; sorted and below the rank {rank}"
                raise section.error(place, "term.dimension", problem)
            last = dimension
            source = section.pick(_SOURCES, kind, place + 1, "term.kind")
            factor = self._needed(coefficient, place + 4, "term.coefficient")
            result[dimension].append(Term(source, index, factor))
        return result

    def _axis(self, at: int, count: int, which: str) -> Axis:
        section = self.section
        numbers = section.fields(at, "8H", f"descriptor.{which}")
        if count > 3:
            raise section.error(at, f"descriptor.{which}", f"{count} digits; at most 3")
        if any(number != NONE16 for number in numbers[2 + 2 * count :]):
            raise section.error(at + 4, f"descriptor.{which}", "a digit beyond the digit count")
        digits = []
        for index in range(count):
            place = at + 4 + 4 * index
            size = self._value(numbers[2 + 2 * index], place, "digit.size")
            divisor = self._needed(numbers[3 + 2 * index], place + 2, "digit.divisor")
            digits.append(Digit(size, divisor))
        return Axis(
            self._value(numbers[0], at, f"{which}.origin"),
            self._value(numbers[1], at + 2, f"{which}.limit"),
            tuple(digits),
        )

    def _reference(self, tile: int, stage: int, at: int, role: str) -> TileRef | None:
        field = f"instruction.{role}"
        if tile == NONE16:
            if stage != NONE16:
                raise self.section.error(at + 2, field, "a stage without a tile")
            return None
        if tile >= len(self.tiles):
            raise self.section.error(at, field, f"tile {tile} of {len(self.tiles)}")
        return TileRef(tile, self._value(stage, at + 2, f"{field}.stage"))

    def _instruction(self, at: int) -> Instruction:
        section = self.section
        op, function, engine, axis, flag_bits, x, *rest = section.fields(
            at, "BBBBHH12H", "instruction"
        )
        spec = section.pick(OPS_BY_NUMBER, op, at, "instruction.op")
        known = {bit: name for name, bit in spec.flags.items()}
        if flag_bits >> (max(known, default=-1) + 1):
            problem = f"0x{flag_bits:x}; {spec.name} has no such flag"
            raise section.error(at + 4, "instruction.flags", problem)
        flags = {name for bit, name in known.items() if flag_bits >> bit & 1}
        d, a, b, c = (
            self._reference(rest[2 * i], rest[2 * i + 1], at + 8 + 4 * i, "dabc"[i])
            for i in range(4)
        )
        parameter: int | None = None
        constant: float | int | None = None
        index = None if x == NONE16 else x
        numbers = rest[8:]
        if spec.name == "fill":
            if "scalar" in flags:
                parameter = index
            elif d is not None and index is not None:
                constant = self._fill_constant(index, self.tiles[d.tile].dtype, at + 6)
            flags, index = flags - {"scalar"}, None
        name = section.pick(_FUNCTIONS, function, at + 1, "instruction.function")
        if spec.name == "sreg" and name == "arg":
            parameter = None if numbers[0] == NONE16 else numbers[0]
            numbers[0] = NONE16
        v0, v1, v2, v3 = (
            self._value(numbers[i], at + 24 + 2 * i, f"instruction.v{i}") for i in range(4)
        )
        return Instruction(
            spec.name,
            name,
            section.pick(_ENGINES, engine, at + 2, "instruction.engine"),
            axis,
            frozenset(flags),
            index,
            d,
            a,
            b,
            c,
            (v0, v1, v2, v3),
            parameter,
            constant,
        )

    def _fill_constant(self, index: int, dtype: DType, at: int) -> float | int:
        offset, count = self.tables["constants"]
        if index >= count:
            raise self.section.error(at, "instruction.x", f"constant {index} of {count}")
        bits = self.section.number(offset + 8 * index, "Q", "constant")
        return self._constant(bits, dtype, at, "instruction.x")
