"""Loaded subscripts on the left: every assignment, type and position; outside is dropped."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from special_judge import CHIPS, chip, compiled, judge, kernel_of

import hal.vil
from hal import dtypes
from hal.codegen import compile as compile_kernel
from hal.dtypes import DType
from hal.testing.inputs import small

FEW = settings(max_examples=3, deadline=None)
MORE = settings(max_examples=8, deadline=None)
sizes = st.integers(0, 9)
chips = pytest.mark.parametrize("name", CHIPS[:3])
orders = pytest.mark.parametrize("deterministic", [False, True], ids=["free", "deterministic"])

TARGETS = {
    "rows": ("f32[V,D] C", "C[t[i], j]", "A[i,j]"),
    "columns": ("f32[D,V] C", "C[j, t[i]]", "A[i,j]"),
    "elements": ("f32[V] C", "C[t[i]]", "A[i,0] pad 0"),
    "beside a kept index": ("f32[N,V] C", "C[i, w[i,j]]", "A[i,j]"),
    "arithmetic": ("f32[V,D] C", "C[t[i] - 1, j]", "A[i,j] * 2.0 + f32(i)"),
    "nested": ("f32[V,D] C", "C[t[u[i]], j]", "A[i,j]"),
    "a gathered value": ("f32[V,D] C", "C[t[i], j]", "A[u[i],j]"),
}


def text_of(array: str, role: str, target: str, assignment: str, value: str) -> str:
    return f"""
kernel k {{
  param V, N, D, M : int
  index i : N
  index j : D
  input: f32[N,D] A, i32[M] t, i32[M] u, i32[N,D] w
  {role}: {array}
  operation: {target} {assignment} {value}
}}
"""


def inputs(v: int, n: int, d: int, seed: int) -> tuple[dict[str, Any], dict[str, int]]:
    rng = np.random.default_rng(seed)
    m = max(n, d, v) + 1
    arrays = {
        "A": small(rng, dtypes.f32, n, d),
        "t": rng.integers(-2, v + 2, m).astype(np.int32),
        "u": rng.integers(-2, v + 2, m).astype(np.int32),
        "w": rng.integers(-2, v + 2, (n, d)).astype(np.int32),
    }
    return arrays, {"V": v, "N": n, "D": d, "M": m}


@chips
@pytest.mark.parametrize("case", TARGETS)
@MORE
@given(
    deterministic=st.booleans(),
    role=st.sampled_from(["output", "inout"]),
    assignment=st.sampled_from(["+=", "max=", "min=", "*="]),
    v=sizes,
    n=sizes,
    d=sizes,
    seed=st.integers(0, 999),
)
def test_a_scatter_combines_into_the_target(
    name: str,
    deterministic: bool,
    role: str,
    case: str,
    assignment: str,
    v: int,
    n: int,
    d: int,
    seed: int,
) -> None:
    array, target, value = TARGETS[case]
    text = text_of(array, role, target, assignment, value)
    arrays, params = inputs(v, n, d, seed)
    if assignment == "*=":
        arrays["A"] = np.sign(arrays["A"])
        value = value.replace("* 2.0 + f32(i)", "")
        text = text_of(array, role, target, assignment, value)
    if role == "inout":
        lengths = params
        shape = [lengths[c] for c in array[array.index("[") + 1 : array.index("]")].split(",")]
        arrays["C"] = small(np.random.default_rng(seed + 1), dtypes.f32, *shape)
    judge(text, name, arrays, params, deterministic=deterministic)


TYPES = [dtypes.f16, dtypes.bf16, dtypes.f64, dtypes.i8, dtypes.u8, dtypes.i32, dtypes.i64]


@chips
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@FEW
@given(
    assignment=st.sampled_from(["+=", "max=", "min="]),
    role=st.sampled_from(["output", "inout"]),
    n=sizes,
    seed=st.integers(0, 999),
)
def test_a_scatter_is_rounded_once(
    name: str, dtype: DType, assignment: str, role: str, n: int, seed: int
) -> None:
    text = f"""
kernel k {{
  param V, N, D : int
  input: {dtype}[N,D] A, i64[N] t
  {role}: {dtype}[V,D] C
  operation: C[t[i], j] {assignment} A[i,j]
}}
"""
    rng = np.random.default_rng(seed)
    arrays = {"A": small(rng, dtype, n, 5), "t": rng.integers(-1, 4, n)}
    if role == "inout":
        arrays["C"] = small(rng, dtype, 3, 5)
    judge(text, name, arrays, {"V": 3, "N": n, "D": 5})


@chips
@orders
@pytest.mark.parametrize("dtype", [dtypes.f32, dtypes.f8e4m3, dtypes.bool_, dtypes.i64], ids=str)
@FEW
@given(n=sizes, seed=st.integers(0, 999))
def test_of_two_rows_for_one_place_one_whole_row_stays(
    name: str, deterministic: bool, dtype: DType, n: int, seed: int
) -> None:
    text = f"""
kernel k {{
  param V, N, D : int
  input: {dtype}[N,D] A, i32[N] t
  inout: {dtype}[V,D] C
  operation: C[t[i], j] = A[i,j]
}}
"""
    rng = np.random.default_rng(seed)
    kernel = kernel_of(text)
    module = compiled(text, name, (("deterministic", deterministic),))
    d, v = 7, 4
    given = {
        "V": v,
        "N": n,
        "D": d,
        "A": rng.integers(0, 2, (n, d)).astype(dtype.numpy),
        "t": rng.integers(-1, v + 1, n).astype(np.int32),
        "C": rng.integers(0, 2, (v, d)).astype(dtype.numpy),
    }
    got = hal.vil.evaluate(module, kernel.name, given)["C"].reshape(v, d).astype(np.float64)
    for row in range(v):
        may = [given["A"][i] for i in range(n) if given["t"][i] == row] or [given["C"][row]]
        assert any(np.array_equal(got[row], np.asarray(one, np.float64)) for one in may)


@chips
def test_sums_of_products_are_scattered(name: str) -> None:
    text = """
kernel k {
  param V, N, D, K : int
  input: f32[N,K] A, f32[K,D] B, i32[N] t
  output: f32[V,D] C
  operation: C[t[i], j] += A[i,k] * B[k,j]
}
"""
    rng = np.random.default_rng(5)
    arrays = {
        "A": small(rng, dtypes.f32, 6, 9),
        "B": small(rng, dtypes.f32, 9, 5),
        "t": np.array([0, 2, 2, 7, -1, 0], np.int32),
    }
    judge(text, name, arrays, {"V": 3, "N": 6, "D": 5, "K": 9})


def test_a_later_scatter_goes_on_from_an_earlier_one() -> None:
    text = """
kernel k {
  param V, N, D : int
  input: f16[N,D] A, i32[N] t, i32[N] u
  output: f16[V,D] C
  operation: C[t[i], j] += A[i,j]
  operation: C[u[i], j] max= 2.0 * A[i,j]
}
"""
    rng = np.random.default_rng(6)
    arrays = {
        "A": small(rng, dtypes.f16, 6, 9),
        "t": rng.integers(0, 4, 6).astype(np.int32),
        "u": rng.integers(0, 4, 6).astype(np.int32),
    }
    for name in CHIPS[:3]:
        judge(text, name, arrays, {"V": 4, "N": 6, "D": 9})


def test_the_deterministic_form_adds_in_order_and_never_scatters() -> None:
    array, target, value = TARGETS["rows"]
    text = text_of(array, "output", target, "+=", value)
    free = compile_kernel(kernel_of(text), chip("sim/npu-small")).module
    fixed = compile_kernel(kernel_of(text), chip("sim/npu-small"), deterministic=True).module

    def operations(module: hal.vil.Module) -> set[str]:
        return {item.op for program in module.programs for item in program.instructions}

    assert "scatter" in operations(free)
    assert "scatter" not in operations(fixed)
