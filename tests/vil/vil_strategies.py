"""Hypothesis strategies of VIL: valid cases whose failures shrink."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from hypothesis import strategies as st

from hal.vil.check_chip import Limits
from hal.vil.generate import Case, generate

Item = TypeVar("Item")


class Drawn:
    """`hal.vil.generate.Choices` on hypothesis."""

    def __init__(self, draw: Any) -> None:
        self._draw = draw

    def integer(self, low: int, high: int) -> int:
        return int(self._draw(st.integers(low, high)))

    def pick(self, items: Sequence[Item]) -> Item:
        return items[self.integer(0, len(items) - 1)]


@st.composite
def cases(draw: Any, limits: Limits | None = None, *, exact: bool = True, steps: int = 6) -> Case:
    """Valid cases for a chip."""
    return generate(Drawn(draw), limits, steps=steps, exact=exact)  # type: ignore[arg-type]
