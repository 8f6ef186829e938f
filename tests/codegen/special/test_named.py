"""Calls along an axis: every axis, length and type, NaN and ties, on chips of all kinds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from special_judge import CHIPS, judge

from hal import dtypes
from hal.dtypes import DType
from hal.testing.inputs import small

PHASES = (Phase.explicit, Phase.generate)
"""Shrinking a failure would compile it hundreds of times."""
FEW = settings(max_examples=4, deadline=None, phases=PHASES)
lengths = st.sampled_from([0, 1, 2, 5, 9, 70])
chips = pytest.mark.parametrize("name", CHIPS[:3])
FLOATS = (dtypes.f32, dtypes.f16, dtypes.bf16, dtypes.f64)
NUMBERS = (*FLOATS, dtypes.i8, dtypes.u8, dtypes.i32, dtypes.i64)
AXES = {
    "last": ("[M,N] X", "X[i,j]", "[i,j]", "[M,N]", "[i]", "[M]"),
    "first": ("[N,M] X", "X[j,i]", "[j,i]", "[N,M]", "[i]", "[M]"),
    "middle": ("[M,N,L] X", "X[i,j,l]", "[i,j,l]", "[M,N,L]", "[i,l]", "[M,L]"),
    "alone": ("[N] X", "X[j]", "[j]", "[N]", "[]", "[]"),
    "with three others": (
        "[L,M,L,N] X",
        "X[h,i,l,j]",
        "[h,i,l,j]",
        "[L,M,L,N]",
        "[h,i,l]",
        "[L,M,L]",
    ),
}


def shape_of(dims: str, sizes: dict[str, int]) -> tuple[int, ...]:
    return tuple(sizes[c] for c in dims[dims.index("[") + 1 : dims.index("]")].split(",") if c)


def numbers(seed: int, dtype: DType, shape: tuple[int, ...], *, special: bool) -> Any:
    """Few different values, so that there are ties; NaN, infinities and zeros where asked."""
    rng = np.random.default_rng(seed)
    found = np.asarray(small(rng, dtype, *shape, limit=3))
    if special and dtype.is_float and found.size:
        flat = found.reshape(-1)
        places = rng.integers(0, flat.size, max(1, flat.size // 4))
        flat[places] = rng.choice([np.nan, np.inf, -np.inf, -0.0], len(places))
    return found


def header(dtype: DType, array: str) -> str:
    return f"kernel k {{\n  param M, N, L, K : int\n  input: {dtype}{array}\n"


@chips
@pytest.mark.parametrize("axis", AXES)
@FEW
@given(
    function=st.sampled_from(["scan_add", "scan_mul", "scan_max", "scan_min"]),
    flags=st.sampled_from(["", ", exclusive", ", reverse", ", exclusive, reverse"]),
    dtype=st.sampled_from(NUMBERS),
    n=lengths,
    m=st.integers(0, 5),
    seed=st.integers(0, 999),
)
def test_a_scan_runs_along_any_axis(
    name: str, axis: str, function: str, flags: str, dtype: DType, n: int, m: int, seed: int
) -> None:
    array, value, index, dims, _, _ = AXES[axis]
    text = f"""{header(dtype, array)}
  output: {dtype}{dims} Y
  operation: Y{index} = {function}({value}, j{flags})
}}
"""
    sizes = {"M": m, "N": n, "L": 3, "K": 0}
    x = numbers(seed, dtype, shape_of(dims, sizes), special=function in ("scan_max", "scan_min"))
    if function == "scan_mul":
        x = np.sign(x).astype(x.dtype)
    judge(text, name, {"X": x}, sizes)


@chips
@pytest.mark.parametrize("axis", AXES)
@FEW
@given(
    function=st.sampled_from(["argmax", "argmin"]),
    dtype=st.sampled_from(NUMBERS),
    index=st.sampled_from(["i32", "i64"]),
    n=lengths.filter(bool),
    m=st.integers(0, 5),
    seed=st.integers(0, 999),
)
def test_a_position_is_the_first_of_the_best(
    name: str, axis: str, function: str, dtype: DType, index: str, n: int, m: int, seed: int
) -> None:
    array, value, _, dims, kept, kept_dims = AXES[axis]
    text = f"""{header(dtype, array)}
  output: {index}{kept_dims} P
  operation: P{kept} = {function}({value}, j)
}}
"""
    sizes = {"M": m, "N": n, "L": 3, "K": 0}
    x = numbers(seed, dtype, shape_of(dims, sizes), special=bool(seed % 2))
    judge(text, name, {"X": x}, sizes)


@chips
@pytest.mark.parametrize("axis", ["last", "first", "alone"])
@pytest.mark.parametrize("count", ["K", "3", "70"])
@FEW
@given(
    flag=st.sampled_from(["", ", smallest"]),
    dtype=st.sampled_from(NUMBERS),
    index=st.sampled_from(["i32", "i64"]),
    n=lengths,
    k=st.sampled_from([0, 1, 4, 66]),
    seed=st.integers(0, 999),
)
def test_topk_lists_the_best_in_order(
    name: str, axis: str, count: str, flag: str, dtype: DType, index: str, n: int, k: int, seed: int
) -> None:
    array, value, where, dims, _, _ = AXES[axis]
    shape, place = dims.replace("N", count), where.replace("j", "r")
    text = f"""{header(dtype, array)}
  output: {dtype}{shape} V, {index}{shape} P
  operation: V{place}, P{place} = topk({value}, j{flag})
}}
"""
    k = k if count == "K" else int(count)
    n = max(n, k)  # entries that nothing writes are unspecified
    sizes = {"M": 3, "N": n, "L": 3, "K": k}
    x = numbers(seed, dtype, shape_of(dims, sizes), special=bool(seed % 2))
    judge(text, name, {"X": x}, sizes)


@chips
@pytest.mark.parametrize("axis", ["last", "middle"])
@FEW
@given(
    flag=st.sampled_from(["", ", descending"]),
    dtype=st.sampled_from(NUMBERS),
    n=lengths,
    seed=st.integers(0, 999),
)
def test_a_sort_is_stable_and_takes_any_length(
    name: str, axis: str, flag: str, dtype: DType, n: int, seed: int
) -> None:
    array, value, where, dims, _, _ = AXES[axis]
    text = f"""{header(dtype, array)}
  output: {dtype}{dims} V, i32{dims} P
  operation: V{where}, P{where} = sort({value}, j{flag})
}}
"""
    sizes = {"M": 2, "N": n, "L": 2, "K": 0}
    x = numbers(seed, dtype, shape_of(dims, sizes), special=bool(seed % 2))
    judge(text, name, {"X": x}, sizes)


@chips
@FEW
@given(
    dtype=st.sampled_from([*NUMBERS, dtypes.bool_]),
    a=st.integers(0, 5),
    b=st.integers(0, 70),
    m=st.integers(0, 5),
    seed=st.integers(0, 999),
)
def test_a_concat_puts_parts_one_behind_another(
    name: str, dtype: DType, a: int, b: int, m: int, seed: int
) -> None:
    text = f"""
kernel k {{
  param M, N, L, K : int
  input: {dtype}[M,L] A, {dtype}[M,K] B, {dtype}[L,M] C
  output: {dtype}[M, L + K + L] Y, {dtype}[L + K + L, M] Z
  operation: Y[i,j] = concat(A[i,j], B[i,j], C[j,i], j)
  operation: Z[j,i] = concat(A[i,j], B[i,j], C[j,i], j)
}}
"""
    rng = np.random.default_rng(seed)
    arrays = {
        item: rng.integers(0, 2, shape).astype(dtype.numpy)
        for item, shape in (("A", (m, a)), ("B", (m, b)), ("C", (a, m)))
    }
    judge(text, name, arrays, {"M": m, "N": 0, "L": a, "K": b})


@chips
@pytest.mark.parametrize(
    "call",
    [
        "Y[i,j] = scan_add(X[t[j], i] * 2.0, j)",
        "Y[i,j] = scan_max(X[t[i], j] + f32(j), j)",
        "Y[i,j] = scan_add(f32(i + 2 * j), j)",
        "Y[i,j] = scan_min(where(X[i,j] > 0.0, X[i,j], f32(j)), j, reverse)",
        "P[i] = argmax(X[i, t[j]] - 0.5 * f32(j), j)",
        "P[i] = argmin(f32(i - j * 3), j)",
        "Y[i,j], Q[i,j] = sort(X[t[j], j] + f32(i), j)",
        "Y[i,j], Q[i,j] = sort(philox(7, 1, i * 9 + j), j)",
    ],
)
def test_an_operand_is_any_expression(name: str, call: str) -> None:
    outputs = {"Y": "f32[N,N] Y", "P": "i32[N] P", "Q": "i32[N,N] Q"}
    used = ", ".join(text for key, text in outputs.items() if f"{key}[" in call)
    text = f"""
kernel k {{
  param N : int
  index i : N
  index j : N
  input: f32[N,N] X, i32[N] t
  output: {used}
  operation: {call}
}}
"""
    rng = np.random.default_rng(3)
    arrays = {
        "X": small(rng, dtypes.f32, 9, 9),
        "t": rng.integers(-1, 10, 9).astype(np.int32),
    }
    judge(text, name, arrays, {"N": 9})
