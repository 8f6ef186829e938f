"""Finds a causal mask: an expression that is −inf where a column lies behind its row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hal.ir.analysis import Affine, affine, indices_of
from hal.ir.nodes import Call, Const, Expr, Index

__all__ = ["Causal", "find_causal"]


@dataclass(frozen=True, slots=True)
class Causal:
    """Row i sees the columns j < i + shift.

    Attributes:
        inside: The expression where the mask lets it through.
        shift: An integer expression over params.
    """

    inside: Expr
    shift: Expr


def find_causal(score: Expr, rows: Sequence[str], column: str) -> Causal | None:
    """The mask of `where(j <= i + c, x, -inf)`, or None for another expression.

    Args:
        rows: Indices of the rows; there must be one, so that its value is the row's position.
        column: The index of the columns.
    """
    if len(rows) != 1 or not isinstance(score, Call) or score.function != "where":
        return None
    condition, inside, outside = score.operands
    if not isinstance(outside, Const) or outside.value != float("-inf"):
        return None
    if not isinstance(condition, Call) or condition.function not in ("le", "lt"):
        return None
    left, right = (affine(part) for part in condition.operands)
    if left is None or right is None:
        return None
    if _only_term(left) != column or _only_term(right) != rows[0]:
        return None
    # j + a <= i + b, or <: row i sees j < i + (b - a) + 1, or + 0.
    more = Const(1 if condition.function == "le" else 0)
    shift = Call("add", (Call("sub", (right.base, left.base)), more))
    return None if indices_of(shift) else Causal(inside, shift)


def _only_term(value: Affine) -> str | None:
    """The index of i + base; None for any other form."""
    if len(value.terms) != 1:
        return None
    term, coefficient = value.terms[0]
    return term.name if isinstance(term, Index) and coefficient == Const(1) else None
