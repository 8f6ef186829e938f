"""Common subexpressions: temps that are equal, parts that repeat."""

from __future__ import annotations

from pass_programs import operations, small, temps

from hal.ir.passes.reuse import reuse

ARRAYS = "input: f32[M,N] X\noutput: f32[M,N] Y\ntemp: f32[M] s, f32[M] u\n"


def test_equal_sums_under_other_index_names_are_one() -> None:
    found = reuse(small(ARRAYS, "s[i] += X[i,j]", "u[a] += X[a,b]", "Y[i,j] = s[i] + u[i]"))
    assert operations(found) == ["s[i] += X[i, j]", "Y[i, j] = s[i] + s[i]"]
    assert temps(found) == ["s"]


def test_sums_over_different_ranges_stay_apart() -> None:
    before = small(ARRAYS, "s[i] += X[i,j]", "u[i] += X[i,j] * 2", "Y[i,j] = s[i] + u[i]")
    assert temps(reuse(before)) == ["s", "u"]


def test_a_source_that_changes_in_between_keeps_both() -> None:
    text = "inout: f32[M] X\noutput: f32[M] Y\ntemp: f32[M] s, f32[M] u\n"
    before = small(
        text, "s[i] = exp(X[i])", "X[i] = X[i] + 1", "u[i] = exp(X[i])", "Y[i] = s[i] + u[i]"
    )
    assert temps(reuse(before)) == ["s", "u"]


def test_a_repeated_part_gets_a_name() -> None:
    found = reuse(small(ARRAYS, "Y[i,j] = exp(X[i,j] + 1) * (1 - exp(X[i,j] + 1))"))
    assert operations(found) == ["part = exp(X[i, j] + 1)", "Y[i, j] = part * (1 - part)"]


def test_names_inside_names_come_first() -> None:
    found = reuse(
        small(ARRAYS, "Y[i,j] = exp(X[i,j] * 2 + 1) + exp(X[i,j] * 2 + 1) * (X[i,j] * 2 + 1)")
    )
    assert operations(found) == [
        "part = X[i, j] * 2 + 1",
        "part1 = exp(part)",
        "Y[i, j] = part1 + part1 * part",
    ]
