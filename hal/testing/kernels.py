"""Kernels of the tensor IR under the tolerance law: what an implementation may be off.

    wanted = expected(kernel, arrays, params, scalars)
    close_kernel(results, wanted, kernel)

The reference is the evaluator's float64 result. How far a right implementation may be from it is
not a formula of one operation: a kernel is a chain of them. So the bound is measured on the
definition itself, by the idea of stochastic arithmetic (Vignes, "A stochastic arithmetic for
reliable scientific computation", Mathematics and Computers in Simulation 35, 1993): the kernel is
evaluated again with each input and each operation moved by what rounding may move it, several
times, and the spread of the results, times a margin, is the bound. Where rounding is amplified
(cancellation, long sums), the bound is wide, and nowhere else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hal import dtypes
from hal.dtypes import DType
from hal.ir.analysis import (
    compute_dtype,
    dtype_of,
    index_extents,
    inline_lets,
    reduced_indices,
    value_of,
)
from hal.ir.evaluator import evaluate
from hal.ir.nodes import Access, Assign, Call, Const, Expr, Kernel, NamedCall, transform
from hal.testing.tolerance import ULPS, Comparison, Numerics, close

__all__ = ["Expected", "close_kernel", "expected"]

Array = NDArray[Any]
SAMPLES = 6
MARGIN = 6.0
"""Times the largest spread of the samples: six samples of a spread seldom show its full width."""
STEP = 1.0
"""Units of roundoff by which each operation is moved."""
_WIDE_STEP = 2.0**-26
"""The move for f64, whose own roundoff float64 cannot show; results are scaled back."""


@dataclass(frozen=True)
class Expected:
    """What one array should hold.

    Attributes:
        values: float64, integers or bool.
        bound: Allowed distance of each element beside the last rounding; zeros for integers.
    """

    values: Array
    bound: Array


def expected(
    kernel: Kernel,
    arrays: Mapping[str, Array],
    params: Mapping[str, int] | None = None,
    scalars: Mapping[str, float | int] | None = None,
    *,
    seed: int = 0,
) -> dict[str, Expected]:
    """The reference of each output and inout, and how far a right result may be from it.

    Args:
        kernel, arrays, params, scalars: As for `hal.ir.evaluate`.
        seed: Of the moves.
    """
    rng = np.random.default_rng(seed)
    plain = inline_lets(kernel)
    references = evaluate(plain, arrays, params, scalars, rounded=False)
    terms = _terms(plain, arrays, params)
    spreads = {name: np.zeros(np.shape(value)) for name, value in references.items()}
    floats = [name for name, value in references.items() if value.dtype.kind == "f"]
    for number in range(SAMPLES if floats else 0):
        moved, given = _moved(plain, arrays, terms, rng, number)
        with np.errstate(all="ignore"):
            results = evaluate(moved, given, params, scalars, rounded=False)
            for name in floats:
                spread = np.abs(results[name] - references[name]) * _scale_back(plain, name)
                spreads[name] = np.fmax(spreads[name], np.where(np.isfinite(spread), spread, 0))
    found = {}
    for name, value in references.items():
        accumulator = compute_dtype(plain.array(name).dtype)
        least = STEP * _roundoff(accumulator) * np.abs(np.where(np.isfinite(value), value, 0))
        bound = MARGIN * spreads[name] + least if name in floats else spreads[name]
        found[name] = Expected(value, bound)
    return found


def close_kernel(
    results: Mapping[str, Array],
    wanted: Mapping[str, Expected],
    kernel: Kernel,
    *,
    numerics: Numerics | None = None,
    operator: str = "",
) -> dict[str, Comparison]:
    """Check every output and inout; AssertionError names the array and its worst element."""
    found = {}
    for name, item in wanted.items():
        dtype = kernel.array(name).dtype.name
        try:
            found[name] = close(
                results[name],
                item.values,
                law="kernel",
                dtype=dtype,
                scale=item.bound,
                numerics=numerics,
                operator=operator,
            )
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from None
    return found


def _roundoff(dtype: DType) -> float:
    return 2.0**-dtype.precision if dtype.kind in ("float", "float8") else 0.0


def _is_wide(kernel: Kernel) -> bool:
    return any(array.dtype == dtypes.f64 for array in kernel.arrays)


def _scale_back(kernel: Kernel, name: str) -> float:
    """The factor of a spread that was made with a larger move than roundoff."""
    if kernel.array(name).dtype == dtypes.f64 and not _has_narrow(kernel):
        return STEP * _roundoff(dtypes.f64) / _WIDE_STEP
    return 1.0


def _has_narrow(kernel: Kernel) -> bool:
    narrow = (dtypes.f32, dtypes.f16, dtypes.bf16)
    return any(array.dtype in narrow for array in kernel.arrays)


def _terms(
    kernel: Kernel, arrays: Mapping[str, Array], params: Mapping[str, int] | None
) -> dict[int, int]:
    """Per statement how many numbers it adds at most."""
    from hal.ir.binding import bind, full_params, shapes_of

    values = full_params(kernel, bind(kernel, shapes_of(kernel, arrays), params))
    counts = {}
    for number, statement in enumerate(kernel.assigns):
        extents = index_extents(kernel, statement)
        summed = [*reduced_indices(statement)]
        call = statement.value
        if isinstance(call, NamedCall) and call.function in ("scan_add", "scan_mul"):
            summed.append(call.axis)  # The target has it too; the last one combines all.
        sizes = [value_of(extents[n], values) for n in summed if n in extents]
        is_sum = statement.is_reduction or isinstance(call, NamedCall)
        counts[number] = max(math.prod(sizes), 1) if is_sum else 1
    return counts


def _moved(
    kernel: Kernel,
    arrays: Mapping[str, Array],
    terms: Mapping[int, int],
    rng: np.random.Generator,
    number: int,
) -> tuple[Kernel, dict[str, Array]]:
    """The kernel in f64 with every operation moved, and its inputs moved."""
    wide = _is_wide(kernel) and not _has_narrow(kernel)
    unit = _WIDE_STEP if wide else STEP * _roundoff(dtypes.f32)
    # A sum of K terms may be off by about √K roundings, whichever way it is cut.
    longest = max(terms.values(), default=1)
    input_unit = unit * (1 + math.sqrt(longest) / 4)

    def move(expr: Expr) -> Expr:
        if not isinstance(expr, Call) or expr.function in ("philox", "where"):
            return expr
        dtype = _dtype(kernel, expr)
        if dtype is None or not dtype.is_float:
            return expr
        worst = ULPS.get(expr.function, {}).get("f32", 1.0) / 3  # the margin makes it whole ULPs
        factor = 1.0 + unit * max(worst, 1.0) * float(rng.choice((-1.0, 1.0)))
        return Call("mul", (expr, Const(factor, dtypes.f64)))

    statements = []
    for place, item in enumerate(kernel.assigns):
        value = item.value if isinstance(item.value, NamedCall) else transform(item.value, move)
        if isinstance(item.value, NamedCall):
            parts = tuple(transform(part, move) for part in item.value.operands)
            value = replace(item.value, operands=parts)
        statements.append(_stored(kernel, replace(item, value=value), terms[place], unit, rng))
    widened = tuple(
        replace(a, dtype=dtypes.f64) if a.dtype.kind in ("float", "float8") else a
        for a in kernel.arrays
    )
    given: dict[str, Array] = {}
    for name, array in arrays.items():
        if kernel.array(name).dtype.kind not in ("float", "float8"):
            given[name] = array
            continue
        exact = array.astype(np.float64)
        signs = np.sign(exact) if number == 0 else rng.choice((-1.0, 1.0), exact.shape)
        given[name] = exact + np.abs(exact) * input_unit * signs
    return replace(kernel, arrays=widened, statements=tuple(statements)), given


def _dtype(kernel: Kernel, expr: Expr) -> DType | None:
    try:
        return dtype_of(kernel, expr)
    except TypeError:  # a part that was moved to f64 beside one that was not
        return dtypes.f64


def _stored(
    kernel: Kernel, item: Assign, terms: int, unit: float, rng: np.random.Generator
) -> Assign:
    """The statement with the rounding of its store moved, and of its sum."""
    dtype = kernel.array(item.target.array).dtype
    if dtype.kind not in ("float", "float8") or isinstance(item.value, NamedCall):
        return item
    if isinstance(item.value, Access) and not item.is_reduction:
        return item  # a move of elements keeps them
    rounding = _roundoff(dtype) if dtype.bytes < 4 and _is_temp(kernel, item) else 0.0
    size = unit * math.sqrt(terms) / 2 if item.is_reduction else unit
    factor = 1.0 + max(size, rounding) * float(rng.choice((-1.0, 1.0)))
    if item.assignment in ("max=", "min=", "*="):
        factor = 1.0 if item.assignment != "*=" else 1.0 + unit * float(rng.choice((-1.0, 1.0)))
    return replace(item, value=Call("mul", (item.value, Const(factor, dtypes.f64))))


def _is_temp(kernel: Kernel, item: Assign) -> bool:
    return kernel.array(item.target.array).role == "temp"
