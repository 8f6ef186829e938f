"""The command `hal sim`: times without hardware, calibration, and how far both can be trusted."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from hal.cli import sim_model
from hal.cli.output_file import OUTPUT_FILE
from hal.cli.sim_target import (
    CALIBRATION,
    CHIP,
    GUESS,
    OUT,
    SYSTEM,
    basis,
    print_table,
    read_chip,
    timing_target,
)
from hal.wording import counted

_HARNESS = click.option(
    "--harness",
    type=click.Choice(["none", "pytorch-eager"]),
    default="none",
    show_default=True,
    help="Whose host time to add to each operator.",
)


@click.group()
def command() -> None:
    """Say how long operators and models take on a chip, from its description alone."""


command.add_command(sim_model.run)
command.add_command(sim_model.sweep)


@command.command()
@click.argument("csv", type=click.Path(path_type=Path))
@CHIP
@SYSTEM
@CALIBRATION
@_HARNESS
@GUESS
@OUT
def predict(
    csv: Path,
    chip: str,
    system: str | None,
    calibrations: tuple[Path, ...],
    harness: str,
    guess: bool,
    out: Path | None,
) -> None:
    """Add a column predicted_us to the operators of CSV.

    Columns: op (matmul where absent), dtype, M, N, K; or op, n_devices, bytes.
    """
    from hal.sim import tables
    from hal.sim.predict import plan

    table = tables.read(csv)
    target = timing_target(chip, system, calibrations, guess)
    work = plan(table, harness=harness)
    times = work.predict_us(target)
    text = tables.write(out, table, {"predicted_us": [f"{value:.4f}" for value in times]})
    if out is None:
        click.echo(text, nl=False)
    click.echo(f"{counted(len(times), 'row')}; {basis(target, work.families)}", err=True)


@command.command()
@click.argument("measured", type=click.Path(path_type=Path))
@CHIP
@click.option("--device", help="Only rows with this value in the column device.")
@click.option("--op", help="Only rows with this value in the column op.")
@click.option("--library", help="Only rows with this value in the column library.")
@click.option(
    "--split", type=click.Choice(["random", "even", "block"]), default="random", show_default=True
)
@click.option("--share", type=click.FloatRange(0.01, 1), default=0.3, show_default=True,
              help="Share of the rows to fit (random split).")  # fmt: skip
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--source", default="", help="Where the times come from, for the record.")
@_HARNESS
@GUESS
@OUT
def calibrate(
    measured: Path,
    chip: str,
    device: str | None,
    op: str | None,
    library: str | None,
    split: str,
    share: float,
    seed: int,
    source: str,
    harness: str,
    guess: bool,
    out: Path | None,
) -> None:
    """Fit at most ten constants to MEASURED (a CSV with times) and report both parts."""
    from hal.sim import calibration, tables
    from hal.sim.calibrate import Split, only
    from hal.sim.calibrate import calibrate as run

    table = tables.read(measured)
    for column, value in (("device", device), ("op", op), ("library", library)):
        if value is not None:
            table = only(table, column, value)
    found = run(
        read_chip(chip, guess),
        table,
        Split(split, share, seed=seed),
        source=source,
        harness=harness,
    )
    for constant in calibration.specification(found.constants.family):
        click.echo(f"{constant.name:12} {found.constants[constant.name]:10.4g} {constant.unit}")
    for name, part in (("fitted", found.fitted), ("unseen", found.unseen)):
        click.echo(
            f"{name:7} {part.count:6} rows: mean error {part.mape:.1%}, median {part.median:.1%}, "
            f"90th percentile {part.p90:.1%}, worst {part.worst:.0%}, "
            f"rank correlation {part.spearman:.4f}"
        )
    if out is not None:
        calibration.write(out, found.constants, found.record)
        click.echo(f"wrote {out}", err=True)
    if found.fitted.mape > 1:
        sys.exit(1)


@command.command()
@click.option("--json", "json_file", type=OUTPUT_FILE, help="Write rows to FILE.")
@click.option("--plot", type=OUTPUT_FILE, help="Draw predicted against measured.")
def validate(json_file: Path | None, plot: Path | None) -> None:
    """Compare predictions with the measured times that come with the SDK.

    Exit code 1 when a bar of the design is missed.
    """
    import json
    from dataclasses import asdict

    from hal.sim import plots, tables
    from hal.sim.validate import validate as run

    report = run()
    if json_file is not None:
        rows = [{**asdict(row), "met": row.met} for row in report.rows]
        tables.save(json_file, json.dumps(rows, indent=1) + "\n")
    if plot is not None:
        plots.predicted(report.points, plot)
    head = ("device", "operator", "split", "part", "rows", "mean", "median", "p90", "worst",
            "rank", "LLMCompass", "bar")  # fmt: skip
    lines = []
    for row in report.rows:
        peer = "" if row.peer_mape is None else f"{row.peer_mape:.1%}"
        if row.same_rows_mape is not None:
            peer += f" (ours {row.same_rows_mape:.1%})"
        verdict = "" if row.bar is None else f"{row.bar:.1%} {'met' if row.met else 'MISSED'}"
        lines.append(
            (row.device, row.operator, row.split, row.part, str(row.count), f"{row.mape:.1%}",
             f"{row.median:.1%}", f"{row.p90:.1%}", f"{row.worst:.0%}", f"{row.spearman:.3f}",
             peer, verdict)
        )  # fmt: skip
    print_table(head, lines)
    for line in report.basis:
        click.echo(line)
    if any(row.met is False for row in report.rows):
        sys.exit(1)
