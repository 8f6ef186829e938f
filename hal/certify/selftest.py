"""`--self-test`: the suite's own exam. Every mutant must be killed by a case that cites its rule.

First the honest port runs, because only a case that passes there can notice anything. Then each
mutant runs on the cases that cite its rules and on a seeded share of the rest, in the children of
one fork server. `kill_matrix.json` has the outcome.
"""

from __future__ import annotations

import hashlib
import json
import random
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hal.certify import results as outcome
from hal.certify.examine import examine
from hal.certify.mutants import Mutant, generated, handwritten
from hal.certify.progress import Progress
from hal.certify.suite import check_suite, paths_of, read_required
from hal.certify.supervisor import Collected, Job, Supervisor
from hal.errors import UsageError

if TYPE_CHECKING:
    from hal.certify.run import Options

__all__ = ["Exam", "Row", "self_test"]

KILLED, SURVIVED, UNCOVERED = "killed", "survived", "uncovered"
REST_SHARE = 0.02
CITING_LIMIT = 12
LIMIT_FACTOR = 5.0
LIMIT_FLOOR_S = 3.0
SURVIVOR = 7


@dataclass
class Row:
    """What happened to one mutant.

    Attributes:
        killers: Cases that failed and cite a rule of it, with their status.
        others: Cases that failed and cite none; they do not count.
        ran: Cases that ran.
        citing: Cases that cite a rule of it and pass on the honest port.
        share: A drawn share of the other cases.
    """

    mutant: Mutant
    killers: dict[str, str] = field(default_factory=dict)
    others: dict[str, str] = field(default_factory=dict)
    ran: int = 0
    citing: list[Collected] = field(default_factory=list)
    share: list[Collected] = field(default_factory=list)

    @property
    def fate(self) -> str:
        """killed, survived, or uncovered when no honest case cites a rule of it."""
        if self.killers:
            return KILLED
        return SURVIVED if self.citing else UNCOVERED


@dataclass
class Exam:
    """The whole exam."""

    rows: list[Row]
    honest_failures: dict[str, str]
    seconds: float = 0.0

    @property
    def is_passed(self) -> bool:
        """Whether every mutant was killed."""
        return all(row.fate == KILLED for row in self.rows)


def self_test(options: Options) -> int:
    """Run the exam, write kill_matrix.json and kill_matrix.html, print the survivors."""
    started = time.monotonic()
    exam = hold_exam(options)
    exam.seconds = round(time.monotonic() - started, 3)
    out = options.out or Path("out") / "self-test"
    out.mkdir(parents=True, exist_ok=True)
    matrix = as_json(exam)
    text = json.dumps(matrix, indent=1, ensure_ascii=False) + "\n"
    (out / "kill_matrix.json").write_text(text, encoding="utf-8")
    from hal.certify.report import write_kill_matrix

    write_kill_matrix(matrix, out / "kill_matrix.html")
    for line in summary(exam, out):
        print(line)
    sys.stdout.flush()
    return 0 if exam.is_passed else SURVIVOR


def hold_exam(options: Options) -> Exam:
    """Run the honest port and all mutants.

    Raises:
        UsageError: the honest port does not come up.
        HarnessError: the suite cannot be believed.
    """
    from hal.certify.run import look, session_of

    suite, tier = options.suite, options.tier
    paths = paths_of(suite, tier)
    with Supervisor(suite, paths, jobs=options.workers, server=options.server) as supervisor:
        target, found, flat, _ = look(options)
        if found.problem:
            raise UsageError(f"the honest port does not come up: {found.problem}")
        everything = supervisor.collect()
        check_suite(everything, read_required(suite, tier), suite)
        examine(supervisor, [case for case in everything if case.is_control])
        cases = [case for case in everything if not case.is_control]
        mutants = [*generated(tier, cases, found.answers), *handwritten(suite, tier)]
        mutants = _chosen(mutants, options.select)
        base = session_of(options, target, flat)
        supervisor.use(base)
        exam = Exam([Row(mutant) for mutant in mutants], {})
        for row in exam.rows:
            _draw(row, cases, options.seed)
        honest = _honest(supervisor, exam, base, options)
        _run_mutants(supervisor, exam, honest, options)
    return exam


def _chosen(mutants: list[Mutant], wish: str) -> list[Mutant]:
    """Return the mutants that `--select` means: parts of ids, separated by spaces or commas."""
    words = wish.replace(",", " ").split()
    if not words:
        return mutants
    found = [mutant for mutant in mutants if any(word in mutant.id for word in words)]
    if not found:
        raise UsageError(f"--select {wish!r} means no mutant", call="hal-certify --self-test")
    return found


Honest = dict[str, dict[str, float]]


def _place(mutant: Mutant) -> str:
    """Name the honest port that a mutant is held against: its own library, or the run's."""
    return mutant.target.path + mutant.target.hcd_source if mutant.target is not None else ""


def _honest(supervisor: Supervisor, exam: Exam, base: dict[str, Any], options: Options) -> Honest:
    """Run the mutants' cases on each honest port; return the seconds of those that passed."""
    wanted: dict[str, dict[str, Collected]] = {}
    sessions: dict[str, dict[str, Any]] = {}
    for row in exam.rows:
        place = _place(row.mutant)
        if place not in wanted:
            wanted[place] = {}
            sessions[place] = _honest_session(row.mutant, base, options)
        wanted[place].update({case.id: case for case in [*row.citing, *row.share]})
    honest: Honest = {place: {} for place in wanted}
    jobs = [
        Job([case], sessions[place], tag=place)
        for place, cases in wanted.items()
        for case in cases.values()
    ]

    def sink(job: Job, case: Collected, result: dict[str, Any]) -> None:
        progress.add(result | {"id": case.id})
        if result["status"] == outcome.PASS:
            honest[job.tag][case.id] = float(result["duration_s"])
        elif result["status"] in outcome.BAD:
            exam.honest_failures[case.id] = result["status"]

    with Progress("the honest ports", len(jobs), quiet=options.quiet) as progress:
        supervisor.run(jobs, sink)
    return honest


def _honest_session(mutant: Mutant, base: dict[str, Any], options: Options) -> dict[str, Any]:
    """Return the session of the honest form of a mutant's port."""
    if mutant.target is None:
        return {"flat": base["flat"]}
    target = mutant.session["target"] | {"options": ""}
    return mutant.session | {"target": target, "flat": _flat(mutant, options)}


def _flat(mutant: Mutant, options: Options) -> dict[str, str]:
    """Return the flat HCD of a hand-written mutant's port."""
    from hal.certify.run import look

    assert mutant.target is not None
    wish = replace(options, port=mutant.target.path, hcd=mutant.target.hcd_name, device=0)
    _, found, flat, _ = look(wish)
    if found.problem:
        raise UsageError(f"the port of the mutants does not come up: {found.problem}")
    for_place = _place(mutant)
    _FLATS[for_place] = flat
    return flat


_FLATS: dict[str, dict[str, str]] = {}


def _run_mutants(supervisor: Supervisor, exam: Exam, honest: Honest, options: Options) -> None:
    """Run every mutant on its cases."""
    rows = {row.mutant.id: row for row in exam.rows}
    jobs = [job for row in exam.rows for job in _jobs_of(row, honest)]

    def sink(job: Job, case: Collected, result: dict[str, Any]) -> None:
        row = rows[job.tag]
        row.ran += 1
        bad = result["status"] in outcome.BAD
        if bad:
            cites = bool(set(case.rules) & set(row.mutant.rules))
            (row.killers if cites else row.others)[case.id] = result["status"]
        progress.counts[outcome.FAIL if bad else outcome.PASS] += 1
        progress.step()

    title = f"{len(rows)} mutants"
    names = ("unnoticed", "noticed")
    with Progress(title, len(jobs), quiet=options.quiet, names=names) as progress:
        supervisor.run(_skipping_killed(jobs, rows), sink)


def _draw(row: Row, cases: list[Collected], seed: int) -> None:
    """Choose a mutant's cases: those that cite it in a drawn order, and a share of the rest."""
    mutant = row.mutant
    draw = random.Random(f"{seed} {mutant.id}")
    row.citing = mutant.citing(cases)
    draw.shuffle(row.citing)
    rest = [case for case in cases if case not in row.citing and case.tier <= mutant.tier]
    if row.citing:
        row.share = draw.sample(rest, round(REST_SHARE * len(rest)))


def _jobs_of(row: Row, honest: Honest) -> list[Job]:
    """Return a mutant's jobs: the citing cases first, then its share of the rest."""
    mutant = row.mutant
    passed = honest[_place(mutant)]
    row.citing = [case for case in row.citing if case.id in passed]
    session = dict(mutant.session)
    if mutant.target is not None:
        session["flat"] = _FLATS[_place(mutant)]
    jobs = []
    for case in [*row.citing, *(case for case in row.share if case.id in passed)]:
        limit = min(case.timeout_s, LIMIT_FLOOR_S + LIMIT_FACTOR * passed[case.id])
        jobs.append(Job([replace(case, timeout_s=limit)], session, tag=mutant.id))
    return jobs


def _skipping_killed(jobs: list[Job], rows: dict[str, Row]) -> Iterable[Job]:
    """Yield jobs, but leave out those of a mutant that enough cases have killed already."""
    for job in jobs:
        row = rows[job.tag]
        cites = bool(set(job.cases[0].rules) & set(row.mutant.rules))
        if row.killers and (row.ran >= CITING_LIMIT or not cites):
            continue
        yield job


# ---- what comes out ----


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
            "citing": len(row.citing),
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
            what = (
                "no case cites it" if row.fate == UNCOVERED else f"{len(row.citing)} cases cite it"
            )
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
