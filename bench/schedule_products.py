"""The best VIL matrix product of a described chip beside the closed form of a library's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from hal.errors import UsageError
from hal.forecast import Forecaster, Kernel

__all__ = ["SHAPES", "best_ns", "closed_form_ns", "pipelined", "ratios"]

SHAPES = (
    (1024, 1024, 1024),
    (2048, 2048, 2048),
    (4096, 4096, 4096),
    (8192, 8192, 8192),
    (4096, 4096, 1024),
    (8192, 1024, 4096),
    (3000, 5000, 2000),
    (16384, 4096, 4096),
)
"""Rows, columns and depth."""

TILES = tuple(product((64, 128, 256), (64, 128, 256), (32, 64), (2, 3)))


def pipelined(rows: int, columns: int, depth: int, stages: int) -> str:
    """C = A · B in bf16 with f32 sums; the next blocks load while this one is multiplied."""
    a, b = 2 * rows * depth, 2 * depth * columns
    at_b = stages * a
    at_c = at_b + stages * b
    return f"""vil 1.0
kernel main {{
  arg M: symbol
  arg N: symbol
  arg K: symbol
  arg A: bf16 read bytes 2 * M * K
  arg B: bf16 read bytes 2 * K * N
  arg C: bf16 write bytes 2 * M * N
  launch mm grid(ceildiv(N, {columns}), ceildiv(M, {rows})) (A, B, C, M, N, K)
}}
program mm flat {{
  param A: bf16 read
  param B: bf16 read
  param C: bf16 write
  param M: symbol
  param N: symbol
  param K: symbol
  tile a: bf16[{rows}, {depth}] near @0 stages {stages}
  tile b: bf16[{depth}, {columns}] near @{at_b} stages {stages}
  tile c: f32[{rows}, {columns}] acc @{at_c}
  tile out: bf16[{rows}, {columns}] near @{at_c}
  desc da = A {{
    row origin %3 limit M digits (_, 1)
    column origin %5 limit K digits (_, 1)
    dim M stride K base 0, r0 * 1
    dim K stride 1 base 0, c0 * 1
  }}
  desc db = B {{
    row origin %5 limit K digits (_, 1)
    column origin %4 limit N digits (_, 1)
    dim K stride N base 0, r0 * 1
    dim N stride 1 base 0, c0 * 1
  }}
  desc dc = C {{
    row origin %3 limit M digits (_, 1)
    column origin %4 limit N digits (_, 1)
    dim M stride N base 0, r0 * 1
    dim N stride 1 base 0, c0 * 1
  }}
  sreg.mul %3, %1, {rows}
  sreg.mul %4, %0, {columns}
  fill c, 0.0
  loop %6, ceildiv(K, {depth})
    sreg.mul %5, %6, {depth}
    load a[%6], da
    load b[%6], db
    mma c, a[%6], b[%6]
  end
  cast out, c
  store dc, out
}}
"""


def _kernels(chip: Forecaster) -> Iterator[Kernel]:
    """The candidates that the chip takes."""
    from hal.vil import parse

    for tile in TILES:
        text = pipelined(*tile).replace("near @" + str(_end(tile)), "near @0")
        try:
            yield chip.kernel(bytes(parse(text)))
        except UsageError:  # Too large for the chip.
            continue


def _end(tile: tuple[int, int, int, int]) -> int:
    rows, columns, depth, stages = tile
    return stages * 2 * depth * (rows + columns)


def best_ns(hcd: str, shapes: Sequence[tuple[int, int, int]] = SHAPES) -> list[float]:
    """The shortest forecast of all candidates, for each shape."""
    best = [float("inf")] * len(shapes)
    with Forecaster(hcd) as chip:
        for kernel in _kernels(chip):
            for index, (m, n, k) in enumerate(shapes):
                forecast = kernel.forecast([m, n, k, 2 * m * k, 2 * k * n, 2 * m * n])
                best[index] = min(best[index], forecast.time_ns)
    return best


def closed_form_ns(hcd: str, shapes: Sequence[tuple[int, int, int]] = SHAPES) -> list[float]:
    """What the closed form with the chip's constants gives, for each shape."""
    import numpy as np

    from hal import hcd as descriptions
    from hal.sim import calibration, gemm
    from hal.sim.chip import Chip

    chip = Chip.of(descriptions.load(hcd), allow_guesses=True)
    m, n, k = (np.array(axis, dtype=np.float64) for axis in zip(*shapes, strict=True))
    seconds = gemm.predict_s(chip, calibration.find("gemm", chip), m, n, k)
    return [float(second) * 1e9 for second in seconds]


def ratios(hcd: str, shapes: Sequence[tuple[int, int, int]] = SHAPES) -> list[float]:
    """Best list schedule over closed form, for each shape."""
    pairs = zip(best_ns(hcd, shapes), closed_form_ns(hcd, shapes), strict=True)
    return [ours / closed for ours, closed in pairs]
