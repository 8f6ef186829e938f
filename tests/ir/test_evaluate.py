"""The evaluator against NumPy formulas and pinned numbers."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from hal import dtypes
from hal.ir import IrValueError, bind, evaluate, parse
from hal.ir.arithmetic import binary, cast, philox, philox_words, round_to, unary

RNG = np.random.default_rng(7)


def run(text: str, arrays: dict[str, Any], /, rounded: bool = True, **numbers: Any) -> Any:
    """All results of the only kernel of a text, one alone without its name."""
    kernel = parse(text).kernel()
    names = {item.name for item in kernel.scalars}
    scalars = {name: value for name, value in numbers.items() if name in names}
    params = {name: value for name, value in numbers.items() if name not in names}
    results = evaluate(kernel, arrays, params, scalars, rounded=rounded)
    return next(iter(results.values())) if len(results) == 1 else results


def whole(*shape: int, low: int = -4, high: int = 5, dtype: Any = np.float32) -> Any:
    """Small whole numbers: sums of them are exact."""
    return RNG.integers(low, high, shape).astype(dtype)


def test_a_sum_of_products_is_a_matrix_product() -> None:
    a, b = whole(7, 5), whole(5, 3)
    got = run(
        """kernel K { param M, N, K : int  input: float[M,K] A, float[K,N] B
        output: float[M,N] C  operation: C[i,j] += A[i,k] * B[k,j] }""",
        {"A": a, "B": b},
    )
    assert_array_equal(got, a @ b)
    assert got.dtype == np.float32


def test_a_range_larger_than_one_block_gives_the_same_numbers() -> None:
    a, b = whole(300, 130), whole(130, 200)
    got = run(
        """kernel K { param M, N, K : int  input: float[M,K] A, float[K,N] B
        output: float[M,N] C  operation: C[i,j] += A[i,k] * B[k,j] }""",
        {"A": a, "B": b},
    )
    assert_array_equal(got, a @ b)


def test_statements_run_one_after_another_with_temps_and_lets() -> None:
    x = whole(3, 4)
    got = run(
        """kernel K { param M, N : int  input: float[M,N] X  output: float[M,N] Y
        temp: float[M] top, float[M] total
        operation: top[i] max= X[i,j]
        let e = exp(X[i,j] - top[i])
        operation: total[i] += e
        operation: Y[i,j] = e / total[i] }""",
        {"X": x},
        rounded=False,
    )
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    np.testing.assert_allclose(got, e / e.sum(1, keepdims=True), rtol=1e-15)


@pytest.mark.parametrize(
    ("assignment", "formula", "empty"),
    [
        ("+=", np.sum, 0.0),
        ("*=", np.prod, 1.0),
        ("max=", np.max, -np.inf),
        ("min=", np.min, np.inf),
    ],
)
def test_a_reduction_over_nothing_is_its_identity(
    assignment: str, formula: Any, empty: float
) -> None:
    text = f"""kernel K {{ param M, N : int  input: float[M,N] X  output: float[M] R
        operation: R[i] {assignment} X[i,j] }}"""
    x = whole(3, 4)
    assert_array_equal(run(text, {"X": x}), formula(x, 1))
    assert_array_equal(run(text, {"X": whole(2, 0)}), [empty, empty])
    assert run(text, {"X": whole(0, 3)}).shape == (0,)


def test_max_keeps_nan_and_an_inout_goes_on() -> None:
    x = np.array([[1, np.nan], [2, 3]], np.float32)
    text = """kernel K { param M, N : int  input: float[M,N] X  inout: float[M] R
        operation: R[i] max= X[i,j] }"""
    before = np.array([5, 4], np.float32)
    assert_array_equal(run(text, {"X": x, "R": before}), np.array([np.nan, 4], np.float32))
    assert_array_equal(before, [5, 4])


def test_a_window_is_padded() -> None:
    x = whole(5)
    text = """kernel K { param N : int  index d : 3  input: float[N] X  output: float[N] Y
        operation: Y[i] max= X[i + d - 1] pad -inf }"""
    padded = np.pad(x, 1, constant_values=-np.inf)
    assert_array_equal(run(text, {"X": x}), np.max([padded[d : d + 5] for d in range(3)], axis=0))


def test_an_access_outside_without_a_pad_is_an_error() -> None:
    text = """kernel K { param N : int  index i : N  input: float[N] X  output: float[N] Y
        operation: Y[i] = X[i + 1] }"""
    with pytest.raises(
        IrValueError, match=r"X\[i \+ 1\]: i \+ 1 runs from 1 to 4, the extent is 4"
    ):
        run(text, {"X": whole(4)})


def test_gather_and_scatter_check_their_indices() -> None:
    table, where = whole(4, 2), np.array([3, 0, 9, 3, -1], np.int32)
    text = """kernel K { param V, D, N : int  input: float[V,D] T, i32[N] t  output: float[N,D] Y
        operation: Y[n,d] = T[t[n], d] }"""
    expected = np.stack([table[3], table[0], 0 * table[0], table[3], 0 * table[0]])
    assert_array_equal(run(text, {"T": table, "t": where}), expected)
    text = """kernel K { param V, D, N : int  input: float[N,D] X, i32[N] t  output: float[V,D] Y
        operation: Y[t[n], d] += X[n, d] }"""
    x = whole(5, 2)
    expected = np.stack([x[1], 0 * x[0], 0 * x[0], x[0] + x[3]])
    assert_array_equal(run(text, {"X": x, "t": where}, V=4), expected)


def test_where_index_values_and_params_are_i64() -> None:
    got = run(
        """kernel K { param M, N : int  scalar f32 s  output: float[M,N] Y, i64[M,N] P
        operation: Y[i,j] = where(j <= i, s, f32(i * N + j))
        operation: P[i,j] = (i * N + j) // 2 % 3 }""",
        {},
        M=3,
        N=4,
        s=0.5,
    )
    flat = np.arange(12).reshape(3, 4)
    expected = np.where(np.tri(3, 4, dtype=bool), 0.5, flat)
    assert_array_equal(got["Y"], expected)
    assert_array_equal(got["P"], flat // 2 % 3)


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f8e4m3"])
def test_a_narrow_float_rounds_once_at_the_store(dtype: str) -> None:
    text = f"""kernel K {{ param N : int  input: {dtype}[N] X  output: {dtype}[N] Y
        operation: Y[i] = f32(X[i]) * 3 + 0.1 }}"""
    numpy = dtypes.by_name(dtype).numpy
    x = whole(50).astype(numpy)
    exact = x.astype(np.float64) * 3 + 0.1
    got = run(text, {"X": x})
    assert got.dtype == numpy
    assert_array_equal(got.astype(np.float64), round_to(exact, dtypes.by_name(dtype)))
    assert_array_equal(run(text, {"X": x}, rounded=False), exact)


def test_integers_wrap_and_are_computed_in_i32() -> None:
    x = np.array([100, -128, 127], np.int8)
    text = """kernel K { param N : int  input: i8[N] X  output: i8[N] Y, i32[N] Z, i32[] S
        operation: Y[i] = X[i] + X[i]
        operation: Z[i] = X[i] * X[i]
        operation: S[] += X[i] * X[i] }"""
    got = run(text, {"X": x})
    assert_array_equal(got["Y"], x + x)
    wide = x.astype(np.int32)
    assert_array_equal(got["Z"], wide * wide)
    assert got["S"][()] == (wide * wide).sum()


def scan(flags: str, x: Any, function: str = "add") -> Any:
    """A scan of the rows."""
    text = f"""kernel K {{ param M, N : int  input: float[M,N] X  output: float[M,N] Y
        operation: Y[i,j] = scan_{function}(X[i,j], j{flags}) }}"""
    return run(text, {"X": x})


def test_scans_run_both_ways_with_and_without_the_element() -> None:
    x = whole(3, 4)
    assert_array_equal(scan("", x), np.cumsum(x, 1))
    assert_array_equal(scan(", exclusive", x), np.cumsum(x, 1) - x)
    assert_array_equal(scan(", reverse", x), np.cumsum(x[:, ::-1], 1)[:, ::-1])
    assert_array_equal(scan(", exclusive, reverse", x), np.cumsum(x[:, ::-1], 1)[:, ::-1] - x)
    assert_array_equal(scan(", exclusive", x, "max")[:, 0], [-np.inf] * 3)
    assert_array_equal(scan("", x, "mul"), np.cumprod(x, 1))
    assert scan("", whole(3, 0)).shape == (3, 0)


def test_arguments_of_extremes_take_the_first_and_nan_wins() -> None:
    text = """kernel K { param M, N : int  input: float[M,N] X  output: i32[M] P, i64[M] Q
        operation: P[i] = argmax(X[i,j], j)
        operation: Q[i] = argmin(X[i,j], j) }"""
    x = np.array([[1, 3, 3, 1], [0, np.nan, 9, np.nan]], np.float32)
    got = run(text, {"X": x})
    assert_array_equal(got["P"], [1, 1])
    assert_array_equal(got["Q"], [0, 1])
    with pytest.raises(IrValueError, match="argmax along j over nothing"):
        run(text, {"X": whole(2, 0)})


def test_topk_and_sort_are_stable_and_order_nan_as_largest() -> None:
    x = np.array([[2, np.nan, 2, 1, 3]], np.float32)
    topk = """kernel K {{ param M, N, R : int  input: float[M,N] X
        output: float[M,R] V, i32[M,R] P  operation: V[i,r], P[i,r] = topk(X[i,j], j{}) }}"""
    got = run(topk.format(""), {"X": x}, R=4)
    assert_array_equal(got["P"], [[1, 4, 0, 2]])
    assert_array_equal(got["V"], [[np.nan, 3, 2, 2]])
    assert_array_equal(run(topk.format(", smallest"), {"X": x}, R=3)["P"], [[3, 0, 2]])
    sort = """kernel K {{ param M, N : int  input: float[M,N] X
        output: float[M,N] V, i64[M,N] P  operation: V[i,j], P[i,j] = sort(X[i,j], j{}) }}"""
    assert_array_equal(run(sort.format(""), {"X": x})["P"], [[3, 0, 2, 4, 1]])
    assert_array_equal(run(sort.format(", descending"), {"X": x})["P"], [[1, 4, 0, 2, 3]])


def test_concat_puts_one_behind_another() -> None:
    a, b = whole(2, 3), whole(2, 1)
    text = """kernel K { param M, P, Q : int  input: float[M,P] A, float[M,Q] B
        output: float[M,P+Q] Y  operation: Y[i,j] = concat(A[i,j], 2 * B[i,j], j) }"""
    assert_array_equal(run(text, {"A": a, "B": b}), np.concatenate([a, 2 * b], 1))


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [
        ([0] * 4, [0] * 2, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ([2**32 - 1] * 4, [2**32 - 1] * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            [0xA4093822, 0x299F31D0],
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ],
)
def test_philox_gives_the_published_words(counter: list[int], key: list[int], words: str) -> None:
    got = philox_words(*(tuple(map(np.uint64, item)) for item in (counter, key)))
    assert " ".join(f"{int(word):08x}" for word in got) == words


def test_uniform_numbers_are_the_upper_bits_of_the_words() -> None:
    words = [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    got = philox(np.int64(0), np.int64(0), np.arange(4))
    assert_array_equal(got, [(word >> 8) * 2.0**-24 for word in words])
    assert got[0] != philox(np.int64(1), np.int64(0), np.arange(4))[0]
    assert got[0] != philox(np.int64(0), np.int64(1), np.arange(4))[0]


@pytest.mark.parametrize(
    ("function", "a", "b", "expected"),
    [
        ("idiv", [7, -7, 5, -(2**31)], [2, 2, 0, -1], [3, -4, 0, -(2**31)]),
        ("imod", [7, -7, 5, -(2**31)], [-2, 2, 0, -1], [-1, 1, 0, 0]),
        ("shl", [1, 1, 3], [4, 33, 31], [16, 2, -(2**31)]),
        ("shr", [-8, 8], [1, 34], [-4, 2]),
        ("shru", [-8, 8], [1, 33], [2**31 - 4, 4]),
        ("mulhi", [2**30, -1], [8, 1], [2, -1]),
        ("add", [2**31 - 1], [1], [-(2**31)]),
        ("max", [3, -4], [-3, 4], [3, 4]),
        ("xor", [6, -1], [3, 1], [5, -2]),
    ],
)
def test_integer_functions(function: str, a: list[int], b: list[int], expected: list[int]) -> None:
    got = binary(function, np.array(a, np.int64), np.array(b, np.int64), dtypes.i32)
    assert got.tolist() == expected


def test_mulhi_of_64_bits_is_exact() -> None:
    got = binary("mulhi", np.array([-(2**63)]), np.array([-(2**63)]), dtypes.i64)
    assert got.tolist() == [2**62]


def test_special_values_of_float_functions() -> None:
    x = np.array([-0.0, 0.0, np.inf, np.nan, 2.5, -2.5])
    assert unary("rsqrt", x, dtypes.f64)[:2].tolist() == [-np.inf, np.inf]
    assert unary("round", x, dtypes.f64)[4:].tolist() == [2.0, -2.0]
    assert unary("isnan", x, dtypes.f64).tolist() == [False, False, False, True, False, False]
    assert unary("erf", x, dtypes.f64)[4] == math.erf(2.5)
    assert binary("pow", np.array([np.nan, 1.0]), np.array([0.0, np.nan]), None).tolist() == [1, 1]
    assert np.isnan(binary("max", np.array([np.nan]), np.array([1.0]), None)).all()
    assert binary("fmod", np.array([-7.0]), np.array([3.0]), None).tolist() == [-1.0]


@pytest.mark.parametrize("name", ["f16", "bf16", "f32", "f8e5m2", "f8e4m3"])
def test_rounding_agrees_with_the_storage_types(name: str) -> None:
    dtype = dtypes.by_name(name)
    numpy = dtype.numpy
    x = RNG.standard_normal(4000) * 2.0 ** RNG.integers(-160, 130, 4000)
    x = np.concatenate([x, RNG.standard_normal(500), [0.0, -0.0, np.inf, -np.inf, np.nan]])
    got = round_to(x, dtype)
    # ml_dtypes rounds float64 by way of float32; these values are floats already.
    with np.errstate(all="ignore"):
        single = x.astype(np.float32)
    with np.errstate(all="ignore"):
        assert_array_equal(
            round_to(single.astype(np.float64), dtype), single.astype(numpy).astype(float)
        )
        assert_array_equal(got.astype(numpy).astype(np.float64), got)
    assert_array_equal(np.signbit(got[-5:-1]), np.signbit(x[-5:-1]))


def test_rounding_is_single() -> None:
    # 1 + 2⁻⁸ + 2⁻⁴⁰ is above the middle of two bf16; by way of f32 it would be the middle.
    x = np.array([1 + 2.0**-8 + 2.0**-40])
    assert round_to(x, dtypes.bf16).tolist() == [1 + 2.0**-7]
    assert cast(np.array([2**63 - 1, -(2**24) - 1, 2**60 + 2**36 + 1]), dtypes.f32).tolist() == [
        2.0**63,
        -(2.0**24),
        2.0**60 + 2.0**37,
    ]


@pytest.mark.parametrize(
    ("values", "target", "saturate", "expected"),
    [
        ([2.9, -2.9, 300.0, -300.0, math.nan], "i8", False, [2, -2, 127, -128, 0]),
        ([9.3e18, -1e30], "i64", False, [2**63 - 1, -(2**63)]),
        ([300, -1], "u8", False, [44, 255]),
        ([300, -1], "u8", True, [255, 0]),
        ([1e6, -1e6, math.inf], "f16", False, [math.inf, -math.inf, math.inf]),
        ([1e6, -1e6, math.inf], "f16", True, [65504.0, -65504.0, 65504.0]),
        ([464.0, 465.0, -1e9], "f8e4m3", True, [448.0, 448.0, -448.0]),
        ([0.0, 0.5, math.nan], "bool", False, [False, True, True]),
        ([True, False], "i32", False, [1, 0]),
    ],
)
def test_conversions(values: list[Any], target: str, saturate: bool, expected: list[Any]) -> None:
    assert cast(np.array(values), dtypes.by_name(target), saturate).tolist() == expected


def test_bf16_arrays_go_in_and_come_out() -> None:
    x = np.array([1.5, -2.0], ml_dtypes.bfloat16)
    text = """kernel K { param N : int  input: bf16[N] X  output: bf16[N] Y
        operation: Y[i] = X[i] * X[i] }"""
    assert_array_equal(run(text, {"X": x}), x * x)


SHAPES = """kernel K { param M, N, S : int  input: float[2 * M + 1, N] X  output: float[M, N // S] Y
    operation: Y[i, j] = X[2 * i, j] pad 0 }"""


def test_params_follow_from_shapes() -> None:
    kernel = parse(SHAPES).kernel()
    assert bind(kernel, {"X": (7, 4)}) == {"M": 3, "N": 4}
    assert bind(kernel, {"X": (7, 4), "Y": (3, 2)}, {"S": 2}) == {"M": 3, "N": 4, "S": 2}


@pytest.mark.parametrize(
    ("shapes", "params", "words"),
    [
        ({"X": (7, 4), "Y": (4, 4)}, {"S": 1}, r"dimension 0 of Y is M = 3, the array given has 4"),
        ({"X": (8, 4)}, {"M": 4}, r"dimension 0 of X is 2 \* M \+ 1 = 9 \(M = 4\)"),
        ({"X": (7, 4), "Y": (3, 3)}, {"S": 2}, "dimension 1 of Y is N // S = 2"),
        ({"X": (7,)}, {}, r"X has 2 dimensions, the one given has 1.*\[2 \* M \+ 1, N\]"),
        ({"Z": (7,)}, {}, "it has no array Z. It has: X, Y"),
        ({"X": (7, 4)}, {"Q": 1}, "it has no param Q"),
        ({"X": (7, 4)}, {"S": -1}, "the param S is -1"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(
    shapes: dict[str, Any], params: dict[str, int], words: str
) -> None:
    with pytest.raises(IrValueError, match=words):
        bind(parse(SHAPES).kernel(), shapes, params)


def test_a_missing_or_wrong_argument_is_named() -> None:
    with pytest.raises(IrValueError, match="the input X is missing"):
        run(SHAPES, {})
    with pytest.raises(IrValueError, match="X is f32, the array given has float64"):
        run(SHAPES, {"X": np.zeros((3, 2))})
    with pytest.raises(IrValueError, match="no shape tells the param S"):
        run(SHAPES, {"X": whole(3, 2)})
    text = "kernel K { scalar i32 n  output: i32[] Y  operation: Y[] = n }"
    with pytest.raises(IrValueError, match="the scalar n is missing"):
        run(text, {})
    with pytest.raises(IrValueError, match="the scalar n = 2147483648 is no i32"):
        run(text, {}, n=2**31)
    assert run(text, {}, n=5) == 5
