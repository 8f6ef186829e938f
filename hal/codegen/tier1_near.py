"""LOAD and STORE with near descriptors, with the operations of tier 1.

Every element of the tile on this side gets its offset in the near tile by integer arithmetic on
tiles, −1 where a coordinate is outside. Then each element of the near tile is met once: it moves to
(or comes from) the elements whose offset it has.
"""

from __future__ import annotations

from collections.abc import Callable

from hal import dtypes
from hal.codegen.tier1_rewriter import Rewriter
from hal.dtypes import DType
from hal.vil.builder import TileHandle, ValueLike
from hal.vil.expressions import Const
from hal.vil.model import Axis, Descriptor, Instruction, SReg

__all__ = ["load", "store"]


def load(p: Rewriter, item: Instruction) -> None:
    """LOAD d, x, near=tile: each element of the near tile is spread to where it is wanted."""
    d, near, descriptor = p.handle(item.d), p.handle(item.a), p.described(item)
    target, source = _wide(p, "wide", d), _wide(p, "wide near", near)
    if source is not near:
        p.cast(source, near)
    rows, columns = _counts(p, descriptor, d)
    p.fill(target, descriptor.fill, rows=rows, columns=columns)
    offset = _offsets(p, descriptor, d)
    valid = p.always("near valid", source)

    def element(
        place: ValueLike, row: TileHandle, column: TileHandle, line: tuple[TileHandle, ...]
    ) -> None:
        value = p.pick("value", column, line[0], axis=1)
        is_valid = p.pick("is valid", column, line[1], axis=1)
        hit = p.equal_to(offset, place, "hit")
        p.bin("and", hit, hit, is_valid)
        p.sel(target, hit, value, target)

    def line_of(row: TileHandle) -> tuple[TileHandle, ...]:
        values = p.pick("line", row, source, axis=0)
        return values, p.pick("line valid", row, valid, axis=0)

    _each_element(p, source, line_of, element)
    if target is not d:
        p.cast(d, target)


def store(p: Rewriter, item: Instruction) -> None:
    """STORE x, a, near=tile: each element of the near tile takes the value that is meant for it."""
    a, near, descriptor = p.handle(item.a), p.handle(item.d), p.described(item)
    source, target = _wide(p, "wide", a), _wide(p, "wide near", near)
    if source is not a:
        p.cast(source, a)
        p.cast(target, near)
    rows, columns = _counts(p, descriptor, a)
    stored = p.like("stored", a, dtypes.bool_)
    p.fill(stored, 1, rows=rows, columns=columns)
    p.bin("and", stored, stored, p.always("a valid", source))
    offset = _offsets(p, descriptor, a)

    def element(
        place: ValueLike, row: TileHandle, column: TileHandle, _: tuple[TileHandle, ...]
    ) -> None:
        hit = p.equal_to(offset, place, "hit")
        p.bin("and", hit, hit, stored)
        value = p.pick("value", p.constant_mask(), p.pick("column", hit, source, axis=0), axis=1)
        found = p.any_of("any", p.pick("any column", hit, hit, axis=0))
        here = p.like("here", near, dtypes.bool_)
        p.bin("and", here, row, column)
        p.bin("and", here, here, found)
        p.sel(target, here, value, target)

    _each_element(p, target, lambda row: (), element)
    if target is not near:
        p.cast(near, target)


def _wide(p: Rewriter, role: str, a: TileHandle) -> TileHandle:
    """The tile itself, or an f32 tile in place of an 8-bit float one, which only CAST takes."""
    return p.like(role, a, dtypes.f32) if a.tile.dtype.kind == "float8" else a


def _each_element(
    p: Rewriter,
    near: TileHandle,
    line_of: Callable[[TileHandle], tuple[TileHandle, ...]],
    element: Callable[[ValueLike, TileHandle, TileHandle, tuple[TileHandle, ...]], None],
) -> None:
    """Calls element(offset, row mask, column mask, what line_of made of the row) for each."""
    height, width = near.tile.rows, near.tile.columns
    down, right = p.positions(0, dtypes.i32, height), p.positions(1, dtypes.i32, width)

    def each_row(row: ValueLike) -> None:
        is_row = p.equal_to(down, row, "is row")
        line = line_of(is_row)
        start = p.count("mul", row, width)

        def each_column(column: ValueLike) -> None:
            is_column = p.equal_to(right, column, "is column")
            element(p.count("add", start, column), is_row, is_column, line)

        p.repeat(width, each_column)

    p.repeat(height, each_row)


def _counts(p: Rewriter, descriptor: Descriptor, a: TileHandle) -> tuple[ValueLike, ValueLike]:
    """Valid rows and columns by the axes of a descriptor."""
    return p.axis_count(descriptor.row, a.tile.rows), p.axis_count(
        descriptor.column, a.tile.columns
    )


def _offsets(p: Rewriter, descriptor: Descriptor, a: TileHandle) -> TileHandle:
    """Offset of each element in the near tile, −1 outside; valid everywhere.

    In i64 where the chip computes in it, else in i32 (a near tile has far fewer elements).
    """
    names = ("add", "mul", "idiv", "imod", "lt", "le", "eq")
    is_wide = all(p.chip.supports("bin", name, dtypes.i64) for name in names)
    is_wide = is_wide and p.chip.supports("sel", "", dtypes.i64)
    dtype = dtypes.i64 if is_wide else dtypes.i32
    digits = {
        "row": _digits(p, descriptor.row, 0, dtype, a.tile.rows),
        "column": _digits(p, descriptor.column, 1, dtype, a.tile.columns),
    }
    total = p.like("offset", a, dtype)
    inside = p.like("inside", a, dtypes.bool_)
    place, part, bit = (
        p.like("place", a, dtype),
        p.like("part", a, dtype),
        p.like("bit", a, dtypes.bool_),
    )
    zero = p.constant(dtype, 0)
    p.fill(total, 0)
    p.fill(inside, 1)
    for dimension in descriptor.dimensions:
        base: ValueLike = dimension.base
        for term in dimension.terms:
            if term.source == "sreg":
                base = p.count("add", base, p.count("mul", SReg(term.index), term.coefficient))
        p.iota(place, base=base)
        for term in dimension.terms:
            if term.source != "sreg":
                factor = _number(p, "factor", dtype, term.coefficient)
                p.bin("mul", part, digits[term.source][term.index], factor)
                p.bin("add", place, place, part)
        p.bin("le", bit, zero, place)
        p.bin("and", inside, inside, bit)
        p.bin("lt", bit, place, _number(p, "factor", dtype, dimension.extent))
        p.bin("and", inside, inside, bit)
        p.bin("mul", part, place, _number(p, "factor", dtype, dimension.stride))
        p.bin("add", total, total, part)
    p.sel(total, inside, total, p.constant(dtype, -1))
    return total


def _number(p: Rewriter, role: str, dtype: DType, value: ValueLike) -> TileHandle:
    """A 1 × 1 tile of a value that is known when it runs."""
    if isinstance(value, Const):
        return p.constant(dtype, value.value)
    tile = p.scratch(role, dtype, 1, 1)
    p.iota(tile, base=value)
    return tile


def _digits(p: Rewriter, axis: Axis, across: int, dtype: DType, length: int) -> list[TileHandle]:
    """Each digit of an axis as a tile of one column (axis 0) or one row (axis 1)."""
    shape = (length, 1) if across == 0 else (1, length)
    found = []
    for number, digit in enumerate(axis.digits):
        tile = p.scratch(f"digit {across} {number}", dtype, *shape)
        step = {"row": 1} if across == 0 else {"column": 1}
        p.iota(tile, base=axis.origin, **step)
        if digit.divisor != Const(1):
            p.bin("idiv", tile, tile, _number(p, "divisor", dtype, digit.divisor))
        if digit.size is not None:
            p.bin("imod", tile, tile, _number(p, "divisor", dtype, digit.size))
        found.append(tile)
    return found
