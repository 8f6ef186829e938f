"""How the suite's own exam is held: which cases meet which mutant, and which failures count.

A mutant meets the cases that cite its rules, in a drawn order, until two have failed. Those
failures then face the honest port: only a case that passes there, well inside the time that it had
with the mutant, has noticed anything. What nobody killed meets the same share of all other cases.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
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

__all__ = ["KILLED", "SURVIVED", "UNCOVERED", "Exam", "Row", "hold_exam"]

KILLED, SURVIVED, UNCOVERED = "killed", "survived", "uncovered"
REST_SHARE = 0.02
KILLERS_WANTED = 2
ROUNDS = 4
LIMIT_S = 8.0
HANG_MARGIN = 4.0


@dataclass
class Row:
    """What happened to one mutant.

    Attributes:
        waiting: Cases that cite a rule of it and did not meet it yet, in a drawn order.
        killers: Cases that failed and cite a rule of it, with their status.
        others: Cases that failed and cite none; they do not count.
        citing: How many honest cases cite a rule of it.
        ran: Cases that met it.
    """

    mutant: Mutant
    waiting: list[Collected] = field(default_factory=list)
    killers: dict[str, str] = field(default_factory=dict)
    others: dict[str, str] = field(default_factory=dict)
    citing: int = 0
    ran: int = 0

    @property
    def fate(self) -> str:
        """killed, survived, or uncovered when no honest case cites a rule of it."""
        if self.killers:
            return KILLED
        return SURVIVED if self.citing else UNCOVERED

    @property
    def place(self) -> str:
        """The honest port that it is held against: its own library, or the run's (empty)."""
        target = self.mutant.target
        return target.path + target.hcd_source if target is not None else ""


@dataclass
class Exam:
    """The whole exam.

    Attributes:
        rows: The mutants.
        honest: Per honest port the cases that ran there: seconds, or None for one that failed.
        honest_failures: Cases that fail on an honest port, with their status.
    """

    rows: list[Row]
    honest: dict[str, dict[str, float | None]] = field(default_factory=dict)
    honest_failures: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def is_passed(self) -> bool:
        """Whether every mutant was killed."""
        return all(row.fate == KILLED for row in self.rows)


def hold_exam(options: Options) -> Exam:
    """Run all mutants.

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
        exam = Exam([Row(mutant) for mutant in _chosen(mutants, options.select)])
        base = session_of(options, target, flat)
        supervisor.use(base)
        return _Examiner(supervisor, exam, cases, base, options).hold()


def _chosen(mutants: list[Mutant], wish: str) -> list[Mutant]:
    """Return the mutants that `--select` means: the starts of ids, by spaces or commas."""
    words = tuple(wish.replace(",", " ").split())
    found = [mutant for mutant in mutants if not words or mutant.id.startswith(words)]
    if not found:
        raise UsageError(f"--select {wish!r} means no mutant", call="hal-certify --self-test")
    return found


class _Examiner:
    """Holds one exam."""

    def __init__(
        self,
        supervisor: Supervisor,
        exam: Exam,
        cases: list[Collected],
        base: dict[str, Any],
        options: Options,
    ) -> None:
        self.supervisor = supervisor
        self.exam = exam
        self.cases = cases
        self.by_id = {case.id: case for case in cases}
        self.base = base
        self.options = options
        self.flats: dict[str, dict[str, str]] = {"": base["flat"]}
        draw = random.Random(options.seed)
        self.share = draw.sample(cases, round(REST_SHARE * len(cases)))
        for row in exam.rows:
            row.waiting = row.mutant.citing(cases)
            row.citing = len(row.waiting)
            random.Random(f"{options.seed} {row.mutant.id}").shuffle(row.waiting)
            row.waiting.sort(key=lambda case: case.tier)

    def hold(self) -> Exam:
        """Let mutants and honest ports take turns until nothing changes."""
        for number in range(1, ROUNDS + 1):
            open_rows = [row for row in self.exam.rows if not row.killers and row.waiting]
            if not open_rows:
                break
            self.meet(open_rows, f"{len(open_rows)} mutants, round {number}")
            self.check_killers(open_rows)
        rest = [row for row in self.exam.rows if not row.killers and row.citing]
        if rest:
            self.meet_share(rest)
        return self.exam

    # ---- mutants ----

    def meet(self, rows: list[Row], title: str) -> None:
        """Let each row's cases meet its mutant until enough of them failed."""
        by_id = {row.mutant.id: row for row in rows}
        total = sum(min(len(row.waiting), KILLERS_WANTED) for row in rows)

        def sink(job: Job, case: Collected, result: dict[str, Any]) -> None:
            row = by_id[job.tag]
            row.ran += 1
            bad = result["status"] in outcome.BAD
            if bad:
                row.killers[case.id] = str(result["status"])
            progress.counts[outcome.FAIL if bad else outcome.PASS] += 1
            progress.step()

        def jobs() -> Iterator[Job]:
            for row in rows:
                while row.waiting and len(row.killers) < KILLERS_WANTED:
                    yield self.job(row, row.waiting.pop(0))

        with self.progress(title, total) as progress:
            self.supervisor.run(jobs(), sink)

    def meet_share(self, rows: list[Row]) -> None:
        """Let what survived meet a share of the cases that do not cite it; nothing of it counts."""
        by_id = {row.mutant.id: row for row in rows}
        jobs = [
            self.job(row, case)
            for row in rows
            for case in self.share
            if not set(case.rules) & set(row.mutant.rules)
        ]

        def sink(job: Job, case: Collected, result: dict[str, Any]) -> None:
            row = by_id[job.tag]
            row.ran += 1
            if result["status"] in outcome.BAD:
                row.others[case.id] = str(result["status"])
            progress.counts[outcome.PASS] += 1
            progress.step()

        with self.progress("survivors on other cases", len(jobs)) as progress:
            self.supervisor.run(jobs, sink)

    def job(self, row: Row, case: Collected) -> Job:
        """Return the job of one case with one mutant."""
        session = row.mutant.session | {"flat": self.flat(row)}
        limited = replace(case, timeout_s=min(case.timeout_s, LIMIT_S))
        return Job([limited], session, tag=row.mutant.id)

    def flat(self, row: Row) -> dict[str, str]:
        """Return the flat HCD of a row's honest port."""
        if row.place not in self.flats:
            from hal.certify.run import look

            target = row.mutant.target
            assert target is not None
            wish = replace(self.options, port=target.path, hcd=target.hcd_name, device=0)
            _, found, flat, _ = look(wish)
            if found.problem:
                raise UsageError(f"the port of the mutants does not come up: {found.problem}")
            self.flats[row.place] = flat
        return self.flats[row.place]

    # ---- honest ports ----

    def check_killers(self, rows: list[Row]) -> None:
        """Run the killers on the honest ports, and drop those that do not count."""
        jobs = []
        asked: set[tuple[str, str]] = set()
        for row in rows:
            known = self.exam.honest.setdefault(row.place, {})
            for name in row.killers:
                if name not in known and (row.place, name) not in asked:
                    asked.add((row.place, name))
                    session = self.honest_session(row)
                    jobs.append(Job([self.by_id[name]], session, tag=row.place))

        def sink(job: Job, case: Collected, result: dict[str, Any]) -> None:
            progress.add(result | {"id": case.id})
            passed = result["status"] == outcome.PASS
            self.exam.honest[job.tag][case.id] = float(result["duration_s"]) if passed else None
            if result["status"] in outcome.BAD:
                self.exam.honest_failures[case.id] = str(result["status"])

        with self.progress("the same cases on the honest ports", len(jobs)) as progress:
            self.supervisor.run(jobs, sink)
        for row in rows:
            honest = self.exam.honest[row.place]
            dropped = [n for n, status in row.killers.items() if not _counts(honest[n], status)]
            for name in dropped:
                del row.killers[name]
            row.citing -= len(dropped)

    def honest_session(self, row: Row) -> dict[str, Any]:
        """Return the session of a row's honest port."""
        if row.mutant.target is None:
            return {"flat": self.base["flat"]}
        target = row.mutant.session["target"] | {"options": ""}
        return row.mutant.session | {"target": target, "flat": self.flat(row)}

    def progress(self, title: str, total: int) -> Progress:
        """Return a display that calls failures what they are here."""
        names = ("pass", "fail") if "honest" in title else ("unnoticed", "noticed")
        return Progress(title, total, quiet=self.options.quiet, names=names)


def _counts(honest_seconds: float | None, status: str) -> bool:
    """Tell whether a failure says something about the mutant."""
    if honest_seconds is None:
        return False
    return status != outcome.HANG or honest_seconds * HANG_MARGIN < LIMIT_S
