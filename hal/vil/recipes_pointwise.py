"""Programs that work element by element."""

from __future__ import annotations

from collections.abc import Sequence

from hal.dtypes import DType
from hal.vil.builder import Builder, TileHandle
from hal.vil.expressions import Expr, as_expr, ceil_div
from hal.vil.module import Module

__all__ = ["doubled", "elementwise", "multiply_add"]


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
