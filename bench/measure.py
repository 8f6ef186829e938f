"""How every figure is measured: ours, the peers and the physical limit, in turns, in one run.

Machines are shared and noisy, so a single time says little and a ratio of two times taken apart
says nothing. Each round takes one sample of every contender, in an order that rotates from round to
round; a figure is the best sample of each and the ratio of those. The median is kept beside it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import repeat

ROUNDS = 9
"""Rounds of a figure; never fewer than seven where a sample takes well under a second."""

Sample = Callable[[], float]

SPIN_S = 0.15
"""Longer than threads look for work after a call: OpenMP's 15 ms, OpenBLAS's 105 ms."""

SCALE = {"ns": 1e9, "us": 1e6, "ms": 1e3, "s": 1.0}
"""How many of the unit are in a second."""


@dataclass(frozen=True)
class Contender:
    """Something that is measured: its name, with a version where it has one, and its sample."""

    name: str
    sample: Sample


@dataclass
class Figure:
    """One question: how fast is ours beside the best peer and the limit?

    unit: ns, us, ms, s or cycles, where less is better, or a rate (GB/s), where more is better.
    goal: what the design asks for, in words. absent: peers that are not installed here.
    """

    name: str
    unit: str
    ours: Contender
    peers: list[Contender] = field(default_factory=list)
    limit: Contender | None = None
    absent: list[str] = field(default_factory=list)
    goal: str = ""
    rounds: int = ROUNDS

    @property
    def less_is_better(self) -> bool:
        """Whether the unit is a time, on a clock or in cycles."""
        return self.unit in SCALE or self.unit == "cycles"


def per_call(call: Callable[[], object], unit: str, *, count: int) -> Sample:
    """Make a sample: the time of one call, averaged over `count` calls in a row."""

    def sample() -> float:
        begin = time.perf_counter()
        for _ in repeat(None, count):
            call()
        return (time.perf_counter() - begin) / count * SCALE[unit]

    return sample


def rate(call: Callable[[], object], work: float, *, count: int) -> Sample:
    """Make a sample: `work` (in the figure's unit times a second) done a second by `call`."""

    def sample() -> float:
        begin = time.perf_counter()
        for _ in repeat(None, count):
            call()
        return work * count / (time.perf_counter() - begin)

    return sample


def settled(call: Callable[[], object], sample: Sample) -> Sample:
    """Make a sample behind calls that are not measured.

    The threads of the contender before it go on spinning when its sample has ended, and would take
    a core from this one.
    """

    def settle() -> float:
        end = time.perf_counter() + SPIN_S
        while time.perf_counter() < end:
            call()
        return sample()

    return settle


def interleave(contenders: Sequence[Contender], rounds: int) -> dict[str, list[float]]:
    """Take `rounds` samples of each contender, in turns.

    Where there is more than one round, one more before them is thrown away.
    """
    samples: dict[str, list[float]] = {contender.name: [] for contender in contenders}
    for contender in contenders if rounds > 1 else ():
        contender.sample()
    for number in range(rounds):
        first = number % len(contenders)
        for contender in (*contenders[first:], *contenders[:first]):
            samples[contender.name].append(contender.sample())
    return samples


def measure(subject: str, figure: Figure) -> dict[str, object]:
    """Measure one figure and return its row.

    `ours`, `peer` and `limit` are the best samples; `best_peer` is the name of that peer. A ratio
    below 1 means that ours is the faster. What could not be measured is None.
    """
    contenders = [figure.ours, *figure.peers, *([figure.limit] if figure.limit else [])]
    samples = interleave(contenders, figure.rounds)
    best_of = min if figure.less_is_better else max
    best = {name: best_of(values) for name, values in samples.items()}
    ours = best[figure.ours.name]
    names = [peer.name for peer in figure.peers]
    best_peer = best_of(names, key=lambda name: best[name], default=None)
    peer = best[best_peer] if best_peer is not None else None
    limit = best[figure.limit.name] if figure.limit else None

    def ratio(other: float | None) -> float | None:
        if not other or not ours:
            return None
        return ours / other if figure.less_is_better else other / ours

    return {
        "subject": subject,
        "figure": figure.name,
        "unit": figure.unit,
        "ours": ours,
        "peer": peer,
        "best_peer": best_peer,
        "limit": limit,
        "ratio_to_peer": ratio(peer),
        "ratio_to_limit": ratio(limit),
        "limit_is": figure.limit.name if figure.limit else None,
        "goal": figure.goal,
        "ours_median": statistics.median(samples[figure.ours.name]),
        "peers": {name: best[name] for name in names},
        "absent": figure.absent,
        "rounds": figure.rounds,
    }


def measure_all(subject: str, figures: Iterator[Figure]) -> Iterator[dict[str, object]]:
    """Measure each figure of a subject as the subject produces it."""
    for figure in figures:
        yield measure(subject, figure)
