"""Kernels of several launches."""

from __future__ import annotations

from collections.abc import Sequence

from hal.dtypes import DType, f32
from hal.vil.builder import Builder, ProgramBuilder
from hal.vil.expressions import ceil_div
from hal.vil.module import Module

__all__ = ["softmax"]


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
