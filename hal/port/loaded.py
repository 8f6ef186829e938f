"""A loaded port from below: what it is, what it offers, and its end."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Protocol, Self

from hal.port.discovery import Candidate
from hal.port.native import CData, fail, ffi, lib, read_text, timeout_ns

if TYPE_CHECKING:
    from hal.hcd import Hcd

__all__ = ["LOCK", "LoadedPort", "c_string"]

_CAPABILITIES = ("none", "native", "emulated")
_INFO = {"name": 1, "version": 2, "runtime": 3, "runs_on": 4}

LOCK = threading.RLock()
"""Held while a port is loaded or closed."""


class Opened(Protocol):
    """A device of a port: it is closed before the port is."""

    def close(self, timeout_s: float | None) -> None: ...


class LoadedPort:
    """A loaded port; hal.Port adds that it opens devices.

    Attributes:
        name: Its short name, as in `acme:0`.
        path: Its shared object.
        vendor, version, build_id: What the port says of itself.
        abi: The ABI that it was built for, as (major, minor).
        layers: Names of the layers above it, the highest first.
        hcd: The description that it was loaded with, or None.
    """

    def __init__(
        self, candidate: Candidate, hcd: Hcd | None, native: CData, layers: tuple[str, ...]
    ) -> None:
        assert candidate.path is not None
        root = lib.hal_port_raw(native)
        self.native = native
        self.path = candidate.path
        self.name = candidate.name if candidate.python_class else c_string(root.name)
        self.vendor = c_string(root.vendor)
        self.version = c_string(root.version)
        self.build_id = c_string(root.build_id)
        self.abi = (int(root.abi_major), int(root.abi_minor))
        self.layers = layers
        self.hcd = hcd
        self._user: CData = None  # What callbacks know the port by; kept for the port's life.
        self._devices: weakref.WeakSet[Opened] = weakref.WeakSet()

    def __repr__(self) -> str:
        state = "closed" if self.is_closed else ", ".join(self.layers) or "no layers"
        return f"<Port {self.name} {self.version} ({state})>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def is_closed(self) -> bool:
        """True after `close()`."""
        return bool(self.native == ffi.NULL)

    @property
    def device_count(self) -> int:
        """Devices that can be opened; 0 is a good answer."""
        count = ffi.new("uint32_t *")
        status = lib.hal_port_device_count(self.native, count)
        if status:
            fail(self.native, status, "port.device_count", device=self.name)
        return int(count[0])

    def info(self, key: str) -> str:
        """Text about the port: name, version, runtime or runs_on; empty when it does not say."""
        number = _INFO[key]
        status, text = read_text(
            lambda room, out, need: lib.hal_port_get_info(self.native, number, room, out, need)
        )
        return text if status == 0 else ""

    def capability(self, call: str) -> str:
        """How a function such as `transfer.copy_2d` is offered: `native`, `emulated` or `none`."""
        out = ffi.new("int32_t *")
        status = lib.hal_port_capability(self.native, call.encode(), out)
        if status:
            fail(self.native, status, call, device=self.name, text="the ABI has no such function")
        return _CAPABILITIES[out[0]]

    def has(self, call: str) -> bool:
        """Whether the port itself, without the loader's help, has a function."""
        return self.capability(call) == "native"

    def close(self, timeout_s: float = 10.0) -> None:
        """Stop the port. Its devices are closed; all their objects are dead. Closing twice is fine.

        Raises:
            Timeout: work was still running; the port is still open.
        """
        with LOCK:
            if self.is_closed:
                return
            for device in list(self._devices):
                device.close(timeout_s)
            status = lib.hal_port_close(self.native, timeout_ns(timeout_s))
            if status:
                fail(self.native, status, "port.shutdown", device=self.name)
            self.native = ffi.NULL


def c_string(text: CData) -> str:
    """A C string; empty for NULL."""
    return "" if text == ffi.NULL else ffi.string(text).decode("utf-8", "replace")
