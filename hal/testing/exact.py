"""References beyond float64: pairs of float64 (about 106 bits) with error-free steps.

A `Pair` is an unevaluated sum high + low with |low| at most half an ulp of high. Sums and products
follow Knuth (two-sum) and Dekker (split product); they are exact as long as nothing overflows or
falls below 2^-960.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Pair", "add", "div", "dot", "fma", "mul", "sqrt", "total"]

Floats = NDArray[np.float64]
_SPLIT = 134217729.0  # 2^27 + 1


@dataclass(frozen=True)
class Pair:
    """Numbers as sums of two float64 arrays of one shape."""

    high: Floats
    low: Floats

    @classmethod
    def of(cls, values: ArrayLike) -> Pair:
        """Take float64, integers or long doubles as they are."""
        given = np.asarray(values)
        high = given.astype(np.float64)
        if given.dtype == np.float64 or not np.issubdtype(given.dtype, np.number):
            return cls(high, np.zeros_like(high))
        with np.errstate(all="ignore"):
            wide = given.astype(np.longdouble)
            low = np.where(np.isfinite(high), wide - high.astype(np.longdouble), 0)
        return cls(high, np.asarray(low, np.float64))

    def __getitem__(self, key: Any) -> Pair:
        """Return a part, as NumPy would."""
        return Pair(self.high[key], self.low[key])


def _quiet(high: Floats, low: Floats) -> Pair:
    """Return a pair whose low part is 0 where the high part is not finite."""
    return Pair(high, np.where(np.isfinite(high) & np.isfinite(low), low, 0.0))


def _two_sum(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    with np.errstate(all="ignore"):
        s = a + b
        back = s - a
        return s, (a - (s - back)) + (b - back)


def _two_product(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    with np.errstate(all="ignore"):
        p = a * b
        ta, tb = _SPLIT * a, _SPLIT * b
        ah, bh = ta - (ta - a), tb - (tb - b)
        al, bl = a - ah, b - bh
        return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl


def _renew(high: Floats, low: Floats) -> Pair:
    s, e = _two_sum(high, low)
    return _quiet(s, e)


def _pair(value: ArrayLike | Pair) -> Pair:
    return value if isinstance(value, Pair) else Pair.of(value)


def add(a: ArrayLike | Pair, b: ArrayLike | Pair) -> Pair:
    """Return a + b; exact for two plain float64 arrays."""
    x, y = _pair(a), _pair(b)
    s, e = _two_sum(x.high, y.high)
    with np.errstate(all="ignore"):
        return _renew(s, np.where(np.isfinite(e), e, 0.0) + (x.low + y.low))


def mul(a: ArrayLike | Pair, b: ArrayLike | Pair) -> Pair:
    """Return a · b; exact for two plain float64 arrays."""
    x, y = _pair(a), _pair(b)
    p, e = _two_product(x.high, y.high)
    with np.errstate(all="ignore"):
        cross = x.high * y.low + x.low * y.high
        return _renew(p, np.where(np.isfinite(e), e, 0.0) + np.where(np.isfinite(cross), cross, 0))


def fma(a: ArrayLike, b: ArrayLike, c: ArrayLike) -> Pair:
    """Return a · b + c."""
    return add(mul(a, b), c)


def div(a: ArrayLike | Pair, b: ArrayLike | Pair) -> Pair:
    """Return a / b to about 104 bits."""
    x, y = _pair(a), _pair(b)
    with np.errstate(all="ignore"):
        first = x.high / y.high
        rest = add(x, mul(Pair(-first, np.zeros_like(first)), y))
        second = rest.high / y.high
    return _renew(first, np.where(np.isfinite(second), second, 0.0))


def sqrt(a: ArrayLike | Pair) -> Pair:
    """Return √a to about 104 bits."""
    x = _pair(a)
    with np.errstate(all="ignore"):
        first = np.sqrt(x.high)
        rest = add(x, mul(Pair(-first, np.zeros_like(first)), first))
        second = rest.high / (2 * first)
    return _renew(first, np.where(np.isfinite(second), second, 0.0))


def total(values: ArrayLike | Pair, axis: int = -1) -> Pair:
    """Return the sum along an axis with an error of about 2^-104 · Σ|x|."""
    x = _pair(values)
    high, low = np.moveaxis(x.high, axis, 0), np.moveaxis(x.low, axis, 0)
    result = Pair(np.zeros(high.shape[1:]), np.zeros(high.shape[1:]))
    for index in range(high.shape[0]):
        result = add(result, Pair(high[index], low[index]))
    return result


def dot(a: ArrayLike, b: ArrayLike) -> Pair:
    """Return the matrix product of a (m, k) and b (k, n)."""
    left, right = np.asarray(a, np.float64), np.asarray(b, np.float64)
    result: Pair | None = None
    for k in range(left.shape[1]):
        term = mul(left[:, k : k + 1], right[k : k + 1, :])
        result = term if result is None else add(result, term)
    if result is None:
        shape = (left.shape[0], right.shape[1])
        return Pair(np.zeros(shape), np.zeros(shape))
    return result
