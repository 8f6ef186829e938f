"""Offsets of tiles in their spaces.

First each tile gets bytes of its own: tiles that share none never wait for each other. When a space
is too small for that, tiles whose lifetimes are disjoint share bytes, the largest first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import lcm

from hal.codegen.spaces_chip import Chip
from hal.errors import OutOfMemory
from hal.vil.check_control import lifetimes
from hal.vil.model import Program, Tile

__all__ = ["place_tiles"]

STAGE_ALIGNMENT = 64


def place_tiles(program: Program, chip: Chip, *, sharing: bool = True) -> Program:
    """The program with an offset for each tile.

    Args:
        sharing: Tiles may share bytes where there is no room for all.

    Raises:
        OutOfMemory: a space is too small; names what is in it and what would fit.
    """
    offsets: dict[int, int] = {}
    spans = lifetimes(program)
    for space in dict.fromkeys(tile.space for tile in program.tiles):
        members = [number for number, tile in enumerate(program.tiles) if tile.space == space]
        capacity, alignment = chip.limits.spaces[space]
        step = lcm(alignment, STAGE_ALIGNMENT) if capacity > STAGE_ALIGNMENT else alignment
        own, end = _apart(program.tiles, members, step)
        if end > capacity and sharing:
            own, end = _shared(program.tiles, members, spans, step)
        if end > capacity:
            raise OutOfMemory(
                _full(program, members, space, capacity, end),
                call="codegen.explicit",
                next_step="Use smaller tiles or fewer stages.",
            )
        offsets |= own
    tiles = tuple(
        replace(tile, offset=offsets[number]) for number, tile in enumerate(program.tiles)
    )
    return replace(program, tiles=tiles)


def _up(value: int, step: int) -> int:
    return -(-value // step) * step


def _apart(tiles: Sequence[Tile], members: Sequence[int], step: int) -> tuple[dict[int, int], int]:
    """One behind the other; and where the last one ends."""
    found: dict[int, int] = {}
    end = 0
    for number in members:
        found[number] = _up(end, step)
        end = found[number] + tiles[number].total_bytes
    return found, end


def _shared(
    tiles: Sequence[Tile],
    members: Sequence[int],
    spans: dict[int, tuple[int, int]],
    step: int,
) -> tuple[dict[int, int], int]:
    """First fit by size; tiles that no instruction uses lie at 0."""
    found: dict[int, int] = {number: 0 for number in members if number not in spans}
    end = max([tiles[number].total_bytes for number in found], default=0)
    placed: list[int] = []
    for number in sorted(members, key=lambda each: -tiles[each].total_bytes):
        if number in found:
            continue
        first, last = spans[number]
        rivals = sorted(
            (found[other], found[other] + tiles[other].total_bytes)
            for other in placed
            if first <= spans[other][1] and spans[other][0] <= last
        )
        place = 0
        for begin, stop in rivals:
            if place + tiles[number].total_bytes <= begin:
                break
            place = max(place, _up(stop, step))
        found[number] = place
        placed.append(number)
        end = max(end, place + tiles[number].total_bytes)
    return found, end


def _full(program: Program, members: Sequence[int], space: str, capacity: int, end: int) -> str:
    largest = sorted(members, key=lambda number: -program.tiles[number].total_bytes)[:4]
    shown = ", ".join(
        f"{program.tiles[number].name} {program.tiles[number].total_bytes:,}" for number in largest
    )
    more = f" and {len(members) - 4} more" if len(members) > 4 else ""
    return (
        f"program {program.name}: the tiles in {space} need {end:,} bytes and {capacity:,} fit "
        f"({shown}{more})"
    )
