"""What both programs of the row-wise strategy share: reductions of a tile, results and stores."""

from __future__ import annotations

from hal import dtypes
from hal.codegen.frame import Lowered
from hal.codegen.lowering import identity_of
from hal.codegen.rows_match import RowGroup
from hal.codegen.rows_parts import Values
from hal.codegen.scope import Scope
from hal.dtypes import DType
from hal.ir.analysis import compute_dtype
from hal.ir.nodes import ASSIGNMENTS, Array, Assign, NamedCall
from hal.vil.builder import TileHandle

__all__ = ["accumulator_of", "combine", "identity", "keep", "operand_of", "reduced"]


def accumulator_of(lowering: Lowered, statement: Assign) -> DType:
    """The dtype in which a reduction is kept."""
    dtype = lowering.array(statement.target.array).dtype
    return dtypes.i32 if dtype.kind == "bool" else compute_dtype(dtype)


def identity(statement: Assign, dtype: DType) -> float | int:
    """What a reduction starts from."""
    return identity_of(statement, Array("", dtype, (), "temp"))


def operand_of(scope: Scope, values: Values, statement: Assign, dtype: DType | None) -> TileHandle:
    """The tile that a statement combines along its columns, in `dtype` (None: its own)."""
    value = statement.value
    operand = value.operands[0] if isinstance(value, NamedCall) else value
    tile = values.take(statement, operand, want=dtype)
    if dtype is None or tile.tile.dtype == dtype:
        return tile
    wide = scope.convert(tile, dtype)
    values.give_back(tile)
    return wide


def reduced(scope: Scope, function: str, tile: TileHandle, dtype: DType) -> TileHandle:
    """The tile combined along its columns."""
    part = scope.tile(dtype, tile.tile.rows, 1)
    scope.p.red(function, part, tile, axis=1)
    return part


def combine(scope: Scope, statement: Assign, total: TileHandle) -> None:
    """total = total · what the target holds, where the reduction goes on from it."""
    if not statement.is_reduction or not scope.lowering.continues(statement):
        return
    held = scope.value(statement.target)
    if held.tile.dtype != total.tile.dtype:
        wide = scope.convert(held, total.tile.dtype)
        scope.release(held)
        held = wide
    scope.p.bin(ASSIGNMENTS[statement.assignment], total, total, held)
    scope.release(held)


def keep(
    scope: Scope,
    values: Values,
    group: RowGroup,
    statement: Assign,
    tile: TileHandle,
    *,
    stream: bool = False,
) -> TileHandle:
    """Rounds a result to its array's type, stores it where it is kept; gives the rounded tile."""
    target = statement.target
    dtype = scope.lowering.array(target.array).dtype
    stored = scope.convert(tile, dtype)
    if stored.index != tile.index:
        values.give_back(tile)
    rows = scope.axes_of_tile["row"].length
    columns = scope.axes_of_tile["column"].length if group.is_full(statement) else 1
    if (stored.tile.rows, stored.tile.columns) != (rows, columns):
        wide = scope.spread(stored, rows, columns)
        values.give_back(stored)
        stored = wide
    if target.array in group.kept:
        scope.store(target, stored, stream=stream and group.is_full(statement))
    return stored
