"""The list schedule beside the clock: VIL programs on this machine's processor.

Half of the programs fit a cost table for the processor; the other half judge it. Both are printed,
and the median and the rank correlation of the unseen half.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.measure import Contender, Figure
from bench.schedule_fit import chip_text, fit, forecast_ns
from bench.schedule_programs import Case, cases

PROGRAMS = 400
TURNS = 3
REPEATS = 15
SECONDS_EACH = 0.05

_ONE = {
    "f32": b"\x00\x00\x80\x3f",
    "f16": b"\x00\x3c",
    "bf16": b"\x80\x3f",
    "f64": b"\x00\x00\x00\x00\x00\x00\xf0\x3f",
    "i32": b"\x01\x00\x00\x00",
    "i8": b"\x01",
}


@dataclass(frozen=True)
class Score:
    """How well forecasts meet the clock; errors are shares of the measured time."""

    mean: float
    median: float
    p90: float
    worst: float
    spearman: float


def score(forecast: np.ndarray[Any, Any], measured: np.ndarray[Any, Any]) -> Score:
    """Judge forecasts against measured times."""
    errors = np.abs(forecast / measured - 1)
    ranks = [np.argsort(np.argsort(values)) for values in (forecast, measured)]
    return Score(
        float(errors.mean()),
        float(np.median(errors)),
        float(np.quantile(errors, 0.9)),
        float(errors.max()),
        float(np.corrcoef(*ranks)[0, 1]),
    )


def measure_ns(programs: Sequence[Case]) -> np.ndarray[Any, Any]:
    """The best of several times of each program on one processor, launch to end.

    All programs are measured in turns, some time apart: a neighbour that was busy once is not
    measured twice.
    """
    return np.min([_measure_once(programs) for _ in range(TURNS)], axis=0)


def _measure_once(programs: Sequence[Case]) -> np.ndarray[Any, Any]:
    import hal

    port = hal.load_port("cpu", options={"threads": "1", "isa": "none"})
    times = []
    with port.device(0) as device:
        stream = device.stream()
        for case in programs:
            buffers = [device.alloc(dtype.bytes * count) for dtype, count in case.buffers]
            for buffer, (dtype, _) in zip(buffers, case.buffers, strict=True):
                stream.fill(buffer, _ONE[dtype.name])
            kernel = device.load(case.image)["main"]
            stream.synchronize()
            times.append(_best(kernel, stream, [*case.symbols, *buffers]))
            for buffer in buffers:
                buffer.free()
    port.close()
    return np.array(times) * 1e9


def _best(kernel: Any, stream: Any, arguments: Sequence[object]) -> float:
    """The shortest of several runs: what others on the machine take is not the program's."""
    best, end = float("inf"), time.perf_counter() + SECONDS_EACH
    for number in range(REPEATS):
        begin = time.perf_counter()
        kernel.launch(stream, *arguments)
        stream.synchronize()
        now = time.perf_counter()
        best = min(best, now - begin)
        if now > end and number >= 3:
            break
    return best


def judge(
    programs: Sequence[Case], measured: np.ndarray[Any, Any]
) -> tuple[Score, Score, dict[str, float]]:
    """Fit on the programs with even numbers, and score both halves."""
    fitted, unseen = programs[::2], programs[1::2]
    costs = fit(fitted, measured[::2])
    text = chip_text(costs)
    return (
        score(forecast_ns(fitted, text), measured[::2]),
        score(forecast_ns(unseen, text), measured[1::2]),
        costs,
    )


def figures() -> Iterator[Figure]:
    """Scores of both halves; the time of one forecast."""
    programs = cases(PROGRAMS)
    seen, unseen, _ = judge(programs, measure_ns(programs))
    for name, value, goal in (
        ("mean error, fitted half", seen.mean, ""),
        ("mean error, unseen half", unseen.mean, "at most 0.25"),
        ("median error, unseen half", unseen.median, ""),
        ("90th percentile of the error, unseen half", unseen.p90, ""),
        ("worst error, unseen half", unseen.worst, ""),
        ("1 - rank correlation, unseen half", 1 - unseen.spearman, "at most 0.15"),
    ):
        yield Figure(
            f"list schedule against the cpu port, {len(programs)} programs: {name}",
            "ratio",
            Contender("list schedule", lambda value=value: value),
            goal=goal,
            rounds=1,
        )
    yield from product_figures()
    yield forecast_figure(programs[0])


def product_figures() -> Iterator[Figure]:
    """The best VIL product on two described chips, as a share of the closed form's time."""
    from bench.schedule_products import SHAPES, ratios

    for chip in ("nvidia/a100-sxm-80gb", "nvidia/h100-sxm"):
        found = ratios(chip)
        for what, value in (("lowest", min(found)), ("highest", max(found))):
            yield Figure(
                f"best VIL product over closed form, {chip}, {len(SHAPES)} shapes: {what}",
                "ratio",
                Contender("list schedule", lambda value=value: value),
                goal="0.8 to 1.5",
                rounds=1,
            )


def forecast_figure(case: Case) -> Figure:
    """How long one forecast takes."""
    from bench.measure import per_call
    from hal.forecast import Forecaster

    chip = Forecaster()
    kernel = chip.kernel(case.image)
    return Figure(
        "forecast of one launch by the list schedule",
        "us",
        Contender(
            "list schedule", per_call(lambda: kernel.forecast(case.arguments), "us", count=50)
        ),
        goal="at most 50 us a program",
    )
