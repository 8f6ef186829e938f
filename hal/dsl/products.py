"""Matrix products."""

from __future__ import annotations

from typing import Any

from hal.dsl.dim import same
from hal.dsl.elementwise import broadcast_shapes, elements_of
from hal.dsl.function import operator
from hal.dsl.shaping import expand_dims, squeeze
from hal.dsl.tensor import Tensor, Writer, named_dtype, refuse, stated
from hal.dtypes import DType
from hal.ir.nodes import Call, Cast

__all__ = ["checked_factors", "linear", "matmul", "solid"]


def _result(x: Tensor, accumulate: Any) -> DType:
    return x.dtype if accumulate is None else named_dtype("matmul", accumulate)


def checked_factors(name: str, a: Any, b: Any) -> None:
    for item in (a, b):
        if not isinstance(item, Tensor) or item.dtype.kind not in ("float", "int"):
            raise refuse(name, f"{item!r} is no tensor of numbers")
    if a.dtype != b.dtype:
        raise refuse(name, f"{a.dtype} and {b.dtype} are two dtypes", "Convert one with astype().")


@operator(domain="linear_algebra")
def matmul(a: Tensor, b: Tensor, *, dtype: Any = None) -> Tensor:
    """The matrix product: out[…, m, n] = Σ_k a[…, m, k] · b[…, k, n].

    Axes before the last two are broadcast. A tensor with one axis is a row on the left and a
    column on the right. Sums run in f32 for 16-bit floats, in i32 for i8.

    Args:
        dtype: Of the result; a's by default (i32 for i8 makes no overflow).
    """
    checked_factors("matmul", a, b)
    if a.ndim == 0 or b.ndim == 0:
        raise refuse("matmul", "a tensor without axes is no matrix", "Use * for a scalar.")
    left = expand_dims(a, 0) if a.ndim == 1 else a
    right = expand_dims(b, 1) if b.ndim == 1 else b
    if not same(left.shape[-1], right.shape[-2]):
        raise refuse(
            "matmul",
            f"{list(a.shape)} and {list(b.shape)} do not multiply: "
            f"{left.shape[-1]} columns against {right.shape[-2]} rows",
        )
    result = _product(left, right, _result(a, dtype))
    if a.ndim == 1:
        result = squeeze(result, -2)
    return squeeze(result, -1) if b.ndim == 1 else result


def _product(a: Tensor, b: Tensor, dtype: DType) -> Tensor:
    outer = broadcast_shapes("matmul", a.shape[:-2], b.shape[:-2]) if a.ndim + b.ndim > 4 else ()
    shape = (*outer, a.shape[-2], b.shape[-1])

    def write(build: Writer, names: tuple[str, ...]) -> None:
        indices = build.indices(shape)
        inner = build.reduced(a.shape[-1])
        rows, columns = indices[-2], indices[-1]
        parts = [
            elements_of(build, a, (*indices[:-2], rows, inner)),
            elements_of(build, b, (*indices[:-2], inner, columns)),
        ]
        wide = [Cast(dtype, part) if dtype.bytes > a.dtype.bytes else part for part in parts]
        build.assign([(names[0], indices)], "+=", Call("mul", (wide[0], wide[1])))

    return stated([a, b], [(shape, dtype)], write, whole=solid(a, b))[0]


def solid(*tensors: Tensor) -> list[Tensor]:
    """Of these, the ones that compute: their elements are stored before they are multiplied."""
    found = []
    for tensor in tensors:
        base = tensor
        while base.is_view and base.reads:
            base = base.reads[0]
        if not base.is_view:
            found.append(base)
    return found


@operator(domain="linear_algebra")
def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x · weightᵀ + bias, with weight of shape (out, in)."""
    y: Tensor = matmul(x, weight.mT)
    return y if bias is None else y + bias
