"""Where tiles lie in their spaces: bytes are shared where lifetimes are disjoint."""

from __future__ import annotations

from dataclasses import replace

from hal.codegen.errors import Unsuited
from hal.codegen.target import Target
from hal.vil.check_control import lifetimes
from hal.vil.model import Program, Tile

__all__ = ["place_tiles"]

ALIGNMENT = 64


def place_tiles(program: Program, target: Target) -> Program:
    """The program with every tile at the lowest free offset of its space, largest tiles first.

    Raises:
        Unsuited: the tiles that live together do not fit a space.
    """
    spans = lifetimes(program)
    order = sorted(spans, key=lambda index: (-program.tiles[index].total_bytes, spans[index]))
    placed: dict[int, Tile] = {}
    for index in order:
        tile = program.tiles[index]
        lacks = tile.space not in target.limits.spaces
        room, alignment = target.space(tile.space)
        step = max(ALIGNMENT, alignment)
        busy = sorted(
            (other.offset, other.offset + other.total_bytes)
            for number, other in placed.items()
            if _same_space(other, tile, target, lacks)
            and spans[number][0] <= spans[index][1]
            and spans[index][0] <= spans[number][1]
        )
        offset = 0
        for begin, end in busy:
            if offset + tile.total_bytes <= begin:
                break
            offset = max(offset, -(-end // step) * step)
        if offset + tile.total_bytes > room:
            text = f"tiles of {offset + tile.total_bytes} bytes in {tile.space}, which has {room}"
            raise Unsuited(text)
        placed[index] = replace(tile, offset=offset)
    tiles = tuple(placed.get(index, tile) for index, tile in enumerate(program.tiles))
    return replace(program, tiles=tiles)


def _same_space(one: Tile, other: Tile, target: Target, lacks: bool) -> bool:
    """Spaces that the chip lacks lie in near, with all that is there."""
    if one.space == other.space:
        return True
    near = one.space not in target.limits.spaces or one.space == "near"
    return near and (lacks or other.space == "near")
