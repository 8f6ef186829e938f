"""The table of passes: order, names, stages."""

from __future__ import annotations

import pytest
from pass_programs import SOFTMAX, kernel, operations, small

from hal import dtypes
from hal.errors import InvalidValue
from hal.ir.passes import NAMES, run, stages

CHAIN = small(
    "input: f32[M] X\noutput: f32[M] Y\ntemp: f32[M] t", "t[i] = X[i] * 1", "Y[i] = t[i] + 1"
)


def test_only_passes_that_change_something_are_shown() -> None:
    names = [name for name, _ in stages(CHAIN)]
    assert names == ["canonicalise", "layout"]


def test_each_pass_can_be_left_out() -> None:
    for name in NAMES:
        assert name not in [stage for stage, _ in stages(CHAIN, without={name})]


def test_without_every_pass_the_kernel_is_as_it_was() -> None:
    assert run(kernel(SOFTMAX), without=set(NAMES)) == kernel(SOFTMAX)


def test_an_unknown_pass_is_refused_with_the_list() -> None:
    with pytest.raises(InvalidValue, match=r"no pass .fuze.\. The passes are canonicalise"):
        run(CHAIN, without={"fuze"})


def test_a_second_run_changes_nothing() -> None:
    once = run(CHAIN)
    assert run(once) == once
    assert operations(once) == ["Y[i] = X[i] + 1"]


def test_the_element_type_is_adapted_first() -> None:
    assert next(stages(CHAIN, dtype=dtypes.f16))[0] == "adapt"
