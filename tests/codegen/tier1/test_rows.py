"""Each row of the lowering table, against the evaluator of VIL, bit for bit but for NaN."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tier1_chips import EVERY, TIER1, Fifteen

import hal.vil
from hal import dtypes
from hal.codegen.tier1 import lower
from hal.dtypes import DType
from hal.testing.inputs import edges, small
from hal.vil import Builder, Module, recipes
from hal.vil.expressions import as_expr
from hal.vil.model import Axis, Digit, Dimension, Term

FLOATS = (dtypes.f32, dtypes.f16, dtypes.bf16, dtypes.f64)
INTS = (dtypes.i8, dtypes.u8, dtypes.i32, dtypes.i64)
NUMBERS = (*FLOATS, *INTS)
STORED = (*NUMBERS, dtypes.bool_)
ONE = as_expr(1)
FEW = settings(max_examples=25, deadline=None)
chips = pytest.mark.parametrize("chip", EVERY.values(), ids=EVERY.keys())


def lowered(module: Module, chip: Fifteen) -> Module:
    """The module of the table: valid, and with nothing beyond tier 1."""
    problems = [item.text for item in hal.vil.validate(module)]
    assert [text for text in problems if "deterministic_scatter" not in text] == []
    found = lower(module, chip)
    assert hal.vil.validate(found) == []
    operations = {item.op for program in found.programs for item in program.instructions}
    assert operations <= TIER1
    needed = hal.vil.required_features(found) & {"near_descriptors", "sreg_from_tile"}
    assert needed <= chip.features
    return found


def same(module: Module, chip: Fifteen, arguments: dict[str, Any], *, close: bool = False) -> None:
    """The module of the table gives what the module gives; `close`: sums in another order."""
    want = hal.vil.evaluate(module, "main", arguments)
    got = hal.vil.evaluate(lowered(module, chip), "main", arguments)
    assert got.keys() == want.keys()
    for name, array in want.items():
        if close and array.dtype.kind not in "iub":
            np.testing.assert_allclose(
                got[name].astype(np.float64), array.astype(np.float64), rtol=1e-2, atol=1e-2
            )
        else:
            np.testing.assert_array_equal(got[name], array, err_msg=name)


def values(seed: int, dtype: DType, *shape: int) -> Any:
    """Small numbers, and for half of the seeds the edges of the type among them."""
    rng = np.random.default_rng(seed)
    count = int(np.prod(shape))
    found = small(rng, dtype, count) if dtype.kind != "bool" else rng.integers(0, 2, count)
    found = np.asarray(found, dtype.numpy)
    if seed % 2 and count:
        special = edges(dtype)
        places = rng.integers(0, count, max(1, count // 4))
        found[places] = rng.choice(special, len(places))
    return found.reshape(shape)


seeds = st.integers(0, 10_000)
sizes = st.integers(0, 9)


# --- copy -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", STORED, ids=str)
def test_copy_keeps_every_bit(dtype: DType) -> None:
    module = recipes.copied(dtype, tile=(8, 8), copies=2)
    x = values(1, dtype, 11, 13)
    want = hal.vil.evaluate(module, "main", {"M": 11, "N": 13, "X": x, "Y": np.zeros_like(x)})
    found = lowered(module, EVERY["bare"])
    got = hal.vil.evaluate(found, "main", {"M": 11, "N": 13, "X": x, "Y": np.zeros_like(x)})
    assert got["Y"].tobytes() == want["Y"].tobytes()


# --- scan -----------------------------------------------------------------------------------------


@FEW
@given(
    function=st.sampled_from(["add", "mul", "max", "min"]),
    pair=st.sampled_from(
        [(t, t) for t in (*FLOATS, dtypes.i32)]
        + [(dtypes.f16, dtypes.f32), (dtypes.bf16, dtypes.f32), (dtypes.i8, dtypes.i32)]
        + [(dtypes.u8, dtypes.i64), (dtypes.i64, dtypes.i64)]
    ),
    axis=st.integers(0, 1),
    exclusive=st.booleans(),
    reverse=st.booleans(),
    m=sizes,
    n=sizes,
    seed=seeds,
)
def test_scan_is_its_definition(
    function: str,
    pair: tuple[DType, DType],
    axis: int,
    exclusive: bool,
    reverse: bool,
    m: int,
    n: int,
    seed: int,
) -> None:
    source, target = pair
    if function in ("max", "min"):
        target = source
    module = recipes.scan(
        function, source, target, axis=axis, tile=(8, 8), exclusive=exclusive, reverse=reverse
    )
    m, n = min(m, 8), min(n, 8)
    x = values(seed, source, m, n)
    arguments = {"M": m, "N": n, "X": x, "Y": np.zeros((m, n), target.numpy)}
    same(module, EVERY["bare"], arguments, close=function in ("add", "mul"))


# --- topk -----------------------------------------------------------------------------------------


@FEW
@given(
    dtype=st.sampled_from(NUMBERS),
    index=st.sampled_from([dtypes.i32, dtypes.i64]),
    smallest=st.booleans(),
    n=st.integers(4, 30),
    seed=seeds,
)
def test_topk_merges_tile_after_tile(
    dtype: DType, index: DType, smallest: bool, n: int, seed: int
) -> None:
    module = recipes.top_entries(dtype, index, tile=(3, 4), smallest=smallest)
    arguments = {
        "N": n,
        "X": values(seed, dtype, 3, n),
        "V": np.zeros((3, 4), dtype.numpy),
        "I": np.zeros((3, 4), index.numpy),
    }
    same(module, EVERY["bare"], arguments)


@FEW
@given(
    parts=st.lists(st.integers(0, 3), min_size=1, max_size=4), rows=st.integers(1, 3), seed=seeds
)
def test_topk_grows_its_list_by_the_valid_columns_of_each_tile(
    parts: list[int], rows: int, seed: int
) -> None:
    """Lists shorter than k: their length is seen by a sum over ones of their valid region."""
    b = Builder()
    p = b.program("main")
    x = p.buffer("X", dtypes.f32, "read")
    y, z = p.buffer("Y", dtypes.f32, "write"), p.buffer("Z", dtypes.f32, "write")
    t, v, i = p.tile("t", dtypes.f32, 3, 3), p.tile("v", dtypes.f32, 3, 6), None
    i = p.tile("i", dtypes.i32, 3, 6)
    ones, total = p.tile("ones", dtypes.f32, 3, 6), p.tile("total", dtypes.f32, 3, 1)
    start = 0
    for number, count in enumerate(parts):
        p.load(
            t, p.matrix(x, rows, 3 * len(parts), column_origin=start, column_limit=start + count)
        )
        p.topk(v, i, t, base=start, init=number == 0)
        start += 3
    p.bin("eq", mask := p.tile("mask", dtypes.bool_, 3, 6), v, v)
    p.cast(ones, mask)
    p.red("add", total, ones, axis=1)
    p.store(p.matrix(y, 3, 6), v)
    p.store(p.matrix(z, 3, 1), total)
    b.kernel_of(p, bytes={"X": 4 * 9 * len(parts), "Y": 72, "Z": 12})
    arguments = {
        "X": values(2 * seed, dtypes.f32, 3, 3 * len(parts)),
        "Y": np.full((3, 6), 77, np.float32),
        "Z": np.full(3, 77, np.float32),
    }
    same(b.module(), EVERY["bare"], arguments)


# --- rng ------------------------------------------------------------------------------------------


@FEW
@given(
    function=st.sampled_from(["raw", "uniform"]),
    base=st.integers(-(2**63), 2**63 - 1),
    pitch=st.sampled_from([0, 1, 5, 2**32 - 3, -7, 2**62]),
    seed=st.integers(-(2**63), 2**63 - 1),
    offset=st.integers(-(2**63), 2**63 - 1),
    shape=st.sampled_from([(1, 1), (4, 5), (1, 9), (6, 1)]),
)
def test_rng_is_philox(
    function: str, base: int, pitch: int, seed: int, offset: int, shape: tuple[int, int]
) -> None:
    b = Builder()
    p = b.program("main")
    names = [p.symbol(name) for name in ("base", "pitch", "seed", "offset")]
    dtype = dtypes.i32 if function == "raw" else dtypes.f32
    y = p.buffer("Y", dtype, "write")
    t = p.tile("t", dtype, *shape)
    p.rng(function, t, base=names[0], pitch=names[1], seed=names[2], offset=names[3])
    p.store(p.matrix(y, *shape), t)
    b.kernel_of(p, bytes={"Y": 4 * shape[0] * shape[1]})
    arguments = {"base": base, "pitch": pitch, "seed": seed, "offset": offset}
    same(b.module(), EVERY["narrow"], arguments | {"Y": np.zeros(shape, dtype.numpy)})


# --- gather and scatter ---------------------------------------------------------------------------


@chips
@FEW
@given(
    dtype=st.sampled_from(STORED),
    index=st.sampled_from([dtypes.i32, dtypes.i64]),
    r=sizes,
    n=sizes,
    m=sizes,
    seed=seeds,
)
def test_gather_takes_rows_by_index_and_fills_outside(
    chip: Fifteen, dtype: DType, index: DType, r: int, n: int, m: int, seed: int
) -> None:
    module = recipes.gathered(dtype, index, tile=(4, 4))
    places = np.random.default_rng(seed).integers(-2, r + 2, m).astype(index.numpy)
    if seed % 3 == 0 and m:
        places[0] = np.iinfo(index.numpy).min if seed % 2 else np.iinfo(index.numpy).max
    arguments = {
        "R": r,
        "N": n,
        "M": m,
        "X": values(seed, dtype, r, n),
        "I": places,
        "Y": np.zeros((m, n), dtype.numpy),
    }
    same(module, chip, arguments)


def windowed_gather(coefficient: int, size: int | None) -> Module:
    """Y[i, j] = X[I[i] + coefficient · (i // 2 % size) + j, i]: all kinds of terms and an index."""
    b = Builder()
    p = b.program("main")
    shift = p.symbol("shift")
    x, i = p.buffer("X", dtypes.f32, "read"), p.buffer("I", dtypes.i32, "read")
    y = p.buffer("Y", dtypes.f32, "write")
    t, places = p.tile("t", dtypes.f32, 4, 3), p.tile("places", dtypes.i32, 4, 1)
    origin = p.compute("mul", p.id(0), 4)
    moved = p.compute("add", shift, 0)
    row = Axis(
        origin,
        as_expr(6),
        (Digit(None if size is None else as_expr(size), as_expr(2)), Digit(None, ONE)),
    )
    terms = (
        Term("sreg", moved.index, ONE),
        Term("row", 0, as_expr(coefficient)),
        Term("column", 0, ONE),
    )
    dims = [
        Dimension(as_expr(9), as_expr(6), as_expr(-1), terms),
        Dimension(as_expr(6), ONE, as_expr(0), (Term("row", 1, ONE),)),
    ]
    p.load(places, p.matrix(i, 6, 1, row_origin=origin))
    mapped = p.descriptor(x, dims, row=row, column=Axis(None, None, (Digit(None, ONE),)), fill=7)
    p.gather(t, mapped, places, dim=0)
    p.store(p.matrix(y, 6, 3, row_origin=origin), t)
    b.kernel_of(p, grid=[2], bytes={"X": 4 * 54, "I": 24, "Y": 72})
    return b.module()


@chips
@FEW
@given(
    coefficient=st.integers(-2, 2),
    size=st.sampled_from([None, 1, 2, 3]),
    shift=st.integers(-4, 4),
    seed=seeds,
)
def test_gather_adds_its_index_to_the_other_terms(
    chip: Fifteen, coefficient: int, size: int | None, shift: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    arguments = {
        "shift": shift,
        "X": values(2 * seed, dtypes.f32, 9, 6),
        "I": rng.integers(-3, 12, 6).astype(np.int32),
        "Y": np.zeros((6, 3), np.float32),
    }
    same(windowed_gather(coefficient, size), chip, arguments)


@chips
@FEW
@given(
    function=st.sampled_from(["set", "add", "max", "min"]),
    dtype=st.sampled_from([dtypes.f32, dtypes.f64, dtypes.i32, dtypes.i64]),
    index=st.sampled_from([dtypes.i32, dtypes.i64]),
    r=sizes,
    n=sizes,
    m=sizes,
    seed=seeds,
)
def test_scatter_combines_rows_in_order(
    chip: Fifteen, function: str, dtype: DType, index: DType, r: int, n: int, m: int, seed: int
) -> None:
    """With `set` the evaluator keeps the last of two rows, and so does the table."""
    module = recipes.scattered(function, dtype, index, tile=(4, 4))
    arguments = {
        "R": r,
        "N": n,
        "M": m,
        "X": values(2 * seed, dtype, m, n),
        "I": np.random.default_rng(seed).integers(-2, r + 2, m).astype(index.numpy),
        "Y": values(2 * seed + 2, dtype, r, n),
    }
    same(module, chip, arguments)


@chips
def test_scatter_set_takes_types_without_arithmetic(chip: Fifteen) -> None:
    for dtype in (dtypes.bool_, dtypes.f16, dtypes.u8):
        module = recipes.scattered("set", dtype, dtypes.i32, tile=(4, 4))
        arguments = {
            "R": 5,
            "N": 6,
            "M": 3,
            "X": values(3, dtype, 3, 6),
            "I": np.array([4, 0, 9], np.int32),
            "Y": values(4, dtype, 5, 6),
        }
        same(module, chip, arguments)


@chips
def test_deterministic_scatter_needs_no_registers_of_its_own_instance(chip: Fifteen) -> None:
    module = recipes.scattered_in_order(dtypes.f32, tile=(4, 4))
    arguments = {
        "R": 3,
        "M": 9,
        "X": values(2, dtypes.f32, 9, 4),
        "I": np.array([0, 2, 2, 1, 5, 2, 0, -1, 1], np.int32),
        "Y": np.zeros((3, 4), np.float32),
    }
    same(module, chip, arguments)


# --- near descriptors -----------------------------------------------------------------------------


def near_program(dtype: DType, store: bool) -> Module:
    """A window of a near tile with every kind of term; the near tile is valid in part."""
    b = Builder()
    p = b.program("main")
    m, n, shift = p.symbol("M"), p.symbol("N"), p.symbol("shift")
    x, w = p.buffer("X", dtype, "read"), p.buffer("W", dtype, "read")
    y = p.buffer("Y", dtype, "write")
    near, t = p.tile("near", dtype, 4, 5), p.tile("t", dtype, 3, 4)
    moved = p.compute("mov", shift)
    p.load(near, p.matrix(x, m, n))
    p.load(t, p.matrix(w, 3, 4))
    row = Axis(None, as_expr(3), (Digit(as_expr(2), ONE), Digit(None, as_expr(2))))
    column = Axis(as_expr(1), as_expr(4), (Digit(None, ONE),))
    dims = [
        Dimension(
            as_expr(4),
            as_expr(5),
            as_expr(0),
            (Term("sreg", moved.index, ONE), Term("row", 0, ONE), Term("row", 1, as_expr(2))),
        ),
        Dimension(as_expr(5), ONE, as_expr(-1), (Term("column", 0, as_expr(2)),)),
    ]
    mapped = p.descriptor(dtype, dims, row=row, column=column, fill=1)
    if store:
        p.store(mapped, t, near=near)
        p.store(p.matrix(y, 4, 5), near)
    else:
        p.load(t, mapped, near=near)
        p.store(p.matrix(y, 4, 5), t)
    size = dtype.bytes
    b.kernel_of(p, bytes={"X": size * m * n, "W": 12 * size, "Y": 20 * size})
    return b.module()


@pytest.mark.parametrize("chip", [EVERY["bare"], EVERY["narrow"]], ids=["bare", "narrow"])
@pytest.mark.parametrize("store", [False, True], ids=["load", "store"])
@FEW
@given(
    dtype=st.sampled_from([*STORED, dtypes.f8e4m3, dtypes.f8e5m2]),
    m=st.integers(0, 4),
    n=st.integers(0, 5),
    shift=st.integers(-3, 3),
    seed=seeds,
)
def test_near_descriptors_see_the_valid_region_alone(
    chip: Fifteen, store: bool, dtype: DType, m: int, n: int, shift: int, seed: int
) -> None:
    arguments = {
        "M": m,
        "N": n,
        "shift": shift,
        "X": values(seed, dtype, m, n),
        "W": values(seed + 1, dtype, 3, 4),
        "Y": values(2, dtype, 4, 5),
    }
    same(near_program(dtype, store), chip, arguments)
