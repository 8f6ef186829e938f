"""Operators that combine the elements along axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hal import dtypes
from hal.dsl import elementwise as el
from hal.dsl.dim import Length
from hal.dsl.function import operator
from hal.dsl.shaping import permute_dims
from hal.dsl.tensor import Tensor, Writer, apply, named_dtype, refuse, stated
from hal.dtypes import DType
from hal.ir.nodes import Expr, NamedCall

__all__ = ["all", "any", "max", "mean", "min", "prod", "std", "sum", "var"]

Axes = int | Sequence[int] | None


def axes_of(call: str, x: Tensor, axis: Axes) -> tuple[int, ...]:
    """The axes that an argument `axis` names, in rising order."""
    wanted = range(x.ndim) if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
    for item in wanted:
        if not isinstance(item, int) or not -x.ndim <= item < x.ndim:
            raise refuse(call, f"there is no axis {item!r}; the tensor has {x.ndim}")
    found = sorted({item % x.ndim for item in wanted})
    if len(found) != len(tuple(wanted)):
        raise refuse(call, f"an axis stands twice in {axis!r}")
    return tuple(found)


def axis_of(call: str, x: Tensor, axis: int) -> int:
    """One axis, counted from the front."""
    return axes_of(call, x, axis)[0]


def reduce(name: str, assignment: str, x: Tensor, axis: Axes, keepdims: bool) -> Tensor:
    """The reduction of x along axes by a statement of the IR."""
    axes = axes_of(name, x, axis)
    if not axes:
        return x
    kept = [n for n in range(x.ndim) if n not in axes]
    shape: list[Length] = [x.shape[n] for n in kept]

    def write(build: Writer, names: tuple[str, ...]) -> None:
        indices = build.indices(shape)
        subscripts: list[Expr] = [build.reduced(x.shape[n]) for n in range(x.ndim) if n in axes]
        inner, outer = iter(subscripts), iter(indices)
        at = [next(inner) if n in axes else next(outer) for n in range(x.ndim)]
        build.assign([(names[0], indices)], assignment, build.at(x, at))

    (result,) = stated([x], [(shape, x.dtype)], write)
    return apply("expand_dims", result, axes) if keepdims else result


def _numeric(name: str, x: Tensor, kinds: Sequence[str] = el.NUMBER) -> None:
    if x.dtype.kind not in kinds:
        raise refuse(name, f"{x.dtype} is not among {', '.join(kinds)}", "Use astype().")


@operator(domain="reduction")
def sum(x: Tensor, axis: Axes = None, *, keepdims: bool = False, dtype: Any = None) -> Tensor:  # noqa: A001
    """The sum along axes; the dtype stays (16-bit floats are summed in f32, i8 in i32)."""
    y = x if dtype is None else apply("astype", x, dtype)
    if y.dtype == dtypes.bool_:
        y = apply("astype", y, dtypes.i32)
    _numeric("sum", y)
    return reduce("sum", "+=", y, axis, keepdims)


@operator(domain="reduction")
def prod(x: Tensor, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """The product along axes."""
    _numeric("prod", x)
    return reduce("prod", "*=", x, axis, keepdims)


@operator(domain="reduction")
def max(x: Tensor, axis: Axes = None, *, keepdims: bool = False) -> Tensor:  # noqa: A001
    """The largest along axes; NaN where one is NaN."""
    _numeric("max", x)
    return reduce("max", "max=", x, axis, keepdims)


@operator(domain="reduction")
def min(x: Tensor, axis: Axes = None, *, keepdims: bool = False) -> Tensor:  # noqa: A001
    """The smallest along axes; NaN where one is NaN."""
    _numeric("min", x)
    return reduce("min", "min=", x, axis, keepdims)


@operator(domain="reduction")
def any(x: Tensor, axis: Axes = None, *, keepdims: bool = False) -> Tensor:  # noqa: A001
    """Whether one is true along axes."""
    _numeric("any", x, ("bool",))
    found = reduce("any", "max=", apply("astype", x, dtypes.i32), axis, keepdims)
    return found != 0


@operator(domain="reduction")
def all(x: Tensor, axis: Axes = None, *, keepdims: bool = False) -> Tensor:  # noqa: A001
    """Whether all are true along axes."""
    _numeric("all", x, ("bool",))
    found = reduce("all", "min=", apply("astype", x, dtypes.i32), axis, keepdims)
    return found != 0


def count_along(x: Tensor, axes: Sequence[int]) -> Length:
    """Elements that a reduction along axes combines."""
    total: Length = 1
    for axis in axes:
        total = total * x.shape[axis]
    return total


@operator(domain="reduction")
def mean(x: Tensor, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """The mean along axes."""
    _numeric("mean", x, el.FLOAT)
    count = count_along(x, axes_of("mean", x, axis))
    total: Tensor = apply("sum", x, axis, keepdims=keepdims)
    return total / (float(count) if isinstance(count, int) else count)


@operator(domain="reduction")
def var(x: Tensor, axis: Axes = None, *, correction: int = 0, keepdims: bool = False) -> Tensor:
    """The variance along axes; divided by count − correction."""
    _numeric("var", x, el.FLOAT)
    centred = x - apply("mean", x, axis, keepdims=True)
    count = count_along(x, axes_of("var", x, axis)) - correction
    total: Tensor = apply("sum", centred * centred, axis, keepdims=keepdims)
    return total / (float(count) if isinstance(count, int) else count)


@operator(domain="reduction")
def std(x: Tensor, axis: Axes = None, *, correction: int = 0, keepdims: bool = False) -> Tensor:
    """The standard deviation along axes."""
    spread: Tensor = apply("var", x, axis, correction=correction, keepdims=keepdims)
    result: Tensor = apply("sqrt", spread)
    return result


def along(
    name: str,
    function: str,
    x: Tensor,
    axis: int,
    outputs: Sequence[tuple[Length | None, DType]],
    flags: Sequence[str] = (),
) -> tuple[Tensor, ...]:
    """A named call of the IR along an axis.

    Args:
        outputs: Per result the length of the axis (None: it is gone) and the dtype.
    """
    last = axis_of(name, x, axis)
    order = [n for n in range(x.ndim) if n != last]
    moved = permute_dims(x, (*order, last))
    outer = moved.shape[:-1]
    shapes = [(outer if n is None else (*outer, n), dtype) for n, dtype in outputs]

    def write(build: Writer, names: tuple[str, ...]) -> None:
        indices = build.indices(moved.shape)
        same_axis = function.startswith("scan") or function == "sort"
        axis_index = indices[-1] if same_axis else build.reduced(moved.shape[-1])
        value = build.at(moved, (*indices[:-1], axis_index))
        targets = [
            (target, indices if n is not None else indices[:-1])
            for target, (n, _) in zip(names, outputs, strict=True)
        ]
        call = NamedCall(function, (value,), axis_index.name, frozenset(flags))
        build.assign(targets, "=", call)

    found = stated([moved], shapes, write)
    if outputs[0][0] is None or last == x.ndim - 1:
        return found
    inverse = [0] * x.ndim
    for position, source in enumerate((*order, last)):
        inverse[source] = position
    return tuple(permute_dims(item, inverse) for item in found)


def _index_dtype(name: str, dtype: Any) -> DType:
    kind = named_dtype(name, dtype)
    if kind not in (dtypes.i32, dtypes.i64):
        raise refuse(name, f"positions are i32 or i64, not {kind}")
    return kind


def _arg(name: str, x: Tensor, axis: int | None, keepdims: bool, dtype: Any) -> Tensor:
    _numeric(name, x)
    flat = apply("reshape", x, -1) if axis is None else x
    position = 0 if axis is None else axis_of(name, x, axis)
    (found,) = along(name, name, flat, position, [(None, _index_dtype(name, dtype))])
    if not keepdims:
        return found
    return apply("expand_dims", found, tuple(range(x.ndim)) if axis is None else (position,))


@operator(domain="reduction")
def argmax(
    x: Tensor, axis: int | None = None, *, keepdims: bool = False, dtype: Any = "i32"
) -> Tensor:
    """The position of the largest along an axis; the lowest of equal ones, the first NaN wins."""
    return _arg("argmax", x, axis, keepdims, dtype)


@operator(domain="reduction")
def argmin(
    x: Tensor, axis: int | None = None, *, keepdims: bool = False, dtype: Any = "i32"
) -> Tensor:
    """The position of the smallest along an axis; the lowest of equal ones, the first NaN wins."""
    return _arg("argmin", x, axis, keepdims, dtype)


@operator(domain="scan")
def cumulative_sum(
    x: Tensor, axis: int = -1, *, exclusive: bool = False, reverse: bool = False
) -> Tensor:
    """The running sum along an axis."""
    _numeric("cumulative_sum", x)
    flags = [name for name, on in (("exclusive", exclusive), ("reverse", reverse)) if on]
    length = x.shape[axis_of("cumulative_sum", x, axis)]
    return along("cumulative_sum", "scan_add", x, axis, [(length, x.dtype)], flags)[0]


@operator(domain="scan")
def cumulative_prod(x: Tensor, axis: int = -1) -> Tensor:
    """The running product along an axis."""
    _numeric("cumulative_prod", x)
    length = x.shape[axis_of("cumulative_prod", x, axis)]
    return along("cumulative_prod", "scan_mul", x, axis, [(length, x.dtype)])[0]


@operator(domain="sorting")
def topk(
    x: Tensor, k: Length, axis: int = -1, *, largest: bool = True, dtype: Any = "i32"
) -> tuple[Tensor, Tensor]:
    """The k largest along an axis, largest first, and their positions. NaN counts as largest."""
    _numeric("topk", x)
    length = x.shape[axis_of("topk", x, axis)]
    if k < 0 or k > length:
        raise refuse("topk", f"k is {k}; the axis has {length} elements")
    outputs = [(k, x.dtype), (k, _index_dtype("topk", dtype))]
    values, positions = along("topk", "topk", x, axis, outputs, () if largest else ("smallest",))
    return values, positions


@operator(domain="sorting")
def sort(x: Tensor, axis: int = -1, *, descending: bool = False) -> Tensor:
    """x sorted along an axis; NaN last, equal elements keep their order."""
    return _sorted("sort", x, axis, descending)[0]


@operator(domain="sorting")
def argsort(x: Tensor, axis: int = -1, *, descending: bool = False) -> Tensor:
    """The positions that sort x along an axis; equal elements keep their order."""
    return _sorted("argsort", x, axis, descending)[1]


def _sorted(name: str, x: Tensor, axis: int, descending: bool) -> tuple[Tensor, ...]:
    _numeric(name, x)
    length = x.shape[axis_of(name, x, axis)]
    outputs = [(length, x.dtype), (length, dtypes.i32)]
    return along(name, "sort", x, axis, outputs, ("descending",) if descending else ())
