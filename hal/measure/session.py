"""All measurements of a device, one after the other, within a budget of time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from hal.errors import HalError
from hal.hcd import unit_count
from hal.measure import computing, moving
from hal.measure.chip import largest_cache_bytes
from hal.measure.figures import Figure
from hal.measure.stopwatch import SAMPLE_NS, Stopwatch, reason

if TYPE_CHECKING:
    from hal.device import Device

__all__ = ["measure"]

MIB = 1 << 20
ROUNDS = 7
QUICK_ROUNDS = 3
ALL_TYPES = ("f32", "f64", "f16", "bf16", "i32", "i8")
QUICK_TYPES = ("f32",)
VECTOR_TYPES = ("f32", "f64", "i32")
"""Those that generated kernels compute in; narrower ones are widened first."""


def measure(
    device: Device,
    *,
    quick: bool = False,
    budget_s: float = 120.0,
    step: Callable[[Figure], None] = lambda figure: None,
) -> list[Figure]:
    """Measure a device on its own clock: copies, memory, launches, vector and matrix work.

    Args:
        quick: Fewer rounds, smaller sizes, f32 alone.
        budget_s: No measurement begins after so long; those left out are told.
        step: Called with each figure as it comes.
    """
    until = time.monotonic() + budget_s
    watch = Stopwatch(
        device,
        rounds=QUICK_ROUNDS if quick else ROUNDS,
        sample_ns=SAMPLE_NS // 4 if quick else SAMPLE_NS,
    )
    figures: list[Figure] = []
    for what, make in _parts(watch, quick):
        for figure in _within(what, make, until):
            figures.append(figure)
            step(figure)
    return figures


def _parts(watch: Stopwatch, quick: bool) -> list[tuple[str, Callable[[], Iterator[Figure]]]]:
    """The groups of measurements. A virtual clock needs no large sizes: its times are exact."""
    small = quick or watch.is_virtual
    large = _large(watch, quick)
    lengths = (512,) if watch.is_virtual else (256, 512) if quick else (512, 1024)
    library = (256, 512) if small else (512, 1024, 2048)
    types = QUICK_TYPES if quick else ALL_TYPES
    hcd = watch.device.hcd
    cores = unit_count(hcd.data, hcd.get("execution.core", ""))
    count = min(max(cores << 13, 1 << 16), 1 << 22)
    return [
        ("copies", partial(moving.copies, watch, large)),
        ("memory", partial(moving.streaming, watch, large // 4)),
        ("launches", partial(moving.costs, watch)),
        (
            "vector work",
            partial(computing.vectors, watch, count, QUICK_TYPES if quick else VECTOR_TYPES),
        ),
        ("products", partial(computing.products, watch, lengths, types)),
        ("the library", partial(computing.library, watch, library)),
    ]


def _large(watch: Stopwatch, quick: bool) -> int:
    """Bytes of the larger copy: well beyond the caches, where the clock is real."""
    if watch.is_virtual:
        return 4 * MIB
    beyond = largest_cache_bytes(watch.device.hcd) * (2 if quick else 4)
    most = watch.device.stats().total_bytes // 16
    return max(MIB, min(max(beyond, 16 * MIB), 256 * MIB, most) // MIB * MIB)


def _within(what: str, make: Callable[[], Iterator[Figure]], until: float) -> Iterator[Figure]:
    """The figures of a group; an error of the device, or the end of the budget, is a figure too."""
    if time.monotonic() > until:
        yield Figure(what, "", None, note="left out: the budget is spent")
        return
    try:
        for figure in make():
            yield figure
            if time.monotonic() > until:
                yield Figure(f"{what}, the rest", "", None, note="left out: the budget is spent")
                return
    except HalError as error:
        yield Figure(what, "", None, note=reason(error))
