"""Layout alignment: copies go, temps get the order in which they are read."""

from __future__ import annotations

from pass_programs import operations, small, temps

from hal.ir.passes.layout import align_layouts

ARRAYS = "input: f32[M,N] X, f32[M,K] W\noutput: f32[M,N] Y, f32[N,M] Z\n"


def test_a_transposed_temp_is_read_at_its_source() -> None:
    found = align_layouts(
        small(ARRAYS + "temp: f32[N,M] t", "t[j,i] = X[i,j]", "Y[i,j] = t[j,i] pad 0")
    )
    assert (operations(found), temps(found)) == (["Y[i, j] = X[i, j] pad 0"], [])


def test_a_source_that_changes_in_between_is_copied() -> None:
    before = small(
        "inout: f32[M] X\noutput: f32[M] Y\ntemp: f32[M] t",
        "t[i] = X[i]",
        "X[i] = X[i] * 2",
        "Y[i] = t[i] + 1",
    )
    assert align_layouts(before) == before


def test_a_sum_is_made_in_the_output_that_it_is_copied_to() -> None:
    found = align_layouts(
        small(ARRAYS + "temp: f32[M,N] t", "t[i,j] += W[i,k] * X[k,j]", "Z[b,a] = t[a,b]")
    )
    assert (operations(found), temps(found)) == (["Z[j, i] += W[i, k] * X[k, j]"], [])


def test_a_copy_into_another_type_stays() -> None:
    before = small(
        "input: f32[M,N] X\noutput: f16[M,N] Y\ntemp: f32[M,N] t",
        "t[i,j] += X[i,j] * X[k,j]",
        "Y[i,j] = t[i,j]",
    )
    assert align_layouts(before) == before


def test_a_temp_is_turned_to_the_order_of_its_readers() -> None:
    found = align_layouts(
        small(
            ARRAYS + "temp: f32[N,M] t",
            "t[j,i] = exp(X[i,j])",
            "Y[i,j] = t[j,i] * 2",
            "Z[j,i] = t[j,i] + X[i,j]",
        )
    )
    assert found.array("t").shape == small(ARRAYS).array("Z").shape  # no majority: as it was
    found = align_layouts(
        small(
            ARRAYS + "temp: f32[N,M] t",
            "t[j,i] = exp(X[i,j])",
            "Y[i,j] = t[j,i] * 2",
            "Y[i,j] = Y[i,j] + t[j,i]",
        )
    )
    assert operations(found)[:2] == ["t[i, j] = exp(X[i, j])", "Y[i, j] = t[i, j] * 2"]
    assert found.array("t").shape == found.array("X").shape
