"""Events: points in a stream's order, and signals that the host gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hal.chip.owned import Owned
from hal.errors import InvalidHandle, UsageError
from hal.port.native import ffi, lib, timeout_ns

if TYPE_CHECKING:
    from hal.chip.opened import Chip

__all__ = ["Event"]

_HOST, _TIMING = 1, 2


class Event(Owned):
    """A point that other streams, or the host, can wait for. Made by `device.event()`.

    Any thread may query, wait for or signal it. An event that was never recorded is complete.

    Attributes:
        is_host: The host completes it with `signal()`; it is never recorded.
        has_timing: It keeps the time of its record for `elapsed_ns`.
    """

    __slots__ = ("has_timing", "is_host")

    NOUN = "event"
    END = "event.destroy"

    def __init__(self, device: Chip, *, host: bool = False, timing: bool = False) -> None:
        self.is_host = host
        self.has_timing = timing
        self._handle = 0
        out = ffi.new("hal_event *")
        flags = (_HOST if host else 0) | (_TIMING if timing else 0)
        status = lib.hal_event_create(device.native, device.handle, flags, out)
        self.device = device
        if status:
            self._fail(status, "event.create")
        super().__init__(device, out[0])

    def query(self) -> bool:
        """Whether it is complete. Raises the error that it completed with."""
        status = lib.hal_event_query(self.device.native, self.handle)
        if status < 0:
            self._fail(status, "event.query")
        return bool(status == 0)

    def synchronize(self, timeout_s: float | None = None) -> None:
        """Wait until it is complete.

        Raises:
            Timeout: `timeout_s` seconds ran out first; the event goes on.
            StatusError: the error that it completed with.
        """
        status = lib.hal_event_synchronize(self.device.native, self.handle, timeout_ns(timeout_s))
        if status:
            self._fail(status, "event.synchronize")

    def signal(self, status: int = 0) -> None:
        """Complete a host event; with an error, the streams that wait for it fail with that."""
        if not isinstance(status, int) or not -(2**31) <= status < 2**31:
            raise UsageError(
                f"{status!r} is no status",
                call="event.signal",
                next_step="Give 0 or the status of an error, as ExecutionFailed.status.",
            )
        result = lib.hal_event_signal(self.device.native, self.handle, status)
        if result:
            self._fail(result, "event.signal")

    def elapsed_ns(self, end: Event) -> int:
        """Time on the device from this event to a later one, both made with `timing=True`.

        Raises:
            NotReady: one of the two is not complete.
            InvalidState: one was never recorded, or has no timing.
        """
        if not isinstance(end, Event):
            raise UsageError(f"end is {type(end).__name__}, not an Event", call="event.elapsed_ns")
        if end.device is not self.device:
            raise InvalidHandle(
                f"the events are of two devices, {self.device.name} and {end.device.name}",
                call="event.elapsed_ns",
                next_step="Take both events from one device.",
            )
        out = ffi.new("int64_t *")
        status = lib.hal_event_elapsed_ns(self.device.native, self.handle, end.handle, out)
        if status:
            self._fail(status, "event.elapsed_ns")
        return int(out[0])

    def _destroy(self, handle: int) -> int:
        return int(lib.hal_event_destroy(self.device.native, handle))

    def _describe(self) -> str:
        kinds = [word for word, on in (("host", self.is_host), ("timing", self.has_timing)) if on]
        return " ".join([*kinds, "event"])
