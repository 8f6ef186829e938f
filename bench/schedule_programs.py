"""VIL programs that judge the list schedule: operations, types, tiles and sizes at random."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from hal import dtypes
from hal.dtypes import DType
from hal.vil import recipes
from hal.vil.module import Module

__all__ = ["Case", "cases"]

FLOATS = (dtypes.f32, dtypes.f16, dtypes.bf16, dtypes.f64)
TILES = ((8, 64), (16, 16), (32, 32), (16, 128), (64, 64))
CUBES = ((16, 16, 16), (32, 32, 32), (64, 64, 32), (32, 64, 16))
UNARY = ("neg", "abs", "exp", "log", "sqrt", "rcp", "sin", "tanh", "erf", "floor")
BINARY = ("add", "mul", "div", "max", "sub", "min")


@dataclass(frozen=True)
class Case:
    """One program with its arguments.

    Attributes:
        name: What it does, for people.
        image: The module as bytes; the kernel is `main`.
        symbols: Values of the symbols, which come first in every signature.
        buffers: Type and elements of each buffer, in the signature's order.
    """

    name: str
    image: bytes
    symbols: tuple[int, ...]
    buffers: tuple[tuple[DType, int], ...]

    @property
    def arguments(self) -> list[int]:
        """Arguments of a forecast: symbols, then bytes."""
        return [*self.symbols, *(dtype.bytes * count for dtype, count in self.buffers)]


def cases(count: int, seed: int = 1) -> list[Case]:
    """Draw so many programs; the same seed gives the same ones."""
    rng = random.Random(seed)
    families: list[Callable[[random.Random], Case]] = [
        _unary,
        _unary,
        _binary,
        _binary,
        _cast,
        _sum,
        _product,
        _product,
        _scan,
        _transpose,
        _chain,
    ]
    drawn: Iterator[Case] = (families[i % len(families)](rng) for i in range(count))
    return list(drawn)


def _length(rng: random.Random, least: int = 16, most: int = 384) -> int:
    """Draw a length, even on a logarithmic scale."""
    return round(least * (most / least) ** rng.random())


def _elementwise(
    rng: random.Random, op: str, function: str, sources: list[DType], target: DType
) -> Case:
    tile = rng.choice(TILES)
    rows, columns = _length(rng), _length(rng)
    module = recipes.elementwise(op, function, sources, target, tile=tile)
    area = rows * columns
    return Case(
        f"{op}.{function} {sources[0].name}->{target.name} {rows}x{columns} tile {tile}",
        bytes(module),
        (rows, columns),
        (*((source, area) for source in sources), (target, area)),
    )


def _unary(rng: random.Random) -> Case:
    dtype = rng.choice(FLOATS)
    return _elementwise(rng, "un", rng.choice(UNARY), [dtype], dtype)


def _binary(rng: random.Random) -> Case:
    function = rng.choice(BINARY)
    dtype = rng.choice(FLOATS if function == "div" else (*FLOATS, dtypes.i32))
    return _elementwise(rng, "bin", function, [dtype, dtype], dtype)


def _cast(rng: random.Random) -> Case:
    source, target = rng.sample((*FLOATS, dtypes.i32), 2)
    return _elementwise(rng, "cast", "", [source], target)


def _chain(rng: random.Random) -> Case:
    dtype = rng.choice(FLOATS)
    tile = rng.choice(TILES)
    rows, columns = _length(rng), _length(rng)
    area = rows * columns
    return Case(
        f"a*b+c {dtype.name} {rows}x{columns} tile {tile}",
        bytes(recipes.multiply_add(dtype, tile=tile)),
        (rows, columns),
        ((dtype, area),) * 4,
    )


def _sum(rng: random.Random) -> Case:
    dtype = rng.choice((dtypes.f32, dtypes.f16, dtypes.f64, dtypes.i32))
    axis, tile, function = rng.randrange(2), rng.choice(TILES), rng.choice(("add", "max"))
    rows, columns = _length(rng), _length(rng)
    return Case(
        f"red.{function} axis {axis} {dtype.name} {rows}x{columns} tile {tile}",
        bytes(recipes.reduction(function, dtype, dtype, axis=axis, tile=tile)),
        (rows, columns),
        ((dtype, rows * columns), (dtype, columns if axis == 0 else rows)),
    )


def _scan(rng: random.Random) -> Case:
    dtype = rng.choice((dtypes.f32, dtypes.f64, dtypes.i32))
    axis = rng.randrange(2)
    tile = rng.choice(TILES)
    rows, columns = _length(rng), _length(rng)
    along = (min(rows, tile[0]), columns) if axis == 0 else (rows, min(columns, tile[1]))
    area = along[0] * along[1]
    return Case(
        f"scan axis {axis} {dtype.name} {along[0]}x{along[1]} tile {tile}",
        bytes(recipes.scan("add", dtype, dtype, axis=axis, tile=tile)),
        along,
        ((dtype, area), (dtype, area)),
    )


def _transpose(rng: random.Random) -> Case:
    dtype = rng.choice((dtypes.f32, dtypes.f16, dtypes.f64))
    tile = rng.choice(TILES)
    rows, columns = _length(rng), _length(rng)
    module: Module = recipes.transpose(dtype, tile=tile)
    area = rows * columns
    return Case(
        f"trn {dtype.name} {rows}x{columns} tile {tile}",
        bytes(module),
        (rows, columns),
        ((dtype, area), (dtype, area)),
    )


def _product(rng: random.Random) -> Case:
    left, total = rng.choice(
        (
            (dtypes.f32, dtypes.f32),
            (dtypes.f16, dtypes.f32),
            (dtypes.bf16, dtypes.f32),
            (dtypes.f64, dtypes.f64),
            (dtypes.i8, dtypes.i32),
        )
    )
    tile = rng.choice(CUBES)
    m, n, k = (_length(rng, 16, 192) for _ in range(3))
    return Case(
        f"mma {left.name} {m}x{n}x{k} tile {tile}",
        bytes(recipes.matmul(left, left, total, tile=tile)),
        (m, n, k),
        ((left, m * k), (left, k * n), (total, m * n)),
    )
