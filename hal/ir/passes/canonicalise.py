"""Canonical form: lets in place, exact simplification, one order of operands and of sums."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hal.ir.analysis import indices_of, inline_lets
from hal.ir.nodes import Access, Array, Assign, Expr, Extent, Kernel, transform
from hal.ir.passes.folding import simplify

__all__ = ["canonicalise"]

Simple = Callable[[Expr], Expr]


def canonicalise(kernel: Kernel) -> Kernel:
    """The kernel in canonical form. Equal meanings written differently become equal more often.

    A simplification that would drop an index of a reduction is not made: the index counts.
    """
    kernel = inline_lets(kernel)

    def simple(expr: Expr) -> Expr:
        return transform(expr, lambda item: simplify(kernel, item))

    arrays = tuple(_array(array, simple) for array in kernel.arrays)
    extents = tuple(replace(item, size=simple(item.size)) for item in kernel.extents)
    statements = tuple(_statement(item, simple) for item in kernel.assigns)
    return replace(kernel, arrays=arrays, extents=_without_copies(extents), statements=statements)


def _array(array: Array, simple: Simple) -> Array:
    return replace(array, shape=tuple(simple(size) for size in array.shape))


def _without_copies(extents: tuple[Extent, ...]) -> tuple[Extent, ...]:
    return tuple(dict.fromkeys(extents))


def _statement(item: Assign, simple: Simple) -> Assign:
    value = simple(item.value)
    if set(indices_of(value)) != set(indices_of(item.value)):
        value = item.value
    targets = tuple(simple(target) for target in item.targets)
    kept = tuple(target for target in targets if isinstance(target, Access))
    return replace(item, targets=kept, value=value)
