"""Arrays: device memory with an element type and a shape, to NumPy and back."""

from __future__ import annotations

import operator
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hal import dtypes
from hal.array.blocking import download, upload, wait
from hal.dtypes import DType
from hal.errors import InvalidState, OutOfRange, UsageError
from hal.memory.element import as_dtype, as_shape, element_count
from hal.memory.region import Region

if TYPE_CHECKING:
    import numpy as np

    from hal.chip.opened import Chip
    from hal.stream import Stream

__all__ = ["Array"]


class Array(Region):
    """Elements of one type in C order on a device. Made by `device.array()` and `device.empty()`.

    Attributes:
        dtype: The element type.
        shape: Lengths of the axes.
        stream: The stream that it belongs to, or None when any may use it (see Pool).
    """

    __slots__ = (
        *("_base", "_keep", "_thread", "dtype", "shape", "stream"),
        *(f"_argument_{dtype.name}" for dtype in dtypes.ALL),
    )

    NOUN = "array"

    dtype: DType
    shape: tuple[int, ...]
    stream: Stream | None

    def __init__(self, device: Chip, dtype: Any, shape: Any, stream: Stream | None) -> None:
        self.device = device
        self._handle = 0
        kind = as_dtype(dtype, "device.empty")
        extents = as_shape(shape, "device.empty")
        if stream is not None and stream.device is not device:
            raise UsageError(
                f"the stream is of {stream.device.name}, the array of {device.name}",
                call="device.empty",
                next_step="Give a stream of the same device.",
            )
        size = element_count(extents) * kind.bytes
        memory, offset, _ = device.pool.alloc(max(size, 1), stream)
        self._set(device, memory, offset, size, kind, extents)
        self.stream = stream

    def _set(
        self,
        device: Chip,
        memory: int,
        offset: int,
        size: int,
        dtype: DType,
        shape: tuple[int, ...],
    ) -> None:
        Region.__init__(self, device, memory, offset, size)
        self.dtype = dtype
        self.shape = shape
        self.stream = None
        self._base: Region | None = None
        self._keep: Any = None
        self._thread = threading.get_ident()
        setattr(self, f"_argument_{dtype.name}", self._argument)

    @classmethod
    def of_values(
        cls, device: Chip, values: Any, dtype: Any = None, stream: Stream | None = None
    ) -> Array:
        """An array with the values of what NumPy takes for an array. See Device.array."""
        import numpy as np

        host = np.asarray(values)
        kind = as_dtype(host.dtype.newbyteorder("=") if dtype is None else dtype, "device.array")
        packed = np.asarray(host, dtype=kind.numpy, order="C")
        array = cls(device, kind, packed.shape, stream)
        upload(array, packed)
        return array

    @classmethod
    def over(
        cls, base: Region, dtype: Any, shape: int | Sequence[int] = (-1,), *, offset_bytes: int = 0
    ) -> Array:
        """An array over a part of a buffer, view or array; one extent may be −1. No copy.

        It keeps `base` alive and dies when that is freed.

        Raises:
            OutOfRange: it does not fit, or does not start at a multiple of the element.
        """
        kind = as_dtype(dtype, "array.over")
        room = base.bytes - offset_bytes
        if not 0 <= offset_bytes <= base.bytes or (base.offset_bytes + offset_bytes) % kind.bytes:
            raise OutOfRange(
                f"offset {offset_bytes} of the {base._describe()} is no start for {kind.name}",
                call="array.over",
                device=base.device.name,
            )
        extents = as_shape(shape, "array.over", free=room // kind.bytes)
        size = element_count(extents) * kind.bytes
        if size > room:
            raise OutOfRange(
                f"{kind.name}{list(extents)} needs {size:,} bytes; "
                f"the {base._describe()} has {room:,} from there",
                call="array.over",
                device=base.device.name,
            )
        array = cls.__new__(cls)
        first = base.offset_bytes + offset_bytes
        array._set(base.device, base.handle, first, size, kind, extents)
        array.stream = getattr(base, "stream", None)
        array._base = base
        base._depend(array)
        return array

    @property
    def size(self) -> int:
        """Count of elements."""
        return element_count(self.shape)

    @property
    def ndim(self) -> int:
        """Count of axes."""
        return len(self.shape)

    def __len__(self) -> int:
        if not self.shape:
            raise UsageError("an array without axes has no length", call="len")
        return self.shape[0]

    def reshape(self, *shape: Any) -> Array:
        """The same elements in another shape, without a copy; one extent may be −1.

        Raises:
            UsageError: the counts of elements differ.
        """
        wish = shape[0] if len(shape) == 1 else shape
        extents = as_shape(wish, "array.reshape", free=self.size)
        if element_count(extents) != self.size:
            raise UsageError(
                f"{list(self.shape)} has {self.size} elements, {list(extents)} has "
                f"{element_count(extents)}",
                call="array.reshape",
                next_step="Keep the count of elements.",
            )
        return Array.over(self, self.dtype, extents)

    def __getitem__(self, key: Any) -> Array:
        """A part along the first axis: `array[i]` or `array[first:last]`, without a copy.

        Raises:
            OutOfRange: the index lies outside; nothing is cut off silently.
        """
        if not self.shape:
            raise UsageError("an array without axes has no parts", call="array.part")
        extent = self.shape[0]
        row = self.bytes // extent if extent else 0
        if isinstance(key, slice) and key.step in {None, 1}:
            first, last = key.start or 0, extent if key.stop is None else key.stop
            if not 0 <= first <= last <= extent:
                raise OutOfRange(
                    f"[{first}:{last}] does not lie in an axis of {extent}", call="array.part"
                )
            shape = (last - first, *self.shape[1:])
            return Array.over(self, self.dtype, shape, offset_bytes=first * row)
        try:
            index = operator.index(key)
        except TypeError:
            raise UsageError(
                f"[{key!r}] is no part along the first axis",
                call="array.part",
                next_step="Use [i] or [first:last]; NumPy does the rest on array.numpy().",
            ) from None
        if not -extent <= index < extent:
            raise OutOfRange(f"{index} does not lie in an axis of {extent}", call="array.part")
        first = index % extent * row
        return Array.over(self, self.dtype, self.shape[1:], offset_bytes=first)

    def numpy(
        self, *, stream: Stream | None = None, copy: bool = True, timeout_s: float | None = None
    ) -> np.ndarray[Any, Any]:
        """The elements as a NumPy array.

        Args:
            stream: Wait for this stream alone; None waits for all work of the device.
            copy: False gives the device's own memory, where the host may see it. That array is
                valid until this one is freed.
            timeout_s: How long to wait; None is for ever.

        Raises:
            Unsupported: `copy=False`, and the host cannot see the device's memory.
            Timeout: the work took longer.
        """
        if not copy:
            from hal.array.capsule import host_view  # ctypes, for those who need it.

            wait(self.device, stream, timeout_s)
            return host_view(self, self.dtype, self.shape)
        import numpy as np

        out = np.empty(self.shape, self.dtype.numpy)
        download(self, out, stream, timeout_s)
        return out

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if copy is False:
            return self.numpy(copy=False)
        found = self.numpy()
        return found if dtype is None else found.astype(dtype, copy=False)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: Any = None,
        dl_device: Any = None,
        copy: bool | None = None,
    ) -> Any:
        """Hand the array to another framework without a copy. Waits for the device's work first.

        Raises:
            Unsupported: the port does not show addresses.
        """
        from hal.array.capsule import export

        if copy:
            raise InvalidState(
                "a copy was asked for",
                call="array.__dlpack__",
                next_step="Copy on the device first, or use array.numpy().",
            )
        self.device.synchronize()
        return export(self, self.dtype, self.shape)

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's device type and number."""
        from hal.array.capsule import device_of

        return device_of(self.device)

    def _describe(self) -> str:
        return f"array {self.dtype.name}{list(self.shape)}"

    def _base_died(self) -> None:
        self._handle = 0
        self._die()

    def _die(self) -> None:
        super()._die()
        setattr(self, f"_argument_{self.dtype.name}", None)

    def _destroy(self, handle: int) -> int:
        if self._base is not None:
            return 0
        same_thread = threading.get_ident() == self._thread
        given = (handle, self.offset_bytes, max(self.bytes, 1))
        return self.device.pool.free(given, self.stream if same_thread else None)
