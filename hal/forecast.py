"""The simulated chip's own forecasts: the list schedule of a launch, and collectives as events.

    with Forecaster("nvidia/a100-sxm-80gb") as chip:
        forecast = chip.launch(module, [256, 256, 256, 4 * 65536, 4 * 65536, 4 * 65536])
        forecast.time_ns, forecast.bound

Nothing runs and no memory is used: a buffer argument is its number of bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from hal.errors import PortLoadError, UsageError
from hal.hcd import Hcd
from hal.port import description
from hal.port.discovery import DEFAULT_PORT, candidates, parse_spec
from hal.port.native import CData, fail, ffi, last_error, lib, open_port
from hal.vil import Module, decode

__all__ = ["BOUNDS", "Forecast", "Forecaster", "Kernel"]

CLOSE_TIMEOUT_NS = 10_000_000_000

BOUNDS = (
    "nothing",
    "dma_in",
    "dma_out",
    "vector",
    "matrix",
    "scalar",
    "order",
    "memory",
    "cache",
)
"""What a launch's time stands at, by number: an engine, the order of engines, a shared memory."""

_KIND = {"buffer": 1, "i32": 2, "i64": 3, "f32": 4, "f64": 5}


@dataclass(frozen=True, slots=True)
class Forecast:
    """One launch in virtual time; `sim/extension.h` lists the numbers.

    Attributes:
        time_ns: The whole launch.
        overhead_ns: Of that, before the first program starts.
        core_ns: What the cores take without the limits of shared memories.
        memory_ns: What the buffers' memory takes alone.
        cache_ns: What the shared cache takes alone.
        dma_in_ns: Busy time of this engine, summed over the programs; the others alike.
        loaded_bytes: From buffers to cores, whole bursts.
        memory_bytes: What the buffers' memory moves of all loads and stores.
        macs: Multiply-adds on valid elements.
        bound: Index into `BOUNDS`.
        open_counts: Loops whose count depends on data; 8 turns are assumed.
        open_branches: IFs that depend on data; taken.
        sampled_axes: Grid axes of which only some programs were looked at.
        mean_loops: Loops without a steady state.
        guesses: Rates of the chip that stand for absent ones.
    """

    time_ns: float
    overhead_ns: float
    core_ns: float
    memory_ns: float
    cache_ns: float
    dma_in_ns: float
    dma_out_ns: float
    vector_ns: float
    matrix_ns: float
    scalar_ns: float
    loaded_bytes: float
    stored_bytes: float
    memory_bytes: float
    macs: float
    vector_elements: float
    instructions: float
    programs: float
    classes: float
    cores_used: float
    bound: float
    open_counts: float
    open_branches: float
    sampled_axes: float
    mean_loops: float
    guesses: float

    @property
    def bound_name(self) -> str:
        """What the time stands at."""
        return BOUNDS[int(self.bound)]


class Forecaster:
    """The simulated port with one chip or system, opened for forecasts alone."""

    def __init__(self, hcd: Hcd | str = "") -> None:
        """Open the port.

        Args:
            hcd: A chip or system, or its file or shipped name; empty for the port's own example.

        Raises:
            HcdError: the description is wrong.
            PortLoadError: the simulated port is not there, or the description lacks what timing
                needs.
        """
        self._port = _open(hcd)
        device = ffi.new("hal_device *")
        self._check(lib.hal_device_open(self._port, 0, device), "device.open")
        self._device = device[0]
        self._schedule = self._function(
            b"sim.schedule", "int32_t(*)(uint64_t, void *, uint32_t, double *)"
        )
        self._all_reduce = self._function(
            b"sim.collective",
            "int32_t(*)(uint32_t, double, uint32_t, double, double, double *, double *)",
        )

    def _function(self, name: bytes, kind: str) -> CData:
        table = ffi.new("const void **")
        self._check(lib.hal_port_get_extension(self._port, name, 1, table), "port.get_extension")
        # A table is its size, then its function.
        return ffi.cast(kind, ffi.cast("void **", table[0])[1])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the device and the port. Closing twice is fine."""
        if self._port != ffi.NULL:
            lib.hal_device_close(self._port, self._device, CLOSE_TIMEOUT_NS)
            lib.hal_port_close(self._port, CLOSE_TIMEOUT_NS)
            self._port = ffi.NULL

    def _check(self, status: int, call: str) -> None:
        if status:
            fail(self._port, status, call)

    def _fail(self, what: str) -> UsageError:
        return UsageError(f"{what}: {last_error(self._port)[2]}")

    def kernel(self, image: bytes, name: str = "main", *, known: Module | None = None) -> Kernel:
        """Load a VIL image and return one of its kernels.

        Args:
            known: What the image was written from, where it is at hand; else it is read.

        Raises:
            UsageError: the chip does not take the module.
        """
        data, form = ffi.from_buffer(image), ffi.new("char[]", b"vil.v1")
        desc = ffi.new("hal_module_desc *")
        desc.size = ffi.sizeof("hal_module_desc")
        desc.format, desc.image, desc.image_bytes = form, data, len(image)
        module = ffi.new("hal_module *")
        if lib.hal_module_load(self._port, self._device, desc, module):
            raise self._fail("the module is not loaded")
        kernel = ffi.new("hal_kernel *")
        if lib.hal_module_get_kernel(self._port, module[0], name.encode(), kernel):
            raise self._fail("the kernel is not there")
        found = decode(image) if known is None else known
        signature = next(k for k in found.kernels if k.name == name)
        kinds = [
            a.dtype.name if a.kind == "scalar" and a.dtype else "buffer" if a.dtype else "i64"
            for a in signature.arguments
        ]
        workspace = bool(signature.workspaces)
        return Kernel(self, kernel[0], [*kinds, *(["buffer"] if workspace else [])])

    def launch(self, image: bytes, arguments: Sequence[float], **options: Any) -> Forecast:
        """Forecast a launch of the kernel `main`; see `Kernel.forecast`."""
        return self.kernel(image).forecast(arguments, **options)

    def all_reduce(
        self,
        ranks: int,
        payload_bytes: float,
        *,
        algorithm: str = "ring",
        link_bytes_per_s: float = 0,
        link_latency_ns: float = 0,
    ) -> tuple[float, int]:
        """Return the time in ns and the number of messages of one all-reduce.

        Args:
            ranks: Chips; each has a link to the next, or the loaded system's links.
            payload_bytes: On every chip.
            algorithm: `ring` or `doubling`.
            link_bytes_per_s: Of each link; 0 takes the system's.
            link_latency_ns: Of each link.

        Raises:
            UsageError: the ranks, the algorithm or the links do not fit.
        """
        numbers = ffi.new("double[2]")
        algorithms = {"ring": 0, "doubling": 1}
        if algorithm not in algorithms:
            raise UsageError(f"there is no algorithm {algorithm!r}; ring and doubling exist")
        status = self._all_reduce(
            ranks,
            payload_bytes,
            algorithms[algorithm],
            link_bytes_per_s,
            link_latency_ns,
            numbers,
            numbers + 1,
        )
        if status:
            raise self._fail("no all-reduce")
        return numbers[0], int(numbers[1])


class Kernel:
    """A kernel on a chip whose launches are forecast."""

    def __init__(self, owner: Forecaster, handle: int, kinds: Sequence[str]) -> None:
        self._owner = owner
        self._handle = handle
        self._kinds = tuple(kinds)
        self._arguments = ffi.new("hal_argument[]", max(len(kinds), 1))
        self._desc = ffi.new("hal_launch_desc *")
        self._desc.size = ffi.sizeof("hal_launch_desc")
        self._desc.argument_count, self._desc.arguments = len(kinds), self._arguments
        self._numbers = ffi.new("double[]", len(Forecast.__slots__))

    def forecast(
        self, arguments: Sequence[float], *, grid: tuple[int, int, int] = (1, 1, 1)
    ) -> Forecast:
        """Forecast one launch.

        Args:
            arguments: In the signature's order: values of symbols and scalars, bytes of buffers
                (of the workspace block too).
            grid: For launches that leave it to the caller.

        Raises:
            UsageError: the launch is refused; the message has the port's reason.
        """
        if len(arguments) != len(self._kinds):
            raise UsageError(f"{len(self._kinds)} arguments are taken, {len(arguments)} given")
        for slot, kind, value in zip(self._arguments, self._kinds, arguments, strict=False):
            slot.kind = _KIND[kind]
            if kind == "buffer":
                slot.buffer.bytes = int(value)
            elif kind in ("f32", "f64"):
                code = "<f" if kind == "f32" else "<d"
                slot.scalar = int.from_bytes(struct.pack(code, value), "little")
            else:
                slot.scalar = int(value) & (2**64 - 1)
        for axis in range(3):
            self._desc.grid[axis] = grid[axis]
        status = self._owner._schedule(self._handle, self._desc, len(self._numbers), self._numbers)
        if status:
            raise self._owner._fail("no forecast")
        return Forecast(*self._numbers)


def _open(hcd: Hcd | str) -> CData:
    """The simulated port with a description, below all layers."""
    found = next((c for c in candidates(parse_spec(DEFAULT_PORT)) if c.path is not None), None)
    if found is None:
        raise PortLoadError(
            "the simulated port is not installed",
            call="forecast",
            next_step="'hal doctor' looks at the installation.",
        )
    chip = hcd if isinstance(hcd, Hcd) else description.load_description(hcd or str(found.hcd))
    text = description.flat_text(chip)
    kept = ffi.from_buffer(text)
    desc = ffi.new("hal_open_desc *")
    desc.size = ffi.sizeof("hal_open_desc")
    desc.hcd_text, desc.hcd_bytes = ffi.cast("char *", kept), len(text)
    assert found.path is not None
    status, opened, why = open_port(found.path, desc)
    if status:
        why = why or "it gave no reason"
        raise PortLoadError(
            f"{chip.name} cannot be forecast: {why}",
            call="forecast",
            next_step="Add to its description what it lacks.",
            reasons=[why],
            status=status,
        )
    return opened
