"""Operators that move elements without changing them. All but `concat` and `pad` cost nothing."""

from __future__ import annotations

from collections.abc import Sequence
from types import EllipsisType
from typing import Any

from hal import dtypes
from hal.dsl.dim import Dim, Length, expr_of, same, value
from hal.dsl.function import operator
from hal.dsl.tensor import Tensor, Writer, apply, mapped, refuse, stated
from hal.ir.nodes import Access, Call, Const, Expr, NamedCall

__all__ = ["expand_dims", "getitem", "permute_dims", "reshape"]


def sum_of(left: Expr, right: Expr) -> Expr:
    """left + right, without what adds nothing."""
    if right == Const(0):
        return left
    return right if left == Const(0) else Call("add", (left, right))


def product_of(left: Expr, right: Expr) -> Expr:
    """left · right, without what changes nothing."""
    if right == Const(1):
        return left
    if Const(0) in (left, right):
        return Const(0)
    return right if left == Const(1) else Call("mul", (left, right))


@operator(domain="shape")
def permute_dims(x: Tensor, axes: Sequence[int]) -> Tensor:
    """The axes in another order: axis n of the result is axis `axes[n]` of x."""
    order = [axis % x.ndim if -x.ndim <= axis < x.ndim else -1 for axis in axes]
    if sorted(order) != list(range(x.ndim)):
        raise refuse("permute_dims", f"{tuple(axes)} is no order of {x.ndim} axes")
    if order == list(range(x.ndim)):
        return x
    shape = [x.shape[axis] for axis in order]
    return mapped(
        [x],
        shape,
        x.dtype,
        lambda b, at: b.at(x, [at[order.index(n)] for n in range(x.ndim)]),
        is_view=True,
    )


@operator(domain="shape")
def matrix_transpose(x: Tensor) -> Tensor:
    """The last two axes exchanged."""
    if x.ndim < 2:
        raise refuse("matrix_transpose", f"two axes are needed; the tensor has {x.ndim}")
    result: Tensor = permute_dims(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))
    return result


@operator(domain="shape")
def expand_dims(x: Tensor, axis: int | Sequence[int]) -> Tensor:
    """New axes of length 1 at these places of the result."""
    wanted = (axis,) if isinstance(axis, int) else tuple(axis)
    rank = x.ndim + len(wanted)
    places = {item % rank for item in wanted if -rank <= item < rank}
    if len(places) != len(wanted):
        raise refuse("expand_dims", f"{wanted} does not name {len(wanted)} places of {rank}")
    lengths = iter(x.shape)
    shape: list[Length] = [1 if n in places else next(lengths) for n in range(rank)]
    kept = [n for n in range(rank) if n not in places]
    return mapped([x], shape, x.dtype, lambda b, at: b.at(x, [at[n] for n in kept]), is_view=True)


@operator(domain="shape")
def squeeze(x: Tensor, axis: int | Sequence[int] | None = None) -> Tensor:
    """x without axes of length 1: all of them, or the named ones."""
    if axis is None:
        gone = {n for n in range(x.ndim) if same(x.shape[n], 1)}
    else:
        wanted = (axis,) if isinstance(axis, int) else tuple(axis)
        gone = {item % x.ndim for item in wanted}
    for n in gone:
        if not same(x.shape[n], 1):
            raise refuse("squeeze", f"axis {n} has length {x.shape[n]}, not 1")
    kept = [n for n in range(x.ndim) if n not in gone]

    def element(build: Writer, at: tuple[Expr, ...]) -> Expr:
        subscripts: list[Expr] = [Const(0)] * x.ndim
        for position, n in enumerate(kept):
            subscripts[n] = at[position]
        return build.at(x, subscripts)

    return mapped([x], [x.shape[n] for n in kept], x.dtype, element, is_view=True)


@operator(domain="shape")
def flip(x: Tensor, axis: int | Sequence[int] | None = None) -> Tensor:
    """x read backwards along axes; along all by default."""
    wanted = range(x.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    turned = {item % x.ndim for item in wanted}

    def element(build: Writer, at: tuple[Expr, ...]) -> Expr:
        ends = [expr_of(length - 1) for length in x.shape]
        return build.at(
            x, [Call("sub", (ends[n], at[n])) if n in turned else at[n] for n in range(x.ndim)]
        )

    return mapped([x], x.shape, x.dtype, element, is_view=True)


@operator(domain="shape")
def reshape(x: Tensor, *shape: Any) -> Tensor:
    """The same elements in row-major order in another shape; one length may be −1."""
    wish = list(shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape)
    target = _solved(x, wish)
    groups = _matched(x.shape, target)
    if any(len(old) > 1 and len(new) > 1 for old, new in groups):
        total: Tensor = reshape(x, (x.size,))
        flat = mapped([total], total.shape, x.dtype, lambda b, at: b.at(total, at))
        return _of_flat(flat, target)

    def element(build: Writer, at: tuple[Expr, ...]) -> Expr:
        subscripts: list[Expr] = [Const(0)] * x.ndim
        for old, new in groups:
            if len(new) == 1:
                _split(subscripts, old, x.shape, at[new[0]])
            elif len(old) == 1:
                subscripts[old[0]] = _merged([at[n] for n in new], [target[n] for n in new])
        return build.at(x, subscripts)

    return mapped([x], target, x.dtype, element, is_view=True)


def _of_flat(flat: Tensor, target: Sequence[Length]) -> Tensor:
    return mapped(
        [flat],
        target,
        flat.dtype,
        lambda b, at: b.at(flat, [_merged(at, target)]),
        whole=[flat],
        is_view=True,
    )


def _merged(at: Sequence[Expr], lengths: Sequence[Length]) -> Expr:
    """The row-major position of subscripts."""
    result: Expr = Const(0)
    for n, subscript in enumerate(at):
        step: Length = 1
        for length in lengths[n + 1 :]:
            step = step * length
        result = sum_of(result, product_of(subscript, expr_of(step)))
    return result


def _split(subscripts: list[Expr], axes: Sequence[int], shape: Sequence[Length], at: Expr) -> None:
    """Sets the subscripts of axes from their row-major position."""
    step: Length = 1
    for position, axis in reversed(list(enumerate(axes))):
        part = at if isinstance(step, int) and step == 1 else Call("idiv", (at, expr_of(step)))
        whole = position == 0
        subscripts[axis] = part if whole else Call("imod", (part, expr_of(shape[axis])))
        step = step * shape[axis]


def _solved(x: Tensor, wish: list[Any]) -> tuple[Length, ...]:
    """The shape with −1 solved."""
    for length in wish:
        if not isinstance(length, int | Dim) or isinstance(length, bool):
            raise refuse("reshape", f"{length!r} is no length")
    free = [n for n, length in enumerate(wish) if isinstance(length, int) and length == -1]
    if len(free) > 1:
        raise refuse("reshape", f"{wish} leaves more than one length open")
    if free:
        wish[free[0]] = _quotient(x.shape, [n for k, n in enumerate(wish) if k != free[0]])
    total: Length = 1
    for length in wish:
        total = total * length
    if value(total) != value(x.size):
        raise refuse(
            "reshape",
            f"{list(x.shape)} has {value(x.size)} elements, {wish} has {value(total)}",
            "Keep the count of elements.",
        )
    return tuple(wish)


def _quotient(shape: Sequence[Length], known: Sequence[Length]) -> Length:
    """Π shape / Π known, in lengths that cancel where they can."""
    rest = list(shape)
    divisor: Length = 1
    for length in known:
        match = [k for k, other in enumerate(rest) if expr_of(other) == expr_of(length)]
        if match:
            rest.pop(match[0])
        else:
            divisor = divisor * length
    total: Length = 1
    for length in rest:
        total = total * length
    return total if isinstance(divisor, int) and divisor == 1 else total // divisor


def _matched(old: Sequence[Length], new: Sequence[Length]) -> list[tuple[list[int], list[int]]]:
    """The smallest runs of axes with equal products; equality is noted where it is not obvious."""
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(old) or j < len(new):
        left, right = ([i] if i < len(old) else []), ([j] if j < len(new) else [])
        i, j = i + len(left), j + len(right)
        a: Length = old[left[0]] if left else 1
        b: Length = new[right[0]] if right else 1
        while not same(a, b):
            if value(a) < value(b) and i < len(old):
                left.append(i)
                a, i = a * old[i], i + 1
            elif j < len(new):
                right.append(j)
                b, j = b * new[j], j + 1
            else:
                left.append(i)
                a, i = a * old[i], i + 1
        groups.append((left, right))
    return groups


@operator(domain="shape")
def getitem(x: Tensor, key: Any) -> Tensor:
    """x[key]: integers, slices with any step, None, Ellipsis, and one tensor of positions."""
    keys = list(key) if isinstance(key, tuple) else [key]
    taken = sum(item is not None and not isinstance(item, EllipsisType) for item in keys)
    if taken > x.ndim:
        raise refuse("getitem", f"{taken} subscripts for {x.ndim} axes")
    if Ellipsis not in [item for item in keys if isinstance(item, EllipsisType)]:
        keys.append(Ellipsis)
    place = next(n for n, item in enumerate(keys) if isinstance(item, EllipsisType))
    keys[place : place + 1] = [slice(None)] * (x.ndim - taken)
    tensors = [item for item in keys if isinstance(item, Tensor)]
    if tensors:
        return _picked(x, keys)
    return _sliced(x, keys)


def _sliced(x: Tensor, keys: Sequence[Any]) -> Tensor:
    shape: list[Length] = []
    parts: list[tuple[int | None, Expr, int]] = []  # axis of the result, start, step
    axis = 0
    for item in keys:
        if item is None:
            shape.append(1)
            continue
        if isinstance(item, slice):
            start, length, step = _range(x.shape[axis], item)
            parts.append((len(shape), expr_of(start), step))
            shape.append(length)
        else:
            parts.append((None, expr_of(_position(x, axis, item)), 0))
        axis += 1

    def element(build: Writer, at: tuple[Expr, ...]) -> Expr:
        return build.at(
            x,
            [
                start if target is None else sum_of(product_of(at[target], Const(step)), start)
                for target, start, step in parts
            ],
        )

    return mapped([x], shape, x.dtype, element, is_view=True)


def _position(x: Tensor, axis: int, item: Any) -> Length:
    if not isinstance(item, int | Dim) or isinstance(item, bool):
        raise refuse("getitem", f"{item!r} is no subscript", "Use integers, slices and tensors.")
    length = x.shape[axis]
    position = item + length if item < 0 else item
    if position < 0 or position >= length:
        raise refuse("getitem", f"{item} does not lie in an axis of {length}")
    return position


def _range(length: Length, key: slice) -> tuple[Length, Length, int]:
    """Start, length and step of a slice along an axis, as Python has it."""
    step = 1 if key.step is None else int(key.step)
    if step == 0:
        raise refuse("getitem", "a slice has a step of 0")
    if key == slice(None):
        return 0, length, 1
    low, high = (0, length) if step > 0 else (-1, length - 1)

    def bounded(item: Any, default: Length) -> Length:
        if item is None:
            return default
        position = item + length if item < 0 else item
        if position < low:
            return low
        return high if position > high else position

    first = bounded(key.start, 0 if step > 0 else length - 1)
    last = bounded(key.stop, length if step > 0 else -1)
    if step > 0:
        count = 0 if last <= first else (last - first + (step - 1)) // step
    else:
        count = 0 if first <= last else (first - last + (-step - 1)) // -step
    return first, count, step


def _picked(x: Tensor, keys: Sequence[Any]) -> Tensor:
    places = [n for n, item in enumerate(keys) if isinstance(item, Tensor)]
    plain = all(isinstance(k, Tensor) or k == slice(None) for k in keys)
    if len(places) != 1 or not plain:
        raise refuse(
            "getitem",
            "a tensor of positions stands alone among full slices",
            "Slice first, then pick; or use take() twice.",
        )
    result: Tensor = apply("take", x, keys[places[0]], axis=places[0])
    return result


@operator(domain="shape")
def concat(tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Tensors one behind another along an axis."""
    items = tuple(tensors)
    if not items:
        raise refuse("concat", "there is nothing to join")
    first = items[0]
    if not -first.ndim <= axis < first.ndim:
        raise refuse("concat", f"there is no axis {axis}; the tensors have {first.ndim}")
    place = axis % first.ndim
    total: Length = 0
    for item in items:
        fits = item.ndim == first.ndim and all(
            n == place or same(a, b)
            for n, (a, b) in enumerate(zip(item.shape, first.shape, strict=True))
        )
        if not fits or item.dtype != first.dtype:
            raise refuse("concat", f"{item!r} does not continue {first!r}")
        total = total + item.shape[place]
    shape = [total if n == place else length for n, length in enumerate(first.shape)]

    def write(build: Writer, names: tuple[str, ...]) -> None:
        indices = build.indices(shape)
        parts = tuple(build.at(item, indices) for item in items)
        call = NamedCall("concat", parts, indices[place].name)
        build.assign([(names[0], indices)], "=", call)

    return stated(items, [(shape, first.dtype)], write, whole=items)[0]


@operator(domain="shape")
def stack(tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Tensors of one shape along a new axis."""
    result: Tensor = concat([expand_dims(item, axis) for item in tensors], axis)
    return result


@operator(domain="shape")
def pad(x: Tensor, widths: Sequence[tuple[int, int]], value: Any = 0) -> Tensor:
    """x with a border of one value; `widths` has (before, after) for each axis."""
    pairs = [tuple(pair) for pair in widths]
    if len(pairs) != x.ndim or any(len(p) != 2 or min(p) < 0 for p in pairs):
        raise refuse("pad", f"{pairs} is no (before, after) ≥ 0 for each of {x.ndim} axes")
    shape = [n + before + after for n, (before, after) in zip(x.shape, pairs, strict=True)]

    def element(build: Writer, at: tuple[Expr, ...]) -> Expr:
        shifted = [
            s if before == 0 else Call("sub", (s, Const(before)))
            for s, (before, _) in zip(at, pairs, strict=True)
        ]
        if not isinstance(value, Tensor):
            return Access(build.array(x), tuple(shifted), value)
        inside: Expr = Const(True)
        for position, length in zip(shifted, x.shape, strict=True):
            low = Call("le", (Const(0), position))
            high = Call("lt", (position, expr_of(length)))
            both = Call("and", (low, high))
            inside = both if isinstance(inside, Const) else Call("and", (inside, both))
        zero = {"float": 0.0, "int": 0, "bool": False}[x.dtype.kind]
        read = Access(build.array(x), tuple(shifted), zero)
        return Call("where", (inside, read, build.at(value, ())))

    reads = [x, value] if isinstance(value, Tensor) else [x]
    return mapped(reads, shape, x.dtype, element, whole=[x])


@operator(domain="shape")
def tril(x: Tensor, k: int = 0) -> Tensor:
    """The elements on and below diagonal k of the last two axes, zeros above."""
    return _triangle("tril", x, k, lower=True)


@operator(domain="shape")
def triu(x: Tensor, k: int = 0) -> Tensor:
    """The elements on and above diagonal k of the last two axes, zeros below."""
    return _triangle("triu", x, k, lower=False)


def _triangle(name: str, x: Tensor, k: int, *, lower: bool) -> Tensor:
    if x.ndim < 2:
        raise refuse(name, f"two axes are needed; the tensor has {x.ndim}")
    zero = {"float": 0.0, "int": 0, "bool": False}[x.dtype.kind]

    def element(build: Writer, at: tuple[Expr, ...]) -> Expr:
        diagonal = sum_of(at[-2], Const(k))
        order = (at[-1], diagonal) if lower else (diagonal, at[-1])
        return Call("where", (Call("le", order), build.at(x, at), Const(zero, x.dtype)))

    return mapped([x], x.shape, x.dtype, element)


@operator(domain="creation")
def causal_mask(like: Tensor, rows: Length, columns: Length) -> Tensor:
    """A bool matrix: true where the column is not past the row, aligned at the last column."""
    offset = columns - rows

    def element(build: Writer, at: tuple[Expr, ...]) -> Expr:
        return Call("le", (at[1], sum_of(at[0], expr_of(offset))))

    mask = mapped([like], (rows, columns), dtypes.bool_, element, is_view=True)
    mask.reads = ()
    return mask


@operator(domain="shape")
def split(x: Tensor, parts: int, axis: int = 0) -> tuple[Tensor, ...]:
    """Equal parts of x along an axis, whose length must divide."""
    if not -x.ndim <= axis < x.ndim or parts < 1:
        raise refuse("split", f"{parts} parts along axis {axis} of {x.ndim}")
    place = axis % x.ndim
    length = x.shape[place]
    if length % parts != 0:
        raise refuse("split", f"an axis of {length} does not divide into {parts} equal parts")
    each = length // parts
    before = (slice(None),) * place
    return tuple(getitem(x, (*before, slice(n * each, (n + 1) * each))) for n in range(parts))
