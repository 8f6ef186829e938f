"""Element arithmetic of the evaluator: float64, int64 that wraps to a type, and bool.

Written from docs/vil.md, section 5, and from nothing else, so that it can judge the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hal import dtypes
from hal.dtypes import DType

__all__ = [
    "REDUCTIONS",
    "Values",
    "binary",
    "cast",
    "identity",
    "philox",
    "philox_words",
    "round_to",
    "unary",
]

Values = NDArray[Any]
"""float64, int64 or bool."""

_U64 = np.uint64


def wrap(values: Values, dtype: DType) -> Values:
    """int64 values in two's complement of an integer type."""
    wrapped: Values = values.astype(dtype.numpy).astype(np.int64)
    return wrapped


def round_to(values: Values, dtype: DType) -> Values:
    """float64 values rounded once to a float type, nearest even; beyond it inf or (f8e4m3) NaN."""
    if dtype == dtypes.f64:
        return values
    with np.errstate(all="ignore"):
        exponent = np.frexp(values)[1]
        step = np.ldexp(1.0, np.maximum(exponent - dtype.precision, dtype.smallest_exponent))
        rounded = np.where(np.isfinite(values), np.rint(values / step) * step, values)
    over = math.inf if dtype.has_infinity else math.nan
    beyond = np.abs(rounded) > dtype.maximum
    result: Values = np.where(beyond, np.copysign(over, rounded), rounded)
    return result


def cast(values: Values, target: DType, saturate: bool = False) -> Values:
    """CAST of docs/vil.md, section 5.4."""
    if target.kind == "bool":
        return values if values.dtype == np.bool_ else np.asarray(values != 0)
    if target.is_int:
        if values.dtype != np.float64:
            whole = values.astype(np.int64)
            if saturate:
                return np.clip(whole, target.minimum, target.maximum)
            return wrap(whole, target)
        return _truncate(values, target)
    if values.dtype == np.int64:
        return _round_whole(values, target, saturate)
    return _limit(round_to(values.astype(np.float64), target), values, target, saturate)


def _limit(rounded: Values, values: Values, target: DType, saturate: bool) -> Values:
    if not saturate:
        return rounded
    largest = float(target.maximum)
    wrong = ~np.isfinite(rounded) & ~np.isnan(values.astype(np.float64))
    limited: Values = np.where(wrong, np.copysign(largest, values.astype(np.float64)), rounded)
    return limited


def _round_whole(values: Values, target: DType, saturate: bool) -> Values:
    """Integers to a float type with one rounding, also where float64 cannot hold them."""
    # A sticky last bit keeps the second rounding right: 64 bits go to 53 by truncation.
    magnitude = np.where(values < 0, -values.astype(_U64), values.astype(_U64)).astype(_U64)
    large = magnitude >> _U64(53) != 0
    low = magnitude & _U64(0xFFF)
    sticky = (magnitude & ~_U64(0xFFF)) | np.where(low != 0, _U64(0x800), _U64(0))
    if target == dtypes.f64:
        wide = values.astype(np.float64)
    else:
        wide = np.where(large, sticky, magnitude).astype(np.float64)
        wide = np.where(values < 0, -wide, wide)
    return _limit(round_to(wide, target), values, target, saturate)


def _truncate(values: Values, target: DType) -> Values:
    low, high = int(target.minimum), int(target.maximum)
    whole = np.trunc(np.where(np.isnan(values), 0.0, values))
    inside = (whole >= float(low)) & (whole < float(high) + 1.0)
    safe = np.where(inside, whole, 0.0).astype(np.int64)
    result: Values = np.where(inside, safe, np.where(whole < 0, low, high)).astype(np.int64)
    return result


_erf = np.frompyfunc(math.erf, 1, 1)

_FLOAT_UNARY: dict[str, Callable[[Any], Any]] = {
    "neg": np.negative,
    "abs": np.abs,
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "rcp": lambda x: 1.0 / x,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "erf": lambda x: np.asarray(_erf(x)).astype(np.float64),
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": np.rint,
    "isnan": np.isnan,
}


def unary(function: str, values: Values, dtype: DType | None) -> Values:
    """A function of UNARY in the compute type `dtype`."""
    with np.errstate(all="ignore"):
        if function == "not":
            return np.invert(values)
        if values.dtype == np.int64:
            result = np.abs(values) if function == "abs" else -values
            return wrap(result, dtype) if dtype is not None else result
        return np.asarray(_FLOAT_UNARY[function](values))


_COMPARE: dict[str, Callable[..., Any]] = {
    "lt": np.less,
    "le": np.less_equal,
    "eq": np.equal,
    "ne": np.not_equal,
}
_PLAIN: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "div": np.divide,
    "pow": np.power,
    "fmod": np.fmod,
}


def binary(function: str, a: Values, b: Values, dtype: DType | None) -> Values:
    """A function of BINARY in the compute type `dtype`; both operands are of one kind."""
    with np.errstate(all="ignore"):
        if function in _COMPARE:
            return np.asarray(_COMPARE[function](a, b))
        if function in _PLAIN:
            result = np.asarray(_PLAIN[function](a, b))
        else:
            result = _WHOLE[function](a, b, 8 * dtype.bytes if dtype else 64)
    if result.dtype == np.int64 and dtype is not None:
        return wrap(result, dtype)
    return result


def _idiv(a: Values, b: Values, width: int) -> Values:
    simple = np.where((b == 0) | (b == -1), 1, b)
    result: Values = np.where(b == 0, 0, np.where(b == -1, -a, a // simple))
    return result


def _imod(a: Values, b: Values, width: int) -> Values:
    simple = np.where((b == 0) | (b == -1), 1, b)
    result: Values = np.where(simple == 1, 0, a % simple)
    return result


def _shru(a: Values, b: Values, width: int) -> Values:
    bits = a.astype(_U64) & _U64(2**width - 1)
    return np.asarray((bits >> (b % width).astype(_U64)).astype(np.int64))


def _mulhi(a: Values, b: Values, width: int) -> Values:
    exact = a.astype(object) * b.astype(object)  # Python's integers have no limit
    return np.asarray(exact >> width).astype(np.int64)


_WHOLE: dict[str, Callable[[Values, Values, int], Values]] = {
    "idiv": _idiv,
    "imod": _imod,
    "shl": lambda a, b, width: np.left_shift(a, b % width),
    "shr": lambda a, b, width: np.right_shift(a, b % width),
    "shru": _shru,
    "mulhi": _mulhi,
}

REDUCTIONS: dict[str, np.ufunc] = {
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}
"""What combines the values of a reduction or scan; max and min propagate NaN."""


def identity(function: str, dtype: DType) -> float | int:
    """The value that a reduction over nothing has."""
    if function in ("add", "mul"):
        return int(function == "mul")
    if dtype.is_int:
        return int(dtype.minimum if function == "max" else dtype.maximum)
    return -math.inf if function == "max" else math.inf


def philox_words(counter: tuple[Values, ...], key: tuple[Values, ...]) -> tuple[Values, ...]:
    """Ten rounds of Philox4x32 on words of 32 bits, kept in uint64."""
    (c0, c1, c2, c3), (k0, k1) = counter, key
    low, half = _U64(0xFFFFFFFF), _U64(32)
    for turn in range(10):
        if turn:
            k0, k1 = (k0 + _U64(0x9E3779B9)) & low, (k1 + _U64(0xBB67AE85)) & low
        p0, p1 = c0 * _U64(0xD2511F53), c2 * _U64(0xCD9E8D57)
        c0, c1, c2, c3 = (p1 >> half) ^ c1 ^ k0, p1 & low, (p0 >> half) ^ c3 ^ k1, p0 & low
    return c0, c1, c2, c3


def philox(seed: Values, offset: Values, element: Values) -> Values:
    """Philox4x32-10 as a uniform number in [0, 1): docs/vil.md, section 5.8."""
    seed, offset, element = np.broadcast_arrays(seed, offset, element)
    low, half = _U64(0xFFFFFFFF), _U64(32)
    logical, shift, key = (item.astype(_U64) for item in (element, offset, seed))
    group = logical >> _U64(2)
    counter = (group & low, group >> half, shift & low, shift >> half)
    words = philox_words(counter, (key & low, key >> half))
    lane = logical & _U64(3)
    raw = np.select([lane == _U64(n) for n in range(3)], list(words[:3]), words[3])
    result: Values = (raw >> _U64(8)).astype(np.float64) * 2.0**-24
    return result
