"""The broken ports of the suite's own exam: what is broken, how, and who must notice.

*Generated* mutants come from the registry: libhal's mutate layer breaks a port rule, its validate
layer leaves a host rule out. *Hand-written* ones are ports of `conformance/mutants/`, which
`catalogue.yaml` names:

    port: mutants/hal_port_mutant.so  # below the folder of the libraries
    hcd: some/chip                    # optional: the HCD to open it with, by name or beside it
    mutants:
      - {id: M26, tier: 1, fault: "event signalled at record", rules: [HAL-EVT-022]}

The port gets its fault as the option `mutant=M26`. A mutant may name its own `port` or `hcd`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hal import _paths
from hal.certify.supervisor import Collected, HarnessError

if TYPE_CHECKING:
    from hal.testing.session import Target

__all__ = ["Mutant", "generated", "handwritten", "read_catalogue"]

CATALOGUE = "mutants/catalogue.yaml"


@dataclass(frozen=True)
class Mutant:
    """One fault.

    Attributes:
        id: The rule's id, or the id of mutants.md.
        kind: `layer` (validate leaves a host rule out), `port rule` (mutate breaks one) or `port`.
        fault: One sentence.
        rules: Rules that it breaks; a case that cites one must fail.
        tier: The tier that must catch it.
        session: What differs from the honest run's session.
        target: The broken port, for hand-written ones.
    """

    id: str
    kind: str
    fault: str
    rules: tuple[str, ...]
    tier: int
    session: dict[str, Any] = field(default_factory=dict, compare=False)
    target: Target | None = None

    def citing(self, cases: Iterable[Collected]) -> list[Collected]:
        """Return the cases that cite one of its rules, up to its tier."""
        wanted = set(self.rules)
        return [case for case in cases if wanted & set(case.rules) and case.tier <= self.tier]


def generated(tier: int, cases: Iterable[Collected], answers: Mapping[str, str]) -> list[Mutant]:
    """Return a mutant for each rule that a layer can break.

    Rules of functions that the tier requires always count. Rules of optional functions count when
    a case cites them, and port rules only when the honest port has the function (`answers` of the
    preflight): what is absent cannot be broken.
    """
    from hal.certify.suite import rule_tier
    from hal.testing.abi import RULES

    cited = {rule for case in cases for rule in case.rules}
    found = []
    for rule in RULES:
        if not rule.breaking:
            continue
        host = rule.checked_by == "host"
        if not 0 < rule_tier(rule) <= tier:
            is_there = host or answers.get(rule.function) == "present"
            if rule.id not in cited or not is_there:
                continue
        kind = "layer" if host else "port rule"
        session = {"skipped_rule" if host else "broken_rule": rule.id}
        fault = f"{rule.function}: {rule.breaking.replace('_', ' ')}: {rule.text}"
        found.append(Mutant(rule.id, kind, fault, (rule.id,), tier, session))
    return found


def read_catalogue(suite: Path) -> dict[str, Any]:
    """Return the catalogue of hand-written mutants; empty when the suite has none.

    Raises:
        HarnessError: it is no YAML of the form above.
    """
    import yaml

    path = suite / CATALOGUE
    if not path.is_file():
        return {}
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise HarnessError(f"{path}: {error}", call="hal-certify --self-test") from None
    if not isinstance(found, dict) or not isinstance(found.get("mutants"), list):
        raise HarnessError(f"{path}: no list 'mutants'", call="hal-certify --self-test")
    return found


def handwritten(suite: Path, tier: int) -> list[Mutant]:
    """Return the hand-written mutants that must be caught up to a tier.

    Raises:
        HarnessError: the catalogue is wrong, or a port of it is not built.
    """
    catalogue = read_catalogue(suite)
    targets: dict[tuple[str, str], Target] = {}
    found = []
    for entry in catalogue.get("mutants", []):
        try:
            mutant = Mutant(
                id=str(entry["id"]),
                kind="port",
                fault=str(entry["fault"]),
                rules=tuple(entry["rules"]),
                tier=int(entry["tier"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise HarnessError(
                f"{suite / CATALOGUE}: {entry!r} has no good {error}",
                call="hal-certify --self-test",
            ) from None
        if mutant.tier > tier:
            continue
        port = str(entry.get("port", catalogue.get("port", "")))
        hcd = str(entry.get("hcd", catalogue.get("hcd", "")))
        if (port, hcd) not in targets:
            targets[port, hcd] = _target(port, hcd)
        target = replace(targets[port, hcd], options=f"mutant={mutant.id}\n")
        session = {"target": asdict(target), "device_index": int(entry.get("device", 0))}
        found.append(replace(mutant, session=session, target=target))
    return found


def _target(port: str, hcd: str) -> Target:
    """Return the honest form of a mutant's port: the same library without an option."""
    from hal.testing.target import find

    path = _paths.lib_dir() / port
    if not path.is_file():
        raise HarnessError(
            f"the port of the mutants is not built: {path}",
            call="hal-certify --self-test",
            next_step="Build it with ./start build.",
        )
    beside = _paths.lib_dir() / hcd
    return find(str(path), hcd=str(beside) if hcd and beside.is_file() else hcd)
