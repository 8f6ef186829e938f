"""Algebra of VIL's integer expressions: simplified sums of products, and equality by content."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from hal.ir import nodes as ir
from hal.vil.expressions import Binary, Const, Expr, ExprLike, Symbol, as_expr, show

__all__ = ["ceil_ratio", "constant", "equal", "from_ir", "least", "plus", "product"]
__all__ += ["simplified", "times"]

Normal = dict[tuple[Expr, ...], int]
"""Sum of products: the atoms of each product (sorted) -> its whole-number factor."""

MAX_TERMS = 16
"""An expansion with more products than this stays as it was written."""

_IR_OPERATIONS = {"add": "+", "sub": "-", "mul": "*", "idiv": "/", "imod": "%"}
_IR_OPERATIONS |= {"max": "max", "min": "min"}


def constant(value: object) -> int | None:
    """The number of a constant expression; None for anything else."""
    return value.value if isinstance(value, Const) else None


def plus(left: ExprLike, right: ExprLike) -> Expr:
    """left + right, simplified."""
    return simplified(Binary("+", as_expr(left), as_expr(right)))


def times(left: ExprLike, right: ExprLike) -> Expr:
    """left · right, simplified."""
    return simplified(Binary("*", as_expr(left), as_expr(right)))


def product(factors: Iterable[ExprLike]) -> Expr:
    """The product of all; 1 of none."""
    result: Expr = Const(1)
    for factor in factors:
        result = times(result, factor)
    return result


def ceil_ratio(left: ExprLike, right: ExprLike) -> Expr:
    """left / right, rounded up."""
    return simplified(Binary("ceildiv", as_expr(left), as_expr(right)))


def least(left: ExprLike, right: ExprLike) -> Expr:
    """The smaller of two."""
    return simplified(Binary("min", as_expr(left), as_expr(right)))


def equal(left: ExprLike, right: ExprLike) -> bool:
    """True when both are the same for all values, as far as expansion shows."""
    a, b = as_expr(left), as_expr(right)
    return a == b or _normal(a) == _normal(b)


def from_ir(expr: ir.Expr) -> Expr:
    """An integer expression of the IR over params.

    Raises:
        TypeError: it holds an index, an access or a function without a VIL operator.
    """
    match expr:
        case ir.Const(value=value):
            return Const(int(value))
        case ir.ParamRef(name=name):
            return Symbol(name)
        case ir.Call(function="neg", operands=(a,)):
            return times(-1, from_ir(a))
        case ir.Call(function=function, operands=(a, b)) if function in _IR_OPERATIONS:
            return simplified(Binary(_IR_OPERATIONS[function], from_ir(a), from_ir(b)))
        case ir.Cast(operand=operand, dtype=dtype) if dtype.is_int:
            return from_ir(operand)
    raise TypeError(f"not an integer expression over params: {expr!r}")


@lru_cache(maxsize=2**16)
def simplified(expr: Expr) -> Expr:
    """The same value with fewer operations; a division that may fail is kept."""
    if not isinstance(expr, Binary):
        return expr
    if expr.operation in "+-*":
        return _rebuilt(_normal(expr), expr)
    left, right = simplified(expr.left), simplified(expr.right)
    a, b = constant(left), constant(right)
    if expr.operation in ("/", "%", "ceildiv"):
        if b == 1:
            return Const(0) if expr.operation == "%" else left
        if a is not None and b is not None and b > 0:
            values = {"/": a // b, "%": a % b, "ceildiv": -(-a // b)}
            return Const(values[expr.operation])
    elif equal(left, right):
        return left
    elif a is not None and b is not None:
        return Const(min(a, b) if expr.operation == "min" else max(a, b))
    return Binary(expr.operation, left, right)


@lru_cache(maxsize=2**16)
def _normal(expr: Expr) -> Normal:
    """The sum of products; shared, so nobody may change it."""
    if isinstance(expr, Const):
        return {(): expr.value} if expr.value else {}
    if not isinstance(expr, Binary):
        return {(expr,): 1}
    if expr.operation not in "+-*":
        inner = simplified(expr)
        if isinstance(inner, Binary) and inner.operation not in "+-*":
            return {(inner,): 1}
        return _normal(inner)
    left, right = _normal(expr.left), _normal(expr.right)
    if expr.operation == "*":
        if len(left) * len(right) > MAX_TERMS:
            return {(expr,): 1}
        found: Normal = {}
        for one, factor in left.items():
            for other, by in right.items():
                atoms = tuple(sorted((*one, *other), key=show))
                found[atoms] = found.get(atoms, 0) + factor * by
        return {atoms: factor for atoms, factor in found.items() if factor}
    sign = 1 if expr.operation == "+" else -1
    found = dict(left)
    for atoms, factor in right.items():
        found[atoms] = found.get(atoms, 0) + sign * factor
    return {atoms: factor for atoms, factor in found.items() if factor}


def _rebuilt(normal: Normal, written: Expr) -> Expr:
    if normal == {(written,): 1}:
        return written
    result: Expr | None = None
    for atoms, factor in sorted(normal.items(), key=lambda item: item[0] == ()):
        size = abs(factor)
        parts: list[Expr] = list(atoms)
        if size != 1 or not parts:
            parts = [Const(size), *parts]
        term = parts[0]
        for part in parts[1:]:
            term = Binary("*", term, part)
        if result is None:
            negative = Const(-size) if not atoms else Binary("*", Const(-1), term)
            result = term if factor > 0 else negative
        else:
            result = Binary("+" if factor > 0 else "-", result, term)
    return Const(0) if result is None else result
