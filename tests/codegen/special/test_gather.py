"""Loaded subscripts on the right: any position, any arithmetic, outside means pad or 0."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from special_judge import CHIPS, judge

from hal import dtypes
from hal.testing.inputs import small

FEW = settings(max_examples=4, deadline=None)
sizes = st.integers(0, 11)
chips = pytest.mark.parametrize("name", CHIPS[:3])

SUBSCRIPTS = {
    "first": ("f32[V,D] X", "X[t[i], j]"),
    "last": ("f32[D,V] X", "X[j, t[i]]"),
    "last with the other one kept": ("f32[N,V] X", "X[i, t[j]]"),
    "arithmetic": ("f32[V,D] X", "X[t[i] * 2 - 1, j]"),
    "quotient": ("f32[V,D] X", "X[t[i] // 2, j]"),
    "index beside it": ("f32[V,D] X", "X[t[i] + i, j]"),
    "column beside it": ("f32[V] X", "X[t[i] + j]"),
    "clamped": ("f32[V,D] X", "X[max(min(t[i], V - 1), 0), j]"),
    "two of one row": ("f32[V,V] X", "X[t[i], u[i]] + 0.5 * f32(j)"),
    "two of two rows": ("f32[V,V] X", "X[t[i], u[j]]"),
    "two around a plain one": ("f32[V,D,V] X", "X[t[i], j, u[i]]"),
    "sum of two": ("f32[V,D] X", "X[t[i] + u[i], j]"),
    "nested": ("f32[V,D] X", "X[t[u[i]], j]"),
    "by both": ("f32[V,D] X", "X[w[i,j], j]"),
    "by both alone": ("f32[V] X", "X[w[i,j]]"),
    "three dimensions": ("f32[V,N,D] X", "X[t[i], i, j]"),
    "two accesses": ("f32[V,D] X", "X[t[i], j] * X[u[i], j]"),
    "in a condition": ("f32[V,D] X", "where(X[t[i], j] > 0.0, X[u[i], j], f32(t[i]))"),
}


@chips
@pytest.mark.parametrize("pad", ["", " pad 7"], ids=["zero", "pad"])
@pytest.mark.parametrize("case", SUBSCRIPTS)
@FEW
@given(v=sizes, n=sizes, d=sizes, seed=st.integers(0, 999))
def test_a_gather_is_its_definition(
    name: str, pad: str, case: str, v: int, n: int, d: int, seed: int
) -> None:
    array, value = SUBSCRIPTS[case]
    value = padded(value, pad)
    text = f"""
kernel k {{
  param V, N, D, M : int
  input: {array}, i32[M] t, i32[M] u, i32[N,D] w
  output: f32[N,D] Y
  operation: Y[i,j] = {value}
}}
"""
    rng = np.random.default_rng(seed)
    m = max(n, d, v) + 1
    lengths = {"V": v, "N": n, "D": d}
    shape = tuple(lengths[c] for c in array[array.index("[") + 1 : array.index("]")].split(","))
    arrays: dict[str, Any] = {
        "X": small(rng, dtypes.f32, *shape),
        "t": rng.integers(-2, v + 3, m).astype(np.int32),
        "u": rng.integers(-2, v + 3, m).astype(np.int32),
        "w": rng.integers(-2, v + 3, (n, d)).astype(np.int32),
    }
    judge(text, name, arrays, {"V": v, "N": n, "D": d, "M": m})


def padded(value: str, pad: str) -> str:
    """The pad behind every access of X."""
    result, depth, start = "", 0, -1
    for position, letter in enumerate(value):
        result += letter
        if letter == "[":
            if value[position - 1] == "X" and start < 0:
                start = depth
            depth += 1
        elif letter == "]":
            depth -= 1
            if depth == start:
                result, start = result + pad, -1
    return result
