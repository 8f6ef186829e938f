"""A loaded port: what it is, what it offers, and its devices."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING

from hal.errors import OutOfRange, UsageError
from hal.port.discovery import Candidate
from hal.port.native import CData, fail, ffi, lib, read_text, timeout_ns

if TYPE_CHECKING:
    from hal.device import Device
    from hal.hcd import Hcd

__all__ = ["LOADED", "LOCK", "Port", "c_string"]

_CAPABILITIES = ("none", "native", "emulated")
_INFO = {"name": 1, "version": 2, "runtime": 3, "runs_on": 4}

LOADED: dict[tuple[object, ...], Port] = {}
"""Ports by what they were loaded with; the last part of a key is the process."""

LOCK = threading.RLock()
"""Held while a port is loaded or closed."""


class Port:
    """A loaded port. It stays loaded until `close()` or the end of the process.

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
        self.name = c_string(root.name)
        self.vendor = c_string(root.vendor)
        self.version = c_string(root.version)
        self.build_id = c_string(root.build_id)
        self.abi = (int(root.abi_major), int(root.abi_minor))
        self.layers = layers
        self.hcd = hcd
        self._user: CData = None  # What callbacks know the port by; kept for the port's life.
        self._devices: weakref.WeakSet[Device] = weakref.WeakSet()

    def __repr__(self) -> str:
        state = "closed" if self.is_closed else ", ".join(self.layers) or "no layers"
        return f"<Port {self.name} {self.version} ({state})>"

    def __enter__(self) -> Port:
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

    def device(self, index: int = 0) -> Device:
        """Open a device. Each call gives a device of its own, with its own objects.

        Raises:
            OutOfRange: there is no device of that number.
            PortLoadError: its description claims what the port lacks.
        """
        from hal.device import Device

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
            for key in [key for key, port in LOADED.items() if port is self]:
                del LOADED[key]


def c_string(text: CData) -> str:
    """A C string; empty for NULL."""
    return "" if text == ffi.NULL else ffi.string(text).decode("utf-8", "replace")
