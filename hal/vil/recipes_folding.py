"""Programs that combine along an axis: reductions, scans, running lists."""

from __future__ import annotations

from hal.dtypes import DType
from hal.vil.builder import Builder
from hal.vil.expressions import as_expr, ceil_div
from hal.vil.module import Module

__all__ = ["reduction", "reduction_of_tile", "scan", "top_entries"]


_IDENTITY: dict[str, float] = {"add": 0.0, "mul": 1.0}


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
