"""Times on a device's clock: warm-up, enough work for a sample, several rounds."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from hal.errors import HalError, Unsupported
from hal.measure.figures import Spread

if TYPE_CHECKING:
    from hal.device import Device
    from hal.stream import Stream

__all__ = ["Enqueue", "Stopwatch"]

Enqueue = Callable[["Stream"], object]
"""Enqueues the work that is measured, once."""

SAMPLE_NS = 2_000_000
"""A sample repeats its work until it takes so long on a real clock."""
MOST_REPEATS = 2000


class Stopwatch:
    """Measures work on one stream of a device by events that keep their time.

    On a virtual clock one sample is exact, and one round is enough. A device without timed events
    is measured by the host's clock around a synchronize.

    Attributes:
        device: What is measured.
        is_virtual: Its clock is a model's.
        uses_events: The times are the device's own.
        rounds: Samples of each measurement.
    """

    def __init__(self, device: Device, *, rounds: int, sample_ns: int = SAMPLE_NS) -> None:
        self.device = device
        self.stream = device.stream()
        self.is_virtual = bool(device.hcd.get("features.virtual_clock", False))
        self.rounds = 1 if self.is_virtual else rounds
        self._sample_ns = 0 if self.is_virtual else sample_ns
        self.uses_events = True
        try:
            self._ends = [device.event(timing=True), device.event(timing=True)]
            self._elapsed(lambda stream: None, 1)
        except Unsupported:
            self.uses_events = False

    def _elapsed(self, enqueue: Enqueue, count: int) -> int:
        """Nanoseconds that `count` repeats take."""
        stream = self.stream
        if not self.uses_events:
            begin = time.perf_counter_ns()
            for _ in range(count):
                enqueue(stream)
            stream.synchronize()
            return time.perf_counter_ns() - begin
        stream.record(self._ends[0])
        for _ in range(count):
            enqueue(stream)
        stream.record(self._ends[1])
        stream.synchronize()
        return self._ends[0].elapsed_ns(self._ends[1])

    def _repeats(self, enqueue: Enqueue) -> int:
        """Warms up, and says how often the work fits in a sample."""
        count = 1
        self._elapsed(enqueue, 1)  # Pays for pages, caches and what is compiled at the first use.
        taken = self._elapsed(enqueue, 1)
        while count < MOST_REPEATS and taken < self._sample_ns:
            wanted = self._sample_ns * count // max(taken, 1) + 1
            count = min(MOST_REPEATS, 10 * count, max(wanted, count + 1))
            taken = self._elapsed(enqueue, count)
        return count

    def rounds_of(self, work: Sequence[Enqueue]) -> list[list[float]]:
        """Nanoseconds of one repeat of each, in rounds in which all take turns."""
        counts = [self._repeats(one) for one in work]
        return [
            [self._elapsed(one, count) / count for one, count in zip(work, counts, strict=True)]
            for _ in range(self.rounds)
        ]

    def time_ns(self, work: Enqueue) -> Spread:
        """What it takes once, in a full queue."""
        return self.spread([times[0] for times in self.rounds_of([work])])

    def spread(self, values: Sequence[float]) -> Spread:
        """The values that are numbers above zero."""
        good = tuple(value for value in values if 0 < value < float("inf"))
        return Spread(good, len(values))

    def growth(self, less: Enqueue, more: Enqueue, amount: float) -> Spread:
        """Amounts a second: what `more` does beyond `less`, over the time that it takes longer.

        What both take alike, such as the start, cancels out.
        """
        rounds = self.rounds_of([less, more])
        return self.spread([_quotient(amount * 1e9, longer - short) for short, longer in rounds])

    def host_ns(self, call: Callable[[], object]) -> Spread:
        """What a call takes on the host's clock."""
        call()
        values = []
        for _ in range(4 * self.rounds):
            begin = time.perf_counter_ns()
            call()
            values.append(float(time.perf_counter_ns() - begin))
        return self.spread(values)


def _quotient(amount: float, by: float) -> float:
    return amount / by if by > 0 else 0.0


def reason(error: HalError) -> str:
    """An error as the note of a figure."""
    return str(error).splitlines()[0]
