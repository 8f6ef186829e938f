"""The verdict: derived from the required list and the results file alone, never from counters.

`hal cert` derives it again in the same way, so a verdict can be checked by anyone who has the
results.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hal.certify import results as outcome
from hal.wording import counted

__all__ = ["Verdict", "derive", "skip_problem"]

CERTIFIED = "CERTIFIED"
NOT_CERTIFIED = "NOT CERTIFIED"
INCOMPLETE = "INCOMPLETE"
VOID = "VOID"

ACCEPTED = (outcome.PASS,)
"""Statuses that count as passed."""

EXIT_CODES = {CERTIFIED: 0, NOT_CERTIFIED: 1, INCOMPLETE: 4, VOID: 4}


SKIPPABLE = ("features.", "dtypes.", "kernels.vil")
"""What a case may be skipped for: starts of HCD paths."""

DENIALS = ("UNSUPPORTED", "INVALID_MODULE", "declared, unchecked")
"""What a probe says when the chip lacks something."""


def _is_denied(probe: str) -> bool:
    return any(word in probe for word in DENIALS)


@dataclass(frozen=True)
class Verdict:
    """What may be said about the port.

    Attributes:
        word: CERTIFIED, NOT CERTIFIED, INCOMPLETE or VOID.
        reasons: Why it is not CERTIFIED, one sentence each.
        counts: Required cases by status; a required case without a result counts as NOT_RUN.
    """

    word: str
    reasons: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def exit_code(self) -> int:
        """The process's exit status."""
        return EXIT_CODES[self.word]


def skip_problem(result: Mapping[str, Any], flat: Mapping[str, str]) -> str:
    """Say why a skip is not legal; empty when all witnesses agree and the HCD claims nothing."""
    path = result.get("capability", "")
    witnesses = result.get("witnesses")
    if not path or not isinstance(witnesses, dict):
        return "a skip that names no capability of the HCD"
    if {"hcd", "query", "probe"} - witnesses.keys():
        return f"a skip for {path} without all three witnesses"
    if not path.startswith(SKIPPABLE):
        return f"a skip for {path}, which no case may be skipped for"
    if witnesses["query"] not in ("0", "NOT_FOUND") or not _is_denied(witnesses["probe"]):
        return f"a skip for {path}, which a witness does not deny: {witnesses}"
    if flat.get(path, "") not in ("", "false", "none", "0", "null"):
        return f"a skip for {path}, which the HCD claims ({flat[path]})"
    return ""


def derive(
    required: Sequence[str],
    reading: outcome.Reading,
    flat: Mapping[str, str],
    *,
    void: Sequence[str] = (),
    refused: str = "",
) -> Verdict:
    """Return the verdict.

    Args:
        required: The ids of the required list.
        reading: The results file.
        flat: The flat HCD, the only switch of skips.
        void: Why this run cannot certify anything, whatever its results.
        refused: Why no case could run, as the preflight found.
    """
    final = outcome.latest(reading.results)
    counts: Counter[str] = Counter()
    bad: list[str] = []
    incomplete = list(reading.problems)
    for name in required:
        result = final.get(name)
        status = str(result["status"]) if result is not None else outcome.NOT_RUN
        if result is not None and status == outcome.SKIP:
            problem = skip_problem(result, flat)
            if problem:
                bad.append(f"{name}: {problem}")
        elif status not in (*ACCEPTED, outcome.NOT_RUN):
            bad.append(name)
        counts[status] += 1
    twice = _more_than_once(reading.results)
    incomplete += [f"{name} has two results" for name in twice]
    if counts[outcome.NOT_RUN] and outcome.NOT_RUN not in ACCEPTED:
        incomplete.append(f"{counted(counts[outcome.NOT_RUN], 'required case')} did not run")
    if not required:
        incomplete.append("the required list is empty")
    ordered = {status: counts[status] for status in outcome.STATUSES if counts[status]}
    if refused:
        return Verdict(NOT_CERTIFIED, [refused], ordered)
    if bad:
        return Verdict(NOT_CERTIFIED, [_failed(bad, len(required))], ordered)
    if void:
        return Verdict(VOID, [*void], ordered)
    if incomplete:
        return Verdict(INCOMPLETE, incomplete, ordered)
    return Verdict(CERTIFIED, [], ordered)


def _failed(bad: list[str], total: int) -> str:
    illegal = [line for line in bad if ": a skip" in line]
    tail = f"; {illegal[0]}" if illegal else ""
    return f"{len(bad)} of {counted(total, 'required case')} did not pass{tail}"


def _more_than_once(results: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return ids with more than one result, results of cases that had not run aside."""
    counts = Counter(result["id"] for result in results if result["status"] != outcome.NOT_RUN)
    return [name for name, count in counts.items() if count > 1]
