"""Roles: where the value of an index comes from in a program."""

from __future__ import annotations

from dataclasses import dataclass

from hal.vil.expressions import Const, Expr
from hal.vil.model import SReg, Value

__all__ = ["Fixed", "Part", "Placed", "Role", "TileAxis"]

ONE = Const(1)
ZERO = Const(0)


@dataclass(frozen=True, slots=True)
class Fixed:
    """One value per program or turn of a loop: a program id, a counter, an expression."""

    value: Value


@dataclass(frozen=True, slots=True)
class Placed:
    """A digit of the position along a tile axis: `position // divisor % size`.

    Attributes:
        axis: `row`, `column`, or `flat`: both together, row by row.
        size: None for the outermost index of the axis, whose digit needs no modulus.
        extent: Extent of the index.
    """

    axis: str
    divisor: Expr
    size: Expr | None
    extent: Expr


Role = Fixed | Placed


@dataclass(frozen=True, slots=True)
class TileAxis:
    """One axis of the tiles of a program.

    Attributes:
        length: Rows or columns of a tile.
        origin: Position of the tile's first element.
        limit: End of the positions: the product of the extents; None: the array's bounds say it.
    """

    length: int = 1
    origin: Value = ZERO
    limit: Expr | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """One term of a coordinate: coefficient · (a digit of an axis, or an SREG)."""

    source: str  # row, column, flat or sreg
    coefficient: Expr
    divisor: Expr = ONE
    size: Expr | None = None
    sreg: SReg | None = None
