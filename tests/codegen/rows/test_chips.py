"""Rows and attention by `compile`, on chips with engines and without: valid there, and right."""

from __future__ import annotations

import pytest
from row_programs import LAYER_NORM, SOFTMAX, check, kernel_of
from test_attention import PLAIN, SCORES

import hal.codegen
from hal.codegen.target import Target
from hal.hcd import load

CAUSAL = PLAIN.replace("SCORE", SCORES["causal"])
CASES = {
    "softmax": (SOFTMAX, "rows", {"M": 5, "N": 300}, {}),
    "layer norm": (LAYER_NORM, "rows", {"M": 5, "N": 70}, {"eps": 0.01}),
    "attention": (CAUSAL, "attention", {"B": 1, "H": 2, "M": 9, "N": 21, "D": 16}, {"scale": 0.25}),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("chip", ["", "sim/npu-small", "sim/npu-tier1", "sim/npu-systolic"])
def test_one_group_runs_on_every_chip(chip: str, case: str) -> None:
    text, strategy, params, scalars = CASES[case]
    hcd = load(chip) if chip else None
    made = hal.codegen.compile(kernel_of(text), hcd, sizes=params)
    assert [choice.strategy for choice in made.choices] == [strategy]
    check(made.module, made.kernel, Target.of(hcd), params, scalars)
