"""Random valid programs, by construction, for a given chip.

`generate(Choices(seed))` is for suites that need a repeatable stream of cases; a property-based
test passes its own object with the two methods of `Choices` so that failures shrink.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from hal import dtypes
from hal.dtypes import DType
from hal.vil.builder import BufferHandle, Builder, DescriptorHandle, TileHandle
from hal.vil.check_chip import Limits
from hal.vil.elementwise import COMPARISONS, binary_allows, unary_allows
from hal.vil.expressions import Expr, Symbol, as_expr, ceil_div, maximum
from hal.vil.model import Axis, Digit, Dimension, SReg, Term, Value
from hal.vil.module import Module
from hal.vil.numerics import round_to
from hal.vil.reductions import reduce_result
from hal.vil.serialise import serialise
from hal.vil.tables import OPS

__all__ = ["Case", "Choices", "generate", "random_array"]

Item = TypeVar("Item")

_EXACT_UN = ("mov", "neg", "abs", "floor", "ceil", "trunc", "round", "not", "isnan")
_INEXACT_BIN = ("div", "pow", "fmod")
_NUMBERS = (
    dtypes.f32,
    dtypes.i32,
    dtypes.f16,
    dtypes.bf16,
    dtypes.f64,
    dtypes.i8,
    dtypes.u8,
    dtypes.i64,
)
_STORED = (*_NUMBERS, dtypes.bool_)
_MMA = {
    "f16": dtypes.f32,
    "bf16": dtypes.f32,
    "f32": dtypes.f32,
    "f64": dtypes.f64,
    "i8": dtypes.i32,
    "u8": dtypes.i32,
    "i32": dtypes.i32,
    "i64": dtypes.i64,
}


class Choices:
    """A seeded source of decisions."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def integer(self, low: int, high: int) -> int:
        """An integer in [low, high]."""
        return self._random.randint(low, high)

    def pick(self, items: Sequence[Item]) -> Item:
        """One of the items."""
        return items[self.integer(0, len(items) - 1)]


@dataclass(frozen=True, slots=True)
class Case:
    """A program with arguments; `exact` says that every right port gives the same bits.

    NaN payloads and the sign of a zero are free even then.
    """

    module: Module
    kernel: str
    arguments: dict[str, Any]
    exact: bool


def random_array(dtype: DType, count: int, seed: int) -> np.ndarray[Any, Any]:
    """Buffer contents: small numbers, extremes and, for floats, every kind of special value."""
    source = np.random.default_rng(seed)
    if dtype.kind == "bool":
        return source.integers(0, 2, count).astype(bool)
    small = source.integers(-9, 10, count)
    if dtype.is_int:
        low, high = int(dtype.minimum), int(dtype.maximum)
        wide = source.integers(low, high, count, dtype=np.int64, endpoint=True)
        edges = source.choice(
            np.array([low, low + 1, -1 if low else 0, 0, 1, high], np.int64), count
        )
        kind = source.integers(0, 4, count)
        picked = np.where(kind == 0, wide, np.where(kind == 1, edges, np.maximum(small, low)))
        return picked.astype(dtype.numpy)
    largest = float(dtype.maximum)
    tiny = 2.0**dtype.smallest_exponent
    edges = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, largest, -largest, tiny, -3 * tiny, 0.5])
    kind = source.integers(0, 8, count)
    normal = source.standard_normal(count) * 3
    picked = np.where(kind < 2, normal, small.astype(np.float64))
    picked = np.where(kind == 7, source.choice(edges, count), picked)
    return round_to(picked, dtype)


def generate(
    choices: Choices,
    limits: Limits | None = None,
    *,
    steps: int = 12,
    exact: bool = True,
    types: Sequence[DType] = _NUMBERS,
) -> Case:
    """A valid case.

    Args:
        limits: The chip (`Limits.of(hcd)`); `vil-core` by default. An explicit chip gets explicit
            programs, whose tiles lie in near unless an operand of MMA.
        steps: Instructions to choose, control and operand set-up aside.
        exact: Leave out every operation whose result depends on order or on a tolerance.
        types: Element types to use.
    """
    return _Generator(choices, limits or Limits(), exact, types).case(steps)


class _Generator:
    def __init__(
        self, choices: Choices, limits: Limits, exact: bool, types: Sequence[DType]
    ) -> None:
        self.choices = choices
        self.limits = limits
        self.exact = exact
        self.types = [dtype for dtype in types if self._allows("load", "", dtype)]
        self.builder = Builder()
        self.program = self.builder.program("generated")
        self.arguments: dict[str, Any] = {}
        self.bytes: dict[str, Expr] = {}
        self.tiles: list[TileHandle] = []
        self.full: set[int] = set()
        self.sregs: list[SReg] = [SReg(0), SReg(1), SReg(2)]
        self.symbols: list[tuple[Symbol, int]] = []
        self.depth = 0
        self.count = 0
        self.grid = [choices.integer(1, 2) for _ in range(choices.integer(1, 2))]
        self.room = max(4, min(limits.max_tiles, 40) - 6)

    # --- small decisions -------------------------------------------------------------------------

    def _name(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def _allows(self, op: str, function: str, dtype: DType, target: DType | None = None) -> bool:
        if self.limits.rows is None:
            return True
        for row in self.limits.rows.get(op, []):
            listed = row.get("functions", [function]) if OPS[op].functions else [function]
            if function and function not in listed:
                continue
            if "dtypes" in row and dtype.name not in row["dtypes"]:
                continue
            if target is not None and "dtypes_to" in row and target.name not in row["dtypes_to"]:
                continue
            return True
        return False

    def _length(self, granule: int, most: int) -> int:
        if self.choices.integer(0, 4) == 0:
            return 1
        top = max(1, min(most, max(granule, 12)) // granule)
        return granule * self.choices.integer(1, top)

    def _shape(self) -> tuple[int, int]:
        limits = self.limits
        rows = self._length(limits.granule_rows, limits.max_rows)
        return rows, self._length(limits.granule_columns, limits.max_columns)

    def _value(self, low: int, high: int) -> Value:
        """A value in [low, high] whenever it is a constant or symbol; SREGs are small anyway."""
        kind = self.choices.integer(0, 5)
        if kind == 0 and self.sregs:
            return self.choices.pick(self.sregs)
        if kind == 1:
            fitting = [symbol for symbol, number in self.symbols if low <= number <= high]
            if fitting:
                return self.choices.pick(fitting)
        return as_expr(self.choices.integer(low, high))

    def _tile(self, dtype: DType, rows: int, columns: int, space: str = "near") -> TileHandle:
        layout = "row"
        if self.choices.integer(0, 3) == 0 and "col" in self.limits.layouts:
            layout = "col"
        stages = self.choices.pick([1, 1, 1, 2])
        handle = self.program.tile(
            self._name("t"), dtype, rows, columns, space=space, stages=stages, layout=layout
        )
        if stages > 1 and self.choices.integer(0, 1):
            handle = handle[self._value(0, 3)]
        return handle

    def _keep(self, handle: TileHandle, full: bool = False) -> TileHandle:
        self.tiles.append(handle)
        if full and not self.depth and handle.stage is None:
            self.full.add(handle.index)
        return handle

    def _find(
        self,
        dtype: DType,
        rows: int | None = None,
        columns: int | None = None,
        *,
        full: bool = False,
    ) -> TileHandle:
        """A tile of this type and shape that already has a value, or a new one."""
        fitting = [
            handle
            for handle in self.tiles
            if handle.tile.dtype == dtype
            and handle.tile.space == "near"
            and rows in (None, handle.tile.rows)
            and columns in (None, handle.tile.columns)
            and (not full or handle.index in self.full)
        ]
        if fitting and self.choices.integer(0, 3):
            return self.choices.pick(fitting)
        shape = self._shape()
        return self._fresh(dtype, rows or shape[0], columns or shape[1], full)

    def _fresh(self, dtype: DType, rows: int, columns: int, full: bool = False) -> TileHandle:
        handle = self._tile(dtype, rows, columns)
        if self.choices.integer(0, 2) and not full:
            self.program.load(handle, self._map(handle, self._input(dtype)))
            return self._keep(handle)
        if dtype in (dtypes.i32, dtypes.i64) and self.choices.integer(0, 1):
            values = [self._value(-4, 9) for _ in range(3)]
            self.program.iota(handle, base=values[0], row=values[1], column=values[2])
        else:
            number = self.choices.integer(0 if dtype.minimum == 0 and dtype.is_int else -3, 5)
            constant = number % 2 if dtype.kind == "bool" else number
            rows_valid = None if full or self.choices.integer(0, 1) else self._value(0, rows + 1)
            self.program.fill(handle, constant, rows=rows_valid)
            full = full or rows_valid is None
            return self._keep(handle, full)
        return self._keep(handle, True)

    # --- memory ----------------------------------------------------------------------------------

    def _input(self, dtype: DType) -> BufferHandle:
        name = self._name("in")
        handle = self.program.buffer(name, dtype, "read")
        count = self.choices.integer(1, 200)
        self.arguments[name] = random_array(dtype, count, self.choices.integer(0, 2**31))
        self.bytes[name] = as_expr(count * dtype.bytes)
        return handle

    def _terms(self, counts: dict[str, int]) -> list[Term]:
        terms = []
        for _ in range(self.choices.integer(0, 3)):
            source = self.choices.pick(["sreg", "row", "column", "row", "column"])
            factor = self._value(-2, 3)
            if source == "sreg":
                terms.append(Term("sreg", self.choices.pick(self.sregs).index, factor))
            elif counts[source]:
                terms.append(Term(source, self.choices.integer(0, counts[source] - 1), factor))
        return terms

    def _axis(self, length: int) -> Axis:
        choices = self.choices
        origin = None if choices.integer(0, 1) else self._value(-3, 9)
        limit = None if choices.integer(0, 1) else self._value(0, length + 9)
        digits = [
            Digit(
                None if choices.integer(0, 1) else self._value(0, 5),
                as_expr(choices.pick([1, 1, 2, 3, 5, 0, -2])),
            )
            for _ in range(choices.integer(0, 3))
        ]
        return Axis(origin, limit, tuple(digits))

    def _map(
        self, tile: TileHandle, buffer: BufferHandle | DType, near: int = 0
    ) -> DescriptorHandle:
        """A descriptor that reads anywhere inside the buffer, outside of it, or both."""
        choices = self.choices
        if isinstance(buffer, BufferHandle):
            room = len(self.arguments[buffer.name])
            if choices.integer(0, 2) == 0:
                columns = max(1, min(tile.tile.columns, room))
                return self.program.matrix(
                    buffer, room // columns, columns, limited=bool(choices.integer(0, 1))
                )
        else:
            room = near
        row, column = self._axis(tile.tile.rows), self._axis(tile.tile.columns)
        counts = {"row": len(row.digits), "column": len(column.digits)}
        extents: list[int] = []
        strides: list[int] = []
        step = 1
        for _ in range(choices.integer(1, 5)):
            extent = choices.integer(1, max(1, min(8, room // step)))
            if step * extent > room:
                break
            extents.append(extent)
            strides.append(step if choices.integer(0, 7) else 0)
            step *= extent
        order = list(range(len(extents)))
        if choices.integer(0, 1):
            order.reverse()
        dims = [
            Dimension(
                as_expr(extents[index]),
                as_expr(strides[index]),
                self._value(-2, extents[index]),
                tuple(self._terms(counts)),
            )
            for index in order
        ]
        dtype = buffer if isinstance(buffer, DType) else buffer.dtype
        low = 0 if dtype.kind == "bool" or dtype.minimum == 0 else -2
        fill = choices.integer(low, 1)
        return self.program.descriptor(buffer, dims, row=row, column=column, fill=fill)

    def _output(self, dtype: DType, rows: int, columns: int) -> DescriptorHandle:
        """A map of an own block for each instance, in a new inout buffer."""
        name = self._name("out")
        buffer = self.program.buffer(name, dtype, "inout")
        grid = (*self.grid, 1)[:2]
        count = grid[0] * grid[1] * rows * columns
        self.arguments[name] = random_array(dtype, count, self.choices.integer(0, 2**31))
        self.bytes[name] = as_expr(count * dtype.bytes)
        zero, one = as_expr(0), as_expr(1)
        dims = [
            Dimension(as_expr(grid[0]), as_expr(rows * columns), zero, (Term("sreg", 0, one),)),
            Dimension(
                as_expr(grid[1]), as_expr(grid[0] * rows * columns), zero, (Term("sreg", 1, one),)
            ),
            Dimension(as_expr(rows), as_expr(columns), zero, (Term("row", 0, one),)),
            Dimension(as_expr(columns), one, zero, (Term("column", 0, one),)),
        ]
        digit = (Digit(None, one),)
        limit = None if self.choices.integer(0, 1) else self._value(0, rows + 2)
        row = Axis(None, limit, digit)
        return self.program.descriptor(buffer, dims, row=row, column=Axis(digits=digit))

    def _store(self, handle: TileHandle) -> None:
        tile = handle.tile
        if not self._allows("store", "", tile.dtype):
            return
        target = self._output(tile.dtype, tile.rows, tile.columns)
        self.program.store(target, handle, stream=bool(self.choices.integer(0, 1)))
        if self.choices.integer(0, 2) == 0:
            back = self._tile(tile.dtype, tile.rows, tile.columns)
            self.program.load(back, target)
            self._keep(back)

    # --- operations ------------------------------------------------------------------------------

    def _type(self, op: str, function: str = "", types: Sequence[DType] | None = None) -> DType:
        """A type that the chip has for the operation; f32 as the last resort of vil-core."""
        known = [t for t in types or self.types if self._allows(op, function, t)]
        return self.choices.pick(known) if known else dtypes.f32

    def _un(self) -> None:
        functions = _EXACT_UN if self.exact else OPS["un"].functions
        function = self.choices.pick(functions)
        types = [t for t in _STORED if unary_allows(function, t) and self._usable(t)]
        types = [t for t in types if self._allows("un", function, t)]
        if not types:
            return
        dtype = self.choices.pick(types)
        a = self._find(dtype)
        target = dtypes.bool_ if function == "isnan" else dtype
        d = a if target == dtype and not self.choices.integer(0, 3) else None
        d = d or self._tile(target, a.tile.rows, a.tile.columns)
        self.program.un(function, d, a)
        self._keep(d, a.index in self.full)

    def _usable(self, dtype: DType) -> bool:
        return dtype in self.types or dtype is dtypes.bool_

    def _operand(self, dtype: DType, rows: int, columns: int) -> TileHandle:
        """A tile that broadcasts to rows × columns."""
        kind = self.choices.integer(0, 5)
        return self._find(dtype, 1 if kind in (0, 2) else rows, 1 if kind in (1, 2) else columns)

    def _bin(self) -> None:
        function = self.choices.pick(OPS["bin"].functions)
        types = [t for t in _STORED if binary_allows(function, t) and self._usable(t)]
        types = [t for t in types if self._allows("bin", function, t)]
        if not types or (self.exact and function in _INEXACT_BIN):
            return
        dtype = self.choices.pick(types)
        rows, columns = self._shape()
        a, b = self._operand(dtype, rows, columns), self._operand(dtype, rows, columns)
        d = self._tile(dtypes.bool_ if function in COMPARISONS else dtype, rows, columns)
        self.program.bin(function, d, a, b)
        self._keep(d, a.index in self.full and b.index in self.full)

    def _sel(self) -> None:
        dtype = self._type("sel")
        rows, columns = self._shape()
        a = self._operand(dtypes.bool_, rows, columns)
        b, c = self._operand(dtype, rows, columns), self._operand(dtype, rows, columns)
        d = self._tile(dtype, rows, columns)
        self.program.sel(d, a, b, c)
        self._keep(d)

    def _cast(self) -> None:
        source = self._type("cast", types=[*self.types, dtypes.bool_])
        targets = [t for t in dtypes.ALL if self._allows("cast", "", source, t)]
        small = [dtypes.f8e4m3, dtypes.f8e5m2]
        targets = [t for t in targets if self._usable(t) or t in small]
        if not targets:
            return
        a = self._find(source)
        target = self.choices.pick(targets)
        d = self._tile(target, a.tile.rows, a.tile.columns)
        self.program.cast(d, a, saturate=bool(self.choices.integer(0, 1)))
        self._keep(d, a.index in self.full)
        if target in small and self._allows("cast", "", target, source):
            back = self._tile(source, a.tile.rows, a.tile.columns)
            self.program.cast(back, d)
            self._keep(back)

    def _reduce(self, op: str) -> None:
        function = self.choices.pick(OPS[op].functions)
        pairs = [
            (source, target)
            for source in _STORED
            for target in _STORED
            if reduce_result(function, source, target)
            and self._usable(source)
            and self._usable(target)
            and self._allows(op, function, source)
            and not (self.exact and source.is_float and function in ("add", "mul"))
        ]
        if not pairs:
            return
        source, target = self.choices.pick(pairs)
        arg = function in ("argmax", "argmin")
        a = self._find(source, full=arg)
        axis = self.choices.integer(0, 1)
        rows, columns = a.tile.rows, a.tile.columns
        if op == "red":
            rows, columns = (1, columns) if axis == 0 else (rows, 1)
        d = self._tile(target, rows, columns)
        if op == "red":
            base = self._value(-3, 9) if arg and self.choices.integer(0, 1) else None
            self.program.red(function, d, a, axis=axis, base=base)
        else:
            flags = [bool(self.choices.integer(0, 1)) for _ in range(2)]
            self.program.scan(function, d, a, axis=axis, exclusive=flags[0], reverse=flags[1])
        self._keep(d)

    def _mma(self) -> None:
        types = [t for t in self.types if self._allows("mma", "", t)]
        if self.exact:
            types = [t for t in types if t.is_int]
        if not types:
            return
        left = self.choices.pick(types)
        right = left
        if left.bytes == 1 and self.choices.integer(0, 1):
            right = self.choices.pick([t for t in types if t.bytes == 1])
        rows, inner = self._shape()
        columns = self._shape()[1]
        if inner != 1 and inner % self.limits.granule_rows:
            inner = 1
        a, b = (
            self._tile_for_mma(left, rows, inner, 0),
            self._tile_for_mma(right, inner, columns, 1),
        )
        space = self._mma_space("spaces_out")
        c = self._tile(_MMA[left.name], rows, columns, space)
        init = bool(self.choices.integer(0, 1))
        if not init:
            self.program.fill(c, self.choices.integer(-2, 2))
        self.program.mma(c, a, b, init=init)
        if space != "near":
            moved = self._tile(c.tile.dtype, rows, columns)
            self.program.copy(moved, c)
            c = moved
        self._keep(c)

    def _mma_space(self, key: str) -> str:
        """The space that an explicit chip wants for an operand of MMA."""
        rows = (self.limits.rows or {}).get("mma", [{}])
        spaces = rows[0].get(key, ["near"]) if self.limits.explicit else ["near"]
        return "near" if "near" in spaces else str(spaces[0])

    def _tile_for_mma(self, dtype: DType, rows: int, columns: int, side: int) -> TileHandle:
        space = self._mma_space(("spaces_a", "spaces_b")[side])
        if space == "near":
            return self._find(dtype, rows, columns)
        handle = self._tile(dtype, rows, columns, space)
        self.program.load(handle, self._map(handle, self._input(dtype)))
        return handle

    def _trn(self) -> None:
        a = self._find(self._type("trn", types=[*self.types, dtypes.bool_]))
        if not self._fits(a.tile.columns, a.tile.rows):
            return
        d = self._tile(a.tile.dtype, a.tile.columns, a.tile.rows)
        self.program.trn(d, a)
        self._keep(d, a.index in self.full)

    def _fits(self, rows: int, columns: int) -> bool:
        limits = self.limits
        good_rows = rows == 1 or (rows % limits.granule_rows == 0 and rows <= limits.max_rows)
        good_columns = columns == 1 or columns % limits.granule_columns == 0
        return good_rows and good_columns and columns <= limits.max_columns

    def _copy(self) -> None:
        if not self._allows("copy", "", dtypes.f32):
            return
        a = self._find(self._type("copy"))
        d = self._tile(a.tile.dtype, a.tile.rows, a.tile.columns)
        self.program.copy(d, a)
        self._keep(d, a.index in self.full)

    def _gather(self) -> None:
        if not self._allows("gather", "", dtypes.f32):
            return
        dtype = self._type("gather")
        rows, columns = self._shape()
        index = self._find(self.choices.pick([dtypes.i32, dtypes.i64]), rows, 1)
        d = self._tile(dtype, rows, columns)
        map_ = self._map(d, self._input(dtype))
        rank = len(self.program.build().descriptors[map_.index].dimensions)
        self.program.gather(d, map_, index, dim=self.choices.integer(0, rank - 1))
        self._keep(d)

    def _scatter(self) -> None:
        function = self.choices.pick(OPS["scatter"].functions)
        types = [t for t in self.types if self._allows("scatter", function, t)]
        if function != "set":
            types = [t for t in types if t.name in ("f32", "f64", "i32", "i64")]
            if self.exact and function == "add":
                types = [t for t in types if t.is_int]
        if not types:
            return
        dtype = self.choices.pick(types)
        rows, columns = self._shape()
        values = self._find(dtype, rows, columns)
        if function == "set":
            index = self._tile(dtypes.i32, rows, 1)
            base, step = self.choices.integer(-2, 2), self.choices.pick([1, -1, 2])
            self.program.iota(index, base=base, row=step)
        else:
            index = self._find(dtypes.i32, rows, 1)
        target = self._scatter_map(dtype, rows, columns)
        self.program.scatter(function, target, values, index, dim=2)

    def _scatter_map(self, dtype: DType, rows: int, columns: int) -> DescriptorHandle:
        """As `_output`, but the row coordinate is the index alone."""
        handle = self._output(dtype, rows, columns)
        item = self.program._descriptors[handle.index]
        dims = list(item.dimensions)
        dims[2] = replace(dims[2], terms=())
        self.program._descriptors[handle.index] = replace(item, dimensions=tuple(dims))
        return handle

    def _topk(self) -> None:
        types = [t for t in self.types if self._allows("topk", "", t)]
        if not types:
            return
        a = self._find(self.choices.pick(types))
        size = self._shape()[1]
        values = self._tile(a.tile.dtype, a.tile.rows, size)
        indices = self._tile(self.choices.pick([dtypes.i32, dtypes.i64]), a.tile.rows, size)
        smallest = bool(self.choices.integer(0, 1))
        for turn in range(self.choices.integer(1, 2)):
            base = self._value(0, 9)
            self.program.topk(values, indices, a, base=base, init=turn == 0, smallest=smallest)
        self._keep(values)
        self._keep(indices)

    def _rng(self) -> None:
        function = self.choices.pick(["raw", "uniform"])
        dtype = dtypes.i32 if function == "raw" else dtypes.f32
        if not self._allows("rng", function, dtype):
            return
        d = self._tile(dtype, *self._shape())
        self.program.rng(
            function,
            d,
            base=self._value(-9, 99),
            pitch=self._value(0, 64),
            seed=as_expr(self.choices.integer(-(2**63), 2**63 - 1)),
            offset=self._value(-3, 2**40),
        )
        self._keep(d, True)

    def _near(self) -> None:
        if "near_descriptors" not in self.limits.features:
            return
        source = self._find(self.choices.pick(self.types))
        tile = source.tile
        d = self._tile(tile.dtype, *self._shape())
        map_ = self._map(d, tile.dtype, tile.rows * tile.columns + 5)
        self.program.load(d, map_, near=source)
        self._keep(d)
        if self.choices.integer(0, 1):
            target = self._find(tile.dtype, full=True)
            small = self._find(tile.dtype)
            if target.index != small.index:
                width = target.tile.columns
                back = self.program.matrix(tile.dtype, target.tile.rows, width, row_stride=width)
                self.program.store(back, small, near=target)

    def _sreg(self) -> None:
        functions = [f for f in OPS["sreg"].functions if f not in ("arg", "tile", "grid")]
        function = self.choices.pick([*functions, "arg", "tile", "grid"])
        operands = {"mov": 1, "sel": 3}.get(function, 2)
        if function == "arg":
            dtype = self.choices.pick([dtypes.i32, dtypes.i64])
            name = self._name("scalar")
            self.arguments[name] = self.choices.integer(-5, 9)
            found = self.program.read_scalar(self.program.scalar(name, dtype))
        elif function == "tile":
            if "sreg_from_tile" not in self.limits.features:
                return
            dtype = self.choices.pick([dtypes.i32, dtypes.i64])
            found = self.program.read_tile(self._find(dtype, 1, 1))
        elif function == "grid":
            found = self.program.grid_size(self.choices.integer(0, 2))
        else:
            values = [self._value(-9, 9) for _ in range(operands)]
            found = self.program.compute(function, *values)
        self.sregs.append(found)

    def _control(self) -> None:
        if self.depth >= 3:
            return
        self.depth += 1
        if self.choices.integer(0, 1):
            count = self.program.compute("and", self._value(0, 3), 3)
            with self.program.loop(count) as counter:
                self.sregs.append(counter)
                self._body(self.choices.integer(1, 3))
            self.sregs.remove(counter)
        else:
            with self.program.if_(self._value(0, 1)):
                self._body(self.choices.integer(1, 3))
        self.depth -= 1

    def _scalar_fill(self) -> None:
        dtype = self.choices.pick([dtypes.f32, dtypes.f64, dtypes.i32, dtypes.i64])
        name = self._name("scalar")
        number = self.choices.pick([0, 1, -1, 3, 127, 128, 300, -70000])
        self.arguments[name] = number if dtype.is_int else number / 2
        target = self._type("fill")
        d = self._tile(target, *self._shape())
        self.program.fill(d, self.program.scalar(name, dtype))
        self._keep(d, True)

    def _store_any(self) -> None:
        near = [handle for handle in self.tiles if handle.tile.space == "near"]
        if near:
            self._store(self.choices.pick(near))

    def _body(self, steps: int) -> None:
        operations: list[Callable[[], None]] = [
            *(self._un, self._bin, self._bin, self._sel, self._cast, self._mma, self._trn),
            *(lambda: self._reduce("red"), lambda: self._reduce("scan"), self._copy),
            *(self._gather, self._scatter, self._topk, self._rng, self._near, self._sreg),
            *(self._sreg, self._control, self._scalar_fill),
            self._store_any,
        ]
        for _ in range(steps):
            if len(self.program._tiles) < self.room and self.program._sregs < 24:
                operation: Callable[[], None] = self.choices.pick(operations)
                operation()

    def case(self, steps: int) -> Case:
        """Builds program, kernel and arguments."""
        for _ in range(self.choices.integer(0, 2)):
            name = self._name("n")
            number = self.choices.integer(0, 9)
            self.symbols.append((self.program.symbol(name), number))
            self.arguments[name] = number
        self._body(steps)
        stored = 0
        for handle in reversed(self.tiles):
            space_left = stored < 4 and len(self.program._tiles) < self.room + 5
            if space_left and handle.tile.space == "near":
                self._store(handle)
                stored += 1
        grid: list[Expr] = [as_expr(axis) for axis in self.grid]
        if self.symbols and self.choices.integer(0, 1):
            symbol, number = self.symbols[0]
            grid[0] = ceil_div(maximum(symbol * 0 + self.grid[0] * 2, 1), 2)
        self.builder.kernel_of(self.program, grid=grid, bytes=self.bytes, name="main")
        module = self.builder.module()
        if self.limits.explicit:
            module = replace(module, programs=tuple(serialise(p) for p in module.programs))
        return Case(module, "main", self.arguments, self.exact)
