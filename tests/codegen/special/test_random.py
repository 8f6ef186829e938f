"""philox of any seed, offset and element: the same numbers however they are counted."""

from __future__ import annotations

import numpy as np
import pytest
from special_judge import CHIPS, judge

ELEMENTS = (
    "philox(7, 1, i * N + j)",
    "philox(7, 1, j * N + i)",
    "philox(7, 1, 3 * i + 5 * j)",
    "philox(7, 1, i * j)",
    "philox(7, 1, i)",
    "philox(7, 1, (i * N + j) // 3)",
    "philox(7, 1, (i * N + j) % 5)",
    "philox(7, 1, i64(t[j]) * N + i)",
    "philox(i64(t[i]), i64(t[j]), j)",
    "philox(key, 4294967296, 0 - j)",
    "philox(key, i, 4294967296 * i + j)",
)


@pytest.mark.parametrize("name", CHIPS[:3])
@pytest.mark.parametrize("value", ELEMENTS)
def test_the_numbers_are_those_of_the_element(name: str, value: str) -> None:
    text = f"""
kernel k {{
  param N : int
  index i : N
  index j : N
  scalar i64 key
  input: i32[N] t
  output: f32[N,N] Y
  operation: Y[i,j] = {value}
}}
"""
    t = np.random.default_rng(1).integers(-5, 2**31 - 1, 11).astype(np.int32)
    judge(text, name, {"t": t}, {"N": 11}, {"key": -(2**40) + 17})
