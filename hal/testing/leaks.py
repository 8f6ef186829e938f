"""What a step leaves behind in this process: heap bytes, threads, file descriptors."""

from __future__ import annotations

import ctypes
import functools
import gc
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hal.testing.rig import Rig

__all__ = ["growth"]

HEAP_BYTES_PER_ROUND = 24
"""Growth of the C heap that counts as a leak: less than this is the harness's own book-keeping."""

LEAST_ROUNDS = 200
"""Fewer say nothing: a heap's noise of about 2 KiB would be a leak of 24 bytes a round."""

SETTLE_S = 1.0
TRIES = 3


class _Mallinfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
        "fordblks", "keepcost",
    )]  # fmt: skip


@functools.cache
def _mallinfo() -> Callable[[], _Mallinfo] | None:
    """Return the C library's own count, or None where it has none."""
    ask = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if ask is not None:
        ask.restype = _Mallinfo
    return ask


def _heap() -> int:
    """Return the bytes of the C heap in use, or 0 where the C library does not tell."""
    ask = _mallinfo()
    if ask is None:
        return 0
    info = ask()
    return int(info.uordblks + info.hblkhd)


def _threads() -> int:
    return sum(1 for _ in Path("/proc/self/task").iterdir())


def _files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def growth(rig: Rig, step: Callable[[], None], *, rounds: int) -> dict[str, float]:
    """Return what `rounds` repetitions left behind, by kind and per round; empty when nothing.

    As many rounds go before, so that caches are full, and what ends on another thread is waited
    for. A table that grows once is no leak: growth counts only when each of a few tries shows it.

    Raises:
        ValueError: there are fewer than 200 rounds.
    """
    if rounds < LEAST_ROUNDS:
        raise ValueError(f"growth over {rounds} rounds is noise; take {LEAST_ROUNDS} or more")
    mark = rig.raw.mark()
    _repeat(rig, step, rounds, mark)
    found: dict[str, float] = {}
    for _ in range(TRIES):
        found = _grown(rig, step, rounds, mark)
        if not found:
            break
    return found


def _repeat(rig: Rig, step: Callable[[], None], rounds: int, mark: tuple[int, int]) -> None:
    """Run the step, then let go of what the harness itself kept."""
    from hal.testing.rig import LONG_NS

    for _ in range(rounds):
        step()
    rig.raw.forget(mark)
    rig.raw.ok("device.synchronize", rig.device, LONG_NS)
    gc.collect()


def _grown(
    rig: Rig, step: Callable[[], None], rounds: int, mark: tuple[int, int]
) -> dict[str, float]:
    threads, files, heap = _threads(), _files(), _heap()
    _repeat(rig, step, rounds, mark)
    deadline = time.monotonic() + SETTLE_S
    while time.monotonic() < deadline:
        if _threads() <= threads and _heap() - heap < HEAP_BYTES_PER_ROUND * rounds:
            break
        os.sched_yield()
    gc.collect()
    found = {
        "heap bytes": (_heap() - heap) / rounds,
        "threads": (_threads() - threads) / rounds,
        "file descriptors": (_files() - files) / rounds,
    }
    limits = {"heap bytes": HEAP_BYTES_PER_ROUND, "threads": 0.01, "file descriptors": 0.0}
    return {kind: value for kind, value in found.items() if value > limits[kind]}
