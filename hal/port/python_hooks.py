"""Calls from the port of Python classes: values are checked, exceptions become statuses."""

from __future__ import annotations

import itertools
import logging
import os
from collections.abc import Callable, Iterator
from typing import Any

from hal.errors import ExecutionFailed, Internal, OutOfMemory, StatusError
from hal.port.native import CData, ffi, lib
from hal.port.python_class import load_class, where

__all__ = ["option_lines"]

_STATUS_OF_OPERATIONS = ExecutionFailed.status
_OTHER_STATUS = Internal.status


class Running:
    """An object of a class as a port, from start to stop.

    Attributes:
        cls: The class.
        port: Its object.
        buffers: What alloc returned, by the number that the port in C knows.
        views: What view returned, kept as long as C has its address.
    """

    def __init__(self, cls: type[Any]) -> None:
        self.cls = cls
        self.port = cls()
        self.buffers: dict[int, Any] = {}
        self.views: dict[int, CData] = {}
        self.numbers: Iterator[int] = itertools.count(1)

    def call(self, method: str, *arguments: Any) -> None:
        """Call a method that has no result.

        Raises:
            Internal: it has one: perhaps a status that would be lost.
        """
        result = getattr(self.port, method)(*arguments)
        if result is not None:
            raise Internal(
                f"{method} returned {result!r:.60}, where None is due: raise what failed",
            )


_classes: dict[tuple[str, int], CData] = {}
"""Handles of classes by what names them and the process."""

_running: dict[int, CData] = {}
"""Handles of what runs, by their addresses."""


def option_lines(text: str) -> str:
    """The options with which the port in C finds a class. Equal in a process for equal classes.

    Raises:
        PortLoadError: the class does not import or lacks methods.
    """
    key = (text, os.getpid())
    if key not in _classes:
        _classes[key] = ffi.new_handle(load_class(text))
    return f"python.hooks={_address(_hooks()):x}\npython.user={_address(_classes[key]):x}\n"


def _address(pointer: CData) -> int:
    return int(ffi.cast("uintptr_t", pointer))


_table: list[CData] = []


def _hooks() -> CData:
    """The table of all functions below; one a process."""
    if not _table:
        table = ffi.new("hal_python_hooks *")
        table.size = ffi.sizeof("hal_python_hooks")
        for name in ("start", "stop", "device", "alloc", "free", "write", "read", "copy", "fill"):
            setattr(table, name, getattr(lib, f"hal_python_port_{name}"))
        _table.append(table)
    return _table[0]


def _answer(
    user: CData, method: str, reason: CData, otherwise: int, step: Callable[[Running], None]
) -> int:
    """Take a step of what runs; what it raises becomes a status and a line of text."""
    running: Running = ffi.from_handle(user)
    return _guarded(running.cls, method, reason, otherwise, lambda: step(running))


def _guarded(
    cls: type[Any], method: str, reason: CData, otherwise: int, step: Callable[[], None]
) -> int:
    try:
        step()
    except BaseException as error:
        status, text = _judged(error, otherwise)
        logging.getLogger(f"hal.port.{cls.__name__}").debug("%s", text, exc_info=error)
        _put(reason, f"{cls.__name__}.{method}: {text}", lib.HAL_PYTHON_REASON_BYTES)
        return status
    return 0


def _judged(error: BaseException, otherwise: int) -> tuple[int, str]:
    """The status that an exception stands for, and what to say of it."""
    if isinstance(error, StatusError):
        return (error.status if error.status < 0 else otherwise), error.problem
    status = OutOfMemory.status if isinstance(error, MemoryError) else otherwise
    return status, where(error)


def _put(target: CData, text: str, capacity: int) -> None:
    """Write a text and its NUL, cut at a whole character."""
    data = text.encode()[: capacity - 1].decode(errors="ignore").encode()
    ffi.memmove(target, data + b"\0", len(data) + 1)


def _number(running: Running, method: str, *arguments: int, least: int, most: int) -> int:
    value = getattr(running.port, method)(*arguments)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise Internal(f"{method} returned {value!r:.60}, where a number from {least} is due")
    return value


@ffi.def_extern(error=_OTHER_STATUS)  # type: ignore[untyped-decorator]
def hal_python_port_start(user: CData, out: CData, reason: CData) -> int:
    """Make an object of the class and start it."""
    cls = ffi.from_handle(user)

    def step() -> None:
        running = Running(cls)
        running.call("start")
        most = lib.HAL_PYTHON_DEVICES_MAX
        out.device_count = _number(running, "device_count", least=0, most=most)
        said = running.port.runtime or f"Python class {cls.__name__}"
        _put(out.runtime, str(said), lib.HAL_PYTHON_NAME_BYTES)
        handle = ffi.new_handle(running)
        _running[_address(handle)] = handle
        out.object = handle

    return _guarded(cls, "start", reason, _OTHER_STATUS, step)


@ffi.def_extern()  # type: ignore[untyped-decorator]
def hal_python_port_stop(user: CData) -> None:
    """Stop the object and drop it; what is wrong can only be logged."""
    reason = ffi.new("char[]", lib.HAL_PYTHON_REASON_BYTES)
    if _answer(user, "stop", reason, _OTHER_STATUS, lambda running: running.call("stop")) != 0:
        text = ffi.string(reason).decode("utf-8", "replace")
        logging.getLogger("hal.port").error("%s", text)
    _running.pop(_address(user), None)


@ffi.def_extern(error=_OTHER_STATUS)  # type: ignore[untyped-decorator]
def hal_python_port_device(user: CData, index: int, out: CData, reason: CData) -> int:
    """Ask who a device is and how much memory it has."""

    def step(running: Running) -> None:
        name = running.port.device_name(index)
        if not isinstance(name, str) or not name:
            raise Internal(f"device_name returned {name!r:.60}, where a text is due")
        _put(out.name, name, lib.HAL_PYTHON_NAME_BYTES)
        if running.port.memory_bytes(index) is not None:
            out.memory_bytes = _number(running, "memory_bytes", index, least=1, most=2**62)

    return _answer(user, "device", reason, _OTHER_STATUS, step)


@ffi.def_extern(error=_OTHER_STATUS)  # type: ignore[untyped-decorator]
def hal_python_port_alloc(
    user: CData,
    index: int,
    length: int,
    alignment: int,
    out_id: CData,
    out_view: CData,
    reason: CData,
) -> int:
    """Make a buffer, and see whether the host may touch it."""

    def step(running: Running) -> None:
        memory = running.port.alloc(index, length, alignment)
        if memory is None:
            raise Internal("alloc returned None, where what names the buffer is due")
        number = next(running.numbers)
        seen = running.port.view(memory)
        if seen is not None:
            shown = ffi.from_buffer(seen, require_writable=True)
            if len(shown) < length:
                raise Internal(f"view shows {len(shown)} bytes of a buffer of {length}")
            running.views[number] = shown
            out_view[0] = ffi.cast("void *", shown)
        running.buffers[number] = memory
        out_id[0] = number

    return _answer(user, "alloc", reason, _OTHER_STATUS, step)


@ffi.def_extern(error=_OTHER_STATUS)  # type: ignore[untyped-decorator]
def hal_python_port_free(user: CData, number: int, reason: CData) -> int:
    """Give a buffer back."""

    def step(running: Running) -> None:
        running.views.pop(number, None)
        running.call("free", running.buffers.pop(number))

    return _answer(user, "free", reason, _OTHER_STATUS, step)


@ffi.def_extern(error=_OTHER_STATUS)  # type: ignore[untyped-decorator]
def hal_python_port_write(
    user: CData, number: int, offset: int, source: CData, length: int, reason: CData
) -> int:
    """Copy from the host."""

    def step(running: Running) -> None:
        data = bytes(ffi.buffer(source, length))
        running.call("write", running.buffers[number], offset, data)

    return _answer(user, "write", reason, _STATUS_OF_OPERATIONS, step)


@ffi.def_extern(error=_OTHER_STATUS)  # type: ignore[untyped-decorator]
def hal_python_port_read(
    user: CData, number: int, offset: int, target: CData, length: int, reason: CData
) -> int:
    """Copy to the host."""

    def step(running: Running) -> None:
        result = running.port.read(running.buffers[number], offset, length)
        if isinstance(result, str) or not hasattr(type(result), "__len__"):
            raise Internal(f"read returned {result!r:.60}, where {length} bytes are due")
        data = memoryview(result)
        if data.nbytes != length:
            raise Internal(f"read returned {data.nbytes} bytes, where {length} are due")
        ffi.memmove(target, data if data.c_contiguous else data.tobytes(), length)

    return _answer(user, "read", reason, _STATUS_OF_OPERATIONS, step)


@ffi.def_extern(error=_OTHER_STATUS)  # type: ignore[untyped-decorator]
def hal_python_port_copy(
    user: CData,
    target: int,
    target_offset: int,
    source: int,
    source_offset: int,
    length: int,
    reason: CData,
) -> int:
    """Copy inside a device."""

    def step(running: Running) -> None:
        to, of = running.buffers[target], running.buffers[source]
        running.call("copy", to, target_offset, of, source_offset, length)

    return _answer(user, "copy", reason, _STATUS_OF_OPERATIONS, step)


@ffi.def_extern(error=_OTHER_STATUS)  # type: ignore[untyped-decorator]
def hal_python_port_fill(
    user: CData,
    number: int,
    offset: int,
    length: int,
    pattern: CData,
    pattern_bytes: int,
    reason: CData,
) -> int:
    """Repeat a pattern."""

    def step(running: Running) -> None:
        given = bytes(ffi.buffer(pattern, pattern_bytes))
        running.call("fill", running.buffers[number], offset, length, given)

    return _answer(user, "fill", reason, _STATUS_OF_OPERATIONS, step)
