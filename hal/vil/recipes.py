"""Whole modules for the programs that tests and the conformance suite need most.

Each has one kernel `main`. Matrices are row-major; M, N, K are symbols; the program masks edges,
so every size from 0 works with every tile.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from hal.dtypes import DType, f32, i32
from hal.vil.builder import Builder, ProgramBuilder, TileHandle
from hal.vil.expressions import Expr, as_expr, ceil_div
from hal.vil.model import Axis, Digit, Dimension, Term
from hal.vil.module import Module

__all__ = [
    "convolution",
    "copied",
    "doubled",
    "elementwise",
    "gathered",
    "matmul",
    "matmul_into",
    "matmul_of_parts",
    "multiply_add",
    "reduction",
    "reduction_of_tile",
    "scan",
    "scattered",
    "scattered_in_order",
    "softmax",
    "top_entries",
    "transpose",
]

_IDENTITY: dict[str, float] = {"add": 0.0, "mul": 1.0}


def _shape(kind: str, rows: Expr, columns: Expr) -> tuple[Expr, Expr]:
    """Matrix of a broadcast kind: `rc` whole, `r1` one column, `1c` one row, `11` one element."""
    one = as_expr(1)
    return (rows if kind[0] == "r" else one, columns if kind[1] == "c" else one)


def elementwise(
    op: str,
    function: str,
    sources: Sequence[DType],
    target: DType,
    *,
    tile: tuple[int, int] = (8, 64),
    shapes: Sequence[str] = (),
    saturate: bool = False,
) -> Module:
    """Y[M, N] = op(X0, X1, …) for `un`, `bin`, `sel` and `cast`.

    Arguments of the kernel: M, N, X0 …, Y. `shapes` gives each input's broadcast kind
    (`rc` by default): `rc` is M × N, `r1` M × 1, `1c` 1 × N, `11` 1 × 1.
    """
    b = Builder()
    p = b.program("main")
    m, n = p.symbol("M"), p.symbol("N")
    kinds = [*shapes, *["rc"] * (len(sources) - len(shapes))]
    buffers = [p.buffer(f"X{i}", dtype, "read") for i, dtype in enumerate(sources)]
    y = p.buffer("Y", target, "write")
    row, column = p.compute("mul", p.id(1), tile[0]), p.compute("mul", p.id(0), tile[1])
    operands: list[TileHandle] = []
    sizes: dict[str, Expr] = {"Y": target.bytes * m * n}
    for i, (buffer, kind) in enumerate(zip(buffers, kinds, strict=True)):
        rows, columns = _shape(kind, m, n)
        height, width = (tile[0] if kind[0] == "r" else 1), (tile[1] if kind[1] == "c" else 1)
        operand = p.tile(f"x{i}", buffer.dtype, height, width)
        map_ = p.matrix(
            buffer,
            rows,
            columns,
            row_origin=row if kind[0] == "r" else 0,
            column_origin=column if kind[1] == "c" else 0,
        )
        p.load(operand, map_)
        operands.append(operand)
        sizes[f"X{i}"] = buffer.dtype.bytes * rows * columns
    result = p.tile("y", target, *tile)
    if op == "cast":
        p.cast(result, operands[0], saturate=saturate)
    elif op == "un":
        p.un(function, result, operands[0])
    elif op == "bin":
        p.bin(function, result, operands[0], operands[1])
    else:
        p.sel(result, operands[0], operands[1], operands[2])
    p.store(p.matrix(y, m, n, row_origin=row, column_origin=column), result)
    b.kernel_of(p, grid=[ceil_div(n, tile[1]), ceil_div(m, tile[0])], bytes=sizes)
    return b.module()


def multiply_add(dtype: DType, *, tile: tuple[int, int] = (8, 64)) -> Module:
    """Y[M, N] = A · B + C, the product rounded first. Arguments of the kernel: M, N, A, B, C, Y."""
    b = Builder()
    p = b.program("main")
    m, n = p.symbol("M"), p.symbol("N")
    names = ("A", "B", "C")
    buffers = [p.buffer(name, dtype, "read") for name in names]
    y = p.buffer("Y", dtype, "write")
    row, column = p.compute("mul", p.id(1), tile[0]), p.compute("mul", p.id(0), tile[1])
    tiles = [p.tile(name.lower(), dtype, *tile) for name in names]
    for handle, buffer in zip(tiles, buffers, strict=True):
        p.load(handle, p.matrix(buffer, m, n, row_origin=row, column_origin=column))
    p.bin("mul", tiles[0], tiles[0], tiles[1])
    p.bin("add", tiles[0], tiles[0], tiles[2])
    p.store(p.matrix(y, m, n, row_origin=row, column_origin=column), tiles[0])
    sizes = dict.fromkeys((*names, "Y"), dtype.bytes * m * n)
    b.kernel_of(p, grid=[ceil_div(n, tile[1]), ceil_div(m, tile[0])], bytes=sizes)
    return b.module()


def _identity(function: str, dtype: DType) -> float | int:
    if function in _IDENTITY:
        return _IDENTITY[function]
    if function == "and":
        return 1 if dtype.kind == "bool" else (-1 if dtype.is_signed else int(dtype.maximum))
    if function == "or":
        return 0
    if dtype.is_float:
        return float("-inf") if function == "max" else float("inf")
    return int(dtype.minimum if function == "max" else dtype.maximum)


def reduction(
    function: str,
    source: DType,
    target: DType,
    *,
    axis: int,
    tile: tuple[int, int] = (8, 64),
) -> Module:
    """Y = reduce(X[M, N]) over rows (axis 0: Y is 1 × N) or columns (axis 1: Y is M × 1).

    Arguments of the kernel: M, N, X, Y. Longer axes are walked in a loop and combined with BIN;
    `argmax` and `argmin` handle one tile along the axis, so that length is at most the tile's.
    """
    b = Builder()
    p = b.program("main")
    m, n = p.symbol("M"), p.symbol("N")
    x, y = p.buffer("X", source, "read"), p.buffer("Y", target, "write")
    t = p.tile("t", source, *tile)
    out = (1, tile[1]) if axis == 0 else (tile[0], 1)
    part, total = p.tile("part", target, *out), p.tile("total", target, *out)
    kept = p.compute("mul", p.id(0), tile[1 - axis])
    length, step = (m, tile[0]) if axis == 0 else (n, tile[1])

    def load(start: object) -> None:
        moving = p.compute("mul", start, step)  # type: ignore[arg-type]
        origin = (moving, kept) if axis == 0 else (kept, moving)
        p.load(t, p.matrix(x, m, n, row_origin=origin[0], column_origin=origin[1]))

    if function in ("argmax", "argmin"):
        load(as_expr(0))
        p.red(function, total, t, axis=axis)
    else:
        p.fill(total, _identity(function, target))
        with p.loop(ceil_div(length, step)) as i:
            load(i)
            p.red(function, part, t, axis=axis)
            p.bin(function, total, total, part)
    rows, columns = (as_expr(1), n) if axis == 0 else (m, as_expr(1))
    target_map = p.matrix(
        y,
        rows,
        columns,
        row_origin=0 if axis == 0 else kept,
        column_origin=kept if axis == 0 else 0,
    )
    p.store(target_map, total)
    sizes = {"X": source.bytes * m * n, "Y": target.bytes * rows * columns}
    b.kernel_of(p, grid=[ceil_div((m, n)[1 - axis], tile[1 - axis])], bytes=sizes)
    return b.module()


def reduction_of_tile(
    function: str, source: DType, target: DType, *, axis: int, tile: tuple[int, int] = (8, 64)
) -> Module:
    """Y = reduce(X[M, N]) of one tile (M and N at most the tile's). Arguments: M, N, X, Y."""
    b = Builder()
    p = b.program("main")
    m, n = p.symbol("M"), p.symbol("N")
    x, y = p.buffer("X", source, "read"), p.buffer("Y", target, "write")
    t = p.tile("t", source, *tile)
    total = p.tile("total", target, *((1, tile[1]) if axis == 0 else (tile[0], 1)))
    p.load(t, p.matrix(x, m, n))
    p.red(function, total, t, axis=axis)
    rows, columns = (as_expr(1), n) if axis == 0 else (m, as_expr(1))
    p.store(p.matrix(y, rows, columns), total)
    b.kernel_of(p, bytes={"X": source.bytes * m * n, "Y": target.bytes * rows * columns})
    return b.module()


def top_entries(
    dtype: DType, index: DType, *, tile: tuple[int, int] = (8, 64), smallest: bool = False
) -> Module:
    """V, I = the best of each row of X[R, N], as many as a tile has columns; R is the tile's rows.

    Arguments of the kernel: N, X, V, I. N is at least the tile's columns.
    """
    b = Builder()
    p = b.program("main")
    n = p.symbol("N")
    rows, columns = tile
    x = p.buffer("X", dtype, "read")
    v, i = p.buffer("V", dtype, "write"), p.buffer("I", index, "write")
    t, values, places = (
        p.tile("t", dtype, *tile),
        p.tile("v", dtype, *tile),
        p.tile("i", index, *tile),
    )
    p.load(t, p.matrix(x, rows, n))
    p.topk(values, places, t, init=True, smallest=smallest)
    with p.loop(ceil_div(n, columns) - 1) as step:
        start = p.compute("add", p.compute("mul", step, columns), columns)
        p.load(t, p.matrix(x, rows, n, column_origin=start))
        p.topk(values, places, t, base=start, smallest=smallest)
    p.store(p.matrix(v, rows, columns), values)
    p.store(p.matrix(i, rows, columns), places)
    size = rows * columns
    b.kernel_of(
        p, bytes={"X": dtype.bytes * rows * n, "V": dtype.bytes * size, "I": index.bytes * size}
    )
    return b.module()


def scan(
    function: str,
    source: DType,
    target: DType,
    *,
    axis: int,
    tile: tuple[int, int] = (8, 64),
    exclusive: bool = False,
    reverse: bool = False,
) -> Module:
    """Y[M, N] = scan of X within one tile (M and N at most the tile's). Arguments: M, N, X, Y."""
    b = Builder()
    p = b.program("main")
    m, n = p.symbol("M"), p.symbol("N")
    x, y = p.buffer("X", source, "read"), p.buffer("Y", target, "write")
    t, result = p.tile("t", source, *tile), p.tile("result", target, *tile)
    p.load(t, p.matrix(x, m, n))
    p.scan(function, result, t, axis=axis, exclusive=exclusive, reverse=reverse)
    p.store(p.matrix(y, m, n), result)
    b.kernel_of(p, bytes={"X": source.bytes * m * n, "Y": target.bytes * m * n})
    return b.module()


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


def doubled(dtype: DType, *, tile: tuple[int, int] = (8, 64)) -> Module:
    """Y[M, N] = Y + Y in place. Arguments of the kernel: M, N, Y."""
    b = Builder()
    p = b.program("main")
    m, n = p.symbol("M"), p.symbol("N")
    y = p.buffer("Y", dtype, "inout")
    row, column = p.compute("mul", p.id(1), tile[0]), p.compute("mul", p.id(0), tile[1])
    place = p.matrix(y, m, n, row_origin=row, column_origin=column)
    t = p.tile("t", dtype, *tile)
    p.load(t, place)
    p.bin("add", t, t, t)
    p.store(place, t)
    b.kernel_of(
        p, grid=[ceil_div(n, tile[1]), ceil_div(m, tile[0])], bytes={"Y": dtype.bytes * m * n}
    )
    return b.module()


def softmax(dtype: DType, *, tile: tuple[int, int] = (8, 64)) -> Module:
    """Y[R, N] = softmax(X) in three launches; R is the tile's rows. Arguments: N, X, Y.

    The first launch finds each row's maximum, the second the sum of exp(x − maximum), the third
    divides. Everything between is f32, in two workspaces.
    """
    b = Builder()
    rows, columns = tile

    def program(name: str, steps: Sequence[str]) -> ProgramBuilder:
        p = b.program(name)
        n, x = p.symbol("N"), p.buffer("X", dtype, "read")
        buffers = {each: p.buffer(each, f32, "read") for each in steps}
        out = p.buffer("out", dtype if name == "divide" else f32, "write")
        t, wide = p.tile("t", dtype, *tile), p.tile("wide", f32, *tile)
        kept = {each: p.tile(each.lower(), f32, rows, 1) for each in steps}
        part, total = p.tile("part", f32, rows, 1), p.tile("total", f32, rows, 1)
        for each, handle in kept.items():
            p.load(handle, p.matrix(buffers[each], rows, 1))
        p.fill(total, float("-inf") if name == "maximum" else 0.0)
        with p.loop(ceil_div(n, columns)) as turn:
            start = p.compute("mul", turn, columns)
            p.load(t, p.matrix(x, rows, n, column_origin=start))
            p.cast(wide, t)
            if name != "maximum":
                p.bin("sub", wide, wide, kept["MAX"])
                p.un("exp", wide, wide)
            if name == "divide":
                p.bin("div", wide, wide, kept["SUM"])
                p.cast(t, wide)
                p.store(p.matrix(out, rows, n, column_origin=start), t)
            else:
                function = "max" if name == "maximum" else "add"
                p.red(function, part, wide, axis=1)
                p.bin(function, total, total, part)
        if name != "divide":
            p.store(p.matrix(out, rows, 1), total)
        return p

    k = b.kernel("main")
    n = k.symbol("N")
    k.buffer("X", dtype, "read", dtype.bytes * rows * n)
    k.buffer("Y", dtype, "write", dtype.bytes * rows * n)
    k.workspace("MAX", 4 * rows)
    k.workspace("SUM", 4 * rows)
    k.launch(program("maximum", []), [1], [n, "X", "MAX"])
    k.launch(program("total", ["MAX"]), [1], [n, "X", "MAX", "SUM"])
    k.launch(program("divide", ["MAX", "SUM"]), [1], [n, "X", "MAX", "SUM", "Y"])
    return b.module()
