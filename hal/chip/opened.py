"""An open chip: its handle, the facts about it, and what ends with it.

hal.Device is a chip that also makes things: memory, streams, events, modules. What those need of
their device is here, below them all.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import weakref
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, Self

from hal.chip.facts import DeviceInfo, MemoryStats
from hal.chip.pool import Pool
from hal.errors import HalError, InvalidHandle, NotFound
from hal.port import description
from hal.port.native import CData, fail, ffi, lib, read_i64, read_text, timeout_ns

if TYPE_CHECKING:
    from hal.hcd import Hcd
    from hal.port.loaded import LoadedPort

__all__ = ["Chip"]

_NOT_FOUND, _UNSUPPORTED, _TIMEOUT = -13, -6, -8
_FREE_IS_KNOWN = 1
_PEER = {"access": 1, "bandwidth": 2, "latency": 3}


class Child(Protocol):
    """What must be closed before its device is."""

    def close(self) -> None: ...


class Chip:
    """An open chip, as everything on it knows its hal.Device.

    Closing it ends everything that was made on it: buffers, streams, events, modules, graphs. Any
    thread may use it. Two openings of one chip are two devices with their own objects.

    Attributes:
        port: Its port.
        index: Its number in the port.
        name: `PORT:INDEX`, as in every message.
        hcd: Its description, with what was read at run time.

    What hal.Device makes stands here by name alone, for who takes a device from an object on it.
    """

    alloc: Callable[..., Any]
    array: Callable[..., Any]
    empty: Callable[..., Any]
    event: Callable[..., Any]
    from_dlpack: Callable[..., Any]
    load: Callable[..., Any]
    pinned: Callable[..., Any]
    profile: Callable[..., Any]
    stream: Callable[..., Any]

    def __init__(self, port: LoadedPort, index: int) -> None:
        self.port = port
        self.index = index
        self.name = f"{port.name}:{index}"
        self.native: CData = port.native
        self._handle = 0
        out = ffi.new("hal_device *")
        status = lib.hal_device_open(port.native, index, out)
        if status:
            self._fail(status, "device.open")
        self._handle = int(out[0])
        self._lock = threading.RLock()
        self._blocking: object = None  # The stream of blocking copies, see hal.array.blocking.
        self._pinned = 0  # Pieces of pinned memory that something still looks at.
        self._pinned_handle = 0  # The device, when it was closed while there were such.
        self._children: weakref.WeakSet[Child] = weakref.WeakSet()
        self._late: list[object] = []
        try:
            self.hcd = self._read_hcd()
            description.check_claims(self.hcd, port.has, port=port.name)
        except HalError:
            with contextlib.suppress(HalError):  # What was wrong first is what the caller reads.
                self.close()
            raise

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}{'' if self.is_open else ' (closed)'}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __del__(self) -> None:
        handle = getattr(self, "_handle", 0)
        if not handle or sys.is_finalizing():
            return
        pool = self.__dict__.get("pool")
        if pool is not None:
            pool._close()
        self._handle = 0
        if self.__dict__.get("_pinned", 0):
            self._pinned_handle = handle
        else:
            lib.hal_device_close(self.native, handle, 0)

    @property
    def is_open(self) -> bool:
        """False after `close()` of the device or of its port."""
        return bool(self._handle)

    @property
    def handle(self) -> int:
        """The handle of the ABI. Raises InvalidHandle when the device was closed."""
        if not self._handle:
            raise InvalidHandle(
                "the device was closed",
                call="device",
                device=self.name,
                next_step="Open it again with hal.open().",
            )
        return self._handle

    def close(self, timeout_s: float | None = 10.0) -> None:
        """Wait for the device's work and close it with everything on it. Closing twice is fine.

        Raises:
            Timeout: work was still running; the device is still open.
        """
        with self._lock:
            if not self._handle:
                return
            limit = timeout_ns(timeout_s)
            status = lib.hal_device_synchronize(self.native, self._handle, limit)
            if status == _TIMEOUT:
                self._fail(status, "device.close", text=f"work still runs after {timeout_s} s")
            for child in list(self._children):
                child.close()
            pool = self.__dict__.get("pool")
            if pool is not None:
                pool._close()
            handle, self._handle = self._handle, 0
            self._late.clear()
            if self._pinned:
                self._pinned_handle = handle  # Arrays still look at host memory of the device.
                return
            status = lib.hal_device_close(self.native, handle, limit)
            if status:
                self._fail(status, "device.close")

    # ---- Facts ----

    def number(self, key: str, default: int | None = None) -> int:
        """A number by its key: an HCD path, or a run-time key as `device.memory_bytes`.

        Raises:
            NotFound: the port does not answer the key, and there is no default.
        """
        status, value = read_i64(
            lambda out: lib.hal_device_get_i64(self.native, self.handle, key.encode(), out)
        )
        if status == _NOT_FOUND and default is not None:
            return default
        if status:
            self._fail(status, "device.get_i64", text=f"there is no number '{key}'")
        return value

    def text(self, key: str, default: str | None = None) -> str:
        """A text by its key: device.name, hcd.ref, hcd.overlay, or an HCD path."""
        status, value = read_text(
            lambda room, out, need: lib.hal_device_get_str(
                self.native, self.handle, key.encode(), room, out, need
            )
        )
        if status == _NOT_FOUND and default is not None:
            return default
        if status:
            self._fail(status, "device.get_str", text=f"there is no text '{key}'")
        return value

    @cached_property
    def memory_bytes(self) -> int:
        """Bytes of memory that buffers can use."""
        return self.number("device.memory_bytes")

    @cached_property
    def offset_alignment_bytes(self) -> int:
        """What the start of a range inside a buffer must be a multiple of."""
        return self.number("device.offset_alignment_bytes", default=1)

    @cached_property
    def pool(self) -> Pool:
        """The caching allocator, from which `empty()` and `array()` take memory."""
        return Pool(self)

    def stats(self) -> MemoryStats:
        """The device's memory in figures."""
        figures = ffi.new("hal_memory_figures *")
        figures.size = ffi.sizeof("hal_memory_figures")
        status = lib.hal_memory_stats(self.native, self.handle, figures)
        if status:
            self._fail(status, "memory.stats")
        return MemoryStats(
            total_bytes=figures.total_bytes,
            in_use_bytes=figures.in_use_bytes,
            peak_bytes=figures.peak_bytes,
            free_bytes=figures.free_bytes if figures.valid & _FREE_IS_KNOWN else None,
        )

    def info(self) -> DeviceInfo:
        """Everything that `hal info` shows."""
        from hal._generated.functions import FUNCTIONS

        port = self.port
        facts = {
            "name": port.name,
            "vendor": port.vendor,
            "version": port.version,
            "build": port.build_id,
            "abi": ".".join(map(str, port.abi)),
            "library": str(port.path),
            "runtime": port.info("runtime"),
            "runs_on": port.info("runs_on"),
        }
        hcd = {"name": self.hcd.name, "file": self.hcd.file, "sha256": self.hcd.sha256}
        return DeviceInfo(
            name=self.name,
            title=self.text("device.name", default=""),
            port=facts,
            hcd=hcd,
            memory=self.stats(),
            capabilities={f.call: self._offer(f.call) for f in FUNCTIONS},
        )

    def _offer(self, call: str) -> str:
        """How a function is offered; collectives without their library are the loader's."""
        state = self.port.capability(call)
        is_absent = call.startswith("collective.") and not self.hcd.get("features.collective")
        return "emulated" if is_absent and state == "native" else state

    def peer(self, other: Chip, key: str) -> int:
        """How this device reaches another one's memory: access, bandwidth (B/s) or latency (ns)."""
        if key not in _PEER:
            raise NotFound(
                f"there is no key '{key}'",
                call="device.peer_info",
                next_step=f"Use one of {', '.join(_PEER)}.",
            )
        status, value = read_i64(
            lambda out: lib.hal_device_peer_info(
                self.native, self.handle, other.handle, _PEER[key], out
            )
        )
        if status:
            self._fail(status, "device.peer_info")
        return value

    def synchronize(self, timeout_s: float | None = None) -> None:
        """Wait until all work enqueued on the device has finished.

        Raises:
            Timeout: `timeout_s` seconds ran out first; the work goes on.
        """
        limit = timeout_ns(timeout_s)
        status = lib.hal_device_synchronize(self.native, self.handle, limit)
        if status:
            text = f"work was still running after {timeout_s} s" if status == _TIMEOUT else ""
            self._fail(status, "device.synchronize", text=text)
        self._late.clear()

    # ---- For the other modules of the runtime ----

    def _fail(self, status: int, call: str, *, text: str = "", next_step: str = "") -> NoReturn:
        fail(self.native, status, call, device=self.name, text=text, next_step=next_step)

    def _adopt(self, child: Child) -> None:
        """Have a child closed before the device is."""
        self._children.add(child)

    def _read_hcd(self) -> Hcd:
        reference, overlay = self.text("hcd.ref"), self.text("hcd.overlay", default="")
        return description.resolve_reference(
            reference, overlay, self.port.path.parent, self.port.hcd
        )

    def _forget_stream(self, handle: int, borrowed: list[object]) -> None:
        """A stream ends: its pool memory serves all, and its host memory stays until idle."""
        pool = self.__dict__.get("pool")
        if pool is not None:
            pool._forget(handle)
        self._keep_until_idle(borrowed)

    def _keep_until_idle(self, used: list[object]) -> None:
        """Keep what enqueued work may still use until the device has been waited for."""
        if used and lib.hal_device_synchronize(self.native, self._handle, 0) != 0:
            self._late.append(list(used))

    def _hold_pinned(self, pointer: CData) -> Callable[[CData], None]:
        """Count pinned memory; returns what gives it back when nothing looks at it any more."""
        native = self.native
        self._pinned += 1

        def release(_: CData) -> None:
            self._pinned -= 1
            handle = self._handle or self._pinned_handle
            if not handle or sys.is_finalizing():
                return
            lib.hal_memory_host_free(native, handle, pointer)
            if not self._handle and self._pinned == 0:
                self._pinned_handle = 0
                lib.hal_device_close(native, handle, 0)

        return release
