"""What a rule reports."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from hal.ir.nodes import Kernel, Span

__all__ = ["Finding", "Problem", "Rule"]


@dataclass(frozen=True, slots=True)
class Finding:
    """A broken rule, before it has the rule's name."""

    text: str
    span: Span | None = None
    next_step: str = ""


@dataclass(frozen=True, slots=True)
class Problem:
    """One broken rule of a kernel.

    Attributes:
        rule: Its id, as `HAL-IR-005`.
        text: What is wrong, with both values.
        span: Where, in the text that the kernel came from; None for one made in Python.
        next_step: What to do about it.
    """

    rule: str
    text: str
    span: Span | None
    next_step: str

    def __str__(self) -> str:
        step = f". {self.next_step}" if self.next_step else ""
        return f"{self.text}{step} ({self.rule})"


@dataclass(frozen=True, slots=True)
class Rule:
    """A row of the table: id, the law in one sentence, what looks for breaks of it."""

    id: str
    law: str
    find: Callable[[Kernel], Iterator[Finding]]
