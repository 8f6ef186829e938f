"""Time of a library's matrix product C[m, n] = A[m, k] B[k, n], in closed form.

A library is taken to run the best of a small set of tiles and splits along K. The time of one
choice is

    launch + max(cores, memory) + overlap * min(cores, memory)

`cores` is the busiest core: its tiles, each a chain of K steps that take the larger of the matrix
unit's time, the time to load the operands, and the latency of a step that the tiles resident on a
core share; plus what writing a tile out costs. `memory` is the larger of the DRAM
roof (what the cache does not hold, over a bandwidth that ramps with the number of busy cores) and
the cache roof.

Sources: waves and quantisation: NVIDIA "Matrix Multiplication Background" guide; roofline:
Williams, Waterman, Patterson 2009; tiles and split K: the CUTLASS documentation; imperfect overlap
max + q min: a common approximation of partly overlapped phases, the constant is fitted. The bytes
in flight of Little's law appear as the latency of a step. All arrays are float64.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from hal.sim.chip import DTYPE_BYTES, Chip
from hal.sim.literals import LITERALS as LIT

if TYPE_CHECKING:
    from hal.sim.calibration import Constants

Array = np.ndarray[Any, np.dtype[np.float64]]
SPLITS = (1, 2, 3, 4, 6, 8, 12, 16, 24)
"""Numbers of parts along K that are tried; each part is a tile of its own."""

CHUNK = 256
"""Products computed at a time: the arrays of one chunk stay in a CPU's L2 cache."""


@lru_cache(maxsize=64)
def choices(accumulator_bytes: float) -> tuple[Array, Array, Array]:
    """The tiles and splits that are tried: rows, columns and parts of each.

    Sides are powers of two; the running sums of a tile (f32) fit the accumulators.
    """
    sides = [LIT.tile_least]
    while sides[-1] * 2 <= LIT.tile_side_most:
        sides.append(sides[-1] * 2)
    most = accumulator_bytes / 4
    tiles = [
        (rows, columns)
        for rows in sides
        for columns in sides
        if LIT.tile_area_least <= rows * columns <= most and max(rows, columns) <= most**0.5 * 1.42
    ]
    grid = np.array([(r, c, s) for r, c in tiles for s in SPLITS], dtype=np.float64)
    return grid[:, 0].copy(), grid[:, 1].copy(), grid[:, 2].copy()


def predict_s(
    chip: Chip,
    constants: Constants,
    m: Array,
    n: Array,
    k: Array,
    *,
    dtype: str = "bf16",
    batch: Array | float = 1.0,
    distinct: Array | float = 1.0,
) -> Array:
    """Seconds of each product, without framework overhead.

    Args:
        chip: The chip.
        constants: The ten constants of the family `gemm`.
        m, n, k: Lengths, each at least 1; arrays of one length.
        dtype: Element type of A and B; C has it too, but no type shorter than 16 bits.
        batch: Independent products in one launch.
        distinct: Share of A's elements that are different, below 1 for a convolution's patches.

    Raises:
        HcdError: the chip has no matrix unit for the type.
    """
    chip.matrix_rate(dtype)
    columns = [
        np.atleast_1d(np.asarray(x, dtype=np.float64))
        for x in np.broadcast_arrays(m, n, k, batch, distinct)
    ]
    parts = [
        _chunk(chip, constants, [x[i : i + CHUNK] for x in columns], dtype)
        for i in range(0, len(columns[0]), CHUNK)
    ]
    return np.concatenate(parts) if parts else np.empty(0)


def _chunk(chip: Chip, constants: Constants, arrays: list[Array], dtype: str) -> Array:
    rows, columns, splits = choices(chip.accumulator_bytes)
    m, n, k, batch, distinct = (x[:, None] for x in arrays)
    element = DTYPE_BYTES[dtype]
    slow = unaligned(k, element), unaligned(n, element)
    tiles = np.ceil(m / rows) * np.ceil(n / columns) * splits * batch
    cores = _core_s(chip, constants, k, rows, columns, splits, tiles, slow, dtype)
    cores += _pipeline_s(constants, k, splits, element)
    a, b = element * batch * m * k * distinct, element * batch * k * n
    c = max(element, LIT.result_bytes_least) * batch * m * n
    partial = np.where(splits > 1, splits * 8.0, 0.0) * batch * m * n  # f32 written, then read
    memory = _memory_s(chip, constants, a, b, c, partial, tiles)
    ideal = batch * m * n * k / (chip.matrix_rate(dtype) * chip.core_count * chip.clock_hz)
    droop = 1 + constants["droop"] * ideal / (ideal + LIT.droop_s)
    low = constants["overlap"] * np.minimum(cores, memory)
    total = np.maximum(cores * droop, memory) + low
    launch = constants["launch"] * chip.launch_s
    best: Array = (total + launch * np.where(splits > 1, 1 + LIT.split_launch, 1.0)).min(axis=1)
    return best


def unaligned(length: Array, element: int) -> Array:
    """Factor on the time to move rows of a length that start off 16-byte boundaries (1: aligned).

    Both operands are read along K; the result is written along N.
    """
    worst = np.full(length.shape, 16.0)
    for boundary in (8, 4, 2, 1):
        off = (length * element) % (2 * boundary) != 0
        worst = np.where(off, np.minimum(worst, boundary), worst)
    return (16.0 / worst) ** LIT.unaligned_exponent


def _core_s(
    chip: Chip,
    constants: Constants,
    k: Array,
    rows: Array,
    columns: Array,
    splits: Array,
    tiles: Array,
    slow: tuple[Array, Array],
    dtype: str,
) -> Array:
    """Seconds of the busiest core, operands already on their way."""
    depth = LIT.k_step_bytes / DTYPE_BYTES[dtype]
    steps = np.ceil(k / splits / depth)
    each = np.ceil(tiles / chip.core_count)
    busy = np.minimum(tiles, chip.core_count)
    fit = np.floor(chip.accumulator_bytes / 4 / (rows * columns))
    resident = np.minimum(each, np.clip(fit, 1, LIT.programs_per_core_most))
    rounds = np.ceil(each / resident)
    compute = rows * columns * depth / (chip.matrix_rate(dtype) * constants["matrix"])
    share = chip.near_cache_bytes_per_cycle * constants["cache_rate"] / busy
    load = (
        (rows + columns) * LIT.k_step_bytes * slow[0] / np.minimum(chip.load_bytes_per_cycle, share)
    )
    step = np.maximum(compute, load)
    chain = np.maximum(each * steps * step, rounds * steps * constants["step"])
    port = LIT.tile_port_bytes / chip.load_bytes_per_cycle
    ends = each * (constants["tile"] * port * slow[1] * rows * columns / 128**2 + chip.fill_cycles)
    cycles: Array = (chain + ends) / chip.clock_hz
    return cycles


def _pipeline_s(constants: Constants, k: Array, splits: Array, element: int) -> Array:
    """Seconds until the first tile's software pipeline is full."""
    steps = np.ceil(k / splits / (LIT.k_step_bytes / element))
    filled: Array = constants["fill"] * 1e-6 * (1 - np.exp(-(steps - 1) / LIT.pipeline_steps))
    return filled


def _memory_s(
    chip: Chip, constants: Constants, a: Array, b: Array, c: Array, partial: Array, tiles: Array
) -> Array:
    """Seconds of the larger of the DRAM roof and the cache roof, for bytes of A, B, C and of the
    partial sums of a split."""
    usable = constants["cache"] * chip.cache_bytes
    ramp = LIT.cache_ramp * chip.cache_bytes + 1.0
    # Data survives to its next use when all that is touched in between fits. The activations come
    # back with the next call, the weights after `weight_copies` calls; results are written over
    # those of a call before, and the weights in between push them out.
    miss_weights = np.clip((a + c + LIT.weight_copies * b - usable) / ramp, 0, 1)
    miss_activations = np.clip((a + b + c - usable) / ramp, 0, 1)
    rate = chip.dram_bytes_per_s * constants["dram"]
    filled = np.minimum(1, np.minimum(tiles, chip.core_count) / chip.core_count
                        / LIT.bandwidth_cores)  # fmt: skip
    dram = ((b + c) * miss_weights + a * miss_activations) / rate / filled
    cache = (a + b + c + partial) / (chip.cache_bytes_per_s * constants["cache_rate"])
    roof: Array = np.maximum(dram, cache)
    return roof
