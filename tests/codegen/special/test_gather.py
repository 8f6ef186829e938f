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
    "index beside it": ("f32[V,D] X", "X[t[i] + i, j]"),
    "column beside it": ("f32[V] X", "X[t[i] + j]"),
    "two of one row": ("f32[V,V] X", "X[t[i], u[i]] + 0.5 * f32(j)"),
    "two of two rows": ("f32[V,V] X", "X[t[i], u[j]]"),
    "two around a plain one": ("f32[V,D,V] X", "X[t[i], j, u[i]]"),
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
  index i : N
  index j : D
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


FREE = {
    "multiplied": "t[i] * 2 - 1",
    "divided": "t[i] // 2",
    "clamped": "max(min(t[i], V - 1), 0)",
    "sum of two": "t[i] + u[i]",
    "chosen": "where(t[i] < u[i], t[i], i32(i))",
}


@chips
@pytest.mark.parametrize("case", FREE)
@FEW
@given(v=sizes, n=sizes, seed=st.integers(0, 999))
def test_any_whole_number_of_loaded_values_is_an_index(
    name: str, case: str, v: int, n: int, seed: int
) -> None:
    """More than the text form allows: what it writes with a temp, code generation fuses."""
    text = f"""
kernel k {{
  param V, N, D : int
  input: f32[V,D] X, i32[N] t, i32[N] u
  output: f32[N,D] Y
  operation: Y[i,j] = X[{FREE[case]}, j] pad 3
}}
"""
    meaning = text.replace(
        "  operation:", f"  temp: i32[N] q\n  operation: q[i] = {FREE[case]}\n  operation:"
    )
    meaning = meaning.replace(f"X[{FREE[case]}", "X[q[i]").replace("V - 1", "i32(V) - 1")
    rng = np.random.default_rng(seed)
    arrays = {
        "X": small(rng, dtypes.f32, v, 5),
        "t": rng.integers(-2, v + 3, n).astype(np.int32),
        "u": rng.integers(-2, v + 3, n).astype(np.int32),
    }
    judge(text, name, arrays, {"V": v, "N": n, "D": 5}, meaning=meaning)
