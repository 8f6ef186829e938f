"""Number formats: their facts, exact rounding to them, and distances in ulp. float64 inside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["FORMATS", "Format", "format_of", "round_to", "ulp"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Format:
    """A binary floating-point format.

    Attributes:
        name: As in `hal.dtypes`.
        digits: Bits of the significand, the hidden one included.
        min_exponent: Exponent e of the smallest normal number 2^e.
        largest: Largest finite number.
        has_inf: Whether infinity exists; without it too large a number becomes NaN.
    """

    name: str
    digits: int
    min_exponent: int
    largest: float
    has_inf: bool = True

    @property
    def unit_roundoff(self) -> float:
        """Largest relative error of one rounding: 2^-digits."""
        return float(2.0**-self.digits)

    @property
    def smallest_normal(self) -> float:
        """Smallest number with a full significand."""
        return float(2.0**self.min_exponent)

    @property
    def smallest(self) -> float:
        """Smallest positive number: the distance of numbers near zero."""
        return float(2.0 ** (self.min_exponent - self.digits + 1))


FORMATS = {
    "f32": Format("f32", 24, -126, float(np.finfo(np.float32).max)),
    "f16": Format("f16", 11, -14, 65504.0),
    "bf16": Format("bf16", 8, -126, 255 * 2.0**120),
    "f64": Format("f64", 53, -1022, float(np.finfo(np.float64).max)),
    "f8e4m3": Format("f8e4m3", 4, -6, 448.0, has_inf=False),
    "f8e5m2": Format("f8e5m2", 3, -14, 57344.0),
}

_NUMPY_NAMES = {
    "float32": "f32",
    "float16": "f16",
    "bfloat16": "bf16",
    "float64": "f64",
    "float8_e4m3fn": "f8e4m3",
    "float8_e5m2": "f8e5m2",
    "int8": "i8",
    "uint8": "u8",
    "int32": "i32",
    "int64": "i64",
    "bool": "bool",
}


def format_of(dtype: Any) -> str:
    """Return our name of a NumPy or ml_dtypes type, or of a name of ours.

    Raises:
        TypeError: there is no such type.
    """
    name = dtype if isinstance(dtype, str) else np.dtype(dtype).name
    if name in FORMATS or name in _NUMPY_NAMES.values():
        return str(name)
    if name not in _NUMPY_NAMES:
        raise TypeError(f"no element type of the ABI: {dtype!r}")
    return _NUMPY_NAMES[name]


def quantum(values: Floats, form: Format) -> Floats:
    """Return the distance between neighbours of the format at each value (of the larger binade)."""
    magnitude = np.abs(np.where(np.isfinite(values), values, 0.0))
    _, exponent = np.frexp(magnitude)
    exponent = np.where(magnitude > 0, exponent - 1, form.min_exponent)
    exponent = np.maximum(exponent, form.min_exponent) - (form.digits - 1)
    return np.ldexp(1.0, exponent)


def ulp(values: ArrayLike, dtype: str) -> Floats:
    """Return one unit in the last place of the format at each value; at least `smallest`."""
    return quantum(np.asarray(values, np.float64), FORMATS[dtype])


def round_to(high: ArrayLike, dtype: str, low: ArrayLike | None = None) -> Floats:
    """Round high + low once to a format, to nearest with ties to even.

    Args:
        high: Numbers in float64.
        dtype: The format.
        low: What the exact numbers have beyond `high`; at most half its ulp. Only its sign matters
            where `high` lies on a tie.

    Returns:
        The rounded numbers as float64; too large ones are ±inf, or NaN where there is no infinity.
    """
    form = FORMATS[dtype]
    values = np.asarray(high, np.float64)
    rest = np.zeros_like(values) if low is None else np.asarray(low, np.float64)
    if dtype == "f64":
        return values + rest
    finite = np.where(np.isfinite(values), values, 0.0)
    step = quantum(finite, form)
    scaled = finite / step
    rounded = np.rint(scaled)
    floor = np.floor(scaled)
    tie = (scaled - floor == 0.5) & (rest != 0)
    rounded = np.where(tie, floor + (rest > 0), rounded)
    # A number that looks exact but is not stays where it is: half a step is far away.
    result = np.copysign(rounded * step, values)
    top = np.inf if form.has_inf else np.nan
    result = np.where(np.abs(result) > form.largest, np.copysign(top, values), result)
    return np.where(np.isfinite(values), result, _special(values, form))


def _special(values: Floats, form: Format) -> Floats:
    """Return what infinity and NaN become in a format."""
    if form.has_inf:
        return values
    return np.full_like(values, np.nan)
