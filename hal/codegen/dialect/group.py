"""Operations of one shape that run in one loop over the elements.

A group holds consecutive LOAD, STORE, FILL, IOTA, UN, BIN, SEL, CAST, COPY, RNG, GATHER, SCATTER
and RED over columns whose results have one shape and one valid region. Inside the loop a tile is
a variable; only a tile that is read behind the group is written to memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hal.codegen.dialect.access import Access
from hal.codegen.dialect.folds import Fold
from hal.codegen.dialect.scope import Scope
from hal.vil.model import Instruction

__all__ = ["Group", "Member"]


@dataclass
class Member:
    """One operation of a group, with what was known where it stood.

    Attributes:
        position: Number of the instruction, which a fault names.
        values: Names of the values v0 … v3.
        data: Name of the buffer or near tile that `access` goes to.
        near: Valid rows, valid columns and columns of the near tile.
        pointers: Memory of the tile operands by role.
        fill: The element of LOAD outside, or of FILL.
        room: Where the elements of a STORE wait for their way past the caches.
    """

    item: Instruction
    position: int
    values: tuple[str, str, str, str] = ("0", "0", "0", "0")
    access: Access | None = None
    data: str = ""
    near: tuple[str, str, int] | None = None
    pointers: dict[str, str] = field(default_factory=dict)
    fill: str = "0"
    room: str = ""
    fold: Fold | None = None
    result: str = ""


class Group:
    """A loop under construction."""

    def __init__(self, scope: Scope, shape: tuple[int, int], region: tuple[str, str]) -> None:
        self.scope = scope
        self.shape = shape
        self.region = region
        self.members: list[Member] = []
        self.current: dict[int, str] = {}  # Tile to the variable that holds its element.
        self.touched: set[int] = set()  # Tiles whose memory the group reads.
        self.folded: set[int] = set()  # Tiles that are complete only at the end of a row or later.
        self.loaded: dict[str, list[Access | None]] = {}
        self.stored: dict[str, list[Access | None]] = {}

    # --- what fits -----------------------------------------------------------------------------

    def takes(self, item: Instruction, shape: tuple[int, int], region: tuple[str, str]) -> bool:
        """True when an operation with this result shape and region may join, memory aside."""
        if shape != self.shape or region != self.region:
            return False
        tiles = self.scope.program.tiles
        for reference in (item.a, item.b, item.c):
            if reference is None:
                continue
            if reference.tile in self.folded:
                return False
            if reference.tile in self.current:
                tile = tiles[reference.tile]
                if (tile.rows, tile.columns) != shape or tile.stages > 1:
                    return False
        return item.d is None or (item.d.tile not in self.folded)

    def may_touch(self, buffer: str, access: Access, *, write: bool) -> bool:
        """True when an access to a buffer cannot meet another element's access in the group."""
        others = self.stored.get(buffer, []) + (self.loaded.get(buffer, []) if write else [])
        return all(
            other is not None and other.place == access.place and other.is_dense for other in others
        )

    def join(self, member: Member, buffer: str = "") -> None:
        """Adds an operation."""
        self.members.append(member)
        item = member.item
        for reference in (item.a, item.b, item.c):
            if reference is not None and reference.tile not in self.current:
                self.touched.add(reference.tile)
        if item.op in ("load", "gather") and buffer:
            self.loaded.setdefault(buffer, []).append(member.access)
        if item.op in ("store", "scatter") and buffer:
            sure = member.access if item.op == "store" else None
            self.stored.setdefault(buffer, []).append(sure)
        if item.op == "red" or (item.op == "store" and item.d is not None):
            assert item.d is not None
            self.folded.add(item.d.tile)
        elif item.d is not None:
            member.result = self.scope.fresh("x")
            self.current[item.d.tile] = member.result
