"""Matrix products and convolutions."""

from __future__ import annotations

from hal.dtypes import DType
from hal.vil.builder import Builder, ProgramBuilder, TileHandle
from hal.vil.expressions import Expr, as_expr, ceil_div
from hal.vil.model import Axis, Digit, Dimension, Term
from hal.vil.module import Module

__all__ = ["convolution", "matmul", "matmul_into", "matmul_of_parts"]


def matmul(
    left: DType,
    right: DType,
    accumulator: DType,
    *,
    target: DType | None = None,
    tile: tuple[int, int, int] = (16, 16, 16),
    spaces: tuple[str, str, str] = ("near", "near", "near"),
) -> Module:
    """C[M, N] = A[M, K] · B[K, N]. Arguments of the kernel: M, N, K, A, B, C.

    Args:
        target: Type of C; a CAST is added when it differs from the accumulator.
        tile: Rows of A, columns of B, and the step along K.
        spaces: Of the tiles of A, B and C.
    """
    b = Builder()
    p = b.program("main")
    m, n, k = p.symbol("M"), p.symbol("N"), p.symbol("K")
    stored = target or accumulator
    a_buffer, b_buffer = p.buffer("A", left, "read"), p.buffer("B", right, "read")
    c_buffer = p.buffer("C", stored, "write")
    a = p.tile("a", left, tile[0], tile[2], space=spaces[0])
    w = p.tile("b", right, tile[2], tile[1], space=spaces[1])
    c = p.tile("c", accumulator, tile[0], tile[1], space=spaces[2])
    row, column = p.compute("mul", p.id(1), tile[0]), p.compute("mul", p.id(0), tile[1])
    p.fill(c, 0)
    with p.loop(ceil_div(k, tile[2])) as step:
        inner = p.compute("mul", step, tile[2])
        p.load(a, p.matrix(a_buffer, m, k, row_origin=row, column_origin=inner))
        p.load(w, p.matrix(b_buffer, k, n, row_origin=inner, column_origin=column))
        p.mma(c, a, w)
    result = _converted(p, c, stored)
    p.store(p.matrix(c_buffer, m, n, row_origin=row, column_origin=column), result)
    sizes = {"A": left.bytes * m * k, "B": right.bytes * k * n, "C": stored.bytes * m * n}
    b.kernel_of(p, grid=[ceil_div(n, tile[1]), ceil_div(m, tile[0])], bytes=sizes)
    return b.module()


def matmul_into(
    left: DType, right: DType, accumulator: DType, *, side: int = 16, init: bool = False
) -> Module:
    """C += A · B (init: C = A · B) of square tiles. Arguments of the kernel: A, B, C."""
    builder = Builder()
    p = builder.program("main")
    buffers = p.buffer("A", left, "read"), p.buffer("B", right, "read")
    c_buffer = p.buffer("C", accumulator, "inout")
    a, b = p.tile("a", left, side, side), p.tile("b", right, side, side)
    c = p.tile("c", accumulator, side, side)
    p.load(a, p.matrix(buffers[0], side, side))
    p.load(b, p.matrix(buffers[1], side, side))
    c_map = p.matrix(c_buffer, side, side)
    p.load(c, c_map)
    p.mma(c, a, b, init=init)
    p.store(c_map, c)
    area = side * side
    sizes = {"A": left.bytes * area, "B": right.bytes * area, "C": accumulator.bytes * area}
    builder.kernel_of(p, bytes=sizes)
    return builder.module()


def matmul_of_parts(left: DType, right: DType, accumulator: DType, *, side: int = 16) -> Module:
    """C[M, N] = A[:M, :K] · B[:L, :N] of square tiles that are valid only so far.

    Arguments of the kernel: M, N, K, L, A, B, C; A and B are side × side.
    """
    builder = Builder()
    p = builder.program("main")
    m, n, k, length = (p.symbol(name) for name in "MNKL")
    buffers = p.buffer("A", left, "read"), p.buffer("B", right, "read")
    c_buffer = p.buffer("C", accumulator, "write")
    a, b = p.tile("a", left, side, side), p.tile("b", right, side, side)
    c = p.tile("c", accumulator, side, side)
    p.load(a, p.matrix(buffers[0], side, side))
    p.load(b, p.matrix(buffers[1], side, side))
    p.load(a, p.matrix(buffers[0], side, side, row_limit=m, column_limit=k))
    p.load(b, p.matrix(buffers[1], side, side, row_limit=length, column_limit=n))
    p.mma(c, a, b, init=True)
    p.store(p.matrix(c_buffer, m, n), c)
    area = side * side
    sizes: dict[str, Expr | int] = {"A": left.bytes * area, "B": right.bytes * area}
    sizes["C"] = accumulator.bytes * m * n
    builder.kernel_of(p, bytes=sizes)
    return builder.module()


def convolution(
    left: DType,
    right: DType,
    accumulator: DType,
    *,
    window: int,
    side: int = 16,
    stride: int = 1,
    dilation: int = 1,
    pad: int = 0,
    flip: bool = False,
) -> Module:
    """Y[P, Q, F] = X[H, W, C] * K[window, window, C, F]: MMA of a window that LOAD unfolds.

    Arguments of the kernel: H, W, C, F, P, Q, X, K, Y. A row of the left tile is an output
    position, a column a (window row, window column, channel); `flip` turns the window round.
    """
    builder = Builder()
    p = builder.program("main")
    h, w, c, f, rows, columns = (p.symbol(name) for name in "HWCFPQ")
    x, k = p.buffer("X", left, "read"), p.buffer("K", right, "read")
    y = p.buffer("Y", accumulator, "write")
    a, b = p.tile("a", left, side, side), p.tile("b", right, side, side)
    total = p.tile("total", accumulator, side, side)
    place = p.compute("mul", p.id(0), side)
    depth = window * window * c
    p.fill(total, 0)
    one, zero, step = as_expr(1), as_expr(0), as_expr(-dilation if flip else dilation)
    first = as_expr((window - 1) * dilation - pad if flip else -pad)
    with p.loop(ceil_div(depth, side)) as turn:
        start = p.compute("mul", turn, side)
        row = Axis(place, rows * columns, (Digit(None, columns), Digit(columns, one)))
        column = Axis(
            start,
            depth,
            (Digit(None, as_expr(window) * c), Digit(as_expr(window), c), Digit(c, one)),
        )
        stride_ = as_expr(stride)
        dims = [
            Dimension(h, w * c, first, (Term("row", 0, stride_), Term("column", 0, step))),
            Dimension(w, c, first, (Term("row", 1, stride_), Term("column", 1, step))),
            Dimension(c, one, zero, (Term("column", 2, one),)),
        ]
        p.load(a, p.descriptor(x, dims, row=row, column=column))
        p.load(b, p.matrix(k, depth, f, row_origin=start))
        p.mma(total, a, b)
    p.store(p.matrix(y, rows * columns, f, row_origin=place), total)
    sizes = {
        "X": left.bytes * h * w * c,
        "K": right.bytes * depth * f,
        "Y": accumulator.bytes * rows * columns * f,
    }
    builder.kernel_of(p, grid=[ceil_div(rows * columns, side)], bytes=sizes)
    return builder.module()


def _converted(p: ProgramBuilder, tile: TileHandle, dtype: DType) -> TileHandle:
    if tile.tile.dtype == dtype:
        return tile
    result = p.tile("converted", dtype, tile.tile.rows, tile.tile.columns)
    p.cast(result, tile)
    return result
