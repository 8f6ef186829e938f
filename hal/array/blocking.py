"""Copies between the host and a device that are done when the call returns.

Those that name no stream share one of the device's own, one at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hal.stream import Stream

if TYPE_CHECKING:
    import numpy as np

    from hal.chip.opened import Chip
    from hal.memory.region import Region

__all__ = ["download", "upload", "wait"]


def upload(target: Region, host: np.ndarray[Any, Any]) -> None:
    """Copy packed host values in and wait."""
    if target.bytes == 0:
        return
    device = target.device
    with device._lock:
        stream = _own_stream(device)
        stream.copy(target, host, borrow=True)
        stream.synchronize()


def download(
    source: Region, host: np.ndarray[Any, Any], stream: Stream | None, timeout_s: float | None
) -> None:
    """Copy values out after the work of a stream, or of the whole device, and wait."""
    if stream is not None:
        if source.bytes:
            stream.copy(host, source)
        stream.synchronize(timeout_s)
        return
    device = source.device
    device.synchronize(timeout_s)
    if source.bytes == 0:
        return
    with device._lock:
        own = _own_stream(device)
        own.copy(host, source)
        own.synchronize(timeout_s)


def wait(device: Chip, stream: Stream | None, timeout_s: float | None) -> None:
    """Wait for a stream, or for all work of the device."""
    if stream is not None:
        stream.synchronize(timeout_s)
    else:
        device.synchronize(timeout_s)


def _own_stream(device: Chip) -> Stream:
    """The stream of blocking copies; the caller holds the device's lock."""
    stream = device._blocking
    if not isinstance(stream, Stream) or stream.is_closed:
        stream = device._blocking = Stream(device)
        device._adopt(stream)
    return stream
