"""Energy of a model on a chip, where its description has figures.

    idle power x time + energy of each multiply-add or element + energy of each byte moved

Source: the sum over operations and bytes of Horowitz 2014 ("Computing's energy problem"). Bytes are
those of global memory; moves between near memories are taken to be part of an operation's figure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hal.sim import tables
from hal.sim.chip import element_type

if TYPE_CHECKING:
    from hal.hcd import Hcd
    from hal.sim.run import Timing


def joules(hcd: Hcd, timing: Timing) -> dict[str, float]:
    """Energy by part in joules; empty where the description has no section `energy`."""
    section: Mapping[str, Any] = hcd.get("energy", {})
    if not section:
        return {}
    kinds = {part["id"]: part["kind"] for part in hcd.get("compute", [])}
    dtype = element_type(timing.model.dtype)
    found = {"idle": float(section.get("idle_w", 0.0)) * timing.seconds}
    matrix = sum(r.flops / 2 for r in timing.rows if r.step.op in tables.MATMULS)
    lanes = sum(r.flops for r in timing.rows if r.step.op not in tables.MATMULS)
    for name, kind, work in (("matrix", "matrix", matrix), ("lanes", "vector", lanes)):
        figure = _figure(section.get("operations", []), kinds, kind, dtype)
        if figure is not None:
            found[name] = figure * 1e-12 * work
    places = {memory["id"]: memory["kind"] for memory in hcd.get("memory", [])}
    for row in section.get("memories", []):
        if places.get(row["memory"]) == "global":
            moved = sum(r.bytes for r in timing.rows)
            found["memory"] = row["energy_pj_per_byte"] * 1e-12 * moved
    return found


def _figure(rows: Any, kinds: Mapping[str, str], kind: str, dtype: str) -> float | None:
    """Picojoules of one operation of a kind: the row for the element type, else one for all."""
    general: float | None = None
    for row in rows:
        if kinds.get(row["compute"]) != kind:
            continue
        if row.get("operation") == dtype:
            return float(row["energy_pj"])
        if "operation" not in row or general is None:
            general = float(row["energy_pj"])
    return general
