"""DLPack: taking the arrays of other frameworks, without a copy where both use the same memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hal import dtypes
from hal.array.array import Array
from hal.array.capsule import HOST, NAMES, Taken, numpy_at
from hal.errors import Unsupported, UsageError
from hal.memory.region import Buffer

if TYPE_CHECKING:
    from hal.chip.opened import Chip

__all__ = ["import_array"]


def import_array(device: Chip, source: Any) -> Array:
    """An array of another framework on this device: without a copy where that is possible.

    Raises:
        UsageError: the object has no `__dlpack__`, or a layout that the HAL lacks.
        Unsupported: its memory is neither the host's nor this device's.
    """
    if not hasattr(source, "__dlpack__"):
        raise UsageError(
            f"{type(source).__name__} has no __dlpack__",
            call="device.from_dlpack",
            next_step="Give an array of a framework that speaks DLPack, or use device.array().",
        )
    try:
        capsule = source.__dlpack__()
        taken = Taken(capsule)
    except (ValueError, BufferError, RuntimeError, TypeError) as error:
        raise UsageError(
            f"{type(source).__name__} refused: {error}", call="device.from_dlpack"
        ) from error
    tensor = taken.managed.tensor
    name = NAMES.get((tensor.code, tensor.bits))
    if name is None or tensor.lanes != 1:
        raise UsageError(
            f"DLPack type {tensor.code} of {tensor.bits} bits × {tensor.lanes} is none of the HAL",
            call="device.from_dlpack",
        )
    dtype = dtypes.by_name(name)
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    strides = tuple(tensor.strides[i] for i in range(tensor.ndim)) if tensor.strides else None
    address = (tensor.data or 0) + tensor.byte_offset
    mine = device.number("device.dlpack_type", default=0)
    can_wrap = mine == tensor.device_type and device.port.has("memory.wrap")
    size = dtype.bytes
    for extent in shape:
        size *= extent
    aligned = address % max(device.offset_alignment_bytes, dtype.bytes) == 0
    if can_wrap and size and aligned and _is_c_order(shape, strides):
        buffer = Buffer.wrap(device, address, size)
        array = Array.over(buffer, dtype, shape)
        array._keep = taken
        return array
    if tensor.device_type != HOST:
        raise Unsupported(
            f"the array lies on DLPack device type {tensor.device_type}; this device reads type "
            f"{mine or 'none'} and host memory (1)",
            call="device.from_dlpack",
            device=device.name,
            next_step="Copy it to the host first.",
        )
    return Array.of_values(device, numpy_at(address, shape, strides, dtype, owner=taken))


def _is_c_order(shape: tuple[int, ...], strides: tuple[int, ...] | None) -> bool:
    if strides is None:
        return True
    expected = 1
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent != 1 and stride != expected:
            return False
        expected *= extent
    return True
