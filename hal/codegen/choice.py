"""A choice of tiles for one group of statements, and the ranking of choices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["MAX_RANKED", "Choice", "Ranked", "rank"]

MAX_RANKED = 16
"""Choices that the cold path keeps."""


@dataclass(frozen=True, slots=True)
class Choice:
    """How one group of statements is cut into programs; never changes a result beyond rounding.

    Attributes:
        strategy: Name of the strategy that made it.
        tiles: (axis, length) pairs; the axes' names are the strategy's, as `rows`.
        split: Parts of the inner axis that run side by side; their sums are added afterwards.
        stages: Tiles in flight for each operand; a hint for chips with an explicit profile.
        order: Which axis the grid runs over first: `columns` or `rows`.
        layouts: (operand, layout) pairs, hints.
    """

    strategy: str
    tiles: tuple[tuple[str, int], ...] = ()
    split: int = 1
    stages: int = 1
    order: str = "columns"
    layouts: tuple[tuple[str, str], ...] = ()

    def length(self, axis: str) -> int:
        """Length of the tile along an axis; 1 where the choice names none."""
        return dict(self.tiles).get(axis, 1)

    def layout(self, operand: str) -> str:
        """Layout of an operand's tile; `row` where the choice names none."""
        return dict(self.layouts).get(operand, "row")

    def plain(self) -> dict[str, Any]:
        """The choice as JSON values; `of` reads it back."""
        return {
            "strategy": self.strategy,
            "tiles": dict(self.tiles),
            "split": self.split,
            "stages": self.stages,
            "order": self.order,
            "layouts": dict(self.layouts),
        }

    @staticmethod
    def of(plain: Mapping[str, Any]) -> Choice:
        """The choice that `plain` wrote. Raises KeyError or TypeError for anything else."""
        return Choice(
            str(plain["strategy"]),
            tuple((str(axis), int(length)) for axis, length in plain["tiles"].items()),
            int(plain["split"]),
            int(plain["stages"]),
            str(plain["order"]),
            tuple((str(operand), str(name)) for operand, name in plain["layouts"].items()),
        )

    def __str__(self) -> str:
        lengths = ", ".join(f"{axis} {length}" for axis, length in self.tiles)
        extra = [f"split {self.split}"] if self.split > 1 else []
        extra += [f"stages {self.stages}"] if self.stages > 1 else []
        extra += [f"{self.order} first"] if self.order != "columns" else []
        return "; ".join([f"{self.strategy}: {lengths}", *extra])


@dataclass(frozen=True, slots=True)
class Ranked:
    """A choice and the seconds that are predicted for it."""

    choice: Choice
    seconds: float


def rank(
    choices: Sequence[Choice], cost: Callable[[Choice], float], *, most: int = MAX_RANKED
) -> list[Ranked]:
    """The best choices, the fastest first; of equal ones the earlier."""
    ranked = [Ranked(choice, cost(choice)) for choice in choices]
    return sorted(ranked, key=lambda item: item.seconds)[:most]
