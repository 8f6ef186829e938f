"""Adaptation of the element type: storage in 16 bits, everything between in f32."""

from __future__ import annotations

import pytest
from pass_programs import SOFTMAX, kernel, operations, small

from hal import dtypes
from hal.errors import InvalidValue
from hal.ir.passes.adapt import adapt_dtype


def test_arguments_change_and_temps_do_not() -> None:
    found = adapt_dtype(kernel(SOFTMAX), dtypes.bf16)
    assert [(a.name, a.dtype.name) for a in found.arrays] == [
        ("X", "bf16"),
        ("Y", "bf16"),
        ("m", "f32"),
        ("e", "f32"),
        ("s", "f32"),
    ]


def test_an_output_that_is_used_again_is_rounded_once() -> None:
    found = adapt_dtype(
        small("input: f32[M] X\noutput: f32[M] Y", "Y[i] = X[i]", "Y[i] += X[i]"), dtypes.f16
    )
    assert operations(found) == ["Y_f32[i] = X[i]", "Y_f32[i] += X[i]", "Y[d0] = Y_f32[d0]"]


def test_integers_and_f64_stay() -> None:
    found = adapt_dtype(
        small("input: f64[M] X, i32[M] I\noutput: f64[M] Y", "Y[i] = X[I[i]]"), dtypes.f16
    )
    assert [a.dtype.name for a in found.arrays] == ["f64", "i32", "f64"]


def test_another_type_is_refused_with_the_choice() -> None:
    with pytest.raises(InvalidValue, match=r"f32 cannot be stored as i8\. Choose one of f16, bf16"):
        adapt_dtype(kernel(SOFTMAX), dtypes.i8)
