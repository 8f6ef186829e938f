"""Rounding, wrapping and conversion of NumPy arrays by the rules of docs/vil.md, section 5.4.

Everything here rounds once. In reference mode floats stay float64 and nothing is rounded, which
gives the `ref` of the tolerance law.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hal import dtypes
from hal.dtypes import DType

__all__ = ["Array", "Numerics", "poison", "round_to"]

Array = NDArray[Any]
_BIT_TYPES: dict[int, Any] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def round_to(values: Array, dtype: DType, saturate: bool = False) -> Array:
    """Float64 values rounded once, to nearest even, into a float type.

    Args:
        values: Any float64 array.
        dtype: A float type, the 8-bit ones included.
        saturate: Too large and infinite values become the largest finite one.
    """
    if dtype is dtypes.f64:
        rounded = np.array(values, np.float64)
    else:
        with np.errstate(all="ignore"):
            _, exponent = np.frexp(values)
            quantum = np.maximum(exponent - dtype.precision, dtype.smallest_exponent)
            finite = np.isfinite(values)
            scaled = np.ldexp(np.where(finite, values, 0.0), -quantum)
            rounded = np.where(finite, np.ldexp(np.rint(scaled), quantum), values)
    large = np.abs(rounded) > float(dtype.maximum)
    if saturate:
        rounded = np.where(large, np.copysign(float(dtype.maximum), rounded), rounded)
    elif dtype.has_infinity:
        rounded = np.where(large, np.copysign(np.inf, rounded), rounded)
    else:
        rounded = np.where(large, np.nan, rounded)
    with np.errstate(all="ignore"):
        return rounded.astype(dtype.numpy)


def poison(dtype: DType, storage: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    """What unspecified elements hold: NaN, or an unlikely integer."""
    if dtype.kind in ("float", "float8"):
        return np.full(shape, np.nan).astype(storage)
    return np.full(shape, 1 if dtype.kind == "bool" else 0x55, storage)


def _odd_float(values: Array) -> Array:
    """int64 to float64 so that a later rounding to at most 24 bits is that of the exact integer."""
    magnitude = np.abs(values.astype(np.int64)).astype(np.uint64)
    magnitude = np.where(values == dtypes.i64.minimum, np.uint64(2**63), magnitude)
    sticky = (magnitude & np.uint64(0x7FF)) != 0
    kept = (magnitude >> np.uint64(11)) | sticky.astype(np.uint64)
    large = kept.astype(np.float64) * 2048.0
    exact = np.where(magnitude < 2**53, magnitude.astype(np.float64), large)
    return np.where(values < 0, -exact, exact)


class Numerics:
    """Storage types and conversions; with `reference` all floats are float64."""

    def __init__(self, reference: bool = False) -> None:
        self.reference = reference

    def storage(self, dtype: DType) -> np.dtype[Any]:
        """The NumPy type that holds tiles and buffers of a dtype."""
        if self.reference and dtype.kind in ("float", "float8"):
            return np.dtype(np.float64)
        return dtype.numpy

    def widen(self, values: Array) -> Array:
        """A float array as float64, exactly; a signaling NaN is no event."""
        with np.errstate(all="ignore"):
            return values.astype(np.float64)

    def narrow(self, values: Array, dtype: DType) -> Array:
        """Float64 results rounded into a dtype (or kept, in reference mode)."""
        return values if self.reference else round_to(values, dtype)

    def accumulator(self, dtype: DType) -> np.dtype[Any]:
        """Float type of running sums whose inputs have this dtype."""
        wide = self.reference or dtype is dtypes.f64
        return np.dtype(np.float64 if wide else np.float32)

    def constant(self, value: float | int, dtype: DType) -> Array:
        """A constant of a program as a 0-d array of the storage type."""
        if dtype.kind in ("float", "float8"):
            return self.narrow(np.asarray(value, np.float64), dtype)
        return np.asarray(value, self.storage(dtype))

    def cast(self, values: Array, source: DType, target: DType, saturate: bool = False) -> Array:
        """CAST of docs/vil.md, section 5.4."""
        floats = ("float", "float8")
        if target.kind == "bool":
            return np.asarray(values != 0)
        if source.kind in floats:
            wide = self.widen(values)
            if target.kind in floats:
                return wide if self.reference else round_to(wide, target, saturate)
            return _truncate(wide, target)
        if target.kind in floats:
            integers = values.astype(np.int64)
            if self.reference or target is dtypes.f64:
                return integers.astype(np.float64)
            return round_to(_odd_float(integers), target, saturate)
        integers = values.astype(np.int64)
        if saturate:
            integers = np.clip(integers, target.minimum, int(target.maximum))
        return integers.astype(target.numpy)

    def bits(self, values: Array) -> Array:
        """The same bytes as unsigned integers."""
        return np.ascontiguousarray(values).view(_BIT_TYPES[values.dtype.itemsize])


def _truncate(values: Array, target: DType) -> Array:
    low, high = int(target.minimum), int(target.maximum)
    with np.errstate(all="ignore"):
        whole = np.trunc(np.where(np.isnan(values), 0.0, values))
    too_high, too_low = whole >= float(high) + 1, whole < float(low)
    if target is dtypes.i64:
        too_high = whole >= 2.0**63
    inner = np.where(too_high | too_low, 0.0, whole).astype(np.int64)
    result = np.where(too_high, high, np.where(too_low, low, inner))
    return result.astype(target.numpy)
