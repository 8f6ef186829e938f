"""Elementwise operations of one operand: UN, SEL, FILL and IOTA in every type."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from hal import dtypes
from hal.dtypes import DType
from hal.testing import case, close
from hal.testing.compute import LENGTHS, Lab, blank, is_bitwise_equal
from hal.testing.exact import Pair
from hal.testing.inputs import codes, edges, grid_of, numbers, small
from hal.testing.tolerance import Numerics
from hal.vil import recipes
from hal.vil.builder import Builder
from hal.vil.expressions import ceil_div

FLOATS = [dtypes.f32, dtypes.f16, dtypes.bf16, dtypes.f64]
INTS = [dtypes.i8, dtypes.u8, dtypes.i32, dtypes.i64]
STORED = [*FLOATS, *INTS, dtypes.bool_]
ROUNDINGS = {"floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": np.rint}
CURVES: dict[str, tuple[Any, str]] = {
    "exp": (np.exp, "exp"),
    "exp2": (np.exp2, "exp"),
    "log": (np.log, "log"),
    "log2": (np.log2, "log"),
    "sqrt": (np.sqrt, "sqrt"),
    "rsqrt": (lambda x: 1 / np.sqrt(x), "rsqrt"),
    "rcp": (lambda x: 1 / x, "div"),
    "sin": (np.sin, "sin"),
    "cos": (np.cos, "cos"),
    "tanh": (np.tanh, "tanh"),
    "erf": (np.vectorize(math.erf, otypes=[np.float64]), "erf"),
}
"""Function to reference and law of the tolerance."""


def named(item: Any) -> str | None:
    """Return the id of a parameter: a type's name."""
    return item.name if isinstance(item, DType) else None


def unary(lab: Lab, function: str, x: np.ndarray[Any, Any], dtype: DType, to: DType) -> Any:
    """Return UN of a matrix."""
    module = recipes.elementwise("un", function, [dtype], to, tile=lab.tile)
    m, n = x.shape
    return lab.run(module, {"M": m, "N": n, "X0": x, "Y": blank(to, m, n)})["Y"]


def wide(x: np.ndarray[Any, Any]) -> Any:
    """Return floats in float64, or the widest float for float64 itself."""
    return x.astype(np.longdouble if x.dtype == np.float64 else np.float64)


@case(rules=["HAL-VIL-006", "HAL-VIL-009", "HAL-VIL-010"], operator="mov neg abs")
@pytest.mark.parametrize("dtype", FLOATS, ids=named)
@pytest.mark.parametrize("function", ["mov", "neg", "abs"])
def test_sign_functions_change_the_sign_bit_alone(
    lab: Lab, rng: np.random.Generator, function: str, dtype: DType
) -> None:
    x = grid_of(numbers(rng, dtype))
    bits = x.view(f"u{dtype.bytes}")
    sign = bits.dtype.type(1 << (8 * dtype.bytes - 1))
    wanted = {"mov": bits, "neg": bits ^ sign, "abs": bits & ~sign}[function]
    got = unary(lab, function, x, dtype, dtype)
    assert is_bitwise_equal(got.view(bits.dtype), wanted)


@case(rules=["HAL-VIL-006", "HAL-VIL-009", "HAL-VIL-010"])
@pytest.mark.parametrize("dtype", FLOATS, ids=named)
@pytest.mark.parametrize("function", list(ROUNDINGS))
def test_rounding_to_an_integer_is_exact_and_keeps_zeros(
    lab: Lab, rng: np.random.Generator, numerics: Numerics, function: str, dtype: DType
) -> None:
    x = grid_of(numbers(rng, dtype))
    got = unary(lab, function, x, dtype, dtype)
    with np.errstate(all="ignore"):
        ref = ROUNDINGS[function](x.astype(np.float64))
    close(got, ref, law="exact", dtype=dtype.name, numerics=numerics, operator=function)


@case(rules=["HAL-VIL-007", "HAL-VIL-009", "HAL-VIL-010"])
@pytest.mark.parametrize("dtype", FLOATS, ids=named)
@pytest.mark.parametrize("function", list(CURVES))
def test_function_stays_within_its_law(
    lab: Lab, rng: np.random.Generator, numerics: Numerics, function: str, dtype: DType
) -> None:
    x = grid_of(numbers(rng, dtype))
    got = unary(lab, function, x, dtype, dtype)
    formula, law = CURVES[function]
    with np.errstate(all="ignore"):
        ref = Pair.of(formula(wide(x)))
    close(got, ref, law=law, dtype=dtype.name, numerics=numerics, operator=function)


@case(rules=["HAL-VIL-014"], operator="isnan")
@pytest.mark.parametrize("dtype", FLOATS, ids=named)
def test_isnan_sees_every_nan_and_nothing_else(
    lab: Lab, rng: np.random.Generator, dtype: DType
) -> None:
    x = grid_of(numbers(rng, dtype))
    got = unary(lab, "isnan", x, dtype, dtypes.bool_)
    with np.errstate(all="ignore"):
        wanted = np.isnan(x.astype(np.float64))
    close(got.view(np.uint8), wanted.astype(np.uint8), law="exact", dtype="u8")


@case(rules=["HAL-VIL-011"], operator="mov neg abs not")
@pytest.mark.parametrize("dtype", INTS, ids=named)
@pytest.mark.parametrize("function", ["mov", "neg", "abs", "not"])
def test_integer_function_wraps(
    lab: Lab, rng: np.random.Generator, function: str, dtype: DType
) -> None:
    x = grid_of(numbers(rng, dtype))
    y = x.astype(np.int64)
    with np.errstate(all="ignore"):
        table = {"mov": y, "neg": -y, "abs": np.abs(y), "not": ~y}
    got = unary(lab, function, x, dtype, dtype)
    close(got, table[function].astype(dtype.numpy), law="exact", dtype=dtype.name)


@case(rules=["HAL-VIL-014"], operator="mov not")
@pytest.mark.parametrize("function", ["mov", "not"])
def test_bool_function_gives_0_or_1(lab: Lab, rng: np.random.Generator, function: str) -> None:
    x = small(rng, dtypes.bool_, 17, 53)
    got = unary(lab, function, x, dtypes.bool_, dtypes.bool_).view(np.uint8)
    wanted = (x if function == "mov" else ~x).view(np.uint8)
    close(got, wanted, law="exact", dtype="u8")


@case(rules=["HAL-VIL-002", "HAL-VIL-035"], operator="neg")
@pytest.mark.parametrize("columns", LENGTHS)
@pytest.mark.parametrize("rows", LENGTHS)
def test_every_element_of_an_odd_shape_is_written(lab: Lab, rows: str, columns: str) -> None:
    m, n = lab.length(rows, lab.tile[0]), lab.length(columns, lab.tile[1])
    x = np.arange(m * n, dtype=np.int32).reshape(m, n) + 1
    got = unary(lab, "neg", x, dtypes.i32, dtypes.i32)
    close(got, -x, law="exact", dtype="i32")


@case(rules=["HAL-VIL-002"], operator="neg")
def test_a_long_row_is_written_to_its_end(lab: Lab) -> None:
    count = 100003
    x = np.arange(count, dtype=np.int32).reshape(1, count)
    module = recipes.elementwise("un", "neg", [dtypes.i32], dtypes.i32, tile=(1, lab.tile[1]))
    got = lab.run(module, {"M": 1, "N": count, "X0": x, "Y": blank(dtypes.i32, 1, count)})["Y"]
    close(got, -x, law="exact", dtype="i32")


@case(rules=["HAL-VIL-002"], operator="neg")
@pytest.mark.parametrize("dtype", FLOATS + INTS, ids=named)
def test_the_largest_tile_of_the_chip_works(
    lab: Lab, rng: np.random.Generator, dtype: DType
) -> None:
    limits = lab.limits
    columns = min(limits.max_columns, 128) // limits.granule_columns * limits.granule_columns
    half = limits.spaces["near"][0] // 2 - 64  # Two tiles, each at its own alignment.
    tile_bytes = min(limits.max_tile_bytes, half)
    room = min(tile_bytes // (columns * dtype.bytes), limits.max_rows, 128)
    rows = max(1, room // limits.granule_rows * limits.granule_rows)
    x = small(rng, dtype, rows + 1, columns + 1, limit=100)
    module = recipes.elementwise("un", "neg", [dtype], dtype, tile=(rows, columns))
    got = lab.run(module, {"M": rows + 1, "N": columns + 1, "X0": x, "Y": blank(dtype, *x.shape)})[
        "Y"
    ]
    close(got, np.negative(x), law="exact", dtype=dtype.name)


# ---- SEL ----


@case(rules=["HAL-VIL-014", "HAL-VIL-010"], operator="sel")
@pytest.mark.parametrize("dtype", STORED, ids=named)
def test_sel_picks_by_element_and_changes_no_bit(
    lab: Lab, rng: np.random.Generator, dtype: DType
) -> None:
    values = edges(dtype) if dtype.bytes > 2 else codes(dtype)[:2000]
    left, right = np.resize(values, (23, 57)), np.resize(values[::-1], (23, 57))
    mask = small(rng, dtypes.bool_, 23, 57)
    module = recipes.elementwise("sel", "", [dtypes.bool_, dtype, dtype], dtype, tile=lab.tile)
    got = lab.run(
        module,
        {"M": 23, "N": 57, "X0": mask, "X1": left, "X2": right, "Y": blank(dtype, 23, 57)},
    )["Y"]
    assert is_bitwise_equal(got, np.where(mask, left, right).astype(dtype.numpy))


# ---- FILL and IOTA ----


def filled(dtype: DType, tile: tuple[int, int], value: float | None, kind: DType | None) -> Any:
    """Return a module Y[M, N] = value, or = the scalar argument s of type `kind`."""
    b = Builder()
    p = b.program("main")
    m, n = p.symbol("M"), p.symbol("N")
    y = p.buffer("Y", dtype, "write")
    source: Any = value if kind is None else p.scalar("s", kind)
    t = p.tile("t", dtype, *tile)
    row, column = p.compute("mul", p.id(1), tile[0]), p.compute("mul", p.id(0), tile[1])
    p.fill(t, source)
    p.store(p.matrix(y, m, n, row_origin=row, column_origin=column), t)
    b.kernel_of(
        p, grid=[ceil_div(n, tile[1]), ceil_div(m, tile[0])], bytes={"Y": m * n * dtype.bytes}
    )
    return b.module()


@case(rules=["HAL-VIL-004", "HAL-VIL-009", "HAL-VIL-010"], operator="fill")
@pytest.mark.parametrize("dtype", STORED, ids=named)
def test_fill_gives_its_constant(lab: Lab, dtype: DType) -> None:
    for value in edges(dtype)[:: 1 if dtype.kind == "bool" else 5]:
        constant = int(value) if dtype.kind in ("int", "bool") else float(value)
        module = filled(dtype, lab.tile, constant, None)
        got = lab.run(module, {"M": 5, "N": 19, "Y": blank(dtype, 5, 19)})["Y"]
        wanted = np.full((5, 19), value, dtype.numpy)
        if dtype.kind == "bool":
            got, wanted = got.view(np.uint8), wanted.view(np.uint8)
        close(got, wanted, law="exact", dtype="u8" if dtype.kind == "bool" else dtype.name)


@case(rules=["HAL-VIL-004", "HAL-VIL-015", "HAL-VIL-017"], operator="fill")
@pytest.mark.parametrize("kind", [dtypes.f32, dtypes.f64, dtypes.i32, dtypes.i64], ids=named)
@pytest.mark.parametrize("dtype", [*FLOATS, *INTS], ids=named)
def test_fill_converts_its_scalar_as_cast_does(lab: Lab, dtype: DType, kind: DType) -> None:
    values: list[float] = [0, 1, -1, 3, 127, 128, 300, -70000, 2**24 + 1]
    if kind.is_float:
        values += [0.5, -2.75, 1e30, math.inf, math.nan]
    module = filled(dtype, lab.tile, None, kind)
    for value in values:
        got = lab.run(module, {"M": 1, "N": 3, "s": value, "Y": blank(dtype, 1, 3)})["Y"]
        exact = np.asarray(value, kind.numpy).astype(np.float64)
        if dtype.is_int:
            close(got, np.full((1, 3), converted(float(exact), kind, dtype)), law="exact")
        else:
            close(got, np.full((1, 3), exact), law="rounded", dtype=dtype.name)


def converted(value: float, kind: DType, dtype: DType) -> Any:
    """Return a scalar as an integer type: floats clamp, integers wrap."""
    if not kind.is_float:
        return np.asarray(int(value), np.int64).astype(dtype.numpy)
    if math.isnan(value):
        return dtype.numpy.type(0)
    low, high = int(dtype.minimum), int(dtype.maximum)
    whole = high if value >= high else low if value <= low else math.trunc(value)
    return dtype.numpy.type(whole)


@case(rules=["HAL-VIL-004"], operator="iota")
@pytest.mark.parametrize("dtype", [dtypes.i32, dtypes.i64], ids=named)
@pytest.mark.parametrize(
    ("base", "row", "column"),
    [(0, 0, 1), (5, 100, 1), (-7, -3, 2), (2**31 - 3, 1, 1), (2**63 - 3, 2**62, 1), (0, 0, 0)],
    ids=["columns", "rows and columns", "negative", "wraps 32", "wraps 64", "constant"],
)
def test_iota_counts_and_wraps(lab: Lab, dtype: DType, base: int, row: int, column: int) -> None:
    rows, columns = lab.tile
    b = Builder()
    p = b.program("main")
    first = p.symbol("base")
    y = p.buffer("Y", dtype, "write")
    t = p.tile("t", dtype, rows, columns)
    p.iota(t, base=first, row=row, column=column)
    p.store(p.matrix(y, rows, columns), t)
    b.kernel_of(p, bytes={"Y": rows * columns * dtype.bytes})
    got = lab.run(b.module(), {"base": base, "Y": blank(dtype, rows, columns)})["Y"]
    i, j = np.indices((rows, columns)).astype(object)
    wanted = ((base + row * i + column * j + 2**63) % 2**64 - 2**63).astype(np.int64)
    close(got, wanted.astype(dtype.numpy), law="exact", dtype=dtype.name)
