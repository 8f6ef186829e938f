"""What the validator reports."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Problem"]


@dataclass(frozen=True, slots=True)
class Problem:
    """One broken rule.

    Attributes:
        where: Part of the module, as "program mm, line 12, `mma c, a, b`".
        text: What is wrong, and what is allowed.
        rule: Short name of the rule: structure, types, shape, control, overlap, tokens, binding
            or chip.
        line: Line of the text the module came from; 0 when unknown.
    """

    where: str
    text: str
    rule: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.where}: {self.text}"
