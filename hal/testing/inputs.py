"""Inputs of numeric cases: special values, every code, exact small integers, random bits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hal import dtypes
from hal.dtypes import DType
from hal.vil.numerics import round_to

__all__ = ["codes", "edges", "floats", "grid_of", "numbers", "pairs", "small"]

Array = NDArray[Any]
_ = dtypes.bf16.numpy  # loads the types beyond NumPy's once, before cases fork
_BITS: dict[int, Any] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def codes(dtype: DType) -> Array:
    """Return every value of an 8-bit or 16-bit type, in the order of its bits."""
    count = 2 if dtype.kind == "bool" else 256**dtype.bytes
    return np.arange(count, dtype=_BITS[dtype.bytes]).view(dtype.numpy)


def edges(dtype: DType) -> Array:
    """Return the special values of a type: zeros, infinities, NaN, subnormals, largest, ties."""
    if dtype.kind == "bool":
        return np.array([False, True])
    if dtype.kind == "int":
        low, high = int(dtype.minimum), int(dtype.maximum)
        wanted = {low, low + 1, low + 2, low // 2, high // 2, high - 1, high, 0, 1, 2, 3, 7, 8}
        wanted |= {-1, -2, -3, -7, 15, 16, 31, 32, 33, 63, 64, 65, 100, -100, 127, 128, 255, 256}
        wanted |= {32767, 32768, 65535, 65536, 2**24 + 1, 2**31, -(2**31), 2**53 + 1}
        return np.array(sorted(v for v in wanted if low <= v <= high), dtype.numpy)
    largest, tiny = float(dtype.maximum), 2.0**dtype.smallest_exponent
    normal = tiny * 2.0 ** (dtype.precision - 1)
    above = [1 + 2.0 ** (1 - dtype.precision), 1 - 2.0**-dtype.precision]
    sizes = [0.0, tiny, 3 * tiny, normal - tiny, normal, normal + tiny, 0.25, 0.5, *above, 1.0, 1.5]
    sizes += [2.0, 2.5, 3.0, 3.5, 7.0, 10.0, 88.0, 100.0, 127.5, 128.0, 255.5, 300.0, largest / 2]
    sizes += [largest]
    if dtype.has_infinity:
        sizes.append(math.inf)
    values = [sign * size for size in sizes for sign in (1.0, -1.0)] + [math.nan]
    return round_to(np.array([v for v in values if not abs(v) > largest or math.isinf(v)]), dtype)


def floats(rng: np.random.Generator, dtype: DType, count: int) -> Array:
    """Return random numbers of moderate size, full significands."""
    spread = rng.standard_normal(count) * np.exp2(rng.integers(-3, 4, count))
    return round_to(spread, dtype)


def numbers(rng: np.random.Generator, dtype: DType, count: int = 2000) -> Array:
    """Return all codes of a small type; else edges, moderate numbers and random bits."""
    if dtype.bytes <= 2:
        return codes(dtype)
    whole = rng.integers(0, 256, count * dtype.bytes, dtype=np.uint8).view(dtype.numpy)
    if dtype.kind == "int":
        return np.concatenate([edges(dtype), whole])
    return np.concatenate([edges(dtype), floats(rng, dtype, count), whole])


def pairs(rng: np.random.Generator, dtype: DType, count: int = 1500) -> tuple[Array, Array]:
    """Return operands of two: every pair of an 8-bit type; else pairs of edges, and random ones."""
    every = codes(dtype) if dtype.bytes == 1 else edges(dtype)
    left, right = np.repeat(every, len(every)), np.tile(every, len(every))
    if dtype.bytes == 1:
        return left, right
    more = [numbers(rng, dtype, count) for _ in range(2)]
    for values in more:
        rng.shuffle(values)
    length = min(3 * count, *(len(values) for values in more))
    near = [floats(rng, dtype, count) for _ in range(2)] if dtype.is_float else [left[:0]] * 2
    return (
        np.concatenate([left, more[0][:length], near[0]]),
        np.concatenate([right, more[1][:length], near[1]]),
    )


def small(rng: np.random.Generator, dtype: DType, *shape: int, limit: int = 8) -> Array:
    """Return small integers in any type: sums of their products are exact in any order."""
    low = 0 if dtype.kind == "bool" or (dtype.kind == "int" and not dtype.is_signed) else -limit
    high = 1 if dtype.kind == "bool" else limit
    whole = rng.integers(low, high + 1, math.prod(shape) if shape else 1)
    found = round_to(whole.astype(np.float64), dtype) if "float" in dtype.kind else whole
    return np.asarray(found).astype(dtype.numpy).reshape(shape)


def grid_of(values: Array) -> Array:
    """Return values as a square matrix with an odd side; the first ones come again at its end.

    No side is a multiple of a tile, so that tails are full of interesting numbers.
    """
    side = max(1, math.isqrt(max(len(values) - 1, 0)) + 1)
    side += 1 - side % 2
    return np.resize(values, (side, side))
