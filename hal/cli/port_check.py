"""`hal port check`: is a port's library sound, and what does it lack?"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from hal.portkit.check import PortCheck

_COLOURS = {"ok": "green", "later": "cyan", "warning": "yellow", "wrong": "red"}


@click.command("check")
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "--tier",
    type=click.IntRange(1, 3),
    default=1,
    show_default=True,
    help="Functions that this tier requires must be there.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def check(path: Path, tier: int, as_json: bool) -> int:
    """Look at a port: a .so file, or the folder that holds it.

    Symbols, tables, the description against the library, and the functions that are missing, in the
    order in which to write them. Exits with 1 when something is wrong, with 2 when PATH is no port.
    """
    from hal.portkit.check import check as look

    found = look(path, tier=tier)
    if as_json:
        click.echo(json.dumps({**asdict(found), "is_sound": found.is_sound}, indent=1))
    else:
        show(found, tier)
    return 0 if found.is_sound else 1


def show(found: PortCheck, tier: int) -> None:
    """Print what was found, and the missing functions of the tiers that were asked for."""
    click.echo(found.path)
    for finding in found.findings:
        state = click.style(f"{finding.state:8}", fg=_COLOURS[finding.state])
        first, *more = finding.text.splitlines()
        click.echo(f"  {state}{finding.subject:12} {first}")
        for line in more:
            click.echo(f"{'':23}{line}")
    for number in range(1, tier + 1):
        calls = found.missing.get(number, [])
        if calls:
            click.echo(f"\nTier {number}: write these, in this order")
            for call in calls:
                click.echo(f"  {call}")
