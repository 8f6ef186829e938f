"""The suite on disk: where it lies, its hash, its list of required cases, and its own health."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hal import _paths
from hal.certify.supervisor import Collected, HarnessError

if TYPE_CHECKING:
    from hal.testing.abi import Rule

__all__ = [
    "check_suite",
    "paths_of",
    "read_required",
    "required_hash",
    "required_lists",
    "rule_tier",
    "suite_folder",
    "suite_hash",
    "uncovered_rules",
]

CONTROLS = Path(__file__).with_name("controls.py")
HEAD = "# The cases of {path}; each must pass. Written by python -m hal.certify.required.\n"


def suite_folder() -> Path:
    """Return the folder of the suite."""
    return _paths.conformance_dir()


def paths_of(suite: Path, tier: int) -> list[Path]:
    """Return what to collect for a tier: its folder, those below it, and the controls."""
    folders = [suite / f"tier{number}" for number in range(1, tier + 1)]
    missing = [folder for folder in folders if not folder.is_dir()]
    if missing:
        raise HarnessError(
            f"the suite has no {missing[0].name}: {missing[0]}",
            call="hal-certify",
            next_step="Ask for a lower tier, or install a release that has it.",
        )
    return [CONTROLS, *folders]


def suite_hash(suite: Path) -> str:
    """Return the SHA-256 of everything that decides a verdict: cases, tools and harness."""
    package = _paths.PACKAGE
    sources = [*suite.rglob("*.py"), *(package / "testing").glob("*.py")]
    sources += (package / "certify").glob("*.py")
    digest = hashlib.sha256()
    for path in sorted(sources):
        base = suite if path.is_relative_to(suite) else package
        digest.update(f"{path.relative_to(base).as_posix()}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


# ---- the required list ----


def _list_folder(suite: Path, tier: int) -> Path:
    return suite / "required" / f"tier{tier}"


def read_required(suite: Path, tier: int) -> list[str]:
    """Return the ids that a port must pass up to a tier, in order.

    Raises:
        HarnessError: a list is missing, holds an id twice or in a wrong order.
    """
    ids: list[str] = []
    for number in range(1, tier + 1):
        folder = _list_folder(suite, number)
        paths = sorted(folder.glob("*.txt"))
        if not paths:
            raise HarnessError(
                f"{folder} holds no list", call="hal-certify", next_step=_NEXT.format(path=folder)
            )
        for path in paths:
            lines = path.read_text(encoding="utf-8").splitlines()
            found = [line for line in lines if line and not line.startswith("#")]
            if found != sorted(set(found)):
                raise HarnessError(
                    f"{path} is not sorted or names a case twice",
                    call="hal-certify",
                    next_step=_NEXT.format(path=folder),
                )
            ids += found
    return ids


def required_hash(ids: Iterable[str]) -> str:
    """Return the SHA-256 of the required ids."""
    return hashlib.sha256("".join(f"{name}\n" for name in ids).encode()).hexdigest()


def required_lists(suite: Path, cases: Sequence[Collected]) -> dict[Path, str]:
    """Return the text of each list by its path, as the collected cases make it."""
    lists: dict[Path, list[str]] = {}
    for case in cases:
        if not case.is_control:
            path = _list_folder(suite, case.tier) / f"{case.group}.txt"
            lists.setdefault(path, []).append(case.id)
    return {
        path: HEAD.format(path=Path(ids[0].partition("::")[0]))
        + "".join(f"{name}\n" for name in sorted(ids))
        for path, ids in lists.items()
    }


_NEXT = "Run python -m hal.certify.required and look at the difference in {path}."


# ---- health ----


def check_suite(cases: Sequence[Collected], required: Sequence[str], suite: Path) -> None:
    """Refuse a suite that cannot be believed.

    Raises:
        HarnessError: with all problems at once.
    """
    from hal.testing.abi import RULE_BY_ID

    problems: list[str] = []
    own = [case for case in cases if not case.is_control]
    seen: set[str] = set()
    for case in own:
        if case.id in seen:
            problems.append(f"{case.id}: the id is there twice")
        seen.add(case.id)
        if not case.decorated:
            problems.append(f"{case.id}: not a case; decorate it with hal.testing.case")
        unknown = [rule for rule in case.rules if rule not in RULE_BY_ID]
        problems += [f"{case.id}: there is no rule {rule}" for rule in unknown]
        if "\n" in case.id:
            problems.append(f"{case.id!r}: an id is one line")
    problems += [f"{name}: required, but the suite has no such case" for name in
                 sorted(set(required) - seen)]  # fmt: skip
    problems += [f"{name}: not in the required list" for name in sorted(seen - set(required))]
    if problems:
        shown = "\n".join(f"  {problem}" for problem in problems[:20])
        more = f"\n  and {len(problems) - 20} more" if len(problems) > 20 else ""
        raise HarnessError(
            f"the suite cannot be believed:\n{shown}{more}\n",
            call="hal-certify",
            next_step=_NEXT.format(path=suite / "required"),
        )


LAW_TIERS = {"VIL": 2, "SYS": 3}
"""Tier of the laws of no single function, by the middle part of their id; 1 for all others."""


def rule_tier(rule: Rule) -> int:
    """Return the lowest tier at which a rule must hold; 0 for a function that may be absent."""
    from hal.testing.abi import FUNCTION_BY_CALL

    function = FUNCTION_BY_CALL.get(rule.function)
    return function.tier if function is not None else LAW_TIERS.get(rule.id.split("-")[1], 1)


def uncovered_rules(cases: Iterable[Collected], tier: int) -> list[str]:
    """Return the ids of the tier's rules that no case cites, in the registry's order."""
    from hal.testing.abi import RULES

    cited = {rule for case in cases if case.tier <= tier for rule in case.rules}
    return [r.id for r in RULES if 0 < rule_tier(r) <= tier and r.id not in cited]
