"""Writes VIL modules in a few lines of Python.

    b = Builder()
    p = b.program("double")
    n = p.symbol("n")
    x, y = p.buffer("x", f32, "read"), p.buffer("y", f32, "write")
    t = p.tile("t", f32, 1, 64)
    start = p.compute("mul", p.id(0), 64)
    p.load(t, p.matrix(x, 1, n, column_origin=start))
    p.bin("add", t, t, t)
    p.store(p.matrix(y, 1, n, column_origin=start), t)
    b.kernel_of(p, grid=[ceil_div(n, 64)], bytes={"x": 4 * n, "y": 4 * n})
    module = b.module()

Offsets of tiles, SREG numbers and engines are chosen; `validate` judges the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from hal.dtypes import DType
from hal.vil.expressions import Expr, ExprLike, Symbol, as_expr
from hal.vil.model import (
    Argument,
    Axis,
    Binding,
    Descriptor,
    Digit,
    Dimension,
    Instruction,
    Kernel,
    Launch,
    Param,
    Program,
    SReg,
    Term,
    Tile,
    TileRef,
    Token,
    Value,
    Workspace,
)
from hal.vil.module import Module
from hal.vil.tables import OPS
from hal.vil.text_writer import default_engine

__all__ = ["Builder", "KernelBuilder", "ProgramBuilder", "TileHandle", "TokenHandle"]

ValueLike = SReg | Expr | int
TILE_ALIGNMENT = 64


def as_value(value: ValueLike) -> Value:
    """An int becomes a constant expression."""
    return value if isinstance(value, SReg) else as_expr(value)


def _optional(value: ValueLike | None) -> Value | None:
    return None if value is None else as_value(value)


@dataclass(frozen=True, slots=True)
class TileHandle:
    """A tile of a program under construction; `handle[stage]` picks a stage."""

    index: int
    tile: Tile
    stage: Value | None = None

    def __getitem__(self, stage: ValueLike) -> TileHandle:
        return TileHandle(self.index, self.tile, as_value(stage))

    @property
    def reference(self) -> TileRef:
        """The operand of an instruction."""
        return TileRef(self.index, self.stage)


@dataclass(frozen=True, slots=True)
class BufferHandle:
    """A buffer parameter."""

    name: str
    dtype: DType


@dataclass(frozen=True, slots=True)
class ScalarHandle:
    """A scalar parameter."""

    index: int
    name: str
    dtype: DType


@dataclass(frozen=True, slots=True)
class DescriptorHandle:
    """A descriptor of a program under construction."""

    index: int


@dataclass(frozen=True, slots=True)
class TokenHandle:
    """A token of a program under construction."""

    index: int


class Builder:
    """A module under construction."""

    def __init__(self) -> None:
        self._programs: list[ProgramBuilder] = []
        self._kernels: list[KernelBuilder] = []

    def program(
        self,
        name: str,
        *,
        profile: str = "flat",
        contract: bool = False,
        deterministic: bool = False,
    ) -> ProgramBuilder:
        """Starts a program."""
        self._programs.append(ProgramBuilder(name, profile, contract, deterministic))
        return self._programs[-1]

    def kernel(self, name: str) -> KernelBuilder:
        """Starts a kernel with its own arguments and launches."""
        self._kernels.append(KernelBuilder(name))
        return self._kernels[-1]

    def kernel_of(
        self,
        program: ProgramBuilder,
        *,
        grid: Sequence[ExprLike] | None = (1,),
        bytes: Mapping[str, ExprLike],  # noqa: A002 -- the word of the text form
        name: str | None = None,
    ) -> KernelBuilder:
        """A kernel with the program's parameters as arguments and one launch.

        Args:
            grid: Axes over the program's symbols; None takes the caller's grid.
            bytes: Required bytes per buffer parameter.
            name: Name of the kernel; the program's by default.
        """
        kernel = self.kernel(name or program.name)
        for param in program.params:
            if param.kind == "symbol":
                kernel.symbol(param.name)
            elif param.dtype is not None and param.kind == "scalar":
                kernel.scalar(param.name, param.dtype)
            elif param.dtype is not None:
                kernel.buffer(param.name, param.dtype, param.access, bytes[param.name])
        names = [
            Symbol(param.name) if param.kind == "symbol" else param.name for param in program.params
        ]
        kernel.launch(program, grid, names)
        return kernel

    def module(self) -> Module:
        """The finished module (not validated)."""
        kernels = tuple(kernel.build() for kernel in self._kernels)
        return Module(kernels, tuple(program.build() for program in self._programs))


class KernelBuilder:
    """A kernel under construction."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._arguments: list[Argument] = []
        self._workspaces: list[Workspace] = []
        self._launches: list[Launch] = []

    def buffer(
        self,
        name: str,
        dtype: DType,
        access: str,
        required_bytes: ExprLike,
        *,
        alias: str | None = None,
    ) -> str:
        """Adds a buffer argument and returns its name."""
        size = as_expr(required_bytes)
        self._arguments.append(Argument(name, "buffer", dtype, access, size, alias))
        return name

    def scalar(self, name: str, dtype: DType) -> str:
        """Adds a scalar argument and returns its name."""
        self._arguments.append(Argument(name, "scalar", dtype))
        return name

    def symbol(self, name: str) -> Symbol:
        """Adds a symbol argument."""
        self._arguments.append(Argument(name, "symbol"))
        return Symbol(name)

    def workspace(self, name: str, size: ExprLike) -> str:
        """Adds a workspace of `size` bytes and returns its name."""
        self._workspaces.append(Workspace(name, as_expr(size)))
        return name

    def launch(
        self,
        program: ProgramBuilder | str,
        grid: Sequence[ExprLike] | None,
        bindings: Sequence[str | ExprLike],
        *,
        block: tuple[ExprLike, ExprLike, ExprLike] | None = None,
        scratch: ExprLike | None = None,
    ) -> None:
        """Adds a launch; a str binds an argument or workspace, anything else a symbol."""
        name = program if isinstance(program, str) else program.name
        spaces = {workspace.name for workspace in self._workspaces}
        bound = []
        for item in bindings:
            if not isinstance(item, str):
                bound.append(Binding(expression=as_expr(item)))
            elif item in spaces:
                bound.append(Binding(workspace=item))
            else:
                bound.append(Binding(argument=item))
        axes = None if grid is None else tuple(as_expr(axis) for axis in grid)
        threads = None
        if block is not None:
            threads = (as_expr(block[0]), as_expr(block[1]), as_expr(block[2]))
        memory = None if scratch is None else as_expr(scratch)
        self._launches.append(Launch(name, axes, tuple(bound), threads, memory))

    def build(self) -> Kernel:
        """The finished kernel."""
        return Kernel(
            self.name, tuple(self._arguments), tuple(self._workspaces), tuple(self._launches)
        )


class ProgramBuilder:
    """A program under construction; every operation of VIL is a method."""

    def __init__(
        self, name: str, profile: str = "flat", contract: bool = False, deterministic: bool = False
    ) -> None:
        self.name = name
        self.profile = profile
        self.contract = contract
        self.deterministic = deterministic
        self.params: list[Param] = []
        self._tiles: list[Tile] = []
        self._tokens: list[Token] = []
        self._descriptors: list[Descriptor] = []
        self._instructions: list[Instruction] = []
        self._next: dict[str, int] = {}
        self._sregs = 3

    # --- declarations --------------------------------------------------------------------------

    def buffer(self, name: str, dtype: DType, access: str) -> BufferHandle:
        """Adds a buffer parameter."""
        self.params.append(Param(name, "buffer", dtype, access))
        return BufferHandle(name, dtype)

    def scalar(self, name: str, dtype: DType) -> ScalarHandle:
        """Adds a scalar parameter."""
        self.params.append(Param(name, "scalar", dtype))
        return ScalarHandle(len(self.params) - 1, name, dtype)

    def symbol(self, name: str) -> Symbol:
        """Adds a symbol parameter."""
        self.params.append(Param(name, "symbol"))
        return Symbol(name)

    def tile(
        self,
        name: str,
        dtype: DType,
        rows: int,
        columns: int,
        *,
        space: str = "near",
        stages: int = 1,
        layout: str = "row",
        panel: int = 0,
        offset: int | None = None,
    ) -> TileHandle:
        """Adds a tile; without an offset it lies behind all others of its space."""
        place = self._next.get(space, 0) if offset is None else offset
        tile = Tile(name, dtype, rows, columns, space, place, stages, layout, panel)
        end = -(-(place + tile.total_bytes) // TILE_ALIGNMENT) * TILE_ALIGNMENT
        self._next[space] = max(self._next.get(space, 0), end)
        self._tiles.append(tile)
        return TileHandle(len(self._tiles) - 1, tile)

    def token(self, name: str, producer: str, consumer: str, credits: int = 0) -> TokenHandle:  # noqa: A002
        """Adds a token between two engines."""
        self._tokens.append(Token(name, producer, consumer, credits))
        return TokenHandle(len(self._tokens) - 1)

    def new_sreg(self) -> SReg:
        """A scalar register that nothing uses yet."""
        self._sregs += 1
        return SReg(self._sregs - 1)

    def id(self, axis: int = 0) -> SReg:
        """The program id along x (0), y (1) or z (2)."""
        return SReg(axis)

    def descriptor(
        self,
        buffer: BufferHandle | DType,
        dimensions: Sequence[Dimension],
        *,
        row: Axis = Axis(),  # noqa: B008 -- immutable
        column: Axis = Axis(),  # noqa: B008
        fill: float = 0,
        name: str | None = None,
    ) -> DescriptorHandle:
        """Adds a descriptor; a DType in place of a buffer addresses near tiles."""
        near = isinstance(buffer, DType)
        dtype = buffer if isinstance(buffer, DType) else buffer.dtype
        constant = float(fill) if dtype.kind in ("float", "float8") else int(fill)
        param = buffer.name if isinstance(buffer, BufferHandle) else None
        stem = "near" if near else param
        label = name or f"{stem}_{len(self._descriptors)}_map"
        item = Descriptor(label, param, dtype, tuple(dimensions), row, column, constant)
        self._descriptors.append(item)
        return DescriptorHandle(len(self._descriptors) - 1)

    def matrix(
        self,
        buffer: BufferHandle | DType,
        rows: ValueLike,
        columns: ValueLike,
        *,
        row_origin: ValueLike = 0,
        column_origin: ValueLike = 0,
        row_stride: ValueLike | None = None,
        column_stride: ValueLike = 1,
        row_limit: ValueLike | None = None,
        column_limit: ValueLike | None = None,
        fill: float = 0,
        limited: bool = True,
        name: str | None = None,
    ) -> DescriptorHandle:
        """A descriptor of a row-major rows × columns matrix, with the tile at an origin.

        Args:
            row_stride: In elements; the column count by default.
            row_limit, column_limit: Ends of the valid region; the matrix's own by default.
            limited: False leaves the whole tile valid and fills what is outside.
        """
        stride = columns if row_stride is None else row_stride
        row_end = rows if row_limit is None else row_limit
        column_end = columns if column_limit is None else column_limit
        one = (Digit(None, as_expr(1)),)
        axes = [
            Axis(
                None if origin == 0 else as_value(origin),
                as_value(limit) if limited else None,
                one,
            )
            for origin, limit in ((row_origin, row_end), (column_origin, column_end))
        ]
        zero, unit = as_expr(0), as_expr(1)
        dims = [
            Dimension(as_value(rows), as_value(stride), zero, (Term("row", 0, unit),)),
            Dimension(as_value(columns), as_value(column_stride), zero, (Term("column", 0, unit),)),
        ]
        return self.descriptor(buffer, dims, row=axes[0], column=axes[1], fill=fill, name=name)

    # --- instructions --------------------------------------------------------------------------

    def emit(
        self,
        op: str,
        function: str = "",
        *,
        x: int | None = None,
        d: TileHandle | None = None,
        a: TileHandle | None = None,
        b: TileHandle | None = None,
        c: TileHandle | None = None,
        values: Sequence[ValueLike | None] = (),
        axis: int = 0,
        flags: Sequence[str] = (),
        engine: str = "",
        parameter: int | None = None,
        constant: float | int | None = None,
    ) -> None:
        """Adds any instruction; the named methods are shorthand for it."""
        slots = [_optional(value) for value in values] + [None] * (4 - len(values))
        d_ref, a_ref, b_ref, c_ref = (
            None if handle is None else handle.reference for handle in (d, a, b, c)
        )
        item = Instruction(
            op,
            function,
            engine,
            axis,
            frozenset(flags),
            x,
            d_ref,
            a_ref,
            b_ref,
            c_ref,
            (slots[0], slots[1], slots[2], slots[3]),
            parameter,
            constant,
        )
        if not engine:
            blank = Program("", tokens=tuple(self._tokens))
            item = replace(item, engine=default_engine(OPS[op], item, blank))
        self._instructions.append(item)

    def load(
        self, d: TileHandle, descriptor: DescriptorHandle, *, near: TileHandle | None = None
    ) -> None:
        """LOAD, from a buffer or from a near tile."""
        self.emit("load", x=descriptor.index, d=d, a=near)

    def store(
        self,
        descriptor: DescriptorHandle,
        a: TileHandle,
        *,
        near: TileHandle | None = None,
        stream: bool = False,
    ) -> None:
        """STORE, to a buffer or to a near tile."""
        flags = ("stream",) if stream else ()
        self.emit("store", x=descriptor.index, a=a, d=near, flags=flags)

    def fill(
        self,
        d: TileHandle,
        value: float | ScalarHandle,
        *,
        rows: ValueLike | None = None,
        columns: ValueLike | None = None,
    ) -> None:
        """FILL with a constant or a scalar parameter."""
        if isinstance(value, ScalarHandle):
            self.emit("fill", d=d, parameter=value.index, values=(rows, columns))
            return
        floats = d.tile.dtype.kind in ("float", "float8")
        constant = float(value) if floats else int(value)
        self.emit("fill", d=d, constant=constant, values=(rows, columns))

    def iota(
        self,
        d: TileHandle,
        *,
        base: ValueLike | None = None,
        row: ValueLike | None = None,
        column: ValueLike | None = None,
    ) -> None:
        """IOTA: base + row · i + column · j."""
        self.emit("iota", d=d, values=(base, row, column))

    def un(self, function: str, d: TileHandle, a: TileHandle) -> None:
        """UN."""
        self.emit("un", function, d=d, a=a)

    def bin(self, function: str, d: TileHandle, a: TileHandle, b: TileHandle) -> None:
        """BIN."""
        self.emit("bin", function, d=d, a=a, b=b)

    def sel(self, d: TileHandle, a: TileHandle, b: TileHandle, c: TileHandle) -> None:
        """SEL: a ? b : c."""
        self.emit("sel", d=d, a=a, b=b, c=c)

    def cast(self, d: TileHandle, a: TileHandle, *, saturate: bool = False) -> None:
        """CAST."""
        self.emit("cast", d=d, a=a, flags=("saturate",) if saturate else ())

    def red(
        self,
        function: str,
        d: TileHandle,
        a: TileHandle,
        *,
        axis: int,
        base: ValueLike | None = None,
    ) -> None:
        """RED over rows (axis 0) or columns (axis 1)."""
        self.emit("red", function, d=d, a=a, axis=axis, values=(base,))

    def mma(self, d: TileHandle, a: TileHandle, b: TileHandle, *, init: bool = False) -> None:
        """MMA."""
        self.emit("mma", d=d, a=a, b=b, flags=("init",) if init else ())

    def trn(self, d: TileHandle, a: TileHandle) -> None:
        """TRN."""
        self.emit("trn", d=d, a=a)

    def copy(self, d: TileHandle, a: TileHandle, *, engine: str = "") -> None:
        """COPY."""
        self.emit("copy", d=d, a=a, engine=engine)

    @contextmanager
    def loop(self, count: ValueLike) -> Iterator[SReg]:
        """LOOP: `with p.loop(n) as i:`."""
        counter = self.new_sreg()
        self.emit("loop", x=counter.index, values=(count,))
        yield counter
        self.emit("end")

    @contextmanager
    def if_(self, condition: ValueLike) -> Iterator[None]:
        """IF: `with p.if_(condition):`."""
        self.emit("if", values=(condition,))
        yield
        self.emit("end")

    def compute(self, function: str, *operands: ValueLike, to: SReg | None = None) -> SReg:
        """SREG function of values, into a new register or `to`."""
        target = to or self.new_sreg()
        self.emit("sreg", function, x=target.index, values=operands)
        return target

    def read_scalar(self, scalar: ScalarHandle) -> SReg:
        """SREG arg: an integer scalar parameter."""
        target = self.new_sreg()
        self.emit("sreg", "arg", x=target.index, parameter=scalar.index)
        return target

    def read_tile(self, a: TileHandle) -> SReg:
        """SREG tile: a 1 × 1 integer tile."""
        target = self.new_sreg()
        self.emit("sreg", "tile", x=target.index, a=a)
        return target

    def grid_size(self, axis: int) -> SReg:
        """SREG grid: program instances along an axis."""
        target = self.new_sreg()
        self.emit("sreg", "grid", x=target.index, axis=axis)
        return target

    def gather(
        self, d: TileHandle, descriptor: DescriptorHandle, index: TileHandle, *, dim: int
    ) -> None:
        """GATHER."""
        self.emit("gather", x=descriptor.index, d=d, a=index, axis=dim)

    def scatter(
        self,
        function: str,
        descriptor: DescriptorHandle,
        values: TileHandle,
        index: TileHandle,
        *,
        dim: int,
    ) -> None:
        """SCATTER."""
        self.emit("scatter", function, x=descriptor.index, a=values, b=index, axis=dim)

    def scan(
        self,
        function: str,
        d: TileHandle,
        a: TileHandle,
        *,
        axis: int,
        exclusive: bool = False,
        reverse: bool = False,
    ) -> None:
        """SCAN."""
        flags = [name for name, on in (("exclusive", exclusive), ("reverse", reverse)) if on]
        self.emit("scan", function, d=d, a=a, axis=axis, flags=flags)

    def topk(
        self,
        values: TileHandle,
        indices: TileHandle,
        a: TileHandle,
        *,
        base: ValueLike | None = None,
        init: bool = False,
        smallest: bool = False,
    ) -> None:
        """TOPK."""
        flags = [name for name, on in (("init", init), ("smallest", smallest)) if on]
        self.emit("topk", d=values, c=indices, a=a, values=(base,), axis=1, flags=flags)

    def rng(
        self,
        function: str,
        d: TileHandle,
        *,
        base: ValueLike | None = None,
        pitch: ValueLike | None = None,
        seed: ValueLike | None = None,
        offset: ValueLike | None = None,
    ) -> None:
        """RNG."""
        self.emit("rng", function, d=d, values=(base, pitch, seed, offset))

    def signal(self, token: TokenHandle) -> None:
        """SIGNAL on the token's producer."""
        self.emit("signal", x=token.index)

    def wait(self, token: TokenHandle) -> None:
        """WAIT on the token's consumer."""
        self.emit("wait", x=token.index)

    def build(self) -> Program:
        """The finished program."""
        return Program(
            self.name,
            self.profile,
            tuple(self.params),
            tuple(self._tiles),
            tuple(self._descriptors),
            tuple(self._tokens),
            tuple(self._instructions),
            self._sregs,
            self.contract,
            self.deterministic,
        )
