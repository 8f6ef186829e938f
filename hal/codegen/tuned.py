"""Choices that somebody asks for, in place of the first of the closed form's ranking."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hal.codegen.choice import Choice
from hal.codegen.groups import Group, fitting
from hal.codegen.target import Target
from hal.ir.nodes import Kernel

__all__ = ["all_candidates", "plain", "preferred"]


def all_candidates(group: Group, target: Target, sizes: Mapping[str, int]) -> tuple[Any, ...]:
    """Every choice of a group's strategy, the most promising first."""
    every = getattr(group.module, "all_candidates", None)
    return group.choices if every is None else tuple(every(group.match, target, sizes))


def plain(strategy: str, choice: Any) -> dict[str, Any]:
    """A choice as JSON values."""
    value = choice.plain() if isinstance(choice, Choice) else str(choice)
    return {"strategy": strategy, "choice": value}


def _restored(group: Group, wanted: Any) -> Any:
    """The choice object of what `plain` made; None where it is none of this group's strategy."""
    if not isinstance(wanted, dict) or wanted.get("strategy") != group.strategy:
        return None
    value = wanted.get("choice")
    if isinstance(value, str):
        return next((choice for choice in group.choices if str(choice) == value), None)
    try:
        return Choice.of(value) if isinstance(value, dict) else None
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def preferred(
    kernel: Kernel, target: Target, group: Group, best: Any, started: set[str], wanted: Any
) -> Any:
    """The wanted choice of a group where it fits the chip, else `best`.

    Args:
        wanted: What `plain` made, a choice, or None.
    """
    choice = _restored(group, wanted) if isinstance(wanted, dict) else wanted
    if choice is None or choice == best:
        return best
    alone = Group(group.strategy, group.match, (choice,))
    found = fitting(kernel, target, alone, started, [])
    return best if found is None else found
