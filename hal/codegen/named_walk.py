"""What the calls along an axis share: which index lies where, and the walk over the axis."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from hal import dtypes
from hal.codegen import symbolic
from hal.codegen.gathering_index import is_loaded
from hal.codegen.scope import Scope
from hal.codegen.shapes import size_of
from hal.codegen.target import Target
from hal.dtypes import DType
from hal.ir.analysis import compute_dtype, dtype_of, index_extents, indices_of
from hal.ir.nodes import Access, Assign, Call, Expr, Index, Kernel, NamedCall, transform, walk
from hal.vil.builder import TileHandle
from hal.vil.expressions import Const
from hal.vil.expressions import Expr as VilExpr
from hal.vil.model import Value

__all__ = ["Match", "Plan", "Walk", "is_mixed", "limited", "number_dtype", "plans", "renamed"]
__all__ += ["value_dtype", "value_of"]

TILE_ELEMENTS = 4096
MOST_COLUMNS = 1024
MOST_DIGITS = 3


@dataclass(frozen=True, slots=True)
class Match:
    """One statement whose value is a call along an axis."""

    kernel: Kernel
    statements: tuple[Assign, ...]

    @property
    def statement(self) -> Assign:
        """The statement."""
        return self.statements[0]

    @property
    def call(self) -> NamedCall:
        """The call."""
        value = self.statement.value
        assert isinstance(value, NamedCall)
        return value

    @property
    def operand(self) -> Expr:
        """The first operand."""
        return self.call.operands[0]

    @property
    def others(self) -> tuple[str, ...]:
        """Indices of the operand beside the axis, in the target's order."""
        inner = [name for name in indices_of(self.operand) if name != self.call.axis]
        order = indices_of(self.statement.target)
        return tuple(sorted(inner, key=lambda n: order.index(n) if n in order else len(order)))

    @property
    def extents(self) -> dict[str, VilExpr]:
        """Extent of each index."""
        found = index_extents(self.kernel, self.statement)
        return {name: symbolic.from_ir(size) for name, size in found.items()}


@dataclass(frozen=True, slots=True)
class Plan:
    """Where the indices lie.

    Attributes:
        along: 1: the axis is on the columns of the tiles, 0: on the rows.
        across: Indices on the other axis, outermost first.
        fixed: Indices that the grid walks.
        height, width: Rows and columns of the tiles.
        list_width: Columns of a running list (topk, sort).
    """

    along: int
    across: tuple[str, ...]
    fixed: tuple[str, ...]
    height: int
    width: int
    list_width: int = 0

    def __str__(self) -> str:
        side = "columns" if self.along else "rows"
        return f"{self.height} x {self.width} tiles, the axis on {side}"


def is_mixed(expr: Expr, axis: str) -> bool:
    """True where the axis cannot lie on columns: in a loaded subscript, or with philox."""
    for item in walk(expr):
        if isinstance(item, Call) and item.function == "philox":
            return True
        if isinstance(item, Access):
            parts = [part for part in item.indices if is_loaded(part)]
            if any(axis in indices_of(part) for part in parts):
                return True
    return False


def plans(match: Match, target: Target, sizes: Mapping[str, int], *, columns: bool) -> list[Plan]:
    """Ways to lay the indices, the most promising first.

    Args:
        columns: The axis must lie on the columns.
    """
    axis, others, extents = match.call.axis, match.others, match.extents
    names = indices_of(match.statement.target)
    down = bool(others) and bool(names) and names[-1] != axis and not columns
    flat = others[-MOST_DIGITS:]
    shapes = [(1, flat), (1, others[-1:]), (1, ())]
    if not columns:
        shapes.insert(0 if down else 1, (0, others[-1:]))
    found: list[Plan] = []
    for elements in (TILE_ELEMENTS, TILE_ELEMENTS // 8):
        for along, across in shapes:
            fixed = tuple(name for name in others if name not in across)
            room = min(elements, target.limits.max_tile_bytes // 8)
            long = size_of(extents[axis], sizes)
            wide = size_of(symbolic.product(extents[name] for name in across), sizes)
            if along:
                width = target.rounded_columns(min(long, MOST_COLUMNS, room))
                height = target.rounded_rows(min(wide, max(1, room // width)))
            else:
                width = target.rounded_columns(min(wide, room // 8))
                height = target.rounded_rows(min(long, max(1, room // width)))
            found.append(Plan(along, across, fixed, height, width))
    return list(dict.fromkeys(found))


def value_dtype(kernel: Kernel, expr: Expr) -> DType:
    """The type in which the values of an operand are looked at."""
    found = dtype_of(kernel, expr) or dtypes.f32
    return dtypes.i32 if found.kind == "bool" else compute_dtype(found)


def number_dtype(target: Target, dtype: DType) -> DType:
    """The type in which positions are kept for a target of a type."""
    wide = target.supports("iota", "", dtypes.i64) and target.supports("sel", "", dtypes.i64)
    return dtypes.i64 if dtype == dtypes.i64 and wide else dtypes.i32


class Walk:
    """The roles of one program, and its walk over the axis.

    Attributes:
        scope: The program.
        name: The index that walks.
        origin: Position of the tile in hand; set inside `chunks`.
    """

    def __init__(self, scope: Scope, plan: Plan, name: str) -> None:
        self.scope = scope
        self.plan = plan
        self.name = name
        self.origin: Value = Const(0)

    @property
    def length(self) -> int:
        """Positions of a tile along the axis."""
        return self.plan.width if self.plan.along else self.plan.height

    @property
    def line(self) -> tuple[int, int]:
        """Shape of a tile with one position."""
        return (self.plan.height, 1) if self.plan.along else (1, self.plan.width)

    @contextmanager
    def programs(self) -> Iterator[None]:
        """The grid: one program for each tile of the other indices."""
        scope, plan = self.scope, self.plan
        counts: list[VilExpr] = [scope.extents[name] for name in plan.fixed]
        size = plan.height if plan.along else plan.width
        total = symbolic.product(scope.extents[name] for name in plan.across)
        counts.append(symbolic.ceil_ratio(total, size))
        with scope.grid(*counts) as places:
            for name, place in zip(plan.fixed, places, strict=False):
                scope.fix(name, place)
            start = scope.compute("mul", places[-1], size)
            if plan.along:
                scope.rows(*plan.across, length=size, origin=start)
            else:
                scope.columns(*plan.across, length=size, origin=start)
            yield

    @contextmanager
    def chunks(self, *, reverse: bool = False) -> Iterator[None]:
        """The walk: tile after tile along the axis, the last first where `reverse`."""
        scope = self.scope
        count = symbolic.ceil_ratio(scope.extents[self.name], self.length)
        with scope.loop(count) as turn:
            number = turn
            if reverse:
                number = scope.compute("sub", symbolic.plus(count, -1), turn)
            self.origin = scope.compute("mul", number, self.length)
            put = scope.columns if self.plan.along else scope.rows
            put(self.name, length=self.length, origin=self.origin)
            yield

    def values(self, expr: Expr, kind: DType) -> TileHandle:
        """The operand on the tile in hand, full in shape and valid no further than the axis."""
        shape = (self.plan.height, self.plan.width)
        return value_of(self.scope, expr, kind, shape, self.plan.along)


def value_of(
    scope: Scope, expr: Expr, kind: DType, shape: tuple[int, int], along: int
) -> TileHandle:
    """An expression as a tile of a shape, limited along a tile axis. The caller releases it."""
    tile = scope.value(expr, want=kind)
    wide = scope.convert(tile, kind)
    if wide is not tile:
        scope.release(tile)
    whole = scope.spread(wide, *shape)
    if whole is not wide:
        scope.release(wide)
    return limited(scope, expr, whole, along)


def limited(scope: Scope, expr: Expr, tile: TileHandle, along: int) -> TileHandle:
    """The tile, valid no further than its axis goes; loads see to it by themselves."""
    name = ("row", "column")[along]
    axis = scope.axes_of_tile[name]
    here = {index for index, role in scope.placed() if role.axis == name}
    reads = [item for item in walk(expr) if isinstance(item, Access)]
    if axis.limit is None or any(not here.isdisjoint(indices_of(item)) for item in reads):
        return tile
    left = scope.compute("sub", axis.limit, axis.origin)
    shape = (tile.tile.rows, tile.tile.columns)
    mask = scope.tile(dtypes.bool_, *shape)
    if along:
        scope.p.fill(mask, 1, columns=left)
    else:
        scope.p.fill(mask, 1, rows=left)
    scope.p.sel(tile, mask, tile, tile)
    scope.release(mask)
    return tile


def renamed(expr: Expr, old: str, new: str) -> Expr:
    """The expression with another index in place of one."""
    return transform(expr, lambda e: Index(new) if e == Index(old) else e)
