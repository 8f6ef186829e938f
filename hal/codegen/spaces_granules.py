"""Tiles that are no multiple of the chip's granules grow, and their valid regions stay.

Values never depend on what lies outside a valid region, so a larger tile computes the same as long
as whatever fills it stops where the old tile ended: descriptors get a limit, FILL its rows and
columns, and results that always fill their tile are cut by SEL with a mask that is valid so far.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import lcm

from hal import dtypes
from hal.codegen.explicit_blocks import names_of
from hal.codegen.spaces_chip import Chip
from hal.errors import Unsupported
from hal.vil.expressions import Const, Expr, as_expr, minimum
from hal.vil.model import Axis, Descriptor, Instruction, Program, SReg, Tile, TileRef, Value

__all__ = ["expand_granules"]

_ELEMENTWISE = ("un", "bin", "sel", "cast")


def expand_granules(program: Program, chip: Chip) -> Program:
    """The program with tiles of whole granules; offsets of grown tiles are open.

    Raises:
        Unsupported: an operation depends on the size that a tile had.
    """
    steps = chip.limits.granule_rows, chip.limits.granule_columns
    if any(item.op in ("mma", "trn") for item in program.instructions):
        steps = lcm(*steps), lcm(*steps)  # A row length is a column length elsewhere.
    sizes = [
        (_up(tile.rows, steps[0]), _up(tile.columns, steps[1])) if _breaks(tile, chip) else None
        for tile in program.tiles
    ]
    if not any(sizes):
        return program
    return _Growth(program, steps).run()


def _up(length: int, step: int) -> int:
    return 1 if length == 1 else -(-length // step) * step


def _breaks(tile: Tile, chip: Chip) -> bool:
    limits = chip.limits
    rows = tile.rows != 1 and tile.rows % limits.granule_rows
    return bool(rows or (tile.columns != 1 and tile.columns % limits.granule_columns))


class _Growth:
    def __init__(self, program: Program, steps: tuple[int, int]) -> None:
        self.program = program
        self.tiles = [
            replace(tile, rows=_up(tile.rows, steps[0]), columns=_up(tile.columns, steps[1]))
            for tile in program.tiles
        ]
        self.descriptors = list(program.descriptors)
        self.sregs = program.sreg_count
        self.result: list[Instruction] = []
        self.masks: dict[tuple[int, int, int, int], int] = {}
        self.names = names_of(program)

    def run(self) -> Program:
        for item in self.program.instructions:
            self._refuse(item)
            self.result += self._grown(item)
        fills = [
            Instruction(
                "fill",
                engine="vector",
                d=TileRef(mask),
                constant=1,
                values=(as_expr(rows), as_expr(columns), None, None),
            )
            for (rows, columns, _, _), mask in self.masks.items()
        ]
        return replace(
            self.program,
            tiles=tuple(self.tiles),
            descriptors=tuple(self.descriptors),
            instructions=(*fills, *self.result),
            sreg_count=self.sregs,
        )

    def _changes(self, reference: TileRef) -> tuple[bool, bool]:
        """Whether rows and columns of an operand's tile grow."""
        old, new = self.program.tiles[reference.tile], self.tiles[reference.tile]
        return old.rows != new.rows, old.columns != new.columns

    def _refuse(self, item: Instruction) -> None:
        reason = ""
        if item.op == "topk" and item.d is not None and self._changes(item.d)[1]:
            reason = "topk keeps as many entries as its tile has columns"
        near = item.a if item.op == "load" else item.d if item.op == "store" else None
        if near is not None and self._changes(near)[1]:
            reason = "a near descriptor counts the columns of its tile"
        if item.op == "cast" and item.d is not None and self._fills_all(item):
            dtype = self.program.tiles[item.d.tile].dtype
            reason = f"no SEL cuts a tile of {dtype}" if dtype.kind == "float8" else reason
        if reason:
            raise Unsupported(
                f"program {self.program.name}: a tile is no multiple of the chip's granules, "
                f"and {reason}",
                call="codegen.explicit",
                next_step="Choose tile sizes that are multiples of the granules.",
            )

    def _grown(self, item: Instruction) -> Iterator[Instruction]:
        if item.d is None or not any(self._changes(item.d)) or item.op == "store":
            yield item
        elif item.op in ("load", "gather"):
            yield from self._limited(item)
        elif item.op == "fill":
            yield from self._filled(item)
        else:
            yield item
            if self._fills_all(item):
                mask = TileRef(self._mask(item.d))
                yield Instruction("sel", engine="vector", d=item.d, a=mask, b=item.d, c=item.d)

    def _fills_all(self, item: Instruction) -> bool:
        """True when a result is valid to the end of its tile, whatever the operands."""
        if item.op in ("iota", "rng"):
            return True
        if item.op not in _ELEMENTWISE or item.d is None:
            return False
        operands = [self.program.tiles[ref.tile] for ref in (item.a, item.b, item.c) if ref]
        rows, columns = self._changes(item.d)
        long_rows = any(tile.rows > 1 for tile in operands)
        long_columns = any(tile.columns > 1 for tile in operands)
        return (rows and not long_rows) or (columns and not long_columns)

    # --- what fills a tile -----------------------------------------------------------------------

    def _limited(self, item: Instruction) -> Iterator[Instruction]:
        assert item.d is not None and item.x is not None
        tile = self.program.tiles[item.d.tile]
        descriptor = self.descriptors[item.x]
        axes: list[Axis] = []
        lengths = (tile.rows, tile.columns)
        for axis, length, grows in zip(
            (descriptor.row, descriptor.column), lengths, self._changes(item.d), strict=True
        ):
            limit, work = self._end(axis, length) if grows else (axis.limit, [])
            yield from work
            axes.append(replace(axis, limit=limit))
        yield replace(item, x=self._descriptor(replace(descriptor, row=axes[0], column=axes[1])))

    def _end(self, axis: Axis, length: int) -> tuple[Value, list[Instruction]]:
        """The limit of an axis that stops after `length` positions, and what computes it."""
        origin = Const(0) if axis.origin is None else axis.origin
        if not isinstance(origin, SReg) and not isinstance(axis.limit, SReg):
            end: Expr = origin + length
            if isinstance(origin, Const):
                end = Const(origin.value + length)
            return (end if axis.limit is None else minimum(axis.limit, end)), []
        register = self._register()
        work = [_sreg("add", register, origin, as_expr(length))]
        if axis.limit is not None:
            work.append(_sreg("min", register, register, axis.limit))
        return register, work

    def _filled(self, item: Instruction) -> Iterator[Instruction]:
        assert item.d is not None
        tile = self.program.tiles[item.d.tile]
        ends: list[Value | None] = []
        for given, length, grows in zip(
            item.values[:2], (tile.rows, tile.columns), self._changes(item.d), strict=True
        ):
            end: Value | None = given
            if grows and isinstance(given, SReg):
                register = self._register()
                yield _sreg("min", register, given, as_expr(length))
                end = register
            elif grows and isinstance(given, Expr):
                end = minimum(given, length)
            elif grows:
                end = as_expr(length)
            ends.append(end)
        yield replace(item, values=(ends[0], ends[1], None, None))

    # --- new entries of tables -------------------------------------------------------------------

    def _register(self) -> SReg:
        self.sregs += 1
        return SReg(self.sregs - 1)

    def _name(self, stem: str) -> str:
        name, number = stem, 1
        while name in self.names:
            number += 1
            name = f"{stem}_{number}"
        self.names.add(name)
        return name

    def _descriptor(self, item: Descriptor) -> int:
        for index, known in enumerate(self.descriptors):
            if replace(known, name=item.name) == item:
                return index
        self.descriptors.append(replace(item, name=self._name(f"{item.name[:48]}_cut")))
        return len(self.descriptors) - 1

    def _mask(self, reference: TileRef) -> int:
        """A tile of true, valid as far as a tile reached before it grew."""
        old, new = self.program.tiles[reference.tile], self.tiles[reference.tile]
        key = (old.rows, old.columns, new.rows, new.columns)
        if key not in self.masks:
            self.masks[key] = len(self.tiles)
            name = self._name(f"inside_{old.rows}x{old.columns}")
            self.tiles.append(Tile(name, dtypes.bool_, new.rows, new.columns))
        return self.masks[key]


def _sreg(function: str, target: SReg, *operands: Value) -> Instruction:
    values = [*operands, None, None, None, None][:4]
    return Instruction(
        "sreg",
        function,
        engine="scalar",
        x=target.index,
        values=(values[0], values[1], values[2], values[3]),
    )
