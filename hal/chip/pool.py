"""The caching allocator of a device: memory that is kept and given out again."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from typing import NoReturn, Protocol

from hal.port.native import CData, ffi, lib, timeout_ns

__all__ = ["Pool", "PoolStats"]

Range = tuple[int, int, int]
"""memory, offset_bytes, bytes."""

_NOT_READY, _OUT_OF_MEMORY = 1, -5


class Holder(Protocol):
    """Whose memory it is: the open device."""

    native: CData
    _handle: int

    @property
    def handle(self) -> int: ...

    @property
    def memory_bytes(self) -> int: ...

    def _fail(self, status: int, call: str) -> NoReturn: ...


class Order(Protocol):
    """A stream, as far as a pool knows one: what puts uses of a range in order."""

    @property
    def handle(self) -> int: ...

    @property
    def is_closed(self) -> bool: ...


@dataclass(frozen=True)
class PoolStats:
    """A pool in figures.

    Attributes:
        allocated_bytes: In ranges that are given out, rounded up to their blocks.
        reserved_bytes: Taken from the device.
        peak_bytes: Highest allocated_bytes so far.
        waiting_bytes: Freed, but not given out again before the device has gone idle once.
        live_count: Ranges given out now.
        hit_count: Requests served without the device.
        miss_count: Requests that took memory from the device.
        largest_free_bytes: Length of the largest free block.
    """

    allocated_bytes: int
    reserved_bytes: int
    peak_bytes: int
    waiting_bytes: int
    live_count: int
    hit_count: int
    miss_count: int
    largest_free_bytes: int


class Pool:
    """Memory of one device that is used again without asking the device. Any thread may use it.

    A range belongs to a stream, or to none. One that belongs to a stream is used by that stream
    alone, or by others that the caller put in order; it can be given out again on the same stream
    at once. One that belongs to none may be used anywhere, and is given out again when the device
    was seen idle after it was freed.
    """

    def __init__(self, device: Holder) -> None:
        self.device = device
        out = ffi.new("hal_pool **")
        status = lib.hal_pool_create(device.native, device.handle, ffi.NULL, out)
        if status:
            device._fail(status, "pool.create")
        self._pool = out[0]
        self._out = ffi.new("hal_memory_ref *")
        self._allocating = threading.Lock()  # Of _out.
        self._waiting: deque[Range] = deque()
        self._draining = threading.Lock()
        self._waiting_limit = max(device.memory_bytes // 4, 1)

    @property
    def native(self) -> object:
        """The pool as `hal_pool *`; NULL after the device was closed."""
        return self._pool

    def alloc(self, size: int, stream: Order | None = None) -> Range:
        """Give out a range.

        Raises:
            OutOfMemory: also after everything that is not in use went back to the device.
        """
        if self._waiting:
            self._drain()
            if self.waiting_bytes > self._waiting_limit:
                self._wait()
        handle = 0 if stream is None else stream.handle
        status, given = self._take(handle, size)
        if status == _OUT_OF_MEMORY and self._waiting:
            self._wait()
            status, given = self._take(handle, size)
        if status:
            self.device._fail(status, "pool.alloc")
        return given

    def _take(self, stream: int, size: int) -> tuple[int, Range]:
        with self._allocating:
            out = self._out
            status = lib.hal_pool_alloc(self._pool, stream, size, out)
            return status, (out.memory, out.offset_bytes, size)

    def free(self, given: Range, stream: Order | None = None) -> int:
        """Take a range back; with the stream that it belongs to, and only on its thread.

        Never waits, and never raises for a range that this pool gave. Returns the status.
        """
        if self._pool == ffi.NULL:
            return 0
        memory, offset_bytes, _ = given
        if stream is not None and not stream.is_closed:
            return int(lib.hal_python_pool_free(self._pool, stream.handle, memory, offset_bytes))
        device = self.device
        status = int(
            lib.hal_python_pool_recycle(
                device.native, device._handle, self._pool, memory, offset_bytes
            )
        )
        if status == _NOT_READY:
            self._waiting.append(given)
            return 0
        return status

    def trim(self, keep_bytes: int = 0) -> int:
        """Give unused memory back to the device until `keep_bytes` are kept; returns how much."""
        self._drain()
        out = ffi.new("uint64_t *")
        status = lib.hal_pool_trim(self._pool, keep_bytes, out)
        if status:
            self.device._fail(status, "pool.trim")
        return int(out[0])

    def stats(self) -> PoolStats:
        """Read the figures."""
        figures = ffi.new("hal_pool_stats *")
        figures.size = ffi.sizeof("hal_pool_stats")
        status = lib.hal_pool_stats_read(self._pool, figures)
        if status:
            self.device._fail(status, "pool.stats")
        return PoolStats(
            allocated_bytes=figures.allocated_bytes,
            reserved_bytes=figures.reserved_bytes,
            peak_bytes=figures.peak_bytes,
            waiting_bytes=self.waiting_bytes,
            live_count=figures.live_count,
            hit_count=figures.hit_count,
            miss_count=figures.miss_count,
            largest_free_bytes=figures.largest_free_bytes,
        )

    @property
    def waiting_bytes(self) -> int:
        """Freed, but not given out again before the device has gone idle once."""
        return sum(size for _, _, size in list(self._waiting))

    def _forget(self, stream_handle: int) -> None:
        """A stream is about to be destroyed."""
        if self._pool != ffi.NULL:
            lib.hal_pool_forget_stream(self._pool, stream_handle)

    def _drain(self) -> None:
        """Give waiting ranges back when the device is idle. Never waits.

        A finalizer may come here in the middle of anything, so the lock is only tried.
        """
        if not self._waiting or not self._draining.acquire(blocking=False):
            return
        try:
            count = len(self._waiting)  # Those were freed before the device is asked.
            device = self.device
            if lib.hal_device_synchronize(device.native, device._handle, 0) != 0:
                return
            for _ in range(count):
                memory, offset_bytes, _ = self._waiting.popleft()
                lib.hal_python_pool_free(self._pool, 0, memory, offset_bytes)
        finally:
            self._draining.release()

    def _wait(self) -> None:
        """Wait for the device, so that all that waits can be used again."""
        device = self.device
        lib.hal_device_synchronize(device.native, device._handle, timeout_ns(_WAIT_S))
        self._drain()

    def _close(self) -> None:
        """The device is about to be closed."""
        pool, self._pool = self._pool, ffi.NULL
        self._waiting.clear()
        if pool != ffi.NULL:
            lib.hal_pool_destroy(pool)


_WAIT_S = 60.0
