"""A cost table for the processor of this machine: fitted on some programs, judged on others.

The list schedule is linear in the costs as long as one unit does everything, which is so on a
processor: the forecast with one cost at 1 ns and all others near zero is that cost's factor. The
costs are then the non-negative least squares of the relative errors, and the table that is judged
is an ordinary chip description with these costs in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bench.schedule_programs import Case
from hal import hcd
from hal.forecast import Forecaster

__all__ = ["chip_text", "fit", "forecast_ns", "names_of_costs"]

NOTHING = 1e-7
"""A cost, in ns, that stands for none."""

CYCLES_PER_NS = 100
"""The fastest clock that a description may have: costs in whole cycles are exact to 10 ps."""

ROUNDS = 6
PULL = 0.01

CLASSES = {
    "plain": ("move", "add", "mul", "fma"),
    "compare": ("compare",),
    "logic": ("logic",),
    "convert": ("convert",),
    "div": ("div",),
    "sqrt": ("sqrt",),
    "exp": ("exp",),
    "log": ("log",),
    "trig": ("trig",),
    "erf": ("erf",),
    "reduce": ("reduce",),
    "rest": ("gather", "random", "index"),
}
TYPES = {
    "f32": ("f32",),
    "f16": ("f16",),
    "bf16": ("bf16",),
    "f64": ("f64",),
    "int": ("i32", "i64", "i8", "u8", "bool"),
}
SUMS = {"f16": "f32", "bf16": "f32", "i8": "i32", "u8": "i32", "bool": "i32"}
"""Types of the sums of products, where they are not the operands'."""

SINGLE = ("launch", "issue", "latency", "load_setup", "load_byte", "store_setup", "store_byte")


def names_of_costs() -> list[str]:
    """All costs: single ones, elements by class and type, multiply-adds by type; in ns."""
    elements = [f"{kind}.{dtype}" for kind in CLASSES for dtype in TYPES]
    return [*SINGLE, *elements, *(f"mac.{dtype}" for dtype in TYPES)]


def _a_cycle(cost_ns: float) -> float:
    """How many in a cycle, when one takes `cost_ns`."""
    return 1 / (cost_ns * CYCLES_PER_NS)


def _compute(costs: Mapping[str, float]) -> dict[str, Any]:
    """Lines of `compute` with these costs."""
    lines: dict[str, Any] = {}
    latency = round(costs["latency"] * CYCLES_PER_NS)
    for name, kind in (("vector", "vector"), ("matrix", "matrix"), ("control", "scalar")):
        lines |= {
            f"compute.{name}.{key}": value
            for key, value in {"count": 1, "id": name, "kind": kind, "unit": "core"}.items()
        }
    for kind, classes in CLASSES.items():
        for group, members in TYPES.items():
            for dtype in members:
                at = f"compute.vector.operations.{kind}_{dtype}"
                lines[f"{at}.classes"] = "[" + ",".join(f'"{c}"' for c in classes) + "]"
                lines[f"{at}.dtype"] = dtype
                lines[f"{at}.lanes_per_cycle"] = _a_cycle(costs[f"{kind}.{group}"])
                lines[f"{at}.latency_cycles"] = latency
    for group, members in TYPES.items():
        for dtype in members:
            at = f"compute.matrix.operations.{dtype}"
            lines |= {f"{at}.a": dtype, f"{at}.b": dtype, f"{at}.shape": "[1,1,1]"}
            lines |= {f"{at}.acc": SUMS.get(dtype, dtype), f"{at}.out": SUMS.get(dtype, dtype)}
            lines[f"{at}.macs_per_cycle"] = _a_cycle(costs[f"mac.{group}"])
            lines[f"{at}.latency_cycles"] = latency
    at = "compute.control.operations.i64"
    lines |= {f"{at}.classes": '["index"]', f"{at}.dtype": "i64", f"{at}.latency_cycles": 0}
    lines[f"{at}.lanes_per_cycle"] = _a_cycle(costs["issue"])
    return lines


def chip_text(costs: Mapping[str, float], burst_bytes: int = 16) -> str:
    """The flat description of one core of this machine's processor with these costs."""
    lines: dict[str, Any] = {}
    for line in hcd.load("hal/cpu").flat().decode().splitlines():
        path, _, value = line.partition("\t")
        if not path.startswith(("compute.", "memory.l2.", "memory.l3.")):
            lines[path] = value
    lines |= _compute(costs)
    lines |= {"clocks.core.sustained_hz": CYCLES_PER_NS * 10**9, "units.core.count": 1}
    lines |= {"memory.dram.bandwidth_bytes_per_s": 10**14, "memory.dram.latency_ns": 0}
    lines |= {"memory.stack.latency_cycles": 0, "overheads.launch_ns": costs["launch"]}
    for way in ("load", "store"):
        lines[f"paths.{way}.setup_cycles"] = round(costs[f"{way}_setup"] * CYCLES_PER_NS)
        lines[f"paths.{way}.bytes_per_cycle"] = _a_cycle(costs[f"{way}_byte"])
        lines[f"paths.{way}.min_burst_bytes"] = burst_bytes
    return "".join(f"{path}\t{lines[path]}\n" for path in sorted(lines))


def forecast_ns(cases: Sequence[Case], text: str) -> np.ndarray[Any, Any]:
    """The list schedule's time of each program on a described chip."""
    with Forecaster(hcd.from_flat(text)) as chip:
        return np.array([chip.launch(case.image, case.arguments).time_ns for case in cases])


def _non_negative(factors: np.ndarray[Any, Any], target: np.ndarray[Any, Any]) -> Any:
    """Least squares without negative answers (Lawson and Hanson, 1974, chapter 23)."""
    scale = np.linalg.norm(factors, axis=0)
    scaled = factors / np.where(scale > 0, scale, 1)
    count = factors.shape[1]
    answer, free = np.zeros(count), np.zeros(count, dtype=bool)
    for _ in range(3 * count):
        slope = scaled.T @ (target - scaled @ answer)
        slope[free | (scale == 0)] = -np.inf
        if slope.max() <= 1e-9:
            break
        free[int(np.argmax(slope))] = True
        while True:
            wish = np.zeros(count)
            wish[free] = np.linalg.lstsq(scaled[:, free], target, rcond=None)[0]
            below = free & (wish <= 0)
            if not below.any():
                answer = wish
                break
            step = np.min(answer[below] / (answer[below] - wish[below]))
            answer += step * (wish - answer)
            free &= answer > 1e-12
            answer[~free] = 0
    return answer / np.where(scale > 0, scale, 1)


def _pull(names: Sequence[str], name: str) -> np.ndarray[Any, Any]:
    """A weak equation that draws a type's cost towards that of f32; nothing for f32 itself."""
    row = np.zeros(len(names))
    kind, _, group = name.partition(".")
    if group != "f32":
        row[names.index(name)], row[names.index(f"{kind}.f32")] = PULL, -PULL
    return row


def fit(
    cases: Sequence[Case], measured_ns: np.ndarray[Any, Any], *, burst_bytes: int = 16
) -> dict[str, float]:
    """The costs that fit best; a light pull draws each type's costs towards those of f32."""
    names = names_of_costs()
    zero = dict.fromkeys(names, NOTHING)
    factors = np.stack(
        [forecast_ns(cases, chip_text(zero | {name: 1.0}, burst_bytes)) for name in names], axis=1
    )
    rest = forecast_ns(cases, chip_text(zero, burst_bytes))  # What costs near zero add up to.
    scaled = (factors - rest[:, None]) / measured_ns[:, None]
    pulls = np.array([_pull(names, name) for name in names if name.partition(".")[2]])
    weights = np.ones(len(cases))
    for _ in range(ROUNDS):  # Least absolute errors: one odd time moves little.
        rows = np.concatenate([scaled * weights[:, None], pulls])
        found = _non_negative(rows, np.concatenate([weights, np.zeros(len(pulls))]))
        weights = 1 / np.sqrt(np.maximum(np.abs(scaled @ found - 1), 0.05))
    return {name: max(float(cost), NOTHING) for name, cost in zip(names, found, strict=True)}
