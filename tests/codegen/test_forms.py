"""Forms of statements that the core must address: each against the IR's evaluator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from judge import judge

import hal
from hal.codegen import Target
from hal.codegen import compile as compile_kernel
from hal.hcd import shipped
from hal.ir import parse
from hal.ir.analysis import value_of
from hal.vil import validate

FORMS = {
    "philox": """param M, N, S : int
        output: f32[M,N] Y
        operation: Y[i,j] = where(philox(S, 3, i * N + j) < 0.5, 1.0, 0.0)""",
    "strided_philox": """param M, N, S : int
        output: f32[M,N] Y
        operation: Y[i,j] = philox(S, 0, 2 * (i * N + j))""",
    "turned_philox": """param M, N, S : int
        output: f32[N,M] Y
        operation: Y[j,i] = philox(S, 0, i * N + j)""",
    "six dimensions": """param M, N, S : int
        input: f32[M,2,N,3,1,S] X
        output: f32[M,2,N,3,1,S] Y
        operation: Y[a,b,c,d,e,f] = X[a,b,c,d,e,f] + X[a,b,c,2 - d,e,f]""",
    "seven dimensions turned": """param M, N, S : int
        input: f32[S,1,2,N,3,2,M] X
        output: f32[M,2,3,N,2,1,S] Y
        operation: Y[a,b,c,d,e,f,g] = X[g,f,e,d,c,b,a]""",
    "window": """param M, N, S : int
        index di, dj : 3
        input: f32[M,N] X, f32[3,3] K
        output: f32[M,N] Y
        operation: Y[i,j] += X[i + di - 1, j + dj - 1] pad 0 * K[di, dj]""",
    "stored with a step": """param M, N, S : int
        input: i32[M,N] X
        output: i32[2*M+1,N] Y
        operation: Y[2*i+1,j] += X[i,j]""",
    "nothing to reduce": """param M, N, S : int
        index r : 0
        input: f32[M,N] X
        output: f32[M] Y
        operation: Y[i] += X[i, 0 * r] pad 0""",
    "index alone": """param M, N, S : int
        index r : N
        output: i64[M] Y
        operation: Y[i] += i * r""",
    "triangle": """param M, N, S : int
        input: f16[M,N] X
        output: f16[M,N] Y
        operation: Y[i,j] = where(j <= i, X[i,j], -inf)""",
    "flattened": """param M, N, S : int
        input: f32[M,N] X
        output: f32[M*N] Y
        operation: Y[p] = X[p // N, p % N]""",
    "mixed types": """param M, N, S : int
        input: i8[M,N] X, u8[N] y, bool[M] b
        output: i8[M,N] Y
        operation: Y[i,j] = where(b[i], i8(i32(X[i,j]) * i32(y[j]), saturate), X[i,j] + 1)""",
    "eight bits": """param M, N, S : int
        input: f8e4m3[M,N] X
        output: f8e5m2[M,N] Y
        operation: Y[i,j] = max(f32(X[i,j]), 0)""",
    "several statements": """param M, N, S : int
        input: f32[M,N] X
        temp: f32[M] t
        output: f32[M,N] Y
        operation: t[i] max= X[i,j]
        operation: Y[i,j] = X[i,j] - t[i]
        operation: t[i] += Y[i,j]
        operation: Y[i,j] = Y[i,j] * t[i]""",
    "one scalar out": """param M, N, S : int
        input: f32[M,N] X
        inout: f32[] s
        operation: s[] += X[i,j] * X[i,j]""",
}
SIZES = [(0, 3, 2), (1, 1, 1), (5, 37, 3), (33, 9, 2)]


def made(kernel: Any, params: dict[str, int]) -> dict[str, Any]:
    """Small whole numbers for inputs and inouts."""
    rng = np.random.default_rng(7)
    found = {}
    for array in kernel.arrays_of("input", "inout"):
        shape = tuple(value_of(size, params) for size in array.shape)
        low, high = (0, 2) if array.dtype.kind == "bool" else (0, 5)
        found[array.name] = rng.integers(low, high, shape).astype(array.dtype.numpy)
    return found


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("name", list(FORMS))
def test_a_form_has_the_results_of_the_evaluator(name: str, sizes: tuple[int, int, int]) -> None:
    kernel = parse(f"kernel form {{ {FORMS[name]}\n}}").kernels[0]
    params = dict(zip("MNS", sizes, strict=True))
    for chip in (None, hal.hcd.load("hal/cpu"), hal.hcd.load("sim/npu-small")):
        judge(kernel, made(kernel, params), params, chip=chip)


@pytest.mark.parametrize("name", list(FORMS))
def test_every_shipped_chip_takes_every_form_of_its_types(name: str) -> None:
    kernel = parse(f"kernel form {{ {FORMS[name]}\n}}").kernels[0]
    for product in shipped():
        hcd = hal.hcd.load(product)
        if hcd.kind != "chip" or "kernels.vil" not in hcd:
            continue
        if not all(Target.of(hcd).supports("load", "", array.dtype) for array in kernel.arrays):
            continue
        module = compile_kernel(kernel, hcd, sizes={"M": 4096, "N": 4096}).module
        assert validate(module, hcd) == [], product


def test_a_long_grid_is_walked_in_a_loop() -> None:
    hcd = hal.hcd.load("sim/npu-small").overlay({"execution.limits.grid_max": [3, 3, 3]})
    kernel = parse(f"kernel form {{ {FORMS['triangle']}\n}}").kernels[0]
    assert Target.of(hcd).grid_max == (3, 3, 3)
    params = {"M": 40, "N": 700, "S": 1}
    judge(kernel, made(kernel, params), params, chip=hcd)


def test_a_sum_over_everything_is_shared_between_programs() -> None:
    hcd = hal.hcd.load("sim/npu-small")
    kernel = parse(f"kernel form {{ {FORMS['one scalar out']}\n}}").kernels[0]
    sizes = {"M": 4096, "N": 4096, "S": 1}
    compiled = compile_kernel(kernel, hcd, sizes=sizes, without={"rows"})
    assert compiled.choices[0].choice.parts == 8
    assert len(compiled.module.kernels[0].launches) == 2
    for params in ({"M": 90, "N": 70, "S": 1}, {"M": 0, "N": 5, "S": 1}, {"M": 1, "N": 1, "S": 1}):
        judge(kernel, made(kernel, params), params, chip=hcd, sizes=sizes, without={"rows"})


def without_i64(name: str) -> hal.hcd.Hcd:
    """A chip of which no operation takes i64."""
    hcd = hal.hcd.load(name)
    values = {}
    for row in hcd["kernels.vil.ops"]:
        for key in ("dtypes", "dtypes_to"):
            if "i64" in row.get(key, ()):
                kept = [item for item in row[key] if item != "i64"]
                values[f"kernels.vil.ops.{row['id']}.{key}"] = kept
    return hcd.overlay(values)


@pytest.mark.parametrize("name", ["triangle", "philox", "window", "flattened"])
def test_positions_are_i32_on_a_chip_without_i64(name: str) -> None:
    hcd = without_i64("sim/npu-small")
    kernel = parse(f"kernel form {{ {FORMS[name]}\n}}").kernels[0]
    params = {"M": 5, "N": 37, "S": 3}
    module = judge(kernel, made(kernel, params), params, chip=hcd)
    assert not any(tile.dtype.name == "i64" for p in module.programs for tile in p.tiles)
