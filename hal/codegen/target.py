"""What code generation reads of a chip's description; the only place where it does."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from hal.codegen.dialect.language import near_bytes
from hal.dtypes import DType
from hal.hcd import Hcd, unit_count
from hal.ir.nodes import Schedule
from hal.vil.check_chip import Limits

__all__ = ["Target"]

NO_LIMIT = 2**31 - 1


_KEPT = "_codegen_target"
"""Where a description keeps its target: they live and die together."""


@dataclass(frozen=True)
class Target:
    """The limits and figures of one chip.

    Attributes:
        name: `vendor/product`, for messages.
        sha256: Identity of the description; empty for vil-core.
        limits: The table `kernels.vil`, as the validator reads it.
        near_bytes: Bytes of the space near that one program should use: of its memory, where
            tiles beyond it have to lie in global memory.
        workers: Cores that run programs at once.
        grid_max: Greatest grid along x, y, z.
        bandwidth_bytes_per_s: Of the global memory, all cores together.
        launch_s: Overhead of one launch.
        advice: The user's schedule for this chip, which strategies honour where they can.
        deterministic: The same bits on every run are asked for.
        hcd: The description itself; None for vil-core.
    """

    name: str = "vil-core"
    sha256: str = ""
    limits: Limits = field(default_factory=Limits)
    workers: int = 1
    grid_max: tuple[int, int, int] = (NO_LIMIT, NO_LIMIT, NO_LIMIT)
    bandwidth_bytes_per_s: float = 1e10
    launch_s: float = 3e-6
    advice: Schedule | None = None
    near_bytes: int = 1 << 20
    hcd: Hcd | None = field(default=None, repr=False, compare=False)
    data: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)
    deterministic: bool = False

    @staticmethod
    def of(hcd: Hcd | Target | None) -> Target:
        """The target of a description; None stands for vil-core, the floor of every chip.

        Raises:
            VilError: the chip does not run VIL.
        """
        if isinstance(hcd, Target):
            return hcd
        if hcd is None:
            return Target(limits=Limits())
        known: Target | None = vars(hcd).get(_KEPT)
        if known is None:
            known = vars(hcd)[_KEPT] = Target._read(hcd)
        return known

    @staticmethod
    def _read(hcd: Hcd) -> Target:
        limits = Limits.of(hcd)
        data = hcd.data
        execution = data.get("execution", {})
        most = 2**limits.grid_bits - 1
        grid = execution.get("limits", {}).get("grid_max") or [most] * 3
        x, y, z = (min(most, int(axis)) for axis in (*grid, most, most)[:3])
        memory = {item["id"]: item for item in data.get("memory", [])}
        buffers = memory.get(execution.get("buffers", ""), {})
        return Target(
            name=hcd.name,
            sha256=hcd.sha256,
            limits=limits,
            workers=unit_count(data, execution.get("core", "")),
            grid_max=(x, y, z),
            bandwidth_bytes_per_s=_bandwidth(data, buffers),
            launch_s=float(data.get("overheads", {}).get("launch_ns", 3000)) * 1e-9,
            near_bytes=_near_bytes(hcd, limits),
            hcd=hcd,
            data=data,
        )

    @property
    def features(self) -> frozenset[str]:
        """Features of kernels.vil, such as sreg_from_tile."""
        return self.limits.features

    def space(self, name: str) -> tuple[int, int]:
        """(capacity, alignment) in bytes of a space; a space that the chip lacks counts as near."""
        spaces = self.limits.spaces
        if name in spaces and name != "near":
            return spaces[name]
        return self.near_bytes, spaces.get("near", (0, 1))[1]

    def supports(self, op: str, function: str = "", *dtypes: DType) -> bool:
        """True when a row allows the operation on the type that rows judge it by.

        Args:
            dtypes: The type that the rows name (of the operand; load, fill, iota, rng, gather: of
                the result); for a cast also the result; for an mma both operands.
        """
        if self.limits.rows is None:
            return op not in ("signal", "wait")
        for row in self.limits.rows.get(op, ()):
            if function and "functions" in row and function not in row["functions"]:
                continue
            names = row.get("dtypes")
            judged = dtypes if op == "mma" else dtypes[:1]
            if names is not None and any(dtype.name not in names for dtype in judged):
                continue
            results = row.get("dtypes_to")
            if op == "cast" and len(dtypes) > 1 and results and dtypes[1].name not in results:
                continue
            return True
        return False

    def rounded_rows(self, rows: int) -> int:
        """The least legal tile height that holds `rows`, not above the chip's greatest."""
        limits = self.limits
        return _rounded(rows, limits.granule_rows, limits.max_rows)

    def rounded_columns(self, columns: int) -> int:
        """The least legal tile width that holds `columns`, not above the chip's greatest."""
        limits = self.limits
        return _rounded(columns, limits.granule_columns, limits.max_columns)

    def macs_per_s(self, a: DType, b: DType) -> float:
        """Multiply-adds per second of all matrix units; 0 where none takes the types."""
        best = 0.0
        for unit, clock, count in self._units("matrix"):
            for item in unit.get("operations", ()):
                if (item.get("a"), item.get("b")) == (a.name, b.name):
                    best = max(best, float(item["macs_per_cycle"]) * clock * count)
        return best

    def elements_per_s(self, kind: str, dtype: DType) -> float:
        """Elements per second of all vector units for a class such as `add` or `exp`; 0: none."""
        best = 0.0
        for unit, clock, count in self._units("vector"):
            for item in unit.get("operations", ()):
                if kind in item.get("classes", ()) and item.get("dtype") == dtype.name:
                    best = max(best, float(item["lanes_per_cycle"]) * clock * count)
        return best

    @cached_property
    def cache_bytes(self) -> int:
        """The smallest cache of a core, else its near space."""
        sizes = [
            int(item["capacity_bytes"])
            for item in self.data.get("memory", [])
            if item.get("kind") == "cache" and item.get("scope") == "core"
        ]
        return min([*sizes, self.near_bytes])

    def _units(self, kind: str) -> list[tuple[dict[str, Any], float, int]]:
        clocks = {c["id"]: float(c["sustained_hz"]) for c in self.data.get("clocks", [])}
        units = {u["id"]: u for u in self.data.get("units", [])}
        found = []
        for item in self.data.get("compute", []):
            if item.get("kind") != kind:
                continue
            name = item.get("unit", "")
            clock = clocks.get(units.get(name, {}).get("clock", ""), 1e9)
            found.append((item, clock, int(item.get("count", 1)) * unit_count(self.data, name)))
        return found


def _near_bytes(hcd: Hcd, limits: Limits) -> int:
    room = limits.spaces.get("near", (1 << 20, 1))[0]
    formats = hcd.data.get("kernels", {}).get("formats", [])
    only_source = all(item["format"].startswith("source.") for item in formats) and formats
    return min(room, near_bytes(hcd)) if only_source else room


def _rounded(length: int, granule: int, most: int) -> int:
    if length <= 1:
        return 1
    return min(-(-length // granule) * granule, most)


def _bandwidth(data: dict[str, Any], memory: dict[str, Any]) -> float:
    if "bandwidth_bytes_per_s" in memory:
        return float(memory["bandwidth_bytes_per_s"])
    clocks = [float(clock["sustained_hz"]) for clock in data.get("clocks", [])]
    return float(memory.get("bandwidth_bytes_per_cycle", 10)) * max([*clocks, 1e9])
