"""Time a model on a chip in timing-only mode: a table per operator, totals, utilisation, roof."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hal.errors import UsageError
from hal.sim import collective, gemm, tables, vector
from hal.sim.chip import DTYPE_BYTES, element_type
from hal.sim.model import Model, Step
from hal.sim.predict import Target

Array = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class Row:
    """The predicted time of one operator of a model.

    Attributes:
        step: The operator.
        seconds: Time of all its runs.
        flops, bytes, wire: Operations, bytes of memory, bytes over links, of all its runs.
        bound: matrix, memory, lanes, links or launch: what the time is mostly made of.
    """

    step: Step
    seconds: float
    flops: float
    bytes: float
    wire: float
    bound: str


@dataclass(frozen=True)
class Timing:
    """A model's predicted times on a chip.

    Attributes:
        model: The model.
        target: The chip and its constants.
        rows: One for each operator, in order.
    """

    model: Model
    target: Target
    rows: tuple[Row, ...]

    @property
    def seconds(self) -> float:
        """Time of the whole pass, operators one after another."""
        return sum(row.seconds for row in self.rows)

    @property
    def families(self) -> set[str]:
        """Families of constants that the operators use."""
        ops = {row.step.op for row in self.rows}
        found = {"gemm"} if ops & set(tables.MATMULS) else set()
        found |= {"collective"} if ops & set(tables.COLLECTIVES) else set()
        return found | ({"vector"} if any(map(vector.operator, ops)) else set())

    def utilisation(self) -> dict[str, float]:
        """Share of the pass at which each engine would be busy at its peak rate."""
        chip, total = self.target.chip, self.seconds
        dtype = element_type(self.model.dtype)
        peak = chip.macs_per_cycle.get(dtype)
        matrix = sum(r.flops for r in self.rows if r.step.op in tables.MATMULS)
        lanes = sum(r.flops for r in self.rows if r.step.op not in tables.MATMULS)
        wire = sum(r.wire for r in self.rows)
        link = self.target.link or chip.link
        found = {
            "matrix": matrix / chip.peak_flops(dtype) / total if peak else 0.0,
            "lanes": lanes / chip.lane_rate() / total,
            "memory": sum(r.bytes for r in self.rows) / chip.dram_bytes_per_s / total,
        }
        if link is not None and wire:
            found["links"] = wire / link.total_bytes_per_s / total
        return found


def time_model(model: Model, target: Target) -> Timing:
    """Predict every operator of a model.

    Raises:
        UsageError: an operator is unknown.
        HcdError: the chip has no matrix unit for the element type, or no links.
    """
    dtype = element_type(model.dtype)
    if dtype not in DTYPE_BYTES:
        allowed = ", ".join(sorted(DTYPE_BYTES))
        raise UsageError(f"dtype {model.dtype!r} is unknown; known are {allowed}", call=model.name)
    steps = model.steps
    seconds = np.empty(len(steps))
    groups: dict[str, list[int]] = {}
    for index, step in enumerate(steps):
        groups.setdefault("matmul" if step.op in tables.MATMULS else step.op, []).append(index)
    for op, rows in groups.items():
        seconds[rows] = _seconds(target, op, [steps[i] for i in rows], dtype, model.name)
    found = tuple(
        _row(target, step, float(time), dtype) for step, time in zip(steps, seconds, strict=True)
    )
    return Timing(model, target, found)


def _seconds(target: Target, op: str, steps: Sequence[Step], dtype: str, name: str) -> Array:
    """Seconds of one run of each of several steps of one operator."""

    def column(key: str) -> Array:
        return np.array([getattr(step, key) for step in steps], dtype=np.float64)

    if op == "matmul":
        m, n, k, batch, distinct = (column(key) for key in ("m", "n", "k", "batch", "distinct"))
        return gemm.predict_s(
            target.chip, target.constants["gemm"], m, n, k, dtype=dtype, batch=batch,
            distinct=distinct,
        )  # fmt: skip
    if op in tables.COLLECTIVES:
        return collective.predict_s(
            target.chip,
            target.constants["collective"],
            tables.COLLECTIVES[op],
            column("devices"),
            column("bytes"),
            link=target.link,
        )
    if vector.operator(op) is None:
        known = ", ".join([*tables.MATMULS, *vector.OPERATORS, *tables.COLLECTIVES])
        raise UsageError(f"the operator {op!r} is unknown; known are {known}", call=name)
    return vector.predict_s(
        target.chip, target.constants["vector"], op, column("m"), column("n"), dtype=dtype
    )


def _row(target: Target, step: Step, seconds: float, dtype: str) -> Row:
    """Work of one step and what bounds it."""
    chip, size = target.chip, DTYPE_BYTES[dtype]
    what = vector.operator(step.op)
    wire = 0.0
    if step.op in tables.MATMULS:
        flops = 2 * step.batch * step.m * step.n * step.k
        elements = step.m * step.k * step.distinct + step.k * step.n + step.m * step.n
        moved = step.batch * size * elements
        needs = {"matrix": flops / chip.peak_flops(dtype)}
    elif what is not None:
        flops = what.work * step.m * step.n
        moved = (what.reads + what.writes) * size * step.m * step.n
        needs = {"lanes": flops / chip.lane_rate()}
    else:
        flops, moved, wire = 0.0, 2 * step.bytes, 2 * step.bytes * (1 - 1 / step.devices)
        link = target.link or chip.link
        needs = {"links": wire / link.total_bytes_per_s} if link else {}
    needs["memory"] = moved / chip.dram_bytes_per_s
    bound = max(needs, key=lambda key: needs[key])
    if needs[bound] < seconds / 3:
        bound = "launch" if seconds < 5 * chip.launch_s else "latency"
    count = step.count
    return Row(step, seconds * count, flops * count, moved * count, wire * count, bound)
