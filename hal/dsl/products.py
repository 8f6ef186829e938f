"""Matrix products and convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hal.dsl.build import Build
from hal.dsl.dim import Length, same
from hal.dsl.elementwise import broadcast_shapes, elements_of
from hal.dsl.function import operator
from hal.dsl.shaping import expand_dims, product_of, squeeze, sum_of
from hal.dsl.tensor import Tensor, refuse, stated
from hal.dtypes import DType
from hal.ir.nodes import Access, Call, Cast, Const, Expr

__all__ = ["conv1d", "conv2d", "matmul"]


def _result(x: Tensor, accumulate: Any) -> DType:
    from hal.dsl.elementwise import named_dtype

    return x.dtype if accumulate is None else named_dtype("matmul", accumulate)


def _checked(name: str, a: Any, b: Any) -> None:
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
    _checked("matmul", a, b)
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

    def write(build: Build, names: tuple[str, ...]) -> None:
        indices = build.indices(shape)
        inner = build.reduced(a.shape[-1])
        rows, columns = indices[-2], indices[-1]
        parts = [
            elements_of(build, a, (*indices[:-2], rows, inner)),
            elements_of(build, b, (*indices[:-2], inner, columns)),
        ]
        wide = [Cast(dtype, part) if dtype.bytes > a.dtype.bytes else part for part in parts]
        build.assign([(names[0], indices)], "+=", Call("mul", (wide[0], wide[1])))

    return stated([a, b], [(shape, dtype)], write, whole=_solid(a, b))[0]


def _solid(*tensors: Tensor) -> list[Tensor]:
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


def _pair(name: str, item: int | Sequence[int], count: int) -> tuple[int, ...]:
    values = (item,) * count if isinstance(item, int) else tuple(item)
    if len(values) != count or not all(isinstance(v, int) and v >= 0 for v in values):
        raise refuse(name, f"{item!r} is no whole number, nor {count} of them")
    return values


def _convolution(
    name: str,
    x: Tensor,
    weight: Tensor,
    stride: int | Sequence[int],
    padding: int | Sequence[int],
    dilation: int | Sequence[int],
    groups: int,
) -> Tensor:
    """x (N, C, *space), weight (F, C / groups, *window) -> (N, F, *space)."""
    _checked(name, x, weight)
    count = x.ndim - 2
    steps, borders, gaps = (_pair(name, item, count) for item in (stride, padding, dilation))
    if weight.ndim != x.ndim:
        raise refuse(name, f"the weight has {weight.ndim} axes, x has {x.ndim}")
    if min(steps) < 1 or min(gaps) < 1 or groups < 1:
        raise refuse(name, "stride, dilation and groups are at least 1")
    channels, filters = x.shape[1], weight.shape[0]
    if not same(weight.shape[1] * groups, channels) or filters % groups != 0:
        raise refuse(
            name,
            f"x has {channels} channels, the weight {weight.shape[1]} in {groups} groups of "
            f"{filters} filters",
        )
    space: list[Length] = []
    for n in range(count):
        reach = gaps[n] * (weight.shape[2 + n] - 1) + 1
        room = x.shape[2 + n] + 2 * borders[n] - reach
        if room < 0:
            raise refuse(name, f"the window of {reach} is larger than the padded axis {n}")
        space.append(room // steps[n] + 1)
    shape = (x.shape[0], filters, *space)
    each_in, each_out = weight.shape[1], filters // groups

    def write(build: Build, names: tuple[str, ...]) -> None:
        indices = build.indices(shape)
        channel = build.reduced(each_in)
        window = [build.reduced(weight.shape[2 + n]) for n in range(count)]
        first: Expr = channel
        if groups > 1:
            group = Call("idiv", (indices[1], _length(each_out)))
            first = sum_of(product_of(group, _length(each_in)), channel)
        places = [
            _place(indices[2 + n], steps[n], window[n], gaps[n], borders[n]) for n in range(count)
        ]
        pad = 0.0 if x.dtype.is_float else 0
        outside = pad if any(borders) else None
        left = Access(build.array(x), (indices[0], first, *places), outside)
        right = build.at(weight, (indices[1], channel, *window))
        build.assign([(names[0], indices)], "+=", Call("mul", (left, right)))

    return stated([x, weight], [(shape, x.dtype)], write, whole=[x, *_solid(weight)])[0]


def _length(length: Length) -> Expr:
    from hal.dsl.dim import expr_of

    return expr_of(length)


def _place(index: Expr, stride: int, window: Expr, dilation: int, border: int) -> Expr:
    position = sum_of(product_of(index, Const(stride)), product_of(window, Const(dilation)))
    return position if border == 0 else Call("sub", (position, Const(border)))


@operator(domain="convolution")
def conv1d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    groups: int = 1,
) -> Tensor:
    """x (N, C, L) with weight (F, C / groups, K) and bias (F): (N, F, L')."""
    if x.ndim != 3:
        raise refuse("conv1d", f"x has {x.ndim} axes; (batch, channel, length) is needed")
    y = _convolution("conv1d", x, weight, stride, padding, dilation, groups)
    return y if bias is None else y + expand_dims(bias, 1)


@operator(domain="convolution")
def conv2d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor:
    """x (N, C, H, W) with weight (F, C / groups, R, S) and bias (F): (N, F, H', W')."""
    if x.ndim != 4:
        raise refuse("conv2d", f"x has {x.ndim} axes; (batch, channel, height, width) is needed")
    y = _convolution("conv2d", x, weight, stride, padding, dilation, groups)
    return y if bias is None else y + expand_dims(bias, (1, 2))
