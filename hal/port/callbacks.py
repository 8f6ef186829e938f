"""Calls that come from C: host calls of a stream, log lines of a port, lines of the trace layer."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Protocol

from hal.port.native import CData, ffi

__all__ = ["admit_host_call", "dismiss_host_call", "port_user"]


class HostCaller(Protocol):
    """Who enqueues a function, and learns what it raised."""

    _host_error: BaseException | None


class HostCall:
    """One enqueued function. It is kept until it has run; who enqueued it is not."""

    def __init__(self, caller: HostCaller, function: Callable[[], object]) -> None:
        self.caller = weakref.ref(caller)
        self.function = function


_waiting: set[CData] = set()
"""Host calls that did not run yet. One whose stream failed never runs and stays here."""


def admit_host_call(caller: HostCaller, function: Callable[[], object]) -> CData:
    """The `void *` with which `hal_python_host_call` calls a function."""
    handle = ffi.new_handle(HostCall(caller, function))
    _waiting.add(handle)
    return handle


def dismiss_host_call(handle: CData) -> None:
    """A host call was not enqueued after all."""
    _waiting.discard(handle)


@ffi.def_extern()  # type: ignore[untyped-decorator]
def hal_python_host_call(user: CData) -> None:
    """Run a host call on whatever thread it comes; an exception waits for the stream's owner."""
    call: HostCall = ffi.from_handle(user)
    caller = call.caller()
    try:
        call.function()
    except BaseException as error:
        if caller is not None:
            caller._host_error = error
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
