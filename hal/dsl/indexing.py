"""Operators whose subscripts are themselves data, and random numbers."""

from __future__ import annotations

from typing import Any

from hal import dtypes
from hal.dsl.dim import Length, expr_of
from hal.dsl.function import operator
from hal.dsl.reductions import axis_of
from hal.dsl.shaping import product_of, sum_of
from hal.dsl.tensor import Tensor, Writer, apply, mapped, named_dtype, refuse, stated
from hal.ir.nodes import Access, Call, Cast, Const, Expr

__all__ = ["embedding", "one_hot", "random_uniform", "scatter_add", "take", "take_along_axis"]


def _positions(name: str, indices: Any) -> Tensor:
    if not isinstance(indices, Tensor) or indices.dtype not in (dtypes.i32, dtypes.i64):
        raise refuse(name, f"{indices!r} is no tensor of i32 or i64 positions")
    return indices


@operator(domain="indexing")
def take(x: Tensor, indices: Tensor, axis: int = 0) -> Tensor:
    """The parts of x at these positions along an axis; a position outside gives zeros."""
    spots = _positions("take", indices)
    place = axis_of("take", x, axis)
    shape = (*x.shape[:place], *spots.shape, *x.shape[place + 1 :])
    outside = {"float": 0.0, "int": 0, "bool": False}[x.dtype.kind]

    def element(build: Writer, at: tuple[Expr, ...]) -> Expr:
        middle = place + spots.ndim
        position = build.at(spots, at[place:middle])
        return Access(build.array(x), (*at[:place], position, *at[middle:]), outside)

    return mapped([x, spots], shape, x.dtype, element, whole=[x, spots])


@operator(domain="indexing")
def take_along_axis(x: Tensor, indices: Tensor, axis: int = -1) -> Tensor:
    """x at positions that differ for each element: out[i, j] = x[i, indices[i, j]]."""
    spots = _positions("take_along_axis", indices)
    place = axis_of("take_along_axis", x, axis)
    if spots.ndim != x.ndim:
        raise refuse("take_along_axis", f"the positions have {spots.ndim} axes, x has {x.ndim}")
    outside = {"float": 0.0, "int": 0, "bool": False}[x.dtype.kind]

    def element(build: Writer, at: tuple[Expr, ...]) -> Expr:
        position = build.at(spots, at)
        return Access(build.array(x), (*at[:place], position, *at[place + 1 :]), outside)

    return mapped([x, spots], spots.shape, x.dtype, element, whole=[x, spots])


@operator(domain="indexing")
def embedding(table: Tensor, indices: Tensor) -> Tensor:
    """The rows of a table (V, D) at these positions: (…, D)."""
    if table.ndim != 2:
        raise refuse("embedding", f"the table has {table.ndim} axes; (rows, width) is needed")
    result: Tensor = take(table, indices, axis=0)
    return result


@operator(domain="indexing")
def scatter_add(rows: Length, indices: Tensor, updates: Tensor) -> Tensor:
    """Sums of the rows of updates (n, …) that go to each of `rows` positions: (rows, …).

    out[r] = Σ updates[n] over all n with indices[n] = r; a position outside adds nothing.
    """
    spots = _positions("scatter_add", indices)
    if spots.ndim != 1 or updates.ndim < 1 or spots.shape[0] != updates.shape[0]:
        raise refuse(
            "scatter_add", f"{spots!r} does not give a position to each row of {updates!r}"
        )
    shape = (rows, *updates.shape[1:])

    def write(build: Writer, names: tuple[str, ...]) -> None:
        row = build.reduced(updates.shape[0])
        others = build.indices(shape)[1:]
        position = build.at(spots, (row,))
        build.assign([(names[0], (position, *others))], "+=", build.at(updates, (row, *others)))

    return stated([spots, updates], [(shape, updates.dtype)], write, whole=[spots])[0]


@operator(domain="indexing")
def one_hot(indices: Tensor, depth: Length, *, dtype: Any = "f32") -> Tensor:
    """1 at the position and 0 elsewhere along a new last axis."""
    spots = _positions("one_hot", indices)
    kind = named_dtype("one_hot", dtype)
    one, zero = (Const(1.0), Const(0.0)) if kind.is_float else (Const(1), Const(0))

    def element(build: Writer, at: tuple[Expr, ...]) -> Expr:
        hit = Call("eq", (Cast(dtypes.i64, build.at(spots, at[:-1])), at[-1]))
        return Cast(kind, Call("where", (hit, Cast(kind, one), zero)))

    return mapped([spots], (*spots.shape, depth), kind, element)


@operator(domain="random")
def random_uniform(like: Tensor, seed: Any, offset: Any = 0) -> Tensor:
    """f32 in [0, 1) of like's shape: Philox4x32-10 of the element's row-major position.

    Args:
        seed, offset: Integers, or integer scalar inputs (docs/vil.md, section 5.8).
    """

    def integer(build: Writer, item: Any) -> Expr:
        if isinstance(item, Tensor):
            return build.at(item, ())
        return Const(int(item))

    def element(build: Writer, at: tuple[Expr, ...]) -> Expr:
        position: Expr = Const(0)
        step: Length = 1
        for subscript, length in zip(reversed(at), reversed(like.shape), strict=True):
            position = sum_of(product_of(subscript, expr_of(step)), position)
            step = step * length
        return Call("philox", (integer(build, seed), integer(build, offset), position))

    reads = [item for item in (seed, offset) if isinstance(item, Tensor)]
    tensor = mapped([like], like.shape, dtypes.f32, element)
    tensor.reads = tuple(reads)
    return tensor


@operator(domain="random")
def dropout(x: Tensor, rate: float, seed: Any, offset: Any = 0) -> Tensor:
    """x with elements set to 0 with this probability, the others divided by 1 − rate."""
    kept: Tensor = random_uniform(x, seed, offset) >= rate
    scaled = x * (1.0 / (1.0 - rate)) if isinstance(rate, float) else x / (1.0 - rate)
    result: Tensor = apply("where", kept, scaled, 0.0)
    return result
