"""Stages: tiles that live for one turn of a loop get several copies, so that engines overlap.

A tile qualifies when every use lies in one body inside a loop, the first use writes all of it, and
two engines use it. Its stage is the number of the turn: the loop's own counter where no other loop
is around, else a register that counts on and on, also over the turns of outer loops.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hal.codegen.barriers_accesses import is_tile_work, roles
from hal.codegen.explicit_blocks import Block, Nesting
from hal.vil.check_control import plain_write
from hal.vil.expressions import as_expr
from hal.vil.model import Instruction, Program, SReg, TileRef

__all__ = ["add_stages", "staged_tiles"]


def staged_tiles(program: Program) -> dict[int, Block]:
    """Tiles that may get stages, with the body in whose turns they live."""
    nesting = Nesting(program.instructions)
    users: dict[int, list[int]] = {}
    for number, item in enumerate(program.instructions):
        for _, reference, _ in roles(item):
            users.setdefault(reference.tile, []).append(number)
    found: dict[int, Block] = {}
    for tile, numbers in users.items():
        first = program.instructions[numbers[0]]
        block = nesting.block_of(numbers[0])
        engines = {program.instructions[number].engine for number in numbers}
        inside = all(block.start < number < block.end for number in numbers)
        once = program.tiles[tile].stages == 1
        if (
            once
            and block.depth
            and inside
            and len(engines) > 1
            and plain_write(program, first, tile)
        ):
            found[tile] = block
    return found


def add_stages(program: Program, stages: int, tiles: Mapping[int, Block]) -> Program:
    """The program with `stages` copies of some of its `staged_tiles`.

    Raises:
        KeyError: a tile is none of them.
    """
    if stages == 1 or not tiles:
        return program
    counters: dict[int, SReg] = {}
    count = program.sreg_count
    ends: dict[int, Instruction] = {}
    for block in tiles.values():
        if block.start in counters:
            continue
        opened = program.instructions[block.start]
        if block.op == "loop" and block.depth == 1 and opened.x is not None:
            if not _is_counted_alone(program, opened.x):
                pass
            else:
                counters[block.start] = SReg(opened.x)
                continue
        counter = counters[block.start] = SReg(count)
        count += 1
        values = (counter, as_expr(1), None, None)
        ends[block.end] = Instruction(
            "sreg", "add", engine="scalar", x=counter.index, values=values
        )
    result: list[Instruction] = []
    for number, item in enumerate(program.instructions):
        if number in ends:
            result.append(ends[number])
        result.append(_with_stages(item, tiles, counters) if is_tile_work(item) else item)
    table = tuple(
        replace(tile, stages=stages) if number in tiles else tile
        for number, tile in enumerate(program.tiles)
    )
    return replace(program, tiles=table, instructions=tuple(result), sreg_count=count)


def _is_counted_alone(program: Program, register: int) -> bool:
    """True when nothing but one LOOP writes a register."""
    writers = [item for item in program.instructions
               if item.op in ("loop", "sreg") and item.x == register]  # fmt: skip
    return len(writers) == 1


def _with_stages(
    item: Instruction, tiles: Mapping[int, Block], counters: Mapping[int, SReg]
) -> Instruction:
    changed: dict[str, TileRef] = {}
    for role, reference, _ in roles(item):
        if reference.tile in tiles:
            counter = counters[tiles[reference.tile].start]
            changed[role] = TileRef(reference.tile, counter)
    return replace(item, **changed) if changed else item  # type: ignore[arg-type]
