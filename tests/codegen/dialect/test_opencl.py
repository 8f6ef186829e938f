"""Sources in OpenCL C, run by the machine's OpenCL, against the definition of VIL.

Where there is no OpenCL device these tests have no cases; .ci/run installs PoCL, and there they
fail without one. apt-get install pocl-opencl-icd ocl-icd-libopencl1
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from grouped import Runtime, library
from test_c import check_with, joined, small

import hal.hcd
from hal import dtypes
from hal.codegen.dialect import render
from hal.dtypes import DType
from hal.vil import recipes
from hal.vil.check_chip import Limits
from hal.vil.generate import Case, Choices, generate

HAS_DEVICE = library() is not None or os.environ.get("CI") == "true"
SEEDS = list(range(7000, 7006)) if HAS_DEVICE else []
TYPES = [dtypes.f16, dtypes.f32, dtypes.i32, dtypes.i64] if HAS_DEVICE else []


@pytest.fixture(scope="session")
def runtime() -> Runtime:
    """The first OpenCL device."""
    return Runtime()


@pytest.fixture(scope="session")
def chip() -> hal.hcd.Hcd:
    """A chip that takes OpenCL C."""
    return hal.hcd.load("hal/opencl")


@pytest.mark.parametrize("seed", SEEDS)
def test_generated_programs_agree_with_the_evaluator(
    runtime: Runtime, chip: hal.hcd.Hcd, seed: int
) -> None:
    check_with(runtime.run, chip, generate(Choices(seed), Limits.of(chip), steps=16))


@pytest.mark.parametrize("seed", SEEDS[:3])
@pytest.mark.parametrize("local_bytes", [0, 2048])
def test_programs_agree_where_most_tiles_lie_in_global_memory(
    runtime: Runtime, chip: hal.hcd.Hcd, seed: int, local_bytes: int
) -> None:
    small = chip.overlay({"memory.local.capacity_bytes": 64 + local_bytes})
    check_with(runtime.run, small, generate(Choices(seed), Limits.of(small), steps=16))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_sums_products_and_scattered_rows_of_small_integers_agree(
    runtime: Runtime, chip: hal.hcd.Hcd, dtype: DType
) -> None:
    out = {"f64": dtypes.f64, "i64": dtypes.i64}.get(dtype.name)
    total = out or (dtypes.f32 if dtype.is_float else dtypes.i32)
    x, a, b = small(dtype, 20, 70), small(dtype, 19, 33), small(dtype, 33, 21)
    rows = np.random.default_rng(3).integers(-1, 6, 9).astype(np.int32)
    made: list[tuple[Any, list[Any]]] = [
        (recipes.reduction("add", dtype, total, axis=1), [20, 70, x, np.zeros(20, total.numpy)]),
        (recipes.matmul(dtype, dtype, total), [19, 21, 33, a, b, np.zeros((19, 21), total.numpy)]),
        (
            recipes.scattered("add", total, dtypes.i32),
            [5, 70, 9, small(total, 9, 70), rows, np.zeros((5, 70), total.numpy)],
        ),
    ]
    module = joined([each for each, _ in made])
    for number, (_, values) in enumerate(made):
        names = [item.name for item in module.kernels[number].arguments]
        case = Case(module, f"k{number}", dict(zip(names, values, strict=True)), True)
        check_with(runtime.run, chip, case)


def test_tiles_lie_in_the_memory_of_the_group_and_lanes_meet_at_barriers(
    chip: hal.hcd.Hcd,
) -> None:
    source = render(recipes.matmul(dtypes.f32, dtypes.f32, dtypes.f32), chip)
    assert ("__kernel void hal_program_main(" in source, "__local f32 t" in source) == (True, True)
    assert source.count("barrier(CLK_LOCAL_MEM_FENCE") >= 3
