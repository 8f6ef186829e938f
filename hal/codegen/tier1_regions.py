"""Valid regions as numbers: registers that follow the row or column count of a tile.

TOPK grows its list by as many columns as are valid in a tile, a number that no operation gives. But
each region follows from descriptors and other regions by the rules of docs/vil.md, sections 1.5 and
1.6, which are integer arithmetic: one register for each followed (tile, axis), brought up to date
behind each instruction that writes the tile.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hal.codegen.tier1_rewriter import Rewriter
from hal.vil.builder import ValueLike
from hal.vil.errors import VilError
from hal.vil.model import Instruction, Program, SReg, TileRef

__all__ = ["Regions"]

Key = tuple[int, int]
"""(tile, axis): axis 0 counts valid rows, 1 valid columns."""
ELEMENTWISE = frozenset({"un", "bin", "sel", "cast"})


def _tile(reference: TileRef | None) -> int:
    assert reference is not None
    return reference.tile


def _written(item: Instruction) -> tuple[TileRef, ...]:
    if item.op in ("store", "scatter"):
        return ()
    found = (item.d, item.c) if item.op == "topk" else (item.d,)
    return tuple(reference for reference in found if reference is not None)


class Regions:
    """The registers of one program.

    Args:
        p: The program that is being written.
        program: The program as it was.
        wanted: Pairs that a row of the table reads; what they follow from is followed too.

    Raises:
        VilError: a followed tile has several stages, whose regions would need registers each.
    """

    def __init__(self, p: Rewriter, program: Program, wanted: Sequence[Key]) -> None:
        self.p = p
        self.program = program
        keys = set(wanted)
        while True:
            found = {
                source
                for item in program.instructions
                for target in _written(item)
                for axis in (0, 1)
                if (target.tile, axis) in keys
                for source in self._sources(item, axis)
            }
            if found <= keys:
                break
            keys |= found
        for tile, _ in keys:
            if program.tiles[tile].stages > 1:
                raise VilError(
                    f"the valid region of tile {program.tiles[tile].name} is needed, and it has "
                    f"{program.tiles[tile].stages} stages",
                    call="codegen.tier1",
                    next_step="Give each stage a tile of its own.",
                )
        self.registers = {key: p.own_sreg() for key in sorted(keys)}

    def of(self, tile: int, axis: int) -> SReg:
        """The register of a followed pair."""
        return self.registers[tile, axis]

    def _sources(self, item: Instruction, axis: int) -> Iterator[Key]:
        """The pairs that the region of d (and c) along an axis follows from."""
        operands = [ref.tile for ref in (item.a, item.b, item.c) if ref is not None]
        if item.op in ELEMENTWISE or item.op in ("copy", "scan"):
            yield from ((tile, axis) for tile in operands)
        elif item.op == "gather" and axis == 0:
            yield from ((operands[0], 0), (operands[0], 1))
        elif item.op == "red" and axis != item.axis:
            yield _tile(item.a), axis
        elif item.op == "mma":
            yield _tile(item.a if axis == 0 else item.b), axis
            if "init" not in item.flags:
                yield _tile(item.d), axis
        elif item.op == "trn":
            yield _tile(item.a), 1 - axis
        elif item.op == "topk":
            yield _tile(item.a), axis
            if "init" not in item.flags:
                yield from ((_tile(item.d), axis), (_tile(item.c), axis))

    def update(self, item: Instruction) -> None:
        """Adds what brings the registers up to date behind an instruction."""
        pairs = [(ref.tile, axis) for ref in _written(item) for axis in (0, 1)]
        followed = [pair for pair in pairs if pair in self.registers]
        found = [self.new(item, axis) for _, axis in followed]
        for pair, value in zip(followed, found, strict=True):
            self.p.compute("mov", value, to=self.registers[pair])

    def new(self, item: Instruction, axis: int) -> ValueLike:
        """The count that an instruction gives its result along an axis."""
        p, tile = self.p, self.program.tiles[_tile(item.d)]
        length = tile.rows if axis == 0 else tile.columns
        sources = [self.registers[key] for key in self._sources(item, axis)]
        match item.op:
            case "load" | "gather":
                descriptor = p.described(item)
                found = p.axis_count((descriptor.row, descriptor.column)[axis], length)
                if item.op == "gather" and axis == 0:
                    some = p.compute("sel", sources[1], sources[0], 0)
                    found = p.count("min", found, some)
                return found
            case "fill":
                value = item.values[axis]
                if value is None:
                    return length
                return p.count("max", p.count("min", value, length), 0)
            case "topk" if axis == 1:
                return self._list_length(item, length)
            case "red" if axis == item.axis:
                return 1
            case "un" | "bin" | "sel" | "cast":
                return self._broadcast(item, axis, length)
            case "iota" | "rng":
                return length
        total: ValueLike = sources[0]
        for other in sources[1:]:
            total = p.count("min", total, other)
        return total

    def _list_length(self, item: Instruction, length: int) -> ValueLike:
        p = self.p
        added = self.of(_tile(item.a), 1)
        if "init" in item.flags:
            return p.count("min", added, length)
        before = p.count("min", self.of(_tile(item.d), 1), self.of(_tile(item.c), 1))
        return p.count("min", p.count("add", before, added), length)

    def _broadcast(self, item: Instruction, axis: int, length: int) -> ValueLike:
        """Section 1.5: the least over the operands, where one element is as good as all."""
        p = self.p
        total: ValueLike = length
        for reference in (item.a, item.b, item.c):
            if reference is None:
                continue
            tile = self.program.tiles[reference.tile]
            own: ValueLike = self.of(reference.tile, axis)
            if (tile.rows if axis == 0 else tile.columns) != length:
                own = p.compute("mul", p.compute("eq", own, 1), length)
            total = p.count("min", total, own)
        return total
