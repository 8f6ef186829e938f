"""Checks a certificate against the files beside it: the stated verdict is ignored and made anew."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hal.certify import results as outcome
from hal.certify.certificate import read_certificate
from hal.certify.suite import read_required, required_hash, suite_folder
from hal.certify.verdict import derive
from hal.errors import HalError

__all__ = ["Verification", "verify"]

UNPROVEN = (
    "that the results come from this port: nobody signed them and nobody watched",
    "that the port does the same outside of certification",
)


@dataclass
class Verification:
    """What a check found.

    Attributes:
        problems: Why the certificate cannot be believed.
        notes: What could not be checked here.
        derived: The verdict that the results give.
    """

    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    derived: str = ""


def verify(place: Path, port: Path | None = None) -> Verification:
    """Check the certificate of a run's folder.

    Args:
        place: The folder, or the certificate in it.
        port: The shared object that the certificate is about, to compare its hash.

    Raises:
        UsageError: there is no certificate.
    """
    predicate = read_certificate(place)["predicate"]
    folder = place if place.is_dir() else place.parent
    found = Verification()
    reading = outcome.read(folder / "results.jsonl")
    found.problems += reading.problems
    _same(found, "results.jsonl", _hash(folder / "results.jsonl"), predicate["digests"]["results"])
    _same(found, "the chain's end", reading.chain, predicate["chain"])
    flat = _flat(folder, predicate, found)
    required = _required(predicate, found)
    if port is not None:
        _same(found, str(port), _hash(port), predicate["digests"]["port"])
    verdict = derive(required, reading, flat, void=_void(predicate), refused=_refused(predicate))
    found.derived = verdict.word
    if verdict.word != predicate["verdict"]:
        found.problems.append(f"it says {predicate['verdict']}, its results say {verdict.word}")
    if verdict.counts != predicate["counts"]:
        found.problems.append(f"it counts {predicate['counts']}, its results give {verdict.counts}")
    return found


def _same(found: Verification, what: str, actual: str, stated: str) -> None:
    if actual != stated:
        shown = f"{actual[:16] or 'nothing'}…, the certificate says {stated[:16] or 'nothing'}…"
        found.problems.append(f"{what} is {shown}")


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def _flat(folder: Path, predicate: Mapping[str, Any], found: Verification) -> dict[str, str]:
    """Return the chip's HCD, which decides which skips are legal."""
    from hal.testing.session import flat_values

    path = folder / "chip.flat"
    _same(found, "chip.flat", _hash(path), predicate["digests"]["hcd"])
    return flat_values(path.read_text(encoding="utf-8")) if path.is_file() else {}


def _required(predicate: Mapping[str, Any], found: Verification) -> list[str]:
    """Return the required list of this installation, when it is the certificate's."""
    try:
        ids = read_required(suite_folder(), int(predicate["tier"]))
    except HalError as error:
        found.problems.append(str(error))
        return []
    if required_hash(ids) != predicate["digests"]["required"]:
        found.problems.append(
            "its required list is another than this installation's: verify with the release "
            f"that made it (hal {predicate['environment']['hal']})"
        )
    return ids


def _void(predicate: Mapping[str, Any]) -> list[str]:
    """Return why the run was void; only the run itself knows that."""
    return list(predicate["reasons"]) if predicate["verdict"] == "VOID" else []


def _refused(predicate: Mapping[str, Any]) -> str:
    """Return why no case could run; only the run itself knows that."""
    ran = set(predicate["counts"]) - {outcome.NOT_RUN}
    reasons = predicate["reasons"]
    return reasons[0] if predicate["verdict"] == "NOT CERTIFIED" and not ran and reasons else ""
