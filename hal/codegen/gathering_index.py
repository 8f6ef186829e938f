"""Loaded subscripts: the index tile of GATHER and SCATTER.

One dimension of a descriptor may get a loaded index. Its index is any whole-number expression over
loaded values and indices of the rows. Where several dimensions have one, they become a single
dimension of the array's elements: the offset where all of them are inside, else −1.
"""

from __future__ import annotations

from dataclasses import dataclass

from hal import dtypes
from hal.codegen.errors import CodegenError, Unsuited
from hal.codegen.frame import Frame
from hal.dtypes import DType
from hal.ir import nodes as ir
from hal.vil.builder import TileHandle
from hal.vil.expressions import Const, Expr

__all__ = ["Joint", "index_tile", "is_loaded", "scaled", "summed"]

INDEX_TYPES = (dtypes.i32, dtypes.i64)


@dataclass(frozen=True, slots=True)
class Joint:
    """Several loaded subscripts at once.

    Attributes:
        parts: (subscript, extent, stride in elements) of each.
    """

    parts: tuple[tuple[ir.Expr, Expr, Expr], ...]


def is_loaded(expr: ir.Expr) -> bool:
    """True when an element of an array takes part."""
    return any(isinstance(item, ir.Access) for item in ir.walk(expr))


def scaled(expr: ir.Expr, coefficient: ir.Expr) -> ir.Expr:
    """expr · coefficient."""
    return expr if coefficient == ir.Const(1) else ir.Call("mul", (expr, coefficient))


def summed(left: ir.Expr | None, right: ir.Expr) -> ir.Expr:
    """left + right, where None is nothing."""
    return right if left is None else ir.Call("add", (left, right))


def index_tile(scope: Frame, place: ir.Expr | Joint) -> TileHandle:
    """The index of each row, R × 1 of i32 or i64, for GATHER and SCATTER."""
    if isinstance(place, Joint):
        return _offsets(scope, place)
    tile = _column(scope, place)
    if tile.tile.dtype not in INDEX_TYPES:
        span = getattr(place, "span", None)
        raise CodegenError(f"a subscript is a whole number, not {tile.tile.dtype}", span=span)
    return _spread(scope, tile)


def _column(scope: Frame, expr: ir.Expr) -> TileHandle:
    """An expression that may differ from row to row only."""
    tile = scope.value(expr, want=dtypes.i32)
    if tile.tile.columns != 1:
        raise Unsuited("an index that is loaded along the columns")
    return tile


def _spread(scope: Frame, tile: TileHandle) -> TileHandle:
    whole = scope.spread(tile, scope.axes_of_tile["row"].length, 1)
    if whole is not tile:
        scope.release(tile)
    return whole


def _wide(scope: Frame) -> DType:
    """i64 where the chip computes in it, else i32."""
    names = ("mul", "add", "le", "lt")
    target = scope.target
    if all(target.supports("bin", name, dtypes.i64) for name in names):
        return dtypes.i64
    return dtypes.i32


def _offsets(scope: Frame, joint: Joint) -> TileHandle:
    """Σ subscript · stride where every subscript is inside, −1 elsewhere."""
    p, dtype = scope.p, _wide(scope)
    total: TileHandle | None = None
    inside: TileHandle | None = None
    zero = scope.constant(0, dtype)
    for subscript, extent, stride in joint.parts:
        narrow = _column(scope, subscript)
        part = scope.convert(narrow, dtype)
        if part is not narrow:
            scope.release(narrow)
        rows = part.tile.rows
        low, high = scope.tile(dtypes.bool_, rows, 1), scope.tile(dtypes.bool_, rows, 1)
        p.bin("le", low, zero, part)
        p.bin("lt", high, part, scope.symbol_tile(extent, dtype))
        p.bin("and", low, low, high)
        scope.release(high)
        if stride != Const(1):
            p.bin("mul", part, part, scope.symbol_tile(stride, dtype))
        total = _joined(scope, "add", total, part)
        inside = _joined(scope, "and", inside, low)
    assert total is not None and inside is not None
    p.sel(total, inside, total, scope.constant(-1, dtype))
    scope.release(inside)
    return _spread(scope, total)


def _joined(scope: Frame, function: str, left: TileHandle | None, right: TileHandle) -> TileHandle:
    """left combined with right; both are used up."""
    if left is None:
        return right
    rows = max(left.tile.rows, right.tile.rows)
    result = scope.tile(left.tile.dtype, rows, 1)
    scope.p.bin(function, result, left, right)
    scope.release(left)
    scope.release(right)
    return result
