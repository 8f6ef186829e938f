"""topk and sort: a running list of the best, or the rank of every element.

List: TOPK merges tile after tile into a list that is as wide as a tile. It serves as many entries
as fit. Rank: for each element, how many go before it (by value, NaN above all, ties by position);
then it is scattered to that place, which drops what lies beyond k. It serves any length. Where the
length is known at launch only, the module has both, and the launch takes one.
"""

from __future__ import annotations

from dataclasses import replace

from hal import dtypes
from hal.codegen import conditions, symbolic
from hal.codegen.lowering import Lowering
from hal.codegen.named_walk import (
    Match,
    Plan,
    Walk,
    number_dtype,
    renamed,
    value_dtype,
    value_of,
)
from hal.codegen.parts import free_index, lower_statements, new_array
from hal.codegen.scope import Scope
from hal.ir.analysis import index_extents, indices_of
from hal.ir.nodes import Access, Assign, Cast, Expr, Index
from hal.vil.builder import TileHandle

__all__ = ["entry_index", "order"]


def entry_index(match: Match) -> str:
    """The index of the targets that counts entries: r of topk, the axis of sort."""
    known = {*match.others, match.call.axis}
    names = [name for name in indices_of(match.statement.target) if name not in known]
    return names[0] if names else match.call.axis


def order(lowering: Lowering, match: Match, plan: Plan) -> None:
    """Adds the list, the ranks, or both."""
    count = match.extents[entry_index(match)]
    room = conditions.room(count, plan.list_width)
    known = symbolic.constant(count)
    if known is not None:
        (_listed if known <= plan.list_width else _ranked)(lowering, match, plan)
        return
    with lowering.only_when(conditions.positive(room)):
        _listed(lowering, match, plan)
    with lowering.only_when(conditions.not_all_positive(room)):
        _ranked(lowering, match, plan)


def _is_smallest(match: Match) -> bool:
    flags = match.call.flags
    return "smallest" in flags if match.call.function == "topk" else "descending" not in flags


def _listed(lowering: Lowering, match: Match, plan: Plan) -> None:
    statement = match.statement
    kind = value_dtype(lowering.kernel, match.operand)
    places = statement.targets[1]
    number = number_dtype(lowering.target, lowering.array(places.array).dtype)
    scope = lowering.program(f"{statement.target.array}_list", statement)
    walk = Walk(scope, plan, match.call.axis)
    shape = (plan.height, plan.list_width)
    with walk.programs():
        best, found = scope.new_tile(kind, *shape), scope.new_tile(number, *shape)
        scope.p.fill(best, 0, columns=0)
        scope.p.fill(found, 0, columns=0)
        with walk.chunks():
            values = walk.values(match.operand, kind)
            smallest = _is_smallest(match)
            scope.p.topk(best, found, values, base=walk.origin, smallest=smallest)
            scope.release(values)
        scope.columns(entry_index(match), length=plan.list_width)
        scope.store(statement.target, best)
        scope.store(places, found)
    lowering.launch(scope)


# ---- Ranks ---------------------------------------------------------------------------------------


def _ranked(lowering: Lowering, match: Match, plan: Plan) -> None:
    """Ranks into a workspace; then two scatters from there."""
    statement, axis = match.statement, match.call.axis
    found = index_extents(lowering.kernel, statement)
    names = (*match.others, axis)
    ranks = new_array(lowering, "ranks", dtypes.i32, [found[name] for name in names])
    rank = Access(ranks.name, tuple(Index(name) for name in names))
    _rank(lowering, match, plan, rank)
    entry = entry_index(match)
    values: tuple[Expr, Expr] = (match.operand, Index(axis))
    for target, value in zip(statement.targets, values, strict=True):
        dtype = lowering.array(target.array).dtype
        part = value if value is match.operand else Cast(dtype, value)
        place = replace(
            target, indices=tuple(rank if i == Index(entry) else i for i in target.indices)
        )
        lower_statements(lowering, [Assign((place,), "=", part)])


def _rank(lowering: Lowering, match: Match, plan: Plan, rank: Access) -> None:
    """rank = how many elements of its line go before an element."""
    axis, kind = match.call.axis, value_dtype(lowering.kernel, match.operand)
    extents = match.extents
    other = free_index(set(extents) | set(lowering.kernel.params), f"{axis}_other")
    height, width = plan.height, plan.width
    if height == 1:
        height = lowering.target.rounded_rows(64)
    scope = lowering.program(f"{rank.array}", extents=extents | {other: extents[axis]})
    counts = [extents[name] for name in match.others]
    blocks = symbolic.ceil_ratio(extents[axis], height)
    with scope.grid(*counts, blocks) as places:
        for name, place in zip(match.others, places, strict=False):
            scope.fix(name, place)
        origin = scope.compute("mul", places[-1], height)
        scope.rows(axis, length=height, origin=origin)
        mine = value_of(scope, match.operand, kind, (height, 1), 0)
        own = _positions(scope, axis, (height, 1))
        total = scope.new_tile(dtypes.i32, height, 1)
        scope.p.fill(total, 0)
        with scope.loop(symbolic.ceil_ratio(extents[axis], width)) as turn:
            scope.columns(other, length=width, origin=scope.compute("mul", turn, width))
            theirs = value_of(scope, renamed(match.operand, axis, other), kind, (1, width), 1)
            column = _positions(scope, other, (1, width))
            before = _before(scope, (theirs, column), (mine, own), _is_smallest(match))
            _count(scope, before, total)
            for tile in (theirs, column, before):
                scope.release(tile)
        scope.columns(length=1)
        scope.store(rank, total)
    lowering.launch(scope)


def _positions(scope: Scope, index: str, shape: tuple[int, int]) -> TileHandle:
    tile = scope.value(Index(index))
    whole = scope.spread(tile, *shape)
    if whole is not tile:
        scope.release(tile)
    return whole


def _before(
    scope: Scope,
    left: tuple[TileHandle, TileHandle],
    right: tuple[TileHandle, TileHandle],
    smallest: bool,
) -> TileHandle:
    """Mask R × C: the left (value, position), a row, goes before the right one, a column."""
    p = scope.p
    (value, place), (other, own) = left, right
    shape = (other.tile.rows, value.tile.columns)
    first, equal, part = (scope.tile(dtypes.bool_, *shape) for _ in range(3))
    p.bin("lt", first, *((value, other) if smallest else (other, value)))
    p.bin("eq", equal, value, other)
    p.bin("lt", part, place, own)
    if value.tile.dtype.is_float:
        _with_nan(scope, (value, other), first, equal, smallest)
    p.bin("and", equal, equal, part)
    p.bin("or", first, first, equal)
    scope.release(equal)
    scope.release(part)
    return first


def _with_nan(
    scope: Scope,
    pair: tuple[TileHandle, TileHandle],
    first: TileHandle,
    equal: TileHandle,
    smallest: bool,
) -> None:
    """NaN is above all numbers, and equal to NaN."""
    p = scope.p
    shapes = [(item.tile.rows, item.tile.columns) for item in pair]
    nan, real = ([scope.tile(dtypes.bool_, *shape) for shape in shapes] for _ in range(2))
    for number, item in enumerate(pair):
        p.bin("ne", nan[number], item, item)
        p.bin("eq", real[number], item, item)
    both = scope.tile(dtypes.bool_, first.tile.rows, first.tile.columns)
    p.bin("and", both, *((real[0], nan[1]) if smallest else (nan[0], real[1])))
    p.bin("or", first, first, both)
    p.bin("and", both, nan[0], nan[1])
    p.bin("or", equal, equal, both)
    for tile in (*nan, *real, both):
        scope.release(tile)


def _count(scope: Scope, mask: TileHandle, total: TileHandle) -> None:
    """total += how many of a row are true."""
    one, zero = scope.constant(1, dtypes.i32), scope.constant(0, dtypes.i32)
    number = scope.tile(dtypes.i32, mask.tile.rows, mask.tile.columns)
    part = scope.tile(dtypes.i32, mask.tile.rows, 1)
    scope.p.sel(number, mask, one, zero)
    scope.p.red("add", part, number, axis=1)
    scope.p.bin("add", total, total, part)
    scope.release(number)
    scope.release(part)
