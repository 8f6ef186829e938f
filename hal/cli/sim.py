"""The command `hal sim`: times without hardware, calibration, and how far both can be trusted."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from hal.sim.chip import Chip
    from hal.sim.predict import Target

_CHIP = click.option(
    "--chip", required=True, metavar="HCD", help="A description: a file, or a shipped name."
)
_CALIBRATION = click.option(
    "--calibration",
    "calibrations",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A file of constants; may be given more than once. Default: those that suit the chip.",
)
_GUESS = click.option("--guess", is_flag=True, help="Go on with guesses for missing keys.")
_HARNESS = click.option(
    "--harness",
    type=click.Choice(["none", "pytorch-eager"]),
    default="none",
    show_default=True,
    help="Whose host time to add to each operator.",
)
_OUT = click.option("--out", type=click.Path(path_type=Path), help="Write to FILE.")


@click.group()
def command() -> None:
    """Say how long operators and models take on a chip, from its description alone."""


def _chip(name: str, guess: bool) -> Chip:
    """Load a description and read what timing needs; warn about guesses."""
    from hal.hcd import load
    from hal.sim.chip import Chip

    hcd = load(name)
    for warning in hcd.warnings:
        click.echo(f"warning: {warning}", err=True)
    chip = Chip.of(hcd, allow_guesses=guess)
    for missing in chip.guesses:
        click.echo(
            f"warning: {missing.key} is missing; guess {missing.value:g} ({missing.feeds})",
            err=True,
        )
    return chip


def _target(chip: Chip, calibrations: tuple[Path, ...]) -> Target:
    from hal.sim import calibration
    from hal.sim.predict import Target

    given = [block for path in calibrations for block in calibration.read(path)]
    return Target.of(chip, given)


def _basis(target: Target) -> str:
    """One line that says what the numbers rest on."""
    chip = target.chip
    return (
        f"closed form; {chip.estimated_share:.0%} of {len(chip.inputs) + len(chip.guesses)} inputs "
        f"from {chip.name} are estimated; {'; '.join(target.describe())}"
    )


@command.command()
@click.argument("csv", type=click.Path(path_type=Path))
@_CHIP
@_CALIBRATION
@_HARNESS
@_GUESS
@_OUT
def predict(
    csv: Path,
    chip: str,
    calibrations: tuple[Path, ...],
    harness: str,
    guess: bool,
    out: Path | None,
) -> None:
    """Add a column predicted_us to the operators of CSV.

    Columns: op (matmul where absent), dtype, M, N, K; or op, n_devices, bytes.
    """
    from hal.sim import tables
    from hal.sim.predict import predict_us

    table = tables.read(csv)
    target = _target(_chip(chip, guess), calibrations)
    times = predict_us(target, table, harness=harness)
    text = tables.write(out, table, {"predicted_us": [f"{value:.4f}" for value in times]})
    if out is None:
        click.echo(text, nl=False)
    click.echo(f"{len(times)} rows; {_basis(target)}", err=True)


@command.command()
@click.argument("measured", type=click.Path(path_type=Path))
@_CHIP
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
@_GUESS
@_OUT
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
        _chip(chip, guess),
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
