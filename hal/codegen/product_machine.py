"""What the closed form of a matrix product needs of a chip, all from its description (HCD)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hal.dtypes import DType
from hal.sim.chip import Chip
from hal.vil.check_chip import Limits

if TYPE_CHECKING:
    from hal.codegen.target import Target
    from hal.hcd import Hcd

__all__ = ["Machine"]

PLAIN_SHAPE = (1, 1, 1)


@dataclass(frozen=True, slots=True)
class Machine:
    """Rates of one worker (a core), shared rates of the chip, and the limits of tiles.

    Attributes:
        limits: What `validate` holds a program against.
        workers: Programs that run at once.
        macs_per_s: Element type -> multiply-adds of one worker.
        shapes: Element type -> rows, columns and depth of the matrix unit's own step.
        weights: The matrix unit holds its right operand and refills for the next block.
        fill_s: Time of one refill, or of one fill of the pipe.
        load_bytes_per_s, store_bytes_per_s: Between the buffers' memory and one worker's tiles.
        setup_s: Time that starts a transfer.
        latency_s: Of the buffers' memory.
        lanes_per_s: Plain f32 operations of one worker.
        memory_bytes_per_s: Of the buffers' memory, all workers together.
        cache_bytes: Of the last cache; 0 where there is none.
        cache_bytes_per_s: Of that cache, all workers together.
        issue_s: One instruction.
        launch_s: An empty launch.
        overlap: Transfers and products run at once on one worker.
    """

    limits: Limits
    workers: int
    macs_per_s: dict[str, float]
    shapes: dict[str, tuple[int, int, int]]
    weights: bool
    fill_s: float
    load_bytes_per_s: float
    store_bytes_per_s: float
    setup_s: float
    latency_s: float
    lanes_per_s: float
    memory_bytes_per_s: float
    cache_bytes: float
    cache_bytes_per_s: float
    issue_s: float
    launch_s: float
    overlap: bool

    @staticmethod
    def of(hcd: Hcd) -> Machine:
        """Reads a description; a rate that it lacks is guessed as the timing model guesses it."""
        chip = Chip.of(hcd, allow_guesses=True)
        paths, lowest = _paths(hcd), chip.clock_hz
        load = max((p["bytes_per_cycle"] for p in paths["load"]), default=8) * lowest
        store = max((p["bytes_per_cycle"] for p in paths["store"]), default=8) * lowest
        setup = max((p.get("setup_cycles", 0) for p in paths["load"]), default=0) / lowest
        flows = [part.get("dataflow", "none") for part in _matrix_parts(hcd)]
        per_core = int(hcd.get("kernels.vil.programs_per_core", 1))
        return Machine(
            limits=Limits.of(hcd),
            workers=max(1, chip.core_count * per_core),
            macs_per_s={n: rate * lowest / per_core for n, rate in chip.macs_per_cycle.items()},
            shapes=_shapes(hcd),
            weights="weight_stationary" in flows,
            fill_s=chip.fill_cycles / lowest,
            load_bytes_per_s=load / per_core,
            store_bytes_per_s=store / per_core,
            setup_s=setup,
            latency_s=_latency_s(hcd),
            lanes_per_s=chip.lane_rate() / chip.core_count / per_core,
            memory_bytes_per_s=chip.dram_bytes_per_s,
            cache_bytes=chip.cache_bytes,
            cache_bytes_per_s=chip.cache_bytes_per_s,
            issue_s=4 / lowest,
            launch_s=chip.launch_s,
            overlap=_overlap(hcd),
        )

    @staticmethod
    def of_target(target: Target) -> Machine:
        """The machine of a target, read once; round figures for vil-core."""
        if target.hcd is None:
            return _core(target.limits)
        known = _KNOWN.get(target.sha256)
        if known is None:
            known = _KNOWN[target.sha256] = Machine.of(target.hcd)
        return known

    def rate(self, left: DType, right: DType) -> float:
        """Multiply-adds of one worker a second; vector lanes where no matrix unit takes them."""
        found = [self.macs_per_s.get(dtype.name, 0.0) for dtype in (left, right)]
        return min(found) or self.lanes_per_s / 2

    def shape(self, left: DType) -> tuple[int, int, int]:
        """Rows, columns and depth of one step of the matrix unit."""
        return self.shapes.get(left.name, PLAIN_SHAPE)

    def capacity(self, space: str) -> tuple[str, int]:
        """Where a tile with this space lies, and the bytes there (docs/vil.md, section 6.5)."""
        place = space if space in self.limits.spaces else "near"
        return place, self.limits.spaces[place][0]


_KNOWN: dict[str, Machine] = {}


def _core(limits: Limits) -> Machine:
    """Round figures of a small chip, where no description says more."""
    rates = dict.fromkeys(("f32", "f64", "f16", "bf16", "i8", "i32", "i64"), 1e10)
    return Machine(
        limits=limits,
        workers=1,
        macs_per_s=rates,
        shapes={},
        weights=False,
        fill_s=0.0,
        load_bytes_per_s=1e10,
        store_bytes_per_s=1e10,
        setup_s=1e-8,
        latency_s=1e-7,
        lanes_per_s=1e10,
        memory_bytes_per_s=1e10,
        cache_bytes=1e6,
        cache_bytes_per_s=4e10,
        issue_s=1e-8,
        launch_s=3e-6,
        overlap=False,
    )


def _latency_s(hcd: Hcd) -> float:
    return float(hcd.get(f"memory.{hcd.get('execution.buffers')}.latency_ns", 0)) * 1e-9


def _matrix_parts(hcd: Hcd) -> list[dict[str, object]]:
    return [part for part in hcd.get("compute", []) if part["kind"] == "matrix"]


def _shapes(hcd: Hcd) -> dict[str, tuple[int, int, int]]:
    found: dict[str, tuple[int, int, int]] = {}
    for part in hcd.get("compute", []):
        for operation in part["operations"] if part["kind"] == "matrix" else ():
            shape = operation.get("shape")
            if shape:
                found[str(operation["a"])] = (int(shape[0]), int(shape[1]), int(shape[2]))
    return found


def _paths(hcd: Hcd) -> dict[str, list[dict[str, float]]]:
    buffers = hcd.get("execution.buffers")
    near = {item["memory"] for item in hcd.get("kernels.vil.spaces", []) if item["id"] != "global"}
    paths = hcd.get("paths", [])
    return {
        "load": [path for path in paths if path["from"] == buffers and path["to"] in near],
        "store": [path for path in paths if path["to"] == buffers and path["from"] in near],
    }


def _overlap(hcd: Hcd) -> bool:
    units = {item["id"]: item["unit"] for item in hcd.get("kernels.vil.engines", [])}
    if hcd.get("kernels.vil.profile") != "explicit":
        return int(hcd.get("kernels.vil.programs_per_core", 1)) > 1
    return units.get("dma_in") != units.get("matrix")
