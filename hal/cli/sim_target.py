"""What the commands of `hal sim` share: their options, the chip and its constants, tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hal.cli.output_file import OUTPUT_FILE

if TYPE_CHECKING:
    from hal.sim.chip import Chip
    from hal.sim.predict import Target

CHIP = click.option(
    "--chip", required=True, metavar="HCD", help="A description: a file, or a shipped name."
)
SYSTEM = click.option("--system", metavar="HCD", help="A description of kind system: its links.")
CALIBRATION = click.option(
    "--calibration",
    "calibrations",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A file of constants; may be given more than once. Default: those that suit the chip.",
)
OUT = click.option("--out", type=OUTPUT_FILE, help="Write to FILE.")
GUESS = click.option("--guess", is_flag=True, help="Go on with guesses for missing keys.")


def read_chip(name: str, guess: bool) -> Chip:
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


def timing_target(
    chip: str, system: str | None, calibrations: tuple[Path, ...], guess: bool
) -> Target:
    from dataclasses import replace

    from hal.hcd import load
    from hal.sim.chip import Link

    target = _target(read_chip(chip, guess), calibrations)
    if system is None:
        return target
    return replace(target, link=Link.of_system(load(system)))


def basis(target: Target, families: set[str]) -> str:
    """One line that says what the numbers rest on."""
    chip = target.chip
    return (
        f"closed form; {chip.estimated_share:.0%} of {len(chip.inputs) + len(chip.guesses)} inputs "
        f"from {chip.name} are estimated; {'; '.join(target.describe(families))}"
    )


def print_table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """Print a table with aligned columns; numbers to the right."""
    widths = [max(len(cell) for cell in column) for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        cells = [
            cell.rjust(width) if cell[:1].isdigit() or cell[:1] == "-" else cell.ljust(width)
            for cell, width in zip(row, widths, strict=True)
        ]
        click.echo("  ".join(cells).rstrip())
