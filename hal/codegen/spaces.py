"""Spaces and layouts: each tile gets a real place, and COPY moves it where an operation needs it.

The rows of the chip's operation table decide (`kernels.vil.ops.*.spaces_*`, `layouts_*`). A tile
gets the space that most of its uses can take, loops counted; the space that the program names is a
wish and decides between equals. A use that cannot take that space works on a second tile, and COPY
moves there and back. The layout pass is the same question asked of layouts, and its result is held
against every row once more (`validate`), so it never changes a value.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from hal.codegen.barriers_accesses import roles
from hal.codegen.explicit_blocks import Nesting, names_of
from hal.codegen.spaces_chip import Chip, Wanted
from hal.errors import Unsupported
from hal.vil.model import Instruction, Program, Tile, TileRef

__all__ = ["choose_spaces"]

TURNS = 8
"""How often a loop is assumed to run when uses are counted."""

_UNCOPIED = ("f8e4m3", "f8e5m2")


@dataclass(frozen=True, slots=True)
class _Use:
    """One operand: where it stands, what it may be, and what that is worth."""

    number: int
    role: str
    wanted: Wanted
    is_read: bool
    is_write: bool
    weight: int


def choose_spaces(program: Program, chip: Chip) -> Program:
    """The program with real spaces and layouts, and COPY where operands must move.

    Offsets of the new tiles are still open.

    Raises:
        Unsupported: an operand cannot be moved where the chip needs it.
    """
    return _Spaces(program, chip).run()


class _Spaces:
    def __init__(self, program: Program, chip: Chip) -> None:
        self.program = program
        self.chip = chip
        self.tiles = list(program.tiles)
        self.uses: dict[int, list[_Use]] = {}
        self.mirrors: dict[tuple[int, str, str], int] = {}
        self.kept: set[tuple[int, str, str]] = set()
        self.result: list[Instruction] = []

    def run(self) -> Program:
        self._find_uses()
        for tile in range(len(self.program.tiles)):
            self._choose(tile, self.uses.get(tile, []))
        for tile, uses in self.uses.items():
            self._keep_mirrors(tile, uses)
        for number, item in enumerate(self.program.instructions):
            self._rewrite(number, item)
        return replace(self.program, tiles=tuple(self.tiles), instructions=tuple(self.result))

    # --- homes -----------------------------------------------------------------------------------

    def _find_uses(self) -> None:
        nesting = Nesting(self.program.instructions)
        for number, item in enumerate(self.program.instructions):
            wanted = self.chip.wants(self.program, item)
            kinds: dict[str, tuple[int, list[bool]]] = {}
            for role, reference, is_write in roles(item):
                kinds.setdefault(role, (reference.tile, []))[1].append(is_write)
            if item.op == "mma" and "init" not in item.flags and item.d is not None:
                kinds["d"][1].append(False)
            if item.op == "store" and item.d is not None:
                kinds["d"][1].append(False)  # It changes a part.
            for role, (tile, writes) in kinds.items():
                use = _Use(
                    number,
                    role,
                    wanted[role],
                    False in writes,
                    True in writes,
                    TURNS ** nesting.block_of(number).depth,
                )
                self.uses.setdefault(tile, []).append(use)

    def _choose(self, tile: int, uses: list[_Use]) -> None:
        entry = self.program.tiles[tile]
        order = [
            name for name in (entry.space, "near", *self.chip.spaces) if name in self.chip.spaces
        ]
        wanted = [use.wanted for use in uses]
        worth: list[int] = []
        for space in order:
            layout = self.chip.layout(entry, wanted, space)
            worth.append(sum(use.weight for use in uses if use.wanted.takes(space, layout)))
        space = order[worth.index(max(worth))]
        self.tiles[tile] = _moved(entry, space, self.chip.layout(entry, wanted, space))

    # --- mirrors ---------------------------------------------------------------------------------

    def _target(self, tile: int, use: _Use) -> tuple[int, str, str] | None:
        """Tile, space and layout that a use needs instead of the home; None when it takes that."""
        home, wanted = self.tiles[tile], use.wanted
        if wanted.takes(home.space, home.layout):
            return None
        order = [home.space, "near", *self.chip.spaces]
        spaces = [name for name in order if name in self.chip.spaces
                  and (wanted.spaces is None or name in wanted.spaces)]  # fmt: skip
        if not spaces:
            item = self.program.instructions[use.number]
            raise Unsupported(
                f"program {self.program.name}: {item.op} takes operand {use.role} in "
                f"{' '.join(sorted(wanted.spaces or ()))}, of which the chip has none",
                call="codegen.explicit",
            )
        return tile, spaces[0], self.chip.layout(self.program.tiles[tile], [wanted], spaces[0])

    def _keep_mirrors(self, tile: int, uses: list[_Use]) -> None:
        """Chooses the mirrors that follow each write, because reads are more frequent."""
        reads: dict[tuple[int, str, str], int] = {}
        for use in uses:
            target = self._target(tile, use)
            if target is not None and use.is_read and not use.is_write:
                reads[target] = reads.get(target, 0) + use.weight
        writes = sum(use.weight for use in uses if use.is_write)
        self.kept |= {target for target, weight in reads.items() if writes < weight}

    def _mirror(self, target: tuple[int, str, str]) -> int:
        """Index of the second tile of a home."""
        if target not in self.mirrors:
            tile, space, layout = target
            home = self.program.tiles[tile]
            if home.dtype.name in _UNCOPIED:
                raise Unsupported(
                    f"program {self.program.name}: tile {home.name} of {home.dtype} must be in "
                    f"{self.tiles[tile].space} and in {space}, and no COPY moves {home.dtype}",
                    call="codegen.explicit",
                )
            names = names_of(self.program) | {each.name for each in self.tiles}
            name = f"{home.name[:48]}_{space}"
            while name in names:
                name += "_"
            self.mirrors[target] = len(self.tiles)
            self.tiles.append(_moved(replace(home, name=name), space, layout))
        return self.mirrors[target]

    def _copy(self, target: TileRef, source: TileRef, home: int) -> Iterator[Instruction]:
        """COPY from tile to tile, through near where no path leads directly."""
        ends = [self.tiles[source.tile], self.tiles[target.tile]]
        route = self.chip.route(ends[0].space, ends[1].space)
        for space in route[1:-1]:
            step = TileRef(self._mirror((home, space, "row")), target.stage)
            engine = self.chip.mover(ends[0].space, space)
            yield Instruction("copy", engine=engine, d=step, a=source)
            source = step
        engine = self.chip.mover(self.tiles[source.tile].space, ends[1].space)
        yield Instruction("copy", engine=engine, d=target, a=source)

    # --- instructions ----------------------------------------------------------------------------

    def _rewrite(self, number: int, item: Instruction) -> None:
        before: list[Instruction] = []
        behind: list[Instruction] = []
        changed: dict[str, TileRef] = {}
        written: dict[int, TileRef] = {}
        for tile, use in self._uses_of(number, item):
            reference: TileRef = getattr(item, use.role)
            if use.is_write:
                written[tile] = reference
            target = self._target(tile, use)
            if target is None:
                continue
            mirror = TileRef(self._mirror(target), reference.stage)
            changed[use.role] = mirror
            if use.is_read and (use.is_write or target not in self.kept):
                before += self._copy(mirror, reference, tile)
            if use.is_write:
                behind += self._copy(reference, mirror, tile)
        for tile, reference in written.items():
            for target in sorted(self.kept):
                if target[0] == tile:
                    mirror = TileRef(self._mirror(target), reference.stage)
                    behind += self._copy(mirror, reference, tile)
        moved = replace(item, **changed) if changed else item  # type: ignore[arg-type]
        if item.op == "copy" and item.d is not None and item.a is not None:
            ends = self.tiles[item.a.tile].space, self.tiles[item.d.tile].space
            if ends[0] != ends[1]:
                moved = replace(moved, engine=self.chip.mover(*ends))
        self.result += [*before, moved, *behind]

    def _uses_of(self, number: int, item: Instruction) -> Iterator[tuple[int, _Use]]:
        seen: set[tuple[int, str]] = set()
        for role, reference, _ in roles(item):
            if (reference.tile, role) in seen:
                continue
            seen.add((reference.tile, role))
            for use in self.uses[reference.tile]:
                if use.number == number and use.role == role:
                    yield reference.tile, use


def _moved(tile: Tile, space: str, layout: str) -> Tile:
    panel = tile.panel if layout == "panel" else 0
    return replace(tile, space=space, layout=layout, panel=panel)
