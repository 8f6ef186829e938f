"""BIN: functions of two operands in every type, and operands that repeat."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hal import dtypes
from hal.dtypes import DType
from hal.testing import case, close
from hal.testing.compute import Lab, blank
from hal.testing.exact import Pair
from hal.testing.inputs import floats, grid_of, pairs, small
from hal.testing.tolerance import Numerics
from hal.vil import recipes

FLOATS = [dtypes.f32, dtypes.f16, dtypes.bf16, dtypes.f64]
INTS = [dtypes.i8, dtypes.u8, dtypes.i32, dtypes.i64]
COMPARISONS = {"lt": np.less, "le": np.less_equal, "eq": np.equal, "ne": np.not_equal}
ARITHMETIC = {"add": np.add, "sub": np.subtract, "mul": np.multiply}
SHAPES = ("rc", "r1", "1c", "11")
REPEATS = [(left, right) for left in SHAPES for right in SHAPES if (left, right) != ("rc", "rc")]


def named(item: Any) -> str | None:
    """Return the id of a parameter: a type's name."""
    return item.name if isinstance(item, DType) else None


def binary(lab: Lab, function: str, left: Any, right: Any, dtype: DType, to: DType) -> Any:
    """Return BIN of two matrices of one shape."""
    module = recipes.elementwise("bin", function, [dtype, dtype], to, tile=lab.tile)
    m, n = left.shape
    arguments = {"M": m, "N": n, "X0": left, "X1": right, "Y": blank(to, m, n)}
    return lab.run(module, arguments)["Y"]


def operands(rng: np.random.Generator, dtype: DType) -> tuple[Any, Any]:
    """Return two matrices with pairs of special values and random ones."""
    left, right = pairs(rng, dtype)
    return grid_of(left), grid_of(right)


def wide(x: Any) -> Any:
    """Return floats in float64, or the widest float for float64 itself."""
    return x.astype(np.longdouble if x.dtype == np.float64 else np.float64)


@case(rules=["HAL-VIL-006", "HAL-VIL-009", "HAL-VIL-010"])
@pytest.mark.parametrize("dtype", FLOATS, ids=named)
@pytest.mark.parametrize("function", list(ARITHMETIC))
def test_arithmetic_is_rounded_once(
    lab: Lab, rng: np.random.Generator, numerics: Numerics, function: str, dtype: DType
) -> None:
    a, b = operands(rng, dtype)
    got = binary(lab, function, a, b, dtype, dtype)
    with np.errstate(
        all="ignore"
    ):  # float64 holds 2p + 2 bits of the smaller types: no tie is lost
        ref = ARITHMETIC[function](a.astype(np.float64), b.astype(np.float64))
    close(got, ref, law="rounded", dtype=dtype.name, numerics=numerics, operator=function)


@case(rules=["HAL-VIL-007", "HAL-VIL-009", "HAL-VIL-010"], operator="div")
@pytest.mark.parametrize("dtype", FLOATS, ids=named)
def test_div_stays_within_its_law(
    lab: Lab, rng: np.random.Generator, numerics: Numerics, dtype: DType
) -> None:
    a, b = operands(rng, dtype)
    got = binary(lab, "div", a, b, dtype, dtype)
    with np.errstate(all="ignore"):
        ref = Pair.of(wide(a) / wide(b))
    close(got, ref, law="div", dtype=dtype.name, numerics=numerics)


@case(rules=["HAL-VIL-007"], operator="pow")
@pytest.mark.parametrize("dtype", FLOATS, ids=named)
def test_pow_stays_within_its_law(
    lab: Lab, rng: np.random.Generator, numerics: Numerics, dtype: DType
) -> None:
    a, b = operands(rng, dtype)
    got = binary(lab, "pow", a, b, dtype, dtype)
    with np.errstate(all="ignore"):
        ref = Pair.of(np.power(wide(a), wide(b)))
    close(got, ref, law="pow", dtype=dtype.name, numerics=numerics)


@case(rules=["HAL-VIL-006", "HAL-VIL-009"], operator="fmod")
@pytest.mark.parametrize("dtype", FLOATS, ids=named)
def test_fmod_is_exact(
    lab: Lab, rng: np.random.Generator, numerics: Numerics, dtype: DType
) -> None:
    a, b = operands(rng, dtype)
    got = binary(lab, "fmod", a, b, dtype, dtype)
    with np.errstate(all="ignore"):
        ref = np.fmod(a.astype(np.float64), b.astype(np.float64))
    close(got, ref, law="rounded", dtype=dtype.name, numerics=numerics)


@case(rules=["HAL-VIL-008", "HAL-VIL-010"])
@pytest.mark.parametrize("dtype", FLOATS, ids=named)
@pytest.mark.parametrize("function", ["max", "min"])
def test_max_and_min_propagate_nan(
    lab: Lab, rng: np.random.Generator, numerics: Numerics, function: str, dtype: DType
) -> None:
    a, b = operands(rng, dtype)
    got = binary(lab, function, a, b, dtype, dtype)
    choose = np.maximum if function == "max" else np.minimum
    with np.errstate(all="ignore"):
        ref = choose(a.astype(np.float64), b.astype(np.float64))
    close(got, ref, law="minmax", dtype=dtype.name, numerics=numerics, operator=function)


@case(rules=["HAL-VIL-009"], operator="mul")
@pytest.mark.parametrize("dtype", FLOATS, ids=named)
def test_the_sign_of_zero_survives_mul(lab: Lab, rng: np.random.Generator, dtype: DType) -> None:
    zeros = np.where(rng.integers(0, 2, (7, 21)) == 0, 0.0, -0.0).astype(dtype.numpy)
    signs = np.where(rng.integers(0, 2, (7, 21)) == 0, 1.0, -1.0).astype(dtype.numpy)
    got = binary(lab, "mul", zeros, signs, dtype, dtype)
    ref = zeros.astype(np.float64) * signs.astype(np.float64)
    close(got, ref, law="exact", dtype=dtype.name)


@case(rules=["HAL-VIL-014", "HAL-VIL-010"])
@pytest.mark.parametrize("dtype", [*FLOATS, *INTS], ids=named)
@pytest.mark.parametrize("function", list(COMPARISONS))
def test_comparison_is_exact_and_false_with_nan(
    lab: Lab, rng: np.random.Generator, function: str, dtype: DType
) -> None:
    a, b = operands(rng, dtype)
    got = binary(lab, function, a, b, dtype, dtypes.bool_)
    kind = np.float64 if dtype.is_float else np.int64
    with np.errstate(all="ignore"):
        wanted = COMPARISONS[function](a.astype(kind), b.astype(kind))
    close(got.view(np.uint8), wanted.view(np.uint8), law="exact", dtype="u8", operator=function)


# ---- integers ----


@case(rules=["HAL-VIL-011"])
@pytest.mark.parametrize("dtype", INTS, ids=named)
@pytest.mark.parametrize("function", [*ARITHMETIC, "max", "min", "and", "or", "xor"])
def test_integer_arithmetic_wraps(
    lab: Lab, rng: np.random.Generator, function: str, dtype: DType
) -> None:
    a, b = operands(rng, dtype)
    table: dict[str, Any] = {
        **ARITHMETIC,
        "max": np.maximum,
        "min": np.minimum,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
    }
    with np.errstate(all="ignore"):
        wanted = table[function](a.astype(np.int64), b.astype(np.int64)).astype(dtype.numpy)
    got = binary(lab, function, a, b, dtype, dtype)
    close(got, wanted, law="exact", dtype=dtype.name, operator=function)


def exact_integers(x: Any) -> Any:
    """Return integers without a width."""
    return x.astype(object)


def wrapped(values: Any, dtype: DType) -> Any:
    """Return integers of any size in a type, wrapped."""
    size = 1 << (8 * dtype.bytes)
    low = int(dtype.minimum)
    return ((values - low) % size + low).astype(np.int64).astype(dtype.numpy)


@case(rules=["HAL-VIL-012"])
@pytest.mark.parametrize("dtype", INTS, ids=named)
@pytest.mark.parametrize("function", ["idiv", "imod"])
def test_integer_division_floors(
    lab: Lab, rng: np.random.Generator, function: str, dtype: DType
) -> None:
    a, b = operands(rng, dtype)
    x, y = exact_integers(a), exact_integers(b)
    safe = np.where(y == 0, 1, y)
    result = x // safe if function == "idiv" else x - (x // safe) * safe
    wanted = wrapped(np.where(y == 0, 0, result), dtype)
    got = binary(lab, function, a, b, dtype, dtype)
    close(got, wanted, law="exact", dtype=dtype.name, operator=function)


@case(rules=["HAL-VIL-013"])
@pytest.mark.parametrize("dtype", INTS, ids=named)
@pytest.mark.parametrize("function", ["shl", "shr", "shru"])
def test_shift_counts_are_modulo_the_width(
    lab: Lab, rng: np.random.Generator, function: str, dtype: DType
) -> None:
    a, b = operands(rng, dtype)
    bits = 8 * dtype.bytes
    x, count = exact_integers(a), exact_integers(b) % bits
    power = np.array([1 << k for k in range(bits)], object)[count.astype(np.int64)]
    if function == "shl":
        result = x * power
    else:
        result = (x if function == "shr" else x % (1 << bits)) // power
    got = binary(lab, function, a, b, dtype, dtype)
    close(got, wrapped(result, dtype), law="exact", dtype=dtype.name, operator=function)


@case(rules=["HAL-VIL-013"], operator="mulhi")
@pytest.mark.parametrize("dtype", INTS, ids=named)
def test_mulhi_is_the_upper_half_of_the_product(
    lab: Lab, rng: np.random.Generator, dtype: DType
) -> None:
    a, b = operands(rng, dtype)
    result = (exact_integers(a) * exact_integers(b)) // (1 << (8 * dtype.bytes))
    got = binary(lab, "mulhi", a, b, dtype, dtype)
    close(got, wrapped(result, dtype), law="exact", dtype=dtype.name)


@case(rules=["HAL-VIL-014"])
@pytest.mark.parametrize("function", ["and", "or", "xor", "eq", "ne"])
def test_bool_function_of_two(lab: Lab, rng: np.random.Generator, function: str) -> None:
    a, b = small(rng, dtypes.bool_, 19, 37), small(rng, dtypes.bool_, 19, 37)
    table = {"and": a & b, "or": a | b, "xor": a ^ b, "eq": a == b, "ne": a != b}
    got = binary(lab, function, a, b, dtypes.bool_, dtypes.bool_).view(np.uint8)
    close(got, table[function].view(np.uint8), law="exact", dtype="u8", operator=function)


# ---- operands that repeat ----


@case(rules=["HAL-VIL-005", "HAL-VIL-001"], operator="sub")
@pytest.mark.parametrize(("left", "right"), REPEATS)
@pytest.mark.parametrize("dtype", [dtypes.f32, dtypes.i32, dtypes.i8, dtypes.f16], ids=named)
def test_an_operand_of_one_row_or_column_repeats(
    lab: Lab, rng: np.random.Generator, left: str, right: str, dtype: DType
) -> None:
    m, n = lab.tile[0] + 1, 2 * lab.tile[1] + 3
    shapes = {"rc": (m, n), "r1": (m, 1), "1c": (1, n), "11": (1, 1)}
    a, b = (small(rng, dtype, *shapes[kind], limit=50) for kind in (left, right))
    module = recipes.elementwise(
        "bin", "sub", [dtype, dtype], dtype, tile=lab.tile, shapes=[left, right]
    )
    got = lab.run(module, {"M": m, "N": n, "X0": a, "X1": b, "Y": blank(dtype, m, n)})["Y"]
    kind = np.float64 if dtype.is_float else np.int64
    wanted = np.broadcast_to(a.astype(kind) - b.astype(kind), (m, n)).astype(dtype.numpy)
    close(got, wanted, law="exact", dtype=dtype.name)


@case(rules=["HAL-VIL-005"], operator="sel")
@pytest.mark.parametrize("mask", SHAPES)
@pytest.mark.parametrize("other", SHAPES)
def test_sel_repeats_its_operands(
    lab: Lab, rng: np.random.Generator, mask: str, other: str
) -> None:
    m, n = lab.tile[0] + 1, lab.tile[1] + 3
    shapes = {"rc": (m, n), "r1": (m, 1), "1c": (1, n), "11": (1, 1)}
    a = small(rng, dtypes.bool_, *shapes[mask])
    b, c = small(rng, dtypes.i32, *shapes[other]), small(rng, dtypes.i32, m, n) + 100
    kinds = [dtypes.bool_, dtypes.i32, dtypes.i32]
    module = recipes.elementwise("sel", "", kinds, dtypes.i32, tile=lab.tile, shapes=[mask, other])
    got = lab.run(
        module, {"M": m, "N": n, "X0": a, "X1": b, "X2": c, "Y": blank(dtypes.i32, m, n)}
    )["Y"]
    close(got, np.where(a, b, c), law="exact", dtype="i32")


@case(rules=["HAL-VIL-040"], operator="mul add")
@pytest.mark.parametrize("dtype", [dtypes.f32, dtypes.f64, dtypes.f16, dtypes.bf16], ids=named)
def test_a_product_is_rounded_before_it_is_added(
    lab: Lab, rng: np.random.Generator, dtype: DType
) -> None:
    m, n = lab.tile[0], 2 * lab.tile[1] + 1
    a, b = floats(rng, dtype, m * n).reshape(m, n), floats(rng, dtype, m * n).reshape(m, n)
    with np.errstate(all="ignore"):
        c = -(a * b)
    module = recipes.multiply_add(dtype, tile=lab.tile)
    arguments = {"M": m, "N": n, "A": a, "B": b, "C": c, "Y": blank(dtype, m, n)}
    got = lab.run(module, arguments)["Y"]
    close(got, np.zeros((m, n)), law="exact", dtype=dtype.name)
