"""Tensors: what a traced function computes with. NumPy's operators and methods build the graph.

A node is an input, a mapping (its element is an expression of its operands' elements: nothing is
stored) or a statement (it needs an array of its own: reductions, products, sorting).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, Protocol

from hal import dtypes
from hal.dsl.dim import Length, Notes, value
from hal.dtypes import DType
from hal.errors import UsageError
from hal.ir.nodes import Expr, Index

__all__ = [
    "METHODS",
    "Group",
    "Place",
    "Scope",
    "Tensor",
    "Writer",
    "apply",
    "mapped",
    "named_dtype",
    "place_of_user",
    "refuse",
    "stated",
]


class Writer(Protocol):
    """What operators write statements with; hal.dsl.build has the only one."""

    def at(self, tensor: Tensor, subscripts: Sequence[Expr]) -> Expr:
        """The element of a tensor."""

    def array(self, tensor: Tensor) -> str:
        """The name of the array that holds a tensor which a group or mapping wants whole."""

    def indices(self, shape: Sequence[Length]) -> tuple[Index, ...]:
        """Indices for the axes of a target."""

    def reduced(self, length: Length) -> Index:
        """An index that no target has."""

    def assign(
        self, targets: Sequence[tuple[str, Sequence[Expr]]], assignment: str, value: Expr
    ) -> None:
        """Adds a statement."""


Subscripts = tuple[Expr, ...]
Element = Callable[["Writer", Subscripts], Expr]
"""Gives the expression of the element at the subscripts."""
Write = Callable[["Writer", tuple[str, ...]], None]
"""Adds the statements that write the named arrays."""


METHODS: dict[str, Callable[..., Any]] = {}
"""Operator name -> the operator; what Tensor's methods call. Filled by `hal.dsl.operator`."""


def apply(name: str, *arguments: Any, **keywords: Any) -> Tensor:
    """The operator of this name, for one that gives one tensor."""
    result: Tensor = METHODS[name](*arguments, **keywords)
    return result


def _method(name: str) -> Callable[..., Tensor]:
    def method(self: Tensor, *arguments: Any, **keywords: Any) -> Tensor:
        return apply(name, self, *arguments, **keywords)

    return method


def _swapped(name: str) -> Callable[[Tensor, Any], Tensor]:
    def method(self: Tensor, other: Any) -> Tensor:
        return apply(name, other, self)

    return method


@dataclass(frozen=True, slots=True)
class Place:
    """A line of the user's code."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def place_of_user() -> Place:
    """The innermost line outside of this package that is being traced."""
    frame: Any = sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).startswith("hal."):
        frame = frame.f_back
    return Place(frame.f_code.co_filename, frame.f_lineno)


def refuse(call: str, problem: str, next_step: str = "") -> UsageError:
    """The error for a use that can never work, with the user's line."""
    return UsageError(f"{problem} ({place_of_user()})", call=call, next_step=next_step)


@dataclass(slots=True, eq=False)
class Scope:
    """What the tensors of one trace share."""

    notes: Notes = field(default_factory=Notes)
    scalars: dict[str, DType] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Group:
    """Statements that write one or more arrays together.

    Attributes:
        reads: The tensors that they read.
        whole: Of these, the ones that must be arrays, not expressions.
        write: Adds the statements.
    """

    reads: tuple[Tensor, ...]
    whole: tuple[Tensor, ...]
    write: Write
    outputs: list[Tensor] = field(default_factory=list)


def _unknown(call: str, next_step: str) -> Callable[[Tensor], NoReturn]:
    """A conversion to Python that needs an element."""

    def convert(self: Tensor) -> NoReturn:
        raise refuse(
            call, "the elements of a tensor are not known while the kernel is traced", next_step
        )

    return convert


class Tensor:
    """An array of the traced computation: `shape` (lengths), `dtype`, NumPy's operators.

    Attributes:
        name: Of an input; empty for anything else.
        reads: Operands of a mapping.
        whole: Of these, the ones that must be arrays.
        element: Of a mapping: gives an element.
        group: Of a statement: what writes it.
        is_view: A mapping that costs nothing: reading it twice is reading its operand twice.
        is_weak: A scalar input, which takes the type of what it meets.
    """

    __array_priority__ = 1000  # NumPy's operators leave the work to ours.
    __array_ufunc__ = None
    __slots__ = (
        *("dtype", "element", "group", "is_view", "is_weak", "name", "place", "reads"),
        *("scope", "shape", "whole"),
    )

    def __init__(
        self,
        scope: Scope,
        shape: Sequence[Length],
        dtype: DType,
        *,
        name: str = "",
        reads: Sequence[Tensor] = (),
        whole: Sequence[Tensor] = (),
        element: Element | None = None,
        group: Group | None = None,
        is_view: bool = False,
        is_weak: bool = False,
    ) -> None:
        self.scope, self.shape, self.dtype, self.name = scope, tuple(shape), dtype, name
        self.reads, self.whole, self.element, self.group = (
            tuple(reads),
            tuple(whole),
            element,
            group,
        )
        self.is_view, self.is_weak = is_view, is_weak
        self.place = place_of_user()

    @property
    def ndim(self) -> int:
        """Count of axes."""
        return len(self.shape)

    @property
    def size(self) -> Length:
        """Count of elements."""
        total: Length = 1
        for length in self.shape:
            total = total * length
        return total

    def __len__(self) -> int:
        if not self.shape:
            raise refuse("len", "a tensor without axes has no length")
        return int(self.shape[0])

    def __repr__(self) -> str:
        return f"<Tensor {self.dtype}{[value(length) for length in self.shape]}>"

    __bool__ = _unknown(
        "bool",
        "Use hal.where for a choice by element, and shapes or keywords for a choice by Python.",
    )
    __iter__ = _unknown(
        "iter", "Use hal.sum and its like over an axis, or x[i] for i in range(x.shape[0])."
    )
    __float__ = _unknown("float", "Use hal's functions, as hal.sqrt, in place of Python's.")
    __int__ = __index__ = _unknown("int", "Use hal.astype, and hal.take for elements by a tensor.")

    def __setitem__(self, key: object, item: object) -> NoReturn:
        raise refuse(
            "setitem",
            "a tensor is a value and keeps its elements",
            "Make another: hal.where for some elements, hal.concat for parts.",
        )

    __hash__ = object.__hash__

    __add__, __radd__ = _method("add"), _swapped("add")
    __sub__, __rsub__ = _method("subtract"), _swapped("subtract")
    __mul__, __rmul__ = _method("multiply"), _swapped("multiply")
    __truediv__, __rtruediv__ = _method("divide"), _swapped("divide")
    __floordiv__, __rfloordiv__ = _method("floor_divide"), _swapped("floor_divide")
    __mod__, __rmod__ = _method("remainder"), _swapped("remainder")
    __pow__, __rpow__ = _method("pow"), _swapped("pow")
    __matmul__, __rmatmul__ = _method("matmul"), _swapped("matmul")
    __and__, __rand__ = _method("bitwise_and"), _swapped("bitwise_and")
    __or__, __ror__ = _method("bitwise_or"), _swapped("bitwise_or")
    __xor__, __rxor__ = _method("bitwise_xor"), _swapped("bitwise_xor")
    __lshift__, __rshift__ = _method("bitwise_left_shift"), _method("bitwise_right_shift")
    __invert__, __neg__, __abs__ = _method("bitwise_invert"), _method("negative"), _method("abs")
    __lt__, __le__ = _method("less"), _method("less_equal")
    __gt__, __ge__ = _method("greater"), _method("greater_equal")
    __eq__, __ne__ = _method("equal"), _method("not_equal")  # type: ignore[assignment]
    __getitem__ = _method("getitem")

    astype, reshape, squeeze = _method("astype"), _method("reshape"), _method("squeeze")
    sum, prod, mean, var, std = (_method(n) for n in ("sum", "prod", "mean", "var", "std"))
    max, min, any, all = (_method(n) for n in ("max", "min", "any", "all"))
    argmax, argmin, cumsum = _method("argmax"), _method("argmin"), _method("cumulative_sum")

    @property
    def T(self) -> Tensor:  # noqa: N802 -- the array API's name
        """The matrix transposed; for two axes."""
        if self.ndim != 2:
            raise refuse(
                "T", f"T is for two axes; this has {self.ndim}", "Use .mT or permute_dims."
            )
        return self.mT

    @property
    def mT(self) -> Tensor:  # noqa: N802
        """The last two axes exchanged."""
        return apply("matrix_transpose", self)

    def transpose(self, *axes: int) -> Tensor:
        """The axes in another order; without arguments reversed."""
        order = axes or tuple(reversed(range(self.ndim)))
        return apply("permute_dims", self, order)


def mapped(
    reads: Sequence[Tensor],
    shape: Sequence[Length],
    dtype: DType,
    element: Element,
    *,
    whole: Sequence[Tensor] = (),
    is_view: bool = False,
) -> Tensor:
    """A tensor whose element is an expression of its operands' elements."""
    scope = reads[0].scope
    return Tensor(scope, shape, dtype, reads=reads, whole=whole, element=element, is_view=is_view)


def stated(
    reads: Sequence[Tensor],
    outputs: Sequence[tuple[Sequence[Length], DType]],
    write: Write,
    *,
    whole: Sequence[Tensor] = (),
) -> tuple[Tensor, ...]:
    """The tensors that a group of statements writes."""
    group = Group(tuple(reads), tuple(whole), write)
    scope = reads[0].scope
    group.outputs += [Tensor(scope, shape, dtype, group=group) for shape, dtype in outputs]
    return tuple(group.outputs)


def named_dtype(call: str, dtype: Any) -> DType:
    """A dtype by name, object or NumPy's."""
    if isinstance(dtype, DType):
        return dtype
    try:
        return dtypes.by_name(dtype) if isinstance(dtype, str) else dtypes.from_numpy(dtype)
    except (KeyError, TypeError):
        names = " ".join(item.name for item in dtypes.ALL)
        raise refuse(call, f"{dtype!r} is no dtype", f"There are {names}.") from None
