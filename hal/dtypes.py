"""Element types: one object per type, with the number that the C ABI and VIL use.

NumPy is imported only when `DType.numpy` or `from_numpy` is used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "ALL",
    "DType",
    "bf16",
    "bool_",
    "by_name",
    "by_number",
    "f8e4m3",
    "f8e5m2",
    "f16",
    "f32",
    "f64",
    "from_numpy",
    "i8",
    "i32",
    "i64",
    "u8",
]


@dataclass(frozen=True, slots=True)
class DType:
    """One element type.

    Attributes:
        name: Name in HCD, VIL and messages, as `bf16`.
        number: Value of `HAL_DTYPE_*` and of the VIL binary form.
        bytes: Size of one element.
        kind: `float`, `float8`, `int` or `bool`.
        minimum: Smallest integer; 0 for the other kinds.
        maximum: Largest integer; the largest finite value for floats; 1 for bool.
        precision: Bits of a float's significand, the hidden one included; 0 for the others.
        smallest_exponent: Power of two of the smallest subnormal float; 0 for the others.
        has_infinity: False for f8e4m3 alone among floats.
    """

    name: str
    number: int
    bytes: int
    kind: str
    minimum: int = 0
    maximum: float | int = 0
    precision: int = 0
    smallest_exponent: int = 0
    has_infinity: bool = False

    @property
    def is_float(self) -> bool:
        """True for f16 bf16 f32 f64, the types that compute; not for the 8-bit floats."""
        return self.kind == "float"

    @property
    def is_int(self) -> bool:
        """True for i8 u8 i32 i64."""
        return self.kind == "int"

    @property
    def is_signed(self) -> bool:
        """True for an integer type that has negative values."""
        return self.kind == "int" and self.minimum < 0

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy type (of `ml_dtypes` for bf16 and the 8-bit floats)."""
        import numpy as np

        if self.name in _ML_DTYPES:
            import ml_dtypes

            name: str = _ML_DTYPES[self.name]
            found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
            return found
        return np.dtype(_NUMPY[self.name])

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"hal.dtypes.{_BY_ATTRIBUTE.get(self.name, self.name)}"


_ML_DTYPES = {"bf16": "bfloat16", "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2"}
_NUMPY = {
    "f32": "float32",
    "f16": "float16",
    "f64": "float64",
    "i8": "int8",
    "u8": "uint8",
    "i32": "int32",
    "i64": "int64",
    "bool": "bool",
}
_BY_ATTRIBUTE = {"bool": "bool_"}

f32 = DType("f32", 1, 4, "float", 0, (2 - 2.0**-23) * 2.0**127, 24, -149, True)
f16 = DType("f16", 2, 2, "float", 0, 65504.0, 11, -24, True)
bf16 = DType("bf16", 3, 2, "float", 0, (2 - 2.0**-7) * 2.0**127, 8, -133, True)
f64 = DType("f64", 4, 8, "float", 0, (2 - 2.0**-52) * 2.0**1023, 53, -1074, True)
i8 = DType("i8", 5, 1, "int", -(2**7), 2**7 - 1)
u8 = DType("u8", 6, 1, "int", 0, 2**8 - 1)
i32 = DType("i32", 7, 4, "int", -(2**31), 2**31 - 1)
i64 = DType("i64", 8, 8, "int", -(2**63), 2**63 - 1)
bool_ = DType("bool", 9, 1, "bool", 0, 1)
f8e4m3 = DType("f8e4m3", 10, 1, "float8", 0, 448.0, 4, -9, False)
f8e5m2 = DType("f8e5m2", 11, 1, "float8", 0, 57344.0, 3, -16, True)

ALL: tuple[DType, ...] = (f32, f16, bf16, f64, i8, u8, i32, i64, bool_, f8e4m3, f8e5m2)
_BY_NAME = {dtype.name: dtype for dtype in ALL}
_BY_NUMBER = {dtype.number: dtype for dtype in ALL}


def by_name(name: str) -> DType:
    """The type called `name`; raises KeyError for an unknown name."""
    return _BY_NAME[name]


def by_number(number: int) -> DType:
    """The type with this ABI number; raises KeyError for an unknown number."""
    return _BY_NUMBER[number]


def from_numpy(dtype: Any) -> DType:
    """The type of a NumPy dtype (or anything `numpy.dtype` takes); raises KeyError for others."""
    import numpy as np

    wanted = np.dtype(dtype)
    for name, numpy_name in (_NUMPY | _ML_DTYPES).items():
        # Names first: ml_dtypes is imported only when one of its types is met.
        if wanted.name == numpy_name and _BY_NAME[name].numpy == wanted:
            return _BY_NAME[name]
    raise KeyError(str(wanted))
