"""Canonical form: what is simplified, and what must stay because of IEEE rules."""

from __future__ import annotations

import pytest
from pass_programs import operations, small

from hal.ir.passes.canonicalise import canonicalise

ARRAYS = """
scalar f32 a
input: f32[M,N] X, i32[M,N] I, f16[M,N] H, bool[M,N] B
output: f32[M,N] Y, i32[M,N] J, f16[M,N] G
"""


def simple(statement: str) -> str:
    """What canonicalise makes of one statement's right side."""
    (found,) = operations(canonicalise(small(ARRAYS, statement)))
    return found.split("= ", 1)[1]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Y[i,j] = X[i,j] * 1", "X[i, j]"),
        ("Y[i,j] = 1.0 * X[i,j]", "X[i, j]"),
        ("Y[i,j] = X[i,j] / 1", "X[i, j]"),
        ("Y[i,j] = X[i,j] - 0.0", "X[i, j]"),
        ("J[i,j] = 0 + I[i,j]", "I[i, j]"),
        ("Y[i,j] = X[i,j] * (0.5 * 4)", "X[i, j] * 2.0"),
        ("Y[i,j] = X[i,j] / 8", "X[i, j] * 0.125"),
        ("Y[i,j] = X[i,j] * rsqrt(64.0)", "X[i, j] * 0.125"),
        ("Y[i,j] = pow(X[i,j], 2)", "X[i, j] * X[i, j]"),
        ("Y[i,j] = -(-X[i,j])", "X[i, j]"),
        ("Y[i,j] = max(X[i,j], X[i,j])", "X[i, j]"),
        ("Y[i,j] = where(true, X[i,j], X[j,i])", "X[i, j]"),
        ("Y[i,j] = where(B[i,j], X[i,j], X[i,j])", "X[i, j]"),
        ("Y[i,j] = where(not (not B[i,j]), X[i,j], 0)", "where(B[i, j], X[i, j], 0)"),
        ("Y[i,j] = where(B[i,j] and true, X[i,j], 0)", "where(B[i, j], X[i, j], 0)"),
        ("Y[i,j] = f32(X[i,j])", "X[i, j]"),
        ("G[i,j] = f16(H[i,j])", "H[i, j]"),
        ("Y[i,j] = a * X[i,j]", "X[i, j] * a"),
        ("Y[i,j] = 2 + X[i,j]", "X[i, j] + 2"),
    ],
)
def test_what_changes_no_bit_is_simplified(before: str, after: str) -> None:
    assert simple(before) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Y[i,j] = X[i,j] + 0.0", "X[i, j] + 0.0"),  # -0 + 0 is +0
        ("Y[i,j] = X[i,j] * 0.0", "X[i, j] * 0.0"),  # NaN and the sign
        ("Y[i,j] = X[i,j] / 3", "X[i, j] / 3"),  # 1/3 is not exact
        ("Y[i,j] = X[i,j] / 16384", "X[i, j] / 16384"),  # 2^-14 * x: f16 would lose bits
        ("Y[i,j] = X[i,j] * (0.1 * 3.0)", "X[i, j] * (0.1 * 3.0)"),  # rounds
        ("G[i,j] = f16(H[i,j] * 2)", "f16(H[i, j] * 2)"),  # a rounding of the text
        ("J[i,j] = i32(saturated)", ""),
    ],
)
def test_what_could_change_a_bit_stays(before: str, after: str) -> None:
    if not after:
        before, after = "J[i,j] = i32(X[i,j], saturate)", "i32(X[i, j], saturate)"
    assert simple(before) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("X[1 + i + 2 - 3, j]", "X[i, j]"),
        ("X[i, j * 2 + j]", "X[i, j * 3]"),
        ("X[(i + N) - (N - 1), j]", "X[i + 1, j]"),
        ("X[M - 1 - i, j]", "X[M - i - 1, j]"),
        ("X[i // 1, j]", "X[i, j]"),
        ("X[(i + 0) // 2, j % N]", "X[i // 2, j % N]"),
    ],
)
def test_subscripts_get_one_form(before: str, after: str) -> None:
    assert simple(f"Y[i,j] = {before}") == after


def test_an_index_of_a_sum_is_never_dropped() -> None:
    found = canonicalise(
        small("input: f32[M,N] X\noutput: f32[M] Y", "Y[i] += where(true, 1.0, X[i,j])")
    )
    assert operations(found) == ["Y[i] += where(true, 1.0, X[i, j])"]


def test_lets_stand_where_they_are_used() -> None:
    found = canonicalise(
        small("input: f32[M] X\noutput: f32[M] Y\nlet t = X[i] * 1", "Y[i] = t + t")
    )
    assert operations(found) == ["Y[i] = X[i] + X[i]"]


UNITS = """
input: f32[1,M,N] X, f32[M,1] Z, f32[1,1] W
output: f32[1,M,N] Y
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Y[b,i,j] = X[0,i,j]", "Y[b, i, j] = X[b, i, j]"),
        ("Y[b,i,j] = X[b,i,j] - Z[i,0]", "Y[b, i, j] = X[b, i, j] - Z[i, b]"),
        ("Y[b,i,j] = W[0,0]", "Y[b, i, j] = W[b, 0]"),
        ("Y[0,i,j] = X[0,i,j]", "Y[0, i, j] = X[0, i, j]"),
    ],
)
def test_an_axis_of_length_1_is_read_at_the_targets_index(before: str, after: str) -> None:
    assert operations(canonicalise(small(UNITS, before))) == [after]


def test_it_is_idempotent() -> None:
    before = small(ARRAYS, "Y[i,j] = a * (X[i + 1 - 1, j] * (2 * 0.25)) / 4 + max(X[i,j], 0)")
    once = canonicalise(before)
    assert canonicalise(once) == once
