"""Statements that a strategy makes of one statement, each lowered as if it stood in the kernel."""

from __future__ import annotations

from collections.abc import Sequence

from hal.codegen.groups import choose, lower_group
from hal.codegen.lowering import Lowering
from hal.dtypes import DType
from hal.ir.nodes import Access, Array, Assign, Expr, Index

__all__ = ["PLAIN", "copied", "free_index", "lower_statements", "new_array"]

PLAIN = ("product", "gathering", "pointwise")
"""Strategies for a statement without a named call."""


def lower_statements(
    lowering: Lowering, statements: Sequence[Assign], strategies: Sequence[str] = PLAIN
) -> None:
    """Adds the launches of statements over arrays of the kernel and temps of `new_array`.

    Raises:
        CodegenError: no strategy takes one.
    """
    rest = list(statements)
    while rest:
        group, choice = choose(
            lowering.kernel,
            rest,
            lowering.target,
            {},
            started=lowering.started_arrays,
            strategies=strategies,
        )
        lower_group(lowering, group, choice)
        rest = rest[len(group.match.statements) :]


def new_array(lowering: Lowering, stem: str, dtype: DType, shape: Sequence[Expr]) -> Array:
    """A workspace with the shape, known to the kernel that is lowered."""
    return lowering.temp(stem, Array(stem, dtype, tuple(shape), "temp"))


def free_index(taken: set[str], stem: str) -> str:
    """A name for one more index; it is taken afterwards."""
    name = stem
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def copied(target: Array, source: Array) -> Assign:
    """The statement target = source, element by element, converted."""
    indices = tuple(Index(f"d{number}") for number in range(len(target.shape)))
    return Assign((Access(target.name, indices),), "=", Access(source.name, indices))
