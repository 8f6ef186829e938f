"""What a run prints at its end and the files that it leaves."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hal.certify import results as outcome
from hal.certify.causes import group
from hal.certify.preflight import missing_functions
from hal.wording import counted

if TYPE_CHECKING:
    from hal.certify.run import Run

__all__ = ["print_summary", "summary_lines", "write_outputs"]

CAUSES_SHOWN = 12
EMULATED_TIER = 3
"""Functions between devices: what a port lacks of them, the loader does."""
MISSING_SHOWN = 60


def write_outputs(run: Run, *, junit: Path | None = None, html: Path | None = None) -> None:
    """Write cert.json, junit.xml and report.html beside results.jsonl."""
    from hal.certify.certificate import write_certificate
    from hal.certify.junit import write_junit
    from hal.certify.report import write_report

    results = run.results()
    certificate = write_certificate(run, results)
    write_junit(run, results, junit or run.out / "junit.xml")
    write_report(certificate, results, run, html or run.out / "report.html")


def print_summary(run: Run) -> None:
    """Print the summary on the output stream."""
    for line in summary_lines(run):
        print(line)
    sys.stdout.flush()


def summary_lines(run: Run) -> list[str]:
    """Return the summary: what is missing, what failed and why, the verdict last."""
    results = run.results()
    lines = _missing(run)
    if run.preflight.problem:
        lines += ["", f"No case could run: {run.preflight.problem}"]
    lines += _causes(results)
    lines += _warnings(run, results)
    counts = run.verdict.counts
    shown = ", ".join(f"{count} {status}" for status, count in counts.items())
    lines += ["", f"{_title(run)}: {shown or 'no case'} of {len(run.required)} required"]
    lines += [f"  {reason}" for reason in run.verdict.reasons]
    lines.append(f"  report: {run.out / 'report.html'}")
    if run.interrupted:
        lines.append(f"  interrupted; go on with: hal-certify --resume {shlex.quote(str(run.out))}")
    lines.append(f"{run.verdict.word}  tier {run.options.tier}  {run.target.name}")
    return lines if lines[0] else lines[1:]


def _title(run: Run) -> str:
    facts = run.preflight.facts
    who = f"{facts.get('name', run.target.name)} {facts.get('version', '')}".strip()
    return f"{who} (device {run.options.device}, {run.environment.get('seconds', 0):.1f} s)"


def _missing(run: Run) -> list[str]:
    """Return what the port lacks, in the order to write it."""
    rows = missing_functions(run.preflight, run.options.tier)
    by_loader = sum(tier == EMULATED_TIER for tier, _, _ in rows)
    rows = [row for row in rows if row[0] != EMULATED_TIER]
    lines = []
    if by_loader:
        lines += [
            "",
            (
                f"The loader stands in for {counted(by_loader, 'function')} that the port lacks, "
                "of tier 3."
            ),
        ]
    if not rows:
        return lines
    lines += ["", f"The port lacks {counted(len(rows), 'required function')}. Write in this order:"]
    for number, (tier, call, answer) in enumerate(rows[:MISSING_SHOWN], 1):
        why = "no entry in its table" if answer == "missing" else "answers UNSUPPORTED"
        lines.append(f"  {number:2}. {call:28} tier {tier}, {why}")
    return lines


def _causes(results: list[dict[str, object]]) -> list[str]:
    """Return the failures by cause, each with a command."""
    causes = group(results)
    if not causes:
        return []
    total = sum(len(cause.results) for cause in causes)
    lines = ["", f"{counted(total, 'failure')} with {counted(len(causes), 'cause')}:"]
    for cause in causes[:CAUSES_SHOWN]:
        rules = ", ".join(cause.rules[:4]) + (" …" if len(cause.rules) > 4 else "")
        lines.append(f"  {len(cause.results):3} {cause.status}: {cause.text}  [{rules}]")
        lines.append(f"      {cause.repro}")
    if len(causes) > CAUSES_SHOWN:
        lines.append(f"  and {counted(len(causes) - CAUSES_SHOWN, 'more cause')}; see the report")
    return lines


def _warnings(run: Run, results: list[dict[str, object]]) -> list[str]:
    found = list(run.preflight.warnings)
    for result in results:
        warnings = result.get("warnings")
        if result["status"] == outcome.PASS and isinstance(warnings, list):
            found += warnings
    unique = list(dict.fromkeys(found))
    return ["", *(f"warning: {text}" for text in unique[:10])] if unique else []
