"""Compares two statements about a chip by the rule that the schema gives each leaf."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from hal.errors import HcdError
from hal.hcd import schema as language
from hal.hcd.model import Hcd


class Row(NamedTuple):
    """One leaf of a comparison.

    `verdict` is pass, fail, warn (more was reported than declared) or unchecked (the rule is info,
    or one side says nothing).
    """

    path: str
    rule: str
    declared: Any
    reported: Any
    verdict: str
    probe: str | None


def compare(declared: Hcd, reported: Mapping[str, Any] | Hcd) -> list[Row]:
    """One row per declared leaf, and one per reported leaf that was not declared.

    Args:
        declared: What the description says.
        reported: What the port, a probe or another description says, by path.

    Raises:
        HcdError: a reported path is not part of the language.
    """
    if isinstance(reported, Hcd) and _root(reported.kind) != _root(declared.kind):
        raise HcdError(
            f"{declared.name} is a {declared.kind} and {reported.name} is a {reported.kind}",
            call="hcd compare",
            next_step="Only two of one kind can be compared.",
        )
    other = dict(reported.items())
    mine = dict(declared.items())
    rows = []
    kind = _root(declared.kind)
    for path in sorted(mine.keys() | other.keys()):
        try:
            leaf = language.leaf_at(kind, path)
        except HcdError:
            if path in mine and path not in other:
                continue  # Below extra, which has no leaves of its own.
            if path in mine or path.startswith("extra."):
                leaf = {"x-compare": "info"}
            else:
                raise
        rule = leaf["x-compare"]
        ours, theirs = mine.get(path), other.get(path)
        verdict = judge(rule, ours, theirs)
        rows.append(Row(path, rule, ours, theirs, verdict, leaf.get("x-probe")))
    return rows


def _root(kind: str) -> str:
    return "chip" if kind == "part" else kind


def judge(rule: str, declared: Any, reported: Any) -> str:
    """pass, fail, warn or unchecked for one pair; None means that a side says nothing."""
    if rule == "implies":
        if bool(declared) and reported is False:
            return "fail"
        if not declared and reported:
            return "warn"
        return "unchecked" if reported is None else "pass"
    if rule == "info" or declared is None or reported is None:
        return "unchecked"
    return "pass" if holds(rule, declared, reported) else "fail"


def holds(rule: str, declared: Any, reported: Any) -> bool:
    """Whether what is reported keeps what is declared, for the rules other than info."""
    if rule == "superset":
        return set(_items(reported)) >= set(_items(declared))
    if isinstance(declared, list) and rule != "exact":
        if not isinstance(reported, list) or len(reported) != len(declared):
            return False
        return all(holds(rule, d, r) for d, r in zip(declared, reported, strict=True))
    if rule == "implies":
        return bool(reported) or not declared
    if rule == "exact" or not (_is_number(declared) and _is_number(reported)):
        return bool(declared == reported) and isinstance(declared, bool) == isinstance(
            reported, bool
        )
    if rule == "at_least":
        return bool(reported >= declared)
    if rule == "at_most":
        return bool(reported <= declared)
    share = float(rule.partition(":")[2])
    return bool(abs(reported - declared) <= share * abs(declared))


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
