"""The strategy that takes every single `=` or reduction: one statement, one launch.

The index that is contiguous in memory becomes the columns of the tiles, its neighbours are
flattened into it where every access allows, and the next index gives the rows. Reduced indices lie
on a tile axis, where a tile is combined at once, or are walked in a loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hal import dtypes
from hal.codegen import symbolic
from hal.codegen.lowering import Lowering, identity_of
from hal.codegen.roles import ZERO
from hal.codegen.scope import Scope
from hal.codegen.shapes import Plan, plans, statement_bytes
from hal.codegen.target import Target
from hal.dtypes import DType
from hal.ir.analysis import compute_dtype, indices_of, reduced_indices
from hal.ir.nodes import ASSIGNMENTS, Access, Array, Assign, Const, Index, Kernel, NamedCall, walk
from hal.vil.builder import TileHandle
from hal.vil.expressions import Expr, as_expr
from hal.vil.model import Value

__all__ = ["Match", "candidates", "cost", "lower", "match"]


HONOURS_ADVICE = True
"""The first candidate is what the user's schedule asks for, where it names an index."""


@dataclass(frozen=True, slots=True)
class Match:
    """One statement without a named call and without a scatter."""

    kernel: Kernel
    statements: tuple[Assign, ...]

    @property
    def statement(self) -> Assign:
        """The statement."""
        return self.statements[0]


def match(kernel: Kernel, statements: Sequence[Assign], target: Target) -> Match | None:
    """Takes the first statement, whatever it computes."""
    first = statements[0]
    if isinstance(first.value, NamedCall):
        return None
    loaded = (item for index in first.target.indices for item in walk(index))
    if any(isinstance(item, Access) for item in loaded):
        return None
    return Match(kernel, (first,))


def candidates(match: Match, target: Target, sizes: Mapping[str, int]) -> list[Plan]:
    """Ways to lay the indices on tiles, the most promising first."""
    return plans(match.kernel, match.statement, target, sizes)


def cost(match: Match, choice: Plan, target: Target, sizes: Mapping[str, int]) -> float:
    """Seconds: what is moved, and what the programs cost to start."""
    moved = statement_bytes(match.kernel, match.statement, sizes)
    return target.launch_s + max(choice.seconds, moved / target.bandwidth_bytes_per_s)


def lower(lowering: Lowering, match: Match, choice: Plan) -> None:
    """Adds the launch (and, for a target that is not covered, one that fills it before)."""
    statement = match.statement
    extents = lowering.extents(statement)
    starts = statement.is_reduction and not lowering.continues(statement)
    if starts and not lowering.covers(statement.target, extents):
        lowering.initialise(statement)
    if choice.parts > 1:
        statement = _in_parts(lowering, statement, choice)
        choice = plans(lowering.kernel, statement, lowering.target, {})[0].whole
    _launch(lowering, statement, choice)
    lowering.started(match.statement)


def _in_parts(lowering: Lowering, statement: Assign, plan: Plan) -> Assign:
    """Adds a launch whose programs share the turns of the loop; what remains is to add their sums.

    Returns:
        The statement that combines the sums of the parts into the target.
    """
    target = lowering.array(statement.target.array)
    shape = (Const(plan.parts), *target.shape)
    kind = accumulator_of(target.dtype)
    sums = lowering.temp(f"{target.name}_parts", Array("", kind, shape, "temp"))
    taken = {*indices_of(statement.value), *indices_of(statement.target)}
    part = next(name for name in map("part{}".format, range(len(taken) + 1)) if name not in taken)
    access = Access(sums.name, (Index(part), *statement.target.indices))
    _launch(lowering, replace(statement, targets=(access,)), plan, part)
    return replace(statement, value=access)


def _launch(lowering: Lowering, statement: Assign, plan: Plan, part: str = "") -> None:
    scope = lowering.program(statement.target.array, statement)
    if statement.is_reduction:
        _reduce(scope, statement, plan, part)
    else:
        _assign(scope, statement, plan)
    lowering.launch(scope)


def _blocks(scope: Scope, names: Sequence[str], length: int) -> Expr:
    total = symbolic.product(scope.extents[name] for name in names)
    return symbolic.ceil_ratio(total, length)


def _assign(scope: Scope, statement: Assign, plan: Plan) -> None:
    counts: list[Expr] = [scope.extents[name] for name in plan.fixed]
    if plan.folded:
        counts.append(_blocks(scope, plan.columns, plan.height * plan.width))
    else:
        counts.append(_blocks(scope, plan.rows, plan.height))
        counts.append(_blocks(scope, plan.columns, plan.width))
    with scope.grid(*counts) as places:
        _set_roles(scope, plan, places)
        tile = scope.value(statement.value, want=scope.lowering.array(statement.target.array).dtype)
        scope.store(statement.target, tile, stream=plan.stream)


def _set_roles(scope: Scope, plan: Plan, places: Sequence[Value]) -> None:
    for name, place in zip(plan.fixed, places, strict=False):
        scope.fix(name, place)
    if plan.folded:
        origin = scope.compute("mul", places[-1], plan.height)
        scope.fold(*plan.columns, rows=plan.height, columns=plan.width, origin=origin)
        return
    _set_rows(scope, plan, places[-2])
    _set_columns(scope, plan, places[-1])


def _set_rows(scope: Scope, plan: Plan, place: Value) -> None:
    origin = scope.compute("mul", place, plan.height)
    scope.rows(*plan.rows, length=plan.height, origin=origin)


def _set_columns(scope: Scope, plan: Plan, place: Value) -> None:
    origin = scope.compute("mul", place, plan.width)
    scope.columns(*plan.columns, length=plan.width, origin=origin)


def _reduce(scope: Scope, statement: Assign, plan: Plan, part: str) -> None:
    reduced = set(reduced_indices(statement))
    rows_kept = not reduced.intersection(plan.rows)
    columns_kept = not reduced.intersection(plan.columns)
    one: list[Expr] = [symbolic.product(())]
    counts = [scope.extents[name] for name in plan.fixed]
    steps = [scope.extents[name] for name in plan.loops]
    down = [_blocks(scope, plan.rows, plan.height)]
    across = [_blocks(scope, plan.columns, plan.width)]
    counts += (down if rows_kept else one) + (across if columns_kept else one)
    steps += (one if rows_kept else down) + (one if columns_kept else across)
    array = scope.lowering.array(statement.target.array)
    kind = accumulator_of(array.dtype)
    if part:
        counts.insert(0, as_expr(plan.parts))
    with scope.grid(*counts) as places:
        start: Value = ZERO
        count: Value = symbolic.product(steps)
        if part:
            scope.fix(part, places[0])
            share = symbolic.ceil_ratio(symbolic.product(steps), plan.parts)
            start = scope.compute("mul", places.pop(0), share)
            count = scope.compute("min", scope.compute("sub", count, start), share)
        for name, place in zip(plan.fixed, places, strict=False):
            scope.fix(name, place)
        if rows_kept:
            _set_rows(scope, plan, places[-2])
        if columns_kept:
            _set_columns(scope, plan, places[-1])
        total = scope.tile(kind, plan.height if rows_kept else 1, plan.width if columns_kept else 1)
        fresh = not scope.lowering.continues(statement)
        scope.p.fill(total, identity_of(statement, array) if fresh else _start(statement, kind))
        with scope.loop(count) as turn:
            turns = scope.split(scope.compute("add", turn, start), steps)
            for name, place in zip(plan.loops, turns, strict=False):
                scope.fix(name, place)
            if not rows_kept:
                _set_rows(scope, plan, turns[-2])
            if not columns_kept:
                _set_columns(scope, plan, turns[-1])
            _combine(scope, statement, total, (not rows_kept, not columns_kept))
        _finish(scope, statement, plan, (rows_kept, columns_kept), total)


def accumulator_of(dtype: DType) -> DType:
    """The dtype in which a reduction into an array of `dtype` is kept."""
    return dtypes.i32 if dtype.kind == "bool" else compute_dtype(dtype)


def _start(statement: Assign, kind: DType) -> float | int:
    return identity_of(statement, Array("", kind, (), "temp"))


def _combine(scope: Scope, statement: Assign, total: TileHandle, along: tuple[bool, bool]) -> None:
    """total = total · (the value, combined along the reduced tile axes)."""
    function = ASSIGNMENTS[statement.assignment]
    kind = total.tile.dtype
    tile = scope.value(statement.value, want=kind)
    if tile.tile.dtype != kind:
        wide = scope.convert(tile, kind)
        scope.release(tile)
        tile = wide
    tile = _limited(scope, statement, tile, along)
    for axis in (1, 0):
        length = tile.tile.columns if axis else tile.tile.rows
        if not along[axis] or length == 1:
            continue
        shape = (tile.tile.rows, 1) if axis else (1, tile.tile.columns)
        part = scope.tile(kind, *shape)
        scope.p.red(function, part, tile, axis=axis)
        scope.release(tile)
        tile = part
    scope.p.bin(function, total, total, tile)
    scope.release(tile)


def _limited(
    scope: Scope, statement: Assign, tile: TileHandle, along: tuple[bool, bool]
) -> TileHandle:
    """The tile, valid no further than the reduced axes go.

    A load ends where its axis ends; a value without one (an index alone) must be told to.
    """
    reads = [item for item in walk(statement.value) if isinstance(item, Access)]
    loaded = {name for item in reads for name in indices_of(item)}
    ends: list[Value | None] = [None, None]
    for number, name in enumerate(("row", "column")):
        axis = scope.axes_of_tile[name]
        here = {index for index, role in scope.placed() if role.axis == name}
        if along[number] and axis.length > 1 and loaded.isdisjoint(here) and axis.limit is not None:
            ends[number] = scope.compute("sub", axis.limit, axis.origin)
    if ends == [None, None]:
        return tile
    shape = [tile.tile.rows, tile.tile.columns]
    for number, end in enumerate(ends):
        if end is not None:
            shape[number] = scope.axes_of_tile[("row", "column")[number]].length
    kind = tile.tile.dtype
    edge = scope.tile(kind, *shape)
    scope.p.fill(edge, _start(statement, kind), rows=ends[0], columns=ends[1])
    scope.p.bin(ASSIGNMENTS[statement.assignment], edge, edge, tile)
    scope.release(tile)
    return edge


def _finish(
    scope: Scope, statement: Assign, plan: Plan, kept: tuple[bool, bool], total: TileHandle
) -> None:
    """Stores the total, combined with what the target held when the reduction goes on."""
    if not kept[0]:
        scope.rows(length=1)
    if not kept[1]:
        scope.columns(length=1)
    if scope.lowering.continues(statement):
        held = scope.value(statement.target)
        if held.tile.dtype != total.tile.dtype:
            wide = scope.convert(held, total.tile.dtype)
            scope.release(held)
            held = wide
        scope.p.bin(ASSIGNMENTS[statement.assignment], total, total, held)
        scope.release(held)
    scope.store(statement.target, total, stream=plan.stream)
