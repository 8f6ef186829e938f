"""Programs that move elements: copies, transposes, rows by index."""

from __future__ import annotations

import itertools

from hal.dtypes import DType, i32
from hal.vil.builder import Builder
from hal.vil.expressions import as_expr, ceil_div
from hal.vil.model import Axis, Digit, Dimension, Term
from hal.vil.module import Module

__all__ = ["copied", "gathered", "scattered", "scattered_in_order", "transpose"]


def transpose(dtype: DType, *, tile: tuple[int, int] = (8, 64)) -> Module:
    """Y[N, M] = X[M, N] transposed by TRN. Arguments of the kernel: M, N, X, Y."""
    b = Builder()
    p = b.program("main")
    m, n = p.symbol("M"), p.symbol("N")
    x, y = p.buffer("X", dtype, "read"), p.buffer("Y", dtype, "write")
    t, turned = p.tile("t", dtype, *tile), p.tile("turned", dtype, tile[1], tile[0])
    row, column = p.compute("mul", p.id(1), tile[0]), p.compute("mul", p.id(0), tile[1])
    p.load(t, p.matrix(x, m, n, row_origin=row, column_origin=column))
    p.trn(turned, t)
    p.store(p.matrix(y, n, m, row_origin=column, column_origin=row), turned)
    sizes = {"X": dtype.bytes * m * n, "Y": dtype.bytes * m * n}
    b.kernel_of(p, grid=[ceil_div(n, tile[1]), ceil_div(m, tile[0])], bytes=sizes)
    return b.module()


def copied(dtype: DType, *, tile: tuple[int, int] = (8, 64), copies: int = 0) -> Module:
    """Y[M, N] = X through LOAD, `copies` times COPY, and STORE. Arguments: M, N, X, Y."""
    b = Builder()
    p = b.program("main")
    m, n = p.symbol("M"), p.symbol("N")
    x, y = p.buffer("X", dtype, "read"), p.buffer("Y", dtype, "write")
    tiles = [p.tile(f"t{number}", dtype, *tile) for number in range(copies + 1)]
    row, column = p.compute("mul", p.id(1), tile[0]), p.compute("mul", p.id(0), tile[1])
    p.load(tiles[0], p.matrix(x, m, n, row_origin=row, column_origin=column))
    for source, target in itertools.pairwise(tiles):
        p.copy(target, source)
    p.store(p.matrix(y, m, n, row_origin=row, column_origin=column), tiles[-1])
    sizes = {"X": dtype.bytes * m * n, "Y": dtype.bytes * m * n}
    b.kernel_of(p, grid=[ceil_div(n, tile[1]), ceil_div(m, tile[0])], bytes=sizes)
    return b.module()


def gathered(dtype: DType, index: DType, *, tile: tuple[int, int] = (8, 64)) -> Module:
    """Y[M, N] = X[I[M], :] of X[R, N]; 1 where I is outside. Arguments: R, N, M, X, I, Y."""
    return _by_index("gather", "", dtype, index, tile)


def scattered(
    function: str, dtype: DType, index: DType, *, tile: tuple[int, int] = (8, 64)
) -> Module:
    """Y[I[M], :] = function(Y, X[M, N]) of Y[R, N]. Arguments of the kernel: R, N, M, X, I, Y."""
    return _by_index("scatter", function, dtype, index, tile)


def _by_index(op: str, function: str, dtype: DType, index: DType, tile: tuple[int, int]) -> Module:
    b = Builder()
    p = b.program("main")
    r, n, m = p.symbol("R"), p.symbol("N"), p.symbol("M")
    x, i = p.buffer("X", dtype, "read"), p.buffer("I", index, "read")
    y = p.buffer("Y", dtype, "write" if op == "gather" else "inout")
    places, t = p.tile("places", index, tile[0], 1), p.tile("t", dtype, *tile)
    row, column = p.compute("mul", p.id(1), tile[0]), p.compute("mul", p.id(0), tile[1])
    one, zero = as_expr(1), as_expr(0)
    dims = [Dimension(r, n, zero), Dimension(n, one, zero, (Term("column", 0, one),))]
    across = Axis(column, n, (Digit(None, one),))
    p.load(places, p.matrix(i, m, 1, row_origin=row))
    if op == "gather":
        p.gather(t, p.descriptor(x, dims, column=across, fill=1), places, dim=0)
        p.store(p.matrix(y, m, n, row_origin=row, column_origin=column), t)
    else:
        p.load(t, p.matrix(x, m, n, row_origin=row, column_origin=column))
        p.scatter(function, p.descriptor(y, dims, column=across), t, places, dim=0)
    many, few = dtype.bytes * m * n, dtype.bytes * r * n
    sizes = {"X": few if op == "gather" else many, "I": index.bytes * m}
    sizes["Y"] = many if op == "gather" else few
    b.kernel_of(p, grid=[ceil_div(n, tile[1]), ceil_div(m, tile[0])], bytes=sizes)
    return b.module()


def scattered_in_order(dtype: DType, *, tile: tuple[int, int] = (8, 64)) -> Module:
    """As `scattered("add", …)` for N = the tile's columns, in one deterministic instance.

    Arguments of the kernel: R, M, X, I, Y; I is i32.
    """
    b = Builder()
    p = b.program("main", deterministic=True)
    r, m = p.symbol("R"), p.symbol("M")
    x, i = p.buffer("X", dtype, "read"), p.buffer("I", i32, "read")
    y = p.buffer("Y", dtype, "inout")
    places, t = p.tile("places", i32, tile[0], 1), p.tile("t", dtype, *tile)
    n, one, zero = as_expr(tile[1]), as_expr(1), as_expr(0)
    dims = [Dimension(r, n, zero), Dimension(n, one, zero, (Term("column", 0, one),))]
    target = p.descriptor(y, dims, column=Axis(digits=(Digit(None, one),)))
    with p.loop(ceil_div(m, tile[0])) as turn:
        row = p.compute("mul", turn, tile[0])
        p.load(places, p.matrix(i, m, 1, row_origin=row))
        p.load(t, p.matrix(x, m, n, row_origin=row))
        p.scatter("add", target, t, places, dim=0)
    sizes = {"X": dtype.bytes * m * n, "I": 4 * m, "Y": dtype.bytes * r * n}
    b.kernel_of(p, bytes=sizes)
    return b.module()
