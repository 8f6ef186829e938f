"""What one measurement gives: a value, its spread, and its leaf of the description."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median

__all__ = ["Figure", "Spread"]


@dataclass(frozen=True)
class Spread:
    """Several measurements of one thing.

    Attributes:
        values: One of each round that gave a number above zero.
        rounds: How many rounds there were.
    """

    values: tuple[float, ...]
    rounds: int

    @property
    def is_sound(self) -> bool:
        """Whether most rounds gave a number: no time of zero, none longer for less work."""
        return 2 * len(self.values) > self.rounds

    @property
    def low(self) -> float:
        """The least."""
        return min(self.values)

    @property
    def middle(self) -> float:
        """The median."""
        return median(self.values)

    @property
    def high(self) -> float:
        """The greatest."""
        return max(self.values)


@dataclass(frozen=True)
class Figure:
    """One line of the table that `hal hcd measure` prints.

    Attributes:
        what: What was measured, for people.
        unit: Of the values.
        spread: The measurements; None where there is none, and then `note` says why.
        paths: Leaves of the description that take the median; empty where it has none.
        low_paths: Leaves that take the least: promises.
        is_floor: The chip can do more than a generated kernel shows, so that the larger number of
            a datasheet, or of a model that is exact, stays.
        declared: The value of the first path in the device's own description; None when absent.
        note: How it was measured, or why it was not.
        extra: What must stand beside the leaves, by path.
    """

    what: str
    unit: str
    spread: Spread | None
    paths: tuple[str, ...] = ()
    low_paths: tuple[str, ...] = ()
    is_floor: bool = False
    declared: float | None = None
    note: str = ""
    extra: dict[str, object] = field(default_factory=dict)
