"""The objects of a VIL module. All are frozen; docs/vil.md gives their meaning."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from hal.dtypes import DType
from hal.vil.expressions import Expr

__all__ = [
    "Argument",
    "Axis",
    "Binding",
    "Descriptor",
    "Digit",
    "Dimension",
    "Instruction",
    "Kernel",
    "Launch",
    "Param",
    "Parts",
    "Program",
    "SReg",
    "Term",
    "Tile",
    "TileRef",
    "Token",
    "Value",
    "Workspace",
]


@dataclass(frozen=True, slots=True)
class SReg:
    """Scalar register `%index`."""

    index: int


Value = SReg | Expr
Named = TypeVar("Named", "Kernel", "Program")


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a kernel.

    Attributes:
        kind: `buffer`, `scalar` or `symbol`.
        dtype: Element type of a buffer, type of a scalar; None for a symbol (i64).
        access: `read`, `write` or `inout` for a buffer, else empty.
        required_bytes: Least size of the buffer, over the kernel's symbols.
        alias: Name of an earlier buffer argument that this one may exactly equal.
    """

    name: str
    kind: str
    dtype: DType | None = None
    access: str = ""
    required_bytes: Expr | None = None
    alias: str | None = None


@dataclass(frozen=True, slots=True)
class Workspace:
    """Scratch memory of a kernel, `bytes` long, in the block that the launcher passes."""

    name: str
    bytes: Expr


@dataclass(frozen=True, slots=True)
class Binding:
    """What a program's parameter gets: exactly one of the three.

    Attributes:
        argument: Name of a buffer or scalar argument.
        workspace: Name of a workspace.
        expression: Value of a symbol parameter.
    """

    argument: str | None = None
    workspace: str | None = None
    expression: Expr | None = None


@dataclass(frozen=True, slots=True)
class Launch:
    """One step of a plan.

    Attributes:
        program: Name of the program (or entry point of another format).
        grid: Up to three axes; None takes the grid of the launch descriptor.
        bindings: One per parameter of the program.
        block: Threads of a program on SIMT chips; None lets the port choose.
        scratch: On-chip scratch in bytes; None for none.
    """

    program: str
    grid: tuple[Expr, ...] | None
    bindings: tuple[Binding, ...] = ()
    block: tuple[Expr, Expr, Expr] | None = None
    scratch: Expr | None = None


@dataclass(frozen=True, slots=True)
class Kernel:
    """A plan: signature, workspaces and ordered launches."""

    name: str
    arguments: tuple[Argument, ...] = ()
    workspaces: tuple[Workspace, ...] = ()
    launches: tuple[Launch, ...] = ()


@dataclass(frozen=True, slots=True)
class Param:
    """One parameter of a program; fields as of Argument."""

    name: str
    kind: str
    dtype: DType | None = None
    access: str = ""


@dataclass(frozen=True, slots=True)
class Tile:
    """One entry of the tile table; `offset` is in bytes in its space, `panel` is m of panel(m)."""

    name: str
    dtype: DType
    rows: int
    columns: int
    space: str = "near"
    offset: int = 0
    stages: int = 1
    layout: str = "row"
    panel: int = 0

    @property
    def bytes(self) -> int:
        """Bytes of one stage."""
        rows = self.rows
        if self.layout == "panel" and self.panel > 0:
            rows = -(-rows // self.panel) * self.panel
        return rows * self.columns * self.dtype.bytes

    @property
    def total_bytes(self) -> int:
        """Bytes from the first stage's begin to the last one's end."""
        return (self.stages - 1) * (-(-self.bytes // 64) * 64) + self.bytes


@dataclass(frozen=True, slots=True)
class Token:
    """A counting token from one engine to another."""

    name: str
    producer: str
    consumer: str
    credits: int = 0


@dataclass(frozen=True, slots=True)
class Digit:
    """`floormod(floordiv(position, divisor), size)`; a size of None has no modulus."""

    size: Value | None
    divisor: Value


@dataclass(frozen=True, slots=True)
class Axis:
    """One tile axis of a descriptor; origin None is 0, limit None is no limit."""

    origin: Value | None = None
    limit: Value | None = None
    digits: tuple[Digit, ...] = ()


@dataclass(frozen=True, slots=True)
class Term:
    """`coefficient · source`; the source is an SREG, or digit `index` of `row` or `column`."""

    source: str
    index: int
    coefficient: Value


@dataclass(frozen=True, slots=True)
class Dimension:
    """One tensor dimension of a descriptor."""

    extent: Value
    stride: Value
    base: Value
    terms: tuple[Term, ...] = ()


@dataclass(frozen=True, slots=True)
class Descriptor:
    """Which tensor element belongs to a tile element.

    Attributes:
        param: Name of a buffer parameter; None addresses a near tile.
        fill: Constant for outside elements: float, or int for integer and bool types.
    """

    name: str
    param: str | None
    dtype: DType
    dimensions: tuple[Dimension, ...]
    row: Axis = Axis()
    column: Axis = Axis()
    fill: float | int = 0


@dataclass(frozen=True, slots=True)
class TileRef:
    """A tile operand: table index and stage (None is stage 0)."""

    tile: int
    stage: Value | None = None


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction; which fields an operation uses stands in `hal.vil.tables.OPS`.

    Attributes:
        x: Index of a descriptor, token or SREG.
        parameter: Index of a scalar parameter (fill, sreg arg).
        constant: Constant of FILL.
        values: v0 to v3.
        line: Line of the text it came from, 0 for none; not part of equality.
    """

    op: str
    function: str = ""
    engine: str = ""
    axis: int = 0
    flags: frozenset[str] = frozenset()
    x: int | None = None
    d: TileRef | None = None
    a: TileRef | None = None
    b: TileRef | None = None
    c: TileRef | None = None
    values: tuple[Value | None, Value | None, Value | None, Value | None] = (None,) * 4
    parameter: int | None = None
    constant: float | int | None = None
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Program:
    """A grid of independent instances of one instruction list."""

    name: str
    profile: str = "flat"
    params: tuple[Param, ...] = ()
    tiles: tuple[Tile, ...] = ()
    descriptors: tuple[Descriptor, ...] = ()
    tokens: tuple[Token, ...] = ()
    instructions: tuple[Instruction, ...] = ()
    sreg_count: int = 3
    contract: bool = False
    deterministic: bool = False


class Parts(Protocol):
    """A hal.vil.Module for those that it is written by: its kernels and its programs."""

    @property
    def kernels(self) -> tuple[Kernel, ...]: ...

    @property
    def programs(self) -> tuple[Program, ...]: ...


def next_named(items: tuple[Named, ...], name: str) -> Named:
    """The item with this name; raises KeyError with the names that exist."""
    for item in items:
        if item.name == name:
            return item
    known = ", ".join(item.name for item in items) or "none"
    raise KeyError(f"{name} (known: {known})")
