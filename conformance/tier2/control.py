"""LOOP, IF, SREG, grids and random numbers."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hal import dtypes
from hal.testing import case, close
from hal.testing.compute import Lab, blank
from hal.vil.builder import Builder
from hal.vil.expressions import as_expr, ceil_div, floor_div, maximum, minimum
from hal.vil.model import Axis, Digit, Dimension, SReg, Term

LOW, HIGH = -(2**63), 2**63 - 1
VALUES = [0, 1, -1, 2, -7, 13, 63, 64, 65, 2**31, -(2**40), HIGH, LOW]
ONE = as_expr(1)


def wrap(value: int) -> int:
    """Return an integer as an i64."""
    return (value - LOW) % 2**64 + LOW


SREG: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: wrap(a + b),
    "sub": lambda a, b: wrap(a - b),
    "mul": lambda a, b: wrap(a * b),
    "max": max,
    "min": min,
    "idiv": lambda a, b: wrap(a // b) if b else 0,
    "imod": lambda a, b: a % b if b else 0,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "shl": lambda a, b: wrap(a << (b % 64)),
    "shr": lambda a, b: a >> (b % 64),
    "shru": lambda a, b: wrap((a % 2**64) >> (b % 64)),
    "lt": lambda a, b: int(a < b),
    "le": lambda a, b: int(a <= b),
    "eq": lambda a, b: int(a == b),
    "ne": lambda a, b: int(a != b),
}


class Numbers:
    """A program that writes SREGs to consecutive elements of Y, which is i64."""

    def __init__(self, lab: Lab, grid: Any = (1,)) -> None:
        self.lab, self.grid = lab, grid
        self.builder = Builder()
        self.program = self.builder.program("main")
        self.y = self.program.buffer("Y", dtypes.i64, "write")
        self.tile = self.program.tile("t", dtypes.i64, 1, 1)
        self.count = self.program.symbol("count")

    def put(self, place: Any, value: Any) -> None:
        """Write one value to Y[place]."""
        p = self.program
        p.iota(self.tile, base=value)
        base = as_expr(place) if isinstance(place, int) else place
        p.store(p.descriptor(self.y, [Dimension(self.count, ONE, base)]), self.tile)

    def run(self, count: int, **arguments: int) -> Any:
        """Return Y, with -77 where nothing was written."""
        self.builder.kernel_of(self.program, grid=self.grid, bytes={"Y": 8 * self.count})
        target = np.full(count, -77, np.int64)
        given = {"count": count, "Y": target, **arguments}
        return self.lab.run(self.builder.module(), given)["Y"]


@case(rules=["HAL-VIL-031"], operator="sreg")
@pytest.mark.parametrize("function", list(SREG))
def test_sreg_function_wraps_like_i64(lab: Lab, function: str) -> None:
    pairs = list(itertools.product(VALUES, VALUES))
    for start in range(0, len(pairs), 57):
        part = pairs[start : start + 57]
        numbers = Numbers(lab)
        target = numbers.program.new_sreg()
        for place, (a, b) in enumerate(part):
            numbers.program.compute(function, a, b, to=target)
            numbers.put(place, target)
        wanted = [SREG[function](a, b) for a, b in part]
        close(numbers.run(len(part)), np.array(wanted, np.int64), law="exact", dtype="i64")


@case(rules=["HAL-VIL-031"], operator="sreg")
@pytest.mark.parametrize("function", list(SREG))
def test_sreg_function_of_run_time_values(lab: Lab, function: str) -> None:
    numbers = Numbers(lab)
    p = numbers.program
    a, b = p.symbol("a"), p.symbol("b")
    left, right = p.compute("mov", a), p.compute("mov", b)
    numbers.put(0, p.compute(function, left, right))
    numbers.put(1, p.compute("sel", left, right, 5))
    numbers.builder.kernel_of(p, bytes={"Y": 8 * numbers.count})
    bound = lab.bind(
        numbers.builder.module(), {"count": 2, "a": 0, "b": 0, "Y": np.zeros(2, np.int64)}
    )
    for x, y in itertools.product(VALUES[::2], VALUES[::3]):
        bound.set_scalar("a", x)
        bound.set_scalar("b", y)
        bound.launch()
        wanted = [SREG[function](x, y), y if x else 5]
        close(bound.results()["Y"], np.array(wanted, np.int64), law="exact", dtype="i64")


@case(rules=["HAL-VIL-031"], operator="loop")
@pytest.mark.parametrize("count", [-(2**62), -1, 0, 1, 2, 7, 1000])
def test_loop_counts_from_zero_and_keeps_its_counter(lab: Lab, count: int) -> None:
    numbers = Numbers(lab)
    p = numbers.program
    n = p.symbol("n")
    total, last = p.compute("mov", 0), p.compute("mov", -1)
    with p.loop(n) as i:
        p.compute("add", total, p.compute("mul", i, i), to=total)
        p.compute("mov", i, to=last)
    for place, value in enumerate((total, last, i)):
        numbers.put(place, value)
    turns = max(count, 0)
    wanted = [sum(k * k for k in range(turns)), turns - 1, turns]
    close(numbers.run(3, n=count), np.array(wanted, np.int64), law="exact", dtype="i64")


@case(rules=["HAL-VIL-031"], operator="loop")
@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_loops_nest(lab: Lab, depth: int) -> None:
    numbers = Numbers(lab)
    p = numbers.program
    total, counts = p.compute("mov", 0), (3, 2, 5, 4)

    def nest(level: int, weight: SReg) -> None:
        if level == depth:
            p.compute("add", total, weight, to=total)
            return
        with p.loop(counts[level]) as i:
            inner = p.compute("add", p.compute("mul", weight, 7), i)
            nest(level + 1, inner)

    nest(0, p.compute("mov", 1))
    numbers.put(0, total)
    wanted = 0
    for point in itertools.product(*(range(counts[level]) for level in range(depth))):
        weight = 1
        for i in point:
            weight = weight * 7 + i
        wanted += weight
    close(numbers.run(1), np.array([wanted]), law="exact", dtype="i64")


@case(rules=["HAL-VIL-031"], operator="loop")
def test_the_count_of_a_loop_is_read_once(lab: Lab) -> None:
    numbers = Numbers(lab)
    p = numbers.program
    limit, total = p.compute("mov", 4), p.compute("mov", 0)
    with p.loop(limit):
        p.compute("add", limit, 3, to=limit)
        p.compute("add", total, 1, to=total)
    numbers.put(0, total)
    numbers.put(1, limit)
    close(numbers.run(2), np.array([4, 16]), law="exact", dtype="i64")


@case(rules=["HAL-VIL-031"], operator="if")
@pytest.mark.parametrize("condition", [0, 1, -1, 2, LOW, 2**32])
def test_if_runs_its_body_unless_zero(lab: Lab, condition: int) -> None:
    numbers = Numbers(lab)
    p = numbers.program
    c = p.symbol("c")
    found = p.compute("mov", 1)
    with p.if_(p.compute("mov", c)):
        p.compute("mov", 2, to=found)
        with p.if_(p.compute("eq", c, 2)):
            p.compute("mov", 3, to=found)
    numbers.put(0, found)
    wanted = 1 if condition == 0 else 3 if condition == 2 else 2
    close(numbers.run(1, c=condition), np.array([wanted]), law="exact", dtype="i64")


@case(rules=["HAL-VIL-031"], operator="if")
def test_a_loop_with_a_condition_skips_tiles(lab: Lab) -> None:
    rows, columns = lab.tile
    b = Builder()
    p = b.program("main")
    n = p.symbol("N")
    x, y = p.buffer("X", dtypes.i32, "read"), p.buffer("Y", dtypes.i32, "inout")
    t = p.tile("t", dtypes.i32, rows, columns)
    with p.loop(ceil_div(n, columns)) as i, p.if_(p.compute("and", i, 1)):
        start = p.compute("mul", i, columns)
        p.load(t, p.matrix(x, rows, n, column_origin=start))
        p.un("neg", t, t)
        p.store(p.matrix(y, rows, n, column_origin=start), t)
    b.kernel_of(p, bytes={"X": 4 * rows * n, "Y": 4 * rows * n})
    width = 5 * columns - 2
    given = np.arange(rows * width, dtype=np.int32).reshape(rows, width)
    wanted = np.full((rows, width), 5, np.int32)
    for start in range(columns, width, 2 * columns):
        wanted[:, start : start + columns] = -given[:, start : start + columns]
    target = np.full((rows, width), 5, np.int32)
    got = lab.run(b.module(), {"N": width, "X": given, "Y": target})["Y"]
    close(got, wanted, law="exact", dtype="i32")


@case(rules=["HAL-VIL-031"], operator="sreg tile")
@pytest.mark.parametrize("dtype", [dtypes.i32, dtypes.i64], ids=lambda item: item.name)
def test_sreg_reads_a_tile_and_steers_with_it(lab: Lab, dtype: Any) -> None:
    rows, columns = lab.tile
    b = Builder()
    p = b.program("main")
    x, w = p.buffer("X", dtypes.f32, "read"), p.buffer("W", dtype, "read")
    y = p.buffer("Y", dtypes.f32, "write")
    number, t = p.tile("number", dtype, 1, 1), p.tile("t", dtypes.f32, rows, columns)
    p.load(number, p.descriptor(w, [Dimension(as_expr(6), ONE, p.id(0))]))
    page = p.read_tile(number)
    dims = [
        Dimension(as_expr(9), as_expr(rows * columns), page),
        Dimension(as_expr(rows), as_expr(columns), as_expr(0), (Term("row", 0, ONE),)),
        Dimension(as_expr(columns), ONE, as_expr(0), (Term("column", 0, ONE),)),
    ]
    one = Axis(digits=(Digit(None, ONE),))
    p.load(t, p.descriptor(x, dims, row=one, column=one, fill=-1))
    p.store(p.matrix(y, 6 * rows, columns, row_origin=p.compute("mul", p.id(0), rows)), t)
    sizes = {"X": 36 * rows * columns, "W": 6 * dtype.bytes, "Y": 24 * rows * columns}
    b.kernel_of(p, grid=[6], bytes=sizes)
    pages = np.array([8, 0, 3, 3, -1, 9], dtype.numpy)
    given = np.arange(9 * rows * columns, dtype=np.float32).reshape(9, rows, columns)
    target = blank(dtypes.f32, 6, rows, columns)
    got = lab.run(b.module(), {"X": given, "W": pages, "Y": target})["Y"]
    wanted = np.stack([given[k] if 0 <= k < 9 else np.full_like(given[0], -1) for k in pages])
    close(got, wanted, law="exact", dtype="f32")


@case(rules=["HAL-VIL-031"], operator="sreg arg")
@pytest.mark.parametrize("dtype", [dtypes.i32, dtypes.i64], ids=lambda item: item.name)
def test_sreg_reads_scalar_arguments(lab: Lab, dtype: Any) -> None:
    for value in (0, -1, int(dtype.minimum), int(dtype.maximum)):
        numbers = Numbers(lab)
        p = numbers.program
        numbers.put(0, p.read_scalar(p.scalar("s", dtype)))
        close(numbers.run(1, s=value), np.array([value]), law="exact", dtype="i64")


@case(rules=["HAL-VIL-031"], operator="expression")
def test_expressions_floor_and_choose(lab: Lab) -> None:
    for a, b in itertools.product((-7, 0, 5, 12), (-4, 3, 5)):
        numbers = Numbers(lab)
        x, y = numbers.program.symbol("x"), numbers.program.symbol("y")
        values = [x + y, x - y, x * y, floor_div(x, y), x % y, ceil_div(x, y), minimum(x, y)]
        values.append(maximum(x, y))
        for place, value in enumerate(values):
            numbers.put(place, value)
        wanted = [a + b, a - b, a * b, a // b, a % b, -(-a // b), min(a, b), max(a, b)]
        got = numbers.run(len(values), x=a, y=b)
        close(got, np.array(wanted, np.int64), law="exact", dtype="i64")


@case(rules=["HAL-VIL-031"], operator="stages")
def test_each_stage_of_a_tile_has_its_own_elements(lab: Lab) -> None:
    rows, columns = lab.tile
    b = Builder()
    p = b.program("main")
    y = p.buffer("Y", dtypes.i32, "write")
    t = p.tile("t", dtypes.i32, rows, columns, stages=3)
    with p.loop(7) as i:  # the number of a stage is taken modulo the stages
        p.iota(t[i], base=p.compute("mul", i, 1000), row=columns, column=1)
    with p.loop(3) as k:
        start = p.compute("mul", k, rows)
        p.store(p.matrix(y, 3 * rows, columns, row_origin=start), t[p.compute("sub", k, 3)])
    b.kernel_of(p, bytes={"Y": 12 * rows * columns})
    got = lab.run(b.module(), {"Y": blank(dtypes.i32, 3, rows * columns)})["Y"]
    wanted = np.array([6000, 4000, 5000])[:, None] + np.arange(rows * columns)
    close(got, wanted.astype(np.int32), law="exact", dtype="i32")


# ---- grids ----

GRIDS = [(1,), (5,), (0,), (3, 4), (0, 3), (3, 0), (2, 3, 4), (2, 0, 2), (1, 1, 6), (7, 1, 2)]


@case(rules=["HAL-VIL-039"], operator="grid")
@pytest.mark.parametrize("grid", GRIDS, ids=lambda item: "×".join(map(str, item)))
def test_each_point_of_a_grid_runs_once(lab: Lab, grid: tuple[int, ...]) -> None:
    b = Builder()
    p = b.program("main")
    names = [p.symbol(name) for name in "abc"[: len(grid)]]
    y = p.buffer("Y", dtypes.i32, "inout")
    t, step = p.tile("t", dtypes.i32, 1, 1), p.tile("step", dtypes.i32, 1, 1)
    x, height, depth = p.id(0), p.id(1), p.id(2)
    dims = [
        Dimension(as_expr(9), as_expr(81), depth),
        Dimension(as_expr(9), as_expr(9), height),
        Dimension(as_expr(9), ONE, x),
    ]
    place = p.descriptor(y, dims)
    p.load(t, place)
    weight = p.compute("add", p.compute("mul", p.grid_size(0), 100), p.grid_size(1))
    p.iota(step, base=p.compute("add", weight, p.compute("mul", p.grid_size(2), 10000)))
    p.bin("add", t, t, step)
    p.store(place, t)
    b.kernel_of(p, grid=names, bytes={"Y": 4 * 729})
    given = np.arange(729, dtype=np.int32).reshape(9, 9, 9)
    a, height_, depth_ = (*grid, 1, 1)[:3]
    wanted = given.copy()
    wanted[:depth_, :height_, :a] += a * 100 + height_ + depth_ * 10000
    arguments = dict(zip("abc", grid, strict=False))
    got = lab.run(b.module(), {**arguments, "Y": given})["Y"]
    close(got, wanted, law="exact", dtype="i32")


@case(rules=["HAL-VIL-039"], operator="grid")
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_an_axis_of_the_grid_may_be_long(lab: Lab, axis: int) -> None:
    count = 5003
    b = Builder()
    p = b.program("main")
    y = p.buffer("Y", dtypes.i32, "write")
    t = p.tile("t", dtypes.i32, 1, 1)
    p.iota(t, base=p.compute("mul", p.id(axis), 3))
    p.store(p.descriptor(y, [Dimension(as_expr(count), ONE, p.id(axis))]), t)
    grid = [1, 1, 1]
    grid[axis] = count
    b.kernel_of(p, grid=grid, bytes={"Y": 4 * count})
    got = lab.run(b.module(), {"Y": blank(dtypes.i32, count)})["Y"]
    close(got, 3 * np.arange(count, dtype=np.int32), law="exact", dtype="i32")


# ---- RNG ----


def philox(elements: Any, seed: int, offset: int) -> Any:
    """Return the Philox4x32-10 numbers of logical indices, in plain integers."""
    result = []
    for element in elements.reshape(-1).tolist():
        block = (element % 2**64) // 4
        words = [block % 2**32, block >> 32, offset % 2**32, (offset % 2**64) >> 32]
        keys = [seed % 2**32, (seed % 2**64) >> 32]
        for _ in range(10):
            first, second = words[0] * 0xD2511F53, words[2] * 0xCD9E8D57
            words = [
                (second >> 32) ^ words[1] ^ keys[0],
                second % 2**32,
                (first >> 32) ^ words[3] ^ keys[1],
                first % 2**32,
            ]
            keys = [(keys[0] + 0x9E3779B9) % 2**32, (keys[1] + 0xBB67AE85) % 2**32]
        result.append(words[element % 4])
    return np.array(result, np.uint32).reshape(elements.shape)


RANDOM = {
    "zero": (0, 0, 0),
    "seed": (0x0123456789ABCDEF, 0, 0),
    "negative seed": (-1, 5, 3),
    "offset": (7, 2**40 + 9, 0),
    "negative offset": (7, -3, 1),
    "far element": (99, 1, 2**40 + 3),
    "negative element": (99, 1, -5),
    "odd base": (12345, 0, 6),
}


@case(rules=["HAL-VIL-030"], operator="rng")
@pytest.mark.parametrize("numbers", list(RANDOM))
@pytest.mark.parametrize("function", ["raw", "uniform"])
def test_rng_is_philox(lab: Lab, function: str, numbers: str) -> None:
    rows, columns = lab.tile
    seed, offset, base = RANDOM[numbers]
    dtype = dtypes.i32 if function == "raw" else dtypes.f32
    for pitch in (columns, columns + 3, 1):
        b = Builder()
        p = b.program("main")
        values = [p.symbol(name) for name in ("base", "pitch", "seed", "offset")]
        y = p.buffer("Y", dtype, "write")
        t = p.tile("t", dtype, rows, columns)
        p.rng(function, t, base=values[0], pitch=values[1], seed=values[2], offset=values[3])
        p.store(p.matrix(y, rows, columns), t)
        b.kernel_of(p, bytes={"Y": 4 * rows * columns})
        arguments = {"base": base, "pitch": pitch, "seed": seed, "offset": offset}
        got = lab.run(b.module(), {**arguments, "Y": blank(dtype, rows, columns)})["Y"]
        i, j = np.indices((rows, columns)).astype(object)
        raw = philox(base + i * pitch + j, seed, offset)
        if function == "raw":
            close(got, raw.view(np.int32), law="exact", dtype="i32")
        else:
            close(got, (raw >> 8) * 2.0**-24, law="exact", dtype="f32")


@case(rules=["HAL-VIL-030"], operator="rng")
def test_random_numbers_do_not_depend_on_the_tiling(lab: Lab) -> None:
    rows, columns = lab.tile
    m, n = 2 * rows, 4 * columns
    found = []
    for tile in ((rows, columns), (2 * rows, 2 * columns), (rows, 4 * columns)):
        b = Builder()
        p = b.program("main")
        y = p.buffer("Y", dtypes.i32, "write")
        t = p.tile("t", dtypes.i32, *tile)
        row, column = p.compute("mul", p.id(1), tile[0]), p.compute("mul", p.id(0), tile[1])
        base = p.compute("add", p.compute("mul", row, n), column)
        p.rng("raw", t, base=base, pitch=n, seed=42)
        p.store(p.matrix(y, m, n, row_origin=row, column_origin=column), t)
        b.kernel_of(p, grid=[n // tile[1], m // tile[0]], bytes={"Y": 4 * m * n})
        found.append(lab.run(b.module(), {"Y": blank(dtypes.i32, m, n)})["Y"])
    wanted = philox(np.arange(m * n).astype(object).reshape(m, n), 42, 0).view(np.int32)
    for got in found:
        close(got, wanted, law="exact", dtype="i32")
