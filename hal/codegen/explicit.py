"""From the flat profile to the explicit one: spaces, COPY, stages and tokens.

    module = explicit(module, hcd)

Values never change: the result computes what the flat module computes, on engines that overlap.
docs/barriers.md tells how. Programs that are explicit already stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hal.codegen.barriers import Barrier, insert_barriers
from hal.codegen.explicit_stages import add_stages, staged_tiles
from hal.codegen.spaces import choose_spaces
from hal.codegen.spaces_chip import Chip
from hal.codegen.spaces_granules import expand_granules
from hal.codegen.spaces_offsets import place_tiles
from hal.errors import HalError, OutOfMemory, Unsupported
from hal.vil.model import Kernel, Program
from hal.vil.module import Module
from hal.vil.validator import validate

if TYPE_CHECKING:
    from hal.hcd import Hcd

__all__ = ["STAGES", "explicit", "explicit_program", "explicit_where_it_pays"]

STAGES = 2
"""Copies of a tile that lives for one turn, unless a schedule says otherwise."""


def explicit(module: Module, hcd: Hcd | dict[str, Any], *, stages: int = STAGES) -> Module:
    """The module in the explicit profile of a chip.

    Args:
        module: A valid module; its flat programs are turned.
        hcd: The chip.
        stages: Copies of a tile that lives for one turn of a loop, at most; 1 for no overlap of
            turns. Fewer are used where the chip has no room or no tokens for them.

    Raises:
        Unsupported: the chip has no explicit profile, too few tokens, or no way to move an operand.
        OutOfMemory: the tiles do not fit into a space, not even with one stage each.
    """
    chip = Chip.of(hcd)
    if not chip.limits.explicit:
        raise Unsupported(
            "the chip's profile is flat",
            call="codegen.explicit",
            next_step="Run the flat program; the chip moves and orders by itself.",
        )
    programs = tuple(
        program
        if program.profile == "explicit"
        else explicit_program(program, chip, hcd, module.kernels, stages=stages)[0]
        for program in module.programs
    )
    return replace(module, programs=programs)


def explicit_where_it_pays(
    module: Module, hcd: Hcd | dict[str, Any], *, stages: int = STAGES
) -> Module:
    """The module with those programs turned whose engines overlap then; nothing is refused.

    A program without a tile that lives for one turn of a loop gains nothing, and one that cannot be
    turned stays flat. On a chip with the flat profile the module comes back as it is.
    """
    chip = Chip.of(hcd)
    if not chip.limits.explicit:
        return module
    programs: list[Program] = []
    for program in module.programs:
        found = program
        if program.profile == "flat":
            try:
                turned, _ = explicit_program(program, chip, hcd, module.kernels, stages=stages)
            except (OutOfMemory, Unsupported):
                turned = program
            if _extra_stages(turned) > _extra_stages(program):
                found = turned
        programs.append(found)
    return replace(module, programs=tuple(programs))


def _extra_stages(program: Program) -> int:
    return sum(tile.stages - 1 for tile in program.tiles)


def explicit_program(
    program: Program,
    chip: Chip,
    hcd: Hcd | dict[str, Any],
    kernels: Sequence[Kernel] = (),
    *,
    stages: int = STAGES,
) -> tuple[Program, tuple[Barrier, ...]]:
    """One program, and the reason for each of its tokens; arguments and errors as `explicit`."""
    moved = choose_spaces(expand_granules(program, chip), chip)
    last: HalError | None = None
    for staged in _attempts(moved, stages):
        try:
            placed = place_tiles(staged, chip)
            found = insert_barriers(placed, kernels=kernels, token_count=chip.limits.token_count)
            _check(found.program, hcd)
        except (OutOfMemory, Unsupported) as error:
            last = error
            continue
        return found.program, found.barriers
    assert last is not None
    raise last


def _attempts(program: Program, stages: int) -> Iterator[Program]:
    """The program with ever fewer stages: all tiles, then without the largest ones, then none."""
    left = staged_tiles(program)
    for count in range(stages, 2, -1):
        yield add_stages(program, count, left)
    while left and stages > 1:
        yield add_stages(program, 2, left)
        del left[max(left, key=lambda number: program.tiles[number].bytes)]
    yield program


def _check(program: Program, hcd: Hcd | dict[str, Any]) -> None:
    problems = validate(program, hcd)
    if problems:
        raise Unsupported(
            f"the explicit form of program {program.name} breaks a limit: {problems[0]}",
            call="codegen.explicit",
            next_step="Run the flat program.",
        )
