"""The objects of the tensor IR: what is computed, with no word about hardware.

All are frozen and compare by content; places in a text (`span`) do not take part. docs/ir.md gives
their meaning and the text form, `hal.ir.parse` and `hal.ir.show` convert.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from hal.dtypes import DType

__all__ = [
    "ASSIGNMENTS",
    "BINARY",
    "NAMED_CALLS",
    "UNARY",
    "Access",
    "Array",
    "Assign",
    "Call",
    "Cast",
    "Const",
    "Expr",
    "Extent",
    "Index",
    "Kernel",
    "Let",
    "LetRef",
    "NamedCall",
    "ParamRef",
    "Scalar",
    "ScalarRef",
    "Schedule",
    "Span",
    "Statement",
    "children",
    "transform",
    "walk",
]

UNARY = frozenset(
    "neg abs exp exp2 log log2 sqrt rsqrt rcp sin cos tanh erf".split()
    + "floor ceil trunc round not isnan".split()
)
"""Functions of one operand; the meaning is that of UN in docs/vil.md."""
BINARY = frozenset(
    "add sub mul div max min pow fmod idiv imod and or xor shl shr shru mulhi lt le eq ne".split()
)
"""Functions of two operands; the meaning is that of BIN in docs/vil.md."""
ASSIGNMENTS = {"=": "", "+=": "add", "*=": "mul", "max=": "max", "min=": "min"}
"""Assignment of a statement -> the function that combines, empty for `=`."""
NAMED_CALLS = frozenset({"scan_add", "scan_mul", "scan_max", "scan_min", "argmax", "argmin"})
NAMED_CALLS |= {"topk", "sort", "concat"}
"""Calls that stand alone on the right of `=`, because they see a whole axis."""


@dataclass(frozen=True, slots=True)
class Span:
    """A place in a text: lines and columns count from 1, `end` is behind the last character."""

    line: int
    column: int
    end: int


class Expr:
    """Root of the expressions. An index, a param or `//` and `%` of them is i64."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Const(Expr):
    """A literal. Without a dtype it takes the type of what it meets (weak, as in the array API)."""

    value: int | float | bool
    dtype: DType | None = None
    span: Span | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Index(Expr):
    """The value of an index, i64."""

    name: str
    span: Span | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class ParamRef(Expr):
    """The value of a param, i64."""

    name: str
    span: Span | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class ScalarRef(Expr):
    """The value of a scalar input."""

    name: str
    span: Span | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class LetRef(Expr):
    """A name that a `let` line gave to an expression."""

    name: str
    span: Span | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Access(Expr):
    """An element of an array: `X[i + di, t[i]] pad 0`.

    Attributes:
        indices: One i64 or i32 expression a dimension; affine in indices, `//` and `%` by constants
            and params, plus at most one loaded index (a gather) a dimension.
        pad: Value outside of the array; None: an access outside is an error.
    """

    array: str
    indices: tuple[Expr, ...]
    pad: int | float | bool | None = None
    span: Span | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Call(Expr):
    """A function of elements.

    Attributes:
        function: A name of UNARY or BINARY, `where` (three operands), or `philox` (seed, offset,
            element: f32 uniform in [0, 1), docs/vil.md section 5.8).
    """

    function: str
    operands: tuple[Expr, ...]
    span: Span | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Cast(Expr):
    """A conversion: `f16(x)`; `saturate` clamps (written `f16(x, saturate)`)."""

    dtype: DType
    operand: Expr
    saturate: bool = False
    span: Span | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class NamedCall(Expr):
    """A call that sees a whole axis: `scan_add(X[i, j], j)`; only as the value of a statement.

    scan_*(x, j): running combination along j, inclusive; flags `exclusive`, `reverse`.
    argmax/argmin(x, j): position along j (ties: lowest, the first NaN wins).
    topk(x, j): two targets `V[i, r], P[i, r]`; the extent of r is k; flag `smallest`.
    sort(x, j): two targets `V[i, j], P[i, j]`; stable, ascending, NaN last; flag `descending`.
    concat(a, b, …, j): one after another along j, which is an index of the target.
    """

    function: str
    operands: tuple[Expr, ...]
    axis: str
    flags: frozenset[str] = frozenset()
    span: Span | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Array:
    """An array of a kernel, dense and row-major.

    Attributes:
        role: `input`, `output`, `inout` or `temp`.
        shape: Extents: integer expressions over params.
    """

    name: str
    dtype: DType
    shape: tuple[Expr, ...]
    role: str
    span: Span | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Scalar:
    """A scalar input: f32, f64, i32 or i64."""

    name: str
    dtype: DType
    span: Span | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Extent:
    """A declared range: `index di : 3` means 0 ≤ di < 3. Needed where no dimension bounds it."""

    name: str
    size: Expr
    span: Span | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Let:
    """`let NAME = value`: a shorthand, seen by all statements behind it."""

    name: str
    value: Expr
    span: Span | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Assign:
    """`target op value`; two targets only for topk and sort.

    An index that stands only on the right of a reduction (`+= *= max= min=`) is reduced. The first
    reduction into an output or temp starts from the identity, a later one and one into an inout
    goes on from what is there.
    """

    targets: tuple[Access, ...]
    assignment: str
    value: Expr
    span: Span | None = field(default=None, compare=False, repr=False, kw_only=True)

    @property
    def target(self) -> Access:
        """The first target."""
        return self.targets[0]

    @property
    def is_reduction(self) -> bool:
        """True for every assignment but `=`."""
        return self.assignment != "="


Statement = Let | Assign


@dataclass(frozen=True, slots=True)
class Schedule:
    """Advice for one chip; never changes a result.

    Attributes:
        kernel, chip: What it is for.
        tiles: (index, length) in the order of the loops, outermost first.
        stages: Buffers in flight; None leaves the choice.
        spaces: (array, space) pairs.
        split: (reduced index, parts) pairs: split-k.
        spans: Where the pairs stand: of tiles, of spaces, then of split.
    """

    kernel: str
    chip: str
    tiles: tuple[tuple[str, int], ...] = ()
    stages: int | None = None
    spaces: tuple[tuple[str, str], ...] = ()
    split: tuple[tuple[str, int], ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False, kw_only=True)
    spans: tuple[Span, ...] = field(default=(), compare=False, repr=False, kw_only=True)

    def place(self, clause: tuple[str, object]) -> Span | None:
        """Where one pair of tiles, spaces or split stands in the text; else the whole schedule."""
        pairs: list[tuple[str, object]] = [*self.tiles, *self.spaces, *self.split]
        at = next((n for n, pair in enumerate(pairs) if pair is clause), len(self.spans))
        return self.spans[at] if at < len(self.spans) else self.span


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel: arrays, scalars and statements that run one after another."""

    name: str
    params: tuple[str, ...]
    arrays: tuple[Array, ...]
    statements: tuple[Statement, ...]
    scalars: tuple[Scalar, ...] = ()
    extents: tuple[Extent, ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False, kw_only=True)

    def array(self, name: str) -> Array:
        """The array called `name`; KeyError without one."""
        return {array.name: array for array in self.arrays}[name]

    def arrays_of(self, *roles: str) -> tuple[Array, ...]:
        """The arrays with one of the roles, in order."""
        return tuple(array for array in self.arrays if array.role in roles)

    @property
    def assigns(self) -> tuple[Assign, ...]:
        """The statements without the lets."""
        return tuple(item for item in self.statements if isinstance(item, Assign))

    @property
    def lets(self) -> dict[str, Expr]:
        """Let name -> its value."""
        return {item.name: item.value for item in self.statements if isinstance(item, Let)}


def children(expr: Expr) -> tuple[Expr, ...]:
    """The direct operands of an expression (the subscripts of an access)."""
    match expr:
        case Access(indices=parts) | Call(operands=parts) | NamedCall(operands=parts):
            return parts
        case Cast(operand=operand):
            return (operand,)
        case _:
            return ()


def walk(expr: Expr) -> Iterator[Expr]:
    """The expression and all below it, from the top; a LetRef is not followed."""
    yield expr
    for child in children(expr):
        yield from walk(child)


def transform(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """The expression rebuilt from the leaves up, each node passed through `change`."""
    match expr:
        case Access(indices=parts):
            expr = replace(expr, indices=tuple(transform(part, change) for part in parts))
        case Call(operands=parts) | NamedCall(operands=parts):
            expr = replace(expr, operands=tuple(transform(part, change) for part in parts))
        case Cast(operand=operand):
            expr = replace(expr, operand=transform(operand, change))
    return change(expr)
