"""Tensors in DLPack capsules: making one over device memory, and taking one of another framework.

A port takes part when it shows addresses (`memory.native_handle`) and answers the key
`device.dlpack_type` with DLPack's number for what they are: 1 is host memory.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from hal.dtypes import DType
from hal.errors import Unsupported
from hal.port.native import ffi, lib

if TYPE_CHECKING:
    import numpy as np

    from hal.chip.opened import Chip
    from hal.memory.region import Region

__all__ = ["HOST", "NAMES", "Taken", "device_of", "export", "host_view", "numpy_at"]

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
NAMES = {code: name for name, code in _CODES.items()}
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


def device_of(device: Chip) -> tuple[int, int]:
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


def address_of(region: Region) -> int:
    """Address of a range's first byte, as the port shows it."""
    out = ffi.new("uint64_t *")
    status = lib.hal_memory_native_handle(region.device.native, region.handle, out)
    if status:
        region._fail(status, "memory.native_handle")
    return int(out[0]) + region.offset_bytes


def export(region: Region, dtype: DType, extents: tuple[int, ...]) -> Any:
    """A DLPack capsule over a range of elements. The range lives until the taker lets go."""
    kind, number = device_of(region.device)
    rank = len(extents)
    shape = (ctypes.c_int64 * max(rank, 1))(*extents)
    managed = _Managed()
    tensor = managed.tensor
    tensor.data = address_of(region)
    tensor.device_type, tensor.device_id = kind, number
    tensor.ndim = rank
    tensor.code, tensor.bits = _CODES[dtype.name]
    tensor.lanes = 1
    tensor.shape = ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64))
    tensor.strides = None
    managed.deleter = _delete
    address = ctypes.addressof(managed)
    _exported[address] = (managed, shape, region)
    return _new_capsule(address, _NAME, _capsule_dies)


def host_view(region: Region, dtype: DType, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """A range's own memory as a NumPy array; it keeps the range alive.

    Raises:
        Unsupported: the device's memory is not the host's.
    """
    kind, _ = device_of(region.device)
    if kind != HOST:
        raise Unsupported(
            "the host cannot read the device's memory in place",
            call="array.numpy",
            device=region.device.name,
            next_step="Take a copy: array.numpy().",
        )
    return numpy_at(address_of(region), shape, None, dtype, owner=region)


def numpy_at(
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


class Taken:
    """A tensor taken from a capsule; its deleter runs when this object goes."""

    def __init__(self, capsule: Any) -> None:
        self.managed = _Managed.from_address(_pointer_of(capsule, _NAME))
        _rename(capsule, _USED)

    def __del__(self) -> None:
        if self.managed.deleter:
            self.managed.deleter(ctypes.byref(self.managed))
