"""Streams: in-order queues of copies, fills, launches, host calls and waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hal.chip.queue import Queue
from hal.errors import InvalidHandle, InvalidState, InvalidValue, UsageError
from hal.event import Event
from hal.graph import Capture
from hal.memory.element import as_dtype
from hal.memory.host import HostRange, host_range
from hal.memory.region import Region
from hal.port.callbacks import admit_host_call, dismiss_host_call
from hal.port.native import ffi, lib

__all__ = ["Stream"]

_TO_DEVICE, _TO_HOST, _ON_DEVICE = 1, 2, 3
_BORROW = 1


class Stream(Queue):
    """An in-order queue of work on one device. Made by `device.stream()`.

    Each call enqueues and returns; errors of the work itself come later, from `query()`,
    `synchronize()` or the next call. One thread at a time may enqueue; any thread may query and
    synchronise. There is no order between two streams but what events make.
    """

    __slots__ = ()

    def copy(self, target: Any, source: Any, *, borrow: bool = False) -> None:
        """Copy bytes between two ranges of the device, or between the device and the host.

        Args:
            target, source: Array, Buffer or View; one of the two may be a NumPy array,
                PinnedMemory or bytes. Both have the same length.
            borrow: The host source stays as it is until the stream has passed the copy; without
                it the source may change right after the call.

        A host source that is not contiguous is packed in C order first. A host target must be
        contiguous, and it is kept alive until the stream has passed the copy.
        """
        call = "transfer.copy"
        into, out_of = isinstance(target, Region), isinstance(source, Region)
        near: Region
        far: Region | HostRange
        if into:
            near = target
            far = source if out_of else host_range(source, call, writable=False)
            kind = _ON_DEVICE if out_of else _TO_DEVICE
        elif out_of:
            near, kind = source, _TO_HOST
            far = host_range(target, call, writable=True)
        else:
            raise UsageError(
                f"neither the target ({type(target).__name__}) nor the source "
                f"({type(source).__name__}) is device memory",
                call=call,
                next_step="Give an Array, Buffer or View on one side at least.",
            )
        self._own(call, target if into else source)
        if isinstance(far, Region):
            self._own(call, far)
        if near.bytes != far.bytes or near.dtype is not far.dtype:
            self._check_sizes(call, far if kind == _TO_HOST else near, source if out_of else far)
        status = lib.hal_python_copy(
            self.device.native,
            self._fast or self._live(call),
            kind,
            _BORROW if borrow and kind == _TO_DEVICE else 0,
            source._argument if out_of else ffi.NULL,
            target._argument if into else ffi.NULL,
            ffi.NULL if isinstance(far, Region) else far.pointer,
        )
        if status:
            self._fail(status, call)
        if self._graph is not None:
            self._graph._note(None, near, far)
        elif kind == _TO_HOST or (borrow and kind == _TO_DEVICE):
            self._keep(far)

    def fill(self, target: Region, value: Any, dtype: Any = None) -> None:
        """Repeat a value over a range.

        Args:
            target: Array, Buffer or View.
            value: A number of the element type, or 1, 2, 4 or 8 bytes.
            dtype: Element type of a number; an Array knows its own.
        """
        call = "transfer.fill"
        self._own(call, target)
        pattern = value if isinstance(value, bytes) else _pattern(target, value, dtype)
        target.fill_ref(self._refs[0])
        status = lib.hal_transfer_fill(
            self.device.native, self._live(call), self._refs, pattern, len(pattern)
        )
        if status:
            self._fail(status, call)
        if self._graph is not None:
            self._graph._note(None, target)

    def copy_peer(
        self, target: Region, source: Region, *, source_stream: Stream | None = None
    ) -> None:
        """Copy between two devices, in the order of this stream.

        Args:
            target, source: Ranges of one length. One of their devices is the stream's.
            source_stream: A stream of the source's device; needed between two ports, where the
                copy goes through host memory in the order of both streams.
        """
        call = "transfer.copy_peer"
        for name, region in (("target", target), ("source", source)):
            if not isinstance(region, Region):
                raise UsageError(f"{name} is {type(region).__name__}, no device memory", call=call)
            if region.is_closed:
                region._refuse_dead(call)
        self._check_sizes(call, target, source)
        first, second = self._refs[0], self._refs[1]
        source.fill_ref(first)
        target.fill_ref(second)
        if source.device.port is target.device.port:
            status = lib.hal_transfer_copy_peer(
                self.device.native, self._live(call), ffi.addressof(first), ffi.addressof(second)
            )
        else:
            if source_stream is None or source_stream.device is not source.device:
                raise InvalidValue(
                    f"{source.device.name} and {target.device.name} are of two ports, and no "
                    f"stream of {source.device.name} was given",
                    call=call,
                    next_step="Pass source_stream=, a stream of the source's device.",
                )
            self._own(call, target)
            status = lib.hal_bridge_copy(
                *(source.device.native, source_stream._live(call), ffi.addressof(first)),
                *(target.device.native, self._live(call), ffi.addressof(second)),
            )
        if status:
            self._fail(status, call)

    def copy_2d(
        self,
        target: Any,
        source: Any,
        *,
        rows: int,
        row_bytes: int,
        target_pitch_bytes: int,
        source_pitch_bytes: int,
    ) -> None:
        """Copy rows, with a pitch on each side. Host memory stays as it is until the copy is done.

        Args:
            target, source: As for `copy`; each holds all of its rows.
            rows, row_bytes: How many rows, and the bytes of one.
            target_pitch_bytes, source_pitch_bytes: From the start of a row to that of the next.
        """
        call = "transfer.copy_2d"
        desc = ffi.new("hal_copy_2d_desc *")
        desc.size = ffi.sizeof("hal_copy_2d_desc")
        to_device, from_device = isinstance(target, Region), isinstance(source, Region)
        if not to_device and not from_device:
            raise UsageError("neither side is device memory", call=call)
        desc.kind = {(True, True): _ON_DEVICE, (True, False): _TO_DEVICE}.get(
            (to_device, from_device), _TO_HOST
        )
        desc.rows, desc.row_bytes = rows, row_bytes
        desc.source_pitch_bytes, desc.target_pitch_bytes = source_pitch_bytes, target_pitch_bytes
        for region, on_device, side, pitch in (
            (source, from_device, "source", source_pitch_bytes),
            (target, to_device, "target", target_pitch_bytes),
        ):
            if on_device:
                self._own(call, region)
                region.fill_ref(getattr(desc, side))
                continue
            host = host_range(region, call, writable=side == "target")
            needed = (rows - 1) * pitch + row_bytes if rows else 0
            if host.bytes < needed:
                raise InvalidValue(
                    f"the host {side} has {host.bytes} bytes; {rows} rows need {needed}", call=call
                )
            setattr(desc, f"host_{side}", host.pointer)
            self._keep(host)
        status = lib.hal_transfer_copy_2d(self.device.native, self._live(call), desc)
        if status:
            self._fail(status, call)

    def host_call(self, function: Callable[[], object]) -> None:
        """Call a Python function in stream order, on a thread of the loader or the port.

        It may not call the HAL. What it raises comes out of the next `synchronize()`.
        """
        if not callable(function):
            raise UsageError(f"{type(function).__name__} cannot be called", call="stream.host_call")
        waiting = admit_host_call(self, function)
        status = lib.hal_stream_host_call(
            self.device.native, self._live("stream.host_call"), lib.hal_python_host_call, waiting
        )
        if status:
            dismiss_host_call(waiting)
            self._fail(status, "stream.host_call")

    def record(self, event: Event) -> None:
        """Put an event behind all work enqueued so far. A second record replaces the first."""
        self._event("event.record", event)
        status = lib.hal_event_record(self.device.native, event.handle, self._live("event.record"))
        if status:
            self._fail(status, "event.record")

    def wait(self, event: Event) -> None:
        """Make later work wait for the event's latest record made before this call."""
        self._event("stream.wait_event", event)
        status = lib.hal_stream_wait_event(
            self.device.native, self._live("stream.wait_event"), event.handle
        )
        if status:
            self._fail(status, "stream.wait_event")

    def capture(self) -> Capture:
        """Record work instead of running it: `with stream.capture() as graph: …`."""
        return Capture(self)

    def _own(self, call: str, region: Any) -> None:
        """Refuse what is no device memory, is dead, or is of another device."""
        try:
            if region.device is self.device and region._argument is not None:
                return
        except AttributeError:
            pass
        if not isinstance(region, Region):
            raise UsageError(
                f"{type(region).__name__} is no device memory",
                call=call,
                next_step="Give an Array, Buffer or View.",
            )
        if region.is_closed:
            region._refuse_dead(call)
        same = region.device.name == self.device.name
        whose = f"another opening of {region.device.name}" if same else region.device.name
        raise InvalidHandle(
            f"the {region._describe()} is of {whose}; the stream is of {self.device.name}",
            call=call,
            device=self.device.name,
            next_step="Use memory of the stream's device, or stream.copy_peer().",
        )

    def _check_sizes(self, call: str, target: Any, source: Any) -> None:
        if target.bytes != source.bytes:
            raise InvalidValue(
                f"the source has {source.bytes:,} bytes, the target {target.bytes:,}",
                call=call,
                device=self.device.name,
                next_step="Give ranges of one length; a view cuts one: buffer[first:last].",
            )
        first, second = target.dtype, source.dtype
        if first is not None and second is not None and first is not second:
            raise InvalidValue(
                f"the source holds {second}, the target {first}",
                call=call,
                device=self.device.name,
                next_step="A copy moves bytes and converts nothing: convert first.",
            )

    def _event(self, call: str, event: Any) -> None:
        if not isinstance(event, Event):
            raise UsageError(
                f"the event is {type(event).__name__}, not an Event",
                call=call,
                next_step="Make one with device.event().",
            )
        if event.device.port is not self.device.port:
            raise InvalidHandle(
                f"the event is of {event.device.name}, the stream of {self.device.name}",
                call=call,
                device=self.device.name,
                next_step="Events order streams of one port; across ports synchronise on the host.",
            )
        if self._graph is not None:
            raise InvalidState(
                "the stream is recording a graph, which holds launches, copies and fills alone",
                call=call,
                device=self.device.name,
                next_step="Record or wait before or after the capture.",
            )


def _pattern(target: Region, value: Any, dtype: Any) -> bytes:
    """The bytes of one element. Raises for a number that the type does not hold."""
    import numpy as np

    call = "transfer.fill"
    wanted = dtype if dtype is not None else getattr(target, "dtype", None)
    if wanted is None:
        raise UsageError(
            f"{value!r} has no element type here",
            call=call,
            next_step="Pass dtype=, or a pattern of 1, 2, 4 or 8 bytes.",
        )
    kind = as_dtype(wanted, call)
    try:
        if kind.is_int:
            return int(value).to_bytes(kind.bytes, "little", signed=kind.is_signed)
        return np.asarray(float(value)).astype(kind.numpy).tobytes()
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidValue(f"{value!r} is no {kind.name}: {error}", call=call) from None
