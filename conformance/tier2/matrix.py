"""MMA: every k, row and column; accumulators; full f32 inputs; integers; convolutions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hal import dtypes
from hal.dtypes import DType
from hal.testing import case, close, exact
from hal.testing.compute import Lab, blank
from hal.testing.inputs import edges, floats, small
from hal.testing.tolerance import Numerics
from hal.vil import recipes

TYPES = {
    "f32": ("f32", "f32", "f32"),
    "f16": ("f16", "f16", "f32"),
    "bf16": ("bf16", "bf16", "f32"),
    "f64": ("f64", "f64", "f64"),
    "i8": ("i8", "i8", "i32"),
    "u8": ("u8", "u8", "i32"),
    "i8 u8": ("i8", "u8", "i32"),
    "u8 i8": ("u8", "i8", "i32"),
    "i32": ("i32", "i32", "i32"),
    "i64": ("i64", "i64", "i64"),
}
SHAPES = [
    ("one", "one", "one"),
    ("tile", "tile", "tile"),
    ("tile-1", "tile+1", "prime"),
    ("prime", "tile", "tile-1"),
    ("tile+1", "one", "tile+1"),
    ("one", "prime", "two tiles"),
    ("tile", "tile", "zero"),
    ("zero", "tile", "tile"),
]
FLOATS = ["f32", "f16", "bf16", "f64"]


def types_of(name: str) -> tuple[DType, DType, DType]:
    """Return the types of A, B and the accumulator."""
    left, right, to = (dtypes.by_name(each) for each in TYPES[name])
    return left, right, to


def product(
    lab: Lab, a: Any, b: Any, to: DType, *, target: DType | None = None, step: int = 0
) -> Any:
    """Return A · B through tiles of the chip."""
    left, right = dtypes.from_numpy(a.dtype), dtypes.from_numpy(b.dtype)
    side = lab.side
    tile = (side, side, step or side)
    module = recipes.matmul(left, right, to, target=target, tile=tile)
    (m, k), n = a.shape, b.shape[1]
    arguments = {"M": m, "N": n, "K": k, "A": a, "B": b, "C": blank(target or to, m, n)}
    return lab.run(module, arguments)["C"]


@case(rules=["HAL-VIL-022", "HAL-VIL-002"], operator="mma")
@pytest.mark.parametrize("shape", SHAPES, ids="·".join)
@pytest.mark.parametrize("types", list(TYPES))
def test_small_integers_give_the_exact_product(
    lab: Lab, rng: np.random.Generator, types: str, shape: tuple[str, str, str]
) -> None:
    left, right, to = types_of(types)
    m, n, k = (lab.length(name, lab.side) for name in shape)
    a, b = small(rng, left, m, k), small(rng, right, k, n)
    got = product(lab, a, b, to)
    wanted = a.astype(np.int64) @ b.astype(np.int64)
    close(got, wanted.astype(to.numpy), law="dot", dtype=to.name, scale=0, terms=1)


@case(rules=["HAL-VIL-022"], operator="mma")
@pytest.mark.parametrize("types", list(TYPES))
def test_each_k_counts_once(lab: Lab, types: str) -> None:
    left, right, to = types_of(types)
    for name in ("tile-1", "tile", "tile+1", "prime"):
        k = lab.length(name, lab.side)
        a = np.ones((3, k)).astype(left.numpy)
        b = np.eye(k).astype(right.numpy)
        got = product(lab, a, b, to)
        close(got, np.ones((3, k)).astype(to.numpy), law="exact", dtype=to.name)


@case(rules=["HAL-VIL-024", "HAL-VIL-022"], operator="mma")
@pytest.mark.parametrize("length", ["tile-1", "prime"])
@pytest.mark.parametrize("types", FLOATS)
def test_product_obeys_the_dot_rule(
    lab: Lab, rng: np.random.Generator, numerics: Numerics, types: str, length: str
) -> None:
    left, right, to = types_of(types)
    m, n, k = lab.side + 1, lab.side - 1, 5 * lab.length(length, lab.side)
    a = floats(rng, left, m * k).reshape(m, k)
    b = floats(rng, right, k * n).reshape(k, n)
    got = product(lab, a, b, to)
    x, y = a.astype(np.float64), b.astype(np.float64)
    close(
        got,
        exact.dot(x, y) if to is dtypes.f64 else x @ y,
        law="dot",
        dtype=to.name,
        scale=np.abs(x) @ np.abs(y),
        terms=k,
        numerics=numerics,
    )


@case(rules=["HAL-VIL-023"], operator="mma")
@pytest.mark.parametrize("positive", [False, True], ids=["mixed signs", "positive"])
def test_f32_inputs_are_used_in_full(
    lab: Lab, rng: np.random.Generator, numerics: Numerics, positive: bool
) -> None:
    m, n, k = lab.side, lab.side, 64
    a = (1 + rng.random((m, k))).astype(np.float32)
    b = (1 + rng.random((k, n))).astype(np.float32)
    if not positive:
        a, b = a * rng.choice([-1, 1], (m, k)), b * rng.choice([-1, 1], (k, n))
    a, b = a.astype(np.float32), b.astype(np.float32)
    got = product(lab, a, b, dtypes.f32)
    x, y = a.astype(np.float64), b.astype(np.float64)
    scale = np.abs(x) @ np.abs(y)
    close(got, x @ y, law="dot", dtype="f32", scale=scale, terms=k, numerics=numerics)


@case(rules=["HAL-VIL-023"], operator="mma")
@pytest.mark.parametrize("bit", [0, 1, 5, 11, 12, 13, 15])
def test_each_low_bit_of_an_f32_input_counts(lab: Lab, numerics: Numerics, bit: int) -> None:
    side = lab.side
    value = np.float32(1 + 2.0 ** (bit - 23))
    a = np.full((side, side), value, np.float32) * np.eye(side, dtype=np.float32)
    b = np.eye(side, dtype=np.float32)
    scale = np.eye(side)
    ref = np.eye(side) * float(value)
    for left, right in ((a, b), (b, a)):
        got = product(lab, left, right, dtypes.f32)
        if numerics.accumulator is None:
            close(got, ref, law="exact", dtype="f32")
        else:
            close(got, ref, law="dot", dtype="f32", scale=scale, terms=1, numerics=numerics)


@case(rules=["HAL-VIL-024"], operator="mma")
@pytest.mark.parametrize("types", ["f16", "bf16"])
def test_16_bit_products_add_up_in_f32(lab: Lab, types: str) -> None:
    left, right, to = types_of(types)
    k = 4 * lab.side - 3
    large = 2.0**left.precision  # in the type itself, large + 1 is large again
    a = np.ones((2, k))
    a[:, 0] = large
    b = np.ones((k, 3))
    got = product(lab, a.astype(left.numpy), b.astype(right.numpy), to)
    close(got, np.full((2, 3), large + k - 1), law="exact", dtype=to.name)


@case(rules=["HAL-VIL-024"], operator="mma")
@pytest.mark.parametrize("types", ["f16", "bf16"])
def test_16_bit_products_are_not_rounded(lab: Lab, types: str) -> None:
    left, right, to = types_of(types)
    step = 2.0 ** (1 - left.precision)
    a = np.full((lab.side, 1), 1 + step).astype(left.numpy)
    b = np.full((1, lab.side), 1 + step).astype(right.numpy)
    got = product(lab, a, b, to)
    close(got, np.full(got.shape, (1 + step) ** 2), law="exact", dtype=to.name)


@case(rules=["HAL-VIL-024"], operator="mma")
def test_f16_products_beyond_f16_do_not_overflow(lab: Lab) -> None:
    k = lab.side + 1
    a, b = np.full((3, k), 60000.0), np.full((k, 5), 60000.0)
    got = product(lab, a.astype(np.float16), b.astype(np.float16), dtypes.f32)
    ref = a.astype(np.float16).astype(np.float64) @ b.astype(np.float16).astype(np.float64)
    scale = np.abs(ref)
    close(got, ref, law="dot", dtype="f32", scale=scale, terms=k)


@case(rules=["HAL-VIL-025"], operator="mma")
@pytest.mark.parametrize("types", list(TYPES)[4:])
def test_integer_products_wrap(lab: Lab, rng: np.random.Generator, types: str) -> None:
    left, right, to = types_of(types)
    m, n, k = lab.side - 1, lab.side + 1, lab.side + 3
    a, b = rng.choice(edges(left), (m, k)), rng.choice(edges(right), (k, n))
    got = product(lab, a, b, to)
    whole = a.astype(object) @ b.astype(object)
    half = 1 << (8 * to.bytes - 1)
    wanted = ((whole + half) % (2 * half) - half).astype(np.int64).astype(to.numpy)
    close(got, wanted, law="exact", dtype=to.name)


@case(rules=["HAL-VIL-024", "HAL-VIL-015"], operator="mma cast")
@pytest.mark.parametrize("types", ["f16", "bf16", "f32"])
@pytest.mark.parametrize("stored", ["f16", "bf16"])
def test_the_result_is_rounded_once_to_its_stored_type(
    lab: Lab, rng: np.random.Generator, types: str, stored: str
) -> None:
    left, right, to = types_of(types)
    m, n, k = lab.side - 1, lab.side + 1, 2 * lab.side + 1
    a, b = small(rng, left, m, k, limit=60), small(rng, right, k, n, limit=60)
    target = dtypes.by_name(stored)
    got = product(lab, a, b, to, target=target)
    ref = a.astype(np.float64) @ b.astype(np.float64)
    close(got, ref + 0.0, law="minmax", dtype=stored)


@case(rules=["HAL-VIL-024"], operator="mma")
@pytest.mark.parametrize("types", FLOATS)
def test_special_values_reach_their_row_and_column(
    lab: Lab, rng: np.random.Generator, types: str
) -> None:
    left, right, to = types_of(types)
    m, n, k = lab.side + 1, lab.side, lab.side + 2
    a, b = small(rng, left, m, k), small(rng, right, k, n)
    b[b == 0] = 1
    a[1, 2], a[3, 4], a[5, k - 1] = np.nan, np.inf, -np.inf
    got = product(lab, a, b, to)
    with np.errstate(all="ignore"):
        ref = a.astype(np.float64) @ b.astype(np.float64)
    close(got, ref, law="dot", dtype=to.name, scale=0, terms=1)


@case(rules=["HAL-VIL-022", "HAL-VIL-006"], operator="mma")
@pytest.mark.parametrize("types", list(TYPES))
def test_mma_adds_to_what_its_accumulator_holds(
    lab: Lab, rng: np.random.Generator, types: str
) -> None:
    left, right, to = types_of(types)
    side = lab.side
    for init in (False, True):
        module = recipes.matmul_into(left, right, to, side=side, init=init)
        a, b = small(rng, left, side, side), small(rng, right, side, side)
        c = small(rng, to, side, side, limit=100)
        got = lab.run(module, {"A": a, "B": b, "C": c})["C"]
        wanted = a.astype(np.int64) @ b.astype(np.int64)
        if not init:
            wanted = wanted + c.astype(np.int64)
        close(got, wanted.astype(to.numpy), law="dot", dtype=to.name, scale=0, terms=1)


@case(rules=["HAL-VIL-022"], operator="mma")
@pytest.mark.parametrize("types", ["f32", "i32", "f16", "i8"])
def test_mma_takes_no_element_beyond_the_valid_region(
    lab: Lab, rng: np.random.Generator, types: str
) -> None:
    left, right, to = types_of(types)
    side = lab.side
    module = recipes.matmul_of_parts(left, right, to, side=side)
    for m, n, k, kb in ((3, 5, 7, side), (side, side, side, 2), (1, 1, 1, 1), (side, 2, 0, 3)):
        a, b = small(rng, left, side, side), small(rng, right, side, side)
        c = blank(to, m, n)
        got = lab.run(module, {"M": m, "N": n, "K": k, "L": kb, "A": a, "B": b, "C": c})["C"]
        depth = min(k, kb)
        wanted = a[:m, :depth].astype(np.int64) @ b[:depth, :n].astype(np.int64)
        close(got, wanted.astype(to.numpy), law="dot", dtype=to.name, scale=0, terms=1)


@case(rules=["HAL-VIL-024"], operator="mma f8")
@pytest.mark.parametrize("right", ["f8e4m3", "f8e5m2"])
@pytest.mark.parametrize("left", ["f8e4m3", "f8e5m2"])
def test_8_bit_floats_multiply_exactly(
    lab: Lab, rng: np.random.Generator, left: str, right: str
) -> None:
    kinds = dtypes.by_name(left), dtypes.by_name(right)
    m, n, k = lab.side - 1, lab.side + 1, lab.side + 3
    a, b = small(rng, kinds[0], m, k, limit=4), small(rng, kinds[1], k, n, limit=4)
    got = product(lab, a, b, dtypes.f32)
    wanted = a.astype(np.float64) @ b.astype(np.float64)
    close(got, wanted, law="dot", dtype="f32", scale=0, terms=1)


# ---- products through descriptors: convolution as MMA of a window ----

WINDOWS = {
    "plain": {"stride": 1, "dilation": 1, "pad": 0, "flip": False},
    "padded": {"stride": 1, "dilation": 1, "pad": 1, "flip": False},
    "strided": {"stride": 2, "dilation": 1, "pad": 1, "flip": False},
    "dilated": {"stride": 1, "dilation": 2, "pad": 2, "flip": False},
    "flipped": {"stride": 1, "dilation": 1, "pad": 1, "flip": True},
    "strided, dilated, flipped": {"stride": 2, "dilation": 2, "pad": 3, "flip": True},
}


def convolved(x: Any, w: Any, stride: int, dilation: int, pad: int, flip: bool) -> Any:
    """Return the convolution of x[H, W, C] with w[3, 3, C, F], by plain loops."""
    height, width, _ = x.shape
    kernel = w[::-1, ::-1] if flip else w
    padded = np.pad(x, ((pad, pad), (pad, pad), (0, 0)))
    reach = 2 * dilation
    rows = (height + 2 * pad - reach - 1) // stride + 1
    columns = (width + 2 * pad - reach - 1) // stride + 1
    result = np.zeros((rows, columns, w.shape[3]), np.int64)
    for i in range(3):
        for j in range(3):
            top, left = i * dilation, j * dilation
            part = padded[
                top : top + (rows - 1) * stride + 1 : stride,
                left : left + (columns - 1) * stride + 1 : stride,
            ]
            result += part @ kernel[i, j]
    return result


@case(rules=["HAL-VIL-003", "HAL-VIL-001", "HAL-VIL-022"], operator="conv")
@pytest.mark.parametrize("window", list(WINDOWS))
@pytest.mark.parametrize("types", ["f32", "i8", "f16", "i32"])
def test_convolution_through_a_window_descriptor(
    lab: Lab, rng: np.random.Generator, types: str, window: str
) -> None:
    left, right, to = types_of(types)
    height, width, channels, filters = 9, 11, 3, 5
    facts = WINDOWS[window]
    x = small(rng, left, height, width, channels)
    w = small(rng, right, 3, 3, channels, filters)
    wanted = convolved(x.astype(np.int64), w.astype(np.int64), **facts)  # type: ignore[arg-type]
    rows, columns, _ = wanted.shape
    module = recipes.convolution(left, right, to, side=lab.side, window=3, **facts)
    got = lab.run(
        module,
        {
            "H": height, "W": width, "C": channels, "F": filters, "P": rows, "Q": columns,
            "X": x, "K": w, "Y": blank(to, rows, columns, filters),
        },
    )["Y"]  # fmt: skip
    close(got, wanted.astype(to.numpy), law="dot", dtype=to.name, scale=0, terms=1)
