"""One program instance of the evaluator: registers, tiles and the instruction loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from hal import dtypes
from hal.dtypes import DType
from hal.vil.addressing import axis_count, offsets
from hal.vil.elementwise import binary, integer_binary, unary
from hal.vil.errors import VilFault
from hal.vil.expressions import Expr, evaluate
from hal.vil.model import Descriptor, Instruction, Program, SReg, TileRef, Value
from hal.vil.numerics import Array, Numerics, poison
from hal.vil.reductions import matmul, philox, reduce_axis, scan_axis, top_entries
from hal.vil.text_writer import descriptor_values, show_instruction

__all__ = ["Buffer", "Instance"]

_MASK = 2**64 - 1


@dataclass(slots=True)
class Buffer:
    """Flat memory behind a buffer parameter."""

    name: str
    data: Array
    limit: int = -1

    @property
    def count(self) -> int:
        """Elements that may be touched."""
        return len(self.data) if self.limit < 0 else self.limit


@dataclass(slots=True)
class TileState:
    """One stage of a tile: all elements, and the valid region."""

    data: Array
    rows: int = 0
    columns: int = 0

    @property
    def valid(self) -> Array:
        """The valid elements."""
        return self.data[: self.rows, : self.columns]


def _wrap(value: int) -> int:
    value &= _MASK
    return value - (1 << 64) if value >> 63 else value


class Instance:
    """Runs the instructions of a program at one point of the grid."""

    def __init__(
        self,
        program: Program,
        numerics: Numerics,
        buffers: Mapping[str, Buffer],
        scalars: Mapping[str, float | int],
        values: Mapping[Expr, int],
        point: tuple[int, int, int],
        grid: tuple[int, ...],
    ) -> None:
        self.program = program
        self.numerics = numerics
        self.buffers = buffers
        self.scalars = scalars
        self.values = values
        self.grid = grid
        self.sregs = [*point, *[0] * (program.sreg_count - 3)]
        self.tiles: dict[tuple[int, int], TileState] = {}
        self.matches = _matches(program)

    @staticmethod
    def expression_values(program: Program, symbols: Mapping[str, int]) -> dict[Expr, int]:
        """Every expression of a program, computed; raises VilRefused."""
        found: dict[Expr, int] = {}

        def add(value: Value | None) -> None:
            if isinstance(value, Expr) and value not in found:
                found[value] = evaluate(value, symbols)

        for descriptor in program.descriptors:
            for value in descriptor_values(descriptor):
                add(value)
        for item in program.instructions:
            for reference in (item.d, item.a, item.b, item.c):
                add(reference.stage if reference else None)
            for entry in item.values:
                add(entry)
        return found

    def read(self, value: Value) -> int:
        """The integer of a value now."""
        return self.sregs[value.index] if isinstance(value, SReg) else self.values[value]

    def run(self) -> None:
        """Runs to the end; raises VilFault that names the instruction."""
        position = 0
        instructions = self.program.instructions
        loops: list[tuple[int, int]] = []  # (position of LOOP, iterations left), innermost last
        while position < len(instructions):
            item = instructions[position]
            if item.op == "loop":
                assert item.x is not None
                count = max(self._number(item, 0), 0)
                self.sregs[item.x] = 0
                if count:
                    loops.append((position, count))
                else:
                    position = self.matches[position]
            elif item.op == "if":
                if not self._number(item, 0):
                    position = self.matches[position]
            elif item.op == "end":
                start = self.matches[position]
                counter = instructions[start].x
                if instructions[start].op == "loop" and counter is not None:
                    self.sregs[counter] += 1
                    _, left = loops.pop()
                    if left > 1:
                        loops.append((start, left - 1))
                        position = start
            elif item.op not in ("signal", "wait"):
                self._step(item)
            position += 1

    def _step(self, item: Instruction) -> None:
        try:
            _OPERATIONS[item.op](self, item)
        except VilFault as error:
            line = f", line {item.line}" if item.line else ""
            text = show_instruction(self.program, item)
            raise VilFault(
                f"{error.problem} (in `{text}`, instance {tuple(self.sregs[:3])})",
                call=f"program {self.program.name}{line}",
            ) from None

    # --- operands ------------------------------------------------------------------------------

    def _number(self, item: Instruction, index: int, default: int = 0) -> int:
        value = item.values[index]
        return default if value is None else self.read(value)

    def _dtype(self, reference: TileRef) -> DType:
        return self.program.tiles[reference.tile].dtype

    def _state(self, reference: TileRef | None) -> TileState:
        assert reference is not None
        tile = self.program.tiles[reference.tile]
        stage = 0 if reference.stage is None else self.read(reference.stage) % tile.stages
        key = (reference.tile, stage)
        if key not in self.tiles:
            storage = self.numerics.storage(tile.dtype)
            empty = poison(tile.dtype, storage, (tile.rows, tile.columns))
            self.tiles[key] = TileState(empty)
        return self.tiles[key]

    def _write(self, reference: TileRef | None, values: Array) -> None:
        """Sets the tile; the valid region is the shape of `values`, the rest is poisoned."""
        assert reference is not None
        state = self._state(reference)
        fresh = poison(self._dtype(reference), state.data.dtype, state.data.shape)
        state.rows, state.columns = values.shape
        fresh[: state.rows, : state.columns] = values
        state.data = fresh

    def _operands(self, result: TileRef | None, *operands: TileRef | None) -> list[Array]:
        """Valid parts of elementwise operands, cut to the result's valid region."""
        assert result is not None
        target = self.program.tiles[result.tile]
        states = [self._state(operand) for operand in operands]
        rows = columns = 1 << 62
        for state in states:
            height, width = state.data.shape
            same_rows, same_columns = height == target.rows, width == target.columns
            rows = min(rows, state.rows if same_rows else target.rows * (state.rows == 1))
            wide = target.columns * (state.columns == 1)
            columns = min(columns, state.columns if same_columns else wide)
        found: list[Array] = []
        for state in states:
            height, width = state.data.shape
            part = state.data[: rows if height == target.rows else 1]
            part = part[:, : columns if width == target.columns else 1]
            found.append(np.broadcast_to(part, (rows, columns)))
        return found

    # --- memory --------------------------------------------------------------------------------

    def _descriptor(self, item: Instruction) -> Descriptor:
        assert item.x is not None
        return self.program.descriptors[item.x]

    def _checked(self, inside: Array, place: Array, descriptor: Descriptor) -> Buffer:
        """The buffer, after the bounds check of its inside elements."""
        assert descriptor.param is not None
        buffer = self.buffers[descriptor.param]
        bad = inside & ((place < 0) | (place >= buffer.count))
        if bad.any():
            raise VilFault(
                f"descriptor {descriptor.name}: element {int(place[bad][0])} of {buffer.name}, "
                f"which has {buffer.count}"
            )
        return buffer

    def _near(self, inside: Array, place: Array, state: TileState) -> tuple[Array, Array, Array]:
        """Mask, rows and columns of near elements inside the valid region."""
        columns = state.data.shape[1]
        row, column = place // columns, place % columns
        inside = inside & (row >= 0) & (row < state.rows) & (column < state.columns)
        return inside, row[inside], column[inside]

    def _counts(self, descriptor: Descriptor, rows: int, columns: int) -> tuple[int, int]:
        height = axis_count(descriptor.row, self.read, rows)
        return height, axis_count(descriptor.column, self.read, columns)

    def load(self, item: Instruction) -> None:
        """LOAD and GATHER."""
        assert item.d is not None
        descriptor = self._descriptor(item)
        tile = self.program.tiles[item.d.tile]
        rows, columns = self._counts(descriptor, tile.rows, tile.columns)
        index: Array | None = None
        if item.op == "gather":
            state = self._state(item.a)
            rows = min(rows, state.rows)
            if not state.columns:
                rows = 0
            index = state.data[:rows, 0].astype(np.int64)
        inside, place = offsets(
            descriptor, self.read, rows, columns, index=index, dimension=item.axis
        )
        fill = self.numerics.constant(descriptor.fill, tile.dtype)
        result = np.full((rows, columns), fill, self.numerics.storage(tile.dtype))
        if descriptor.param is None:
            source = self._state(item.a)
            inside, row, column = self._near(inside, place, source)
            result[inside] = source.data[row, column]
        else:
            buffer = self._checked(inside, place, descriptor)
            result[inside] = buffer.data[place[inside]]
        self._write(item.d, result)

    def store(self, item: Instruction) -> None:
        """STORE."""
        descriptor, state = self._descriptor(item), self._state(item.a)
        rows, columns = self._counts(descriptor, *state.data.shape)
        rows, columns = min(rows, state.rows), min(columns, state.columns)
        inside, place = offsets(descriptor, self.read, rows, columns)
        values = state.data[:rows, :columns]
        if descriptor.param is None:
            target = self._state(item.d)
            inside, row, column = self._near(inside, place, target)
            target.data[row, column] = values[inside]
        else:
            buffer = self._checked(inside, place, descriptor)
            buffer.data[place[inside]] = values[inside]

    def scatter(self, item: Instruction) -> None:
        """SCATTER."""
        descriptor, state, index = self._descriptor(item), self._state(item.a), self._state(item.b)
        rows, columns = self._counts(descriptor, *state.data.shape)
        rows, columns = min(rows, state.rows, index.rows), min(columns, state.columns)
        if not index.columns:
            rows = 0
        inside, place = offsets(
            descriptor,
            self.read,
            rows,
            columns,
            index=index.data[:rows, 0].astype(np.int64),
            dimension=item.axis,
        )
        buffer = self._checked(inside, place, descriptor)
        where, values = place[inside], state.data[:rows, :columns][inside]
        if item.function == "set":
            buffer.data[where] = values
            return
        ufunc = {"add": np.add, "max": np.maximum, "min": np.minimum}[item.function]
        with np.errstate(all="ignore"):
            ufunc.at(buffer.data, where, values)

    def fill(self, item: Instruction) -> None:
        """FILL."""
        assert item.d is not None
        tile = self.program.tiles[item.d.tile]
        rows = max(0, min(tile.rows, self._number(item, 0, tile.rows)))
        columns = max(0, min(tile.columns, self._number(item, 1, tile.columns)))
        if item.parameter is not None:
            param = self.program.params[item.parameter]
            assert param.dtype is not None
            scalar = np.asarray(self.scalars[param.name], param.dtype.numpy)
            value = self.numerics.cast(scalar, param.dtype, tile.dtype)
        else:
            assert item.constant is not None
            value = self.numerics.constant(item.constant, tile.dtype)
        self._write(item.d, np.full((rows, columns), value, self.numerics.storage(tile.dtype)))

    # --- computing -----------------------------------------------------------------------------

    def iota(self, item: Instruction) -> None:
        """IOTA."""
        assert item.d is not None
        tile = self.program.tiles[item.d.tile]
        base, row, column = (self._number(item, index) for index in range(3))
        with np.errstate(all="ignore"):
            down = np.arange(tile.rows, dtype=np.int64)[:, None] * np.int64(row)
            right = np.arange(tile.columns, dtype=np.int64)[None, :] * np.int64(column)
            total = down + right + np.array([[base]], np.int64)
        self._write(item.d, total.astype(tile.dtype.numpy))

    def elementwise(self, item: Instruction) -> None:
        """UN, BIN, SEL and CAST."""
        assert item.d is not None and item.a is not None
        dtype = self._dtype(item.a)
        if item.op == "un":
            (a,) = self._operands(item.d, item.a)
            result = unary(self.numerics, item.function, a, dtype)
        elif item.op == "bin":
            a, b = self._operands(item.d, item.a, item.b)
            result = binary(self.numerics, item.function, a, b, dtype)
        elif item.op == "sel":
            a, b, c = self._operands(item.d, item.a, item.b, item.c)
            result = np.where(a, b, c)
        else:
            (a,) = self._operands(item.d, item.a)
            saturate = "saturate" in item.flags
            result = self.numerics.cast(a, dtype, self._dtype(item.d), saturate)
        self._write(item.d, result)

    def reduce(self, item: Instruction) -> None:
        """RED and SCAN."""
        assert item.d is not None and item.a is not None
        values = self._state(item.a).valid
        source, target = self._dtype(item.a), self._dtype(item.d)
        if item.op == "red":
            base = self._number(item, 0)
            result = reduce_axis(
                self.numerics, item.function, values, item.axis, source, target, base
            )
        else:
            result = scan_axis(
                self.numerics,
                item.function,
                values,
                item.axis,
                source,
                target,
                exclusive="exclusive" in item.flags,
                reverse="reverse" in item.flags,
            )
        self._write(item.d, result)

    def mma(self, item: Instruction) -> None:
        """MMA."""
        assert item.d is not None and item.a is not None
        a, b, d = self._state(item.a), self._state(item.b), self._state(item.d)
        inner = min(a.columns, b.rows)
        target = self._dtype(item.d)
        left, right = a.data[: a.rows, :inner], b.data[:inner, : b.columns]
        product = matmul(self.numerics, left, right, self._dtype(item.a), target)
        if "init" not in item.flags:
            rows, columns = min(d.rows, a.rows), min(d.columns, b.columns)
            with np.errstate(all="ignore"):
                product = d.data[:rows, :columns] + product[:rows, :columns]
        self._write(item.d, product)

    def move(self, item: Instruction) -> None:
        """TRN and COPY."""
        values = self._state(item.a).valid
        self._write(item.d, (values.T if item.op == "trn" else values).copy())

    def topk(self, item: Instruction) -> None:
        """TOPK."""
        assert item.d is not None and item.c is not None and item.a is not None
        d, c, a = self._state(item.d), self._state(item.c), self._state(item.a)
        init = "init" in item.flags
        before = 0 if init else min(d.columns, c.columns)
        rows = a.rows if init else min(d.rows, c.rows, a.rows)
        size = min(d.data.shape[1], before + a.columns)
        kept = np.zeros((rows, size), d.data.dtype)
        where = np.zeros((rows, size), np.int64)
        base, index_type = self._number(item, 0), self._dtype(item.c)
        for row in range(rows):
            entries = [(d.data[row, k], int(c.data[row, k])) for k in range(before)]
            for column in range(a.columns):
                index = _wrap(base + column)
                if index_type is dtypes.i32:
                    index = (index + 2**31) % 2**32 - 2**31
                entries.append((a.data[row, column], index))
            smallest = "smallest" in item.flags
            best = top_entries(self.numerics, entries, size, self._dtype(item.a), smallest=smallest)
            for k, (value, index) in enumerate(best):
                kept[row, k], where[row, k] = value, index
        self._write(item.d, kept)
        self._write(item.c, where.astype(index_type.numpy))

    def rng(self, item: Instruction) -> None:
        """RNG."""
        assert item.d is not None
        tile = self.program.tiles[item.d.tile]
        base, pitch, seed, offset = (self._number(item, index) & _MASK for index in range(4))
        rows = np.arange(tile.rows, dtype=np.uint64)[:, None] * np.uint64(pitch)
        columns = np.arange(tile.columns, dtype=np.uint64)[None, :]
        raw = philox(rows + columns + np.array([[base]], np.uint64), seed, offset)
        if item.function == "raw":
            self._write(item.d, raw.view(np.int32))
        else:
            uniform = (raw >> np.uint32(8)).astype(np.float64) * 2.0**-24
            self._write(item.d, self.numerics.narrow(uniform, tile.dtype))

    def sreg(self, item: Instruction) -> None:
        """SREG."""
        assert item.x is not None
        v0, v1, v2 = (self._number(item, index) for index in range(3))
        function = item.function
        if function == "mov":
            result = v0
        elif function == "sel":
            result = v1 if v0 else v2
        elif function == "arg":
            assert item.parameter is not None
            result = int(self.scalars[self.program.params[item.parameter].name])
        elif function == "grid":
            result = self.grid[item.axis]
        elif function == "tile":
            state = self._state(item.a)
            result = int(state.data[0, 0]) if state.rows and state.columns else 0
        elif function in ("lt", "le", "eq", "ne"):
            result = int({"lt": v0 < v1, "le": v0 <= v1, "eq": v0 == v1, "ne": v0 != v1}[function])
        else:
            left, right = np.array([v0], np.int64), np.array([v1], np.int64)
            result = int(integer_binary(function, left, right, dtypes.i64)[0])
        self.sregs[item.x] = _wrap(result)


def _matches(program: Program) -> dict[int, int]:
    """LOOP or IF position to its END's, and back."""
    found: dict[int, int] = {}
    stack: list[int] = []
    for position, item in enumerate(program.instructions):
        if item.op in ("loop", "if"):
            stack.append(position)
        elif item.op == "end":
            start = stack.pop()
            found[start], found[position] = position, start
    return found


_OPERATIONS: dict[str, Callable[[Instance, Instruction], None]] = {
    "load": Instance.load,
    "gather": Instance.load,
    "store": Instance.store,
    "scatter": Instance.scatter,
    "fill": Instance.fill,
    "iota": Instance.iota,
    "un": Instance.elementwise,
    "bin": Instance.elementwise,
    "sel": Instance.elementwise,
    "cast": Instance.elementwise,
    "red": Instance.reduce,
    "scan": Instance.reduce,
    "mma": Instance.mma,
    "trn": Instance.move,
    "copy": Instance.move,
    "topk": Instance.topk,
    "rng": Instance.rng,
    "sreg": Instance.sreg,
}
