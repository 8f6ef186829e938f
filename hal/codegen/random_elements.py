"""philox of elements that no RNG can number: any whole-number expression, by integer arithmetic."""

from __future__ import annotations

from collections.abc import Callable

from hal import dtypes
from hal.codegen.errors import CodegenError
from hal.codegen.frame import Frame
from hal.codegen.tier1_random import Words, philox, uniform
from hal.dtypes import DType
from hal.ir import nodes as ir
from hal.vil.builder import TileHandle, ValueLike

__all__ = ["random_elements"]


class _Writer:
    """Philox into the program of a scope; `made` are the tiles that it used."""

    def __init__(self, scope: Frame) -> None:
        self.scope = scope
        self.made: list[TileHandle] = []
        self.un, self.bin, self.sel = scope.p.un, scope.p.bin, scope.p.sel

    def like(self, role: str, a: TileHandle, dtype: DType | None = None) -> TileHandle:
        tile = self.scope.tile(dtype or a.tile.dtype, a.tile.rows, a.tile.columns)
        self.made.append(tile)
        return tile

    def constant(self, dtype: DType, value: float | int) -> TileHandle:
        return self.scope.constant(value, dtype)

    def repeat(self, count: int, body: Callable[[ValueLike], None]) -> None:
        with self.scope.loop(count) as turn:
            body(turn)

    def cast(self, d: TileHandle, a: TileHandle) -> None:
        self.scope.p.cast(d, a)


def random_elements(scope: Frame, call: ir.Call) -> TileHandle:
    """philox(seed, offset, element) as an f32 tile; each may differ from element to element."""
    p = _Writer(scope)
    seed, offset, element = (_words(p, operand) for operand in call.operands)
    tiles = [word for words in (seed, offset, element) for word in (words.low, words.high)]
    rows = max(tile.tile.rows for tile in tiles)
    columns = max(tile.tile.columns for tile in tiles)
    raw = scope.tile(dtypes.i32, rows, columns)
    philox(p, raw, _full(p, element, rows, columns), _full(p, seed, rows, columns), offset)
    result = scope.tile(dtypes.f32, rows, columns)
    uniform(p, result, raw)
    for tile in (*p.made, raw):
        scope.release(tile)
    return result


def _full(p: _Writer, words: Words, rows: int, columns: int) -> Words:
    """The words in the shape of the result: their tiles are counted up and compared in it."""
    spread = [p.scope.spread(tile, rows, columns) for tile in (words.low, words.high)]
    p.made += [t for t in spread if t is not words.low and t is not words.high]
    return Words(*spread)


def _words(p: _Writer, expr: ir.Expr) -> Words:
    """The low and the high word of a whole-number expression (an i32 one: with its sign)."""
    scope = p.scope
    tile = scope.value(expr, want=dtypes.i32)
    if tile.tile.dtype not in (dtypes.i32, dtypes.i64):
        span = getattr(expr, "span", None)
        raise CodegenError(f"philox takes whole numbers, not {tile.tile.dtype}", span=span)
    p.made.append(tile)
    high = p.like("high", tile)
    wide = tile.tile.dtype == dtypes.i64
    p.bin("shr", high, tile, scope.constant(32 if wide else 31, tile.tile.dtype))
    if not wide:
        return Words(tile, high)
    words = Words(p.like("low", tile, dtypes.i32), p.like("top", tile, dtypes.i32))
    p.cast(words.low, tile)
    p.cast(words.high, high)
    return words
