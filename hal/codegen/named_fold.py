"""scan, argmax and argmin: one walk along the axis with a running result for each line."""

from __future__ import annotations

from hal import dtypes
from hal.codegen.lowering import Lowering
from hal.codegen.named_walk import Match, Plan, Walk, number_dtype, value_dtype
from hal.codegen.scope import Scope
from hal.dtypes import DType
from hal.ir.analysis import compute_dtype
from hal.vil.builder import TileHandle

__all__ = ["position", "scan"]


def _identity(function: str, dtype: DType) -> float | int:
    if function in ("add", "mul"):
        return int(function == "mul")
    if dtype.is_float:
        return float("-inf") if function == "max" else float("inf")
    return int(dtype.minimum if function == "max" else dtype.maximum)


def scan(lowering: Lowering, match: Match, plan: Plan) -> None:
    """SCAN of each tile, combined with what all tiles before it came to.

    The running value is kept in the compute dtype of the target, so that each element is rounded
    once.
    """
    call, statement = match.call, match.statement
    function = call.function.removeprefix("scan_")
    kind = compute_dtype(lowering.array(statement.target.array).dtype)
    if value_dtype(lowering.kernel, match.operand) == dtypes.f64:
        kind = dtypes.f64
    reverse, exclusive = "reverse" in call.flags, "exclusive" in call.flags
    scope = lowering.program(f"{statement.target.array}_scan", statement)
    walk = Walk(scope, plan, call.axis)
    with walk.programs():
        carry, total = scope.new_tile(kind, *walk.line), scope.new_tile(kind, *walk.line)
        scope.p.fill(carry, _identity(function, kind))
        with walk.chunks(reverse=reverse):
            values = walk.values(match.operand, kind)
            result = scope.tile(kind, plan.height, plan.width)
            scope.p.scan(
                function, result, values, axis=plan.along, exclusive=exclusive, reverse=reverse
            )
            scope.p.bin(function, result, result, carry)
            scope.store(statement.target, result)
            scope.p.red(function, total, values, axis=plan.along)
            scope.p.bin(function, carry, carry, total)
            scope.release(values)
            scope.release(result)
    lowering.launch(scope)


def position(lowering: Lowering, match: Match, plan: Plan) -> None:
    """RED argmax of each tile; a later tile wins only where it is better, or the first with NaN."""
    call, statement = match.call, match.statement
    kind = value_dtype(lowering.kernel, match.operand)
    number = number_dtype(lowering.target, lowering.array(statement.target.array).dtype)
    function = "max" if call.function == "argmax" else "min"
    scope = lowering.program(f"{statement.target.array}_{call.function}", statement)
    walk = Walk(scope, plan, call.axis)
    p = scope.p
    with walk.programs():
        best, place = scope.new_tile(kind, *walk.line), scope.new_tile(number, *walk.line)
        part, found = scope.new_tile(kind, *walk.line), scope.new_tile(number, *walk.line)
        p.fill(best, _identity(function, kind))
        p.fill(place, 0)
        with walk.chunks():
            values = walk.values(match.operand, kind)
            p.red(function, part, values, axis=plan.along)
            p.red(call.function, found, values, axis=plan.along, base=walk.origin)
            scope.release(values)
            takes = _better(scope, function, part, best)
            p.sel(best, takes, part, best)
            p.sel(place, takes, found, place)
            scope.release(takes)
        if plan.along:
            scope.columns(length=1)
        else:
            scope.rows(length=1)
        scope.store(statement.target, place)
    lowering.launch(scope)


def _better(scope: Scope, function: str, part: TileHandle, best: TileHandle) -> TileHandle:
    """Mask: a part goes before the best so far; NaN goes before all but NaN."""
    p, shape = scope.p, (part.tile.rows, part.tile.columns)
    takes = scope.tile(dtypes.bool_, *shape)
    p.bin("lt", takes, *((best, part) if function == "max" else (part, best)))
    if not part.tile.dtype.is_float:
        return takes
    new, old = scope.tile(dtypes.bool_, *shape), scope.tile(dtypes.bool_, *shape)
    p.bin("ne", new, part, part)
    p.bin("eq", old, best, best)
    p.bin("and", new, new, old)
    p.bin("or", takes, takes, new)
    scope.release(new)
    scope.release(old)
    return takes
