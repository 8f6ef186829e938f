"""RED, SCAN and TOPK: sums, extremes, first places, prefixes and running lists."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from hal import dtypes
from hal.dtypes import DType
from hal.testing import case, close
from hal.testing.compute import Lab, blank
from hal.testing.exact import total
from hal.testing.inputs import edges, floats, grid_of, small
from hal.testing.tolerance import Numerics
from hal.vil import recipes

FLOATS = [dtypes.f32, dtypes.f16, dtypes.bf16, dtypes.f64]
INTS = [dtypes.i8, dtypes.u8, dtypes.i32, dtypes.i64]
AXES = {"rows": 0, "columns": 1}
LONG = ["zero", "one", "tile-1", "tile", "tile+1", "two tiles", "prime"]
SUMS = [
    (dtypes.f32, dtypes.f32),
    (dtypes.f16, dtypes.f32),
    (dtypes.bf16, dtypes.f32),
    (dtypes.f64, dtypes.f64),
    (dtypes.i8, dtypes.i32),
    (dtypes.u8, dtypes.i32),
    (dtypes.i32, dtypes.i32),
    (dtypes.i32, dtypes.i64),
    (dtypes.i64, dtypes.i64),
]


def named(item: Any) -> str | None:
    """Return the id of a parameter: a type's name."""
    return item.name if isinstance(item, DType) else None


def reduce(lab: Lab, function: str, x: Any, source: DType, target: DType, axis: int) -> Any:
    """Return RED of a matrix, walked in tiles."""
    module = recipes.reduction(function, source, target, axis=axis, tile=lab.tile)
    m, n = x.shape
    shape = (1, n) if axis == 0 else (m, 1)
    return lab.run(module, {"M": m, "N": n, "X": x, "Y": blank(target, *shape)})["Y"]


def shape_of(lab: Lab, axis: int, length: str) -> tuple[int, int]:
    """Return a matrix's shape whose reduced axis has a named length."""
    along = lab.length(length, lab.tile[axis])
    across = lab.tile[1 - axis] + 3
    return (along, across) if axis == 0 else (across, along)


@case(rules=["HAL-VIL-019"], operator="red add")
@pytest.mark.parametrize("length", LONG)
@pytest.mark.parametrize(("source", "target"), SUMS, ids=named)
def test_sum_of_small_integers_is_exact(
    lab: Lab, rng: np.random.Generator, source: DType, target: DType, length: str
) -> None:
    for axis in AXES.values():
        x = small(rng, source, *shape_of(lab, axis, length), limit=15)
        got = reduce(lab, "add", x, source, target, axis)
        wanted = x.astype(np.int64).sum(axis=axis, keepdims=True)
        close(got, wanted.astype(target.numpy), law="dot", dtype=target.name, scale=0, terms=1)


@case(rules=["HAL-VIL-019"], operator="red add")
@pytest.mark.parametrize("axis", list(AXES))
@pytest.mark.parametrize("dtype", FLOATS, ids=named)
def test_sum_obeys_the_dot_rule(
    lab: Lab, rng: np.random.Generator, numerics: Numerics, dtype: DType, axis: str
) -> None:
    target = dtype if dtype is dtypes.f64 else dtypes.f32
    length, across = 997, 5
    x = floats(rng, dtype, length * across).reshape(length, across)
    x = x if axis == "rows" else np.ascontiguousarray(x.T)
    got = reduce(lab, "add", x, dtype, target, AXES[axis])
    ref = total(x.astype(np.float64), axis=AXES[axis])
    shape = got.shape
    close(
        got.reshape(-1),
        ref,
        law="dot",
        dtype=target.name,
        scale=np.abs(x.astype(np.float64)).sum(axis=AXES[axis]).reshape(-1),
        terms=length,
        numerics=numerics,
    )
    assert shape == ((1, across) if axis == "rows" else (across, 1))


@case(rules=["HAL-VIL-019", "HAL-VIL-024"], operator="red add")
@pytest.mark.parametrize("function", ["add", "mul"])
@pytest.mark.parametrize("dtype", [dtypes.f16, dtypes.bf16], ids=named)
def test_sum_of_16_bit_floats_is_rounded_once_at_its_end(
    lab: Lab, dtype: DType, function: str
) -> None:
    rows, columns = lab.tile
    x = np.ones((rows, columns))
    if function == "add":  # a running sum in the type itself loses each small term
        x[:, 0], x[:, 1:] = 2.0**dtype.precision, 1.0
        ref = x.sum(axis=1, keepdims=True)
    else:  # a running product in the type itself overflows or rounds on the way
        x[:, 0], x[:, 1] = 1 + 2.0 ** (1 - dtype.precision), 1 + 2.0 ** (1 - dtype.precision)
        x[:, 2] = 1 + 2.0 ** (1 - dtype.precision)
        ref = x.prod(axis=1, keepdims=True)
    given = x.astype(dtype.numpy)
    got = reduce(lab, function, given, dtype, dtype, 1)
    close(got, ref, law="rounded", dtype=dtype.name)


@case(rules=["HAL-VIL-019"], operator="red mul")
@pytest.mark.parametrize("length", ["zero", "one", "tile-1", "tile", "tile+1", "prime"])
@pytest.mark.parametrize(("source", "target"), SUMS, ids=named)
def test_product_of_powers_of_two_is_exact(
    lab: Lab, rng: np.random.Generator, source: DType, target: DType, length: str
) -> None:
    for axis in AXES.values():
        shape = shape_of(lab, axis, length)
        exponents = rng.integers(0, 2, shape) * (np.cumsum(np.ones(shape), axis=axis) < 12)
        sign = (
            np.where(rng.integers(0, 2, shape) == 0, 1, -1)
            if source.minimum or source.is_float
            else 1
        )
        x = (np.exp2(exponents) * sign).astype(source.numpy)
        got = reduce(lab, "mul", x, source, target, axis)
        wanted = x.astype(np.float64).prod(axis=axis, keepdims=True)
        close(got, wanted.astype(target.numpy), law="exact", dtype=target.name)


@case(rules=["HAL-VIL-019", "HAL-VIL-011"], operator="red")
@pytest.mark.parametrize("function", ["add", "mul"])
@pytest.mark.parametrize(("source", "target"), SUMS[4:], ids=named)
def test_integer_sum_wraps(
    lab: Lab, rng: np.random.Generator, source: DType, target: DType, function: str
) -> None:
    for axis in AXES.values():
        x = grid_of(rng.permutation(np.tile(edges(source), 3)))
        whole = x.astype(object)
        exact = whole.sum(axis=axis) if function == "add" else whole.prod(axis=axis)
        bits = 8 * target.bytes
        wanted = [(int(v) + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1)) for v in exact]
        got = reduce(lab, function, x, source, target, axis)
        close(got.reshape(-1), np.array(wanted, target.numpy), law="exact", dtype=target.name)


@case(rules=["HAL-VIL-008", "HAL-VIL-019"], operator="red max min")
@pytest.mark.parametrize("function", ["max", "min"])
@pytest.mark.parametrize("dtype", [*FLOATS, *INTS], ids=named)
def test_extreme_of_an_axis(
    lab: Lab, rng: np.random.Generator, function: str, dtype: DType
) -> None:
    choose: Any = np.max if function == "max" else np.min
    kind = np.float64 if dtype.is_float else np.int64
    for axis, length in ((0, "prime"), (1, "prime"), (0, "one"), (1, "tile+1")):
        values = edges(dtype)
        if dtype.is_float:
            values = values[~np.isnan(values.astype(np.float64))]
        x = rng.choice(values, shape_of(lab, axis, length))
        got = reduce(lab, function, x, dtype, dtype, axis)
        ref = choose(x.astype(kind), axis=axis, keepdims=True)
        wanted = ref if dtype.is_float else ref.astype(dtype.numpy)
        close(got, wanted, law="minmax", dtype=dtype.name)


@case(rules=["HAL-VIL-008"], operator="red max min")
@pytest.mark.parametrize("function", ["max", "min"])
@pytest.mark.parametrize("dtype", FLOATS, ids=named)
def test_one_nan_makes_the_extreme_nan(
    lab: Lab, rng: np.random.Generator, function: str, dtype: DType
) -> None:
    length = lab.tile[1] + 5
    x = floats(rng, dtype, length * length).reshape(length, length)
    np.fill_diagonal(x, math.nan)
    x[0, :] = 1
    got = reduce(lab, function, x, dtype, dtype, 1)
    ref = np.full((length, 1), math.nan)
    ref[0] = 1
    close(got, ref, law="exact", dtype=dtype.name)


@case(rules=["HAL-VIL-019", "HAL-VIL-008"], operator="red")
@pytest.mark.parametrize("dtype", [*FLOATS, *INTS], ids=named)
def test_nothing_gives_the_identity(lab: Lab, dtype: DType) -> None:
    low, high = (-math.inf, math.inf) if dtype.is_float else (int(dtype.minimum), dtype.maximum)
    for function, wanted in (("max", low), ("min", high)):
        got = identity_of_red(lab, function, dtype, dtype)
        close(got, np.full(got.shape, wanted, dtype.numpy), law="exact", dtype=dtype.name)
    target = dtypes.i32 if dtype.bytes == 1 else dtype
    for function, wanted in (("add", 0), ("mul", 1)):
        got = identity_of_red(lab, function, dtype, target)
        close(got, np.full(got.shape, wanted, target.numpy), law="exact", dtype=target.name)


def identity_of_red(lab: Lab, function: str, dtype: DType, target: DType) -> Any:
    """Return RED over the rows of a tile that has columns and no valid row."""
    module = recipes.reduction_of_tile(function, dtype, target, axis=0, tile=lab.tile)
    n = lab.tile[1] - 1
    arguments = {"M": 0, "N": n, "X": blank(dtype, 0, n), "Y": blank(target, 1, n)}
    return lab.run(module, arguments)["Y"]


@case(rules=["HAL-VIL-019"], operator="red and or")
@pytest.mark.parametrize("function", ["and", "or"])
@pytest.mark.parametrize("dtype", [*INTS, dtypes.bool_], ids=named)
def test_bits_of_an_axis(lab: Lab, rng: np.random.Generator, function: str, dtype: DType) -> None:
    merge: Any = np.bitwise_and if function == "and" else np.bitwise_or
    for axis, length in ((0, "tile+1"), (1, "prime"), (0, "zero"), (1, "one")):
        shape = shape_of(lab, axis, length)
        x = rng.choice(edges(dtype), shape)
        x[..., : shape[1] // 2] = dtype.numpy.type(1)
        got = reduce(lab, function, x, dtype, dtype, axis)
        initial = True if dtype.kind == "bool" else np.array(-1).astype(dtype.numpy)
        start = initial if function == "and" else dtype.numpy.type(0)
        wanted = merge.reduce(x, axis=axis, keepdims=True, initial=start)
        close(got.view(np.uint8), wanted.astype(dtype.numpy).view(np.uint8), law="exact")


# ---- argmax and argmin ----


def first_place(x: Any, function: str, axis: int) -> Any:
    """Return the place of the extreme: the first NaN, else the lowest index of equal ones."""
    kind = np.float64 if "float" in x.dtype.name else np.int64
    with np.errstate(all="ignore"):
        values = x.astype(kind)
    lines = np.moveaxis(values, axis, -1)
    result = []
    for line in lines:
        best = 0
        for place, value in enumerate(line):
            if math.isnan(line[best]):
                break
            better = value > line[best] if function == "argmax" else value < line[best]
            best = place if math.isnan(value) or better else best
        result.append(best)
    return np.expand_dims(np.array(result), axis)


@case(rules=["HAL-VIL-020"], operator="argmax argmin")
@pytest.mark.parametrize("axis", list(AXES))
@pytest.mark.parametrize("function", ["argmax", "argmin"])
@pytest.mark.parametrize("dtype", [*FLOATS, *INTS], ids=named)
def test_ties_go_to_the_lowest_index(
    lab: Lab, rng: np.random.Generator, dtype: DType, function: str, axis: str
) -> None:
    shape = (lab.tile[0] - 1, lab.tile[1] - 1)
    for target in (dtypes.i32, dtypes.i64):
        x = small(rng, dtype, *shape, limit=2)
        got = reduce(lab, function, x, dtype, target, AXES[axis])
        wanted = first_place(x, function, AXES[axis]).astype(target.numpy)
        close(got, wanted, law="exact", dtype=target.name)


@case(rules=["HAL-VIL-020"], operator="argmax argmin")
@pytest.mark.parametrize("function", ["argmax", "argmin"])
@pytest.mark.parametrize("dtype", FLOATS, ids=named)
def test_the_first_nan_wins(
    lab: Lab, rng: np.random.Generator, dtype: DType, function: str
) -> None:
    x = rng.choice(edges(dtype), lab.tile)
    x[:, 0], x[0, 1:] = 5, -0.0
    x[-1, :] = math.nan
    for axis in AXES.values():
        got = reduce(lab, function, x, dtype, dtypes.i32, axis)
        close(got, first_place(x, function, axis).astype(np.int32), law="exact", dtype="i32")


# ---- SCAN ----


def scanned(lab: Lab, function: str, x: Any, target: DType, axis: int, flags: str) -> Any:
    """Return SCAN of a matrix that fits a tile."""
    source = dtypes.from_numpy(x.dtype)
    module = recipes.scan(
        function,
        source,
        target,
        axis=axis,
        tile=lab.tile,
        exclusive="exclusive" in flags,
        reverse="reverse" in flags,
    )
    m, n = x.shape
    return lab.run(module, {"M": m, "N": n, "X": x, "Y": blank(target, m, n)})["Y"]


def prefix(x: Any, function: str, axis: int, flags: str, start: Any) -> Any:
    """Return the prefix combination, by the book."""
    merge = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}[function]
    lines = np.moveaxis(x, axis, -1)
    lines = lines[..., ::-1] if "reverse" in flags else lines
    result = np.empty_like(lines)
    running = np.full(lines.shape[:-1], start, lines.dtype)
    for place in range(lines.shape[-1]):
        with np.errstate(all="ignore"):
            after = merge(running, lines[..., place])
        result[..., place] = running if "exclusive" in flags else after
        running = after
    result = result[..., ::-1] if "reverse" in flags else result
    return np.moveaxis(result, -1, axis)


@case(rules=["HAL-VIL-021"], operator="scan")
@pytest.mark.parametrize("flags", ["inclusive", "exclusive", "reverse", "exclusive reverse"])
@pytest.mark.parametrize("function", ["add", "mul", "max", "min"])
@pytest.mark.parametrize("dtype", [dtypes.f32, dtypes.i32], ids=named)
def test_scan_combines_up_to_each_position(
    lab: Lab, rng: np.random.Generator, dtype: DType, function: str, flags: str
) -> None:
    low, high = (-math.inf, math.inf) if dtype.is_float else (dtype.minimum, int(dtype.maximum))
    start = {"add": 0, "mul": 1, "max": low, "min": high}[function]
    kind = np.float64 if dtype.is_float else np.int64
    for axis in AXES.values():
        for shape in ((lab.tile[0] - 1, lab.tile[1]), lab.tile, (1, 1)):
            x = small(rng, dtype, *shape, limit=1 if function == "mul" else 9)
            got = scanned(lab, function, x, dtype, axis, flags)
            wanted = prefix(x.astype(kind), function, axis, flags, start).astype(dtype.numpy)
            close(got, wanted, law="scan", dtype=dtype.name, scale=0, terms=1)


@case(rules=["HAL-VIL-021", "HAL-VIL-011"], operator="scan add")
@pytest.mark.parametrize(("source", "target"), SUMS, ids=named)
def test_scan_in_every_type(
    lab: Lab, rng: np.random.Generator, source: DType, target: DType
) -> None:
    for axis in AXES.values():
        x = small(rng, source, *lab.tile, limit=15)
        got = scanned(lab, "add", x, target, axis, "")
        wanted = np.cumsum(x.astype(np.int64), axis=axis).astype(target.numpy)
        close(got, wanted, law="scan", dtype=target.name, scale=0, terms=1)


@case(rules=["HAL-VIL-021"], operator="scan add")
@pytest.mark.parametrize("dtype", FLOATS, ids=named)
def test_scan_obeys_its_rule(
    lab: Lab, rng: np.random.Generator, numerics: Numerics, dtype: DType
) -> None:
    target = dtype if dtype is dtypes.f64 else dtypes.f32
    x = floats(rng, dtype, lab.tile[0] * lab.tile[1]).reshape(lab.tile)
    got = scanned(lab, "add", x, target, 1, "")
    ref = np.cumsum(x.astype(np.longdouble), axis=1)
    scale = np.cumsum(np.abs(x.astype(np.float64)), axis=1)
    terms = np.broadcast_to(np.arange(1, x.shape[1] + 1), x.shape)
    close(
        got,
        ref.astype(np.float64),
        law="scan",
        dtype=target.name,
        scale=scale,
        terms=terms,
        numerics=numerics,
    )


@case(rules=["HAL-VIL-008", "HAL-VIL-021"], operator="scan max min")
@pytest.mark.parametrize("function", ["max", "min"])
@pytest.mark.parametrize("dtype", [*FLOATS, *INTS], ids=named)
def test_scan_of_extremes_keeps_nan(
    lab: Lab, rng: np.random.Generator, dtype: DType, function: str
) -> None:
    x = rng.choice(edges(dtype), lab.tile)
    kind = np.float64 if dtype.is_float else np.int64
    start = {"max": -math.inf, "min": math.inf} if dtype.is_float else {
        "max": int(dtype.minimum), "min": int(dtype.maximum)}  # fmt: skip
    got = scanned(lab, function, x, dtype, 1, "")
    with np.errstate(all="ignore"):
        ref = prefix(x.astype(kind), function, 1, "", start[function])
    wanted = ref if dtype.is_float else ref.astype(dtype.numpy)
    close(got, wanted, law="minmax", dtype=dtype.name)


# ---- TOPK ----


def best(x: Any, count: int, smallest: bool) -> tuple[Any, Any]:
    """Return values and places of the best of each row: NaN above all, ties by the lower index."""
    kind = np.float64 if "float" in x.dtype.name else np.int64
    values, places = [], []
    for row in x.astype(kind):

        def key(place: int, row: Any = row) -> tuple[int, Any, int]:
            value = row[place].item()
            if math.isnan(value):
                return (1 if smallest else 0, 0, place)
            return (0 if smallest else 1, value if smallest else -value, place)

        order = sorted(range(len(row)), key=key)[:count]
        values.append(row[order])
        places.append(order)
    return np.array(values), np.array(places)


@case(rules=["HAL-VIL-029"], operator="topk")
@pytest.mark.parametrize("smallest", [False, True], ids=["largest", "smallest"])
@pytest.mark.parametrize("dtype", [*FLOATS, *INTS], ids=named)
def test_topk_merges_tiles_into_a_running_list(
    lab: Lab, rng: np.random.Generator, dtype: DType, smallest: bool
) -> None:
    rows, columns = lab.tile
    width = 3 * columns - 5
    for index in (dtypes.i32, dtypes.i64):
        x = rng.choice(edges(dtype), (rows, width))
        module = recipes.top_entries(dtype, index, tile=lab.tile, smallest=smallest)
        got = lab.run(
            module,
            {
                "N": width,
                "X": x,
                "V": blank(dtype, rows, columns),
                "I": blank(index, rows, columns),
            },
        )
        values, places = best(x, columns, smallest)
        wanted = values if dtype.is_float else values.astype(dtype.numpy)
        close(got["V"], wanted, law="minmax", dtype=dtype.name)
        close(got["I"], places.astype(index.numpy), law="exact", dtype=index.name)


@case(rules=["HAL-VIL-029"], operator="topk")
@pytest.mark.parametrize("smallest", [False, True], ids=["largest", "smallest"])
def test_topk_of_equal_values_keeps_the_lower_index(lab: Lab, smallest: bool) -> None:
    rows, columns = lab.tile
    x = np.full((rows, 2 * columns), 7, np.int32)
    x[:, columns + 2] = 6 if smallest else 8
    module = recipes.top_entries(dtypes.i32, dtypes.i32, tile=lab.tile, smallest=smallest)
    shape = (rows, columns)
    arguments = {"X": x, "V": blank(dtypes.i32, *shape), "I": blank(dtypes.i32, *shape)}
    got = lab.run(module, {"N": 2 * columns, **arguments})
    places = [columns + 2, *range(columns - 1)]
    close(got["I"], np.tile(np.array(places, np.int32), (rows, 1)), law="exact", dtype="i32")
