"""A model's predicted times as a Chrome trace: one stream, and a track for each engine.

Perfetto and chrome://tracing open it. On the track of an engine an operator's span is as long as
the engine would need at its peak rate, so that gaps show what waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hal.sim import tables
from hal.sim.chip import element_type

if TYPE_CHECKING:
    from hal.sim.run import Row, Timing

TRACKS = ("stream 0", "matrix", "lanes", "memory", "links")


def chrome(timing: Timing) -> dict[str, Any]:
    """The trace as the JSON object of the Trace Event Format; times in microseconds."""
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": 0, "args": {"name": timing.target.chip.name}}
    ]
    for place, name in enumerate(TRACKS):
        events.append(
            {"ph": "M", "name": "thread_name", "pid": 0, "tid": place, "args": {"name": name}}
        )
    now = 0.0
    for row in timing.rows:
        step = row.step
        about: dict[str, Any] = {
            "op": step.op, "m": step.m, "n": step.n, "k": step.k, "batch": step.batch,
            "times": step.count, "bound by": row.bound, "stream": 0,
        }  # fmt: skip
        events.append(_span(row.step.name, "kernel", 0, now, row.seconds, about))
        for track, seconds in _engines(timing, row).items():
            share = {"utilisation": seconds / row.seconds}
            events.append(_span(step.name, "engine", TRACKS.index(track), now, seconds, share))
        now += row.seconds
    rank = {"rank": 0}  # Holistic Trace Analysis reads a file as one rank's.
    return {"traceEvents": events, "displayTimeUnit": "ms", "distributedInfo": rank}


def _span(
    name: str, category: str, track: int, start_s: float, seconds: float, about: dict[str, Any]
) -> dict[str, Any]:
    return {
        "ph": "X", "name": name, "cat": category, "pid": 0, "tid": track, "ts": start_s * 1e6,
        "dur": seconds * 1e6, "args": about,
    }  # fmt: skip


def _engines(timing: Timing, row: Row) -> dict[str, float]:
    """Seconds that each engine needs for an operator at its peak rate, those that work alone."""
    chip = timing.target.chip
    link = timing.target.link or chip.link
    product = row.step.op in tables.MATMULS
    rate = chip.peak_flops(element_type(timing.model.dtype)) if product else chip.lane_rate()
    found = {"matrix" if product else "lanes": row.flops / rate}
    found["memory"] = row.bytes / chip.dram_bytes_per_s
    if link is not None:
        found["links"] = row.wire / link.total_bytes_per_s
    return {name: min(seconds, row.seconds) for name, seconds in found.items() if seconds > 0}
