"""The inner half of a program under construction: roles, loops, integers, tiles, parameters.

Scope adds what needs descriptors and expressions; what stands between the two knows a Frame alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol

from hal import dtypes
from hal.codegen import symbolic
from hal.codegen.errors import CodegenError, Unsuited
from hal.codegen.roles import ONE, Fixed, Part, Placed, Role, TileAxis
from hal.codegen.target import Target
from hal.dtypes import DType
from hal.ir import nodes as ir
from hal.ir.analysis import indices_of
from hal.vil.builder import BufferHandle, ProgramBuilder, ScalarHandle, TileHandle
from hal.vil.expressions import Binary, Const, Expr, ExprLike, as_expr
from hal.vil.model import Instruction, SReg, Value

__all__ = ["Frame", "Lowered", "ValueLike"]

ValueLike = Value | int
_FOLDED = {"add": "+", "sub": "-", "mul": "*", "max": "max", "min": "min"}
_DIVIDED = {"idiv": "/", "imod": "%"}
_SREG_FUNCTIONS = frozenset("add sub mul max min idiv imod and or xor shl shr shru lt le".split())
_SREG_FUNCTIONS |= {"eq", "ne"}


class Lowered(Protocol):
    """What a program asks of the Lowering that it belongs to."""

    arrays: dict[str, ir.Array]
    kernel: ir.Kernel
    target: Target

    def array(self, name: str) -> ir.Array: ...

    def shape(self, array: str) -> tuple[Expr, ...]: ...

    def continues(self, statement: ir.Assign) -> bool: ...


class Frame(ABC):
    """One program, without its loads, stores and expressions.

    Attributes:
        lowering: The kernel and the chip.
        p: The builder underneath; any instruction may be emitted by it.
        extents: Extent of each index.
        axes: Grid that `grid` made.
        axes_of_tile: The tile axes `row` and `column`.
        bindings: Expressions whose tiles are there already (an accumulator in place of a load).
    """

    def __init__(
        self,
        lowering: Lowered,
        name: str,
        extents: Mapping[str, Expr],
        *,
        deterministic: bool = False,
    ) -> None:
        self.lowering = lowering
        self.target = lowering.target
        self.p = ProgramBuilder(name, deterministic=deterministic)
        self.extents = dict(extents)
        self.axes: list[Expr] = [ONE]
        self.axes_of_tile = {"row": TileAxis(), "column": TileAxis()}
        self.bindings: dict[ir.Expr, TileHandle] = {}
        self._roles: dict[str, Role] = {}
        self._computed: list[dict[object, Value]] = [{}]
        self._first: list[Instruction] = []  # runs before all else
        self._constants: dict[object, TileHandle] = {}
        self._scalars: dict[str, ScalarHandle] = {}
        self._scalar_values: dict[str, SReg] = {}
        self._free: dict[tuple[DType, int, int, str], list[TileHandle]] = {}
        self._taken = set(lowering.arrays) | set(lowering.kernel.params)
        self._taken |= {scalar.name for scalar in lowering.kernel.scalars}
        self._tile_count = 0

    @abstractmethod
    def load(
        self, access: ir.Access, *, space: str = "near", to: TileHandle | None = None
    ) -> TileHandle:
        """Loads an access in the array's dtype."""

    @abstractmethod
    def value(self, expr: ir.Expr, *, want: DType | None = None) -> TileHandle:
        """A tile with an expression, in its compute dtype."""

    @abstractmethod
    def place(self, expr: ir.Expr) -> tuple[Value, Expr, Expr] | None:
        """An affine integer expression as base + row · r + column · c; None where it is not."""

    # ---- Roles ----

    def fix(self, index: str, value: ValueLike) -> None:
        """Gives an index one value from here on."""
        self._roles[index] = Fixed(as_expr(value) if isinstance(value, int) else value)

    def rows(self, *indices: str, length: int, origin: ValueLike = 0) -> None:
        """Puts indices, outermost first, on the row axis of tiles with `length` rows."""
        self._place("row", indices, length, origin)

    def columns(self, *indices: str, length: int, origin: ValueLike = 0) -> None:
        """Puts indices, outermost first, on the column axis of tiles with `length` columns."""
        self._place("column", indices, length, origin)

    def fold(self, *indices: str, rows: int, columns: int, origin: ValueLike = 0) -> None:
        """Puts indices on both axes, row by row: position (origin + row) · columns + column."""
        self._place("flat", indices, rows, origin)
        row = replace(self.axes_of_tile["row"], limit=None)
        total = symbolic.product(self.extents[name] for name in indices)
        row = replace(row, limit=symbolic.ceil_ratio(total, columns))
        self.axes_of_tile = {"row": row, "column": TileAxis(columns)}

    def _place(self, axis: str, indices: Sequence[str], length: int, origin: ValueLike) -> None:
        divisor: Expr = ONE
        for number, name in reversed(list(enumerate(indices))):
            extent = self.extents[name]
            size = None if number == 0 else extent
            self._roles[name] = Placed(axis, divisor, size, extent)
            divisor = symbolic.times(divisor, extent)
        start = as_expr(origin) if isinstance(origin, int) else origin
        key = "row" if axis == "flat" else axis
        limit = divisor if indices else None
        self.axes_of_tile[key] = TileAxis(length, start, limit)

    def role(self, index: str) -> Role:
        """Where the value of an index comes from. CodegenError for an index without a role."""
        if index not in self._roles:
            raise CodegenError(f"index {index} has no role in program {self.p.name}")
        return self._roles[index]

    def placed(self) -> list[tuple[str, Placed]]:
        """The indices on tile axes."""
        return [(name, r) for name, r in self._roles.items() if isinstance(r, Placed)]

    def is_uniform(self, expr: ir.Expr) -> bool:
        """True when the expression has one value in all of a tile."""
        return all(isinstance(self.role(name), Fixed) for name in indices_of(expr))

    # ---- Grid and loops ----

    @contextmanager
    def grid(self, *counts: ExprLike) -> Iterator[list[Value]]:
        """Makes one program per point; gives the position along each count, outermost first.

        Where the chip's grids are short, each program walks over several points in a loop.
        """
        sizes = [as_expr(count) for count in counts] or [ONE]
        most = self.target.grid_max
        wide = len(sizes) <= 3 and all(limit >= 2**31 - 1 for limit in most[: len(sizes)])
        if wide:
            self.axes = sizes[::-1]
            places: list[Value] = [self.p.id(axis) for axis in reversed(range(len(sizes)))]
            yield places
            return
        total = symbolic.product(sizes)
        if most[0] >= 2**31 - 1:
            self.axes = [total]
            yield self.split(self.p.id(0), sizes)
            return
        self.axes = [symbolic.least(total, most[0])]
        number = self.p.id(0)
        left = self.compute("sub", total, number)
        turns = self.compute("idiv", self.compute("add", left, most[0] - 1), most[0])
        with self.loop(turns) as turn:
            place = self.compute("add", self.compute("mul", turn, most[0]), number)
            yield self.split(place, sizes)

    def split(self, number: Value, sizes: Sequence[ExprLike]) -> list[Value]:
        """The digits of a number, outermost first, in the mixed radix `sizes`."""
        digits: list[Value] = []
        for size in reversed(sizes[1:]):
            digits.append(self.compute("imod", number, as_expr(size)))
            number = self.compute("idiv", number, as_expr(size))
        return [number, *reversed(digits)]

    @contextmanager
    def loop(self, count: ValueLike) -> Iterator[Value]:
        """A counted loop; a count that is 1 needs none."""
        if count in (1, ONE):
            yield Const(0)
            return
        with self.p.loop(count) as counter:
            self._computed.append({})
            yield counter
            self._computed.pop()

    @contextmanager
    def when(self, condition: Value) -> Iterator[None]:
        """Runs what is emitted inside only where the condition is not 0."""
        with self.p.if_(condition):
            self._computed.append({})
            yield
            self._computed.pop()

    # ---- Integers ----

    def compute(self, function: str, *operands: ValueLike) -> Value:
        """An integer function: folded where it can be, else an SREG (one per distinct value)."""
        values = [as_expr(value) if isinstance(value, int) else value for value in operands]
        folded = _fold(function, values)
        if folded is not None:
            return folded
        key = (function, *values)
        for known in self._computed:
            if key in known:
                return known[key]
        result = self.p.compute(function, *values)
        self._computed[-1][key] = result
        return result

    def total(self, base: Expr, parts: Sequence[Part]) -> Value:
        """base + Σ coefficient · SREG of parts without digits."""
        result: Value = base
        for part in parts:
            assert part.sreg is not None
            result = self.compute("add", self.compute("mul", part.sreg, part.coefficient), result)
        return result

    def total_with(self, base: Value, value: Value | None, by: Expr) -> Value:
        """base + value · by."""
        assert value is not None
        return self.compute("add", self.compute("mul", value, by), base)

    def within(self, value: Value, extent: Expr) -> Value:
        """1 where 0 ≤ value < extent, else 0."""
        low = self.compute("le", Const(0), value)
        return self.compute("mul", low, self.compute("lt", value, extent))

    def symbolic(self, expr: ir.Expr) -> Expr:
        """An integer expression over params as a VIL expression."""
        return symbolic.from_ir(expr)

    def integer(self, expr: ir.Expr) -> Value:
        """A uniform integer expression: over params, fixed indices, integer scalars, loads.

        Raises:
            CodegenError: it has no such form.
        """
        match expr:
            case ir.Const(value=value):
                return Const(int(value))
            case ir.ParamRef():
                return symbolic.from_ir(expr)
            case ir.Index(name=name):
                role = self.role(name)
                if isinstance(role, Fixed):
                    return role.value
            case ir.ScalarRef(name=name):
                return self._scalar_value(name)
            case ir.Cast(operand=operand, dtype=dtype) if dtype.is_int and dtype.bytes >= 4:
                return self.integer(operand)
            case ir.Call(function="neg", operands=(a,)):
                return self.compute("sub", Const(0), self.integer(a))
            case ir.Call(function="where", operands=(a, b, c)):
                return self.compute("sel", self.integer(a), self.integer(b), self.integer(c))
            case ir.Call(function=function, operands=(a, b)) if function in _SREG_FUNCTIONS:
                return self.compute(function, self.integer(a), self.integer(b))
            case ir.Access():
                return self._loaded_value(expr)
        raise CodegenError("not a whole-number expression", span=getattr(expr, "span", None))

    def _scalar_value(self, name: str) -> SReg:
        if name not in self._scalar_values:
            handle = self.scalar(name)
            if not handle.dtype.is_int:
                raise CodegenError(f"{name} is {handle.dtype}, not a whole number")
            with self._before_all():
                self._scalar_values[name] = self.p.read_scalar(handle)
        return self._scalar_values[name]

    def _loaded_value(self, access: ir.Access) -> Value:
        if "sreg_from_tile" not in self.target.features:
            raise Unsuited("the chip has no SREG from a tile")
        tile = self.load(access)
        if tile.tile.dtype not in (dtypes.i32, dtypes.i64):
            wide = self.convert(tile, dtypes.i32)
            self.release(tile)
            tile = wide
        value = self.p.read_tile(tile)
        self.release(tile)
        return value

    # ---- Tiles ----

    def tile(self, dtype: DType, rows: int, columns: int, *, space: str = "near") -> TileHandle:
        """A tile with any content: one that was released, or a new one."""
        free = self._free.get((dtype, rows, columns, space))
        return free.pop() if free else self.new_tile(dtype, rows, columns, space=space)

    def new_tile(self, dtype: DType, rows: int, columns: int, *, space: str = "near") -> TileHandle:
        """A tile that nothing used before."""
        self._tile_count += 1
        name = f"t{self._tile_count}"
        while name in self._taken:
            name += "_"
        return self.p.tile(name, dtype, rows, columns, space=space)

    def release(self, handle: TileHandle) -> None:
        """Gives a tile back; a later `tile` of its kind may take it."""
        tile = handle.tile
        self._free.setdefault((tile.dtype, tile.rows, tile.columns, tile.space), []).append(handle)

    def constant(self, value: float, dtype: DType) -> TileHandle:
        """A 1 × 1 tile with a constant, filled before all else. Not to be released."""
        key = (repr(value), dtype)
        if key not in self._constants:
            tile = self.new_tile(dtype, 1, 1)
            with self._before_all():
                self.p.fill(tile, value)
            self._constants[key] = tile
        return self._constants[key]

    def scalar_tile(self, name: str, dtype: DType) -> TileHandle:
        """A 1 × 1 tile with a scalar input, converted. Not to be released."""
        key = (name, dtype, "scalar")
        if key not in self._constants:
            tile = self.new_tile(dtype, 1, 1)
            with self._before_all():
                self.p.fill(tile, self.scalar(name))
            self._constants[key] = tile
        return self._constants[key]

    def symbol_tile(self, value: Expr, dtype: DType) -> TileHandle:
        """A 1 × 1 tile with an expression over params, i32 or i64. Not to be released."""
        key = (value, dtype, "symbol")
        if key not in self._constants:
            tile = self.new_tile(dtype, 1, 1)
            with self._before_all():
                self.p.iota(tile, base=value)
            self._constants[key] = tile
        return self._constants[key]

    @contextmanager
    def _before_all(self) -> Iterator[None]:
        """Moves what is emitted inside to the program's begin."""
        instructions = self.p._instructions
        start = len(instructions)
        yield
        self._first += instructions[start:]
        del instructions[start:]

    def convert(
        self, a: TileHandle, dtype: DType, *, saturate: bool = False, to: TileHandle | None = None
    ) -> TileHandle:
        """CAST into a new tile (or `to`); the operand itself when it has the dtype already."""
        if a.tile.dtype == dtype and to is None:
            return a
        result = to or self.tile(dtype, a.tile.rows, a.tile.columns)
        self.p.cast(result, a, saturate=saturate)
        return result

    def spread(self, a: TileHandle, rows: int, columns: int) -> TileHandle:
        """The tile repeated to rows × columns; itself when it has that shape."""
        if (a.tile.rows, a.tile.columns) == (rows, columns):
            return a
        result = self.tile(a.tile.dtype, rows, columns)
        self.p.un("mov", result, a)
        return result

    def digit_tile(self, index: str, dtype: DType) -> TileHandle:
        """The value of an index on a tile axis as a tile: its position, divided."""
        role = self.role(index)
        assert isinstance(role, Placed)
        row, column = self.axes_of_tile["row"], self.axes_of_tile["column"]
        if role.axis == "flat":
            base = self.compute("mul", row.origin, column.length)
            tile = self.tile(dtype, row.length, column.length)
            self.p.iota(tile, base=base, row=column.length, column=1)
        elif role.axis == "row":
            tile = self.tile(dtype, row.length, 1)
            self.p.iota(tile, base=row.origin, row=1, column=0)
        else:
            tile = self.tile(dtype, 1, column.length)
            self.p.iota(tile, base=column.origin, row=0, column=1)
        if role.divisor != ONE:
            self.p.bin("idiv", tile, tile, self.symbol_tile(role.divisor, dtype))
        if role.size is not None:
            self.p.bin("imod", tile, tile, self.symbol_tile(role.size, dtype))
        return tile

    # ---- Parameters ----

    def buffer(self, name: str, access: str) -> BufferHandle:
        """The parameter of an array, `read` or `write`; both make it inout."""
        array = self.lowering.array(name)
        for number, param in enumerate(self.p.params):
            if param.kind == "buffer" and param.name == name:
                if param.access not in (access, "inout"):
                    self.p.params[number] = replace(param, access="inout")
                return BufferHandle(name, array.dtype)
        return self.p.buffer(name, array.dtype, access)

    def scalar(self, name: str) -> ScalarHandle:
        """The parameter of a scalar input."""
        if name not in self._scalars:
            found = next(item for item in self.lowering.kernel.scalars if item.name == name)
            self._scalars[name] = self.p.scalar(name, found.dtype)
        return self._scalars[name]


def _fold(function: str, values: list[Value]) -> Value | None:
    """The value without an instruction, where there is one."""
    a, *rest = values
    if function == "sel":
        chosen = symbolic.constant(a)
        return None if chosen is None else rest[0 if chosen else 1]
    b = rest[0] if rest else None
    if isinstance(a, Expr) and isinstance(b, Expr):
        operation = _FOLDED.get(function)
        if operation is None and (symbolic.constant(b) or 0) > 0:
            operation = _DIVIDED.get(function)
        if operation is not None:
            return symbolic.simplified(Binary(operation, a, b))
        x, y = symbolic.constant(a), symbolic.constant(b)
        if x is not None and y is not None:
            return _number(function, x, y)
    if function == "add" and (a == Const(0) or b == Const(0)):
        return b if a == Const(0) else a
    if function == "sub" and b == Const(0):
        return a
    if function == "mul" and Const(0) in (a, b):
        return Const(0)
    if function == "mul" and ONE in (a, b):
        return b if a == ONE else a
    if function == "idiv" and b == ONE:
        return a
    if function == "imod" and b == ONE:
        return Const(0)
    return None


def _number(function: str, x: int, y: int) -> Const | None:
    table = {"max": max(x, y), "min": min(x, y), "lt": int(x < y), "le": int(x <= y)}
    table |= {"eq": int(x == y), "ne": int(x != y)}
    table |= {"idiv": x // y if y else 0, "imod": x % y if y else 0}
    return Const(table[function]) if function in table else None
