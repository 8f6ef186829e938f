"""Memory of the tiles of a rendered program: tiles that never live together share it.

The unit of time is a *section*: the instructions of one loop of the source, or one operation on
whole tiles. Lanes meet behind each. So two tiles may share memory when no section needs both.
Tiles that share one block have one type in memory, so that a compiler may keep to C's rule that
objects of different types are different objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from hal.codegen.dialect.flow import Flow, reads, writes
from hal.codegen.dialect.language import Dialect
from hal.vil.model import Program, Tile

__all__ = ["Arena", "Block", "arrange"]

ALIGNMENT = 64
_LOOP = 8  # Turns that a loop counts for, where it is asked what is used most.


@dataclass
class Block:
    """Memory that tiles use one after another.

    Attributes:
        tile: The first tile; no other one is longer.
        offset: First byte in the block's memory, a multiple of ALIGNMENT.
    """

    tile: int
    bytes: int
    offset: int = 0
    tiles: list[int] = field(default_factory=list)


@dataclass
class Arena:
    """Where tiles lie.

    Attributes:
        near: Blocks in the near memory of a program.
        far: Blocks in global memory, for what near memory has no room for.
    """

    near: list[Block]
    far: list[Block]

    @property
    def near_bytes(self) -> int:
        """Near memory that one instance needs."""
        return _length(self.near)

    @property
    def far_bytes(self) -> int:
        """Global memory that one instance needs."""
        return _length(self.far)


def arrange(
    language: Dialect,
    program: Program,
    flow: Flow,
    sections: Sequence[tuple[int, int]],
    held: Iterable[int],
) -> Arena:
    """Gives memory to the tiles that need it.

    Args:
        sections: First and last instruction of each section, in order.
        held: The tiles that are in memory at any time.
    """
    tiles = sorted(held)
    apart = _apart(flow, sections, tiles)
    by_size = sorted(tiles, key=lambda tile: (-_size(program.tiles[tile]), tile))
    near = _blocks(language, program, apart, by_size)
    if _length(near) <= language.near_bytes:
        return Arena(near, [])
    uses = _uses(program)
    near, far = [], []
    for tile in sorted(by_size, key=lambda tile: -uses.get(tile, 0) / _size(program.tiles[tile])):
        trial = _blocks(language, program, apart, [*_members(near), tile])
        if _length(trial) <= language.near_bytes:
            near = trial
        else:
            far.append(tile)
    return Arena(near, _blocks(language, program, apart, [t for t in by_size if t in far]))


def _size(tile: Tile) -> int:
    size = tile.rows * tile.columns * tile.dtype.bytes * tile.stages
    return -(-size // ALIGNMENT) * ALIGNMENT


def _length(blocks: list[Block]) -> int:
    return sum(block.bytes for block in blocks)


def _members(blocks: list[Block]) -> list[int]:
    return [tile for block in blocks for tile in block.tiles]


def _apart(flow: Flow, sections: Sequence[tuple[int, int]], tiles: Sequence[int]) -> dict[int, int]:
    """Tile to the tiles (as bits) that some section needs together with it."""
    code = flow.program.instructions
    mask = sum(1 << tile for tile in tiles)
    apart = dict.fromkeys(tiles, 0)
    for first, last in sections:
        needed = 0
        for position in range(first, last + 1):
            item = code[position]
            for tile in (*flow.live_after.get(position, ()), *reads(item), *writes(item)):
                needed |= 1 << tile
        needed &= mask
        for tile in tiles:
            if needed >> tile & 1:
                apart[tile] |= needed
    return apart


def _blocks(
    language: Dialect, program: Program, apart: dict[int, int], order: list[int]
) -> list[Block]:
    """Blocks for tiles, each tile in the first that is free for it; the longest come first."""
    blocks: list[Block] = []
    for tile in sorted(order, key=lambda tile: (-_size(program.tiles[tile]), tile)):
        kind = language.stored(program.tiles[tile].dtype)
        for block in blocks:
            same = language.stored(program.tiles[block.tile].dtype) == kind
            if same and not any(apart[tile] >> other & 1 for other in block.tiles):
                block.tiles.append(tile)
                break
        else:
            blocks.append(Block(tile, _size(program.tiles[tile]), _length(blocks), [tile]))
    return blocks


def _uses(program: Program) -> dict[int, float]:
    """Tile to how many elements are read or written about, products and loops counted in."""
    uses: dict[int, float] = {}
    nest: list[str] = []
    for item in program.instructions:
        if item.op in ("loop", "if"):
            nest.append(item.op)
        elif item.op == "end":
            nest.pop()
        weight = float(_LOOP ** nest.count("loop"))
        for reference in (item.d, item.a, item.b, item.c):
            if reference is None:
                continue
            tile = program.tiles[reference.tile]
            count = weight * tile.rows * tile.columns
            if item.op == "mma" and item.d is not None:
                target = program.tiles[item.d.tile]
                if reference is item.a:
                    count *= target.columns
                elif reference is item.b:
                    count *= target.rows
            uses[reference.tile] = uses.get(reference.tile, 0.0) + count
    return uses
