"""SCAN and TOPK with the operations of tier 1."""

from __future__ import annotations

from dataclasses import dataclass

from hal import dtypes
from hal.codegen.tier1_rewriter import Rewriter, limits_of
from hal.vil.builder import TileHandle, ValueLike
from hal.vil.model import Instruction

__all__ = ["scan", "topk"]


def scan(p: Rewriter, item: Instruction) -> None:
    """SCAN d, a: position by position, RED over those that take part (the rest is the identity).

    RED has the accumulators of SCAN, so each position is rounded once, as SCAN rounds it.
    """
    d, a, axis = p.handle(item.d), p.handle(item.a), item.axis
    rows, columns = a.tile.rows, a.tile.columns
    dtype = a.tile.dtype
    least, most = limits_of(dtype)
    identity = {"add": 0, "mul": 1, "max": least, "min": most}[item.function]
    length = rows if axis == 0 else columns
    place = p.positions(axis, dtypes.i32, length)
    part = p.scratch("part", d.tile.dtype, *((1, columns) if axis == 0 else (rows, 1)))
    kept, until = p.like("kept", a), p.scratch("until", dtypes.i32, 1, 1)
    mask = p.like("takes part", place, dtypes.bool_)
    if a.tile.dtype == d.tile.dtype:
        p.un("mov", d, a)
    else:
        p.cast(d, a)

    def one(position: ValueLike) -> None:
        p.iota(until, base=position)
        ordered = (until, place) if "reverse" in item.flags else (place, until)
        p.bin("lt" if "exclusive" in item.flags else "le", mask, *ordered)
        p.sel(kept, mask, a, p.constant(dtype, identity))
        p.red(item.function, part, kept, axis=axis)
        p.bin("eq", mask, place, until)
        p.sel(d, mask, part, d)

    p.repeat(length, one)


@dataclass(frozen=True, slots=True)
class _Side:
    """Where a list gets its next entry from: the list so far, or the new tile.

    Attributes:
        values, indices: Entries; the indices have the shape of values, or one row.
        free: Mask: not yet taken.
        key: The values with NaN as inf; for integers the values themselves.
        nan: Mask of NaN; None for integers.
    """

    role: str
    values: TileHandle
    indices: TileHandle
    free: TileHandle
    key: TileHandle
    nan: TileHandle | None


@dataclass(frozen=True, slots=True)
class _Best:
    """The best free entry of each row: one column each, and where it stands."""

    value: TileHandle
    key: TileHandle
    index: TileHandle
    has: TileHandle
    nan: TileHandle | None
    place: TileHandle


def topk(p: Rewriter, item: Instruction, length: ValueLike) -> None:
    """TOPK d, c, a: k times, take the best entry left in the list so far and in the tile.

    Args:
        length: Valid columns of the list afterwards.
    """
    d, c, a = p.handle(item.d), p.handle(item.c), p.handle(item.a)
    smallest = "smallest" in item.flags
    rows, size = d.tile.rows, d.tile.columns
    dtype, index = d.tile.dtype, c.tile.dtype
    numbers = p.scratch("new indices", index, 1, a.tile.columns)
    p.iota(numbers, base=item.values[0], column=1)
    sides = [_side(p, "new", a, numbers)]
    if "init" not in item.flags:
        values, indices = p.like("old values", d), p.like("old indices", c)
        both = p.like("both", d, dtypes.bool_)
        p.bin("and", both, p.always("has value", d), p.always("has index", c))
        p.sel(values, both, d, d)
        p.sel(indices, both, c, c)
        sides.append(_side(p, "old", values, indices))
    p.fill(d, 0, columns=length)
    p.fill(c, 0, columns=length)
    place = p.positions(1, dtypes.i32, size)

    def one(position: ValueLike) -> None:
        bests = [_best(p, side, smallest) for side in sides]
        is_place = p.equal_to(place, position, "is place")
        if len(bests) == 1:
            best = bests[0]
            p.sel(d, is_place, best.value, d)
            p.sel(c, is_place, best.index, c)
            p.sel(sides[0].free, best.place, p.constant(dtypes.bool_, 0), sides[0].free)
            return
        new, old = bests
        takes_old = _goes_first(p, old, new, smallest)
        value, number = p.scratch("value", dtype, rows, 1), p.scratch("number", index, rows, 1)
        p.sel(value, takes_old, old.value, new.value)
        p.sel(number, takes_old, old.index, new.index)
        p.sel(d, is_place, value, d)
        p.sel(c, is_place, number, c)
        takes_new = p.like("takes new", takes_old)
        p.un("not", takes_new, takes_old)
        for side, best, taken in ((sides[0], new, takes_new), (sides[1], old, takes_old)):
            p.bin("and", best.place, best.place, taken)
            p.sel(side.free, best.place, p.constant(dtypes.bool_, 0), side.free)

    p.repeat(size, one)


def _side(p: Rewriter, role: str, values: TileHandle, indices: TileHandle) -> _Side:
    free = p.always(f"{role} free", values)
    if not values.tile.dtype.is_float:
        return _Side(role, values, indices, free, values, None)
    nan, key = p.like(f"{role} nan", values, dtypes.bool_), p.like(f"{role} key", values)
    p.bin("ne", nan, values, values)
    p.sel(key, nan, p.constant(values.tile.dtype, float("inf")), values)
    return _Side(role, values, indices, free, key, nan)


def _best(p: Rewriter, side: _Side, smallest: bool) -> _Best:
    """The entry of each row that goes first: by key, then NaN, then index, then position."""
    dtype, rows = side.values.tile.dtype, side.values.tile.rows
    least, most = limits_of(dtype)
    bound = p.constant(dtype, most if smallest else least)
    kept, key = p.like("kept", side.key), p.scratch(f"{side.role} best", dtype, rows, 1)
    mask = p.like(f"{side.role} mask", side.values, dtypes.bool_)
    p.sel(kept, side.free, side.key, bound)
    p.red("min" if smallest else "max", key, kept, axis=1)
    p.bin("eq", mask, side.key, key)
    p.bin("and", mask, mask, side.free)
    nan = None
    if side.nan is not None:
        nan = _nan_first(p, side, mask, smallest)
    index = _lowest(p, f"{side.role} index", mask, side.indices)
    same = p.like("same index", side.values, dtypes.bool_)
    p.bin("eq", same, side.indices, index)
    p.bin("and", mask, mask, same)
    place = p.positions(1, dtypes.i32, side.values.tile.columns)
    first = _lowest(p, f"{side.role} place", mask, place)
    p.bin("eq", same, place, first)
    p.bin("and", mask, mask, same)
    has = p.any_of(f"{side.role} has", mask)
    value = p.pick(f"{side.role} value", mask, side.values, axis=1)
    return _Best(value, key, index, has, nan, mask)


def _nan_first(p: Rewriter, side: _Side, mask: TileHandle, smallest: bool) -> TileHandle:
    """Keeps in the mask NaN before inf (smallest: behind it); returns whether NaN is left."""
    assert side.nan is not None
    some = p.like("some", mask)
    p.bin("and", some, mask, side.nan)
    if not smallest:
        nan = p.any_of(f"{side.role} is nan", some)
        p.bin("xor", some, side.nan, nan)
        p.un("not", some, some)
        p.bin("and", mask, mask, some)
        return nan
    p.bin("xor", some, mask, some)
    real = p.any_of(f"{side.role} is real", some)
    p.bin("xor", some, side.nan, real)
    p.bin("and", mask, mask, some)
    nan = p.like(f"{side.role} is nan", real)
    p.un("not", nan, real)
    return nan


def _lowest(p: Rewriter, role: str, mask: TileHandle, numbers: TileHandle) -> TileHandle:
    """The least of `numbers` where the mask is true, one column."""
    dtype = numbers.tile.dtype
    kept = p.scratch("numbers", dtype, mask.tile.rows, mask.tile.columns)
    found = p.scratch(role, dtype, mask.tile.rows, 1)
    p.sel(kept, mask, numbers, p.constant(dtype, limits_of(dtype)[1]))
    p.red("min", found, kept, axis=1)
    return found


def _goes_first(p: Rewriter, left: _Best, right: _Best, smallest: bool) -> TileHandle:
    """Mask: the left entry goes before the right one; one that exists before one that does not."""
    first, equal = p.like("first", left.has), p.like("equal", left.has)
    part, result = p.like("part", left.has), p.like("goes first", left.has)
    p.bin("le", first, left.index, right.index)
    if left.nan is not None and right.nan is not None:
        p.bin("xor", equal, left.nan, right.nan)  # one of them is NaN
        p.sel(first, equal, right.nan if smallest else left.nan, first)
    p.bin("eq", equal, left.key, right.key)
    p.bin("and", first, first, equal)
    ordered = (left.key, right.key) if smallest else (right.key, left.key)
    p.bin("lt", part, *ordered)
    p.bin("or", first, first, part)
    p.un("not", part, right.has)
    p.bin("or", first, first, part)
    p.bin("and", result, first, left.has)
    return result
