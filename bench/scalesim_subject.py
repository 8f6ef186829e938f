"""The list schedule beside SCALE-Sim's cycle counts: products on systolic arrays.

SCALE-Sim (PyPI `scalesim`) needs an older NumPy, so it lives in a virtual environment of its own.
`HAL_BENCH_SCALESIM=FOLDER` names that environment; it is made there when the folder is not one
yet. Without the variable the rows hold our cycles alone. docs/simulator-port.md explains the
differences.

Cycles are predictions: a ratio below 1 means that ours predicts fewer, not that ours is faster.
"""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import click
import numpy as np

from bench.measure import Contender, Figure

VARIABLE = "HAL_BENCH_SCALESIM"
PACKAGES = ("scalesim==3.0.0", "numpy<2")
LIMIT_S = 300

SHAPES = (
    (16, 16, 16),
    (32, 32, 32),
    (64, 64, 64),
    (128, 128, 128),
    (256, 256, 256),
    (100, 100, 100),
    (129, 129, 129),
    (100, 200, 300),
    (33, 65, 17),
    (200, 48, 144),
    (250, 130, 70),
    (16, 512, 128),
    (512, 16, 128),
    (128, 512, 64),
    (384, 96, 160),
    (512, 128, 128),
    (128, 128, 512),
    (64, 320, 256),
    (300, 140, 200),
    (512, 256, 192),
)
"""Rows M, columns N and depth K of a product."""

CLOCK_GHZ = 0.94
"""The clock of `sim/npu-systolic`."""


@dataclass(frozen=True)
class Array:
    """One square array.

    flow: `weight_stationary` (holds K x N of the weights, rows stream) or `output_stationary`
    (holds M x N of the result, the depth streams).
    """

    side: int
    flow: str

    def __str__(self) -> str:
        return f"{self.side} x {self.side} {self.flow.replace('_', '-')}"

    @property
    def gap(self) -> int:
        """Cycles that SCALE-Sim adds to the streamed ones of each block that the array holds.

        The skew of the operand that enters and of the results that leave; with held weights also
        one cycle for each row of them.
        """
        loads = self.side if self.flow == "weight_stationary" else 0
        return loads + 2 * self.side - 2


ARRAYS = tuple(
    Array(side, flow)
    for side, flow in product((128, 32), ("weight_stationary", "output_stationary"))
)


@dataclass(frozen=True)
class Ours:
    """What the list schedule says of the best program, in cycles of the array.

    matrix: The matrix engine is busy. program: From the first load to the last store.
    """

    matrix: float
    program: float


def description(array: Array, fill: int) -> str:
    """One core of the systolic example with another array; `fill` cycles before each block."""
    side = array.side
    return f"""hcd_version: "1.0"
extends: sim/npu-systolic
units:
  core: {{count: 1}}
compute:
  mxu:
    dataflow: {array.flow}
    operations:
      bf16:
        shape: [{side}, {side}, {side}]
        macs_per_cycle: {side * side}
        latency_cycles: {2 * side}
        fill_cycles: {fill}
        drain_cycles: {side}
"""


def forecast(array: Array, fill: int, shapes: Sequence[tuple[int, int, int]]) -> list[Ours]:
    """The fastest program of each shape, of all tiles of the ready-made product."""
    from hal import dtypes
    from hal.forecast import Forecaster
    from hal.vil.recipes import matmul

    best = [Ours(float("inf"), float("inf"))] * len(shapes)
    lengths = sorted({array.side, 128, 256, 512})
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "array.hcd.yaml"
        file.write_text(description(array, fill), encoding="utf-8")
        with Forecaster(str(file)) as chip:
            for tile in product(lengths, repeat=3):
                module = matmul(
                    dtypes.bf16, dtypes.bf16, dtypes.f32, tile=tile, spaces=("near", "near", "acc")
                )
                kernel = chip.kernel(bytes(module))
                for index, (m, n, k) in enumerate(shapes):
                    found = kernel.forecast([m, n, k, 2 * m * k, 2 * k * n, 4 * m * n])
                    here = Ours(found.matrix_ns * CLOCK_GHZ, found.core_ns * CLOCK_GHZ)
                    best[index] = min(best[index], here, key=lambda one: one.program)
    return best


# ---- SCALE-Sim ----

SETTINGS = """[general]
run_name = run
[architecture_presets]
ArrayHeight = {side}
ArrayWidth = {side}
IfmapSramSzkB = 4096
FilterSramSzkB = 4096
OfmapSramSzkB = 4096
IfmapOffset = 0
FilterOffset = 10000000
OfmapOffset = 20000000
Dataflow = {flow}
Bandwidth = 1
ReadRequestBuffer = 64
WriteRequestBuffer = 64
[layout]
IfmapCustomLayout = False
IfmapSRAMBankBandwidth = 1
IfmapSRAMBankNum = 1
IfmapSRAMBankPort = 2
FilterCustomLayout = False
FilterSRAMBankBandwidth = 1
FilterSRAMBankNum = 1
FilterSRAMBankPort = 2
[sparsity]
SparsitySupport = false
[run_presets]
InterfaceBandwidth = CALC
UseRamulatorTrace = False
"""
"""CALC: SCALE-Sim finds the bandwidth at which the array never waits."""

DRIVER = """
import sys
from scalesim.scale_sim import scalesim
settings, products, layout, folder = sys.argv[1:]
scalesim(save_disk_space=True, verbose=False, config=settings, topology=products, layout=layout,
         input_type_gemm=True).run_scale(top_path=folder)
"""


def run(*words: str | Path) -> None:
    """Run a process to its end.

    Raises:
        ClickException: it failed, or took too long; the message has its last line.
    """
    try:
        done = subprocess.run(
            [str(word) for word in words],
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise click.ClickException(f"{words[0]} took more than {LIMIT_S} s") from None
    except OSError as error:
        raise click.ClickException(f"{words[0]} does not start: {error}") from None
    if done.returncode != 0:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise click.ClickException(f"{words[0]} failed: {''.join(last)}")


@cache
def peer_python() -> Path | None:
    """The Python that has SCALE-Sim, made on request; None when the variable is not set."""
    named = os.environ.get(VARIABLE)
    if not named:
        return None
    folder = Path(named).expanduser()
    python = folder / "bin" / "python"
    if not any(folder.glob("lib/python*/site-packages/scalesim")):
        if not python.exists():
            run(sys.executable, "-m", "venv", folder)
        run(python, "-m", "pip", "install", "--quiet", *PACKAGES)
    return python


def peer_cycles(
    python: Path, array: Array, shapes: Sequence[tuple[int, int, int]] = SHAPES
) -> list[int]:
    """The cycles of each shape in SCALE-Sim's own report, which has no stalls.

    Raises:
        ClickException: SCALE-Sim failed, or its report has stalls or lacks a shape.
    """
    flow = {"weight_stationary": "ws", "output_stationary": "os"}[array.flow]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        settings, products, layout = (folder / f"{part}.cfg" for part in ("set", "gemm", "layout"))
        settings.write_text(SETTINGS.format(side=array.side, flow=flow), encoding="utf-8")
        rows = [f"{i},{m},{n},{k},\n" for i, (m, n, k) in enumerate(shapes)]
        products.write_text("Layer,M,N,K,\n" + "".join(rows), encoding="utf-8")
        rows = [f"{i}," + "1," * 40 + "\n" for i in range(len(shapes))]
        layout.write_text("Layer,\n" + "".join(rows), encoding="utf-8")
        run(python, "-c", DRIVER, settings, products, layout, folder)
        report = next(folder.rglob("COMPUTE_REPORT.csv"), None)
        if report is None:
            raise click.ClickException("SCALE-Sim wrote no report")
        return read_report(report, len(shapes))


def read_report(path: Path, count: int) -> list[int]:
    """Read the column of total cycles of COMPUTE_REPORT.csv.

    Raises:
        ClickException: there are stalls, or not `count` rows.
    """
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, skipinitialspace=True))
    if len(rows) != count or any(float(row["Stall Cycles"]) for row in rows):
        raise click.ClickException(f"SCALE-Sim's report has stalls or not {count} rows")
    return [int(float(row["Total Cycles"])) for row in rows]


# ---- Rows ----


def ranks(values: Sequence[float]) -> np.ndarray[Any, Any]:
    """Ranks from 1; equal values share the mean of theirs."""
    _, places, counts = np.unique(np.array(values), return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[places]


def rank_correlation(left: Sequence[float], right: Sequence[float]) -> float:
    """Spearman's."""
    return float(np.corrcoef(ranks(left), ranks(right))[0, 1])


def number(name: str, unit: str, value: float, peers: Sequence[Contender] = ()) -> Figure:
    """A figure whose value is known."""
    absent = [] if peer_python() else [f"scalesim ({VARIABLE}=FOLDER makes it)"]
    return Figure(
        name,
        unit,
        Contender("list schedule", lambda: value),
        list(peers),
        absent=absent,
        rounds=1,
    )


def summary(array: Array, ours: Sequence[Ours], peer: Sequence[int]) -> Iterator[Figure]:
    """Rank correlation and ratios of one array over all shapes."""
    alike = forecast(array, array.gap, SHAPES)
    matrix, program, same = (
        np.array([cycles / theirs for cycles, theirs in zip(part, peer, strict=True)])
        for part in (
            [one.matrix for one in ours],
            [one.program for one in ours],
            [one.matrix for one in alike],
        )
    )
    values = {
        "rank correlation": rank_correlation([one.matrix for one in ours], peer),
        "mean ratio": float(matrix.mean()),
        "lowest ratio": float(matrix.min()),
        "highest ratio": float(matrix.max()),
        "with SCALE-Sim's gap as fill, lowest ratio": float(same.min()),
        "with SCALE-Sim's gap as fill, highest ratio": float(same.max()),
        "whole program with loads and stores, mean ratio": float(program.mean()),
    }
    for name, value in values.items():
        yield number(f"{array}, {len(SHAPES)} shapes: {name}", "ratio", value)


def figures() -> Iterator[Figure]:
    """Cycles of every shape on every array, and how well both agree."""
    python = peer_python()
    for array in ARRAYS:
        ours = forecast(array, array.side, SHAPES)
        peer = peer_cycles(python, array) if python else []
        for index, (m, n, k) in enumerate(SHAPES):
            theirs = [Contender("scalesim", lambda value=peer[index]: value)] if peer else []
            yield number(f"{array}, {m} x {n} x {k}", "cycles", ours[index].matrix, theirs)
        if peer:
            yield from summary(array, ours, peer)
