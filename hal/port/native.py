"""The binding to libhal, and the one place where a status becomes an exception.

Every module of the runtime takes `ffi` and `lib` from here.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from hal.errors import HalError, UsageError, from_status

try:
    from hal._native import ffi, lib
except ImportError as error:
    raise HalError(
        f"the native library does not load: {error}",
        call="import hal._native",
        next_step="Run 'hal doctor' to see what is missing.",
    ) from error

__all__ = [
    "FOREVER_NS",
    "CData",
    "fail",
    "ffi",
    "last_error",
    "lib",
    "open_port",
    "read_i64",
    "read_text",
    "timeout_ns",
]

CData = Any
"""A C value of cffi."""

FOREVER_NS = 2**64 - 1
"""A timeout that never runs out."""

_RECORD_TEXT_BYTES = 512
_REASON_BYTES = 1024


def open_port(path: str | Path, desc: CData) -> tuple[int, CData, str]:
    """Open a port's library: the status, the port (`hal_port *`), and why not; "" for no reason."""
    out, reason = ffi.new("hal_port **"), ffi.new("char[]", _REASON_BYTES)
    status = lib.hal_port_open(os.fsencode(path), desc, out, reason, _REASON_BYTES)
    return status, out[0], ffi.string(reason).decode("utf-8", "replace")


def last_error(port: CData) -> tuple[int, int, str]:
    """Return the calling thread's last error of a port: status, operation id and text."""
    record = ffi.new("hal_error *")
    record.size = ffi.sizeof("hal_error")
    if lib.hal_port_last_error(port, record) != 0:
        return 0, 0, ""
    text = ffi.string(record.text, _RECORD_TEXT_BYTES).decode("utf-8", "replace")
    return record.status, record.operation_id, text


def fail(
    port: CData, status: int, call: str, *, device: str = "", next_step: str = "", text: str = ""
) -> NoReturn:
    """Raise the exception for a status that a call gave, with the port's own words.

    Args:
        port: The port (`hal_port *`) that was called.
        status: What the call returned; not 0.
        call: Name of the call, as `memory.alloc`.
        device: Name of the device that was meant, as `acme:0`.
        next_step: What to do, when the caller knows better than the exception.
        text: What is wrong, when the caller knows better than the port.
    """
    recorded, operation_id, said = last_error(port)
    if recorded != status:
        operation_id, said = 0, ""
    said = said.removeprefix(f"{call}: ").strip()
    raise from_status(
        status,
        text or said,
        call=call,
        next_step=next_step,
        operation_id=operation_id,
        device=device,
    )


def read_text(ask: Callable[[int, CData, CData], int]) -> tuple[int, str]:
    """Read a text of any length: `ask(capacity, out_text, out_bytes)` is called once or twice.

    Returns:
        The status of the last call, and the text (empty unless the status is 0).
    """
    needed = ffi.new("uint64_t *")
    capacity = 256
    while True:
        room = ffi.new("char[]", capacity)
        status = ask(capacity, room, needed)
        if status != 0:
            return status, ""
        if needed[0] <= capacity:
            return 0, ffi.string(room, capacity).decode("utf-8", "replace")
        capacity = int(needed[0])


def read_i64(ask: Callable[[CData], int]) -> tuple[int, int]:
    """Read a number: `ask(out_value)`. Returns the status and the value (0 unless that is 0)."""
    out = ffi.new("int64_t *")
    status = ask(out)
    return status, int(out[0]) if status == 0 else 0


def timeout_ns(timeout_s: float | None) -> int:
    """Seconds to the nanoseconds of the ABI; None waits for ever, less than zero counts as zero."""
    if timeout_s is None:
        return FOREVER_NS
    try:
        return int(min(max(timeout_s * 1e9, 0), FOREVER_NS))
    except (TypeError, ValueError):
        raise UsageError(f"{timeout_s!r} is no time in seconds", call="timeout_s") from None
