"""Statements through the core of code generation, held against the IR's evaluator."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from judge import judge
from kernels import case

from hal.hcd import load

CHIPS = (
    "vil-core",
    "hal/cpu",
    "sim/npu-small",
    "sim/npu-systolic",
    "huawei/ascend-910b1",
    "nvidia/a100-sxm-80gb",
)


@cache
def chip(name: str) -> Any:
    """A shipped description; None for vil-core."""
    return None if name == "vil-core" else load(name)


@pytest.mark.parametrize("seed", range(48))
def test_a_random_kernel_has_the_results_of_the_evaluator(seed: int) -> None:
    made = case(seed)
    sizes = made.params if seed % 2 else None
    judge(
        made.kernel,
        made.arrays,
        made.params,
        made.scalars,
        chip=chip(CHIPS[seed % len(CHIPS)]),
        sizes=sizes,
    )
