"""Ranges of device memory: buffers, and views into them."""

from __future__ import annotations

import struct
import weakref
from typing import TYPE_CHECKING, Any, Protocol

from hal import dtypes
from hal.chip.owned import Owned
from hal.dtypes import DType
from hal.errors import InvalidHandle, InvalidValue, OutOfRange, UsageError
from hal.port.native import CData, ffi, lib

if TYPE_CHECKING:
    from hal.chip.opened import Chip

__all__ = ["Buffer", "Region", "View"]

pack_buffer_argument = struct.Struct("<IIQQQQ").pack
"""hal_argument of a buffer: kind, reserved, scalar, memory, offset, bytes."""

_KIND_BUFFER = 1
_ZERO_FLAG = 1


class Dependent(Protocol):
    """What stands on a region and must learn when that dies: a view, a bound launch."""

    def _base_died(self) -> None: ...


class Region(Owned):
    """A range of device memory; the base of Buffer, View and Array.

    Attributes:
        offset_bytes: Where it starts in its memory object.
        bytes: Its length.
    """

    __slots__ = ("_argument", "_dependents", "bytes", "offset_bytes")

    NOUN = "buffer"
    END = "memory.free"

    dtype: DType | None = None
    """Of the elements; None for bytes without a type."""
    GONE = "freed"

    def __init__(self, device: Chip, memory: int, offset_bytes: int, size: int) -> None:
        super().__init__(device, memory)
        self.offset_bytes = offset_bytes
        self.bytes = size
        self._argument: bytes | None = pack_buffer_argument(
            _KIND_BUFFER, 0, 0, memory, offset_bytes, size
        )
        self._dependents: list[weakref.ref[Dependent]] | None = None

    def free(self) -> None:
        """Give the memory back. It never waits: work enqueued before still sees it.

        Raises:
            InvalidHandle: it was freed before, or its device was closed.
        """
        if not self._handle or not self.device.is_open:
            self._refuse_dead("free")
        self.close()

    def close(self) -> None:
        """The same as `free()`, but doing it twice is fine."""
        self._die()
        super().close()

    def fill_ref(self, ref: CData) -> None:
        """Write this range into a `hal_memory_ref`. Raises InvalidHandle when it is dead."""
        ref.memory = self.handle
        ref.offset_bytes = self.offset_bytes
        ref.bytes = self.bytes

    def _depend(self, dependent: Dependent) -> None:
        """Have `dependent` told when this range dies."""
        if self._dependents is None:
            self._dependents = []
        elif len(self._dependents) > 64:
            self._dependents = [ref for ref in self._dependents if ref() is not None]
        self._dependents.append(weakref.ref(dependent))

    def _die(self) -> None:
        """Make every later use of this range, and of what stands on it, an error."""
        self._argument = None
        if self._dependents is not None:
            for reference in self._dependents:
                dependent = reference()
                if dependent is not None:
                    dependent._base_died()
            self._dependents = None

    def _describe(self) -> str:
        return f"{self.NOUN} of {self.bytes:,} bytes"

    def _view(self, first: int, size: int) -> View:
        _ = self.handle
        return View(self, first, size)


for _dtype in dtypes.ALL:
    # An untyped range fits a kernel's buffer of any dtype: one slot, a name for each dtype. An
    # Array has a slot of its own for each of these names and sets the one of its dtype.
    setattr(Region, f"_argument_{_dtype.name}", Region.__dict__["_argument"])


def byte_range(key: Any, size: int, what: str) -> tuple[int, int]:
    """Turn `[first:last]` into (first, length). Nothing is cut off silently.

    Raises:
        OutOfRange: the range does not lie inside.
    """
    if not isinstance(key, slice) or key.step not in {None, 1}:
        raise UsageError(
            f"a {what} is cut as [first:last] in bytes; [{key!r}] was given", call="memory.view"
        )
    first = 0 if key.start is None else key.start
    last = size if key.stop is None else key.stop
    if not isinstance(first, int) or not isinstance(last, int):
        raise UsageError(f"bytes are counted in whole numbers, not {key!r}", call="memory.view")
    if not 0 <= first <= last <= size:
        raise OutOfRange(
            f"[{first}:{last}] does not lie in the {size:,} bytes of the {what}",
            call="memory.view",
        )
    return first, last - first


class Buffer(Region):
    """Device memory made by `device.alloc()`: bytes without a type. `buffer[a:b]` is a view."""

    __slots__ = ("alignment_bytes",)

    def __init__(self, device: Chip, size: int, alignment: int = 0, zero: bool = False) -> None:
        self.device = device
        self._handle = 0
        if not isinstance(size, int) or not isinstance(alignment, int):
            raise UsageError(
                f"bytes and alignment are whole numbers, not {size!r} and {alignment!r}",
                call="memory.alloc",
            )
        if not 0 < size < 2**64 or not 0 <= alignment < 2**64:
            raise InvalidValue(
                f"bytes is {size} and alignment {alignment}; at least 1 and 0 are needed",
                call="memory.alloc",
                device=device.name,
            )
        desc, out = ffi.new("hal_memory_desc *"), ffi.new("hal_memory *")
        desc.size = ffi.sizeof("hal_memory_desc")
        desc.bytes = size
        desc.alignment_bytes = alignment
        desc.flags = _ZERO_FLAG if zero else 0
        status = lib.hal_memory_alloc(device.native, device.handle, desc, out)
        if status:
            self._fail(status, "memory.alloc")
        super().__init__(device, out[0], 0, size)
        self.alignment_bytes = alignment

    @classmethod
    def wrap(cls, device: Chip, native: int, size: int) -> Buffer:
        """A buffer over memory that the caller owns and that outlives it. See memory.wrap."""
        out = ffi.new("hal_memory *")
        status = lib.hal_memory_wrap(device.native, device.handle, native, size, out)
        if status:
            device._fail(status, "memory.wrap")
        buffer = cls.__new__(cls)
        Region.__init__(buffer, device, out[0], 0, size)
        buffer.alignment_bytes = 0
        return buffer

    def __getitem__(self, key: slice) -> View:
        first, size = byte_range(key, self.bytes, "buffer")
        return self._view(first, size)

    @property
    def native_handle(self) -> int:
        """The runtime's own handle or address of the buffer, on ports that show it."""
        out = ffi.new("uint64_t *")
        status = lib.hal_memory_native_handle(self.device.native, self.handle, out)
        if status:
            self._fail(status, "memory.native_handle")
        return int(out[0])

    def _destroy(self, handle: int) -> int:
        return int(lib.hal_memory_free(self.device.native, handle))


class View(Region):
    """A part of a buffer or array. It keeps its base alive and dies when that is freed."""

    __slots__ = ("base",)

    NOUN = "view"

    def __init__(self, base: Region, first: int, size: int) -> None:
        super().__init__(base.device, base._handle, base.offset_bytes + first, size)
        self.base = base
        base._depend(self)

    def __getitem__(self, key: slice) -> View:
        first, size = byte_range(key, self.bytes, "view")
        return self._view(first, size)

    def _base_died(self) -> None:
        self._handle = 0
        self._die()

    def _destroy(self, handle: int) -> int:
        return 0

    def _refuse_dead(self, call: str) -> Any:
        if not self.base._handle:
            raise InvalidHandle(
                f"the {self.base._describe()} under this view was freed",
                call=call if "." in call else f"memory.{call}",
                device=self.device.name,
                next_step="Keep the buffer while its views are in use.",
            )
        super()._refuse_dead(call)
