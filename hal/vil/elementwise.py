"""UN, BIN and the integer functions, on NumPy arrays of one tile (docs/vil.md, section 5.3)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hal import dtypes
from hal.dtypes import DType
from hal.vil.numerics import Array, Numerics

__all__ = ["COMPARISONS", "binary", "binary_allows", "integer_binary", "unary", "unary_allows"]

COMPARISONS = ("lt", "le", "eq", "ne")
_erf = np.vectorize(math.erf, otypes=[np.float64])


def _rsqrt(values: Array) -> Array:
    return np.asarray(1.0 / np.sqrt(values))


_UNARY: dict[str, Callable[[Array], Array]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "sqrt": np.sqrt,
    "rsqrt": _rsqrt,
    "rcp": np.reciprocal,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "erf": lambda values: np.asarray(_erf(values)) if values.size else values,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": np.rint,
}
_FLOAT_BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "max": np.maximum,
    "min": np.minimum,
    "pow": np.power,
    "fmod": np.fmod,
}
_COMPARE: dict[str, Callable[[Array, Array], Array]] = {
    "lt": np.less,
    "le": np.less_equal,
    "eq": np.equal,
    "ne": np.not_equal,
}
_INT_ONLY = ("idiv", "imod", "shl", "shr", "shru", "mulhi")


def unary_allows(function: str, dtype: DType) -> bool:
    """True when UN has this function for this operand type."""
    if function == "mov":
        return dtype.kind != "float8"
    if function in ("neg", "abs"):
        return dtype.is_float or dtype.is_int
    if function == "not":
        return dtype.is_int or dtype.kind == "bool"
    return dtype.is_float


def binary_allows(function: str, dtype: DType) -> bool:
    """True when BIN has this function for this operand type."""
    if function in ("and", "or", "xor"):
        return dtype.is_int or dtype.kind == "bool"
    if function in ("eq", "ne"):
        return dtype.kind != "float8"
    if function in _INT_ONLY:
        return dtype.is_int
    if function in ("div", "pow", "fmod"):
        return dtype.is_float
    return dtype.is_float or dtype.is_int


def unary(numerics: Numerics, function: str, values: Array, dtype: DType) -> Array:
    """UN on a storage array; isnan gives bool."""
    if function == "mov":
        return values.copy()
    if function == "not":
        return np.asarray(~values)
    if function == "isnan":
        return np.isnan(numerics.widen(values))
    if dtype.is_int:
        wide = values.astype(np.int64)
        result = -wide if function == "neg" else np.abs(wide)
        return np.asarray(result).astype(values.dtype)
    if function in ("neg", "abs"):
        bits = numerics.bits(values)
        sign = bits.dtype.type(1 << (8 * bits.dtype.itemsize - 1))
        changed = bits ^ sign if function == "neg" else bits & ~sign
        return np.asarray(changed.view(values.dtype))
    with np.errstate(all="ignore"):
        result = _UNARY[function](numerics.widen(values))
    return numerics.narrow(np.asarray(result), dtype)


def binary(numerics: Numerics, function: str, left: Array, right: Array, dtype: DType) -> Array:
    """BIN on two storage arrays that broadcast; comparisons give bool."""
    if dtype.kind == "bool":
        if function in COMPARISONS:
            return _COMPARE[function](left, right)
        table: dict[str, Any] = {
            "and": np.logical_and,
            "or": np.logical_or,
            "xor": np.logical_xor,
        }
        return np.asarray(table[function](left, right))
    if dtype.is_int:
        if function in COMPARISONS:
            return _COMPARE[function](left, right)
        return integer_binary(function, left, right, dtype)
    a, b = numerics.widen(left), numerics.widen(right)
    if function in COMPARISONS:
        return _COMPARE[function](a, b)
    with np.errstate(all="ignore"):
        result = _FLOAT_BINARY[function](a, b)
    return numerics.narrow(np.asarray(result), dtype)


def _floor_div(a: Array, b: Array) -> Array:
    safe = np.where((b == 0) | (b == -1), 1, b)
    quotient = np.where(b == -1, np.negative(a), np.floor_divide(a, safe))
    return np.where(b == 0, 0, quotient)


def _multiply_high(a: Array, b: Array, dtype: DType) -> Array:
    if dtype is dtypes.i64:
        return np.asarray((a.astype(object) * b.astype(object)) >> 64).astype(np.int64)
    return np.asarray((a * b) >> (8 * dtype.bytes))


def _shift_logical(a: Array, count: Array, dtype: DType) -> Array:
    mask = np.uint64(2 ** (8 * dtype.bytes) - 1)
    return np.asarray((a.astype(np.uint64) & mask) >> count.astype(np.uint64)).astype(np.int64)


def integer_binary(function: str, left: Array, right: Array, dtype: DType) -> Array:
    """An integer function of BIN; arrays of any integer type, result wrapped to `dtype`."""
    a, b = np.broadcast_arrays(left.astype(np.int64), right.astype(np.int64))
    count = b & (8 * dtype.bytes - 1)
    with np.errstate(all="ignore"):
        if function == "idiv":
            result = _floor_div(a, b)
        elif function == "imod":
            result = np.where(b == 0, 0, a - _floor_div(a, b) * b)
        elif function == "mulhi":
            result = _multiply_high(a, b, dtype)
        elif function == "shl":
            result = np.left_shift(a, count)
        elif function == "shr":
            result = np.right_shift(a, count)
        elif function == "shru":
            result = _shift_logical(a, count, dtype)
        else:
            table: dict[str, Any] = {
                "add": np.add,
                "sub": np.subtract,
                "mul": np.multiply,
                "max": np.maximum,
                "min": np.minimum,
                "and": np.bitwise_and,
                "or": np.bitwise_or,
                "xor": np.bitwise_xor,
            }
            result = table[function](a, b)
    return np.asarray(result).astype(dtype.numpy)
