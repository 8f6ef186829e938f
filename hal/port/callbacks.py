"""Calls that come from C: host calls of a stream, log lines of a port, lines of the trace layer."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING

from hal.port.native import CData, ffi, lib

if TYPE_CHECKING:
    from hal.stream import Stream

__all__ = ["enqueue_host_call", "port_user"]


class HostCall:
    """One enqueued function. Its stream keeps it until it has run."""

    def __init__(self, stream: Stream, function: Callable[[], object]) -> None:
        self.stream = weakref.ref(stream)
        self.function = function


def enqueue_host_call(stream: Stream, function: Callable[[], object]) -> None:
    """Have a stream call a Python function in its order."""
    handle = ffi.new_handle(HostCall(stream, function))
    _waiting.add(handle)
    status = lib.hal_stream_host_call(
        stream.device.native, stream._live("stream.host_call"), lib.hal_python_host_call, handle
    )
    if status:
        _waiting.discard(handle)
        stream._fail(status, "stream.host_call")


_waiting: set[CData] = set()
"""Host calls that did not run yet. One whose stream failed never runs and stays here."""


@ffi.def_extern()  # type: ignore[untyped-decorator]
def hal_python_host_call(user: CData) -> None:
    """Run a host call on whatever thread it comes; an exception waits for the stream's owner."""
    call: HostCall = ffi.from_handle(user)
    stream = call.stream()
    try:
        call.function()
    except BaseException as error:
        if stream is not None:
            stream._host_error = error
    finally:
        _waiting.discard(user)


class PortUser:
    """Who a log line comes from."""

    def __init__(self, name: str) -> None:
        self.name = name


def port_user(name: str) -> CData:
    """A `void *` that stands for a port in callbacks; keep it as long as the port runs."""
    return ffi.new_handle(PortUser(name))


@ffi.def_extern()  # type: ignore[untyped-decorator]
def hal_python_log(user: CData, level: int, text: CData) -> None:
    """Pass a port's log line to the logger `hal.port.NAME`."""
    import logging

    name = ffi.from_handle(user).name
    line = ffi.string(text, 4096).decode("utf-8", "replace")
    levels = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR)
    logging.getLogger(f"hal.port.{name}").log(levels[min(max(level, 0), 3)], "%s", line)


@ffi.def_extern()  # type: ignore[untyped-decorator]
def hal_python_trace(user: CData, line: CData) -> None:
    """Pass a line of the trace layer, a JSON object, to the logger `hal.trace.NAME`."""
    import logging

    name = ffi.from_handle(user).name
    text = ffi.string(line).decode("utf-8", "replace")
    logging.getLogger(f"hal.trace.{name}").info("%s", text)
