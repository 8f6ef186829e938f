"""What timing needs to know of one chip, read once from its description (HCD).

`Chip.of(hcd)` gathers the numbers, says which keys are missing, and remembers which of the keys it
read are estimates. Everything is in bytes, hertz and seconds. Immutable and thread-safe.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from hal.errors import HcdError
from hal.sim.literals import LITERALS as LIT

if TYPE_CHECKING:
    from hal.hcd import Hcd

Array = np.ndarray[Any, np.dtype[np.float64]]
DTYPE_NAMES = {
    "bfloat16": "bf16", "fp16": "f16", "half": "f16", "float16": "f16", "fp32": "f32",
    "float": "f32", "float32": "f32", "fp64": "f64", "double": "f64", "float64": "f64",
    "int8": "i8", "int32": "i32", "fp8": "f8e4m3", "float8": "f8e4m3", "e4m3": "f8e4m3",
    "mixed_fp16in_fp32acc": "f16", "fp16in_fp32acc": "f16",
}  # fmt: skip
"""Names that people write in tables, and the name that a description uses."""

DTYPE_BYTES = {
    "f64": 8, "f32": 4, "tf32": 4, "f16": 2, "bf16": 2, "f8e4m3": 1, "f8e5m2": 1,
    "i64": 8, "i32": 4, "i8": 1, "u8": 1,
}  # fmt: skip


@dataclass(frozen=True)
class Guess:
    """A key that timing needs and the description lacks.

    Attributes:
        key: The path that is missing.
        value: What would be taken for it.
        feeds: Which rows of a report it would make guesses.
    """

    key: str
    value: float
    feeds: str


@dataclass(frozen=True)
class Link:
    """All links of one kind that leave a chip, taken together.

    Attributes:
        count: Links that work side by side.
        bytes_per_s: Bandwidth of one link in one direction.
        latency_s: Time of an empty message over one hop.
        in_switch_reduce: The switch behind it can add for the chips.
        mesh_peers: Chips that the links lead to without a switch, an equal share to each; 0 where
            a switch gives all links to any group of chips.
    """

    count: int
    bytes_per_s: float
    latency_s: float
    in_switch_reduce: bool
    mesh_peers: int = 0

    @staticmethod
    def of_system(hcd: Hcd) -> Link:
        """The links that leave the first chip of a system, through its switch or to its peers.

        Raises HcdError when the description is no system, or its first chip has no link.
        """
        if hcd.kind != "system":
            raise HcdError(f"a system is needed, and this is a {hcd.kind}", call=hcd.name)
        first = hcd.ids("devices")[0]
        switches = {switch["id"]: switch for switch in hcd.get("switches", [])}
        own = [link for link in hcd.get("links", []) if first in link["ends"]]
        if not own:
            raise HcdError(f"no link ends at {first!r}", call=hcd.name)
        total, latency, reduces, peers = 0.0, 0.0, False, set()
        for link in own:
            other = next(end for end in link["ends"] if end != first)
            switch = switches.get(other)
            peers |= set() if switch else {other}
            total += link["count"] * link["bytes_per_s"]
            hop = 2 * link["latency_ns"] + switch["latency_ns"] if switch else link["latency_ns"]
            latency = max(latency, hop * 1e-9)
            reduces |= bool(switch and switch.get("in_switch_reduce", False))
        return Link(1, total, latency, reduces, len(peers))

    def among(self, count: Array) -> Array:
        """Bandwidth out of one chip to the others of a group, in bytes a second."""
        if not self.mesh_peers:
            return np.full(count.shape, self.total_bytes_per_s)
        used: Array = np.minimum(1, (count - 1) / self.mesh_peers) * self.total_bytes_per_s
        return used

    @property
    def total_bytes_per_s(self) -> float:
        """Bandwidth out of one chip, in one direction."""
        return self.count * self.bytes_per_s


@dataclass(frozen=True)
class Chip:
    """The numbers of one chip that the closed forms use.

    Attributes:
        name: `vendor/product`.
        arch: Architecture, as the description names it.
        matrix_instruction: `wide` where one instruction of a matrix unit makes at least
            4,096 sums, so that a core starts it and goes on; `narrow` otherwise.
        core_count: Cores that run programs side by side.
        clock_hz: Sustained clock of a core.
        macs_per_cycle: Element type to multiply-adds a cycle of one core's matrix units.
        lanes_per_cycle: Element type to plain operations a cycle of one core.
        function_lanes: Exponentials and the like a cycle of one core.
        dram_bytes_per_s, cache_bytes, cache_bytes_per_s: Global memory and the last cache.
        near_cache_bytes_per_cycle: Bytes a cycle that all cores together read from the shared
            cache next to them.
        load_bytes_per_cycle: Bytes a cycle that one core can take in.
        accumulator_bytes: Bytes of running sums that one core can hold.
        near_bytes: Bytes of the largest scratchpad of one core.
        fill_cycles: Cycles to fill and drain a matrix unit once.
        launch_s: Time of an empty launch on an idle chip.
        link: The links of the chip; None when it declares none.
        inputs: Paths that were read.
        estimated: Those of them whose provenance is `estimated` or untold.
        guesses: Keys that were missing and what stands for them.
    """

    name: str
    arch: str
    matrix_instruction: str
    core_count: int
    clock_hz: float
    macs_per_cycle: Mapping[str, float]
    lanes_per_cycle: Mapping[str, float]
    function_lanes: float
    dram_bytes_per_s: float
    dram_bytes: float
    cache_bytes: float
    cache_bytes_per_s: float
    near_cache_bytes_per_cycle: float
    load_bytes_per_cycle: float
    accumulator_bytes: float
    near_bytes: float
    fill_cycles: float
    launch_s: float
    link: Link | None
    inputs: tuple[str, ...] = ()
    estimated: tuple[str, ...] = ()
    guesses: tuple[Guess, ...] = field(default=())

    @property
    def estimated_share(self) -> float:
        """Share of the inputs that are estimates or guesses, 0 to 1."""
        total = len(self.inputs) + len(self.guesses)
        return (len(self.estimated) + len(self.guesses)) / total if total else 0.0

    def peak_flops(self, dtype: str) -> float:
        """Multiply and add operations a second of all matrix units in a type."""
        return 2 * self.matrix_rate(dtype) * self.core_count * self.clock_hz

    def matrix_rate(self, dtype: str) -> float:
        """Multiply-adds a cycle of one core. Raises HcdError when the chip has no such unit."""
        rate = self.macs_per_cycle.get(dtype)
        if rate is None:
            known = ", ".join(sorted(self.macs_per_cycle)) or "none"
            raise HcdError(
                f"no matrix operation takes {dtype}; the description declares {known}",
                call=self.name,
                next_step=f"Add an operation with a: {dtype} under compute, or use one of those.",
            )
        return rate

    def lane_rate(self) -> float:
        """Plain f32 operations a second of all vector lanes; of another type where f32 is not."""
        lanes = self.lanes_per_cycle.get("f32") or max(self.lanes_per_cycle.values(), default=1.0)
        return lanes * self.core_count * self.clock_hz

    @staticmethod
    def of(hcd: Hcd, *, allow_guesses: bool = False) -> Chip:
        """Gather the numbers of a chip from its resolved description.

        Args:
            hcd: A description of kind chip.
            allow_guesses: Take the guess for a key that is missing instead of refusing.

        Raises:
            HcdError: the description is no chip, or lacks keys that timing needs; the message
                names each key, the guess, and which results would be guesses.
        """
        if hcd.kind != "chip":
            raise HcdError(
                f"timing needs a chip, and this is a {hcd.kind}",
                call=hcd.name,
                next_step="Name a chip; a system is given with --system.",
            )
        reader = _Reader(hcd)
        chip = _gather(reader)
        if reader.guesses and not allow_guesses:
            lines = "; ".join(f"{g.key} (guess {g.value:g}, {g.feeds})" for g in reader.guesses)
            raise HcdError(
                f"timing needs keys that are missing: {lines}",
                call=hcd.name,
                next_step="Add them, or pass --guess to go on with the guesses.",
            )
        return chip


class _Reader:
    """Reads values of a description and notes which were read, estimated or missing."""

    def __init__(self, hcd: Hcd) -> None:
        self.hcd = hcd
        self.read: dict[str, None] = {}
        self.guesses: list[Guess] = []

    def number(self, path: str, guess: float, feeds: str) -> float:
        """The number at a path, or the guess for it, which is noted."""
        value = self.hcd.get(path)
        if value is None:
            self.guesses.append(Guess(path, guess, feeds))
            return guess
        self.read[path] = None
        return float(value)

    def estimated(self) -> tuple[str, ...]:
        """The paths read whose provenance says estimated, or says nothing."""
        found = (path for path in self.read if self.hcd.provenance(path) in ("", "estimated"))
        return tuple(sorted(found))


class _Units:
    """The tree of units: how many of each there are in the chip and in one core."""

    def __init__(self, hcd: Hcd) -> None:
        self.units = {unit["id"]: unit for unit in hcd.get("units", [])}

    def chain(self, unit: str) -> Iterable[str]:
        """The unit and those it is part of, outwards."""
        seen: set[str] = set()
        while unit in self.units and unit not in seen:
            seen.add(unit)
            yield unit
            unit = self.units[unit].get("parent", "")

    def total(self, unit: str, *, within: str = "") -> int:
        """Instances of a unit in the chip, or in one instance of the unit `within`."""
        count = 1
        for name in self.chain(unit):
            if name == within:
                break
            count *= int(self.units[name]["count"])
        return count


def _gather(reader: _Reader) -> Chip:
    hcd = reader.hcd
    units = _Units(hcd)
    core = hcd.get("execution.core") or next(
        (unit["id"] for unit in hcd.get("units", []) if unit["kind"] == "core"), ""
    )
    clock = units.units.get(core, {}).get("clock", "")
    clock_hz = reader.number(f"clocks.{clock}.sustained_hz", 1e9, "all times")
    core_count = units.total(core)
    reader.read[f"units.{core}.count"] = None
    macs, fill = _matrix(reader, units, core)
    lanes, functions = _vector(reader, units, core)
    caches = _caches(reader, units)
    memory = next((m for m in hcd.get("memory", []) if m["kind"] == "global"), {"id": "global"})
    name = f"memory.{memory['id']}"
    dram = reader.number(f"{name}.bandwidth_bytes_per_s", 1e12, "all memory-bound times")
    load = max(_load_rate(reader), dram / clock_hz / core_count)  # all cores can fill the bus
    last_bytes, last_rate = max(caches, default=_scratch(reader, units, dram / clock_hz))
    first_rate = caches[0][1] if caches else load * core_count
    launch = reader.number("overheads.launch_ns", LIT.launch_guess_ns, "all times under 20 us")
    return Chip(
        name=hcd.name,
        arch=str(hcd.get("identity.arch", "")),
        matrix_instruction="wide" if _instruction(hcd) >= LIT.wide_instruction else "narrow",
        core_count=core_count,
        clock_hz=clock_hz,
        macs_per_cycle=macs,
        lanes_per_cycle=lanes,
        function_lanes=functions,
        dram_bytes_per_s=dram,
        dram_bytes=float(memory.get("capacity_bytes", 0)),
        cache_bytes=last_bytes,
        cache_bytes_per_s=last_rate * clock_hz,
        near_cache_bytes_per_cycle=first_rate,
        load_bytes_per_cycle=max(load, first_rate / core_count),
        accumulator_bytes=_accumulator(reader),
        near_bytes=_near(reader),
        fill_cycles=fill,
        launch_s=launch * 1e-9,
        link=_link(reader),
        inputs=tuple(sorted(reader.read)),
        estimated=reader.estimated(),
        guesses=tuple(reader.guesses),
    )


def _matrix(reader: _Reader, units: _Units, core: str) -> tuple[dict[str, float], float]:
    """Multiply-adds a cycle of one core by element type, and cycles to fill and drain."""
    rates: dict[str, float] = {}
    fill = 0.0
    for part in reader.hcd.get("compute", []):
        if part["kind"] != "matrix":
            continue
        count = int(part["count"]) * units.total(part["unit"], within=core)
        for operation in part["operations"]:
            path = f"compute.{part['id']}.operations.{operation['id']}.macs_per_cycle"
            dtype = str(operation["a"])
            rate = reader.number(path, 1.0, f"all {dtype} products") * count
            rates[dtype] = max(rates.get(dtype, 0.0), rate)
            fill = max(fill, operation.get("fill_cycles", 0) + operation.get("drain_cycles", 0))
    return rates, fill


def _instruction(hcd: Hcd) -> float:
    """Sums that the largest matrix instruction makes."""
    shapes = [
        operation["shape"]
        for part in hcd.get("compute", [])
        if part["kind"] == "matrix"
        for operation in part["operations"]
        if "shape" in operation
    ]
    return max((shape[0] * shape[1] for shape in shapes), default=1)


def _vector(reader: _Reader, units: _Units, core: str) -> tuple[dict[str, float], float]:
    """Plain operations a cycle of one core by element type, and elementary functions a cycle."""
    lanes: dict[str, float] = {}
    functions = 0.0
    for part in reader.hcd.get("compute", []):
        if part["kind"] not in ("vector", "special"):
            continue
        count = int(part["count"]) * units.total(part["unit"], within=core)
        for operation in part["operations"]:
            path = f"compute.{part['id']}.operations.{operation['id']}.lanes_per_cycle"
            classes = set(operation.get("classes", []))
            rate = reader.number(path, 1.0, "exponentials and sums") * count
            if "fma" in classes or "add" in classes:
                dtype = str(operation["dtype"])
                lanes[dtype] = max(lanes.get(dtype, 0.0), rate)
            if "exp" in classes:
                functions = max(functions, rate)
    return lanes, functions or max(lanes.values(), default=1.0) / LIT.plain_per_function


def _caches(reader: _Reader, units: _Units) -> list[tuple[float, float]]:
    """Shared caches as (bytes, bytes a cycle) of the chip, the one next to the cores first."""
    found = []
    for memory in reader.hcd.get("memory", []):
        if memory["kind"] != "cache" or units.units.get(memory["scope"], {}).get("kind") not in (
            "chip",
            "cluster",
        ):
            continue
        count = units.total(memory["scope"])
        path = f"memory.{memory['id']}"
        size = reader.number(f"{path}.capacity_bytes", 1e6, "products that fit the cache")
        rate = reader.number(f"{path}.bandwidth_bytes_per_cycle", 1e3, "cache-bound times")
        found.append((size * count, rate * count))
    return sorted(found)


def _scratch(reader: _Reader, units: _Units, dram_rate: float) -> tuple[float, float]:
    """Scratchpads big enough to stand for a cache, as (bytes, bytes a cycle) of the chip."""
    best = (0.0, dram_rate)
    for memory in reader.hcd.get("memory", []):
        if memory["kind"] == "scratchpad" and memory["capacity_bytes"] >= LIT.scratch_cache_bytes:
            count = units.total(memory["scope"])
            size = float(memory["capacity_bytes"]) * count
            reader.read[f"memory.{memory['id']}.capacity_bytes"] = None
            best = max(best, (size, float(memory["bandwidth_bytes_per_cycle"]) * count))
    return best


def _load_rate(reader: _Reader) -> float:
    """Bytes a cycle that one core can take from global memory, the best of its paths."""
    kinds = {memory["id"]: memory["kind"] for memory in reader.hcd.get("memory", [])}
    rates = [
        reader.number(f"paths.{path['id']}.bytes_per_cycle", 64, "operand-bound times")
        for path in reader.hcd.get("paths", [])
        if kinds.get(path["from"]) == "global" and kinds.get(path["to"]) != "host"
    ]
    return max(rates, default=LIT.load_guess_bytes)


def _accumulator(reader: _Reader) -> float:
    """Bytes of running sums a core holds: its accumulator memory, or half its registers."""
    sizes = {"accumulator": 0.0, "register": 0.0}
    for memory in reader.hcd.get("memory", []):
        if memory["kind"] in sizes:
            reader.read[f"memory.{memory['id']}.capacity_bytes"] = None
            sizes[memory["kind"]] += float(memory["capacity_bytes"])
    if sizes["accumulator"]:
        return sizes["accumulator"]
    return max(sizes["register"] / 2, LIT.accumulator_least_bytes)


def _near(reader: _Reader) -> float:
    """Bytes of the largest scratchpad of a core."""
    return max(
        (
            reader.number(f"memory.{m['id']}.capacity_bytes", 65536, "long rows")
            for m in reader.hcd.get("memory", [])
            if m["kind"] == "scratchpad"
        ),
        default=LIT.accumulator_least_bytes,
    )


def _link(reader: _Reader) -> Link | None:
    """The fastest kind of link that leaves the chip."""
    best: Link | None = None
    for item in reader.hcd.get("links", []):
        path = f"links.{item['id']}"
        link = Link(
            count=int(item["count"]),
            bytes_per_s=reader.number(f"{path}.bytes_per_s", 1e9, "collectives"),
            latency_s=reader.number(f"{path}.latency_ns", 1e3, "collectives") * 1e-9,
            in_switch_reduce=bool(item.get("in_switch_reduce", False)),
        )
        if best is None or link.total_bytes_per_s > best.total_bytes_per_s:
            best = link
    return best


def element_type(name: Any) -> str:
    """The name that descriptions use for an element type of a table; unknown names stay."""
    text = str(name).strip().lower()
    first = text.split("(")[0].split()[0] if text else ""
    return DTYPE_NAMES.get(first, first)
