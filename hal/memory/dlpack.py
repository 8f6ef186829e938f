"""DLPack: handing arrays to other frameworks and taking theirs, without a copy.

A port takes part when it shows addresses (`memory.native_handle`) and answers the key
`device.dlpack_type` with DLPack's number for what they are: 1 is host memory.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from hal import dtypes
from hal.dtypes import DType
from hal.errors import Unsupported, UsageError
from hal.port.native import ffi, lib

if TYPE_CHECKING:
    import numpy as np

    from hal.device import Device
    from hal.memory.array import Array

__all__ = ["device_of", "export", "host_view", "import_array"]

HOST = 1
"""DLPack's kDLCPU."""

_CODES = {  # DLPack's type code and bits.
    "f32": (2, 32),
    "f16": (2, 16),
    "bf16": (4, 16),
    "f64": (2, 64),
    "i8": (0, 8),
    "u8": (1, 8),
    "i32": (0, 32),
    "i64": (0, 64),
    "bool": (6, 8),
    "f8e4m3": (10, 8),
    "f8e5m2": (12, 8),
}
_NAMES = {code: name for name, code in _CODES.items()}
_NAME, _USED = b"dltensor", b"used_dltensor"


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    pass


_Deleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Managed))
_Managed._fields_ = (
    ("tensor", _Tensor),
    ("context", ctypes.c_void_p),
    ("deleter", _Deleter),
)

_Destructor = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = (ctypes.c_void_p, ctypes.c_char_p, _Destructor)
_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype = ctypes.c_void_p
_pointer_of.argtypes = (ctypes.py_object, ctypes.c_char_p)
_raw_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_raw_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)
_rename = ctypes.pythonapi.PyCapsule_SetName
_rename.restype = ctypes.c_int
_rename.argtypes = (ctypes.py_object, ctypes.c_char_p)

_exported: dict[int, tuple[Any, ...]] = {}
"""What an exported tensor keeps alive, by the address of its record."""


@_Deleter  # type: ignore[untyped-decorator]
def _delete(managed: Any) -> None:
    _exported.pop(ctypes.addressof(managed.contents), None)


@_Destructor  # type: ignore[untyped-decorator]
def _capsule_dies(capsule: int) -> None:
    """A capsule that nobody took frees its tensor; one that was taken has another name."""
    if _raw_is_valid(capsule, _NAME):
        _exported.pop(_raw_pointer_of(capsule, _NAME), None)


def device_of(device: Device) -> tuple[int, int]:
    """DLPack's device type and number of a device.

    Raises:
        Unsupported: the port does not show addresses.
    """
    found = device.number("device.dlpack_type", default=0)
    if found == 0 or not device.port.has("memory.native_handle"):
        raise Unsupported(
            "the port does not show the addresses of its memory",
            call="array.__dlpack_device__",
            device=device.name,
            next_step="Use array.numpy(), which copies.",
        )
    return found, device.number("device.dlpack_id", default=0 if found == HOST else device.index)


def address_of(array: Array) -> int:
    """Address of an array's first element, as the port shows it."""
    out = ffi.new("uint64_t *")
    status = lib.hal_memory_native_handle(array.device.native, array.handle, out)
    if status:
        array._fail(status, "memory.native_handle")
    return int(out[0]) + array.offset_bytes


def export(array: Array) -> Any:
    """A DLPack capsule over the array. The array lives until the taker lets go."""
    kind, number = device_of(array.device)
    rank = array.ndim
    shape = (ctypes.c_int64 * max(rank, 1))(*array.shape)
    managed = _Managed()
    tensor = managed.tensor
    tensor.data = address_of(array)
    tensor.device_type, tensor.device_id = kind, number
    tensor.ndim = rank
    tensor.code, tensor.bits = _CODES[array.dtype.name]
    tensor.lanes = 1
    tensor.shape = ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64))
    tensor.strides = None
    managed.deleter = _delete
    address = ctypes.addressof(managed)
    _exported[address] = (managed, shape, array)
    return _new_capsule(address, _NAME, _capsule_dies)


def host_view(array: Array) -> np.ndarray[Any, Any]:
    """The array's own memory as a NumPy array; it keeps the array alive.

    Raises:
        Unsupported: the device's memory is not the host's.
    """
    kind, _ = device_of(array.device)
    if kind != HOST:
        raise Unsupported(
            "the host cannot read the device's memory in place",
            call="array.numpy",
            device=array.device.name,
            next_step="Take a copy: array.numpy().",
        )
    return _numpy_at(address_of(array), array.shape, None, array.dtype, owner=array)


def _numpy_at(
    address: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...] | None,
    dtype: DType,
    *,
    owner: Any,
) -> np.ndarray[Any, Any]:
    """A NumPy array over memory at an address; strides are in elements."""
    import numpy as np

    class Holder:
        """Keeps the owner alive as long as the array."""

        def __init__(self) -> None:
            self.owner = owner
            self.__array_interface__ = {
                "version": 3,
                "shape": shape,
                "typestr": f"|V{dtype.bytes}" if dtype.bytes > 1 else "|u1",
                "data": (address, False),
                "strides": tuple(s * dtype.bytes for s in strides) if strides else None,
            }

    raw = np.asarray(Holder())
    return raw.view(dtype.numpy)


class _Taken:
    """A tensor taken from a capsule; its deleter runs when this object goes."""

    def __init__(self, capsule: Any) -> None:
        self.managed = _Managed.from_address(_pointer_of(capsule, _NAME))
        _rename(capsule, _USED)

    def __del__(self) -> None:
        if self.managed.deleter:
            self.managed.deleter(ctypes.byref(self.managed))


def import_array(device: Device, source: Any) -> Array:
    """An array of another framework on this device: without a copy where that is possible.

    Raises:
        UsageError: the object has no `__dlpack__`, or a layout that the HAL lacks.
        Unsupported: its memory is neither the host's nor this device's.
    """
    from hal.memory.array import Array
    from hal.memory.region import Buffer

    if not hasattr(source, "__dlpack__"):
        raise UsageError(
            f"{type(source).__name__} has no __dlpack__",
            call="device.from_dlpack",
            next_step="Give an array of a framework that speaks DLPack, or use device.array().",
        )
    try:
        capsule = source.__dlpack__()
        taken = _Taken(capsule)
    except (ValueError, BufferError, RuntimeError, TypeError) as error:
        raise UsageError(
            f"{type(source).__name__} refused: {error}", call="device.from_dlpack"
        ) from error
    tensor = taken.managed.tensor
    name = _NAMES.get((tensor.code, tensor.bits))
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
    return device.array(_numpy_at(address, shape, strides, dtype, owner=taken))


def _is_c_order(shape: tuple[int, ...], strides: tuple[int, ...] | None) -> bool:
    if strides is None:
        return True
    expected = 1
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent != 1 and stride != expected:
            return False
        expected *= extent
    return True
