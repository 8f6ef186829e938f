"""Devices, which make everything that is on them, and the ports that open them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsBytes

from hal.array.array import Array
from hal.chip.facts import DeviceInfo, MemoryStats
from hal.chip.opened import Chip
from hal.errors import OutOfRange, UsageError
from hal.event import Event
from hal.library import Library
from hal.memory.pinned import PinnedMemory
from hal.memory.region import Buffer
from hal.module import Module
from hal.port.loaded import LoadedPort
from hal.profile import Profile
from hal.stream import Stream

__all__ = ["Device", "DeviceInfo", "MemoryStats", "Port"]


class Port(LoadedPort):
    """A loaded port. It stays loaded until `close()` or the end of the process.

    Attributes:
        name: Its short name, as in `acme:0`.
        path: Its shared object.
        vendor, version, build_id: What the port says of itself.
        abi: The ABI that it was built for, as (major, minor).
        layers: Names of the layers above it, the highest first.
        hcd: The description that it was loaded with, or None.
    """

    def device(self, index: int = 0) -> Device:
        """Open a device. Each call gives a device of its own, with its own objects.

        Raises:
            OutOfRange: there is no device of that number.
            PortLoadError: its description claims what the port lacks.
        """

        if not isinstance(index, int) or isinstance(index, bool):
            raise UsageError(
                f"a device is named by a number from 0; {index!r} was given", call="device.open"
            )
        count = self.device_count
        if not 0 <= index < count:
            have = {0: "no device", 1: "1 device, number 0"}.get(
                count, f"{count} devices, 0 to {count - 1}"
            )
            raise OutOfRange(
                f"there is no device {index}; the port has {have}",
                call="device.open",
                device=f"{self.name}:{index}",
                next_step="'hal devices' lists them.",
            )
        device = Device(self, index)
        self._devices.add(device)
        return device


class Device(Chip):
    """An open device. Made by `hal.open("acme:0")` or `port.device(0)`.

    Closing it ends everything that was made on it: buffers, streams, events, modules, graphs. Any
    thread may use it. Two openings of one chip are two devices with their own objects.

    Attributes:
        port: Its port.
        index: Its number in the port.
        name: `PORT:INDEX`, as in every message.
        hcd: Its description, with what was read at run time.
    """

    port: Port

    def __init__(self, port: Port, index: int) -> None:
        super().__init__(port, index)
        self._default_stream: Stream | None = None
        self._library: Library | None = None

    def alloc(self, bytes: int, *, alignment: int = 0, zero: bool = False) -> Buffer:  # noqa: A002
        """Make a buffer, straight from the device. `empty()` takes cached memory instead.

        Args:
            bytes: Length; at least 1.
            alignment: Of its start, a power of two; 0 takes the device's own.
            zero: Start with zeros.

        Raises:
            OutOfMemory: the device has no room.
        """
        return Buffer(self, bytes, alignment, zero)

    def empty(
        self, shape: int | Sequence[int], dtype: Any, *, stream: Stream | None = None
    ) -> Array:
        """Make an array without values, of cached memory.

        Args:
            shape: Lengths of the axes.
            dtype: A name such as `bf16`, a DType, or a NumPy dtype.
            stream: The stream that the array belongs to; None lets any stream use it.
        """
        return Array(self, dtype, shape, stream)

    def array(self, values: Any, dtype: Any = None, *, stream: Stream | None = None) -> Array:
        """Make an array with the values of a NumPy array, or of what NumPy takes for one.

        Any strides will do: the values are packed in C order. When the call returns the values are
        on the device, and `values` may change.
        """
        return Array.of_values(self, values, dtype, stream)

    def from_dlpack(self, source: Any) -> Array:
        """Take an array of another framework, without a copy where both use the same memory."""
        from hal.array.dlpack import import_array  # ctypes costs what opening a device does.

        return import_array(self, source)

    def pinned(self, bytes: int) -> PinnedMemory:  # noqa: A002
        """Make host memory that the device copies from and to without staging."""
        return PinnedMemory(self, bytes)

    def stream(self) -> Stream:
        """Make a stream."""
        stream = Stream(self)
        self._adopt(stream)
        return stream

    @property
    def default_stream(self) -> Stream:
        """The stream of work that names none: one for the device, made when it is first used."""
        if self._default_stream is None:
            with self._lock:
                if self._default_stream is None:
                    self._default_stream = self.stream()
        return self._default_stream

    @property
    def library(self) -> Library:
        """The operators that the port's own library runs; empty where it has none."""
        if self._library is None:
            self._library = Library(self)
        return self._library

    def event(self, *, host: bool = False, timing: bool = False) -> Event:
        """Make an event.

        Args:
            host: The host completes it with `signal()`.
            timing: It keeps the time of its record, for `elapsed_ns()`.
        """
        return Event(self, host=host, timing=timing)

    def load(self, image: bytes | SupportsBytes, format: str = "vil.v1") -> Module:  # noqa: A002
        """Load a program image, or a hal.vil.Module.

        Raises:
            InvalidModule: it is damaged, or not for this chip.
            Unsupported: the chip does not take this format.
        """
        module = Module(self, image, format)
        self._adopt(module)
        return module

    def profile(self, *kinds: str) -> Profile:
        """Keep records of the device's work: `with device.profile() as profile: …`.

        Args:
            kinds: Out of launch, copy, fill, collective; none means all.
        """
        return Profile(self, kinds)
