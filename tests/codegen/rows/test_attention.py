"""Attention as one program: found by structure, and right for every size, mask and layout."""

from __future__ import annotations

import numpy as np
import pytest
from row_programs import check, kernel_of, lowering_of

import hal
import hal.ops
from hal import dtypes
from hal.codegen import attention
from hal.codegen.attention_match import find_attention
from hal.codegen.causal import find_causal
from hal.codegen.choice import Choice
from hal.codegen.target import Target
from hal.hcd import load
from hal.ir import Kernel
from hal.ir.analysis import inline_lets
from hal.ir.passes import run as run_passes
from hal.vil.module import Module

CPU = Target.of(load("cpu"))
TILES = Choice("attention", (("rows", 4), ("column", 8), ("inner", 8), ("wide", 8)))

PLAIN = """
kernel Attention {
  param B, H, M, N, D : int
  scalar f32 scale
  input: f32[B,H,M,D] Q, f32[B,H,N,D] K, f32[B,H,N,D] V
  output: f32[B,H,M,D] O
  temp: f32[B,H,M,N] S, f32[B,H,M] m, f32[B,H,M,N] e, f32[B,H,M] l, f32[B,H,M,N] P
  operation: S[b,h,i,j] += Q[b,h,i,d] * K[b,h,j,d]
  operation: m[b,h,i] max= SCORE
  operation: e[b,h,i,j] = exp(SCORE - m[b,h,i])
  operation: l[b,h,i] += e[b,h,i,j]
  operation: P[b,h,i,j] = e[b,h,i,j] / l[b,h,i]
  operation: O[b,h,i,d] += P[b,h,i,j] * V[b,h,j,d]
}
"""
SCORES = {
    "plain": "S[b,h,i,j]",
    "scaled": "S[b,h,i,j] * scale",
    "causal": "where(j <= i, S[b,h,i,j] * scale, -inf)",
    "strict": "where(j < i + 3, S[b,h,i,j], -inf)",
    "right-aligned": "where(j <= i + (N - M), S[b,h,i,j] * scale, -inf)",
    "nothing seen": "where(j < i - 2, S[b,h,i,j], -inf)",
    "window": "where(j <= i and i <= j + 4, S[b,h,i,j] * scale, -inf)",
}
OTHER = """
kernel Weights {
  param M, N, D, E : int
  input: f32[D,M] query, f32[N,D] key, f32[E,N] worth, f32[M,N] bias
  output: f32[E,M] result, f32[M] lse
  temp: f32[N,M] dots, f32[M,N] z, f32[M] top, f32[M,N] part, f32[M] all
  operation: dots[y,x] += key[y,c] * query[c,x] * 0.5
  operation: z[x,y] = dots[y,x] + bias[x,y]
  operation: top[x] max= z[x,y]
  operation: all[x] += exp(z[x,y] - top[x])
  operation: lse[x] = log(all[x]) + top[x]
  operation: part[x,y] = exp(z[x,y] - top[x]) / all[x]
  operation: result[v,x] += worth[v,y] * part[x,y]
}
"""
LATE = """
kernel Late {
  param M, N, D : int
  scalar f32 scale
  input: f32[M,D] Q, f32[N,D] K, f32[N,D] V
  output: f32[M,D] Y, f32[M,D] Z, f32[M] total
  temp: f32[M,N] score, f32[M] top, f32[M,D] mixed
  operation: score[i,j] += Q[i,d] * K[j,d]
  let z = where(j <= i, score[i,j] * scale, -inf)
  operation: top[i] max= z
  operation: total[i] += exp(z - top[i])
  operation: mixed[i,d] += exp(z - top[i]) * V[j,d] * 2
  operation: Y[i,d] = mixed[i,d] / total[i]
  operation: Z[i,d] = max(Y[i,d], 0) + Q[i,d]
}
"""


def lowered(text: str, *, choice: Choice = TILES) -> tuple[Kernel, Module]:
    kernel = kernel_of(text)
    match = attention.match(kernel, kernel.assigns, CPU)
    assert match is not None
    assert match.count == len(kernel.assigns)
    lowering = lowering_of(kernel, CPU)
    attention.lower(lowering, match, choice)
    return kernel, lowering.module()


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize(
    ("m", "n", "d"), [(9, 21, 8), (4, 8, 5), (1, 1, 1), (8, 16, 8), (3, 5, 9), (17, 17, 3)]
)
def test_every_size_and_mask(score: str, m: int, n: int, d: int) -> None:
    kernel, module = lowered(PLAIN.replace("SCORE", SCORES[score]))
    params = {"B": 2, "H": 2, "M": m, "N": n, "D": d}
    check(module, kernel, CPU, params, {"scale": 0.25})


@pytest.mark.parametrize(("m", "n"), [(0, 5), (5, 0), (0, 0)])
def test_no_queries_or_no_keys(m: int, n: int) -> None:
    kernel, module = lowered(PLAIN.replace("SCORE", SCORES["scaled"]))
    check(module, kernel, CPU, {"B": 1, "H": 2, "M": m, "N": n, "D": 4}, {"scale": 0.25})


@pytest.mark.parametrize(("m", "n", "d", "e"), [(9, 21, 8, 7), (4, 8, 3, 12), (1, 1, 1, 1)])
def test_other_names_orders_and_results(m: int, n: int, d: int, e: int) -> None:
    kernel, module = lowered(OTHER)
    check(module, kernel, CPU, {"M": m, "N": n, "D": d, "E": e}, {})


@pytest.mark.parametrize(("m", "n", "d"), [(9, 21, 8), (4, 3, 5), (0, 3, 2), (3, 0, 2), (5, 6, 9)])
def test_division_and_more_after_the_second_product(m: int, n: int, d: int) -> None:
    kernel, module = lowered(LATE)
    check(module, kernel, CPU, {"M": m, "N": n, "D": d}, {"scale": 0.5})


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("score", ["scaled", "causal"])
def test_storage_in_16_bits(dtype: str, score: str) -> None:
    before = kernel_of(PLAIN.replace("SCORE", SCORES[score]))
    kernel = inline_lets(run_passes(before, dtype=dtypes.by_name(dtype)))
    match = attention.match(kernel, kernel.assigns, CPU)
    assert match is not None
    lowering = lowering_of(kernel, CPU)
    attention.lower(lowering, match, TILES)
    params = {"B": 1, "H": 2, "M": 9, "N": 13, "D": 6}
    check(lowering.module(), kernel, CPU, params, {"scale": 0.25}, tolerance=1e-2)


@pytest.mark.parametrize("name", ["attention", "causal_attention", "grouped_attention"])
def test_the_library_of_operators_is_found(name: str) -> None:
    kernel = inline_lets(run_passes(hal.ops.get(name)))
    found = find_attention(kernel, kernel.assigns)
    assert found is not None
    assert len(found.originals) == len(kernel.assigns)


@pytest.mark.parametrize("text", [PLAIN.replace("SCORE", SCORES["causal"]), OTHER])
def test_it_is_found_after_the_passes_too(text: str) -> None:
    kernel = kernel_of(text)
    after = run_passes(kernel)
    after = inline_lets(after)
    found = find_attention(after, after.assigns)
    assert found is not None
    assert len(found.originals) == len(after.assigns)


def test_a_batch_of_one_from_python_is_one_program() -> None:
    shape = (1, 2, 24, 8)

    @hal.kernel
    def attention(q, k, v):  # type: ignore[no-untyped-def]
        return hal.attention(q, k, v)

    traced = attention.trace(*(np.zeros(shape, np.float32) for _ in range(3))).kernel
    after = inline_lets(run_passes(traced))
    found = find_attention(after, after.assigns)
    assert found is not None
    assert len(found.originals) == len(after.assigns)


def test_scores_and_weights_never_reach_memory() -> None:
    _, module = lowered(PLAIN.replace("SCORE", SCORES["plain"]))
    names = {p.name for p in module.programs[0].params if p.kind == "buffer"}
    assert names == {"Q", "K", "V", "O"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("output: f32[B,H,M,D] O", "output: f32[B,H,M,D] O, f32[B,H,M,N] P"),  # weights are wanted
        ("e[b,h,i,j] / l[b,h,i]", "e[b,h,i,j] * l[b,h,i]"),
        ("m[b,h,i] max=", "m[b,h,i] min="),
        ("exp(S[b,h,i,j] - m[b,h,i])", "exp(S[b,h,i,j] * 2 - m[b,h,i])"),
        ("l[b,h,i] += e[b,h,i,j]", "l[b,h,i] += S[b,h,i,j]"),
    ],
)
def test_what_only_looks_like_it_is_left(old: str, new: str) -> None:
    text = PLAIN.replace("SCORE", SCORES["plain"]).replace(old, new)
    if "f32[B,H,M,N] P\n" in new + "\n":
        text = text.replace(", f32[B,H,M,N] P\n  operation", "\n  operation")
    assert text != PLAIN.replace("SCORE", SCORES["plain"])
    kernel = kernel_of(text)
    assert find_attention(kernel, kernel.assigns) is None


def test_blocks_behind_the_mask_are_left_out() -> None:
    kernel = kernel_of(PLAIN.replace("SCORE", SCORES["causal"]))
    found = find_attention(kernel, kernel.assigns)
    assert found is not None
    assert find_causal(found.score, found.rows, found.column) is not None
    window = kernel_of(PLAIN.replace("SCORE", SCORES["window"]))
    found = find_attention(window, window.assigns)
    assert found is not None
    assert find_causal(found.score, found.rows, found.column) is None


def test_candidates_are_ranked_and_fit() -> None:
    kernel = kernel_of(PLAIN.replace("SCORE", SCORES["scaled"]))
    match = attention.match(kernel, kernel.assigns, CPU)
    assert match is not None
    sizes = {"B": 1, "H": 8, "M": 1024, "N": 1024, "D": 64}
    choices = attention.candidates(match, CPU, sizes)
    seconds = [attention.cost(match, choice, CPU, sizes) for choice in choices]
    assert choices
    assert seconds == sorted(seconds)
