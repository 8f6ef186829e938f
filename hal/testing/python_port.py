"""A port whose runtime is called from Python: the base class of docs/python-port.md."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

__all__ = ["PythonPort"]


class PythonPort(ABC):
    """A chip as Python reaches it: memory and copies here, everything else in the kit.

    Write a subclass with the four abstract methods, in this order: `alloc`, `free`, `write`,
    `read`. Handles, streams, events, order, time-outs, limits and errors are the kit's, and so are
    kernels: they are interpreted on this host, on copies of their buffers (or in place, see
    `view`). Then `hal-certify FILE.py:CLASS --tier 1`.

    An object is made without arguments when the port starts and dropped when it stops. Its methods
    may be called from any thread, never two at a time. What a method raises becomes the status of
    the call: an exception of `hal.errors` its own status, MemoryError OUT_OF_MEMORY, any other
    EXECUTION_FAILED in an operation and INTERNAL elsewhere; its text and line go along. A method
    without a result must return None, so that a status that a binding returned is not lost.

    `memory` is whatever `alloc` returned. Ranges lie inside their buffer and are never empty.

    A description `FILE.hcd.yaml` beside the class's file is the chip's; without one the port is
    described as this machine.
    """

    runtime = ""
    """Name and version of the runtime underneath, for the certificate."""

    # ---- mandatory ----

    @abstractmethod
    def alloc(self, device: int, length: int, alignment: int) -> Any:
        """Make a buffer and return what names it; anything but None.

        Args:
            device: Number of the device, from 0.
            length: Its bytes, at least 1.
            alignment: A power of two; of use only where addresses are seen.
        """

    @abstractmethod
    def free(self, memory: Any) -> None:
        """Give a buffer back. No work uses it any more."""

    @abstractmethod
    def write(self, memory: Any, offset: int, data: bytes) -> None:
        """Put `data` at byte `offset` of a buffer; it is there when this returns."""

    @abstractmethod
    def read(self, memory: Any, offset: int, length: int) -> Any:
        """Return `length` bytes from byte `offset` on: an object with the buffer protocol."""

    # ---- optional ----

    def start(self) -> None:  # noqa: B027 - there may be nothing to do
        """Start the chip's runtime; raise what is wrong when it cannot."""

    def stop(self) -> None:  # noqa: B027 - there may be nothing to do
        """Stop it. All buffers are free."""

    def device_count(self) -> int:
        """How many devices there are, 64 at most."""
        return 1

    def device_name(self, device: int) -> str:
        """A device's name for people."""
        return f"{type(self).__name__} {device}"

    def memory_bytes(self, device: int) -> int | None:
        """Bytes that buffers can use; None: what the description says."""
        return None

    def copy(
        self,
        target: Any,
        target_offset: int,
        source: Any,
        source_offset: int,
        length: int,
    ) -> None:
        """Copy inside a device. The ranges may overlap: as if through a third place."""
        data = memoryview(self.read(source, source_offset, length)).tobytes()
        self.write(target, target_offset, data)

    def fill(self, memory: Any, offset: int, length: int, pattern: bytes) -> None:
        """Repeat `pattern` (1, 2, 4 or 8 bytes) over a range whose length is a multiple of it."""
        self.write(memory, offset, pattern * (length // len(pattern)))

    def view(self, memory: Any) -> Any:
        """Return a writable buffer (bytearray, NumPy array, ctypes array) that is the device's own.

        Kernels then run in it without copies. It starts at a multiple of 16, is at least as long as
        asked for and stays until `free`. None: the host cannot touch device memory.
        """
        return None
