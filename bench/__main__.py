"""Measure the SDK beside its peers and the physical limits.

usage: python -m bench SUBJECT… [--json FILE]
       python -m bench --list
       python -m bench --compare OLD.json NEW.json
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

SUBJECTS = {
    "launch": "calls through the table, kernel launches, graph replay",
    "copy": "copies between host and device",
    "allocation": "allocate and free",
    "import": "start of Python with the package, start of the commands",
    "certification": "hal-certify on the simulated chip",
    "simulator": "predictions of the timing model",
    "schedule": "the list schedule beside the clock and the closed form",
    "scalesim": "cycles of systolic arrays by the list schedule beside SCALE-Sim",
    "kernels": "an elementwise chain, softmax, layernorm and attention beside the peers",
    "gemm": "matrix products by generated code and by the library route beside the peers",
    "compile": "VIL through the C dialect: cold, kept, and beside the interpreter",
    "tune": "the best of the tuner's first eight choices beside all choices measured",
    "growth": "cost of one among many: launches, allocations, streams, graph nodes",
}
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def rows_of(path: Path) -> dict[tuple[str, str], dict[str, object]]:
    """Read a file of rows; they are found by (subject, figure)."""
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
        return {(row["subject"], row["figure"]): row for row in rows}
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise click.ClickException(f"{path} holds no rows of this benchmark: {error}") from None


def shown(value: object) -> str:
    """Format a number with three digits that count, or a dash for none."""
    return f"{value:.3g}" if isinstance(value, float | int) else "-"


def compare(console: Console, old: Path, new: Path) -> None:
    """Print how each figure changed, with a bar: to the left is faster."""
    before, after = rows_of(old), rows_of(new)
    table = Table("subject", "figure", "unit", "before", "after", "change", "ratio to peer")
    for key in sorted(before.keys() & after.keys()):
        was, now = before[key], after[key]
        change = float(now["ours"]) / float(was["ours"]) - 1  # type: ignore[arg-type]
        bar = "█" * min(20, round(abs(change) * 20))
        cells = [shown(was["ours"]), shown(now["ours"]), f"{change:+.0%} {bar}"]
        table.add_row(*key, str(now["unit"]), *cells, shown(now["ratio_to_peer"]))
    console.print(table)
    for key in sorted(before.keys() ^ after.keys()):
        console.print(f"only in {old if key in before else new}: {key[0]}: {key[1]}")


def run_subject(console: Console, subject: str) -> list[dict[str, object]]:
    """Measure one subject and print its table, a row as soon as it is there."""
    from bench.measure import measure_all

    module = importlib.import_module(f"bench.{subject}_subject")
    table = Table(
        "figure", "unit", "ours", "best peer", "limit", "/ peer", "/ limit", title=subject
    )
    rows: list[dict[str, object]] = []
    try:
        for row in measure_all(subject, module.figures()):
            rows.append(row)
            table.add_row(*cells(row))
    finally:  # what was measured before an error is worth seeing
        if rows:
            console.print(table)
    absent = sorted({str(name) for row in rows for name in row["absent"]})  # type: ignore[attr-defined]
    if absent:
        console.print(f"not installed here, so not measured: {', '.join(absent)}")
    return rows


def cells(row: dict[str, object]) -> list[str]:
    """Write a row as the cells of the table."""
    peer = f"{shown(row['peer'])} {row['best_peer'] or ''}"
    limit = f"{shown(row['limit'])} {row['limit_is'] or ''}"
    ratios = [shown(row["ratio_to_peer"]), shown(row["ratio_to_limit"])]
    return [str(row["figure"]), str(row["unit"]), shown(row["ours"]), peer, limit, *ratios]


@click.command()
@click.argument("subjects", nargs=-1)
@click.option("--json", "out", type=click.Path(path_type=Path), help="Write the rows to FILE.")
@click.option("--list", "only_list", is_flag=True, help="List the subjects.")
@click.option("--compare", "files", nargs=2, type=click.Path(path_type=Path), help="Two files.")
def main(
    subjects: tuple[str, ...], out: Path | None, only_list: bool, files: tuple[Path, Path] | None
) -> None:
    """Measure SUBJECTS (all when none is named); ratios below 1 mean that ours is faster."""
    console = Console(width=None if sys.stdout.isatty() else 140)
    if only_list:
        for name, text in SUBJECTS.items():
            click.echo(f"{name:14} {text}")
        return
    if files:
        compare(console, *files)
        return
    if unknown := [name for name in subjects if name not in SUBJECTS]:
        raise click.UsageError(f"no subject '{unknown[0]}'; there are {', '.join(SUBJECTS)}")
    for variable in THREAD_VARIABLES:  # one thread, unless a figure says otherwise
        os.environ.setdefault(variable, "1")
    rows = [row for name in subjects or SUBJECTS for row in run_subject(console, name)]
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    from hal.command import run

    sys.exit(run(main, prog_name="python -m bench"))
