"""Elementwise fusion: what is put into its readers, what is not, and which roundings stay."""

from __future__ import annotations

import pytest
from pass_programs import ATTENTION, SOFTMAX, kernel, operations, small, temps

from hal.ir.passes.fuse import fuse

ONE = "input: f32[M,N] X, f32[N,K] W, i32[M] I\noutput: f32[M,N] Y, f32[M] R, f32[M,K] C\n"


def fused(declarations: str, *statements: str) -> list[str]:
    return operations(fuse(small(declarations, *statements)))


def test_a_chain_of_elementwise_temps_becomes_one_statement() -> None:
    assert fused(
        ONE + "temp: f32[M,N] t, f32[M,N] u",
        "t[a,b] = X[a,b] * 2",
        "u[i,j] = exp(t[i,j])",
        "Y[i,j] = u[i,j] + 1",
    ) == ["Y[i, j] = exp(X[i, j] * 2) + 1"]


def test_a_reduction_takes_its_producer() -> None:
    assert fused(ONE + "temp: f32[M,N] t", "t[i,j] = exp(X[i,j])", "R[i] += t[i,j]") == [
        "R[i] += exp(X[i, j])"
    ]


def test_cheap_work_is_done_again_and_dear_work_is_kept() -> None:
    again = ("R[i] += t[i,j]", "Y[i,j] = t[i,j]")
    cheap = fused(ONE + "temp: f32[M,N] t", "t[i,j] = X[i,j] * 2", *again)
    assert cheap == ["R[i] += X[i, j] * 2", "Y[i, j] = X[i, j] * 2"]
    dear = fused(ONE + "temp: f32[M,N] t", "t[i,j] = exp(X[i,j])", *again)
    assert dear[0] == "t[i, j] = exp(X[i, j])"


def test_a_product_does_not_repeat_work_for_each_column() -> None:
    found = fused(ONE + "temp: f32[M,N] t", "t[i,j] = X[i,j] * 2", "C[i,k] += t[i,j] * W[j,k]")
    assert found == ["t[i, j] = X[i, j] * 2", "C[i, k] += t[i, j] * W[j, k]"]


def test_a_product_reads_through_a_copy() -> None:
    found = fused(ONE + "temp: f32[N,M] t", "t[j,i] = X[i,j]", "C[i,k] += t[j,i] * W[j,k]")
    assert found == ["C[i, k] += X[i, j] * W[j, k]"]


def test_a_rounding_of_the_text_stays() -> None:
    text = "input: f16[M] X\noutput: f16[M] Y\ntemp: f16[M] t"
    assert fused(text, "t[i] = X[i] * 3", "Y[i] = t[i] + 1") == ["Y[i] = f16(X[i] * 3) + 1"]


def test_a_narrow_integer_wraps_where_its_temp_did() -> None:
    text = "input: i8[M] X\noutput: i32[M] Y\ntemp: i8[M] t"
    assert fused(text, "t[i] = X[i] + X[i]", "Y[i] = i32(t[i])") == ["Y[i] = i32(i8(X[i] + X[i]))"]


@pytest.mark.parametrize(
    ("declarations", "statements"),
    [
        # the source is overwritten in between
        (
            "inout: f32[M] X\noutput: f32[M] Y\ntemp: f32[M] t",
            ("t[i] = X[i]", "X[i] = X[i] + 1", "Y[i] = t[i]"),
        ),
        # the reader writes what the temp loads
        ("inout: f32[M] X\ntemp: f32[M] t", ("t[i] = X[i] * 2", "X[i] += t[i]")),
        # a pad must see the temp's own edge
        (
            "input: f32[M] X\noutput: f32[M] Y\ntemp: f32[M] t",
            ("t[i] = X[i] + 1", "Y[i] = t[i + 1] pad 0"),
        ),
        # two writers
        (
            "input: f32[M] X\noutput: f32[M] Y\ntemp: f32[M] t",
            ("t[i] = X[i]", "t[i] += X[i]", "Y[i] = t[i]"),
        ),
        # a temp that is written at a constant place
        (
            "input: f32[M] X\noutput: f32[M] Y\ntemp: f32[M,2] t",
            ("t[i,0] = X[i]", "t[i,1] = X[i] * 2", "Y[i] = t[i,0] + t[i,1]"),
        ),
        # an operand of concat is an array
        (
            "input: f32[M] X\noutput: f32[N] Y\ntemp: f32[M] t",
            ("t[i] = X[i] * 2", "Y[j] = concat(t[j], X[j], j)"),
        ),
    ],
)
def test_what_would_change_the_meaning_is_left(
    declarations: str, statements: tuple[str, ...]
) -> None:
    before = small(declarations, *statements)
    assert fuse(before) == before


def test_an_index_keeps_its_range_under_a_new_name() -> None:
    before = small(
        "input: f32[K] X\noutput: f32[M] Y\ntemp: f32[N] t", "t[j] = X[j + 1] * 2", "Y[0] += t[j]"
    )
    found = fuse(before)
    assert operations(found) == ["Y[0] += X[j1 + 1] * 2"]
    assert [(item.name, repr(item.size)) for item in found.extents] == [
        ("j1", "ParamRef(name='N')")
    ]


def test_softmax_keeps_its_exponentials_once() -> None:
    found = fuse(kernel(SOFTMAX))
    assert temps(found) == ["m", "e", "s"]


def test_attention_keeps_its_products_and_sums() -> None:
    found = fuse(kernel(ATTENTION))
    assert temps(found) == ["S", "m", "e", "l", "P"]
    assert operations(found)[1] == "m[b, h, i] max= where(j <= i, S[b, h, i, j] * scale, -inf)"


def test_a_gathered_copy_is_not_repeated_for_each_column() -> None:
    found = fused(ONE + "temp: f32[M,N] t", "t[i,j] = X[I[i],j]", "C[i,k] += t[i,j] * W[j,k]")
    assert len(found) == 2


def test_an_index_array_that_is_a_copy_is_read_at_its_source() -> None:
    found = fused(ONE + "temp: i32[M] t", "t[i] = I[i]", "Y[i,j] = X[t[i],j]")
    assert found == ["Y[i, j] = X[I[i], j]"]
