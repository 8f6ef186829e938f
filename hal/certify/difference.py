"""What changed between two certificates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hal.certify.results import BAD, PASS

__all__ = ["Difference", "compare"]

SLOWER = 2.0
SLOW_S = 0.5
Results = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Difference:
    """Lines to show, and whether the newer one is worse."""

    lines: list[str]
    is_worse: bool


def compare(
    old: Mapping[str, Any], new: Mapping[str, Any], before: Results, after: Results
) -> Difference:
    """Compare two predicates and, where given, their results by case."""
    lines = [*_facts(old, new)]
    worse, better = _changes(before, after)
    lines += [f"worse     {line}" for line in worse]
    lines += [f"better    {line}" for line in better]
    if before and after:
        lines += [f"gone      {name}" for name in sorted(before.keys() - after.keys())]
        lines += [f"new       {name}" for name in sorted(after.keys() - before.keys())]
    lost = old["verdict"] == "CERTIFIED" != new["verdict"] or new["tier"] < old["tier"]
    return Difference(lines or ["no difference"], bool(worse) or lost)


def _facts(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    for key in ("verdict", "tier", "claim", "seed", "nonce"):
        if old[key] != new[key]:
            yield f"{key:9} {old[key]!r} -> {new[key]!r}"
    for part in ("port", "digests", "numerics", "counts", "environment"):
        for key in sorted({*old[part], *new[part]} - {"started", "seconds"}):
            if old[part].get(key) != new[part].get(key):
                one, two = _short(old[part].get(key)), _short(new[part].get(key))
                yield f"{part:9} {key}: {one} -> {two}"


def _short(value: Any) -> str:
    text = "-" if value in (None, "") else str(value)
    return text[:12] + "…" if len(text) == 64 else text


def _changes(before: Results, after: Results) -> tuple[list[str], list[str]]:
    """Return the cases that got worse and those that got better."""
    worse: list[str] = []
    better: list[str] = []
    for name in sorted(before.keys() & after.keys()):
        one, two = before[name]["status"], after[name]["status"]
        if one != two:
            line = f"{name}: {one} -> {two}"
            (worse if two in BAD or one == PASS else better).append(line)
    return worse, better
