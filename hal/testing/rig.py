"""A port, one of its devices, and the few steps that almost every case needs.

memory = rig.memory(1024)
rig.upload(memory, data)
assert rig.download(memory, 1024) == data
rig.refuse("memory.free", 0, status=Status.INVALID_HANDLE)
"""

from __future__ import annotations

import builtins
import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from hal.testing import programs, record
from hal.testing.abi import Argument, Copy, EventFlag, Status, status_name
from hal.testing.images import as_loaded

if TYPE_CHECKING:
    from hal.testing.raw import Raw

__all__ = ["LONG_NS", "Rig", "check_health", "in_use_bytes"]

LONG_NS = 10_000_000_000
"""A wait that no honest port needs: 10 s."""


class Rig:
    """What a case works on.

    Attributes:
        raw: The port, with or without layers.
        device: An open device's handle.
        index: Which device it is.
        is_layer: Whether refusals must come from the validate layer and never reach the port.
    """

    def __init__(self, raw: Raw, device: int, index: int = 0, *, is_layer: bool = False) -> None:
        self.raw = raw
        self.device = device
        self.index = index
        self.is_layer = is_layer

    # ---- making things ----

    def memory(self, bytes: int, *, alignment: int = 0, flags: int = 0) -> int:  # noqa: A002
        """Return a new buffer's handle; it ends with the case."""
        desc = self.raw.new("memory_desc", bytes=bytes, alignment_bytes=alignment, flags=int(flags))
        return self._made("memory.alloc", "hal_memory", self.device, desc)

    def stream(self) -> int:
        """Return a new stream's handle; it ends with the case."""
        return self._made("stream.create", "hal_stream", self.device, 0)

    def event(self, flags: int = 0) -> int:
        """Return a new event's handle; it ends with the case."""
        return self._made("event.create", "hal_event", self.device, int(flags))

    def module(self, image: bytes) -> int:
        """Return a loaded module's handle; it ends with the case."""
        return self._made("module.load", "hal_module", self.device, self.module_desc(image))

    def module_desc(
        self,
        image: bytes,
        *,
        format: str | None = None,  # noqa: A002
        like: bytes | None = None,
    ) -> Any:
        """Return a `hal_module_desc *` for a VIL image, in the form that the chip loads.

        Args:
            format: What the descriptor says; the chip's own format by default.
            like: The image before it was damaged.
        """
        name, data = as_loaded(image, like)
        said = name if format is None else format
        return self.raw.new("module_desc", format=said.encode(), image=data, image_bytes=len(data))

    def kernel(self, module: int, name: str) -> int:
        """Return the handle of a module's kernel."""
        return self._made("module.get_kernel", "hal_kernel", module, name.encode())

    def _made(self, call: str, kind: str, *arguments: Any) -> int:
        out = self.raw.out(kind)
        self.raw.ok(call, *arguments, out)
        handle = int(out[0])
        if handle == 0 or self.raw.untouched(out):
            raise AssertionError(f"{call} answered OK and gave no handle")
        return handle

    # ---- moving bytes ----

    def copy_desc(self, kind: Copy, **fields: Any) -> Any:
        """Return a `hal_copy_desc *`."""
        return self.raw.new("copy_desc", kind=int(kind), **fields)

    def upload(self, memory: int, data: Any, *, offset: int = 0, stream: int = 0) -> None:
        """Copy host bytes to a buffer; without a stream it waits for the end."""
        data = bytes(data) if not hasattr(data, "nbytes") else data
        size = len(memoryview(data).cast("B"))
        if size:
            desc = self.copy_desc(
                Copy.HOST_TO_DEVICE,
                target=self.raw.ref(memory, offset, size),
                host_source=self.raw.pointer(data),
            )
            self._enqueue("transfer.copy", stream, desc)

    def download(self, memory: int, bytes: int, *, offset: int = 0) -> bytes:  # noqa: A002
        """Return bytes of a buffer once the copy is through."""
        host = bytearray(b"\xb7" * bytes)
        if bytes:
            desc = self.copy_desc(
                Copy.DEVICE_TO_HOST,
                source=self.raw.ref(memory, offset, bytes),
                host_target=self.raw.pointer(host),
            )
            self._enqueue("transfer.copy", 0, desc)
        return builtins.bytes(host)

    def fill(self, memory: int, pattern: bytes, count: int, *, offset: int = 0) -> None:
        """Repeat a pattern `count` times and wait for the end."""
        range_ = self.raw.ref(memory, offset, len(pattern) * count)
        self._enqueue("transfer.fill", 0, range_, pattern, len(pattern))

    def _enqueue(self, call: str, stream: int, *arguments: Any) -> None:
        own = stream or self.stream()
        self.raw.ok(call, own, *arguments)
        if not stream:
            self.wait(own)
            self.raw.ok("stream.destroy", own)

    def wait(self, stream: int, timeout_ns: int = LONG_NS) -> None:
        """Wait for a stream."""
        self.raw.ok("stream.synchronize", stream, timeout_ns)

    def copy(self, stream: int, source: int, target: int, bytes: int) -> None:  # noqa: A002
        """Enqueue a copy from the start of one buffer to the start of another."""
        desc = self.copy_desc(
            Copy.DEVICE_TO_DEVICE,
            source=self.raw.ref(source, 0, bytes),
            target=self.raw.ref(target, 0, bytes),
        )
        self.raw.ok("transfer.copy", stream, desc)

    @contextlib.contextmanager
    def held(self, stream: int) -> Iterator[int]:
        """Hold a stream back: what is enqueued inside runs only after the block.

        It waits for a host-signalled event, which is yielded and signalled at the end.
        """
        gate = self.event(EventFlag.HOST)
        self.raw.ok("stream.wait_event", stream, gate)
        try:
            yield gate
        finally:
            self.raw.ok("event.signal", gate, 0)

    # ---- asking ----

    def info(self, memory: int) -> Any:
        """Return a buffer's `hal_memory_facts`."""
        out = self.raw.out("hal_memory_facts")
        self.raw.ok("memory.info", memory, out)
        return out

    def stats(self) -> Any:
        """Return the device's `hal_memory_figures`."""
        out = self.raw.out("hal_memory_figures")
        self.raw.ok("memory.stats", self.device, out)
        return out

    def native(self, memory: int) -> int | None:
        """Return the runtime's own handle of a buffer, or None when the port shows none."""
        out = self.raw.out("uint64_t")
        status = self.raw.call("memory.native_handle", memory, out)
        return int(out[0]) if status == Status.OK else None

    def aligned(self, offset: int) -> int:
        """Return the first offset from this one on that the device allows in a range."""
        step = max(1, self.raw.i64(self.device, "device.offset_alignment_bytes") or 1)
        return -(-offset // step) * step

    # ---- handles that are none ----

    def no_device(self, kind: str) -> int:
        """Return a handle that is no device: zero, invented, closed, or a stream's."""
        if kind == "closed":
            out = self.raw.out("hal_device")
            self.raw.ok("device.open", self.index, out)
            self.raw.ok("device.close", int(out[0]), LONG_NS)
            return int(out[0])
        return self._no_handle(kind)

    def no_memory(self, kind: str) -> int:
        """Return a handle that is no buffer: zero, invented, freed, or a device's."""
        if kind == "freed":
            return self._ended("memory.free", self.memory(64))
        return self._no_handle(kind)

    def no_stream(self, kind: str) -> int:
        """Return a handle that is no stream: zero, invented, destroyed, or a device's."""
        if kind == "destroyed":
            return self._ended("stream.destroy", self.stream())
        return self._no_handle(kind)

    def no_event(self, kind: str) -> int:
        """Return a handle that is no event: zero, invented, destroyed, or a stream's."""
        if kind == "destroyed":
            return self._ended("event.destroy", self.event())
        return self._no_handle(kind)

    def no_module(self, kind: str) -> int:
        """Return a handle that is no module: zero, invented, unloaded, or a stream's."""
        if kind == "unloaded":
            return self._ended("module.unload", self.module(programs.add_one()))
        return self._no_handle(kind)

    def no_kernel(self, kind: str) -> int:
        """Return a handle that is no kernel: zero, invented, an unloaded module's, a stream's."""
        if kind == "unloaded":
            module = self.module(programs.add_one())
            kernel = self.kernel(module, "add_one")
            self._ended("module.unload", module)
            return kernel
        return self._no_handle(kind)

    def second(self) -> Rig:
        """Open the same device again: another handle, which shares no object with this one."""
        return Rig(self.raw, self._made("device.open", "hal_device", self.index), self.index)

    def _ended(self, call: str, handle: int) -> int:
        self.raw.ok(call, handle)
        return handle

    def _no_handle(self, kind: str) -> int:
        made = {"a device's": lambda: self.device, "a stream's": self.stream}
        if kind in made:
            return made[kind]()
        return {"zero": 0, "invented": 0x5A5A_5A5A_5A5A_5A5A}[kind]

    # ---- launching ----

    def launch_desc(self, arguments: list[dict[str, Any]], grid: tuple[int, ...] = (1,)) -> Any:
        """Return a `hal_launch_desc *`; arguments as dictionaries of `hal_argument`."""
        ffi = self.raw.ffi
        array = ffi.new("hal_argument[]", arguments) if arguments else ffi.NULL
        lengths = [*grid, 1, 1][:3]
        return self.raw.new(
            "launch_desc", grid=lengths, argument_count=len(arguments), arguments=array
        )

    def buffer(self, memory: int, bytes: int, *, offset: int = 0) -> dict[str, Any]:  # noqa: A002
        """Return a kernel argument: a range of a buffer."""
        place = {"memory": memory, "offset_bytes": offset, "bytes": bytes}
        return {"kind": int(Argument.BUFFER), "buffer": place}

    def scalar(self, kind: int, value: float) -> dict[str, Any]:
        """Return a kernel argument: a number of one of `Argument`'s scalar kinds."""
        return {"kind": int(kind), "scalar": scalar_bits(int(kind), value)}

    def program(self, image: bytes, name: str) -> int:
        """Load an image and return the handle of one of its kernels."""
        return self.kernel(self.module(image), name)

    def launch(
        self, stream: int, kernel: int, *arguments: dict[str, Any], grid: tuple[int, ...] = (1,)
    ) -> None:
        """Enqueue a launch."""
        self.raw.ok("launch.launch", stream, kernel, self.launch_desc([*arguments], grid))

    def symbol(self, value: int) -> dict[str, Any]:
        """Return a kernel argument: a symbol's value."""
        return self.scalar(Argument.I64, value)

    def numbers(self, values: Any, *, dtype: str = "<i4") -> int:
        """Return a new buffer that holds numbers."""
        import numpy as np

        data = np.asarray(values, dtype)
        memory = self.memory(data.nbytes)
        self.upload(memory, data)
        return memory

    def read(self, memory: int, count: int, *, dtype: str = "<i4") -> list[Any]:
        """Return the first numbers of a buffer."""
        import numpy as np

        size = np.dtype(dtype).itemsize * count
        return list(np.frombuffer(self.download(memory, size), dtype).tolist())

    def fault(self, stream: int) -> None:
        """Enqueue a kernel that reads outside its buffer: it fails while it runs."""
        kernel = self.program(programs.outside(), "outside")
        source, target = self.numbers([1]), self.numbers([2])
        buffers = self.buffer(source, 4), self.buffer(target, 4)
        self.launch(stream, kernel, self.symbol(1 << 40), *buffers)

    def failed_stream(self) -> int:
        """Return a stream whose first operation has failed."""
        stream = self.stream()
        self.fault(stream)
        status = self.raw.call("stream.synchronize", stream, LONG_NS)
        assert status_name(status) == "EXECUTION_FAILED"
        return stream

    # ---- refusals ----

    def refuse(self, call: str, *arguments: Any, status: int) -> None:
        """Check everything that a negative case owes.

        The call answers exactly `status`, leaves out-parameters alone, records its status and a
        text in the thread's last error, takes no device memory, and the device still works. On
        the layer the text names a rule of the case: the layer refused, the port was not asked.
        """
        raw = self.raw
        before = in_use_bytes(raw, self.device)
        answer = raw.call(call, *arguments)
        if answer == status == Status.UNSUPPORTED:
            record.current().unsupported.clear()
        error = raw.error()
        assert status_name(answer) == status_name(status), f"{call}: {error[2]}"
        for out in raw.outs(arguments):
            assert raw.untouched(out), f"{call} failed and wrote its output (HAL-ABI-012)"
        if status < 0:
            assert status_name(error[0]) == status_name(status), f"{call}: last_error's status"
            assert error[2] != "", f"{call} failed and left no text (HAL-ABI-005)"
        rules = record.current().rules
        if self.is_layer and rules:
            stopped = any(f"({rule})" in error[2] for rule in rules)
            assert stopped, f"{call} reached the port, whose text is: {error[2]}"
        assert in_use_bytes(raw, self.device) == before, f"{call} failed and kept memory"
        check_health(raw, self.device)


def scalar_bits(kind: int, value: float) -> int:
    """Return the 64 bits in which `hal_argument.scalar` carries a number."""
    import struct

    packing = {2: "<i", 3: "<q", 4: "<f", 5: "<d"}[kind]
    return int.from_bytes(struct.pack(packing, value), "little")


def in_use_bytes(raw: Raw, device: int) -> int:
    """Return the device's `in_use_bytes`, or -1 when the port does not tell."""
    out = raw.ffi.new("hal_memory_figures *")
    out.size = raw.ffi.sizeof("hal_memory_figures")
    status = raw.call("memory.stats", device, out)
    return int(out.in_use_bytes) if status == Status.OK else -1


def check_health(raw: Raw, device: int) -> None:
    """Check that a device still does work: allocate, fill, copy back, compare, free.

    Raises:
        AssertionError: a step failed or the bytes are wrong.
    """
    probe = Rig(raw, device)
    memory = probe.memory(64)
    probe.fill(memory, b"\x5a", 64)
    got = probe.download(memory, 64)
    assert got == b"\x5a" * 64, "the device no longer moves bytes after an error"
    raw.ok("memory.free", memory)
