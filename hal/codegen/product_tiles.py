"""Tile shapes for a matrix product and the closed form that ranks them.

The form is a roofline with reuse. One program makes a rows × columns block of the result:

    steps · (max or sum of: load both operands, multiply) + write the block

with whole steps of the matrix unit (padding waste), whole bursts of the memory, as many programs
at once as there are workers, and the memory and the last cache as bounds for all of them together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hal.codegen.choice import Choice, Ranked
from hal.codegen.product_machine import Machine
from hal.codegen.product_match import Product
from hal.dtypes import DType
from hal.ir.analysis import affine, params_of, value_of
from hal.ir.nodes import Access, Const, Expr, Index, Kernel, Schedule, walk
from hal.vil.check_chip import Limits

__all__ = ["Grid", "Problem", "advised", "best", "grid", "seconds"]

NOMINAL = 512
"""Length of a param that nobody gave."""
SPLITS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
MAX_PARTS = 4
EQUAL = 0.005
"""Times that differ by less count as equal."""
TAIL = 0.25
"""Share of a program that the last workers wait for where programs are unequal."""
NEAR_FACTOR = 4.0
"""How much faster the near space is than the way from memory into it."""
MANY_WORKERS = 16
"""Chips with so many workers are filled by smaller tiles."""
SPACES = ("mma_a", "mma_b", "acc")

Lengths = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, slots=True)
class Operand:
    """One matrix as the memory sees it.

    Attributes:
        dtype: In memory.
        arrays: Arrays that are loaded for it.
        run_axis: Axis of the tile along which memory is contiguous: 0 rows, 1 columns; None: none.
        run: Elements in a row along that axis at most.
        bytes: Of the whole array.
    """

    dtype: DType
    arrays: int
    run_axis: int | None
    run: float
    bytes: float


@dataclass(frozen=True, slots=True)
class Problem:
    """The lengths and operands of one product at certain sizes."""

    rows: int
    columns: int
    inner: int
    batch: int
    left: Operand
    right: Operand
    target: Operand
    left_dtype: DType
    right_dtype: DType
    total_dtype: DType
    extra_ops: int
    accumulates: bool

    @staticmethod
    def of(
        kernel: Kernel,
        product: Product,
        sizes: Mapping[str, int],
        *,
        extra_ops: int = 0,
        accumulates: bool = False,
    ) -> Problem:
        """The product at `sizes`; a param without a size counts as NOMINAL.

        Args:
            extra_ops: Elementwise functions of the epilogue.
            accumulates: The target's old values are added.
        """
        values = dict.fromkeys(kernel.params, NOMINAL) | dict(sizes)
        lengths = {name: max(0, value_of(e, values)) for name, e in product.extents.items()}

        def length(*names: str) -> int:
            return math.prod(lengths[name] for name in names)

        axes = (product.rows, product.columns, product.inner)
        return Problem(
            length(*product.rows),
            length(*product.columns),
            length(*product.inner, *product.folded),
            length(*product.batch),
            _operand(kernel, product.left, (axes[0], axes[2]), lengths, values),
            _operand(kernel, product.right, (axes[2], axes[1]), lengths, values),
            _operand(kernel, product.target, (axes[0], axes[1]), lengths, values),
            product.left_dtype,
            product.right_dtype,
            product.total_dtype,
            extra_ops,
            accumulates,
        )


def _operand(
    kernel: Kernel,
    side: Expr,
    axes: tuple[tuple[str, ...], tuple[str, ...]],
    lengths: Mapping[str, int],
    values: Mapping[str, int],
) -> Operand:
    reads = [item for item in walk(side) if isinstance(item, Access)]
    largest = max(reads, key=lambda read: len(read.indices))
    array = kernel.array(largest.array)
    size = math.prod(max(0, value_of(e, values)) for e in array.shape) * array.dtype.bytes
    axis, run = _run(largest, axes, lengths)
    return Operand(array.dtype, len(reads), axis, run, float(size))


def _run(
    read: Access, axes: tuple[tuple[str, ...], tuple[str, ...]], lengths: Mapping[str, int]
) -> tuple[int | None, float]:
    """Axis of the tile that runs along the last dimension, and how far."""
    form = affine(read.indices[-1]) if read.indices else None
    for axis in (1, 0):
        names = axes[axis]
        for term, coefficient in form.terms if form else ():
            steps = not params_of(coefficient) and value_of(coefficient, {}) in (1, -1)
            if isinstance(term, Index) and names and term.name == names[-1] and steps:
                whole = read.indices[-len(names) :]
                joined = [part.name for part in whole if isinstance(part, Index)]
                if joined == list(names):
                    return axis, float(math.prod(lengths[name] for name in names))
                return axis, float(lengths[names[-1]])
    return None, 1.0


def _ladder(granule: int, most: int, length: int, step: int, least: int) -> list[int]:
    """Lengths to try on one axis: granule · 2ⁱ, and even parts of the length."""
    most = most // granule * granule if most >= granule else 1
    whole = _up(max(1, length), granule)
    unit = math.lcm(granule, step) if length >= 4 * step else granule
    found = {granule << i for i in range(16)}
    found |= {_up(-(-whole // parts), unit) for parts in range(1, MAX_PARTS + 1)}
    found = {item for item in found if min(least, whole) <= item <= whole} | {min(whole, most)}
    return sorted(item for item in found if 0 < item <= most)


def _up(length: int, step: int) -> int:
    return max(1, -(-length // step)) * step


@dataclass(frozen=True, slots=True)
class Grid:
    """Choices side by side: the lengths of their tiles and their parts."""

    rows: Lengths
    columns: Lengths
    depth: Lengths
    split: Lengths

    def choice(self, index: int) -> Choice:
        """One of them."""
        axes = (("rows", self.rows), ("columns", self.columns), ("inner", self.depth))
        tiles = tuple((axis, int(lengths[index])) for axis, lengths in axes)
        return Choice("product", tiles, int(self.split[index]))

    @staticmethod
    def of(choices: Sequence[Choice]) -> Grid:
        """Choices as columns of numbers."""

        def lengths(axis: str) -> Lengths:
            return np.array([float(choice.length(axis)) for choice in choices])

        parts = np.array([float(choice.split) for choice in choices])
        return Grid(lengths("rows"), lengths("columns"), lengths("inner"), parts)


def grid(product: Product, machine: Machine, problem: Problem, *, temps: int = 0) -> Grid:
    """Every choice that the chip's limits allow.

    Args:
        temps: Further tiles of the block's shape and 4 bytes an element that the epilogue needs.
    """
    limits = machine.limits
    step = machine.shape(problem.left_dtype)
    deep = math.lcm(limits.granule_rows, limits.granule_columns)
    most = min(limits.max_rows, limits.max_columns)
    short = 16 if machine.workers >= MANY_WORKERS else 32
    wide = limits.max_columns
    axes = (
        (product.rows, limits.granule_rows, limits.max_rows, problem.rows, step[0], short),
        (product.columns, limits.granule_columns, wide, problem.columns, step[1], short),
        (product.inner, deep, most, problem.inner, step[2], 2 * short),
    )
    ladders = [_ladder(*rest) if names else [1] for names, *rest in axes]
    splits = [part for part in SPLITS if part == 1 or not problem.accumulates]
    mesh = np.meshgrid(*ladders, splits, indexing="ij")
    r, c, d, s = (part.ravel().astype(np.float64) for part in mesh)
    idle = np.ceil(max(1, problem.rows) / r) * np.ceil(max(1, problem.columns) / c)
    useful = (s == 1) | (
        (s <= np.ceil(max(1, problem.inner) / d))
        & (idle * max(1, problem.batch) * s <= 4 * machine.workers)
    )
    kept = useful & _fits(machine, problem, (r, c, d), temps)
    return Grid(r[kept], c[kept], d[kept], s[kept])


def _fits(
    machine: Machine, problem: Problem, tile: tuple[Lengths, Lengths, Lengths], temps: int
) -> np.ndarray[Any, np.dtype[np.bool_]]:
    r, c, d = tile
    used: dict[str, Lengths] = {"near": temps * _whole(r * c * 4)}
    fits = np.ones(r.shape, bool)
    types = (problem.left_dtype, problem.right_dtype, problem.total_dtype)
    stored = (problem.left.dtype, problem.right.dtype, problem.target.dtype)
    for space, elements, dtype, memory in zip(
        SPACES, (r * d, d * c, r * c), types, stored, strict=True
    ):
        fits &= elements * max(dtype.bytes, memory.bytes) <= machine.limits.max_tile_bytes
        place, _ = machine.capacity(space)
        copies = 2 if machine.limits.explicit and space != "acc" else 1  # One loads meanwhile.
        used[place] = used.get(place, 0 * r) + copies * _whole(elements * dtype.bytes)
        if memory != dtype:
            used["near"] = used["near"] + _whole(elements * memory.bytes)
    for space, size in used.items():
        fits &= size <= machine.capacity(space)[1]
    return fits


def _whole(size: Lengths) -> Lengths:
    """Bytes with the gap up to the next tile."""
    return np.asarray(np.ceil(size / 64) * 64)


def seconds(machine: Machine, problem: Problem, found: Grid) -> Lengths:
    """Predicted seconds of each choice."""
    r, c, d, split = found.rows, found.columns, found.depth, found.split
    m, n, k = (float(max(1, length)) for length in (problem.rows, problem.columns, problem.inner))
    batch = float(max(1, problem.batch))
    steps = np.ceil(np.ceil(k / d) / split)
    full = _program_s(machine, problem, np.minimum(r, m), np.minimum(c, n), np.minimum(d, k), steps)
    whole = np.floor(m / r) * np.floor(n / c) * batch * split
    programs = np.ceil(m / r) * np.ceil(n / c) * batch * split
    share = m * n / (np.ceil(m / r) * np.ceil(n / c) * np.minimum(r, m) * np.minimum(c, n))
    even = whole == programs
    tail = np.where(even, 0.0, TAIL * full * (1 - 1 / machine.workers))
    busy = np.maximum(
        np.ceil(np.maximum(whole, 1) / machine.workers) * full,
        programs * full * share / machine.workers + tail,
    )
    total = machine.launch_s + np.maximum(busy, _memory_s(machine, problem, r, c, split))
    summed = 4 * m * n * batch * (split + 1) / (machine.memory_bytes_per_s)
    parallel = np.minimum(machine.workers, programs)
    summed = np.maximum(summed, 4 * m * n * batch * split / (machine.load_bytes_per_s * parallel))
    return np.asarray(total + np.where(split > 1, machine.launch_s + summed, 0))


def _program_s(
    machine: Machine, problem: Problem, r: Lengths, c: Lengths, d: Lengths, steps: Lengths
) -> Lengths:
    """One program whose block is wholly inside."""
    shape = machine.shape(problem.left_dtype)
    rate = machine.rate(problem.left_dtype, problem.right_dtype)
    padded = [np.ceil(x / s) * s for x, s in zip((r, c, d), shape, strict=True)]
    if machine.weights:
        folds = (padded[1] / shape[1]) * (padded[2] / shape[2])
        multiply = folds * (machine.fill_s + r * shape[1] * shape[2] / rate)
    else:
        multiply = machine.fill_s + padded[0] * padded[1] * padded[2] / rate
    if "acc" not in machine.limits.spaces:  # Sums and operands pass between near and the unit.
        passed = 8 * r * c + d * (r * problem.left_dtype.bytes + c * problem.right_dtype.bytes)
        multiply = multiply + passed / (NEAR_FACTOR * machine.load_bytes_per_s)
    lanes = machine.lanes_per_s
    load = (
        2 * machine.setup_s
        + (_moved(problem.left, r, d) + _moved(problem.right, d, c)) / machine.load_bytes_per_s
    )
    for operand, dtype, count in (
        (problem.left, problem.left_dtype, r * d),
        (problem.right, problem.right_dtype, d * c),
    ):
        if operand.dtype != dtype or operand.arrays > 1:
            multiply = multiply + operand.arrays * count / lanes
    waits = machine.latency_s + 2 * machine.setup_s
    step = np.maximum(np.maximum(load, multiply), waits / 2)
    if not machine.overlap:
        step = load + multiply
    store = machine.setup_s + _moved(problem.target, r, c) / machine.store_bytes_per_s
    if problem.accumulates:
        store = store * 2
    extra = (problem.extra_ops + (problem.target.dtype != problem.total_dtype)) * r * c / lanes
    issue = (8 * steps + 12) * machine.issue_s
    first = load if machine.overlap else 0.0
    return np.asarray(first + steps * step + store + extra + issue)


def _moved(operand: Operand, rows: Lengths, columns: Lengths) -> Lengths:
    """Bytes that move for a tile, in whole bursts of 64."""
    size = operand.dtype.bytes
    if operand.run_axis is None:
        return np.asarray(rows * columns * min(64, 16 * size))
    along = columns if operand.run_axis else rows
    run = np.minimum(along, max(1.0, operand.run))
    return np.asarray(rows * columns / run * np.ceil(run * size / 64) * 64)


def _memory_s(
    machine: Machine, problem: Problem, r: Lengths, c: Lengths, split: Lengths
) -> Lengths:
    """Bound by the memory and the last cache that all workers share."""
    m, n, k, b = (max(1, x) for x in (problem.rows, problem.columns, problem.inner, problem.batch))
    left, right = problem.left.dtype.bytes, problem.right.dtype.bytes
    loaded = b * k * (m * left * np.ceil(n / c) + n * right * np.ceil(m / r))
    unique = problem.left.bytes + problem.right.bytes
    hit = min(1.0, machine.cache_bytes / unique) if unique else 1.0
    stored = problem.target.bytes * (2 if problem.accumulates else 1)
    missed = unique + np.maximum(0, loaded - unique) * (1 - hit)
    memory = (missed + stored) / machine.memory_bytes_per_s
    return np.asarray(np.maximum(memory, (loaded + stored) / machine.cache_bytes_per_s))


def best(
    product: Product, machine: Machine, problem: Problem, *, most: int, temps: int = 0
) -> list[Ranked]:
    """The `most` choices with the least predicted time (−1: all), the fastest first."""
    found = grid(product, machine, problem, temps=temps)
    times = seconds(machine, problem, found)
    near = np.floor(np.log(np.maximum(times, 1e-12)) / EQUAL)  # The deeper step of equal ones.
    order = np.lexsort((times, -found.depth, near))
    order = order if most < 0 else order[:most]
    return [Ranked(found.choice(int(i)), float(times[i])) for i in order]


def advised(product: Product, advice: Schedule, first: Choice, limits: Limits) -> Choice:
    """The first choice with what a schedule says put in.

    A tile length of an index counts for the axis that the index lies on: of an axis of several
    indices for the innermost one that is named, times the whole lengths of those within it that
    are declared as numbers. Lengths are rounded up to what the chip takes.
    """
    axes = {"rows": product.rows, "columns": product.columns, "inner": product.inner}
    granules = {
        "rows": limits.granule_rows,
        "columns": limits.granule_columns,
        "inner": math.lcm(limits.granule_rows, limits.granule_columns),
    }
    given = dict(advice.tiles)
    lengths = dict(first.tiles)
    for axis, names in axes.items():
        within = 1
        for name in reversed(names):
            if name in given:
                length = max(1, given[name]) * within
                lengths[axis] = 1 if length == 1 else _up(length, granules[axis])
                break
            extent = product.extents[name]
            within *= int(extent.value) if isinstance(extent, Const) else 1
    order = first.order
    mentioned = [name for name, _ in advice.tiles]
    row, column = (
        next((mentioned.index(name) for name in names if name in mentioned), -1)
        for names in (product.rows, product.columns)
    )
    if row >= 0 and column >= 0:
        order = "columns" if row < column else "rows"
    parts = [count for name, count in advice.split if name in product.inner]
    return Choice(
        first.strategy,
        tuple(lengths.items()),
        max(1, parts[0]) if parts else first.split,
        advice.stages or first.stages,
        order,
        first.layouts,
    )
