"""The evaluator: what a kernel means, by NumPy over the whole range of its indices.

It is the reference of every test, so it is written for its plainness and shares no code with what
it judges: only the objects of the IR and the index ranges that follow from them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hal import dtypes
from hal.dtypes import DType
from hal.ir.analysis import (
    compute_dtype,
    concat_extents,
    index_extents,
    indices_of,
    inline_lets,
    promote,
    reduced_indices,
    value_of,
)
from hal.ir.arithmetic import (
    REDUCTIONS,
    Values,
    binary,
    cast,
    identity,
    philox,
    round_to,
    unary,
)
from hal.ir.binding import bind, full_params, shapes_of
from hal.ir.errors import IrValueError
from hal.ir.named import NAMED
from hal.ir.nodes import (
    ASSIGNMENTS,
    Access,
    Assign,
    Call,
    Cast,
    Const,
    Expr,
    Index,
    Kernel,
    NamedCall,
    ParamRef,
    Scalar,
    ScalarRef,
    walk,
)
from hal.ir.show import show_expression
from hal.ir.verify import LENGTHS, check

__all__ = ["evaluate"]

_BLOCK = 2**21  # elements of one NumPy operation


def evaluate(
    kernel: Kernel,
    arrays: Mapping[str, NDArray[Any]],
    params: Mapping[str, int] | None = None,
    scalars: Mapping[str, float | int] | None = None,
    *,
    rounded: bool = True,
) -> dict[str, NDArray[Any]]:
    """Run a kernel; the definition of its meaning.

    Floats are computed in float64 from the stored inputs; integers wrap as in docs/vil.md.

    Args:
        arrays: The inputs and inouts; none of them is changed.
        params: Those that do not follow from the shapes.
        scalars: All scalars.
        rounded: True: each statement rounds once to the dtype of its array. False: floats stay
            float64 from the first statement to the last, which the tolerance law wants.

    Returns:
        Outputs and inouts in their dtypes (floats: float64 when not `rounded`). Elements that
        nothing wrote are 0.

    Raises:
        IrError: the kernel breaks a rule.
        IrValueError: an array is missing or has another shape or type, or an access without `pad`
            leaves its array.
    """
    check(kernel, without=LENGTHS)
    values = bind(kernel, shapes_of(kernel, arrays), params)
    run = _Run(inline_lets(kernel), full_params(kernel, values), dict(scalars or {}), rounded)
    run.start(arrays)
    for statement in run.kernel.assigns:
        run.statement(statement)
    return run.results()


@dataclass(frozen=True, slots=True)
class _Value:
    """Values over the index axes, and their type; None for what only literals make."""

    values: Values
    dtype: DType | None


Grid = dict[str, Values]
"""Index -> its values, each along an axis of its own."""


@dataclass
class _Run:
    """One evaluation. `stored` holds each array as float64, int64 or bool."""

    kernel: Kernel
    params: dict[str, int]
    scalars: dict[str, float | int]
    rounded: bool

    def start(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Fill `stored`, and `inputs`, the scalars."""
        self.inputs = {item.name: self.scalar(item) for item in self.kernel.scalars}
        self.stored: dict[str, Values] = {}
        self.written: set[str] = set()
        for item in self.kernel.arrays:
            kind = _KINDS[item.dtype.kind]
            if item.role in ("input", "inout"):
                self.stored[item.name] = np.array(arrays[item.name]).astype(kind)
            else:
                shape = tuple(max(value_of(part, self.params), 0) for part in item.shape)
                self.stored[item.name] = np.zeros(shape, kind)

    def scalar(self, item: Scalar) -> _Value:
        """A scalar in its type."""
        if item.name not in self.scalars:
            raise IrValueError(f"the scalar {item.name} is missing", call=self.kernel.name)
        given = self.scalars[item.name]
        try:
            typed = np.asarray(given, item.dtype.numpy)
        except (OverflowError, ValueError, TypeError):
            problem = f"the scalar {item.name} = {given!r} is no {item.dtype}"
            raise IrValueError(problem, call=self.kernel.name) from None
        return _Value(typed.astype(_KINDS[item.dtype.kind]), item.dtype)

    def results(self) -> dict[str, NDArray[Any]]:
        """Outputs and inouts in their types."""
        found = {}
        for item in self.kernel.arrays_of("output", "inout"):
            exact = item.dtype.kind.startswith("float") and not self.rounded
            with np.errstate(over="ignore"):
                found[item.name] = self.stored[item.name].astype(
                    np.float64 if exact else item.dtype.numpy
                )
        return found

    # --- statements --------------------------------------------------------------------------

    def statement(self, statement: Assign) -> None:
        """Run one statement."""
        sizes = self.sizes(statement)
        if isinstance(statement.value, NamedCall):
            self.named(statement, statement.value, sizes)
            return
        function = ASSIGNMENTS[statement.assignment]
        target = statement.target
        dtype = self.kernel.array(target.array).dtype
        if function:
            self.begin(target.array, function, dtype)
        reduced = [name for name in reduced_indices(statement) if name in sizes]
        kept = [name for name in sizes if name not in reduced]
        order = [*kept, *reduced]
        for grid in _blocks({name: sizes[name] for name in order}):
            shape = tuple(grid[name].size for name in order)
            value = self.value(statement.value, grid)
            full = np.broadcast_to(self.converted(value, dtype, function), shape)
            if function:
                axes = tuple(range(len(kept), len(order)))
                start = identity(function, compute_dtype(dtype))
                full = REDUCTIONS[function].reduce(full, axis=axes, initial=start)
            axes_of_kept = {
                name: grid[name].reshape(grid[name].shape[: len(kept)]) for name in kept
            }
            self.store(target, full, axes_of_kept, function)
        self.finish(target.array, dtype)

    def sizes(self, statement: Assign) -> dict[str, int]:
        """Length of each index of a statement."""
        extents = index_extents(self.kernel, statement)
        used = list(indices_of(statement.value))
        for target in statement.targets:
            used += indices_of(target)
        for name in used:
            if name not in extents:
                raise IrValueError(
                    f"nothing bounds the index {name}",
                    call=self.kernel.name,
                    next_step=f"Declare it: index {name} : EXTENT.",
                )
        return {name: max(value_of(e, self.params), 0) for name, e in extents.items()}

    def begin(self, name: str, function: str, dtype: DType) -> None:
        """The first statement of an output or temp, a reduction, starts at the identity."""
        if name not in self.written and self.kernel.array(name).role in ("output", "temp"):
            self.stored[name][...] = identity(function, dtype)

    def finish(self, name: str, dtype: DType) -> None:
        """One rounding to the array's type."""
        self.written.add(name)
        if dtype.is_int:
            self.stored[name] = cast(self.stored[name], dtype)
        elif dtype.kind != "bool" and self.rounded:
            self.stored[name] = round_to(self.stored[name], dtype)

    def converted(self, value: _Value, dtype: DType, function: str = "") -> Values:
        """A value in the kind that its target stores; integers in the type that sums have."""
        if dtype.is_int:
            return cast(value.values, compute_dtype(dtype) if function else dtype)
        return value.values.astype(_KINDS[dtype.kind])

    def store(self, target: Access, values: Values, grid: Grid, function: str) -> None:
        """Put or combine values; a loaded subscript outside of the array drops its element."""
        array = self.stored[target.array]
        places, inside = self.places(target, grid, array.shape)
        if not array.shape:
            array[...] = REDUCTIONS[function](array, values) if function else values
            return
        shape = np.broadcast_shapes(values.shape, *(place.shape for place in places))
        values = np.broadcast_to(values, shape)
        spots = tuple(np.broadcast_to(place, shape) for place in places)
        if inside is not None:
            chosen = np.broadcast_to(inside, shape)
            values, spots = values[chosen], tuple(spot[chosen] for spot in spots)
        with np.errstate(all="ignore"):
            if function:
                REDUCTIONS[function].at(array, spots, values)
            else:
                array[spots] = values

    def named(self, statement: Assign, call: NamedCall, sizes: dict[str, int]) -> None:
        """A call that sees a whole axis."""
        if call.function == "concat":
            self.concat(statement, call, sizes)
            return
        inner = [name for name in indices_of(call.operands[0]) if name != call.axis]
        order = [*inner, call.axis]
        shape = tuple(sizes[name] for name in order)
        grid = _grid({name: range(sizes[name]) for name in order})
        value = self.value(call.operands[0], grid)
        if call.function in ("argmax", "argmin") and shape[-1] == 0 and 0 not in shape[:-1]:
            raise IrValueError(
                f"{call.function} along {call.axis} over nothing", call=self.kernel.name
            )
        source = self.kernel.array(statement.target.array).dtype
        kind = value.values
        if call.function.startswith("scan"):
            kind = self.converted(value, source, call.function)
        results = NAMED[call.function](np.broadcast_to(kind, shape), call, compute_dtype(source))
        rank = [name for name in indices_of(statement.target) if name not in order]
        axes = (
            inner if call.function.startswith("arg") else [*inner, rank[0] if rank else call.axis]
        )
        for target, result in zip(statement.targets, results, strict=True):
            dtype = self.kernel.array(target.array).dtype
            count = min(result.shape[-1], sizes[axes[-1]]) if len(axes) == len(order) else 0
            kept = result[..., :count] if len(axes) == len(order) else result
            ranges = {name: range(length) for name, length in zip(axes, kept.shape, strict=True)}
            self.store(target, self.converted(_Value(kept, None), dtype), _grid(ranges), "")
            self.finish(target.array, dtype)

    def concat(self, statement: Assign, call: NamedCall, sizes: dict[str, int]) -> None:
        """One operand after another along the axis."""
        dtype = self.kernel.array(statement.target.array).dtype
        lengths = [
            value_of(extent, self.params) for extent in concat_extents(self.kernel, call, statement)
        ]
        if sum(lengths) != sizes[call.axis]:
            raise IrValueError(
                f"concat: the parts {lengths} along {call.axis} do not fill {sizes[call.axis]}",
                call=self.kernel.name,
            )
        at = 0
        for operand, length in zip(call.operands, lengths, strict=True):
            ranges = {name: range(size) for name, size in sizes.items()}
            grid = _grid(ranges | {call.axis: range(length)})
            value = self.value(operand, grid)
            self.store(
                statement.target,
                np.broadcast_to(self.converted(value, dtype), tuple(g.size for g in grid.values())),
                grid | {call.axis: grid[call.axis] + at},
                "",
            )
            at += length
        self.finish(statement.target.array, dtype)

    # --- expressions -------------------------------------------------------------------------

    def value(self, expr: Expr, grid: Grid) -> _Value:
        """An expression over the index axes."""
        match expr:
            case Const(value=value, dtype=None):
                return _literal(value)
            case Const(value=value, dtype=dtype):
                assert dtype is not None
                return _Value(cast(_literal(value).values, dtype), dtype)
            case Index(name=name):
                return _Value(grid[name], dtypes.i64)
            case ParamRef(name=name):
                return _Value(np.asarray(self.params[name], np.int64), dtypes.i64)
            case ScalarRef(name=name):
                return self.inputs[name]
            case Access():
                return self.load(expr, grid)
            case Cast(dtype=dtype, operand=operand, saturate=saturate):
                return _Value(cast(self.value(operand, grid).values, dtype, saturate), dtype)
            case Call():
                return self.call(expr, grid)
        raise TypeError(f"not an expression: {expr!r}")

    def call(self, expr: Call, grid: Grid) -> _Value:
        """A function of its operands, all brought to the type in which it is computed."""
        parts = [self.value(operand, grid) for operand in expr.operands]
        if expr.function == "philox":
            return _Value(philox(*(part.values for part in parts)), dtypes.f32)
        if expr.function == "where":
            (chosen, *parts) = parts
            left, right, dtype = _meet(*parts)
            return _Value(np.where(chosen.values, left, right), dtype)
        if len(parts) == 1:
            dtype = parts[0].dtype
            values = parts[0].values
            if dtype is None and values.dtype == np.int64 and expr.function not in _OF_INTEGERS:
                values = values.astype(np.float64)
            result = unary(expr.function, values, compute_dtype(dtype) if dtype else None)
        else:
            left, right, dtype = _meet(*parts)
            if expr.function == "div" and left.dtype == np.int64:  # two literals
                left, right = left.astype(np.float64), right.astype(np.float64)
            result = binary(expr.function, left, right, compute_dtype(dtype) if dtype else None)
        return _Value(result, dtypes.bool_ if result.dtype == np.bool_ else dtype)

    def load(self, access: Access, grid: Grid) -> _Value:
        """Elements of an array, the pad outside."""
        array = self.stored[access.array]
        dtype = self.kernel.array(access.array).dtype
        places, inside = self.places(access, grid, array.shape)
        if inside is None:
            return _Value(array[tuple(places)] if places else array, dtype)
        pad = cast(np.asarray(0 if access.pad is None else access.pad).astype(array.dtype), dtype)
        if array.size == 0:
            shape = np.broadcast_shapes(*(place.shape for place in places))
            return _Value(np.full(shape, pad), dtype)
        kept = tuple(np.where(inside, place, 0) for place in places)
        return _Value(np.where(inside, array[kept], pad), dtype)

    def places(
        self, access: Access, grid: Grid, shape: tuple[int, ...]
    ) -> tuple[list[Values], Values | None]:
        """Coordinates of an access, and where they are inside; None: everywhere."""
        places = [self.value(part, grid).values for part in access.indices]
        inside: Values | None = None
        for part, place, extent in zip(access.indices, places, shape, strict=True):
            if not place.size or (place.min() >= 0 and place.max() < extent):
                continue
            if access.pad is None and not any(isinstance(item, Access) for item in walk(part)):
                raise IrValueError(
                    f"{show_expression(access)}: {show_expression(part)} runs from {place.min()} "
                    f"to {place.max()}, the extent is {extent}",
                    call=self.kernel.name,
                    next_step="Give the access a pad, or declare a shorter index.",
                )
            within = (place >= 0) & (place < extent)
            inside = within if inside is None else inside & within
        return places, inside


_KINDS: dict[str, type] = {
    "float": np.float64,
    "float8": np.float64,
    "int": np.int64,
    "bool": np.bool_,
}
_OF_INTEGERS = ("neg", "abs", "not")


def _literal(value: int | float | bool) -> _Value:
    if isinstance(value, bool):
        return _Value(np.asarray(value), dtypes.bool_)
    return _Value(np.asarray(value, np.float64 if isinstance(value, float) else np.int64), None)


def _meet(left: _Value, right: _Value) -> tuple[Values, Values, DType | None]:
    """Two operands in the kind of their common type."""
    dtype = promote(left.dtype, right.dtype)
    if dtype is not None:
        kind = _KINDS[dtype.kind]
    else:
        floats = np.float64 in (left.values.dtype, right.values.dtype)
        kind = np.float64 if floats else np.int64
    return left.values.astype(kind), right.values.astype(kind), dtype


def _grid(ranges: Mapping[str, range]) -> Grid:
    """Each index along an axis of its own, in order."""
    count = len(ranges)
    found = {}
    for axis, (name, span) in enumerate(ranges.items()):
        shape = [1] * count
        shape[axis] = len(span)
        found[name] = np.arange(span.start, span.stop, dtype=np.int64).reshape(shape)
    return found


def _blocks(sizes: Mapping[str, int]) -> Iterator[Grid]:
    """The whole range in parts of about _BLOCK elements, the last axes kept whole."""
    steps, room = [], _BLOCK
    for size in reversed(list(sizes.values())):
        steps.append(max(1, min(size, room)))
        room = max(room // max(size, 1), 1)
    steps.reverse()
    starts = [
        range(0, max(size, 1), step) for size, step in zip(sizes.values(), steps, strict=True)
    ]
    for corner in product(*starts):
        yield _grid(
            {
                name: range(low, min(low + step, size))
                for (name, size), low, step in zip(sizes.items(), corner, steps, strict=True)
            }
        )
