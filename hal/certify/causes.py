"""Failures grouped by what is behind them, each with one line that runs one of them again."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hal.certify import results as outcome

__all__ = ["Cause", "group", "likeness", "repro_command"]


@dataclass(frozen=True)
class Cause:
    """Failures that look alike.

    Attributes:
        text: What they have in common.
        status: Their status.
        results: The failures by id.
        rules: Rules that they cite.
    """

    text: str
    status: str
    results: list[dict[str, Any]]
    rules: list[str]

    @property
    def repro(self) -> str:
        """A command that runs the first of them again, alone."""
        return str(self.results[0].get("repro", ""))


def group(results: Iterable[dict[str, Any]]) -> list[Cause]:
    """Group what is bad; the largest group comes first."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for result in results:
        if result["status"] in outcome.BAD:
            text = likeness(result.get("cause") or result.get("message", ""))
            groups.setdefault((result["status"], text), []).append(result)
    causes = []
    for (status, text), members in groups.items():
        rules = sorted({rule for member in members for rule in member["rules"]})
        members.sort(key=lambda member: str(member["id"]))
        causes.append(Cause(text, status, members, rules))
    return sorted(causes, key=lambda cause: (-len(cause.results), cause.text))


def likeness(text: str) -> str:
    """Return a cause without what differs from case to case: long numbers, addresses, indices."""
    line = text.splitlines()[0] if text else ""
    line = re.sub(r"0x[0-9a-f]+", "0x…", line)
    line = re.sub(r"-?\d+\.\d+(e[+-]?\d+)?", "#", line)
    return re.sub(r"\b\d{3,}\b", "#", line)[:160]


def repro_command(case_id: str, settings: Mapping[str, Any]) -> str:
    """Return the command line that runs one case again with the same port, chip and inputs."""
    words = ["hal", "repro", case_id, settings["port"]]
    for option, default in (("hcd", ""), ("device", 0), ("seed", 0), ("nonce", "")):
        if settings.get(option, default) != default:
            words += [f"--{option}", str(settings[option])]
    return shlex.join(words)
