"""LOAD and STORE through descriptors, TRN, COPY, layouts, near tiles, GATHER and SCATTER."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from hal import dtypes
from hal.dtypes import DType
from hal.testing import case, close
from hal.testing.compute import LENGTHS, Lab, blank, is_bitwise_equal
from hal.testing.inputs import edges, floats, grid_of, numbers, small
from hal.testing.tolerance import Numerics
from hal.vil import recipes
from hal.vil.builder import Builder
from hal.vil.expressions import as_expr, ceil_div
from hal.vil.model import Axis, Digit, Dimension, Term

FLOATS = [dtypes.f32, dtypes.f16, dtypes.bf16, dtypes.f64]
INTS = [dtypes.i8, dtypes.u8, dtypes.i32, dtypes.i64]
STORED = [*FLOATS, *INTS, dtypes.bool_]
EVERY = [*STORED, dtypes.f8e4m3, dtypes.f8e5m2]
SIZE = 360
"""Elements of the buffers that descriptors walk over."""


def named(item: Any) -> str | None:
    """Return the id of a parameter: a type's name."""
    return item.name if isinstance(item, DType) else None


# ---- descriptors against their definition ----


@dataclass(frozen=True)
class Walk:
    """A descriptor in plain numbers.

    Attributes:
        dims: Per dimension: extent, stride, base, and coefficients of row and column digits.
        row, column: Per axis: origin, limit (or None) and digits (size or None, divisor).
    """

    dims: tuple[tuple[int, int, int, tuple[int, ...], tuple[int, ...]], ...]
    row: tuple[int, int | None, tuple[tuple[int | None, int], ...]] = (0, None, ((None, 1),))
    column: tuple[int, int | None, tuple[tuple[int | None, int], ...]] = (0, None, ((None, 1),))

    def place(self, i: int, j: int) -> int | None:
        """Return the offset of a tile element, or None when it lies outside."""
        digits = []
        for (origin, _, parts), index in ((self.row, i), (self.column, j)):
            position = origin + index
            digits.append(
                [
                    0 if divisor == 0 or size == 0
                    else position // divisor if size is None
                    else position // divisor % size
                    for size, divisor in parts
                ]
            )  # fmt: skip
        offset = 0
        for extent, stride, base, rows, columns in self.dims:
            at = base + sum(c * d for c, d in zip(rows, digits[0], strict=False))
            at += sum(c * d for c, d in zip(columns, digits[1], strict=False))
            if not 0 <= at < extent:
                return None
            offset += at * stride
        return offset

    def counts(self, rows: int, columns: int) -> tuple[int, int]:
        """Return the valid region of a tile."""
        found = []
        for (origin, limit, _), length in ((self.row, rows), (self.column, columns)):
            found.append(length if limit is None else max(0, min(length, limit - origin)))
        return found[0], found[1]

    def build(self, p: Any, buffer: Any, fill: float = 0) -> Any:
        """Add it to a program."""
        axes = [
            Axis(
                as_expr(origin),
                None if limit is None else as_expr(limit),
                tuple(Digit(None if s is None else as_expr(s), as_expr(d)) for s, d in digits),
            )
            for origin, limit, digits in (self.row, self.column)
        ]
        dims = []
        for extent, stride, base, rows, columns in self.dims:
            terms = [Term("row", q, as_expr(c)) for q, c in enumerate(rows) if c]
            terms += [Term("column", q, as_expr(c)) for q, c in enumerate(columns) if c]
            numbers = (as_expr(v) for v in (extent, stride, base))
            dims.append(Dimension(*numbers, tuple(terms)))
        return p.descriptor(buffer, dims, row=axes[0], column=axes[1], fill=fill)


ONE, TWO = ((None, 1),), ((None, 5), (5, 1))
WALKS = {
    "row-major": Walk(((18, 20, 0, (1,), ()), (20, 1, 0, (), (1,)))),
    "transposed": Walk(((18, 20, 0, (), (1,)), (20, 1, 0, (1,), ()))),
    "every second": Walk(((9, 40, 0, (1,), ()), (10, 2, 0, (), (1,)))),
    "from the end": Walk(((18, 20, 17, (-1,), ()), (20, 1, 19, (), (-1,)))),
    "negative stride": Walk(((18, 20, 0, (1,), ()), (20, -1, 0, (), (1,)))),
    "one row for all": Walk(((18, 20, 3, (0,), ()), (20, 1, 0, (), (1,)))),
    "stride zero": Walk(((18, 0, 0, (1,), ()), (20, 1, 0, (), (1,)))),
    "one element for all": Walk(((360, 1, 7, (0,), (0,)),)),
    "outside on each side": Walk(((18, 20, -2, (1,), ()), (20, 1, -3, (), (1,)))),
    "beyond the end": Walk(((18, 20, 16, (1,), ()), (20, 1, 17, (), (1,)))),
    "all outside": Walk(((18, 20, 18, (1,), ()), (20, 1, 0, (), (1,)))),
    "origin and limit": Walk(
        ((18, 20, 0, (1,), ()), (20, 1, 0, (), (1,))), (3, 6, ONE), (5, 12, ONE)
    ),
    "limit before origin": Walk(((18, 20, 0, (1,), ()), (20, 1, 0, (), (1,))), (9, 3, ONE)),
    "negative origin": Walk(
        ((18, 20, 0, (1,), ()), (20, 1, 0, (), (1,))), (-2, 9, ONE), (-4, 99, ONE)
    ),
    "diagonal": Walk(((18, 20, 0, (1,), ()), (20, 1, 0, (1,), (1,)))),
    "anti-diagonal": Walk(((20, 18, 10, (1,), (-1,)), (18, 1, 0, (), (1,)))),
    "flattened rows": Walk(
        ((3, 120, 0, (1, 0), ()), (6, 20, 0, (0, 1), ()), (20, 1, 0, (), (1,))),
        (0, None, ((None, 6), (6, 1))),
    ),
    "batches": Walk(
        ((2, 180, 0, (1, 0), ()), (3, 60, 0, (0, 1), ()), (5, 12, 0, (), (1, 0)),
         (4, 3, 0, (), (0, 1)), (3, 1, 1, (), ())),
        (0, None, ((None, 3), (3, 1))), (0, None, ((None, 4), (4, 1))),
    ),
    "five dimensions": Walk(
        ((2, 180, 0, (1, 0, 0), ()), (3, 60, 0, (0, 1, 0), ()), (4, 15, 0, (0, 0, 1), ()),
         (5, 3, 0, (), (1, 0)), (3, 1, 0, (), (0, 1))),
        (0, 24, ((None, 12), (3, 4), (4, 1))), (0, 15, ((None, 3), (3, 1))),
    ),
    "window": Walk(
        ((18, 20, -1, (1, 0), (1, 0)), (20, 1, -1, (0, 1), (0, 1))),
        (0, None, ((None, 20), (20, 1))), (0, 9, ((None, 3), (3, 1))),
    ),
    "strided window": Walk(
        ((18, 20, -1, (2, 0), (1, 0)), (20, 1, -2, (0, 3), (0, 2))),
        (0, None, ((None, 7), (7, 1))), (0, 9, ((None, 3), (3, 1))),
    ),
    "flipped window": Walk(
        ((18, 20, 2, (1, 0), (-1, 0)), (20, 1, 2, (0, 1), (0, -1))),
        (0, None, ((None, 20), (20, 1))), (0, 9, ((None, 3), (3, 1))),
    ),
    "digits of size zero": Walk(
        ((18, 20, 1, (1,), ()), (20, 1, 0, (), (1,))), (0, None, ((0, 1),)), (0, None, ONE)
    ),
    "a divisor of zero": Walk(
        ((18, 20, 1, (1,), ()), (20, 1, 0, (), (1,))), (0, None, ((None, 0),)), (0, None, ONE)
    ),
    "a period": Walk(((3, 20, 0, (1,), ()), (4, 1, 0, (), (1,))), (1, None, ((3, 1),)),
                     (2, None, ((4, 1),))),
}  # fmt: skip
ONE_TO_ONE = [
    "row-major", "transposed", "every second", "from the end", "negative stride",
    "outside on each side", "beyond the end", "all outside", "origin and limit",
    "limit before origin", "flattened rows", "batches", "five dimensions",
]  # fmt: skip
"""Walks in which no two elements share a place: STORE may use them."""


@case(rules=["HAL-VIL-001", "HAL-VIL-003"], operator="load")
@pytest.mark.parametrize("walk", list(WALKS))
@pytest.mark.parametrize("dtype", [dtypes.f32, dtypes.i8, dtypes.f16, dtypes.i64], ids=named)
def test_load_follows_its_descriptor(
    lab: Lab, rng: np.random.Generator, dtype: DType, walk: str
) -> None:
    rows, columns = lab.tile
    item = reachable(WALKS[walk])
    b = Builder()
    p = b.program("main")
    x, y = p.buffer("X", dtype, "read"), p.buffer("Y", dtype, "write")
    t, whole = p.tile("t", dtype, rows, columns), p.tile("whole", dtype, rows, columns)
    p.fill(whole, 99)
    p.store(p.matrix(y, rows, columns), whole)
    p.load(t, item.build(p, x, fill=-7 if dtype.minimum or dtype.is_float else 7))
    p.store(p.matrix(y, rows, columns), t)
    b.kernel_of(p, bytes={"X": SIZE * dtype.bytes, "Y": rows * columns * dtype.bytes})
    source = small(rng, dtype, SIZE, limit=90)
    wanted = np.full((rows, columns), 99, np.int64)
    height, width = item.counts(rows, columns)
    for i, j in itertools.product(range(height), range(width)):
        at = item.place(i, j)
        wanted[i, j] = -7 if at is None else int(source[at])
    got = lab.run(b.module(), {"X": source, "Y": blank(dtype, rows, columns)})["Y"]
    close(got, wanted.astype(dtype.numpy), law="exact", dtype=dtype.name)


def reachable(walk: Walk) -> Walk:
    """Return a walk whose negative strides stay inside the buffer: by a dimension of one place."""
    lowest = sum(
        min(0, stride * (extent - 1)) for extent, stride, _, _, _ in walk.dims if stride < 0
    )
    if not lowest:
        return walk
    dims = tuple(
        (extent, stride, 0 if stride < 0 else base, rows, columns)
        for extent, stride, base, rows, columns in walk.dims
    )
    return Walk(((2, -lowest, 1, (), ()), *dims), walk.row, walk.column)


@case(rules=["HAL-VIL-002", "HAL-VIL-003"], operator="store")
@pytest.mark.parametrize("walk", ONE_TO_ONE)
@pytest.mark.parametrize("dtype", [dtypes.f32, dtypes.i8, dtypes.f16, dtypes.i64], ids=named)
def test_store_follows_its_descriptor_and_leaves_the_rest(
    lab: Lab, rng: np.random.Generator, dtype: DType, walk: str
) -> None:
    rows, columns = lab.tile
    item = reachable(WALKS[walk])
    b = Builder()
    p = b.program("main")
    x, y = p.buffer("X", dtype, "read"), p.buffer("Y", dtype, "inout")
    t = p.tile("t", dtype, rows, columns)
    p.load(t, p.matrix(x, rows, columns))
    p.store(item.build(p, y), t)
    b.kernel_of(p, bytes={"X": rows * columns * dtype.bytes, "Y": SIZE * dtype.bytes})
    source, target = small(rng, dtype, rows, columns, limit=90), blank(dtype, SIZE)
    wanted = target.copy()
    height, width = item.counts(rows, columns)
    for i, j in itertools.product(range(height), range(width)):
        at = item.place(i, j)
        if at is not None:
            wanted[at] = source[i, j]
    got = lab.run(b.module(), {"X": source, "Y": target})["Y"]
    close(got, wanted, law="exact", dtype=dtype.name)


@case(rules=["HAL-VIL-001", "HAL-VIL-003"], operator="load")
def test_coordinates_beyond_32_bits_are_outside_not_wrapped(lab: Lab) -> None:
    rows, columns = lab.tile
    far = (2**32, 2**31, -(2**32), 2**62)
    for base in far:
        walk = Walk(((18, 20, 0, (1,), ()), (20, 1, base, (), (1,))))
        b = Builder()
        p = b.program("main")
        x, y = p.buffer("X", dtypes.i32, "read"), p.buffer("Y", dtypes.i32, "write")
        t = p.tile("t", dtypes.i32, rows, columns)
        p.load(t, walk.build(p, x, fill=5))
        p.store(p.matrix(y, rows, columns), t)
        b.kernel_of(p, bytes={"X": SIZE * 4, "Y": rows * columns * 4})
        given = {"X": np.zeros(SIZE, np.int32), "Y": blank(dtypes.i32, rows, columns)}
        got = lab.run(b.module(), given)["Y"]
        close(got, np.full((rows, columns), 5, np.int32), law="exact", dtype="i32")


@case(rules=["HAL-VIL-001", "HAL-VIL-002", "HAL-VIL-010"], operator="load store")
@pytest.mark.parametrize("dtype", EVERY, ids=named)
def test_load_and_store_keep_every_bit(lab: Lab, rng: np.random.Generator, dtype: DType) -> None:
    x = grid_of(numbers(rng, dtype)) if dtype.kind != "bool" else small(rng, dtype, 9, 33)
    m, n = x.shape
    module = recipes.copied(dtype, tile=lab.tile)
    got = lab.run(module, {"M": m, "N": n, "X": x, "Y": blank(dtype, m, n)})["Y"]
    assert is_bitwise_equal(got, x)


@case(rules=["HAL-VIL-001"], operator="load")
@pytest.mark.parametrize("dtype", EVERY, ids=named)
def test_fill_of_a_load_in_every_type(lab: Lab, rng: np.random.Generator, dtype: DType) -> None:
    rows, columns = lab.tile
    constants: list[float] = [0, 1]
    if dtype.kind in ("float", "float8"):
        constants += [-0.0, -2.5, float("nan"), float(dtype.maximum)]
        constants += [float("-inf")] if dtype.has_infinity else []
    elif dtype.kind == "int":
        constants += [int(dtype.minimum), int(dtype.maximum)]
    for fill in constants:
        b = Builder()
        p = b.program("main")
        x, y = p.buffer("X", dtype, "read"), p.buffer("Y", dtype, "write")
        t = p.tile("t", dtype, rows, columns)
        p.load(t, p.matrix(x, 1, 1, limited=False, fill=fill))
        p.store(p.matrix(y, rows, columns), t)
        b.kernel_of(p, bytes={"X": dtype.bytes, "Y": rows * columns * dtype.bytes})
        source = small(rng, dtype, 1)
        wanted = np.full((rows, columns), fill, np.float64 if "float" in dtype.kind else np.int64)
        wanted[0, 0] = float(source[0])
        got = lab.run(b.module(), {"X": source, "Y": blank(dtype, rows, columns)})["Y"]
        if dtype.kind == "bool":
            close(got.view(np.uint8), wanted.astype(np.uint8), law="exact")
        else:
            exact = wanted if "float" in dtype.kind else wanted.astype(dtype.numpy)
            close(got, exact, law="exact", dtype=dtype.name)


# ---- TRN, COPY, layouts ----


@case(rules=["HAL-VIL-026"], operator="trn")
@pytest.mark.parametrize("dtype", STORED, ids=named)
def test_trn_turns_a_matrix_without_changing_bits(
    lab: Lab, rng: np.random.Generator, dtype: DType
) -> None:
    side = lab.side
    for rows, columns in itertools.product(("one", "tile-1", "tile+1"), repeat=2):
        m, n = lab.length(rows, side), lab.length(columns, side)
        x = np.resize(rng.permutation(numbers(rng, dtype, 500)), (m, n)) if dtype.kind != "bool" \
            else small(rng, dtype, m, n)  # fmt: skip
        module = recipes.transpose(dtype, tile=(side, side))
        got = lab.run(module, {"M": m, "N": n, "X": x, "Y": blank(dtype, n, m)})["Y"]
        assert is_bitwise_equal(got, np.ascontiguousarray(x.T))


@case(rules=["HAL-VIL-026"], operator="copy")
@pytest.mark.parametrize("dtype", STORED, ids=named)
def test_copy_keeps_every_bit(lab: Lab, rng: np.random.Generator, dtype: DType) -> None:
    x = grid_of(numbers(rng, dtype)) if dtype.kind != "bool" else small(rng, dtype, 9, 33)
    m, n = x.shape
    module = recipes.copied(dtype, tile=lab.tile, copies=2)
    got = lab.run(module, {"M": m, "N": n, "X": x, "Y": blank(dtype, m, n)})["Y"]
    assert is_bitwise_equal(got, x)


@case(rules=["HAL-VIL-026"], operator="layout")
@pytest.mark.parametrize("layout", ["row", "col", "panel", "mma_a", "mma_b", "acc"])
@pytest.mark.parametrize("dtype", [dtypes.f32, dtypes.i8, dtypes.f16, dtypes.f64], ids=named)
def test_a_layout_never_changes_values(
    lab: Lab, rng: np.random.Generator, dtype: DType, layout: str
) -> None:
    side = lab.side
    panel = min(lab.limits.panel_rows, default=8) if layout == "panel" else 0
    b = Builder()
    p = b.program("main")
    x, y = p.buffer("X", dtype, "read"), p.buffer("Y", dtype, "write")
    t = p.tile("t", dtype, side, side, layout=layout, panel=panel)
    u = p.tile("u", dtype, side, side)
    turned = p.tile("turned", dtype, side, side)
    p.load(t, p.matrix(x, side - 1, side))
    p.copy(u, t)
    p.trn(turned, t)
    p.bin("add", u, u, t)
    p.store(p.matrix(y, side, side), u)
    p.store(second_half(p, y, side), turned)
    area = side * side * dtype.bytes
    b.kernel_of(p, bytes={"X": area, "Y": 2 * area})
    given = small(rng, dtype, side, side, limit=50)
    target = blank(dtype, 2, side, side)
    got = lab.run(b.module(), {"X": given, "Y": target})["Y"]
    wanted = target.copy()
    wanted[0, : side - 1] = given[: side - 1] + given[: side - 1]
    wanted[1, :, : side - 1] = given[: side - 1].T
    close(got, wanted, law="exact", dtype=dtype.name)


def second_half(p: Any, buffer: Any, side: int) -> Any:
    """Return a descriptor of the second of two square matrices."""
    walk = Walk(((2, side * side, 1, (), ()), (side, side, 0, (1,), ()), (side, 1, 0, (), (1,))))
    return walk.build(p, buffer)


# ---- near descriptors ----


@case(rules=["HAL-VIL-033"], operator="near")
@pytest.mark.parametrize("dtype", [*FLOATS, *INTS], ids=named)
def test_a_window_slides_over_one_near_tile(
    lab: Lab, rng: np.random.Generator, dtype: DType
) -> None:
    rows, columns = lab.tile
    b = Builder()
    p = b.program("main")
    x, y = p.buffer("X", dtype, "read"), p.buffer("Y", dtype, "write")
    whole = p.tile("whole", dtype, rows, columns)
    part, total = p.tile("part", dtype, rows, columns), p.tile("total", dtype, rows, columns)
    p.load(whole, p.matrix(x, rows - 1, columns - 1))
    p.fill(total, 0)
    for i, j in itertools.product((-1, 0, 1), repeat=2):
        walk = Walk(((rows, columns, i, (1,), ()), (columns, 1, j, (), (1,))))
        p.load(part, walk.build(p, dtype, fill=1), near=whole)
        p.bin("add", total, total, part)
    p.store(p.matrix(y, rows, columns), total)
    size = dtype.bytes
    b.kernel_of(p, bytes={"X": (rows - 1) * (columns - 1) * size, "Y": rows * columns * size})
    given = small(rng, dtype, rows - 1, columns - 1, limit=7)
    padded = np.ones((rows + 2, columns + 2), np.int64)
    padded[1:rows, 1:columns] = given
    wanted = sum(
        padded[i : i + rows, j : j + columns] for i, j in itertools.product(range(3), repeat=2)
    )
    got = lab.run(b.module(), {"X": given, "Y": blank(dtype, rows, columns)})["Y"]
    close(got, np.asarray(wanted).astype(dtype.numpy), law="exact", dtype=dtype.name)


@case(rules=["HAL-VIL-033"], operator="near")
@pytest.mark.parametrize("dtype", [dtypes.f32, dtypes.i32, dtypes.i8, dtypes.f16], ids=named)
def test_store_into_a_near_tile_writes_its_valid_region_alone(
    lab: Lab, rng: np.random.Generator, dtype: DType
) -> None:
    rows, columns = lab.tile
    b = Builder()
    p = b.program("main")
    x, y = p.buffer("X", dtype, "read"), p.buffer("Y", dtype, "inout")
    whole, part = p.tile("whole", dtype, rows, columns), p.tile("part", dtype, rows, columns)
    p.fill(whole, 9, rows=rows - 1, columns=columns - 2)
    p.load(part, p.matrix(x, rows, columns))
    walk = Walk(((rows, columns, 1, (1,), ()), (columns, 1, 3, (), (1,))))
    p.store(walk.build(p, dtype), part, near=whole)
    p.store(p.matrix(y, rows, columns), whole)
    size = rows * columns * dtype.bytes
    b.kernel_of(p, bytes={"X": size, "Y": size})
    given, target = small(rng, dtype, rows, columns, limit=8), blank(dtype, rows, columns)
    wanted = target.copy()
    wanted[: rows - 1, : columns - 2] = 9
    wanted[1 : rows - 1, 3 : columns - 2] = given[: rows - 2, : columns - 5]
    got = lab.run(b.module(), {"X": given, "Y": target})["Y"]
    close(got, wanted, law="exact", dtype=dtype.name)


# ---- GATHER and SCATTER ----


@case(rules=["HAL-VIL-027"], operator="gather")
@pytest.mark.parametrize("index", [dtypes.i32, dtypes.i64], ids=named)
@pytest.mark.parametrize("dtype", STORED, ids=named)
def test_gather_takes_rows_and_fills_for_an_index_outside(
    lab: Lab, rng: np.random.Generator, dtype: DType, index: DType
) -> None:
    rows, columns = lab.tile
    height, width, count = 13, columns + 3, 3 * rows - 1
    source = small(rng, dtype, height, width, limit=90)
    places = rng.integers(-3, height + 3, count)
    far = [-1, height, -height, 2**31 - 1, -(2**31), *([2**32, 2**62] if index.bytes == 8 else [])]
    places[: len(far)] = far
    module = recipes.gathered(dtype, index, tile=lab.tile)
    arguments = {
        "R": height, "N": width, "M": count, "X": source, "I": places.astype(index.numpy),
        "Y": blank(dtype, count, width),
    }  # fmt: skip
    got = lab.run(module, arguments)["Y"]
    inside = (places >= 0) & (places < height)
    taken = source[np.where(inside, places, 0)]
    wanted = np.where(inside[:, None], taken, dtype.numpy.type(1))
    assert is_bitwise_equal(got, wanted.astype(dtype.numpy))


@case(rules=["HAL-VIL-028", "HAL-VIL-002"], operator="scatter set")
@pytest.mark.parametrize("index", [dtypes.i32, dtypes.i64], ids=named)
@pytest.mark.parametrize("dtype", STORED, ids=named)
def test_scatter_set_writes_rows_and_drops_an_index_outside(
    lab: Lab, rng: np.random.Generator, dtype: DType, index: DType
) -> None:
    rows, columns = lab.tile
    height, width, count = 40, columns + 3, 3 * rows - 1
    values = small(rng, dtype, count, width, limit=90)
    places = rng.permutation(np.arange(-5, 45))[:count]
    far = [-1, height, 2**31 - 1, -(2**31), *([2**32 + 1, 2**62] if index.bytes == 8 else [])]
    places[: len(far)] = far
    target = small(rng, dtype, height, width) if dtype.kind == "bool" else \
        blank(dtype, height, width)  # fmt: skip
    module = recipes.scattered("set", dtype, index, tile=lab.tile)
    arguments = {
        "R": height, "N": width, "M": count, "X": values, "I": places.astype(index.numpy),
        "Y": target,
    }  # fmt: skip
    got = lab.run(module, arguments)["Y"]
    wanted = target.copy()
    for place, row in zip(places, values, strict=True):
        if 0 <= place < height:
            wanted[place] = row
    assert is_bitwise_equal(got, wanted)


@case(rules=["HAL-VIL-028"], operator="scatter")
@pytest.mark.parametrize("function", ["add", "max", "min"])
@pytest.mark.parametrize("dtype", [dtypes.f32, dtypes.f64, dtypes.i32, dtypes.i64], ids=named)
def test_scatter_combines_duplicates(
    lab: Lab, rng: np.random.Generator, dtype: DType, function: str
) -> None:
    rows, columns = lab.tile
    height, width, count = 5, columns + 3, 5 * rows - 1
    for index in (dtypes.i32, dtypes.i64):
        values, target = (small(rng, dtype, k, width, limit=50) for k in (count, height))
        places = rng.integers(-1, height + 1, count)
        module = recipes.scattered(function, dtype, index, tile=lab.tile)
        arguments = {
            "R": height, "N": width, "M": count, "X": values, "I": places.astype(index.numpy),
            "Y": target,
        }  # fmt: skip
        got = lab.run(module, arguments)["Y"]
        wanted = target.copy()
        inside = (places >= 0) & (places < height)
        merge: Any = {"add": np.add, "max": np.maximum, "min": np.minimum}[function]
        merge.at(wanted, places[inside], values[inside])
        close(got, wanted, law="dot", dtype=dtype.name, scale=0, terms=1)


@case(rules=["HAL-VIL-028"], operator="scatter add")
@pytest.mark.parametrize("dtype", [dtypes.f32, dtypes.f64], ids=named)
def test_scatter_add_obeys_the_dot_rule(
    lab: Lab, rng: np.random.Generator, numerics: Numerics, dtype: DType
) -> None:
    rows, columns = lab.tile
    height, width, count = 3, columns, 20 * rows
    values = floats(rng, dtype, count * width).reshape(count, width)
    places = rng.integers(0, height, count)
    module = recipes.scattered("add", dtype, dtypes.i32, tile=lab.tile)
    arguments = {
        "R": height, "N": width, "M": count, "X": values, "I": places.astype(np.int32),
        "Y": np.zeros((height, width), dtype.numpy),
    }  # fmt: skip
    got = lab.run(module, arguments)["Y"]
    ref, scale = np.zeros((height, width), np.longdouble), np.zeros((height, width))
    np.add.at(ref, places, values.astype(np.longdouble))
    np.add.at(scale, places, np.abs(values.astype(np.float64)))
    close(
        got,
        ref.astype(np.float64),
        law="dot",
        dtype=dtype.name,
        scale=scale,
        terms=count,
        numerics=numerics,
    )


@case(rules=["HAL-VIL-028", "HAL-VIL-008"], operator="scatter max min")
@pytest.mark.parametrize("function", ["max", "min"])
@pytest.mark.parametrize("dtype", [dtypes.f32, dtypes.f64], ids=named)
def test_scatter_of_extremes_propagates_nan(
    lab: Lab, rng: np.random.Generator, dtype: DType, function: str
) -> None:
    rows, columns = lab.tile
    height, width, count = 7, columns, 3 * rows
    values, target = (rng.choice(edges(dtype), (k, width)) for k in (count, height))
    places = rng.integers(0, height, count)
    module = recipes.scattered(function, dtype, dtypes.i32, tile=lab.tile)
    arguments = {
        "R": height, "N": width, "M": count, "X": values, "I": places.astype(np.int32),
        "Y": target,
    }  # fmt: skip
    got = lab.run(module, arguments)["Y"]
    wanted = target.astype(np.float64)
    merge: Any = np.maximum if function == "max" else np.minimum
    with np.errstate(all="ignore"):
        merge.at(wanted, places, values.astype(np.float64))
    close(got, wanted, law="minmax", dtype=dtype.name)


@case(rules=["HAL-VIL-028"], operator="scatter set")
def test_scatter_set_with_duplicates_leaves_one_whole_row(lab: Lab) -> None:
    rows, columns = lab.tile
    count, width = 4 * rows, 2 * columns + 1
    values = np.repeat(np.arange(count, dtype=np.int32)[:, None], width, axis=1)
    places = np.zeros(count, np.int32)
    module = recipes.scattered("set", dtypes.i32, dtypes.i32, tile=lab.tile)
    arguments = {
        "R": 2, "N": width, "M": count, "X": values, "I": places,
        "Y": np.full((2, width), -5, np.int32),
    }  # fmt: skip
    got = lab.run(module, arguments)["Y"]
    pieces = [set(got[0, start : start + columns]) for start in range(0, width, columns)]
    assert [len(piece) for piece in pieces] == [1] * len(pieces)
    assert {int(v) for piece in pieces for v in piece} <= set(range(count))
    close(got[1], np.full(width, -5, np.int32), law="exact", dtype="i32")


@case(rules=["HAL-VIL-027", "HAL-VIL-003"], operator="gather")
@pytest.mark.parametrize("length", LENGTHS)
def test_gather_of_a_column_reads_any_dimension(
    lab: Lab, rng: np.random.Generator, length: str
) -> None:
    rows, columns = lab.tile
    count = lab.length(length, rows)
    source = small(rng, dtypes.i32, columns, 23)
    places = rng.integers(-2, 25, count).astype(np.int32)
    b = Builder()
    p = b.program("main")
    m = p.symbol("M")
    x, i = p.buffer("X", dtypes.i32, "read"), p.buffer("I", dtypes.i32, "read")
    y = p.buffer("Y", dtypes.i32, "write")
    row = p.compute("mul", p.id(0), rows)
    index, t = p.tile("index", dtypes.i32, rows, 1), p.tile("t", dtypes.i32, rows, columns)
    p.load(index, p.matrix(i, m, 1, row_origin=row))
    dims = [
        Dimension(as_expr(columns), as_expr(23), as_expr(0), (Term("column", 0, as_expr(1)),)),
        Dimension(as_expr(23), as_expr(1), as_expr(0)),
    ]
    p.gather(t, p.descriptor(x, dims, column=Axis(digits=(Digit(None, as_expr(1)),))), index, dim=1)
    p.store(p.matrix(y, m, columns, row_origin=row), t)
    sizes = {"X": 4 * 23 * columns, "I": 4 * m, "Y": 4 * m * columns}
    b.kernel_of(p, grid=[ceil_div(m, rows)], bytes=sizes)
    target = blank(dtypes.i32, count, columns)
    got = lab.run(b.module(), {"M": count, "X": source, "I": places, "Y": target})["Y"]
    inside = (places >= 0) & (places < 23)
    wanted = np.where(inside[:, None], source.T[np.where(inside, places, 0)], 0)
    close(got, wanted.astype(np.int32), law="exact", dtype="i32")
