"""`--self-test`: the exam of the suite itself, and the kill matrix that comes of it."""

from __future__ import annotations

import hashlib
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hal.certify.exam import KILLED, SURVIVED, UNCOVERED, Exam, hold_exam

if TYPE_CHECKING:
    from hal.certify.run import Options

__all__ = ["self_test"]

SURVIVOR = 7


def self_test(options: Options) -> int:
    """Hold the exam, write kill_matrix.json and kill_matrix.html, print the survivors."""
    from hal.certify.report import write_kill_matrix

    started = time.monotonic()
    exam = hold_exam(options)
    exam.seconds = round(time.monotonic() - started, 3)
    out = options.out or Path("out") / "self-test"
    out.mkdir(parents=True, exist_ok=True)
    matrix = as_json(exam)
    text = json.dumps(matrix, indent=1, ensure_ascii=False) + "\n"
    (out / "kill_matrix.json").write_text(text, encoding="utf-8")
    write_kill_matrix(matrix, out / "kill_matrix.html")
    for line in summary(exam, out):
        print(line)
    sys.stdout.flush()
    return 0 if exam.is_passed else SURVIVOR


def as_json(exam: Exam) -> dict[str, Any]:
    """Return the kill matrix as it is written; its hash covers everything but times."""
    rows = [
        {
            "id": row.mutant.id,
            "kind": row.mutant.kind,
            "tier": row.mutant.tier,
            "fault": row.mutant.fault,
            "rules": list(row.mutant.rules),
            "fate": row.fate,
            "killers": row.killers,
            "other_failures": row.others,
            "citing": row.citing,
            "ran": row.ran,
        }
        for row in exam.rows
    ]
    fates = {row["id"]: row["fate"] for row in rows}
    digest = hashlib.sha256(json.dumps(fates, sort_keys=True).encode()).hexdigest()
    return {
        "mutants": rows,
        "counts": counts(exam),
        "honest_failures": exam.honest_failures,
        "seconds": exam.seconds,
        "sha256": digest,
    }


def counts(exam: Exam) -> dict[str, int]:
    """Return how many mutants met which fate."""
    return {fate: sum(r.fate == fate for r in exam.rows) for fate in (KILLED, SURVIVED, UNCOVERED)}


def summary(exam: Exam, out: Path) -> list[str]:
    """Return what is printed."""
    lines = []
    for row in exam.rows:
        if row.fate != KILLED:
            what = "no case cites it" if row.fate == UNCOVERED else f"{row.citing} cases cite it"
            others = f"; fails elsewhere: {', '.join(list(row.others)[:2])}" if row.others else ""
            lines.append(f"{row.fate:9} {row.mutant.id}  ({what}{others})  {row.mutant.fault}")
    for name, status in list(exam.honest_failures.items())[:10]:
        lines.append(f"honest    {name} is {status} on the honest port; it cannot kill anything")
    found = counts(exam)
    lines.append(f"kill matrix: {out / 'kill_matrix.html'}")
    lines.append(
        f"{found[KILLED]} of {len(exam.rows)} mutants killed, {found[SURVIVED]} survived, "
        f"{found[UNCOVERED]} uncovered, in {exam.seconds:.1f} s"
    )
    return lines
