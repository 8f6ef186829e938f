"""The strategy for a loaded subscript on the left: SCATTER, or owners of the output's elements.

    C[idx[i], j] += V[i, j]

SCATTER: the rows of a tile go to the places that their index names, combined atomically. Types that
SCATTER does not combine are combined in a workspace of the compute dtype and rounded once.

Owners: each program has a tile of the output and walks over all indices in order; what belongs to
its rows is combined, what does not is left. It is for chips without SCATTER, for `*=`, and wherever
the same bits are wanted on every run. (A loaded subscript on the right needs no strategy: a load
under the roles of any strategy becomes a GATHER.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hal import dtypes
from hal.codegen import symbolic
from hal.codegen.errors import Unsuited
from hal.codegen.gathering_index import is_loaded
from hal.codegen.lowering import Lowering, identity_of
from hal.codegen.parts import copied, free_index, lower_statements, new_array
from hal.codegen.scope import Scope
from hal.codegen.shapes import size_of
from hal.codegen.target import Target
from hal.dtypes import DType
from hal.ir.analysis import compute_dtype, index_extents, indices_of, reduced_indices
from hal.ir.nodes import (
    ASSIGNMENTS,
    Access,
    Assign,
    Expr,
    Index,
    Kernel,
    NamedCall,
)
from hal.vil.builder import TileHandle
from hal.vil.expressions import Expr as VilExpr
from hal.vil.model import SReg, Value

__all__ = ["Match", "Plan", "candidates", "cost", "lower", "match"]

TILE_ELEMENTS = 4096
SCATTERED = {"": "set", "add": "add", "max": "max", "min": "min"}
"""Function of an assignment -> function of SCATTER."""


@dataclass(frozen=True, slots=True)
class Match:
    """One statement whose target has a loaded subscript.

    Attributes:
        loaded: Dimensions of the target with one.
        by: Indices that the loaded subscripts depend on.
        plain: Indices of the other subscripts.
    """

    kernel: Kernel
    statements: tuple[Assign, ...]
    loaded: tuple[int, ...]
    by: tuple[str, ...]
    plain: tuple[str, ...]

    @property
    def statement(self) -> Assign:
        """The statement."""
        return self.statements[0]

    @property
    def dtype(self) -> DType:
        """Type of the target."""
        return self.kernel.array(self.statement.target.array).dtype

    @property
    def function(self) -> str:
        """Function that combines; empty for `=`."""
        return ASSIGNMENTS[self.statement.assignment]


@dataclass(frozen=True, slots=True)
class Plan:
    """How a scatter runs.

    Attributes:
        kind: `scatter` or `owner`.
        row: Index on the rows of a scatter's tiles.
        column: Index on the columns, or none.
        height, width: Rows and columns of the tiles.
        dtype: Type in which elements are combined in memory.
    """

    kind: str
    row: str
    column: str | None
    height: int
    width: int
    dtype: DType

    def __str__(self) -> str:
        return f"{self.kind}: {self.height} x {self.width} tiles of {self.dtype}"


def match(kernel: Kernel, statements: Sequence[Assign], target: Target) -> Match | None:
    """Takes the first statement where its target has a loaded subscript."""
    first = statements[0]
    if isinstance(first.value, NamedCall):
        return None
    subscripts = first.target.indices
    loaded = tuple(number for number, part in enumerate(subscripts) if is_loaded(part))
    if not loaded:
        return None
    by = dict.fromkeys(name for number in loaded for name in indices_of(subscripts[number]))
    rest = [part for number, part in enumerate(subscripts) if number not in loaded]
    plain = dict.fromkeys(name for part in rest for name in indices_of(part))
    return Match(kernel, (first,), loaded, tuple(by), tuple(plain))


def candidates(match: Match, target: Target, sizes: Mapping[str, int]) -> list[Plan]:
    """SCATTER where the chip has it and order is free; owners always."""
    found = index_extents(match.kernel, match.statement)
    extents = {name: symbolic.from_ir(size) for name, size in found.items()}
    columns: list[str | None] = [name for name in match.plain[-1:] if name not in match.by]
    plans: list[Plan] = []
    dtype = _memory_type(match, target)
    if dtype is not None and not target.deterministic and match.by:
        for column in (*columns, None):
            row = match.by[-1]
            height, width = _tile(target, extents, row, column, sizes)
            plans.append(Plan("scatter", row, column, height, width, dtype))
    for column in (*columns, None):
        _, width = _tile(target, extents, None, column, sizes)
        height = target.rounded_rows(max(1, TILE_ELEMENTS // max(width, 64)))
        kind = compute_dtype(match.dtype)
        plans.append(Plan("owner", "", column, height, width, kind))
    return plans


def _memory_type(match: Match, target: Target) -> DType | None:
    """The type in which SCATTER combines: the target's, or its compute dtype; None: neither."""
    function = SCATTERED.get(match.function)
    if function is None:
        return None
    choices = (match.dtype, compute_dtype(match.dtype)) if match.function else (match.dtype,)
    return next((d for d in choices if target.supports("scatter", function, d)), None)


def _tile(
    target: Target,
    extents: Mapping[str, VilExpr],
    row: str | None,
    column: str | None,
    sizes: Mapping[str, int],
) -> tuple[int, int]:
    width = 1
    if column is not None:
        width = target.rounded_columns(min(size_of(extents[column], sizes), TILE_ELEMENTS // 4))
    height = 1
    if row is not None:
        most = max(1, TILE_ELEMENTS // width)
        height = target.rounded_rows(min(size_of(extents[row], sizes), most))
    return height, width


def cost(match: Match, choice: Plan, target: Target, sizes: Mapping[str, int]) -> float:
    """Seconds: elements that are looked at, at the memory's speed."""
    found = index_extents(match.kernel, match.statement)
    count = 1
    for size in found.values():
        count *= max(1, size_of(symbolic.from_ir(size), sizes))
    if choice.kind == "owner":
        shape = match.kernel.array(match.statement.target.array).shape
        rows = size_of(symbolic.from_ir(shape[match.loaded[-1]]), sizes)
        count *= max(1, -(-rows // choice.height))
    return target.launch_s + count * match.dtype.bytes / target.bandwidth_bytes_per_s


def lower(lowering: Lowering, match: Match, choice: Plan) -> None:
    """Adds the launches of the statement."""
    statement = match.statement
    if reduced_indices(statement):
        _summed_first(lowering, match)
        return
    if choice.kind == "owner":
        _own(lowering, match, choice)
        lowering.started(statement)
        return
    if choice.dtype == match.dtype:
        _start(lowering, statement)
        _scatter(lowering, match, statement, choice)
        lowering.started(statement)
        return
    _through_workspace(lowering, match, choice)
    lowering.started(statement)


def _summed_first(lowering: Lowering, match: Match) -> None:
    """A reduced index: the sums go to a workspace, and are scattered from there."""
    statement = match.statement
    extents = index_extents(lowering.kernel, statement)
    names = list(dict.fromkeys((*match.by, *match.plain)))
    shape = [extents[name] for name in names]
    kind = compute_dtype(match.dtype)
    sums = new_array(lowering, "scattered", kind, shape)
    access = Access(sums.name, tuple(Index(name) for name in names))
    first = replace(statement, targets=(access,))
    lower_statements(lowering, [first, replace(statement, value=access)])


def _start(lowering: Lowering, statement: Assign) -> None:
    if statement.is_reduction and not lowering.continues(statement):
        lowering.initialise(statement)


def _through_workspace(lowering: Lowering, match: Match, choice: Plan) -> None:
    """Combines in the compute dtype and rounds once at the end."""
    statement = match.statement
    array = lowering.array(statement.target.array)
    sums = new_array(lowering, "sums", choice.dtype, array.shape)
    inner = replace(statement, targets=(replace(statement.target, array=sums.name),))
    if lowering.continues(statement):
        lower_statements(lowering, [copied(sums, array)])
    else:
        lowering.fill(sums, identity_of(statement, array))
    _scatter(lowering, match, inner, choice)
    lower_statements(lowering, [copied(array, sums)])


# ---- SCATTER -------------------------------------------------------------------------------------


def _blocks(extent: VilExpr, length: int) -> VilExpr:
    return symbolic.ceil_ratio(extent, length)


def _scatter(lowering: Lowering, match: Match, statement: Assign, choice: Plan) -> None:
    scope = lowering.program(f"{statement.target.array}_scatter", statement)
    names = dict.fromkeys((*match.by, *match.plain))
    fixed = [name for name in names if name not in (choice.row, choice.column)]
    counts = [scope.extents[name] for name in fixed]
    counts.append(_blocks(scope.extents[choice.row], choice.height))
    if choice.column is not None:
        counts.append(_blocks(scope.extents[choice.column], choice.width))
    with scope.grid(*counts) as places:
        for name, place in zip(fixed, places, strict=False):
            scope.fix(name, place)
        origin = scope.compute("mul", places[len(fixed)], choice.height)
        scope.rows(choice.row, length=choice.height, origin=origin)
        if choice.column is not None:
            across = scope.compute("mul", places[-1], choice.width)
            scope.columns(choice.column, length=choice.width, origin=across)
        kind = lowering.array(statement.target.array).dtype
        tile = scope.value(statement.value, want=kind)
        scope.scatter(SCATTERED[match.function], statement.target, tile)
    lowering.launch(scope)


# ---- Owners --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Owned:
    """The coordinates that an owner has.

    Attributes:
        access: The target at them: an index of its own where a subscript is loaded.
        own: Dimension -> that index.
        loops: Indices that an owner walks over.
    """

    access: Access
    own: dict[int, str]
    loops: tuple[str, ...]


def _owned(lowering: Lowering, match: Match) -> _Owned:
    statement = match.statement
    target = statement.target
    taken = set(index_extents(lowering.kernel, statement)) | set(lowering.kernel.params)
    own = {number: free_index(taken, f"own{number}") for number in match.loaded}
    parts: list[Expr] = [
        Index(own[number]) if number in own else part for number, part in enumerate(target.indices)
    ]
    loops = tuple(name for name in match.by if name not in match.plain)
    return _Owned(replace(target, indices=tuple(parts)), own, loops)


def _own(lowering: Lowering, match: Match, choice: Plan) -> None:
    """Each program has a tile of the output and takes what belongs to it."""
    statement = match.statement
    owned = _owned(lowering, match)
    shape = lowering.shape(statement.target.array)
    extents = dict(lowering.extents(statement))
    extents |= {name: shape[number] for number, name in owned.own.items()}
    goes_on = lowering.continues(statement)
    if not goes_on and statement.is_reduction and not lowering.covers(owned.access, extents):
        lowering.initialise(statement)
        goes_on = True
    scope = lowering.program(f"{statement.target.array}_owner", extents=extents)
    row = owned.own[match.loaded[-1]]
    kept = [*(name for name in owned.own.values() if name != row), *match.plain]
    fixed = [name for name in kept if name != choice.column]
    counts = [scope.extents[name] for name in fixed]
    counts.append(_blocks(scope.extents[row], choice.height))
    if choice.column is not None:
        counts.append(_blocks(scope.extents[choice.column], choice.width))
    with scope.grid(*counts) as places:
        for name, place in zip(fixed, places, strict=False):
            scope.fix(name, place)
        origin = scope.compute("mul", places[len(fixed)], choice.height)
        scope.rows(row, length=choice.height, origin=origin)
        if choice.column is not None:
            across = scope.compute("mul", places[-1], choice.width)
            scope.columns(choice.column, length=choice.width, origin=across)
        total = _begin(scope, match, owned, choice, goes_on)
        counts = [scope.extents[name] for name in owned.loops]
        with scope.loop(symbolic.product(counts)) as turn:
            for name, place in zip(owned.loops, scope.split(turn, counts), strict=False):
                scope.fix(name, place)
            _take(scope, match, owned, row, origin, choice, total)
        scope.store(owned.access, total)
    lowering.launch(scope)


def _begin(scope: Scope, match: Match, owned: _Owned, choice: Plan, goes_on: bool) -> TileHandle:
    """The tile of an owner: what the target held, or the identity."""
    kind = choice.dtype
    total = scope.new_tile(kind, choice.height, choice.width)
    statement = match.statement
    if goes_on:
        held = scope.value(owned.access)
        wide = scope.convert(held, kind)
        scope.p.un("mov", total, wide)
        for item in {id(held): held, id(wide): wide}.values():
            scope.release(item)
        return total
    start: float | int = 0
    if statement.is_reduction:
        start = identity_of(statement, scope.lowering.array(statement.target.array))
    scope.p.fill(total, start)
    return total


def _take(
    scope: Scope,
    match: Match,
    owned: _Owned,
    row: str,
    origin: Value,
    choice: Plan,
    total: TileHandle,
) -> None:
    """Combines one element of the walk into the rows that it belongs to."""
    condition = _is_mine(scope, match, owned, row, origin, choice)
    if condition is None:
        _combine(scope, match, owned, choice, total)
        return
    with scope.when(condition):
        _combine(scope, match, owned, choice, total)


def _is_mine(
    scope: Scope, match: Match, owned: _Owned, row: str, origin: Value, choice: Plan
) -> SReg | None:
    """1 where the loaded subscripts fall into the owner's rows; None where it cannot be read."""
    if "sreg_from_tile" not in scope.target.features:
        return None
    result: Value | None = None
    for number, name in owned.own.items():
        value = scope.integer(match.statement.target.indices[number])
        if name == row:
            low = scope.compute("le", origin, value)
            end = scope.compute("add", origin, choice.height)
            good = scope.compute("mul", low, scope.compute("lt", value, end))
        else:
            good = scope.compute("eq", value, scope.integer(Index(name)))
        result = good if result is None else scope.compute("mul", result, good)
    return result if isinstance(result, SReg) else None


def _combine(scope: Scope, match: Match, owned: _Owned, choice: Plan, total: TileHandle) -> None:
    p, kind = scope.p, choice.dtype
    mask: TileHandle | None = None
    for number, name in owned.own.items():
        mask = _also(scope, mask, _equal(scope, match.statement.target.indices[number], name))
    assert mask is not None
    value = scope.value(match.statement.value, want=kind)
    wide = scope.convert(value, kind)
    if wide.tile.rows not in (1, choice.height) or wide.tile.columns not in (1, choice.width):
        raise Unsuited("the value of a scatter does not fit the owner's tile")
    result = wide
    if match.function:
        result = scope.tile(kind, choice.height, choice.width)
        p.bin(match.function, result, total, wide)
    p.sel(total, mask, result, total)
    scope.release(mask)
    for item in {id(t): t for t in (value, wide, result)}.values():
        scope.release(item)


def _equal(scope: Scope, subscript: Expr, name: str) -> TileHandle:
    """Mask: the loaded subscript is the owner's own coordinate."""
    found = scope.value(subscript, want=dtypes.i32)
    place = scope.value(Index(name))
    kind = place.tile.dtype
    wide = scope.convert(found, kind)
    mask = scope.tile(dtypes.bool_, place.tile.rows, 1)
    scope.p.bin("eq", mask, place, wide)
    for item in {id(t): t for t in (found, wide, place)}.values():
        scope.release(item)
    return mask


def _also(scope: Scope, left: TileHandle | None, right: TileHandle) -> TileHandle:
    """left AND right; both are used up."""
    if left is None:
        return right
    rows = max(left.tile.rows, right.tile.rows)
    result = scope.tile(dtypes.bool_, rows, 1)
    scope.p.bin("and", result, left, right)
    scope.release(left)
    scope.release(right)
    return result
