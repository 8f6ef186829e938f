"""Rows longer than a tile: a program walks its rows in blocks of columns, several times.

Each walk computes the reductions whose operands are ready, and stores the results that are. What a
temp of whole rows holds is computed again in each walk that needs it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hal import dtypes
from hal.codegen import symbolic
from hal.codegen.choice import Choice
from hal.codegen.lowering import Lowering
from hal.codegen.rows_emit import accumulator_of, combine, identity, keep, operand_of, reduced
from hal.codegen.rows_match import RowGroup
from hal.codegen.rows_parts import Values
from hal.codegen.scope import Scope
from hal.dtypes import DType
from hal.ir.analysis import compute_dtype, dtype_of
from hal.ir.nodes import ASSIGNMENTS, Access, Assign, Cast, Expr, Kernel, NamedCall, transform
from hal.ir.passes.rewriting import accesses
from hal.vil.builder import TileHandle
from hal.vil.expressions import Expr as VilExpr
from hal.vil.model import Value

__all__ = ["program", "walk_count"]


@dataclass(frozen=True, slots=True)
class Walk:
    """One pass over the columns.

    Attributes:
        reductions: Combined along the columns.
        stores: Results of whole rows that are stored on the way.
        after: Results of one element a row, computed when the walk is over.
    """

    reductions: tuple[Assign, ...]
    stores: tuple[Assign, ...]
    after: tuple[Assign, ...]


def walk_count(group: RowGroup) -> int:
    """How often a row is walked."""
    return max(_levels(group, group.statements).values(), default=1) or 1


def program(
    lowering: Lowering, group: RowGroup, extents: Mapping[str, VilExpr], choice: Choice
) -> Scope:
    """The program; its grid counts blocks of rows."""
    height, width = choice.length("rows"), choice.length("columns")
    stream = bool(dict(choice.tiles).get("stream"))
    scope = lowering.program("walk", extents=extents)
    total = symbolic.product(extents[name] for name in group.rows)
    length = symbolic.product(extents[name] for name in group.columns)
    with scope.grid(symbolic.ceil_ratio(total, height)) as (block,):
        scope.rows(*group.rows, length=height, origin=scope.compute("mul", block, height))
        for walk in walks(lowering.kernel, group):
            done: dict[str, TileHandle] = {}
            for statement in walk.reductions:
                _start(scope, statement, height, done)
            if walk.reductions or walk.stores:
                with scope.loop(symbolic.ceil_ratio(length, width)) as step:
                    origin = scope.compute("mul", step, width)
                    scope.columns(*group.columns, length=width, origin=origin)
                    _block(scope, group, walk, done, origin, stream)
            scope.columns(length=1)
            _end(scope, group, walk, done)
        scope.bindings.clear()
    return scope


def walks(kernel: Kernel, group: RowGroup) -> list[Walk]:
    """The statements sorted into walks; temps of whole rows put where they are read."""
    full = [item for item in group.statements if group.is_full(item)]
    put: dict[str, Expr] = {}
    statements = []
    for item in group.statements:
        after = replace(item, value=_expanded(item.value, put))
        if item in full:
            put[item.target.array] = _rounded(kernel, after)
        if item not in full or item.target.array in group.kept:
            statements.append(after)
    levels = _levels(group, group.statements)
    last = max(levels.values(), default=0)
    found = []
    for level in range(last + 1):
        here = [item for item in statements if levels[item.target.array] == level]
        reductions = tuple(item for item in here if group.is_reduction(item))
        stores = tuple(item for item in here if group.is_full(item))
        ends = tuple(item for item in here if item not in (*reductions, *stores))
        found.append(Walk(reductions, stores, ends))
    return found


def _expanded(value: Expr, put: Mapping[str, Expr]) -> Expr:
    def change(item: Expr) -> Expr:
        return put.get(item.array, item) if isinstance(item, Access) else item

    return transform(value, change)


def _rounded(kernel: Kernel, item: Assign) -> Expr:
    """The value as the array would give it back."""
    dtype = kernel.array(item.target.array).dtype
    same = dtype_of(kernel, item.value) == dtype
    return item.value if same and compute_dtype(dtype) == dtype else Cast(dtype, item.value)


def _levels(group: RowGroup, statements: Sequence[Assign]) -> dict[str, int]:
    """Written array -> the walk (from 1) in or after which it is known; 0: before the first.

    A temp of whole rows is computed again where it is read, so its readers wait only for what it
    is made of.
    """
    full = {item.target.array for item in statements if group.is_full(item)}
    found: dict[str, int] = {}
    for item in statements:
        reads = {access.array for access in accesses(item.value)} & set(found)
        need = max((found[name] - (name in full) for name in reads), default=0)
        whole = group.is_full(item) or group.is_reduction(item)
        found[item.target.array] = need + 1 if whole else need
    return found


def _start(scope: Scope, statement: Assign, height: int, totals: dict[str, TileHandle]) -> None:
    """Tiles that a reduction is kept in: its total; for argmax and argmin also the position."""
    name = statement.target.array
    dtype = scope.lowering.array(name).dtype
    if not isinstance(statement.value, NamedCall):
        kind = accumulator_of(scope.lowering, statement)
        totals[name] = scope.tile(kind, height, 1)
        scope.p.fill(totals[name], identity(statement, kind))
        return
    kind = compute_dtype(_typed(scope, statement.value.operands[0]))
    best = replace(statement, assignment=_BEST[statement.value.function])
    totals[_value_of(name)] = scope.tile(kind, height, 1)
    scope.p.fill(totals[_value_of(name)], identity(best, kind))
    totals[name] = scope.tile(dtype, height, 1)
    scope.p.fill(totals[name], 0)


_BEST = {"argmax": "max=", "argmin": "min="}


def _value_of(name: str) -> str:
    """Key of the tile with the value at the position that is kept under `name`."""
    return f"value at {name}"


def _typed(scope: Scope, operand: Expr) -> DType:
    return dtype_of(scope.lowering.kernel, operand) or dtypes.f32


def _block(
    scope: Scope,
    group: RowGroup,
    walk: Walk,
    totals: Mapping[str, TileHandle],
    origin: Value,
    stream: bool,
) -> None:
    """One block of columns of a walk."""
    values = Values(scope, (*walk.reductions, *walk.stores))
    for statement in walk.reductions:
        total = totals[statement.target.array]
        if isinstance(statement.value, NamedCall):
            _find(scope, values, statement, totals, origin)
        else:
            tile = operand_of(scope, values, statement, total.tile.dtype)
            function = ASSIGNMENTS[statement.assignment]
            part = reduced(scope, function, tile, total.tile.dtype)
            values.give_back(tile)
            scope.p.bin(function, total, total, part)
            scope.release(part)
        values.next()
    for statement in walk.stores:
        dtype = scope.lowering.array(statement.target.array).dtype
        tile = values.take(statement, statement.value, want=dtype)
        values.give_back(keep(scope, values, group, statement, tile, stream=stream))
        values.next()
    values.close()


def _find(
    scope: Scope,
    values: Values,
    statement: Assign,
    totals: Mapping[str, TileHandle],
    origin: Value,
) -> None:
    """The best of a block replaces what is kept where it is better, or the first NaN."""
    assert isinstance(statement.value, NamedCall)
    function, p = statement.value.function, scope.p
    best, place = totals[_value_of(statement.target.array)], totals[statement.target.array]
    tile = operand_of(scope, values, statement, best.tile.dtype)
    value = reduced(scope, ASSIGNMENTS[_BEST[function]], tile, best.tile.dtype)
    index = scope.tile(place.tile.dtype, place.tile.rows, 1)
    p.red(function, index, tile, axis=1, base=origin)
    values.give_back(tile)
    better, other, known = (scope.tile(dtypes.bool_, place.tile.rows, 1) for _ in range(3))
    left, right = (best, value) if function == "argmax" else (value, best)
    p.bin("lt", better, left, right)
    if best.tile.dtype.is_float:
        p.un("isnan", other, value)
        p.un("isnan", known, best)
        p.un("not", known, known)
        p.bin("and", other, other, known)
        p.bin("or", better, better, other)
    p.sel(best, better, value, best)
    p.sel(place, better, index, place)
    for item in (value, index, better, other, known):
        scope.release(item)


def _end(scope: Scope, group: RowGroup, walk: Walk, totals: Mapping[str, TileHandle]) -> None:
    """Results of one element a row."""
    values = Values(scope, walk.after)
    for statement in walk.reductions:
        total = totals[statement.target.array]
        combine(scope, statement, total)
        scope.bindings[statement.target] = keep(scope, values, group, statement, total)
    for statement in walk.after:
        dtype = scope.lowering.array(statement.target.array).dtype
        tile = values.take(statement, statement.value, want=dtype)
        scope.bindings[statement.target] = keep(scope, values, group, statement, tile)
        values.next()
    values.close()
