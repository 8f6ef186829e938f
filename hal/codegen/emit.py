"""Expressions of the IR as operations on tiles.

Each distinct subexpression is computed once. A tile that nothing needs any more is written over
by the next operation of its shape, so that a chain of operations stays in one tile.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from hal import dtypes
from hal.codegen.errors import CodegenError
from hal.codegen.frame import Frame
from hal.codegen.gathering_index import is_loaded
from hal.codegen.random_elements import random_elements
from hal.dtypes import DType
from hal.ir import nodes as ir
from hal.ir.analysis import compute_dtype, promote
from hal.vil.builder import TileHandle
from hal.vil.expressions import Const

__all__ = ["Emitter"]

COMPARISONS = frozenset({"lt", "le", "eq", "ne"})
Key = tuple[object, ...]
MANY = 1 << 20


class Emitter:
    """The tiles of one expression under the roles of a scope."""

    def __init__(self, scope: Frame, want: DType | None = None) -> None:
        self.scope = scope
        self.want = want
        self._numbers: dict[Key, int] = {}
        self._number_of: dict[int, int] = {}  # by identity: shared parts are looked at once
        self._kept: list[ir.Expr] = []  # keeps identities alive
        self._uses: dict[int, int] = {}
        self._types: dict[int, DType | None] = {}
        self._tiles: dict[tuple[int, DType | None], TileHandle] = {}
        self._owned: set[int] = set()  # tile indices that may be written over
        self._loaded: set[int] = set()  # of these, as they came from memory

    def run(self, expr: ir.Expr) -> TileHandle:
        """The tile of the whole expression; the caller owns it."""
        self._count(expr)
        tile = self._emit(expr, self.want)
        if tile.index in self._owned:
            return tile
        copy = self.scope.tile(tile.tile.dtype, tile.tile.rows, tile.tile.columns)
        self.scope.p.un("mov", copy, tile)
        return copy

    # ---- Numbers: equal subexpressions have one ----

    def _number(self, expr: ir.Expr) -> int:
        known = self._number_of.get(id(expr))
        if known is not None:
            return known
        below: list[object] = [self._number(child) for child in ir.children(expr)]
        match expr:
            case ir.Access(array=name, pad=pad):
                key: Key = ("access", name, repr(pad), *below)
            case ir.Call(function=function):
                key = ("call", function, *below)
            case ir.Cast(dtype=dtype, saturate=saturate):
                key = ("cast", dtype.name, saturate, *below)
            case ir.Const(value=value, dtype=dtype):
                key = ("const", type(value).__name__, repr(value), dtype and dtype.name)
            case _:
                key = ("leaf", expr)
        number = self._numbers.setdefault(key, len(self._numbers))
        self._number_of[id(expr)] = number
        self._kept.append(expr)
        return number

    def _count(self, expr: ir.Expr) -> None:
        """How many operations use each subexpression."""
        number = self._number(expr)
        self._uses[number] = self._uses.get(number, 0) + 1
        if self._uses[number] > 1 or self._is_bound(expr):
            return
        if isinstance(expr, ir.Call) and expr.function == "philox":
            return
        if isinstance(expr, ir.Call | ir.Cast):
            for child in ir.children(expr):
                self._count(child)
                if self.type_of(expr) is None:  # perhaps computed once for each type it meets
                    self._uses[self._number(child)] += MANY

    def _is_bound(self, expr: ir.Expr) -> bool:
        return bool(self.scope.bindings) and expr in self.scope.bindings

    def _release(self, expr: ir.Expr, tile: TileHandle) -> None:
        """One use less; after the last the tile is free."""
        number = self._number(expr)
        self._uses[number] -= 1
        if not self._uses[number] and tile.index in self._owned:
            self._owned.discard(tile.index)
            self.scope.release(tile)

    # ---- Types ----

    def type_of(self, expr: ir.Expr) -> DType | None:
        """The IR's type of an expression; None for a weak literal."""
        number = self._number(expr)
        if number not in self._types:
            self._types[number] = self._typed(expr)
        return self._types[number]

    def _typed(self, expr: ir.Expr) -> DType | None:
        kernel = self.scope.lowering.kernel
        match expr:
            case ir.Const(value=value, dtype=dtype):
                return dtypes.bool_ if isinstance(value, bool) else dtype
            case ir.Index() | ir.ParamRef():
                return dtypes.i64
            case ir.ScalarRef(name=name):
                return next(item.dtype for item in kernel.scalars if item.name == name)
            case ir.Access(array=name):
                return self.scope.lowering.array(name).dtype
            case ir.Cast(dtype=dtype):
                return dtype
            case ir.Call(function=function) if function in COMPARISONS or function == "isnan":
                return dtypes.bool_
            case ir.Call(function="philox"):
                return dtypes.f32
            case ir.Call(function=function, operands=operands):
                return self._common(operands[1:] if function == "where" else operands)
        text = f"{type(expr).__name__} has no value of its own"
        raise CodegenError(text, span=getattr(expr, "span", None))

    def _common(self, operands: tuple[ir.Expr, ...]) -> DType | None:
        found: DType | None = None
        for operand in operands:
            try:
                found = promote(found, self.type_of(operand))
            except TypeError as error:
                raise CodegenError(str(error), span=getattr(operand, "span", None)) from None
        return found

    def _computed(self, dtype: DType | None, *operands: ir.Expr) -> DType:
        """The dtype in which an operation runs."""
        if dtype is not None:
            return self._known(compute_dtype(dtype))
        if self.want is not None:
            return self._known(compute_dtype(self.want))
        floats = any(
            isinstance(item, ir.Const) and isinstance(item.value, float)
            for operand in operands
            for item in ir.walk(operand)
        )
        return dtypes.f32 if floats else dtypes.i32

    def _known(self, dtype: DType) -> DType:
        """The dtype; on a chip without i64 the positions that would have it are i32."""
        return self._index_dtype() if dtype == dtypes.i64 else dtype

    # ---- Tiles ----

    def _emit(self, expr: ir.Expr, want: DType | None) -> TileHandle:
        """The tile of an expression in its compute dtype (a weak one: in that of `want`)."""
        if self._is_bound(expr):
            return self._bound(expr, self.scope.bindings[expr])
        dtype = self.type_of(expr)
        weak = compute_dtype(want) if dtype is None and want is not None else None
        key = (self._number(expr), weak)
        if key not in self._tiles:
            self._tiles[key] = self._made(expr, weak)
        return self._tiles[key]

    def _bound(self, expr: ir.Expr, tile: TileHandle) -> TileHandle:
        wide = compute_dtype(tile.tile.dtype)
        if wide == tile.tile.dtype:
            return tile
        key = (self._number(expr), None)
        if key not in self._tiles:
            self._tiles[key] = self._own(self.scope.convert(tile, wide))
        return self._tiles[key]

    def _own(self, tile: TileHandle) -> TileHandle:
        """Marks a tile as this expression's own."""
        self._owned.add(tile.index)
        return tile

    def _made(self, expr: ir.Expr, weak: DType | None) -> TileHandle:
        scope = self.scope
        match expr:
            case ir.Const(value=value):
                dtype = weak or self._computed(self.type_of(expr), expr)
                return scope.constant(value, dtype)
            case ir.ScalarRef(name=name):
                dtype = self._computed(self.type_of(expr))
                return scope.scalar_tile(name, dtype)
            case ir.ParamRef():
                return scope.symbol_tile(scope.symbolic(expr), self._index_dtype())
            case ir.Index():
                return self._index(expr)
            case ir.Access():
                return self._access(expr)
            case ir.Cast():
                return self._cast(expr)
            case ir.Call(function="philox"):
                return self._philox(expr)
            case ir.Call():
                return self._call(expr, weak)
        raise CodegenError(f"{type(expr).__name__} has no value of its own")

    def _index_dtype(self) -> DType:
        """i64, or i32 on a chip without it."""
        target = self.scope.target
        whole = target.supports("iota", "", dtypes.i64) and target.supports("bin", "lt", dtypes.i64)
        return dtypes.i64 if whole else dtypes.i32

    def _index(self, expr: ir.Expr, dtype: DType | None = None) -> TileHandle:
        """An affine integer expression by IOTA, or a digit by division of one."""
        scope = self.scope
        kind = dtype or self._index_dtype()
        place = scope.place(expr)
        if place is not None:
            base, row, column = place
            rows = scope.axes_of_tile["row"].length if row != Const(0) else 1
            columns = scope.axes_of_tile["column"].length if column != Const(0) else 1
            tile = scope.tile(kind, rows, columns)
            scope.p.iota(tile, base=base, row=row, column=column)
            return self._own(tile)
        if not isinstance(expr, ir.Index):
            raise CodegenError("not an affine expression", span=getattr(expr, "span", None))
        return self._own(scope.digit_tile(expr.name, kind))

    def _access(self, expr: ir.Access) -> TileHandle:
        scope = self.scope
        tile = scope.load(expr)
        wide = compute_dtype(tile.tile.dtype)
        if wide == tile.tile.dtype:
            self._loaded.add(tile.index)
            return self._own(tile)
        result = scope.convert(tile, wide)
        scope.release(tile)
        return self._own(result)

    def _cast(self, expr: ir.Cast) -> TileHandle:
        scope = self.scope
        inner = expr.operand
        expr = replace(expr, dtype=self._known(expr.dtype))
        if expr.dtype == dtypes.i32 and isinstance(inner, ir.Index) and not expr.saturate:
            self._uses[self._number(inner)] -= 1
            return self._index(inner, dtypes.i32)
        tile = self._emit(inner, self.type_of(inner) or expr.dtype)
        wide = compute_dtype(expr.dtype)
        source = self.type_of(inner)
        exact = isinstance(inner, ir.Access) and source == expr.dtype
        exact = exact or (source is not None and source.bytes < expr.dtype.bytes)
        same = source is not None and source.kind == expr.dtype.kind
        if tile.tile.dtype == expr.dtype and not expr.saturate:
            return self._moved(inner, tile)
        if exact and same and tile.tile.dtype == wide and not expr.saturate:
            return self._moved(inner, tile)
        result = scope.tile(expr.dtype, tile.tile.rows, tile.tile.columns)
        scope.p.cast(result, tile, saturate=expr.saturate)
        self._release(inner, tile)
        if wide == expr.dtype:
            return self._own(result)
        whole = scope.convert(result, wide)
        scope.release(result)
        return self._own(whole)

    def _moved(self, operand: ir.Expr, tile: TileHandle) -> TileHandle:
        """The operand's tile as the result: the same tile where nothing else needs it."""
        number = self._number(operand)
        if self._uses[number] == 1 and tile.index in self._owned:
            self._uses[number] = 0
            return tile
        result = self.scope.tile(tile.tile.dtype, tile.tile.rows, tile.tile.columns)
        self.scope.p.un("mov", result, tile)
        self._release(operand, tile)
        return self._own(result)

    def _philox(self, expr: ir.Call) -> TileHandle:
        scope = self.scope
        seed, offset, element = expr.operands
        place = scope.place(element)
        columns = scope.axes_of_tile["column"].length
        uniform = scope.is_uniform(seed) and scope.is_uniform(offset)
        uniform = uniform and not is_loaded(seed) and not is_loaded(offset)
        if not uniform or place is None or place[2] not in (Const(0), Const(1)):
            return self._own(random_elements(scope, expr))
        if place[2] == Const(0) and columns > 1 and place[1] == Const(0):
            return self._own(random_elements(scope, expr))
        base, row, column = place
        rows = scope.axes_of_tile["row"].length if row != Const(0) else 1
        tile = scope.tile(dtypes.f32, rows, 1 if column == Const(0) else columns)
        scope.p.rng(
            "uniform",
            tile,
            base=base,
            pitch=row,
            seed=scope.integer(seed),
            offset=scope.integer(offset),
        )
        return self._own(tile)

    def _call(self, expr: ir.Call, weak: DType | None) -> TileHandle:
        parts = list(expr.operands)
        condition = parts.pop(0) if expr.function == "where" else None
        common = self._common(tuple(parts))
        boolean = expr.function in COMPARISONS or expr.function == "isnan"
        if common is None and weak is not None and not boolean:
            common = weak
        kind = self._computed(common, *parts)
        operands = [self._operand(part, kind) for part in parts]
        if condition is not None:
            operands.insert(0, self._operand(condition, dtypes.bool_))
        result = self._target(dtypes.bool_ if boolean else kind, operands)
        tiles = [operand.tile for operand in operands]
        if condition is not None:
            self.scope.p.sel(result, *tiles)
        elif len(tiles) == 1:
            self.scope.p.un(expr.function, result, tiles[0])
        else:
            self.scope.p.bin(expr.function, result, *tiles)
        for operand in operands:
            self._finished(operand, result)
        return self._own(result)

    def _operand(self, expr: ir.Expr, kind: DType) -> _Operand:
        """An operand in the dtype of the operation."""
        tile = self._emit(expr, kind)
        number = self._number(expr)
        if tile.tile.dtype == kind:
            return _Operand(tile, number)
        wide = self.scope.convert(tile, kind)
        self._release(expr, tile)
        return _Operand(wide, None)

    def _target(self, dtype: DType, operands: list[_Operand]) -> TileHandle:
        """Where a result goes: over an operand that nothing else needs, else a tile of its own.

        A loaded tile is left alone, so that a chip may read the memory itself in its place.
        """
        rows = max(operand.tile.tile.rows for operand in operands)
        columns = max(operand.tile.tile.columns for operand in operands)
        for operand in operands:
            tile = operand.tile.tile
            same = (tile.dtype, tile.rows, tile.columns) == (dtype, rows, columns)
            uses = sum(operand.number == other.number for other in operands)
            last = operand.number is None or (
                self._uses[operand.number] == uses and operand.tile.index in self._owned
            )
            if same and last and operand.tile.index not in self._loaded:
                return operand.tile
        return self.scope.tile(dtype, rows, columns)

    def _finished(self, operand: _Operand, result: TileHandle) -> None:
        """One use of an operand less."""
        over = operand.tile.index == result.index
        if operand.number is None:
            if not over:
                self.scope.release(operand.tile)
            return
        self._uses[operand.number] -= 1
        if not self._uses[operand.number] and operand.tile.index in self._owned and not over:
            self._owned.discard(operand.tile.index)
            self.scope.release(operand.tile)


@dataclass(frozen=True, slots=True)
class _Operand:
    """A tile that an operation reads; without a number it belongs to that operation alone."""

    tile: TileHandle
    number: int | None
