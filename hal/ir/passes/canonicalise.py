"""Canonical form: lets in place, exact simplification, one order of operands and of sums."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hal.ir.analysis import indices_of, inline_lets
from hal.ir.nodes import Access, Array, Assign, Const, Expr, Extent, Index, Kernel, transform
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
    statements = tuple(_named_units(kernel, _statement(item, simple)) for item in kernel.assigns)
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


def _named_units(kernel: Kernel, item: Assign) -> Assign:
    """The statement with the target's indices of length 1 where it reads such axes at 0.

    `t[i, j] = X[0, j]` with one row reads X[i, j]: one way to write it, by which statements share
    their rows. The first such axis of an array gets the first such index, and so on.
    """
    shape = kernel.array(item.target.array).shape
    places = zip(item.target.indices, shape, strict=True)
    units = [n for n, size in places if isinstance(n, Index) and size == Const(1)]

    def named(expr: Expr) -> Expr:
        if not isinstance(expr, Access):
            return expr
        left = [unit for unit in units if unit not in expr.indices]
        found = []
        for place, size in zip(expr.indices, kernel.array(expr.array).shape, strict=True):
            free = bool(left) and place == Const(0) and size == Const(1)
            found.append(left.pop(0) if free else place)
        return replace(expr, indices=tuple(found))

    return replace(item, value=transform(item.value, named)) if units else item
