"""The tolerance law: what each class accepts, refuses, and by which factor it separates cheats."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from hal.testing import exact
from hal.testing.formats import FORMATS, round_to, ulp
from hal.testing.tolerance import LAWS, ULPS, Numerics, close, compare, self_check

NAN, INF = math.nan, math.inf


def is_good(got: object, ref: object, law: str, dtype: str, **options: object) -> bool:
    return bool(np.all(compare(got, ref, law=law, dtype=dtype, **options).good))


def test_the_comparator_passes_its_own_exam() -> None:
    assert self_check() == []


@pytest.mark.parametrize(
    ("dtype", "numpy_dtype"),
    [
        ("f16", np.float16),
        ("bf16", ml_dtypes.bfloat16),
        ("f32", np.float32),
        ("f8e4m3", ml_dtypes.float8_e4m3fn),
        ("f8e5m2", ml_dtypes.float8_e5m2),
    ],
)
def test_rounding_to_a_format_agrees_with_an_independent_one(dtype: str, numpy_dtype: type) -> None:
    rng = np.random.default_rng(7)
    exponents = rng.uniform(-30, 17, 20_000)
    # float32 inputs: the other implementation rounds twice from float64.
    values = (rng.choice([-1, 1], 20_000) * 2.0**exponents).astype(np.float32).astype(np.float64)
    with np.errstate(over="ignore"):
        wanted = values.astype(np.float32).astype(numpy_dtype).astype(np.float64)
    assert np.array_equal(round_to(values, dtype), wanted, equal_nan=True)


def test_the_low_part_decides_a_tie() -> None:
    tie = np.array([1 + 2.0**-8])
    tiny = np.array([2.0**-70])
    assert [float(round_to(tie, "bf16", low)[0]) for low in (None, tiny, -tiny)] == [
        1.0,
        1 + 2.0**-7,
        1.0,
    ]


def test_one_ulp_is_the_distance_of_neighbours() -> None:
    values = np.array([1.0, 1.5, 2.0, 0.0, 1e-40, 3e38], np.float32)
    wanted = np.nextafter(values, np.float32(INF), dtype=np.float32) - values
    wanted[-1] = np.float32(3e38) - np.nextafter(np.float32(3e38), np.float32(0))
    assert np.array_equal(ulp(values, "f32"), wanted.astype(np.float64))


@pytest.mark.parametrize("law", sorted(ULPS))
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "f64"])
def test_elementary_functions_have_their_ulps_and_not_one_more(law: str, dtype: str) -> None:
    allowed = ULPS[law][dtype]
    step = float(ulp([1.0], dtype)[0])
    inside, outside = 1 + math.floor(allowed) * step, 1 + (math.floor(allowed) + 1) * step
    assert [is_good([x], [1.0], law, dtype) for x in (inside, outside)] == [True, False]


@pytest.mark.parametrize("law", ["exact", "rounded", "minmax", "exp", "div", "code"])
@pytest.mark.parametrize(
    ("got", "ref"), [(NAN, 0.0), (0.0, NAN), (INF, 1.0), (1.0, INF), (-INF, INF), (NAN, INF)]
)
def test_special_values_are_never_confused(law: str, got: float, ref: float) -> None:
    assert is_good([got], [ref], law, "f32") is False


@pytest.mark.parametrize("law", [law for law in LAWS if law != "code"])
@pytest.mark.parametrize("value", [NAN, INF, -INF])
def test_special_values_agree_with_themselves(law: str, value: float) -> None:
    assert is_good([value], [value], law, "f32", scale=1.0, terms=1)


@pytest.mark.parametrize(("law", "free"), [("exact", False), ("rounded", False), ("minmax", True)])
def test_the_sign_of_zero_counts_except_in_min_and_max(law: str, free: bool) -> None:
    assert is_good([0.0], [-0.0], law, "f32") is free


def test_overflow_is_infinity_and_not_the_largest_number() -> None:
    assert is_good([INF], [70000.0], "rounded", "f16")
    assert not is_good([65504.0], [70000.0], "rounded", "f16")
    assert not is_good([INF], [65000.0], "rounded", "f16")


def test_a_declared_flush_frees_subnormal_results_only() -> None:
    flush = Numerics(flush_subnormals=True)
    assert not is_good([0.0], [1e-40], "rounded", "f32")
    assert is_good([0.0], [1e-40], "rounded", "f32", numerics=flush)
    assert not is_good([0.0], [2e-38], "rounded", "f32", numerics=flush)


def test_numerics_are_read_from_the_flat_hcd() -> None:
    flat = {
        "numerics.flush_subnormals": "true",
        "numerics.div_ulp": "4",
        "numerics.matmul.f32": "tf32",
    }
    assert Numerics.of(flat) == Numerics(True, {"div": 4.0}, 2.0**-11)


def test_integers_compare_exactly() -> None:
    assert is_good(np.array([1, 2], np.int32), [1, 2], "dot", "i32")
    assert not is_good(np.array([1, 3], np.int32), [1, 2], "dot", "i32")


def test_a_wrong_shape_is_refused() -> None:
    with pytest.raises(AssertionError, match="shape"):
        close(np.zeros((2, 3), np.float32), np.zeros((3, 2)), law="exact")


def test_the_message_names_the_worst_element() -> None:
    got = np.array([1.0, 2.0, 9.0, 4.0], np.float32)
    with pytest.raises(AssertionError, match=r"1 of 4 elements are wrong; worst at \[2\]: got 9.0"):
        close(got, [1.0, 2.0, 3.0, 4.0], law="exact")


@pytest.mark.parametrize("law", ["activation", "rows", "dot", "scan", "collective"])
def test_a_scaled_law_needs_its_scale(law: str) -> None:
    with pytest.raises(TypeError, match="needs"):
        close(np.zeros(1, np.float32), [0.0], law=law)


# ---- what the bounds separate ----


def tf32(values: NDArray[np.float32]) -> NDArray[np.float64]:
    """Round to 11 significant bits, as TF32 does with its inputs."""
    bits = values.view(np.uint32)
    kept = (bits + np.uint32(0xFFF) + ((bits >> 13) & 1)) & np.uint32(0xFFFFE000)
    return kept.view(np.float32).astype(np.float64)


def product(k: int) -> tuple[NDArray[np.float32], NDArray[np.float32], dict[str, object]]:
    rng = np.random.default_rng(k)
    a = rng.standard_normal((24, k)).astype(np.float32)
    b = rng.standard_normal((k, 24)).astype(np.float32)
    scale = np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64))
    return a, b, {"law": "dot", "dtype": "f32", "terms": k, "scale": scale}


def running_sum(a: NDArray[np.float32], b: NDArray[np.float32], dtype: type) -> NDArray[np.float32]:
    """Multiply with a running sum of one type, one term after the other."""
    total = np.zeros((a.shape[0], b.shape[1]), dtype)
    for k in range(a.shape[1]):
        total = (total + (a[:, k : k + 1] * b[k : k + 1]).astype(dtype)).astype(dtype)
    return total.astype(np.float32)


@pytest.mark.parametrize("k", [1, 2, 64, 257, 1024])
def test_honest_f32_sums_stay_three_times_inside_the_dot_rule(k: int) -> None:
    a, b, options = product(k)
    ref = a.astype(np.float64) @ b.astype(np.float64)
    found = compare(running_sum(a, b, np.float32), ref, **options)
    assert found.ratio < (1 / 3 if k > 1 else 1)


@pytest.mark.parametrize(("k", "factor"), [(64, 20), (1024, 8), (4096, 2.8)])
def test_tf32_in_secret_is_outside_the_dot_rule(k: int, factor: float) -> None:
    a, b, options = product(k)
    ref = a.astype(np.float64) @ b.astype(np.float64)
    cheat = (tf32(a) @ tf32(b)).astype(np.float32)
    assert compare(cheat, ref, **options).ratio > factor
    declared = Numerics(accumulator=2.0**-11)
    assert compare(cheat, ref, numerics=declared, **options).ratio <= 1


def test_sums_kept_in_half_precision_are_outside_the_dot_rule() -> None:
    a, b, _ = product(64)
    small_a, small_b = a.astype(np.float16), b.astype(np.float16)
    ref = small_a.astype(np.float64) @ small_b.astype(np.float64)
    got = running_sum(small_a.astype(np.float32), small_b.astype(np.float32), np.float16)
    scale = np.abs(small_a.astype(np.float64)) @ np.abs(small_b.astype(np.float64))
    honest = (small_a.astype(np.float32) @ small_b.astype(np.float32)).astype(np.float16)
    ratios = [
        compare(x, ref, law="dot", dtype="f16", terms=64, scale=scale).ratio for x in (got, honest)
    ]
    assert ratios[0] > 3
    assert ratios[1] <= 1


def test_a_dropped_last_term_is_outside_the_dot_rule() -> None:
    a, b, options = product(257)
    ref = a.astype(np.float64) @ b.astype(np.float64)
    got = (a[:, :-1].astype(np.float64) @ b[:-1].astype(np.float64)).astype(np.float32)
    assert compare(got, ref, **options).ratio > 100


def test_truncation_is_not_correct_rounding() -> None:
    values = np.float64(1) + np.arange(1, 255) * 2.0**-15
    truncated = (values.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    assert not is_good(truncated, values, "rounded", "bf16")
    assert is_good(round_to(values, "bf16"), values, "rounded", "bf16")


def test_fp8_allows_one_code() -> None:
    codes = np.arange(8, 64, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn).astype(np.float64)
    assert is_good(codes[1:], codes[:-1], "code", "f8e4m3")
    assert not is_good(codes[2:], codes[:-2], "code", "f8e4m3")


# ---- references beyond float64 ----


def test_pairs_add_and_multiply_without_error() -> None:
    from fractions import Fraction

    rng = np.random.default_rng(3)
    a, b = rng.standard_normal(200) * 2.0 ** rng.integers(-40, 40, 200), rng.standard_normal(200)
    for name, operate in (("add", Fraction.__add__), ("mul", Fraction.__mul__)):
        found = getattr(exact, name)(a, b)
        wanted = [operate(Fraction(x), Fraction(y)) for x, y in zip(a, b, strict=True)]
        got = [Fraction(h) + Fraction(low) for h, low in zip(found.high, found.low, strict=True)]
        assert got == wanted


def test_pairs_divide_sum_and_take_roots_to_a_hundred_bits() -> None:
    from fractions import Fraction

    rng = np.random.default_rng(4)
    a, b = rng.standard_normal(50), rng.standard_normal(50)
    quotient, root, total = exact.div(a, b), exact.sqrt(np.abs(a)), exact.total(a)
    value = [
        Fraction(h) + Fraction(low) for h, low in zip(quotient.high, quotient.low, strict=True)
    ]
    for got, x, y in zip(value, a, b, strict=True):
        assert abs(got * Fraction(y) / Fraction(x) - 1) < Fraction(1, 2**100)
    squares = [
        (Fraction(h) + Fraction(low)) ** 2 for h, low in zip(root.high, root.low, strict=True)
    ]
    for got, x in zip(squares, np.abs(a), strict=True):
        assert abs(got / Fraction(x) - 1) < Fraction(1, 2**98)
    whole = sum(Fraction(x) for x in a)
    assert abs(Fraction(float(total.high)) + Fraction(float(total.low)) - whole) < Fraction(
        1, 2**98
    )


def test_a_pair_keeps_infinity_and_nan() -> None:
    found = exact.mul([INF, NAN, 1e300], [2.0, 1.0, 1e300])
    assert np.array_equal(found.high, [INF, NAN, INF], equal_nan=True)
    assert np.array_equal(found.low, [0.0, 0.0, 0.0])


def test_every_format_knows_its_largest_number() -> None:
    for name, kind in (("f16", np.float16), ("f32", np.float32), ("bf16", ml_dtypes.bfloat16)):
        assert FORMATS[name].largest == float(ml_dtypes.finfo(kind).max)
