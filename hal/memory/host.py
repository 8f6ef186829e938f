"""Host memory as a pointer and a length, whatever holds it."""

from __future__ import annotations

from typing import Any, NamedTuple

from hal import dtypes
from hal.dtypes import DType
from hal.errors import InvalidValue, UsageError
from hal.memory.element import of_numpy
from hal.memory.pinned import PinnedMemory
from hal.port.native import CData, ffi

__all__ = ["HostRange", "host_range"]


class HostRange(NamedTuple):
    """Consecutive host bytes.

    `owner` keeps them alive. `dtype` is None when the bytes have no type.
    """

    pointer: CData
    bytes: int
    dtype: DType | None
    owner: object


def host_range(value: Any, call: str, *, writable: bool) -> HostRange:
    """The bytes of a NumPy array, of pinned memory, or of anything with the buffer protocol.

    A source that is not contiguous, or not in the machine's byte order, is packed in C order.

    Raises:
        UsageError: it holds no memory, or elements that the HAL lacks.
        InvalidValue: a target that is not contiguous or not writable.
    """
    if hasattr(type(value), "__array_interface__"):  # On the type: the value's own costs 1 µs.
        return _of_array(value, call, writable)
    if isinstance(value, PinnedMemory):
        return HostRange(value.pointer, value.bytes, None, value._pointer)
    if hasattr(value, "__array_interface__"):
        return _of_untidy_array(value, call, writable)
    try:
        data = ffi.from_buffer("char[]", value, require_writable=writable)
    except (TypeError, BufferError, ValueError) as error:
        raise UsageError(
            f"{type(value).__name__} is no {'writable ' if writable else ''}host memory: {error}",
            call=call,
            next_step="Give a NumPy array, PinnedMemory or bytes.",
        ) from None
    return HostRange(ffi.cast("void *", data), len(data), None, data)


def _of_array(value: Any, call: str, writable: bool) -> HostRange:
    kind = of_numpy(getattr(value, "dtype", ""))
    if kind is not None:
        flags = value.flags
        if flags.c_contiguous and (flags.writeable or not writable):
            return HostRange(_pointer(value), value.nbytes, kind, value)
    return _of_untidy_array(value, call, writable)


def _pointer(array: Any) -> CData:
    try:
        return ffi.from_buffer(array)
    except (TypeError, ValueError, BufferError):  # NumPy shows no buffer of ml_dtypes' types.
        return ffi.cast("void *", array.__array_interface__["data"][0])


def _of_untidy_array(value: Any, call: str, writable: bool) -> HostRange:
    """An array that is strided, frozen, in another byte order or of a foreign type."""
    import numpy as np

    array = np.asanyarray(value)
    kind = of_numpy(array.dtype.newbyteorder("="))
    if kind is None:
        raise UsageError(
            f"the elements are {array.dtype}, which the HAL lacks",
            call=call,
            next_step=f"Convert to one of {', '.join(d.name for d in dtypes.ALL)}.",
        )
    tidy = array.flags.c_contiguous and array.dtype.isnative
    if writable and not (tidy and array.flags.writeable):
        what = "not writable" if tidy else f"not contiguous (strides {array.strides})"
        raise InvalidValue(
            f"the host target is {what}",
            call=call,
            next_step="Copy to a contiguous array first, then assign.",
        )
    if not tidy:
        array = np.asarray(array, dtype=kind.numpy, order="C")
    return HostRange(_pointer(array), array.nbytes, kind, array)
