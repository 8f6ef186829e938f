"""A kernel of f32 made one of another type, or with some params fixed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from hal import dtypes
from hal.dtypes import DType
from hal.ir.analysis import value_of
from hal.ir.nodes import (
    Access,
    Assign,
    Call,
    Cast,
    Const,
    Expr,
    Kernel,
    ParamRef,
    Statement,
    transform,
)

__all__ = ["fixed", "retyped"]

_FOLDED = frozenset("neg add sub mul idiv imod max min".split())


def retyped(kernel: Kernel, dtype: DType, keep: tuple[str, ...]) -> Kernel:
    """Arguments of f32 get the type; temps, scalars and sums stay f32 (f64 where the type is).

    Args:
        keep: Arguments that stay f32, as the moments of an optimiser.
    """
    inner = dtypes.f64 if dtype == dtypes.f64 else dtypes.f32

    def one(found: DType, outer: DType) -> DType:
        return outer if found == dtypes.f32 else found

    def change(expr: Expr) -> Expr:
        if isinstance(expr, Cast):
            return replace(expr, dtype=one(expr.dtype, inner))
        if isinstance(expr, Const) and expr.dtype is not None:
            return replace(expr, dtype=one(expr.dtype, inner))
        return expr

    arrays = tuple(
        replace(a, dtype=one(a.dtype, inner if a.role == "temp" or a.name in keep else dtype))
        for a in kernel.arrays
    )
    scalars = tuple(replace(s, dtype=one(s.dtype, inner)) for s in kernel.scalars)
    return replace(_mapped(kernel, change), arrays=arrays, scalars=scalars)


def fixed(kernel: Kernel, values: Mapping[str, int]) -> Kernel:
    """The kernel with some params as numbers."""

    def number(expr: Expr) -> Expr:
        if isinstance(expr, ParamRef) and expr.name in values:
            return Const(values[expr.name], dtypes.i64)
        if isinstance(expr, Access):
            return replace(expr, indices=tuple(_plain(part) for part in expr.indices))
        return expr

    def size(expr: Expr) -> Expr:
        return _plain(transform(expr, number))

    arrays = tuple(replace(a, shape=tuple(map(size, a.shape))) for a in kernel.arrays)
    extents = tuple(replace(e, size=size(e.size)) for e in kernel.extents)
    params = tuple(name for name in kernel.params if name not in values)
    return replace(_mapped(kernel, number), params=params, arrays=arrays, extents=extents)


def _plain(expr: Expr) -> Expr:
    """Whole numbers without a type, sums of numbers added up."""

    def change(item: Expr) -> Expr:
        if isinstance(item, Const) and item.dtype == dtypes.i64:
            return Const(item.value)
        if isinstance(item, Call) and item.function in _FOLDED:
            if all(isinstance(operand, Const) for operand in item.operands):
                return Const(value_of(item, {}))
            return _neutral(item)
        return item

    return transform(expr, change)


def _neutral(call: Call) -> Expr:
    """x + 0, x − 0, x · 1 and x // 1 are x."""
    if len(call.operands) != 2:
        return call
    left, right = call.operands
    if call.function in ("add", "sub") and right == Const(0):
        return left
    if call.function in ("mul", "idiv") and right == Const(1):
        return left
    if (call.function, left) in (("add", Const(0)), ("mul", Const(1))):
        return right
    return call


def _mapped(kernel: Kernel, change: Callable[[Expr], Expr]) -> Kernel:
    """The kernel with each part of its statements passed through `change`."""
    statements: list[Statement] = []
    for item in kernel.statements:
        value = transform(item.value, change)
        if isinstance(item, Assign):
            targets = (transform(target, change) for target in item.targets)
            kept = tuple(target for target in targets if isinstance(target, Access))
            statements.append(replace(item, targets=kept, value=value))
        else:
            statements.append(replace(item, value=value))
    return replace(kernel, statements=tuple(statements))
