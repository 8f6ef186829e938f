"""Times of modules on a device: interleaved rounds, the least of single calls of each."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hal.device import Device
from hal.ir.analysis import value_of
from hal.ir.nodes import Kernel
from hal.vil import Module

__all__ = ["Bench", "least_seconds", "shortest_call_s"]

ROUNDS = 7
SAMPLE_S = 0.004
"""A sample repeats the launch for so long."""


class Bench:
    """The arguments of one kernel at one set of sizes, on a device."""

    def __init__(self, device: Device, kernel: Kernel, sizes: Mapping[str, int]) -> None:
        import numpy as np

        self._device = device
        self._kernel = kernel
        self._stream = device.stream()
        rng = np.random.default_rng(0)
        self._arguments: list[Any] = []
        for array in kernel.arrays_of("input", "inout", "output"):
            shape = tuple(value_of(size, sizes) for size in array.shape)
            whole = rng.integers(0, 4, shape).astype(array.dtype.numpy)
            self._arguments.append(device.array(whole))
        for scalar in kernel.scalars:
            self._arguments.append(1.0 if scalar.dtype.is_float else 1)
        self._arguments += [sizes[name] for name in kernel.params]

    def launcher(self, module: Module) -> Callable[[], None]:
        """Loads a module; each call of the result launches it once and waits.

        It is loaded as VIL where the device takes that, else in the format that compiling takes.
        """
        from hal.codegen.dialect.route import formats, load

        if "vil.v1" in formats(self._device.hcd):
            loaded = self._device.load(module)
        else:
            loaded = load(module, self._device)
        kernel = loaded[self._kernel.name]
        stream, arguments = self._stream, self._arguments

        def launch() -> None:
            kernel.launch(stream, *arguments)
            stream.synchronize()

        return launch


def shortest_call_s(call: Callable[[], None], seconds: float = SAMPLE_S) -> float:
    """The shortest of single calls, made for so many seconds, at least one.

    Other work on the machine lengthens most calls, and seldom all of them; a mean holds its share
    of each, and more of it the more cores a call needs at once.
    """
    shortest, now = float("inf"), time.perf_counter()
    end = now + seconds
    while True:
        begin = now
        call()
        now = time.perf_counter()
        shortest = min(shortest, now - begin)
        if now >= end:
            return shortest


def least_seconds(
    launches: Sequence[Callable[[], None]],
    *,
    until: float,
    rounds: int = ROUNDS,
    step: Callable[[], None] = lambda: None,
) -> list[float]:
    """The least seconds of a single call of each, over rounds in which all take turns.

    Args:
        until: `time.monotonic()` after which no further round begins; the first always does.
        step: Called after each sample.
    """
    best = [float("inf")] * len(launches)
    for number in range(rounds + 1):
        if number > 1 and time.monotonic() > until:
            break
        for place, launch in enumerate(launches):
            # The first one pays for pages and caches.
            taken = shortest_call_s(launch, SAMPLE_S if number else 0.0)
            best[place] = min(best[place], taken)
            step()
    return best
