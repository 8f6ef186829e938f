"""What every stream is below its operations: an in-order queue of a device, and its end.

hal.Stream adds the operations. Kernels and graphs, which streams take, know a queue alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, Protocol, Self

from hal.chip.owned import Owned
from hal.errors import ExecutionFailed
from hal.port.native import FOREVER_NS, CData, ffi, lib, timeout_ns

if TYPE_CHECKING:
    from hal.chip.opened import Chip

__all__ = ["Queue"]

_TIMEOUT = -8
_KEEP_LIMIT = 256


class Recording(Protocol):
    """A graph in the making."""

    def _note(self, kernel: Any, *uses: object) -> None: ...


class Queue(Owned):
    """An in-order queue of work on one device; the base of Stream."""

    __slots__ = ("_borrowed", "_fast", "_graph", "_host_error", "_refs")

    NOUN = "stream"
    END = "stream.destroy"

    def __init__(self, device: Chip) -> None:
        self.device = device
        self._handle = 0
        out = ffi.new("hal_stream *")
        status = lib.hal_stream_create(device.native, device.handle, 0, out)
        if status:
            self._fail(status, "stream.create")
        self._adopt(device, out[0])

    @classmethod
    def wrap(cls, device: Chip, native: int) -> Self:
        """A stream over a queue of the vendor's runtime that the caller owns. See stream.wrap."""
        out = ffi.new("hal_stream *")
        status = lib.hal_stream_wrap(device.native, device.handle, native, out)
        if status:
            device._fail(status, "stream.wrap")
        stream = cls.__new__(cls)
        stream._adopt(device, out[0])
        return stream

    def _adopt(self, device: Chip, handle: int) -> None:
        super().__init__(device, handle)
        self._fast: int | None = handle  # What a launch takes; None sends it the careful way.
        self._refs: CData = ffi.new("hal_memory_ref[2]")
        self._borrowed: list[object] = []  # Host memory that enqueued copies still use.
        self._host_error: BaseException | None = None
        self._graph: Recording | None = None

    def query(self) -> bool:
        """Whether all work enqueued so far has finished. Raises the error of failed work."""
        status = lib.hal_stream_query(self.device.native, self._live("stream.query"))
        if status < 0:
            self._fail(status, "stream.query")
        if status == 0:
            self._settle()
        return bool(status == 0)

    def synchronize(self, timeout_s: float | None = None) -> None:
        """Wait until all work enqueued so far has finished.

        Raises:
            Timeout: `timeout_s` seconds ran out first; the work goes on, and so does the stream.
            ExecutionFailed: work failed; `operation_id` says which one was first.
        """
        limit = FOREVER_NS if timeout_s is None else timeout_ns(timeout_s)
        status = lib.hal_stream_synchronize(
            self.device.native, self._live("stream.synchronize"), limit
        )
        if status:
            self._fail_wait(status, "stream.synchronize", timeout_s)
        self._settle()

    def close(self) -> None:
        """End the stream. It never waits; work enqueued before still finishes."""
        handle = self._handle
        self._fast = None
        if handle and self.device.is_open:
            self.device._forget_stream(handle, self._borrowed)
        super().close()

    def _live(self, call: str) -> int:
        """The handle, or the error that says why there is none."""
        if not self._handle or not self.device.is_open:
            self._refuse_dead(call)
        return self._handle

    def _keep(self, host: object) -> None:
        """Keep host memory alive until the stream has been seen idle."""
        self._borrowed.append(host)
        if len(self._borrowed) > _KEEP_LIMIT and self._graph is None:
            lately = self._borrowed
            if lib.hal_stream_query(self.device.native, self._handle) == 0:
                self._borrowed = []
            elif len(lately) > 16 * _KEEP_LIMIT:
                self.synchronize()

    def _settle(self) -> None:
        """The stream is idle: let go of host memory, and report what a host call raised."""
        if self._borrowed:
            self._borrowed.clear()
        if self._host_error is not None:
            error, self._host_error = self._host_error, None
            raise ExecutionFailed(
                f"a host call raised {type(error).__name__}: {error}",
                call="stream.host_call",
                device=self.device.name,
                next_step="Correct the function; the stream goes on.",
            ) from error

    def _fail_wait(self, status: int, call: str, timeout_s: float | None) -> NoReturn:
        text = ""
        if status == _TIMEOUT:
            text = f"work was still running after {timeout_s} s"
        self._fail(status, call, text=text)

    def _destroy(self, handle: int) -> int:
        self._fast = None
        return int(lib.hal_stream_destroy(self.device.native, handle))
