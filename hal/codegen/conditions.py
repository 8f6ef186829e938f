"""Conditions on sizes that are known at launch, as expressions that are 1 or 0.

Each is one `max(0, min(1, …))`, so that it can be multiplied into a grid without being taken apart.
"""

from __future__ import annotations

from functools import reduce

from hal.codegen import symbolic
from hal.vil.expressions import Binary, Const, Expr, ExprLike, as_expr

__all__ = ["all_of", "any_of", "is_one", "not_all_positive", "positive", "room"]


def room(length: ExprLike, limit: int) -> Expr:
    """Positive where length ≤ limit: what is left, and one."""
    return symbolic.plus(limit + 1, symbolic.times(-1, length))


def positive(*values: ExprLike) -> Expr:
    """1 where all values are above 0, else 0."""
    return _clamped(_least(values))


def not_all_positive(*values: ExprLike) -> Expr:
    """1 where some value is not above 0, else 0."""
    return _clamped(symbolic.plus(1, symbolic.times(-1, _least(values))))


def all_of(left: Expr, right: Expr) -> Expr:
    """1 where both conditions are 1."""
    if is_one(left) or is_one(right):
        return right if is_one(left) else left
    return symbolic.simplified(Binary("min", left, right))


def any_of(left: Expr, right: Expr) -> Expr:
    """1 where one of the conditions is 1."""
    return symbolic.simplified(Binary("max", left, right))


def is_one(condition: Expr) -> bool:
    """The condition holds whatever the sizes are."""
    return condition == Const(1)


def _least(values: tuple[ExprLike, ...]) -> Expr:
    items = [as_expr(value) for value in values]
    return reduce(lambda a, b: symbolic.simplified(Binary("min", a, b)), items)


def _clamped(value: Expr) -> Expr:
    known = symbolic.constant(value)
    if known is not None:
        return Const(max(0, min(1, known)))
    return Binary("max", Const(0), Binary("min", Const(1), value))
