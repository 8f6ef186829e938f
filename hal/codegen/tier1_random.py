"""RNG with the operations of tier 1: Philox4x32-10 in i32 tiles (docs/vil.md, section 5.8)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from hal import dtypes
from hal.codegen.tier1_rewriter import Rewriter
from hal.dtypes import DType
from hal.vil.builder import TileHandle, ValueLike
from hal.vil.model import Instruction

__all__ = ["Words", "Writer", "philox", "rng", "uniform"]

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
INCREMENTS = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10


def _signed(word: int) -> int:
    return word - (1 << 32) if word >> 31 else word


@dataclass(frozen=True, slots=True)
class Words:
    """A 64-bit number of each element as two i32 tiles, which may be one row, column or element."""

    low: TileHandle
    high: TileHandle


class Writer(Protocol):
    """What Philox is written with: a Rewriter, or anything with tiles, constants and loops."""

    def like(self, role: str, a: TileHandle, dtype: DType | None = None) -> TileHandle: ...

    def constant(self, dtype: DType, value: float | int) -> TileHandle: ...

    def repeat(self, count: int, body: Callable[[ValueLike], None]) -> None: ...

    def un(self, function: str, d: TileHandle, a: TileHandle) -> None: ...

    def bin(self, function: str, d: TileHandle, a: TileHandle, b: TileHandle) -> None: ...

    def sel(self, d: TileHandle, a: TileHandle, b: TileHandle, c: TileHandle) -> None: ...

    def cast(self, d: TileHandle, a: TileHandle) -> None: ...


def rng(p: Rewriter, item: Instruction) -> None:
    """RNG d: the logical index by IOTA, a row at a time for its upper word; then Philox."""
    d = p.handle(item.d)
    base, pitch, seed, offset = (0 if value is None else value for value in item.values)
    element = _indices(p, d, base, pitch)
    raw = d if item.function == "raw" else p.like("random", d, dtypes.i32)
    key = [_word(p, f"key {number}", seed, number) for number in (0, 1)]
    shift = [_word(p, f"offset {number}", offset, number) for number in (0, 1)]
    philox(p, raw, element, Words(*key), Words(*shift))
    if item.function == "uniform":
        uniform(p, d, raw)


def _word(p: Rewriter, role: str, value: ValueLike, number: int) -> TileHandle:
    """The low (0) or high (1) word of an i64 value as a 1 × 1 tile."""
    tile = p.scratch(role, dtypes.i32, 1, 1)
    p.iota(tile, base=p.compute("shr", value, 32) if number else value)
    return tile


def _indices(p: Rewriter, d: TileHandle, base: ValueLike, pitch: ValueLike) -> Words:
    """base + i · pitch + j, mod 2⁶⁴."""
    low, high = p.like("index low", d, dtypes.i32), p.like("index high", d, dtypes.i32)
    p.iota(low, base=base, row=pitch, column=1)
    p.fill(high, 0)
    rows, columns = d.tile.rows, d.tile.columns
    line, start = (
        p.scratch("low line", dtypes.i32, 1, columns),
        p.scratch("start", dtypes.i32, 1, 1),
    )
    upper, carry = p.scratch("upper", dtypes.i32, 1, columns), p.like("carry", line, dtypes.bool_)
    top = p.scratch("top", dtypes.i32, 1, 1)
    flip, one = p.constant(dtypes.i32, -(2**31)), p.constant(dtypes.i32, 1)
    down = p.positions(0, dtypes.i32, rows)

    def row(number: ValueLike) -> None:
        first = p.compute("add", p.compute("mul", number, pitch), base)
        p.iota(start, base=first)
        p.iota(line, base=first, column=1)
        p.bin("xor", start, start, flip)  # unsigned order is signed order of flipped words
        p.bin("xor", line, line, flip)
        p.bin("lt", carry, line, start)
        p.iota(top, base=p.compute("shr", first, 32))
        p.sel(upper, carry, one, p.constant(dtypes.i32, 0))
        p.bin("add", upper, upper, top)
        p.sel(high, p.equal_to(down, number), upper, high)

    p.repeat(rows, row)
    return Words(low, high)


def philox(p: Writer, out: TileHandle, element: Words, key: Words, offset: Words) -> None:
    """out = the raw 32 bits of each element: any integer index, key and offset.

    Args:
        out: i32, R × C; the words of the others are R or 1 by C or 1.
    """
    names = ("c0", "c1", "c2", "c3", "carried")
    words = [p.like(f"counter {name}", out, dtypes.i32) for name in names]
    c0, c1, c2, c3, part = words
    number = {n: p.constant(dtypes.i32, n) for n in (0, 1, 2, 3, 30)}
    p.bin("shru", c0, element.low, number[2])
    p.bin("shl", c1, element.high, number[30])
    p.bin("or", c0, c0, c1)
    p.bin("shru", c1, element.high, number[2])
    p.un("mov", c2, offset.low)
    p.un("mov", c3, offset.high)
    keys = [p.like(f"round key {n}", k) for n, k in enumerate((key.low, key.high))]
    for k, given in zip(keys, (key.low, key.high), strict=True):
        p.un("mov", k, given)
    high0, high2 = p.like("high 0", out), p.like("high 2", out)

    def one(_: ValueLike) -> None:
        _upper(p, high0, part, c0, MULTIPLIERS[0])
        _upper(p, high2, part, c2, MULTIPLIERS[1])
        p.bin("mul", part, c0, p.constant(dtypes.i32, _signed(MULTIPLIERS[0])))
        p.bin("xor", c0, high2, c1)
        p.bin("xor", c0, c0, keys[0])
        p.bin("mul", c1, c2, p.constant(dtypes.i32, _signed(MULTIPLIERS[1])))
        p.bin("xor", c2, high0, c3)
        p.bin("xor", c2, c2, keys[1])
        p.un("mov", c3, part)
        for k, increment in zip(keys, INCREMENTS, strict=True):
            p.bin("add", k, k, p.constant(dtypes.i32, _signed(increment)))

    p.repeat(ROUNDS, one)
    lane, is_lane = p.like("lane", element.low), p.like("is lane", element.low, dtypes.bool_)
    p.bin("and", lane, element.low, number[3])
    p.un("mov", out, c0)
    for n, word in ((1, c1), (2, c2), (3, c3)):
        p.bin("eq", is_lane, lane, number[n])
        p.sel(out, is_lane, word, out)


def _upper(p: Writer, out: TileHandle, part: TileHandle, word: TileHandle, by: int) -> None:
    """out = upper half of the unsigned product, from the signed one: by counts as by − 2³²."""
    factor = p.constant(dtypes.i32, _signed(by))
    p.bin("mulhi", out, word, factor)
    p.bin("add", out, out, word)
    p.bin("shr", part, word, p.constant(dtypes.i32, 31))
    p.bin("and", part, part, factor)
    p.bin("add", out, out, part)


def uniform(p: Writer, d: TileHandle, raw: TileHandle) -> None:
    """d = (raw >> 8) · 2⁻²⁴ in f32; raw is used up."""
    p.bin("shru", raw, raw, p.constant(dtypes.i32, 8))
    p.cast(d, raw)
    p.bin("mul", d, d, p.constant(dtypes.f32, 2.0**-24))
