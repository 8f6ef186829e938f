"""Operators that see windows of their input: convolutions and pooling."""

from __future__ import annotations

from collections.abc import Sequence

from hal.dsl.dim import Length, expr_of, same
from hal.dsl.function import operator
from hal.dsl.products import checked_factors, solid
from hal.dsl.shaping import expand_dims, product_of, sum_of
from hal.dsl.tensor import Tensor, Writer, refuse, stated
from hal.ir.nodes import Access, Call, Const, Expr

__all__ = ["avg_pool2d", "conv1d", "conv2d", "max_pool2d"]


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
    checked_factors(name, x, weight)
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

    def write(build: Writer, names: tuple[str, ...]) -> None:
        indices = build.indices(shape)
        channel = build.reduced(each_in)
        window = [build.reduced(weight.shape[2 + n]) for n in range(count)]
        first: Expr = channel
        if groups > 1:
            group = Call("idiv", (indices[1], expr_of(each_out)))
            first = sum_of(product_of(group, expr_of(each_in)), channel)
        places = [
            _place(indices[2 + n], steps[n], window[n], gaps[n], borders[n]) for n in range(count)
        ]
        pad = 0.0 if x.dtype.is_float else 0
        outside = pad if any(borders) else None
        left = Access(build.array(x), (indices[0], first, *places), outside)
        right = build.at(weight, (indices[1], channel, *window))
        build.assign([(names[0], indices)], "+=", Call("mul", (left, right)))

    return stated([x, weight], [(shape, x.dtype)], write, whole=[x, *solid(weight)])[0]


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


@operator(domain="pooling")
def max_pool2d(x: Tensor, window: int, *, stride: int | None = None, padding: int = 0) -> Tensor:
    """The largest in each window of x (N, C, H, W)."""
    return _pooled("max_pool2d", x, window, stride, padding, "max=")


@operator(domain="pooling")
def avg_pool2d(x: Tensor, window: int, *, stride: int | None = None, padding: int = 0) -> Tensor:
    """The mean of each window of x (N, C, H, W); the border counts as zeros."""
    total = _pooled("avg_pool2d", x, window, stride, padding, "+=")
    return total / float(window * window)


def _pooled(
    name: str, x: Tensor, window: int, stride: int | None, padding: int, assignment: str
) -> Tensor:
    if x.ndim != 4 or window < 1 or not 0 <= padding < window:
        raise refuse(name, f"{x!r} with a window of {window} and a border of {padding}")
    step = window if stride is None else stride
    space: list[Length] = [(x.shape[n] + 2 * padding - window) // step + 1 for n in (2, 3)]
    shape = (*x.shape[:2], *space)
    lowest = -float("inf") if x.dtype.is_float else int(x.dtype.minimum)
    outside = (lowest if assignment == "max=" else 0) if padding else None

    def write(build: Writer, names: tuple[str, ...]) -> None:
        indices = build.indices(shape)
        inside = [build.reduced(window), build.reduced(window)]
        places = [_place(indices[2 + n], step, inside[n], 1, padding) for n in (0, 1)]
        value = Access(build.array(x), (indices[0], indices[1], *places), outside)
        build.assign([(names[0], indices)], assignment, value)

    return stated([x], [(shape, x.dtype)], write, whole=[x])[0]
