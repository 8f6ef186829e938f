"""The row-wise strategy: statements that share their rows become one program per block of rows.

A row that fits a tile is loaded once; temps live only in tiles. A longer row is walked in blocks of
columns, once for each reduction that needs the one before. Both programs are in the module, and the
length of the rows, known at launch, decides which one gets a grid.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from hal.codegen import conditions, rows_walk, rows_whole, symbolic
from hal.codegen.choice import Choice, rank
from hal.codegen.lowering import Lowering
from hal.codegen.rows_match import RowGroup, find_rows
from hal.codegen.target import Target
from hal.ir.analysis import value_of
from hal.ir.nodes import Assign, Kernel
from hal.ir.passes.rewriting import accesses
from hal.ir.passes.rewriting import cost as operations_of
from hal.vil.expressions import Const

__all__ = ["NAME", "Match", "candidates", "cost", "lower", "match"]

NAME = "rows"
USUAL_COLUMNS = 1024
"""Length of a row whose size is not known when the choice is made."""
INSTRUCTION_S = 5e-8
"""Dispatch of one instruction."""


@dataclass(frozen=True, slots=True)
class Match:
    """Statements that this strategy takes.

    Attributes:
        count: Of the statements, from the first.
    """

    kernel: Kernel
    group: RowGroup

    @property
    def statements(self) -> tuple[Assign, ...]:
        """The statements as they stand in the kernel."""
        return self.group.originals

    @property
    def count(self) -> int:
        """How many statements are taken."""
        return len(self.group.originals)


def match(
    kernel: Kernel, statements: Sequence[Assign], target: Target, *, continues: bool = False
) -> Match | None:
    """The group of rows at the head of the statements (lets inlined)."""
    group = find_rows(kernel, statements)
    return None if group is None else Match(kernel, group)


def candidates(found: Match, target: Target, sizes: Mapping[str, int]) -> list[Choice]:
    """Blocks of 1, 2, 4 … rows and tiles as wide as a row, where the chip has room."""
    length = _size(found.group, found.group.columns, sizes)
    rows = _size(found.group, found.group.rows, sizes)
    stream = _streams(found, target, length, rows)
    choices = []
    for height in _heights(target, rows):
        width = _width(found, target, height, length)
        if width:
            tiles = (("rows", height), ("columns", width), ("stream", int(stream)))
            choices.append(Choice(NAME, tiles))
    return [item.choice for item in rank(choices, lambda c: cost(found, c, target, sizes))]


def _size(group: RowGroup, names: Sequence[str], sizes: Mapping[str, int]) -> int | None:
    """Product of the extents; None when a param is not known."""
    try:
        return prod(max(value_of(group.extents[name], sizes), 0) for name in names)
    except KeyError:
        return None


def _heights(target: Target, rows: int | None) -> list[int]:
    most = target.limits.max_rows
    if rows is not None:
        most = min(most, max(1, -(-rows // (2 * target.workers))))
    found = {target.rounded_rows(2**power) for power in range(8)}
    return sorted(height for height in found if height <= max(most, 1)) or [1]


def _width(found: Match, target: Target, height: int, length: int | None) -> int:
    """Columns of the tiles: the row, or as many as fit; 0 where not even the granule does."""
    wide = max(_bytes(found, name) for name in found.group.written | _loaded(found.group))
    live = rows_whole.tiles_at_once(found.group)
    room = min(target.near_bytes * 3 // 4 // live, target.limits.max_tile_bytes)
    most = min(room // (height * wide), target.limits.max_columns)
    granule = target.limits.granule_columns
    most = most // granule * granule
    wanted = target.rounded_columns(max(length or USUAL_COLUMNS, 1))
    return min(wanted, most) if most >= granule else 0


def _bytes(found: Match, array: str) -> int:
    """Bytes of an element in a tile: computed in at least 32 bits."""
    return max(4, found.kernel.array(array).dtype.bytes)


def _loaded(group: RowGroup) -> set[str]:
    return {access.array for item in group.statements for access in accesses(item.value)}


def _streams(found: Match, target: Target, length: int | None, rows: int | None) -> bool:
    """Stores go past the caches where the result would not stay in them."""
    if length is None or rows is None:
        return False
    return length * rows * 4 > target.cache_bytes * target.workers


def cost(found: Match, choice: Choice, target: Target, sizes: Mapping[str, int]) -> float:
    """Predicted seconds: bytes, operations, and the dispatch of the programs' instructions."""
    group = found.group
    length = _size(group, group.columns, sizes)
    rows = _size(group, group.rows, sizes)
    length = USUAL_COLUMNS if length is None else length
    rows = USUAL_COLUMNS if rows is None else rows
    height, width = choice.length("rows"), choice.length("columns")
    walks = 1 if length <= width else rows_walk.walk_count(group)
    full = [item for item in group.statements if not _is_row(group, item)]
    moved = sum(
        found.kernel.array(name).dtype.bytes * rows * length
        for name in _moved(group)
        for _ in range(walks if name in _loaded(group) else 1)
    )
    work = sum(operations_of(item.value) for item in full) * rows * length
    blocks = -(-rows // height) * (1 if length <= width else walks * -(-length // width))
    rate = target.elements_per_s("add", found.kernel.arrays[0].dtype) or 1e9
    tile_bytes = height * width * 4 * rows_whole.tiles_at_once(group)
    slow = 1.0 if tile_bytes <= target.cache_bytes else 2.0
    issue = blocks * _instructions(group) * INSTRUCTION_S / target.workers
    return target.launch_s + max(moved / target.bandwidth_bytes_per_s, slow * work / rate) + issue


def _is_row(group: RowGroup, item: Assign) -> bool:
    return not group.is_full(item) and not group.is_reduction(item)


def _moved(group: RowGroup) -> list[str]:
    """Arrays whose elements of rows and columns come from memory or go there."""
    every = set(group.rows) | set(group.columns)
    written = group.written
    loads = {
        access.array
        for item in group.statements
        for access in accesses(item.value)
        if access.array not in written and len(access.indices) >= len(every)
    }
    stores = {i.target.array for i in group.statements if group.is_full(i)} & group.kept
    return sorted(loads | stores)


def _instructions(group: RowGroup) -> int:
    return sum(2 + operations_of(item.value) for item in group.statements)


def lower(lowering: Lowering, found: Match, choice: Choice) -> None:
    """Adds the program for rows that fit a tile, and the one for longer rows.

    Raises:
        Unsuited: the choice does not fit the chip or the subscripts.
    """
    group = found.group
    extents = {name: symbolic.from_ir(size) for name, size in group.extents.items()}
    length = symbolic.product(extents[name] for name in group.columns)
    room = conditions.room(length, choice.length("columns"))
    fits, longer = conditions.positive(room), conditions.not_all_positive(room)
    if fits != Const(0):
        with lowering.only_when(fits):
            lowering.launch(rows_whole.program(lowering, group, extents, choice))
    if longer != Const(0):
        with lowering.only_when(longer):
            lowering.launch(rows_walk.program(lowering, group, extents, choice))
    for statement in group.originals:
        lowering.started(statement)
