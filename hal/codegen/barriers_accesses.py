"""What each instruction of a program touches, and which of these touches may meet.

A **place** is one tile, one constant stage of a tile, or one buffer that the program both loads and
stores. An **access** is one touch of a place by an instruction. Accesses are numbered in program
order, so that sets of them are plain integers used as bit masks.

A place that is another one in each **turn** of a block carries a `Turn`: a tile whose stage counts
the turns, or a buffer of which no two turns touch the same element.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from hal.codegen.barriers_regions import separate_block
from hal.codegen.explicit_blocks import Block, Nesting
from hal.vil.expressions import Const
from hal.vil.model import Instruction, Kernel, Program, SReg, TileRef
from hal.vil.tables import ENGINES

__all__ = ["Access", "Accesses", "Turn", "roles", "turn_of"]

ENGINE_NUMBERS = {name: number for number, name in enumerate(ENGINES)}
_CONTROL = ("loop", "if", "end", "signal", "wait")


@dataclass(frozen=True, slots=True)
class Turn:
    """A place comes round again after `distance` turns of `block`; 0: never again."""

    block: Block
    distance: int


@dataclass(frozen=True, slots=True)
class Access:
    """One touch.

    Attributes:
        instruction: Its index.
        engine: Number of the engine (`ENGINE_NUMBERS`).
        is_write: The place gets new content.
        place: Index of the place.
        is_exact: Every execution touches the same bytes as every other access of its place.
    """

    instruction: int
    engine: int
    is_write: bool
    place: int
    is_exact: bool


@dataclass(slots=True)
class Needs:
    """What must be over before an instruction starts, as masks of accesses.

    Attributes:
        always: Accesses of which no execution may still be at work.
        turns: Distance to accesses that only matter from this turn and `distance` turns ago.
    """

    always: int = 0
    turns: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Place:
    tile: int | None
    stage: int | None
    buffer: str
    turn: Turn | None
    space: str
    first: int
    end: int


def roles(item: Instruction) -> Iterator[tuple[str, TileRef, bool]]:
    """Each tile operand of an instruction: role, reference, and whether it is written."""
    for role in ("a", "b", "c", "d"):
        reference: TileRef | None = getattr(item, role)
        if reference is not None:
            if item.op == "topk" and role in ("c", "d") and "init" not in item.flags:
                yield role, reference, False
            yield role, reference, role == "d" or (item.op == "topk" and role == "c")


def is_tile_work(item: Instruction) -> bool:
    """True for what runs on an engine; the rest belongs to the issue of the program."""
    return item.op not in _CONTROL and (item.op != "sreg" or item.function == "tile")


def turn_of(program: Program, nesting: Nesting, tile: int, users: Sequence[int]) -> Turn | None:
    """The block whose turns a staged tile's stage counts, when that is certain.

    Either the stage is everywhere the counter of a loop that no other loop holds, or a register
    that nothing writes but one `sreg.add r, r, 1`, the last thing that the block does.
    """
    stages = program.tiles[tile].stages
    named = {ref.stage for i in users for _, ref, _ in roles(program.instructions[i])
             if ref.tile == tile}  # fmt: skip
    if stages == 1 or len(named) != 1:
        return None
    (stage,) = named
    if not isinstance(stage, SReg):
        return None
    writers = [
        number
        for number, item in enumerate(program.instructions)
        if item.op in ("loop", "sreg") and item.x == stage.index
    ]
    if len(writers) != 1:
        return None
    writer = writers[0]
    item = program.instructions[writer]
    if item.op == "loop":
        block = next(block for block in nesting.blocks if block.start == writer)
        inside = block.depth == 1
    else:
        block = nesting.block_of(writer)
        counts = item.function == "add" and item.values[:2] == (stage, Const(1))
        rest = program.instructions[writer + 1 : block.end]
        inside = counts and all(each.op in ("signal", "wait") for each in rest)
    held = all(block.start < user < block.end for user in users)
    return Turn(block, stages) if inside and held else None


class Accesses:
    """All accesses of a program, and what must be over before each instruction."""

    def __init__(self, program: Program, nesting: Nesting, kernels: Sequence[Kernel] = ()) -> None:
        self.program = program
        self.nesting = nesting
        self.all: list[Access] = []
        self._places: list[_Place] = []
        self._numbers: dict[tuple[int, int | None] | str, int] = {}
        count = len(program.instructions)
        self.engine_of = [-1] * count
        self.bits = [0] * count
        self.first = [0] * (count + 1)
        self._turns = self._tile_turns()
        self._buffers = self._buffer_classes(kernels)
        for number, item in enumerate(program.instructions):
            self.first[number] = len(self.all)
            if is_tile_work(item):
                self._add(number, item)
        self.first[count] = len(self.all)
        self.of_engine = [0] * len(ENGINES)
        for index, access in enumerate(self.all):
            self.of_engine[access.engine] |= 1 << index
        self.needs: list[Needs | None] = [None] * count
        self._find_needs()
        self.ages = self._ages()

    @property
    def distance(self) -> int:
        """The longest distance of all turns."""
        found = [place.turn.distance for place in self._places if place.turn is not None]
        return max([1, *found])

    # --- places ----------------------------------------------------------------------------------

    def _tile_turns(self) -> dict[int, Turn]:
        users: dict[int, list[int]] = {}
        for number, item in enumerate(self.program.instructions):
            for _, reference, _ in roles(item):
                users.setdefault(reference.tile, []).append(number)
        found: dict[int, Turn] = {}
        for tile, numbers in users.items():
            turn = turn_of(self.program, self.nesting, tile, numbers)
            if turn is not None:
                found[tile] = turn
        return found

    def _buffer_classes(self, kernels: Sequence[Kernel]) -> dict[str, str]:
        """For each parameter the first one that it may share memory with, by the kernels' aliases.

        Parameters that the program does not both load and store are left out.
        """
        same = {param.name: param.name for param in self.program.params}
        for kernel in kernels:
            alias = {item.name: item.alias for item in kernel.arguments if item.alias}
            for launch in kernel.launches:
                if launch.program != self.program.name:
                    continue
                bound: dict[str, str] = {}
                for param, binding in zip(self.program.params, launch.bindings, strict=True):
                    name = binding.argument or binding.workspace
                    if param.kind != "buffer" or name is None:
                        continue
                    root = name
                    while root in alias:
                        root = alias[root]
                    first = bound.setdefault(root, param.name)
                    old, new = sorted((same[first], same[param.name]))
                    same = {key: old if value == new else value for key, value in same.items()}
        touched: dict[str, set[bool]] = {}
        for item in self.program.instructions:
            name = self._param(item)
            if name is not None:
                writes = item.op in ("store", "scatter")
                touched.setdefault(same[name], set()).add(writes)
        return {name: root for name, root in same.items() if len(touched.get(root, ())) == 2}

    def _param(self, item: Instruction) -> str | None:
        if item.op not in ("load", "store", "gather", "scatter") or item.x is None:
            return None
        return self.program.descriptors[item.x].param

    def _place(self, tile: int, reference: TileRef) -> tuple[int, bool]:
        """Number of a tile operand's place, and whether the stage is known."""
        entry = self.program.tiles[tile]
        turn = self._turns.get(tile)
        stage: int | None = 0
        if entry.stages > 1 and reference.stage is not None:
            known = isinstance(reference.stage, Const)
            stage = reference.stage.value % entry.stages if known else None  # type: ignore[union-attr]
        if turn is not None:
            stage = None
        key = (tile, stage)
        if key not in self._numbers:
            self._numbers[key] = len(self._places)
            each = -(-entry.bytes // 64) * 64
            first = entry.offset + (0 if stage is None else stage * each)
            end = first + (entry.total_bytes if stage is None else entry.bytes)
            self._places.append(_Place(tile, stage, "", turn, entry.space, first, end))
        return self._numbers[key], stage is not None or turn is not None

    def _buffer_place(self, root: str) -> int:
        if root not in self._numbers:
            self._numbers[root] = len(self._places)
            members = {name for name, first in self._buffers.items() if first == root}
            block = separate_block(self.program, self.nesting, members)
            turn = None if block is None else Turn(block, 0)
            self._places.append(_Place(None, None, root, turn, "", 0, 0))
        return self._numbers[root]

    # --- accesses --------------------------------------------------------------------------------

    def _add(self, number: int, item: Instruction) -> None:
        engine = ENGINE_NUMBERS[item.engine]
        self.engine_of[number] = engine
        found: dict[tuple[int, bool], bool] = {}
        for _, reference, is_write in roles(item):
            place, is_exact = self._place(reference.tile, reference)
            found[place, is_write] = is_exact
        name = self._param(item)
        if name is not None and name in self._buffers:
            place = self._buffer_place(self._buffers[name])
            found[place, item.op in ("store", "scatter")] = False
        for (place, is_write), is_exact in found.items():
            self.bits[number] |= 1 << len(self.all)
            self.all.append(Access(number, engine, is_write, place, is_exact))

    def _find_needs(self) -> None:
        reads = [[0] * len(ENGINES) for _ in self._places]
        writes = [[0] * len(ENGINES) for _ in self._places]
        for index, access in enumerate(self.all):
            target = writes if access.is_write else reads
            target[access.place][access.engine] |= 1 << index
        meets = self._meetings()
        for access in self.all:
            needs = self.needs[access.instruction]
            if needs is None:
                needs = self.needs[access.instruction] = Needs()
            for place in meets[access.place]:
                rivals = 0
                for engine in range(len(ENGINES)):
                    if engine != access.engine:
                        rivals |= writes[place][engine]
                        rivals |= reads[place][engine] if access.is_write else 0
                turn = self._places[place].turn
                if place == access.place and turn is not None:
                    known = needs.turns.get(turn.distance, 0)
                    needs.turns[turn.distance] = known | rivals
                else:
                    needs.always |= rivals

    def _meetings(self) -> list[list[int]]:
        """For each place those that share bytes with it, itself first."""
        found = [[number] for number in range(len(self._places))]
        order = sorted(
            (number for number, place in enumerate(self._places) if place.tile is not None),
            key=lambda number: (self._places[number].space, self._places[number].first),
        )
        for position, one in enumerate(order):
            first = self._places[one]
            for other in order[position + 1 :]:
                second = self._places[other]
                if second.space != first.space or second.first >= first.end:
                    break
                found[one].append(other)
                found[other].append(one)
        return found

    def _ages(self) -> dict[int, list[tuple[int, int]]]:
        """For the END of each block with turns: masks of accesses, with their distance."""
        masks: dict[tuple[int, int], int] = {}
        for index, access in enumerate(self.all):
            turn = self._places[access.place].turn
            if turn is not None:
                key = (turn.block.end, turn.distance)
                masks[key] = masks.get(key, 0) | 1 << index
        found: dict[int, list[tuple[int, int]]] = {}
        for (end, distance), mask in masks.items():
            found.setdefault(end, []).append((distance, mask))
        return found

    def turn(self, access: int) -> Turn | None:
        """The turn of an access's place."""
        return self._places[self.all[access].place].turn

    def place_name(self, access: int) -> str:
        """How reports call the place of an access."""
        place = self._places[self.all[access].place]
        if place.tile is None:
            return place.buffer
        name = self.program.tiles[place.tile].name
        return name if place.stage in (0, None) else f"{name}[{place.stage}]"
