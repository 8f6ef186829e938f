"""The evaluator against plain NumPy, operation by operation and type by type."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from vil_words import array, run, same

from hal import dtypes
from hal.dtypes import DType, bf16, bool_, f8e4m3, f8e5m2, f16, f32, f64, i8, i32, i64, u8
from hal.vil import addressing, recipes
from hal.vil.elementwise import COMPARISONS, binary_allows, unary_allows
from hal.vil.evaluator import evaluate
from hal.vil.generate import Choices, generate, random_array
from hal.vil.reductions import reduce_result
from hal.vil.tables import OPS

FLOATS = [f16, bf16, f32, f64]
INTS = [i8, u8, i32, i64]
NUMBERS = [*FLOATS, *INTS]


def wide(values: Any) -> np.ndarray[Any, Any]:
    with np.errstate(all="ignore"):
        return np.asarray(values).astype(np.float64)


def sample(dtype: DType, rows: int = 7, columns: int = 11, seed: int = 1) -> np.ndarray[Any, Any]:
    return random_array(dtype, rows * columns, seed).reshape(rows, columns)


def exact_int(function: str, a: int, b: int, dtype: DType) -> int:
    """Integer functions in Python's unlimited integers."""
    bits = 8 * dtype.bytes
    count, mask = b % bits, (1 << bits) - 1
    table: dict[str, int] = {
        "add": a + b,
        "sub": a - b,
        "mul": a * b,
        "max": max(a, b),
        "min": min(a, b),
        "idiv": a // b if b else 0,
        "imod": a % b if b else 0,
        "and": a & b,
        "or": a | b,
        "xor": a ^ b,
        "shl": a << count,
        "shr": a >> count,
        "shru": (a & mask) >> count,
        "mulhi": (a * b) >> bits,
    }
    value = table[function] & mask
    return value - (1 << bits) if dtype.is_signed and value >> (bits - 1) else value


PAIRS = [(f, t) for t in [*NUMBERS, bool_] for f in OPS["bin"].functions if binary_allows(f, t)]


@pytest.mark.parametrize(("function", "dtype"), PAIRS, ids=[f"{f}-{t}" for f, t in PAIRS])
def test_bin_is_what_the_page_says(function: str, dtype: DType) -> None:
    a, b = sample(dtype, seed=3), sample(dtype, seed=4)
    target = bool_ if function in COMPARISONS else dtype
    got = run(lambda p, t, r: p.bin(function, r, t[0], t[1]), [a, b], target, a.shape)
    if function in COMPARISONS:
        python = {"lt": "__lt__", "le": "__le__", "eq": "__eq__", "ne": "__ne__"}[function]
        left, right = (a, b) if not dtype.is_float else (wide(a), wide(b))
        assert same(got, getattr(left, python)(right))
    elif dtype.is_int:
        pairs = zip(a.ravel().tolist(), b.ravel().tolist(), strict=True)
        want = [exact_int(function, x, y, dtype) for x, y in pairs]
        assert got.ravel().tolist() == want
    elif dtype is bool_:
        assert same(got, {"and": a & b, "or": a | b, "xor": a ^ b}[function])
    else:
        functions = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}
        functions |= {"max": np.maximum, "min": np.minimum, "pow": np.power, "fmod": np.fmod}
        with np.errstate(all="ignore"):
            want = functions[function](wide(a), wide(b))
        assert same(got, array(want, dtype))


UNARY = [(f, t) for t in [*NUMBERS, bool_] for f in OPS["un"].functions if unary_allows(f, t)]


@pytest.mark.parametrize(("function", "dtype"), UNARY, ids=[f"{f}-{t}" for f, t in UNARY])
def test_un_is_what_the_page_says(function: str, dtype: DType) -> None:
    a = sample(dtype)
    target = bool_ if function == "isnan" else dtype
    got = run(lambda p, t, r: p.un(function, r, t[0]), [a], target, a.shape)
    if not dtype.is_float:
        want = {
            "mov": lambda: a,
            "not": lambda: ~a,
            "neg": lambda: (-a.astype(object)).astype(object),
            "abs": lambda: abs(a.astype(object)),
        }[function]()
        if function in ("neg", "abs"):
            wrapped = np.vectorize(lambda x: exact_int("add", int(x), 0, dtype), otypes=[object])
            want = wrapped(want).astype(dtype.numpy)
        assert same(got, want)
        return
    scalar = {
        "mov": lambda x: x,
        "neg": lambda x: -x,
        "abs": abs,
        "exp": lambda x: math.exp(x) if x < 709 else math.inf,
        "exp2": lambda x: 2.0**x if x < 1024 else math.inf,
        "log": lambda x: math.log(x) if x > 0 else (-math.inf if x == 0 else math.nan),
        "log2": lambda x: math.log2(x) if x > 0 else (-math.inf if x == 0 else math.nan),
        "sqrt": lambda x: math.sqrt(x) if x >= 0 else math.nan,
        "rsqrt": lambda x: 1 / math.sqrt(x) if x > 0 else math.nan,
        "rcp": lambda x: 1 / x if abs(x) > 2.0**-1023 else math.copysign(math.inf, x),
        "sin": lambda x: math.sin(x) if math.isfinite(x) else math.nan,
        "cos": lambda x: math.cos(x) if math.isfinite(x) else math.nan,
        "tanh": math.tanh,
        "erf": math.erf,
        "floor": lambda x: math.copysign(math.floor(x), x) if math.isfinite(x) else x,
        "ceil": lambda x: math.copysign(math.ceil(x), x) if math.isfinite(x) else x,
        "trunc": lambda x: float(math.trunc(x)) if math.isfinite(x) else x,
        "round": lambda x: float(round(x)) if math.isfinite(x) else x,
        "isnan": math.isnan,
    }[function]
    finite = wide(a) != 0 if function == "rsqrt" else np.ones(a.shape, bool)  # zeros: below
    wanted = [
        scalar(x) if not math.isnan(x) or function == "isnan" else x
        for x in wide(a).ravel().tolist()
    ]
    want = np.array(wanted).reshape(a.shape)
    if function == "isnan":
        assert same(got, want.astype(bool))
        return
    with np.errstate(all="ignore"):
        rounded = wide(array(want, dtype))
        error = np.abs(wide(got) - rounded)
        scale = np.maximum(np.abs(rounded), 2.0**dtype.smallest_exponent)
        close = (error <= 2.0 ** (2 - dtype.precision) * scale) | (wide(got) == rounded)
    close |= np.isnan(wide(got)) & np.isnan(want)
    assert close[finite].all()


def test_rsqrt_of_zeros_negatives_and_infinity() -> None:
    a = array([[0.0, -0.0, -1.0, np.inf, np.nan]], f32)
    got = run(lambda p, t, r: p.un("rsqrt", r, t[0]), [a], f32, a.shape)
    assert same(got, array([[np.inf, -np.inf, np.nan, 0.0, np.nan]], f32))


@pytest.mark.parametrize(
    "function", ["neg", "abs", "floor", "ceil", "trunc", "round", "sqrt", "mov"]
)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_un_keeps_the_sign_of_zero(function: str, dtype: DType) -> None:
    a = array([[-0.0, 0.0]], dtype)
    got = run(lambda p, t, r: p.un(function, r, t[0]), [a], dtype, a.shape)
    signs = np.signbit(wide(got)).tolist()[0]
    want = {"neg": [False, True], "abs": [False, False]}.get(function, [True, False])
    assert signs == want


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_neg_and_abs_work_on_the_sign_bit_of_nan(dtype: DType) -> None:
    a = array([[np.nan]], dtype)
    got = run(lambda p, t, r: p.un("neg", r, t[0]), [a], dtype, a.shape)
    assert got.tobytes() != a.tobytes()
    assert np.isnan(wide(got)).all()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("function", ["max", "min"])
def test_max_and_min_propagate_nan_from_either_side(function: str, dtype: DType) -> None:
    a, b = array([[np.nan, 1.0, 2.0]], dtype), array([[1.0, np.nan, 3.0]], dtype)
    got = run(lambda p, t, r: p.bin(function, r, t[0], t[1]), [a, b], dtype, a.shape)
    assert np.isnan(wide(got)).tolist() == [[True, True, False]]


def test_pow_and_fmod_special_values_are_those_of_c99() -> None:
    a = array([[np.nan, 1.0, 0.0, -8.0, 5.0, -5.0, 5.0, np.inf]], f32)
    b = array([[0.0, np.nan, -1.0, 1 / 3, 3.0, 3.0, np.inf, 2.0]], f32)
    power = run(lambda p, t, r: p.bin("pow", r, t[0], t[1]), [a, b], f32, a.shape)
    assert same(power[:, :4], array([[1.0, 1.0, np.inf, np.nan]], f32))
    rest = run(lambda p, t, r: p.bin("fmod", r, t[0], t[1]), [a, b], f32, a.shape)
    assert same(rest[:, 4:], array([[2.0, -2.0, 5.0, np.nan]], f32))
    zero = array([[5.0]], f32), array([[0.0]], f32)
    assert np.isnan(run(lambda p, t, r: p.bin("fmod", r, t[0], t[1]), zero, f32, (1, 1))).all()


def test_subnormals_of_bf16_round_once() -> None:
    """A product that lies just above a midpoint of bf16, which rounding through f32 would lose."""
    a = array([[2.0**-120 * (1 + 2.0**-7)]], bf16)
    b = array([[2.0**-14 * (1 + 2.0**-7)]], bf16)
    got = run(lambda p, t, r: p.bin("mul", r, t[0], t[1]), [a, b], bf16, (1, 1))
    exact = float(wide(a)[0, 0]) * float(wide(b)[0, 0])
    assert exact > 2.0**-134
    assert float(wide(got)[0, 0]) == 2.0**-133


@pytest.mark.parametrize("shapes", [(7, 1), (1, 11), (1, 1)])
def test_operands_broadcast_rows_columns_and_both(shapes: tuple[int, int]) -> None:
    a, b = sample(i32), sample(i32, *shapes)
    got = run(lambda p, t, r: p.bin("sub", r, t[0], t[1]), [a, b], i32, a.shape)
    assert same(got, a - b)
    got = run(lambda p, t, r: p.bin("sub", r, t[1], t[0]), [a, b], i32, a.shape)
    assert same(got, b - a)


@pytest.mark.parametrize("dtype", [*NUMBERS, bool_], ids=str)
def test_sel_takes_bits_unchanged(dtype: DType) -> None:
    m, a, b = sample(bool_), sample(dtype, seed=5), sample(dtype, seed=6)
    got = run(lambda p, t, r: p.sel(r, t[0], t[1], t[2]), [m, a, b], dtype, a.shape)
    assert got.tobytes() == np.where(m, a, b).tobytes()


# --- reductions and scans ------------------------------------------------------------------------

REDUCTIONS = [
    (function, source, target)
    for function in ("add", "mul", "max", "min", "and", "or", "argmax", "argmin")
    for source in [*NUMBERS, bool_]
    for target in [*NUMBERS, bool_]
    if reduce_result(function, source, target)
]


def plain_values(dtype: DType, rows: int, columns: int) -> np.ndarray[Any, Any]:
    """Small numbers, so that sums and products are exact in every type and order."""
    values = np.random.default_rng(7).integers(0, 3, (rows, columns))
    return array(values, dtype)


def reduced(function: str, values: Any, axis: int) -> Any:
    table: dict[str, Any] = {"add": np.sum, "mul": np.prod, "max": np.max, "min": np.min}
    table |= {"argmax": np.argmax, "argmin": np.argmin}
    if function in ("and", "or"):
        ufunc = np.bitwise_and if function == "and" else np.bitwise_or
        return ufunc.reduce(values, axis=axis)
    return table[function](values, axis=axis)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(
    ("function", "source", "target"), REDUCTIONS, ids=[f"{f}-{s}-{t}" for f, s, t in REDUCTIONS]
)
def test_red_is_what_the_page_says(function: str, source: DType, target: DType, axis: int) -> None:
    a = plain_values(source, 5, 6)
    shape = (1, 6) if axis == 0 else (5, 1)
    got = run(lambda p, t, r: p.red(function, r, t[0], axis=axis), [a], target, shape)
    values = wide(a) if source.is_float else a.astype(np.int64) if source.is_int else a
    assert same(got, array(np.expand_dims(reduced(function, values, axis), axis), target))


SCANS = [pair for pair in REDUCTIONS if pair[0] in ("add", "mul", "max", "min")]


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("function", "source", "target"), SCANS, ids=[f"{f}-{s}-{t}" for f, s, t in SCANS]
)
def test_scan_is_what_the_page_says(
    function: str, source: DType, target: DType, axis: int, exclusive: bool, reverse: bool
) -> None:
    a = plain_values(source, 4, 5)
    module = recipes.scan(
        function, source, target, axis=axis, tile=(4, 5), exclusive=exclusive, reverse=reverse
    )
    got = evaluate(module, "main", [4, 5, a, array(np.zeros((4, 5)), target)])["Y"]
    identity = {"add": 0.0, "mul": 1.0}.get(function)
    if identity is None:
        sign = -1 if function == "max" else 1
        limit = source.minimum if function == "max" else source.maximum
        identity = sign * math.inf if source.is_float else float(limit)
    lines = wide(a) if axis == 1 else wide(a).T
    want = []
    for line in lines.tolist():
        values = line[::-1] if reverse else line
        parts = [values[: k + (0 if exclusive else 1)] for k in range(len(values))]
        combine = {"add": sum, "mul": math.prod, "max": max, "min": min}[function]
        out = [combine(part) if part else identity for part in parts]
        want.append(out[::-1] if reverse else out)
    table = np.array(want) if axis == 1 else np.array(want).T
    if target is i64 and not reverse and exclusive:  # i64's extremes do not pass through float
        assert same(got[:, 1:] if axis else got[1:], table[:, 1:] if axis else table[1:])
        return
    if target is not i64:
        assert same(got, array(table, target))


@pytest.mark.parametrize("function", ["max", "min", "argmax", "argmin"])
def test_red_propagates_nan_and_the_first_one_wins(function: str) -> None:
    a = array([[1.0, np.nan, 3.0, np.nan]], f32)
    target = f32 if function in ("max", "min") else i32
    got = run(lambda p, t, r: p.red(function, r, t[0], axis=1), [a], target, (1, 1))
    assert same(got, array([[np.nan]], f32) if target is f32 else np.array([[1]], np.int32))


@pytest.mark.parametrize(("function", "want"), [("argmax", 1), ("argmin", 0)])
def test_arg_ties_take_the_lowest_index_and_zeros_tie(function: str, want: int) -> None:
    values = [[-0.0, 7.0, 7.0, 0.0]] if function == "argmax" else [[0.0, -0.0, 7.0, 0.0]]
    body = lambda p, t, r: p.red(function, r, t[0], axis=1, base=100)  # noqa: E731
    assert run(body, [array(values, f32)], i32, (1, 1)).item() == 100 + want


# --- products ---

PRODUCTS = [
    (f16, f16, f32),
    (bf16, bf16, f32),
    (f32, f32, f32),
    (f64, f64, f64),
    (i8, i8, i32),
    (i8, u8, i32),
    (u8, i8, i32),
    (u8, u8, i32),
    (i32, i32, i32),
    (i64, i64, i64),
]


@pytest.mark.parametrize(
    ("left", "right", "out"), PRODUCTS, ids=[f"{p[0]}-{p[1]}" for p in PRODUCTS]
)
@pytest.mark.parametrize("size", [(1, 1, 1), (16, 16, 16), (17, 15, 33), (5, 0, 3), (5, 3, 0)])
def test_matmul_of_small_integers_is_exact(
    left: DType, right: DType, out: DType, size: tuple[int, int, int]
) -> None:
    m, n, k = size
    source = np.random.default_rng(2)
    a = array(source.integers(0 if left is u8 else -4, 5, (m, k)), left)
    b = array(source.integers(0 if right is u8 else -4, 5, (k, n)), right)
    module = recipes.matmul(left, right, out)
    got = evaluate(module, "main", [m, n, k, a, b, array(np.full((m, n), 9), out)])["C"]
    assert same(got, array(wide(a) @ wide(b), out))


def test_mma_of_integers_wraps() -> None:
    a = np.full((1, 2), 2**30, np.int32)
    body = lambda p, t, r: p.mma(r, t[0], t[1], init=True)  # noqa: E731
    got = run(body, [a, np.full((2, 1), 4, np.int32)], i32, (1, 1))
    assert got.item() == 0
    big = np.full((1, 2), 2**62, np.int64)
    assert run(body, [big, np.full((2, 1), 2, np.int64)], i64, (1, 1)).item() == 0


def test_mma_accumulates_16_bit_floats_in_f32() -> None:
    """2048 + 1 is not an f16: an accumulator of that type would stay at 2048."""
    a = array([[2048.0] + [1.0] * 15], f16)
    ones = array(np.ones((16, 1)), f16)
    body = lambda p, t, r: p.mma(r, t[0], t[1], init=True)  # noqa: E731
    assert run(body, [a, ones], f32, (1, 1)).item() == 2063.0


@pytest.mark.parametrize("dtype", [*NUMBERS, bool_], ids=str)
@pytest.mark.parametrize("size", [(1, 1), (8, 64), (9, 65), (3, 130), (0, 4)])
def test_transpose_moves_bits(dtype: DType, size: tuple[int, int]) -> None:
    a = sample(dtype, *size)
    module = recipes.transpose(dtype)
    got = evaluate(module, "main", [*size, a, np.zeros(size[::-1], dtype.numpy)])["Y"]
    assert got.tobytes() == np.ascontiguousarray(a.T).tobytes()


# --- casts ---


@pytest.mark.parametrize("source", dtypes.ALL, ids=str)
@pytest.mark.parametrize("target", dtypes.ALL, ids=str)
@pytest.mark.parametrize("saturate", [False, True])
def test_cast_is_what_the_page_says(source: DType, target: DType, saturate: bool) -> None:
    a = random_array(source, 300, 11).reshape(15, 20)
    got = run(lambda p, t, r: p.cast(r, t[0], saturate=saturate), [a], target, a.shape)
    want = [cast_one(x, source, target, saturate) for x in a.ravel()]
    assert same(got, np.array(want, dtype=object).reshape(a.shape).astype(target.numpy))


def cast_one(value: Any, source: DType, target: DType, saturate: bool) -> Any:
    """CAST of one element from the words of the page, on Python's exact numbers."""
    number = int(value) if source.kind in ("int", "bool") else float(value)
    if target.kind == "bool":
        return number != 0
    if target.is_int:
        low, high = int(target.minimum), int(target.maximum)
        if isinstance(number, float):
            if number != number:
                return 0
            return low if number < low else high if number > high else math.trunc(number)
        if saturate:
            return min(max(number, low), high)
        wrapped = number % (1 << (8 * target.bytes))
        return wrapped - (1 << (8 * target.bytes)) if wrapped > high else wrapped
    if isinstance(number, float) and (number != number or number in (math.inf, -math.inf)):
        if number != number:
            return math.nan
        rounded: Any = number
    else:
        rounded = nearest(number, target)
    if abs(rounded) > target.maximum:
        sign = -1 if rounded < 0 else 1
        if saturate:
            return sign * float(target.maximum)
        return sign * math.inf if target.has_infinity else math.nan
    return float(rounded)


def nearest(number: float | int, target: DType) -> Any:
    """Nearest value of a format without an upper end, ties to even, by exact fractions."""
    from fractions import Fraction

    exact = Fraction(number)
    if exact == 0:
        return number
    exponent = 0
    while Fraction(2) ** exponent > abs(exact):
        exponent -= 1
    while Fraction(2) ** (exponent + 1) <= abs(exact):
        exponent += 1
    quantum = Fraction(2) ** max(exponent - target.precision + 1, target.smallest_exponent)
    value = round(exact / quantum) * quantum
    if abs(value) >= 2**1024:
        return math.copysign(math.inf, number)
    return float(value)


@pytest.mark.parametrize(("dtype", "codes"), [(f8e4m3, 256), (f8e5m2, 256)], ids=str)
@pytest.mark.parametrize("wide_type", FLOATS, ids=str)
def test_every_code_of_the_8_bit_floats_comes_back(
    dtype: DType, codes: int, wide_type: DType
) -> None:
    a = np.arange(codes, dtype=np.uint8).view(dtype.numpy).reshape(16, 16)

    def body(p: Any, tiles: Any, result: Any) -> None:
        middle = p.tile("middle", wide_type, 16, 16)
        p.cast(middle, tiles[0])
        p.cast(result, middle)

    got = run(body, [a], dtype, (16, 16))
    nan = np.isnan(wide(a))
    assert np.isnan(wide(got)[nan]).all()
    assert got[~nan].tobytes() == a[~nan].tobytes()


def test_8_bit_float_overflow_differs_by_format() -> None:
    a = array([[448.0, 464.0, 465.0, 1e9, -1e9, np.inf]], f32)
    got = wide(run(lambda p, t, r: p.cast(r, t[0]), [a], f8e4m3, a.shape))
    assert same(got, np.array([[448, 448, np.nan, np.nan, np.nan, np.nan]], np.float64))
    full = wide(run(lambda p, t, r: p.cast(r, t[0], saturate=True), [a], f8e4m3, a.shape))
    assert full.tolist() == [[448, 448, 448, 448, -448, 448]]
    b = array([[57344.0, 61439.0, 61440.0, -np.inf]], f32)
    got = wide(run(lambda p, t, r: p.cast(r, t[0]), [b], f8e5m2, b.shape))
    assert got.tolist() == [[57344.0, 57344.0, np.inf, -np.inf]]


def test_casts_round_once() -> None:
    """Values where a detour over f32 rounds the wrong way."""
    a = np.array([[1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-11 + 2.0**-40]])
    assert run(lambda p, t, r: p.cast(r, t[0]), [a], bf16, a.shape)[0, 0] == 1 + 2.0**-7
    assert run(lambda p, t, r: p.cast(r, t[0]), [a], f16, a.shape)[0, 1] == 1 + 2.0**-10
    big = np.array([[2**54 + 2**46 + 1, -(2**62) - 2**54 - 1]], np.int64)
    got = wide(run(lambda p, t, r: p.cast(r, t[0]), [big], bf16, big.shape))
    assert got.tolist() == [[2.0**54 + 2.0**47, -(2.0**62) - 2.0**55]]


@pytest.mark.parametrize("seed", range(12))
def test_quick_and_exact_address_arithmetic_agree(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = generate(Choices(seed), exact=False)
    want = evaluate(case.module, case.kernel, case.arguments)
    monkeypatch.setattr(addressing, "_SAFE", 0)
    got = evaluate(case.module, case.kernel, case.arguments)
    assert {name: value.tobytes() for name, value in got.items()} == {
        name: value.tobytes() for name, value in want.items()
    }
