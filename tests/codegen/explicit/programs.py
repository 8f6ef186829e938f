"""Flat programs of every kind that the explicit form must keep, with arguments that show races.

Each set of arguments of a program is one path: no turn, one turn, several turns, a branch taken or
not. A token is needed on at least one of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hal import dtypes
from hal.dtypes import DType
from hal.vil import recipes
from hal.vil.builder import Builder
from hal.vil.expressions import as_expr, ceil_div
from hal.vil.model import Axis, Digit, Dimension, Term
from hal.vil.module import Module

Arguments = dict[str, Any]
F32, I32, BF16 = dtypes.f32, dtypes.i32, dtypes.bf16
ROWS, COLUMNS, SIDE = 8, 32, 32
TILE = (ROWS, COLUMNS)


@dataclass(frozen=True, slots=True)
class Sample:
    """A module whose kernel is `main`, and arguments for each path through it."""

    name: str
    build: Callable[[], Module]
    arguments: Callable[[], list[Arguments]]


SAMPLES: list[Sample] = []


def sample(build: Callable[[], Module]) -> Callable[[Callable[[], list[Arguments]]], None]:
    """Adds a sample that is called like the function of its arguments."""

    def keep(arguments: Callable[[], list[Arguments]]) -> None:
        SAMPLES.append(Sample(arguments.__name__, build, arguments))

    return keep


def small(dtype: DType, *shape: int, limit: int = 5) -> np.ndarray[Any, Any]:
    """Small whole numbers, so that sums are exact in any order."""
    source = np.random.default_rng(7)
    return source.integers(-limit, limit + 1, shape).astype(dtype.numpy)


def zeros(dtype: DType, *shape: int) -> np.ndarray[Any, Any]:
    return np.zeros(shape, dtype.numpy)


# ---- products ----


@sample(lambda: recipes.matmul(F32, F32, F32, tile=(SIDE, SIDE, SIDE)))
def product() -> list[Arguments]:
    m, n = 2 * SIDE, SIDE - 3
    return [
        {"M": m, "N": n, "K": k, "A": small(F32, m, k), "B": small(F32, k, n),
         "C": zeros(F32, m, n)}
        for k in (0, SIDE, 5 * SIDE - 1)
    ]  # fmt: skip


@sample(lambda: recipes.matmul(BF16, BF16, F32, target=BF16, tile=(SIDE, SIDE, SIDE)))
def product_with_a_cast() -> list[Arguments]:
    m = SIDE
    return [
        {"M": m, "N": m, "K": k, "A": small(BF16, m, k, limit=2), "B": small(BF16, k, m, limit=2),
         "C": zeros(BF16, m, m)}
        for k in (0, 4 * SIDE)
    ]  # fmt: skip


def product_of_many_columns() -> Module:
    """One instance walks all columns of C; the inner loop walks K."""
    b = Builder()
    p = b.program("main")
    n, k = p.symbol("N"), p.symbol("K")
    left, right = p.buffer("A", F32, "read"), p.buffer("B", F32, "read")
    to = p.buffer("C", F32, "write")
    a, w = p.tile("a", F32, SIDE, SIDE), p.tile("b", F32, SIDE, SIDE)
    c, result = p.tile("c", F32, SIDE, SIDE, space="acc"), p.tile("result", F32, SIDE, SIDE)
    with p.loop(ceil_div(n, SIDE)) as turn:
        column = p.compute("mul", turn, SIDE)
        p.fill(c, 0.0)
        with p.loop(ceil_div(k, SIDE)) as step:
            inner = p.compute("mul", step, SIDE)
            p.load(a, p.matrix(left, SIDE, k, column_origin=inner))
            p.load(w, p.matrix(right, k, n, row_origin=inner, column_origin=column))
            p.mma(c, a, w)
        p.un("abs", result, c)
        p.store(p.matrix(to, SIDE, n, column_origin=column), result)
    b.kernel_of(p, bytes={"A": 4 * SIDE * k, "B": 4 * k * n, "C": 4 * SIDE * n})
    return b.module()


@sample(product_of_many_columns)
def columns_of_a_product() -> list[Arguments]:
    return [
        {"N": n, "K": k, "A": small(F32, SIDE, k), "B": small(F32, k, n),
         "C": zeros(F32, SIDE, n)}
        for n, k in ((3 * SIDE, 0), (4 * SIDE, SIDE), (4 * SIDE, 3 * SIDE), (0, SIDE),
                     (2 * SIDE, 4 * SIDE))
    ]  # fmt: skip


@sample(lambda: recipes.convolution(F32, F32, F32, window=3, side=SIDE, pad=1))
def convolution() -> list[Arguments]:
    found = []
    for channels, filters in ((1, 5), (16, 7)):
        h, w = 7, 9
        found.append(
            {"H": h, "W": w, "C": channels, "F": filters, "P": h, "Q": w,
             "X": small(F32, h, w, channels), "K": small(F32, 3, 3, channels, filters),
             "Y": zeros(F32, h, w, filters)}
        )  # fmt: skip
    return found


def attention() -> Module:
    """Online softmax over blocks of keys: products, row sums and a carried state in one loop."""
    b = Builder()
    p = b.program("main")
    n, d = p.symbol("N"), SIDE
    q, k, v, o = (p.buffer(name, F32, "write" if name == "O" else "read") for name in "QKVO")
    query, key = p.tile("query", F32, SIDE, d), p.tile("key", F32, d, SIDE)
    scores, shares = p.tile("scores", F32, SIDE, SIDE, space="acc"), p.tile("p", F32, SIDE, SIDE)
    value, part = p.tile("value", F32, SIDE, d), p.tile("part", F32, SIDE, d, space="acc")
    total, best = p.tile("total", F32, SIDE, d), p.tile("best", F32, SIDE, 1)
    high, scale = p.tile("high", F32, SIDE, 1), p.tile("scale", F32, SIDE, 1)
    summed, row = p.tile("summed", F32, SIDE, 1), p.tile("row", F32, SIDE, 1)
    p.load(query, p.matrix(q, SIDE, d))
    p.fill(best, -1e30)
    p.fill(summed, 0.0)
    p.fill(total, 0.0)
    with p.loop(ceil_div(n, SIDE)) as turn:
        start = p.compute("mul", turn, SIDE)
        p.load(key, p.matrix(k, d, n, column_origin=start))
        p.mma(scores, query, key, init=True)
        p.red("max", row, scores, axis=1)
        p.bin("max", high, best, row)
        p.bin("sub", scale, best, high)
        p.un("exp", scale, scale)
        p.bin("sub", shares, scores, high)
        p.un("exp", shares, shares)
        p.red("add", row, shares, axis=1)
        p.bin("mul", summed, summed, scale)
        p.bin("add", summed, summed, row)
        p.load(value, p.matrix(v, n, d, row_origin=start))
        p.mma(part, shares, value, init=True)
        p.bin("mul", total, total, scale)
        p.bin("add", total, total, part)
        p.un("mov", best, high)
    p.bin("div", total, total, summed)
    p.store(p.matrix(o, SIDE, d), total)
    size = as_expr(4 * SIDE)
    b.kernel_of(p, bytes={"Q": size * d, "K": size * n, "V": size * n, "O": size * d})
    return b.module()


@sample(attention)
def online_attention() -> list[Arguments]:
    return [
        {"N": n, "Q": small(F32, SIDE, SIDE) / 9, "K": small(F32, SIDE, n),
         "V": small(F32, n, SIDE), "O": zeros(F32, SIDE, SIDE)}
        for n in (SIDE, 4 * SIDE)
    ]  # fmt: skip


# ---- element by element ----


@sample(lambda: recipes.elementwise("bin", "add", [F32, F32], F32, tile=TILE))
def elementwise() -> list[Arguments]:
    m, n = 2 * ROWS - 1, 2 * COLUMNS + 1
    return [{"M": m, "N": n, "X0": small(F32, m, n), "X1": small(F32, m, n), "Y": zeros(F32, m, n)}]


def pipeline(stored: bool = True) -> Module:
    """Y = −X · s over a row of tiles, in one instance."""
    b = Builder()
    p = b.program("main")
    n = p.symbol("N")
    x, y = p.buffer("X", F32, "read"), p.buffer("Y", F32, "write")
    t, r = p.tile("t", F32, *TILE), p.tile("r", F32, *TILE)
    with p.loop(ceil_div(n, COLUMNS)) as turn:
        start = p.compute("mul", turn, COLUMNS)
        p.load(t, p.matrix(x, ROWS, n, column_origin=start))
        p.un("neg", r, t)
        p.store(p.matrix(y, ROWS, n, column_origin=start), r)
    b.kernel_of(p, bytes={"X": 4 * ROWS * n, "Y": 4 * ROWS * n})
    return b.module()


@sample(pipeline)
def elementwise_in_a_loop() -> list[Arguments]:
    return [
        {"N": n, "X": small(F32, ROWS, n), "Y": zeros(F32, ROWS, n)}
        for n in (0, COLUMNS, 7 * COLUMNS - 5)
    ]


def in_place(moves: bool) -> Module:
    """Y = −Y over a row of tiles; without `moves` over the same tile again and again."""
    b = Builder()
    p = b.program("main")
    n = p.symbol("N")
    y = p.buffer("Y", F32, "inout")
    t = p.tile("t", F32, *TILE)
    with p.loop(ceil_div(n, COLUMNS)) as turn:
        start = p.compute("mul", turn, COLUMNS if moves else 0)
        place = p.matrix(y, ROWS, n, column_origin=start)
        p.load(t, place)
        p.un("neg", t, t)
        p.store(place, t)
    b.kernel_of(p, bytes={"Y": 4 * ROWS * n})
    return b.module()


@sample(lambda: in_place(moves=True))
def in_place_block_by_block() -> list[Arguments]:
    return [{"N": n, "Y": small(F32, ROWS, n)} for n in (0, COLUMNS, 6 * COLUMNS)]


@sample(lambda: in_place(moves=False))
def in_place_again_and_again() -> list[Arguments]:
    return [{"N": n, "Y": small(F32, ROWS, n)} for n in (COLUMNS, 5 * COLUMNS)]


def conditional() -> Module:
    """Blocks whose first index is below C are doubled, the others are copied; all are counted."""
    b = Builder()
    p = b.program("main")
    n, c = p.symbol("N"), p.symbol("C")
    x, w = p.buffer("X", F32, "read"), p.buffer("W", F32, "read")
    y, z = p.buffer("Y", F32, "write"), p.buffer("Z", F32, "write")
    t, r, extra, total = (p.tile(name, F32, *TILE) for name in ("t", "r", "extra", "total"))
    p.fill(total, 0.0)
    with p.loop(ceil_div(n, COLUMNS)) as turn:
        start = p.compute("mul", turn, COLUMNS)
        p.load(t, p.matrix(x, ROWS, n, column_origin=start))
        p.un("mov", r, t)
        with p.if_(p.compute("lt", start, c)):
            p.load(extra, p.matrix(w, ROWS, n, column_origin=start))
            p.bin("add", r, r, extra)
        p.bin("add", total, total, r)
        p.store(p.matrix(y, ROWS, n, column_origin=start), r)
    p.store(p.matrix(z, ROWS, COLUMNS), total)
    size = 4 * ROWS * n
    b.kernel_of(p, bytes={"X": size, "W": size, "Y": size, "Z": 4 * ROWS * COLUMNS})
    return b.module()


@sample(conditional)
def conditional_load() -> list[Arguments]:
    n = 6 * COLUMNS
    return [
        {"N": n, "C": c, "X": small(F32, ROWS, n), "W": small(F32, ROWS, n),
         "Y": zeros(F32, ROWS, n), "Z": zeros(F32, ROWS, COLUMNS)}
        for c in (0, 3 * COLUMNS, n)
    ]  # fmt: skip


# ---- along an axis ----


@sample(lambda: recipes.reduction("add", F32, F32, axis=1, tile=TILE))
def reduction_of_rows() -> list[Arguments]:
    m = 2 * ROWS
    return [
        {"M": m, "N": n, "X": small(F32, m, n), "Y": zeros(F32, m, 1)} for n in (0, 5 * COLUMNS)
    ]


@sample(lambda: recipes.reduction("max", I32, I32, axis=0, tile=TILE))
def reduction_of_columns() -> list[Arguments]:
    n = COLUMNS
    return [{"M": m, "N": n, "X": small(I32, m, n), "Y": zeros(I32, 1, n)} for m in (0, 5 * ROWS)]


@sample(lambda: recipes.softmax(F32, tile=TILE))
def softmax_in_three_launches() -> list[Arguments]:
    return [
        {"N": n, "X": small(F32, ROWS, n), "Y": zeros(F32, ROWS, n)}
        for n in (0, COLUMNS, 5 * COLUMNS)
    ]


def softmax_of_rows() -> Module:
    """One row block after the other: maximum, exponentials, sum and quotient."""
    b = Builder()
    p = b.program("main")
    m = p.symbol("M")
    x, y = p.buffer("X", F32, "read"), p.buffer("Y", F32, "write")
    t, e = p.tile("t", F32, *TILE), p.tile("e", F32, *TILE)
    best, total = p.tile("best", F32, ROWS, 1), p.tile("total", F32, ROWS, 1)
    with p.loop(ceil_div(m, ROWS)) as turn:
        row = p.compute("mul", turn, ROWS)
        p.load(t, p.matrix(x, m, COLUMNS, row_origin=row))
        p.red("max", best, t, axis=1)
        p.bin("sub", e, t, best)
        p.un("exp", e, e)
        p.red("add", total, e, axis=1)
        p.bin("div", e, e, total)
        p.store(p.matrix(y, m, COLUMNS, row_origin=row), e)
    b.kernel_of(p, bytes={"X": 4 * COLUMNS * m, "Y": 4 * COLUMNS * m})
    return b.module()


@sample(softmax_of_rows)
def softmax_rows() -> list[Arguments]:
    return [
        {"M": m, "X": small(F32, m, COLUMNS), "Y": zeros(F32, m, COLUMNS)}
        for m in (0, ROWS, 6 * ROWS - 1)
    ]


@sample(lambda: recipes.scan("add", I32, I32, axis=1, tile=TILE))
def scan() -> list[Arguments]:
    return [{"M": ROWS, "N": COLUMNS, "X": small(I32, *TILE), "Y": zeros(I32, *TILE)}]


@sample(lambda: recipes.top_entries(F32, I32, tile=TILE))
def top_entries() -> list[Arguments]:
    return [
        {
            "N": n,
            "X": small(F32, ROWS, n, limit=999),
            "V": zeros(F32, *TILE),
            "I": zeros(I32, *TILE),
        }
        for n in (COLUMNS, 4 * COLUMNS)
    ]


# ---- moves ----


@sample(lambda: recipes.transpose(F32, tile=(SIDE, SIDE)))
def transpose() -> list[Arguments]:
    m, n = SIDE + 1, 2 * SIDE
    return [{"M": m, "N": n, "X": small(F32, m, n), "Y": zeros(F32, n, m)}]


@sample(lambda: recipes.copied(F32, tile=TILE, copies=2))
def copies() -> list[Arguments]:
    return [{"M": ROWS, "N": COLUMNS, "X": small(F32, *TILE), "Y": zeros(F32, *TILE)}]


@sample(lambda: recipes.gathered(F32, I32, tile=TILE))
def gather() -> list[Arguments]:
    m = 2 * ROWS
    return [{"R": 9, "N": COLUMNS, "M": m, "X": small(F32, 9, COLUMNS), "I": small(I32, m, limit=9),
             "Y": zeros(F32, m, COLUMNS)}]  # fmt: skip


@sample(lambda: recipes.scattered("add", F32, I32, tile=TILE))
def scatter() -> list[Arguments]:
    m = 2 * ROWS
    return [{"R": 9, "N": COLUMNS, "M": m, "X": small(F32, m, COLUMNS), "I": small(I32, m, limit=9),
             "Y": zeros(F32, 9, COLUMNS)}]  # fmt: skip


@sample(lambda: recipes.scattered_in_order(F32, tile=TILE))
def scatter_in_order() -> list[Arguments]:
    return [
        {"R": 9, "M": m, "X": small(F32, m, COLUMNS), "I": small(I32, m, limit=9),
         "Y": zeros(F32, 9, COLUMNS)}
        for m in (ROWS, 5 * ROWS)
    ]  # fmt: skip


def windows() -> Module:
    """Y[i, j] = X[i, j] + X[i, j + 1] of blocks: one load, two reads of the near tile."""
    b = Builder()
    p = b.program("main")
    m = p.symbol("M")
    x, y = p.buffer("X", F32, "read"), p.buffer("Y", F32, "write")
    wide = p.tile("wide", F32, ROWS, 2 * COLUMNS)
    left, right = p.tile("left", F32, *TILE), p.tile("right", F32, *TILE)
    kept = p.tile("kept", F32, *TILE)
    one, width = (Digit(None, as_expr(1)),), as_expr(2 * COLUMNS)

    def part(shift: int) -> Any:
        dims = [
            Dimension(as_expr(ROWS), width, as_expr(0), (Term("row", 0, as_expr(1)),)),
            Dimension(width, as_expr(1), as_expr(shift), (Term("column", 0, as_expr(1)),)),
        ]
        return p.descriptor(F32, dims, row=Axis(digits=one), column=Axis(digits=one))

    p.fill(kept, 0.0)
    with p.loop(ceil_div(m, ROWS)) as turn:
        row = p.compute("mul", turn, ROWS)
        p.load(wide, p.matrix(x, m, 2 * COLUMNS, row_origin=row))
        p.load(left, part(0), near=wide)
        p.load(right, part(1), near=wide)
        p.bin("add", left, left, right)
        p.store(p.matrix(F32, ROWS, COLUMNS), left, near=kept)
        p.store(p.matrix(y, m, COLUMNS, row_origin=row), kept)
    b.kernel_of(p, bytes={"X": 8 * COLUMNS * m, "Y": 4 * COLUMNS * m})
    return b.module()


@sample(windows)
def near_descriptors() -> list[Arguments]:
    return [
        {"M": m, "X": small(F32, m, 2 * COLUMNS), "Y": zeros(F32, m, COLUMNS)}
        for m in (ROWS, 5 * ROWS)
    ]


def paged() -> Module:
    """Y[i] = X[T[i]], a block for each entry of a table that the scalar engine reads."""
    b = Builder()
    p = b.program("main")
    n, pages = p.symbol("N"), p.symbol("P")
    table, x = p.buffer("T", I32, "read"), p.buffer("X", F32, "read")
    y = p.buffer("Y", F32, "write")
    entry, t = p.tile("entry", I32, 1, 1), p.tile("t", F32, *TILE)
    with p.loop(n) as turn:
        p.load(entry, p.matrix(table, 1, n, column_origin=turn))
        page = p.compute("mul", p.read_tile(entry), ROWS)
        to = p.compute("mul", turn, ROWS)
        p.load(t, p.matrix(x, pages * ROWS, COLUMNS, row_origin=page))
        p.store(p.matrix(y, n * ROWS, COLUMNS, row_origin=to), t)
    size = as_expr(4 * ROWS * COLUMNS)
    b.kernel_of(p, bytes={"T": 4 * n, "X": size * pages, "Y": size * n})
    return b.module()


@sample(paged)
def rows_by_a_table() -> list[Arguments]:
    return [
        {"N": n, "P": 3, "T": np.abs(small(I32, n, limit=2)), "X": small(F32, 3 * ROWS, COLUMNS),
         "Y": zeros(F32, n * ROWS, COLUMNS)}
        for n in (1, 6)
    ]  # fmt: skip


def back_and_forth() -> Module:
    """Stores a block and loads it again by another descriptor, in nested loops."""
    b = Builder()
    p = b.program("main")
    n = p.symbol("N")
    y = p.buffer("Y", F32, "inout")
    t, r = p.tile("t", F32, *TILE), p.tile("r", F32, *TILE)
    with p.loop(n) as outer:
        base = p.compute("mul", outer, ROWS)
        p.fill(t, 1.0)
        with p.loop(2):
            p.load(r, p.matrix(y, n * ROWS, COLUMNS, row_origin=base))
            p.bin("add", t, t, r)
            p.store(p.matrix(y, n * ROWS, COLUMNS, row_origin=base, row_limit=n * ROWS), t)
    b.kernel_of(p, bytes={"Y": 4 * ROWS * COLUMNS * n})
    return b.module()


@sample(back_and_forth)
def a_buffer_that_is_stored_and_loaded() -> list[Arguments]:
    return [{"N": n, "Y": small(F32, n * ROWS, COLUMNS)} for n in (1, 4)]
