"""A port without layers: cases call its functions and see its own statuses.

    raw = hal.testing.raw.open("./hal_port_acme.so")
    desc = raw.new("memory_desc", bytes=1024)
    out = raw.out("hal_memory")
    assert raw.call("memory.alloc", device, desc, out) == Status.OK

Descriptors come with their size set. Out-parameters come filled with the byte 0xB7, with a guard
behind them, so that `raw.untouched(out)` can tell whether a refused call wrote anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from hal.errors import PortLoadError, UsageError
from hal.testing import record
from hal.testing.abi import ABI_MAJOR, ABI_MINOR, FUNCTION_BY_CALL, Status, status_name
from hal.testing.session import Target

__all__ = ["CANARY", "LAYERS", "PortRefused", "Raw", "open", "open_target"]

CANARY = 0xB7
GUARD_BYTES = 64
LAYERS = {"trace": 1, "validate": 2, "emulate": 4, "mutate": 8}
OPEN_NO_INIT = 1
CLOSE_TIMEOUT_NS = 10_000_000_000


class PortRefused(AssertionError):
    """The port could not be opened; the text says why."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


def _native() -> tuple[Any, Any]:
    """Return cffi's `ffi` and libhal's `lib`."""
    from hal._native import ffi, lib

    return ffi, lib


def open(  # noqa: A001 - the name that cases use: raw.open
    spec: str | Target, *, layers: Sequence[str] = (), init: bool = True, **rules: str
) -> Raw:
    """Open a port by name, path, folder or target; see `open_target`."""
    if isinstance(spec, Target):
        return open_target(spec, layers=layers, init=init, **rules)
    from hal.testing.target import find

    return open_target(find(spec), layers=layers, init=init, **rules)


def open_target(
    target: Target,
    *,
    layers: Sequence[str] = (),
    init: bool = True,
    broken_rule: str = "",
    skipped_rule: str = "",
) -> Raw:
    """Open a port with exactly these layers; none at all is the raw port.

    Args:
        target: The shared object and its HCD.
        layers: Names of `LAYERS`.
        init: False leaves `port.init` and `port.shutdown` to the caller.
        broken_rule: Rule that the mutate layer breaks; it adds that layer.
        skipped_rule: Host rule that the validate layer leaves out.

    Raises:
        PortRefused: the port did not open.
        UsageError: a layer has no such name.
    """
    ffi, _ = _native()
    from hal.port.native import open_port

    target = _with_class(target)
    if unknown := set(layers) - set(LAYERS):
        raise UsageError(f"there is no layer {min(unknown)!r}; layers are {', '.join(LAYERS)}")
    desc = ffi.new("hal_open_desc *")
    desc.size = ffi.sizeof("hal_open_desc")
    desc.layers = sum(LAYERS[name] for name in {*layers, *(["mutate"] if broken_rule else [])})
    desc.flags = 0 if init else OPEN_NO_INIT
    texts = {
        "hcd_text": target.hcd_text,
        "options": target.options,
        "break_rule": broken_rule,
        "skip_rule": skipped_rule,
    }
    kept = [desc]
    for field, text in texts.items():
        if text:
            kept.append(ffi.new("char[]", text.encode()))
            setattr(desc, field, kept[-1])
    desc.hcd_bytes = len(target.hcd_text.encode())
    status, opened, text = open_port(target.path, desc)
    if status != Status.OK:
        raise PortRefused(status, text or f"the port did not open: {status_name(status)}")
    return Raw(opened, target, started=init)


def _with_class(target: Target) -> Target:
    """Add the options with which a port in Python finds its class in this process."""
    if not target.python_class or "python.hooks=" in target.options:
        return target
    from hal.port.python_hooks import option_lines

    try:
        lines = option_lines(target.python_class)
    except PortLoadError as error:
        raise PortRefused(int(Status.INVALID_VALUE), str(error)) from error
    options = "\n".join([*target.options.splitlines(), lines])
    return replace(target, options=options)


class Raw:
    """An open port as cases see it; see the module's text.

    Attributes:
        ffi: cffi's object for casts and buffers.
        target: What was opened.
        port: The `hal_port *` of libhal.
        bad_statuses: How many calls answered with an error so far.
    """

    def __init__(self, port: Any, target: Target, *, started: bool) -> None:
        self.ffi, self.lib = _native()
        self.port = port
        self.target = target
        self.bad_statuses = 0
        self.NULL = self.ffi.NULL
        self._started = started
        self._outs: dict[int, tuple[Any, int, int | None]] = {}
        self._kept: list[Any] = []
        self._functions: dict[str, Callable[..., int]] = {}
        self._owned: dict[tuple[str, int], tuple[Any, ...]] = {}

    def view(self) -> Raw:
        """Return the same port with book-keeping of its own, as another thread needs it."""
        return Raw(self.port, self.target, started=self._started)

    # ---- calls ----

    def call(self, name: str, *arguments: Any) -> int:
        """Call `interface.verb` and return its status.

        Raises:
            AssertionError: the answer is no status of the ABI.
            UsageError: there is no such function.
        """
        function = self._functions.get(name)
        if function is None:
            if name not in FUNCTION_BY_CALL:
                raise UsageError(f"the ABI has no function {name!r}")
            function = getattr(self.lib, "hal_" + name.replace(".", "_"))
            self._functions[name] = function
        notes = record.current()
        notes.call = name
        record.breadcrumb(name)
        status = int(function(self.port, *arguments))
        if record.is_traced():
            print(
                f"  {name}({', '.join(map(_shown, arguments))}) -> {status_name(status)}",
                flush=True,
            )
        if status < 0:
            self.bad_statuses += 1
        if status not in _STATUSES:
            raise AssertionError(f"{name} answered {status}, which is no status of the ABI")
        if status == Status.UNSUPPORTED and FUNCTION_BY_CALL[name].tier:
            notes.unsupported.append(name)
        if status == Status.OK:
            self._follow(name, arguments)
        return status

    def ok(self, name: str, *arguments: Any) -> None:
        """Call a function that must succeed.

        Raises:
            AssertionError: it answered anything but OK; the message has the port's own text.
        """
        status = self.call(name, *arguments)
        if status != Status.OK:
            raise AssertionError(f"{name} answered {status_name(status)}: {self.error()[2]}")

    def has(self, name: str) -> bool:
        """Tell whether the port's own table has an entry for `interface.verb`."""
        return self.entry(name) is not None

    def entry(self, name: str) -> Any | None:
        """Return the port's own function pointer, below all layers, or None when it has none."""
        interface, _, verb = name.partition(".")
        table = self.table(interface)
        if table is None:
            return None
        kind = self.ffi.typeof(table).item
        offset = self.ffi.offsetof(kind, verb)
        if offset + self.ffi.sizeof("void *") > table.size:
            return None
        pointer = getattr(table, verb)
        return pointer if pointer != self.NULL else None

    def table(self, interface: str) -> Any | None:
        """Return the port's own table of an interface, or None when the root has none."""
        root = self.root
        member = "operators" if interface == "operator" else interface
        offset = self.ffi.offsetof("hal_port_root", member)
        if offset + self.ffi.sizeof("void *") > root.size:
            return None
        table = getattr(root, member)
        return table if table != self.NULL else None

    @property
    def root(self) -> Any:
        """The port's own root, below all layers."""
        return self.lib.hal_port_raw(self.port)

    # ---- arguments ----

    def new(self, name: str, **fields: Any) -> Any:
        """Return a struct of the ABI on the host with its size set; `name` as in the registry.

        Nested structs are given as dictionaries, memory ranges as `raw.ref(...)`.
        """
        struct = self.ffi.new(f"hal_{name} *")
        kind = self.ffi.typeof(struct).item
        types = {field: found.type for field, found in kind.fields}
        if "size" in types and "size" not in fields:
            struct.size = self.ffi.sizeof(kind)
        for field, value in fields.items():
            setattr(struct, field, self._field(types[field], value))
        self._kept.append(struct)
        return struct

    def longer(self, name: str, *, tail: bytes, **fields: Any) -> Any:
        """Return a struct of a newer caller: its fields, then `tail`; its size covers both."""
        plain = self.new(name, **fields)
        size = self.ffi.sizeof(f"hal_{name}")
        store = self.keep(self.ffi.new("uint8_t[]", size + len(tail)))
        self.ffi.buffer(store)[:] = bytes(self.ffi.buffer(plain, size)) + tail
        struct = self.ffi.cast(f"hal_{name} *", store)
        struct.size = size + len(tail)
        return struct

    def _field(self, kind: Any, value: Any) -> Any:
        """Return what cffi takes for a field; buffers and texts stay alive with this object."""
        if isinstance(value, self.ffi.CData) and kind.kind == "struct":
            return value[0] if self.ffi.typeof(value).kind == "pointer" else value
        if isinstance(value, bytes) and kind.kind == "pointer":
            value = self.ffi.cast(kind, self.keep(self.ffi.new("char[]", value)))
        return self.keep(value) if isinstance(value, self.ffi.CData) else value

    def host(self, **fields: Any) -> Any:
        """Return a `hal_host *` as libhal gives it to the port: version, HCD and options."""
        texts = {"hcd_text": self.target.hcd_text, "options": self.target.options}
        given = {name: text.encode() for name, text in texts.items() if text}
        length = len(self.target.hcd_text.encode())
        version = {"abi_major": ABI_MAJOR, "abi_minor": ABI_MINOR}
        return self.new("host", **{**version, "hcd_bytes": length, **given, **fields})

    def keep(self, value: Any) -> Any:
        """Keep a cffi object alive until the case ends, and return it."""
        self._kept.append(value)
        return value

    def out(self, kind: str, *, size: int | None = None, count: int = 1) -> Any:
        """Return an out-parameter full of 0xB7 with a guard behind it.

        Args:
            kind: A C type, as `hal_memory` or `uint64_t`, or a struct of the ABI, as
                `hal_memory_figures`; a struct gets its size set.
            size: Another size for the struct's size field, to play an older caller.
            count: Length of an array.
        """
        bytes_ = self.ffi.sizeof(kind) * count
        store = self.ffi.new("uint8_t[]", bytes_ + GUARD_BYTES)
        self.ffi.buffer(store)[:] = bytes([CANARY]) * (bytes_ + GUARD_BYTES)
        pointer = self.ffi.cast(f"{kind} *", store)
        self._outs[int(self.ffi.cast("uintptr_t", pointer))] = (store, bytes_, size)
        type_ = self.ffi.typeof(kind)
        if type_.kind == "struct" and type_.fields and type_.fields[0][0] == "size":
            pointer.size = self.ffi.sizeof(kind) if size is None else size
        return pointer

    def untouched(self, out: Any) -> bool:
        """Tell whether nothing was written to an out-parameter (its size field aside)."""
        store, bytes_, _ = self._outs[int(self.ffi.cast("uintptr_t", out))]
        written = bytes(self.ffi.buffer(store))
        start = 8 if self._sized(out) else 0
        return written[start:] == bytes([CANARY]) * (bytes_ + GUARD_BYTES - start)

    def guard_intact(self, out: Any, *, from_byte: int | None = None) -> bool:
        """Tell whether nothing was written behind an out-parameter.

        Args:
            from_byte: First byte that must be untouched; default the size that was stated.
        """
        store, bytes_, size = self._outs[int(self.ffi.cast("uintptr_t", out))]
        start = from_byte if from_byte is not None else (bytes_ if size is None else size)
        tail = bytes(self.ffi.buffer(store))[start:]
        return tail == bytes([CANARY]) * len(tail)

    def ref(self, memory: int, offset_bytes: int = 0, bytes: int = 0) -> Any:  # noqa: A002
        """Return a `hal_memory_ref *`."""
        return self.ffi.new(
            "hal_memory_ref *",
            {"memory": memory, "offset_bytes": offset_bytes, "bytes": bytes},
        )

    def pointer(self, array: Any) -> Any:
        """Return the address of a NumPy array, bytearray or memoryview as `void *`."""
        view = self.keep(self.ffi.from_buffer(memoryview(array).cast("B")))
        return self.ffi.cast("void *", view)

    def outs(self, arguments: Sequence[Any]) -> list[Any]:
        """Return those arguments that `out` made."""
        pointers = [a for a in arguments if isinstance(a, self.ffi.CData)]
        known = [p for p in pointers if self.ffi.typeof(p).kind == "pointer"]
        return [p for p in known if int(self.ffi.cast("uintptr_t", p)) in self._outs]

    def _sized(self, pointer: Any) -> bool:
        kind = self.ffi.typeof(pointer).item
        return bool(kind.kind == "struct" and kind.fields and kind.fields[0][0] == "size")

    # ---- answers ----

    def error(self) -> tuple[int, int, str]:
        """Return (status, operation id, text) of the calling thread's last error."""
        out = self.new("error")
        self.lib.hal_port_last_error(self.port, out)
        text = bytes(self.ffi.buffer(out.text)).split(b"\0")[0].decode("utf-8", "replace")
        return int(out.status), int(out.operation_id), text

    def i64(self, device: int, key: str) -> int | None:
        """Return `device.get_i64`, or None when the port does not know the key."""
        out = self.ffi.new("int64_t *")
        status = self.call("device.get_i64", device, key.encode(), out)
        return int(out[0]) if status == Status.OK else None

    def text(self, device: int, key: str) -> str | None:
        """Return `device.get_str`, or None when the port does not know the key."""
        return self._text("device.get_str", device, self.ffi.new("char[]", key.encode()))

    def info(self, key: int) -> str | None:
        """Return `port.get_info`, or None when the port does not know the key."""
        return self._text("port.get_info", int(key))

    def _text(self, call: str, *arguments: Any) -> str | None:
        need = self.ffi.new("uint64_t *")
        if self.call(call, *arguments, 0, self.NULL, need) != Status.OK:
            return None
        room = self.ffi.new("char[]", int(need[0]) + 1)
        self.ok(call, *arguments, int(need[0]) + 1, room, need)
        return str(self.ffi.string(room).decode("utf-8", "replace"))

    def close(self, timeout_ns: int = CLOSE_TIMEOUT_NS) -> int:
        """Close the port object, which shuts the port down; return the status."""
        if self.port == self.NULL:
            return int(Status.OK)
        status = int(self.lib.hal_port_close(self.port, timeout_ns))
        if status == Status.OK:
            self.port = self.NULL
        return status

    # ---- what a case made ----

    def _follow(self, name: str, arguments: tuple[Any, ...]) -> None:
        """Remember what a successful call made or ended."""
        if name in _MAKERS:
            handle = int(self.ffi.cast("uint64_t", arguments[-1][0]))
            if handle:
                self._owned[_MAKERS[name], handle] = arguments
        elif name in _ENDERS:
            handle = int(self.ffi.cast("uint64_t", arguments[1 if "host" in name else 0]))
            self._owned.pop((name, handle), None)
            if name == "device.close":
                self._owned = {k: a for k, a in self._owned.items() if a[0] != handle}
        elif name in ("port.shutdown", "device.reset"):
            self._owned.clear()

    def mark(self) -> tuple[int, int]:
        """Return what `forget` needs to let go only of what comes later."""
        return len(self._outs), len(self._kept)

    def forget(self, since: tuple[int, int] = (0, 0)) -> None:
        """Let go of the host memory of calls since a mark; its outputs are no longer watched."""
        for key in list(self._outs)[since[0] :]:
            del self._outs[key]
        del self._kept[since[1] :]

    def owns(self, ender: str, handle: int) -> bool:
        """Tell whether a handle is alive as far as this object knows."""
        return (ender, handle) in self._owned

    def clean(self, *, keep: int = 0) -> list[str]:
        """End what is still there but one device; return a sentence for each that did not end."""
        failed = []
        for (ender, handle), arguments in reversed(list(self._owned.items())):
            if ender == "device.close":
                if handle == keep:
                    continue
                status = self.call(ender, handle, CLOSE_TIMEOUT_NS)
            elif ender == "memory.host_free":
                status = self.call(ender, arguments[0], self.ffi.cast("void *", handle))
            else:
                status = self.call(ender, handle)
            self._owned.pop((ender, handle), None)
            if status != Status.OK:
                failed.append(f"{ender} of a live handle answered {status_name(status)}")
        self.forget()
        return failed


def _shown(argument: Any) -> str:
    """Show an argument of a traced call."""
    if isinstance(argument, int):
        return hex(argument) if argument > 4096 else str(argument)
    return str(argument).replace("<cdata ", "<").replace("'", "")


_STATUSES = {int(status) for status in Status}
_MAKERS = {
    "device.open": "device.close",
    "memory.alloc": "memory.free",
    "memory.host_alloc": "memory.host_free",
    "memory.import_handle": "memory.free",
    "memory.wrap": "memory.free",
    "stream.create": "stream.destroy",
    "stream.wrap": "stream.destroy",
    "event.create": "event.destroy",
    "module.load": "module.unload",
    "graph.end": "graph.destroy",
}
_ENDERS = set(_MAKERS.values())
