"""Predictions of the timing model: how many a second, how long one model, how much memory."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import numpy as np

from bench.measure import SCALE, Contender, Figure, Sample
from hal.hcd import load
from hal.sim import collective, gemm, model
from hal.sim.chip import Chip
from hal.sim.predict import Target
from hal.sim.run import time_model

PRODUCTS = 2000
MEMORY = """
import resource, numpy as np
from hal.hcd import load
from hal.sim import gemm
from hal.sim.chip import Chip
from hal.sim.predict import Target
t = Target.of(Chip.of(load("nvidia/h100-sxm")))
one = np.arange(1.0, 5001.0)
gemm.predict_s(t.chip, t.constants["gemm"], one, one, one)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def core_time(call: Callable[[], object], unit: str, *, count: int) -> Sample:
    """Make a sample: time of a core that one call takes, whoever else uses the machine."""

    def sample() -> float:
        begin = time.process_time()
        for _ in range(count):
            call()
        return (time.process_time() - begin) / count * SCALE[unit]

    return sample


def core_rate(call: Callable[[], object], work: float, *, count: int) -> Sample:
    """Make a sample: `work` done in a second of one core."""
    taken = core_time(call, "s", count=count)
    return lambda: work / taken()


def lengths() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Random lengths from 1 to 65,536 with equal weight on each order of magnitude."""
    random = np.random.default_rng(0)
    m, n, k = (np.floor(2 ** random.uniform(0, 16, PRODUCTS)) for _ in range(3))
    return m, n, k


def roofline(chip: Chip, m: np.ndarray, n: np.ndarray, k: np.ndarray) -> np.ndarray:
    """The plain roof that an exact model cannot be cheaper than."""
    flops, moved = 2 * m * n * k, 2 * (m * k + k * n + m * n)
    return np.maximum(flops / chip.peak_flops("bf16"), moved / chip.dram_bytes_per_s)


def memory_mb() -> float:
    """Largest resident size of a process that predicts 5,000 products, in MiB."""
    done = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, check=True)
    return float(done.stdout)


def figures() -> Iterator[Figure]:
    """Products a second, one layer of GPT-3, one all-reduce of 1,024 chips, memory."""
    target = Target.of(Chip.of(load("nvidia/h100-sxm")))
    chip, constants = target.chip, target.constants["gemm"]
    m, n, k = lengths()
    thousands = PRODUCTS / 1e3
    ours = core_rate(lambda: gemm.predict_s(chip, constants, m, n, k), thousands, count=1)
    roof = core_rate(lambda: roofline(chip, m, n, k), thousands, count=50)
    yield Figure(
        "products predicted",
        "k/s",
        Contender("ours", ours),
        [],
        Contender("roofline alone", roof),
        goal="at least 10 k/s on one core",
    )
    layer = model.load("gpt3-layer")
    yield Figure(
        "one GPT-3 layer",
        "ms",
        Contender("ours", core_time(lambda: time_model(layer, target), "ms", count=20)),
        goal="at most 1 ms",
    )
    count, size = np.array([1024.0]), np.array([2.0**28])
    shared = target.constants["collective"]
    yield Figure(
        "all-reduce of 1,024 chips",
        "ms",
        Contender(
            "ours",
            core_time(
                lambda: collective.predict_s(chip, shared, "all_reduce", count, size),
                "ms",
                count=50,
            ),
        ),
        goal="at most 2 s",
    )
    yield Figure("memory of 5,000 products", "MiB used", Contender("ours", memory_mb), rounds=1,
                 goal="under 200")  # fmt: skip
