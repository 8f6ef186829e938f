"""Pinned host memory: the device copies from and to it without staging."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hal.errors import InvalidHandle, OutOfRange
from hal.memory.element import as_dtype, as_shape, element_count
from hal.port.native import CData, ffi, lib

if TYPE_CHECKING:
    import numpy as np

    from hal.chip.opened import Chip

__all__ = ["PinnedMemory"]


class PinnedMemory:
    """Host memory made by `device.pinned()`. It supports the buffer protocol through `memory()`.

    Arrays over it stay valid after `close()`: the memory itself goes when the last of them has
    gone. While one lives, its device stays open below, even when it was closed.

    Attributes:
        device: The device that made it.
        bytes: Its length.
    """

    __slots__ = ("__weakref__", "_pointer", "bytes", "device")

    def __init__(self, device: Chip, size: int) -> None:
        if not isinstance(size, int) or not 0 < size < 2**63:
            raise OutOfRange(
                f"bytes is {size!r}; at least 1 is needed",
                call="memory.host_alloc",
                device=device.name,
            )
        out = ffi.new("void **")
        status = lib.hal_memory_host_alloc(device.native, device.handle, size, out)
        if status:
            device._fail(status, "memory.host_alloc")
        self.device = device
        self.bytes = size
        release = device._hold_pinned(out[0])
        self._pointer: CData | None = ffi.gc(out[0], release, size)

    @property
    def pointer(self) -> CData:
        """The memory as `void *`. Raises InvalidHandle after `close()`."""
        if self._pointer is None:
            raise InvalidHandle(
                f"this pinned memory of {self.bytes:,} bytes was closed",
                call="memory.host_free",
                device=self.device.name,
                next_step="Keep it open while you use it.",
            )
        return self._pointer

    @property
    def is_closed(self) -> bool:
        """True after `close()`."""
        return self._pointer is None

    def memory(self) -> memoryview:
        """The bytes, writable, without a copy."""
        return memoryview(ffi.buffer(self.pointer, self.bytes))

    def array(
        self, dtype: Any, shape: int | Sequence[int] = (-1,), *, offset_bytes: int = 0
    ) -> np.ndarray[Any, Any]:
        """A NumPy array over the memory, without a copy; one extent may be −1.

        Raises:
            OutOfRange: the array does not fit.
        """
        import numpy as np

        kind = as_dtype(dtype, "memory.host_alloc")
        room = self.bytes - offset_bytes
        if not 0 <= offset_bytes <= self.bytes or offset_bytes % kind.bytes:
            raise OutOfRange(
                f"offset {offset_bytes} is no multiple of {kind.bytes} inside {self.bytes} bytes",
                call="memory.host_alloc",
                device=self.device.name,
            )
        extents = as_shape(shape, "memory.host_alloc", free=room // kind.bytes)
        needed = element_count(extents) * kind.bytes
        if needed > room:
            raise OutOfRange(
                f"{kind.name}{list(extents)} needs {needed:,} bytes; there are {room:,}",
                call="memory.host_alloc",
                device=self.device.name,
            )
        raw = np.frombuffer(self.memory(), dtype=np.uint8, count=needed, offset=offset_bytes)
        return raw.view(kind.numpy).reshape(extents)

    def free(self) -> None:
        """Give the memory back. Raises InvalidHandle when that was done before."""
        _ = self.pointer
        self.close()

    def close(self) -> None:
        """Give the memory back, once no array over it is left. Closing twice is fine."""
        self._pointer = None

    def __enter__(self) -> PinnedMemory:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = " (closed)" if self.is_closed else ""
        return f"<PinnedMemory: {self.bytes:,} bytes of {self.device.name}{state}>"
