"""Lengths of axes while a kernel is traced: numbers that remember the param behind them.

A trace serves a class of shapes. What Python code does with a length decides how wide that class
is: arithmetic stays symbolic, a comparison is noted with its outcome, and a length that is turned
into a plain number is noted with its value. The trace is used again for every shape that answers
all notes alike.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hal.ir.analysis import value_of
from hal.ir.nodes import Call, Const, Expr, ParamRef

__all__ = ["Dim", "Length", "Note", "Notes", "expr_of", "length_of", "same", "value"]

_RELATIONS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
}


@dataclass(frozen=True, slots=True)
class Note:
    """`left relation right` had this outcome."""

    left: Expr
    relation: str
    right: Expr
    outcome: bool

    def holds(self, values: Mapping[str, int]) -> bool:
        """Whether it has the same outcome for other values of the params."""
        relation = _RELATIONS[self.relation]
        return relation(value_of(self.left, values), value_of(self.right, values)) == self.outcome


class Notes:
    """The notes of one trace, each once."""

    def __init__(self) -> None:
        self.all: dict[Note, None] = {}

    def compare(self, left: Dim, relation: str, right: Length) -> bool:
        """The outcome of a comparison, noted."""
        outcome = _RELATIONS[relation](left.value, value(right))
        self.all[Note(left.expr, relation, expr_of(right), outcome)] = None
        return outcome

    def pin(self, dim: Dim) -> int:
        """The value of a length, noted."""
        self.compare(dim, "==", dim.value)
        return dim.value


class Dim:
    """A length that depends on params. Sums, products, `//` and `%` of lengths are lengths."""

    __slots__ = ("expr", "notes", "value")

    def __init__(self, expr: Expr, number: int, notes: Notes) -> None:
        self.expr, self.value, self.notes = expr, number, notes

    @classmethod
    def of_param(cls, name: str, number: int, notes: Notes) -> Dim:
        """The length that a param stands for."""
        return cls(ParamRef(name), number, notes)

    def _with(self, other: object, function: str, swap: bool = False) -> Any:
        if isinstance(other, bool) or not isinstance(other, int | Dim):
            return NotImplemented
        operands = (expr_of(self), expr_of(other))
        numbers = (self.value, value(other))
        if swap:
            operands, numbers = operands[::-1], numbers[::-1]
        expr = _simplified(function, *operands)
        number = value_of(Call(function, (Const(numbers[0]), Const(numbers[1]))), {})
        return number if isinstance(expr, Const) else Dim(expr, number, self.notes)

    def __add__(self, other: object) -> Any:
        return self._with(other, "add")

    def __radd__(self, other: object) -> Any:
        return self._with(other, "add", True)

    def __sub__(self, other: object) -> Any:
        return self._with(other, "sub")

    def __rsub__(self, other: object) -> Any:
        return self._with(other, "sub", True)

    def __mul__(self, other: object) -> Any:
        return self._with(other, "mul")

    def __rmul__(self, other: object) -> Any:
        return self._with(other, "mul", True)

    def __floordiv__(self, other: object) -> Any:
        return self._with(other, "idiv")

    def __rfloordiv__(self, other: object) -> Any:
        return self._with(other, "idiv", True)

    def __mod__(self, other: object) -> Any:
        return self._with(other, "imod")

    def __neg__(self) -> Any:
        return 0 - self

    def __truediv__(self, other: Any) -> Any:
        return int(self) / number(other)

    def __rtruediv__(self, other: Any) -> Any:
        return other / int(self)

    def __pow__(self, other: Any) -> Any:
        return int(self) ** number(other)

    def __rpow__(self, other: Any) -> Any:
        return other ** int(self)

    def __int__(self) -> int:
        return self.notes.pin(self)

    __index__ = __int__

    def __float__(self) -> float:
        return float(int(self))

    def __bool__(self) -> bool:
        return not self.notes.compare(self, "==", 0)

    def __hash__(self) -> int:
        return hash(int(self))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Dim) and self.expr == other.expr:
            return True
        return isinstance(other, int | Dim) and self.notes.compare(self, "==", other)

    def __lt__(self, other: Length) -> bool:
        return self.notes.compare(self, "<", other)

    def __le__(self, other: Length) -> bool:
        return self.notes.compare(self, "<=", other)

    def __gt__(self, other: Length) -> bool:
        return not self.notes.compare(self, "<=", other)

    def __ge__(self, other: Length) -> bool:
        return not self.notes.compare(self, "<", other)

    def __repr__(self) -> str:
        return str(self.value)


Length = int | Dim


def number(item: Any) -> Any:
    """A length as a plain number; anything else as it is."""
    return int(item) if isinstance(item, Dim) else item


def value(length: Length) -> int:
    """The number of a length, without a note: for messages and choices that no result shows."""
    return length.value if isinstance(length, Dim) else length


def expr_of(length: Length) -> Expr:
    """A length as an integer expression over params."""
    return length.expr if isinstance(length, Dim) else Const(length)


def length_of(expr: Expr, values: Mapping[str, int], notes: Notes) -> Length:
    """An integer expression over params as a length."""
    if isinstance(expr, Const):
        return int(expr.value)
    return Dim(expr, value_of(expr, values), notes)


def same(left: Length, right: Length) -> bool:
    """Whether two lengths are equal; noted only where their expressions differ."""
    return left == right


def _simplified(function: str, left: Expr, right: Expr) -> Expr:
    if isinstance(left, Const) and isinstance(right, Const):
        return Const(value_of(Call(function, (left, right)), {}))
    zero, one = Const(0), Const(1)
    if (function in ("add", "sub") and right == zero) or (
        function in ("mul", "idiv") and right == one
    ):
        return left
    if (function == "add" and left == zero) or (function == "mul" and left == one):
        return right
    if function == "mul" and zero in (left, right):
        return zero
    if function in ("add", "sub") and isinstance(right, Const):
        step = int(right.value) if function == "add" else -int(right.value)
        return _stepped(left, step)
    return Call(function, (left, right))


def _stepped(expr: Expr, step: int) -> Expr:
    """expr + step, joined with a constant that is added last."""
    match expr:
        case Call(function="add", operands=(inner, Const(value=number))):
            step, expr = step + int(number), inner
        case Call(function="sub", operands=(inner, Const(value=number))):
            step, expr = step - int(number), inner
    if step == 0:
        return expr
    return Call("add" if step > 0 else "sub", (expr, Const(abs(step))))
