"""Several threads on one port: each gets a `Rig` of its own over the same device.

    crew(rig, 8, lambda number, own: own.wait(own.stream()))

All start at once. What a thread made ends when the last of them is through, so that threads may
hand handles to each other. The first failure becomes the case's; a thread that never comes back is
ended with the case's process when its time is over.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from hal.testing.rig import Rig

__all__ = ["PATIENCE_S", "Crew", "crew", "room_for"]

Answer = TypeVar("Answer")
PATIENCE_S = 30.0
"""How long threads wait for each other, so that the failure of one ends them all."""
STREAMS_PER_THREAD = 3
"""One to work on, one for an upload or download, one that ended and still drains."""


def room_for(rig: Rig, wanted: int) -> int:
    """Return how many threads with streams of their own the device has room for, at least 2."""
    limit = rig.raw.i64(rig.device, "device.stream_limit") or 16 * STREAMS_PER_THREAD
    return max(2, min(wanted, (limit - 2) // STREAMS_PER_THREAD))


class Crew:
    """Threads that work on a device.

    Attributes:
        failures: What each failing thread raised, the first one first.
    """

    def __init__(self, rig: Rig, count: int, *, devices: Sequence[int] = ()) -> None:
        """Make the threads' rigs, over `rig`'s device or over one of `devices` each."""
        from hal.testing.rig import Rig

        places = [*devices] or [rig.device] * count
        self.rigs = [Rig(rig.raw.view(), place, rig.index) for place in places[:count]]
        self.failures: dict[int, BaseException] = {}
        self._start = threading.Barrier(count + 1)
        self._threads: list[threading.Thread] = []
        self._answers: dict[int, object] = {}

    def start(self, work: Callable[[int, Rig], object]) -> None:
        """Start all threads and let them go at once."""

        def body(number: int) -> None:
            self._start.wait()
            try:
                self._answers[number] = work(number, self.rigs[number])
            except BaseException as error:
                self.failures[number] = error

        for number in range(len(self.rigs)):
            thread = threading.Thread(target=body, args=(number,), daemon=True)
            self._threads.append(thread)
            thread.start()
        self._start.wait()

    def finish(self) -> list[object]:
        """Wait for all, end what they made, and return their answers in order.

        Raises:
            AssertionError: a thread failed, or something that it made does not end.
        """
        for thread in self._threads:
            thread.join()
        problems = []
        for rig in self.rigs:
            problems += rig.raw.clean(keep=rig.device)
        if self.failures:
            number, error = next(iter(self.failures.items()))
            text = f"thread {number} of {len(self.rigs)}: {error or type(error).__name__}"
            raise AssertionError(text) from error
        assert problems == []
        return [self._answers[number] for number in range(len(self.rigs))]


def crew(rig: Rig, count: int, work: Callable[[int, Rig], Answer]) -> list[Answer]:
    """Let `work(number, rig)` run on some threads at once; return the answers in order."""
    team = Crew(rig, count)
    team.start(work)
    return team.finish()  # type: ignore[return-value]
