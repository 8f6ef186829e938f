"""Regret of the tuner: the best of its first eight choices beside the best of all, measured."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from bench.measure import Contender, Figure

GOAL = "the best of the first eight within 10 % of the best of all"
BUDGET_S = 60.0

PRODUCT = """kernel product {{
  param M, N, K : int
  input: {dtype}[M,K] A, {dtype}[K,N] B
  output: {dtype}[M,N] C
  operation: C[i,j] += A[i,k] * B[k,j]
}}
"""
LAYER = """kernel layer {
  param M, N, K : int
  input: f32[M,K] X, f32[N,K] W, f32[N] b
  temp: f32[M,N] T
  output: f32[M,N] Y
  operation: T[i,j] += X[i,k] * W[j,k]
  Y[i,j] = max(T[i,j] + b[j], 0.0)
}
"""
BATCH = """kernel batch {
  param B, M, N, K : int
  input: f32[B,M,K] X, f32[B,K,N] Y
  output: f32[B,M,N] Z
  operation: Z[b,i,j] += X[b,i,k] * Y[b,k,j]
}
"""
CONVOLUTION = """kernel convolution {
  param N, C, H, W, F : int
  index dy, dx : 3
  input: f32[N,H,W,C] X, f32[3,3,C,F] K
  output: f32[N,H,W,F] Y
  operation: Y[n,y,x,f] += X[n,y+dy-1,x+dx-1,c] pad 0 * K[dy,dx,c,f]
}
"""

CASES: tuple[tuple[str, str, dict[str, int]], ...] = (
    ("product f32", PRODUCT.format(dtype="f32"), {"M": 256, "N": 256, "K": 256}),
    ("product f32", PRODUCT.format(dtype="f32"), {"M": 100, "N": 700, "K": 128}),
    ("product f32", PRODUCT.format(dtype="f32"), {"M": 64, "N": 64, "K": 2048}),
    ("product bf16", PRODUCT.format(dtype="bf16"), {"M": 256, "N": 256, "K": 256}),
    ("layer f32", LAYER, {"M": 128, "N": 512, "K": 128}),
    ("batch f32", BATCH, {"B": 16, "M": 96, "N": 96, "K": 64}),
    ("convolution f32", CONVOLUTION, {"N": 1, "C": 16, "H": 14, "W": 14, "F": 32}),
)


def figures() -> Iterator[Figure]:
    """One kernel and size after the other."""
    import hal
    from bench.programs import DEVICE

    with hal.open(DEVICE) as device:
        for name, text, sizes in CASES:
            yield figure(device, name, text, sizes)


def figure(device: Any, name: str, text: str, sizes: dict[str, int]) -> Figure:
    """Measures every choice, then the finalists again, then the two winners side by side.

    The least of hundreds of noisy times is less than what it stands for, the more of them the
    less: so the best of all and the first eight meet again, each as often as the others.
    """
    import hal.tune
    from hal import ir
    from hal.tune.measuring import Bench, least_seconds

    found = hal.tune.tune(text, device, sizes=sizes, budget_s=BUDGET_S, measured=0, keep=False)
    kernel = ir.parse(text).kernels[0]
    bench = Bench(device, kernel, sizes)
    ranked = sorted(
        (item for item in found.candidates if item.module is not None),
        key=lambda item: item.forecast_s or float("inf"),
    )
    launches = [bench.launcher(item.module) for item in ranked if item.module is not None]
    times = least_seconds(launches, until=time.monotonic() + BUDGET_S, rounds=5)
    first = [ranked.index(item) for item in hal.tune.shortlist(ranked, hal.tune.MEASURED)]
    fastest = sorted(range(len(launches)), key=times.__getitem__)[: len(first)]
    finalists = sorted({*first, *fastest})
    again = least_seconds(
        [launches[place] for place in finalists], until=time.monotonic() + BUDGET_S, rounds=61
    )
    final = dict(zip(finalists, again, strict=True))
    ours, best = min(first, key=final.__getitem__), min(final, key=final.__getitem__)
    lengths = " ".join(f"{key}={value}" for key, value in sizes.items())
    return Figure(
        f"{name} {lengths}",
        "us",
        _contender("best of the first eight", launches[ours]),
        [_contender(f"best of {len(times)}: {ranked[best].choice}", launches[best])],
        goal=GOAL,
        rounds=61,
    )


def _contender(name: str, launch: Callable[[], None]) -> Contender:
    from hal.tune.measuring import shortest_call_s

    return Contender(name, lambda: shortest_call_s(launch, 0.02) * 1e6)
