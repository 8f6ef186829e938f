"""Statements to groups: strategies are tried in order, and each takes what it knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol

from hal.codegen import tier1
from hal.codegen.errors import CodegenError, Unsuited
from hal.codegen.lowering import Lowering
from hal.codegen.target import Target
from hal.ir.analysis import indices_of
from hal.ir.nodes import Assign, Kernel

__all__ = ["STRATEGIES", "Group", "choose", "fitting", "lower_group"]

STRATEGIES = ("attention", "rows", "product", "named", "gathering", "pointwise")
"""Modules of hal.codegen, the first that matches wins.

Each has `match(kernel, statements, target)`, which gives None or an object whose `statements` are
the first few of those given; `candidates(match, target, sizes)`, a list of choices, the best first;
`cost(match, choice, target, sizes)` in seconds; and `lower(lowering, match, choice)`.
"""


class Match(Protocol):
    """What a strategy takes."""

    @property
    def statements(self) -> tuple[Assign, ...]: ...


@dataclass(frozen=True)
class Group:
    """Statements that one strategy lowers.

    Attributes:
        strategy: Its name.
        match: What it found.
        choices: Its candidates, the best first.
    """

    strategy: str
    match: Match
    choices: tuple[Any, ...]

    @property
    def module(self) -> Any:
        """The strategy's module."""
        return import_module(f"hal.codegen.{self.strategy}")


def choose(
    kernel: Kernel,
    rest: Sequence[Assign],
    target: Target,
    sizes: Mapping[str, int],
    *,
    started: set[str],
    strategies: Sequence[str] = STRATEGIES,
) -> tuple[Group, Any]:
    """The group at the head of the statements (lets inlined) and its choice.

    Args:
        started: Arrays that earlier statements wrote.
        strategies: Those to try, in order; the first with a choice that fits the chip wins.

    Raises:
        CodegenError: none takes the statement and fits; the message has the last reason.
    """
    reasons: list[str] = []
    for name in strategies:
        if find_spec(f"hal.codegen.{name}") is None:
            continue
        strategy = import_module(f"hal.codegen.{name}")
        match = strategy.match(kernel, rest, target)
        if match is None:
            continue
        group = Group(name, match, tuple(strategy.candidates(match, target, sizes)))
        choice = fitting(kernel, target, group, started, reasons)
        if choice is not None:
            return group, choice
    text = f"does not fit {target.name}: {reasons[-1]}" if reasons else "no way to run it is known"
    raise CodegenError(text, span=rest[0].span)


def lower_group(lowering: Lowering, group: Group, choice: Any) -> None:
    """Adds a group's launches.

    Raises:
        Unsuited: the choice does not do.
    """
    group.module.lower(lowering, group.match, choice)


def fitting(
    kernel: Kernel, target: Target, group: Group, started: set[str], reasons: list[str]
) -> Any:
    """The first choice whose programs are valid on the chip; None, and why, without one."""
    from hal.vil.validator import validate

    advised = getattr(group.module, "HONOURS_ADVICE", False) and _is_advised(group, target)
    for number, choice in enumerate(group.choices):
        if advised and number == 1:
            raise _unfit(kernel, target, group, started, reasons[-1])
        trial = Lowering(kernel, target, started=started)
        try:
            lower_group(trial, group, choice)
            module = tier1.lower(trial.module(), target)
        except Unsuited as error:
            reasons.append(str(error))
            continue
        problems = validate(module, target.data or None)
        if not problems:
            return choice
        reasons.append("; ".join(f"{p.where}: {p.text}" for p in problems[:3]))
    return None


def _unfit(
    kernel: Kernel, target: Target, group: Group, started: set[str], reason: str
) -> CodegenError:
    """The refusal of a schedule's tiles, with the choice that fits."""
    alone = replace(target, advice=None)
    own = fitting(kernel, alone, replace(group, choices=group.choices[1:]), started, [])
    return CodegenError(
        f"the schedule's tiles do not fit {target.name}: {reason}",
        next_step=f"What fits, and is taken without a schedule, is {own}." if own else "",
        span=None if target.advice is None else target.advice.span,
    )


def _is_advised(group: Group, target: Target) -> bool:
    """True when the user's schedule cuts an index of the group."""
    if target.advice is None:
        return False
    statements = group.match.statements
    names = {n for s in statements for part in (*s.targets, s.value) for n in indices_of(part)}
    return any(name in names for name, _ in target.advice.tiles)
