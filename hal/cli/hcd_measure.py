"""The command `hal hcd measure`: a description out of measurements of a live device."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hal.cli.output_file import OUTPUT_FILE
from hal.cli.seconds import seconds

if TYPE_CHECKING:
    from hal.device import Device
    from hal.hcd import Hcd
    from hal.measure import Figure


@click.command("measure")
@click.argument("device_name", metavar="PORT")
@click.option("-o", "--output", type=OUTPUT_FILE, metavar="FILE", help="Write it here.")
@click.option("--hcd", "parent", metavar="FILE", help="The description to start from.")
@click.option("--quick", is_flag=True, help="Fewer rounds, smaller sizes, f32 alone.")
@click.option("--budget", default="120s", callback=seconds, show_default=True, help="Time to take.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def command(
    device_name: str,
    output: Path | None,
    parent: str | None,
    quick: bool,
    budget: float,
    as_json: bool,
) -> None:
    """Measure a device of PORT (cpu, cpu:0, a path) and write what was found as a description.

    The figures come from the device's own clock: medians of several rounds after a warm-up. The
    description extends the port's own; each number has its spread under `provenance`. Without -o
    only the table is printed.
    """
    import datetime
    import json
    import shlex

    from hal.hcd import load
    from hal.measure import description, measure

    with _open(device_name, parent) as device:
        extends = _parent_of(device.hcd, output) if output is not None else ""
        figures = measure(device, quick=quick, budget_s=budget, step=_progress(not as_json))
        hcd, name = device.hcd, device.info().title or device.name
    if as_json:
        click.echo(json.dumps([_plain(figure) for figure in figures], indent=1))
    else:
        _print(figures, device_name)
    if output is None:
        return
    command_text = shlex.join(["hal", "hcd", "measure", device_name])
    command_text += " --quick" if quick else ""
    text = description(
        figures,
        hcd,
        extends=extends,
        device=str(name),
        command=command_text,
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
    )
    output.write_text(text, encoding="utf-8")
    load(output)  # A description that its own checker refuses is an error of this command.
    click.echo(f"wrote {output}", err=True)


def _open(name: str, parent: str | None) -> Device:
    """The device; with a description of the user's in the place of the port's own."""
    import hal
    from hal.port.discovery import parse_spec

    if parent is None:
        return hal.open(name)
    wish = parse_spec(name)
    return hal.load_port(wish.port, hcd=parent).device(wish.index)


def _parent_of(hcd: Hcd, output: Path) -> str:
    """What the new file extends: a shipped name where that is the same chip, else the file."""
    from hal.errors import HcdError, UsageError
    from hal.hcd import load
    from hal.hcd.cross import OVERLAY

    own = {path: value for path, value in hcd.items() if not hcd.origin(path).startswith(OVERLAY)}
    try:
        shipped = dict(load(hcd.name).items())
    except HcdError:
        shipped = {}
    if all(shipped.get(path) == value for path, value in own.items()):
        return hcd.name
    if not Path(hcd.file).is_file():
        raise UsageError(
            f"the device's description ({hcd.file}) is no file that another could extend",
            call="hcd.measure",
            next_step="Name one with --hcd FILE.",
        )
    return Path(os.path.relpath(hcd.file, output.resolve().parent)).as_posix()


def _progress(wanted: bool) -> Callable[[Figure], None]:
    """Tells on a terminal's error stream what was measured."""

    def show(figure: Figure) -> None:
        if wanted and sys.stderr.isatty():
            click.echo(f"\r\x1b[K{figure.what}", err=True, nl=False)

    return show


def _plain(figure: Figure) -> dict[str, Any]:
    spread = figure.spread if figure.spread and figure.spread.is_sound else None
    return {
        "what": figure.what,
        "unit": figure.unit,
        "declared": figure.declared,
        "median": spread and spread.middle,
        "min": spread and spread.low,
        "max": spread and spread.high,
        "rounds": figure.spread.rounds if figure.spread else 0,
        "paths": [*figure.paths, *figure.low_paths],
        "note": _note(figure),
    }


def _note(figure: Figure) -> str:
    """The note; of a figure without a number, why there is none."""
    if figure.spread is not None and not figure.spread.is_sound:
        return f"no number: {len(figure.spread.values)} of {figure.spread.rounds} rounds took time"
    return figure.note


def _print(figures: Sequence[Figure], name: str) -> None:
    """A table on a terminal, tab-separated lines into a pipe."""
    rows = []
    for figure in figures:
        plain = _plain(figure)
        cells = [_number(plain[key]) for key in ("declared", "median", "min", "max")]
        share = "-"
        if plain["median"] and figure.declared:
            share = f"{plain['median'] / figure.declared:.2f}"
        rows.append([figure.what, *cells, share, figure.unit, _note(figure)])
    if not sys.stdout.isatty():
        for row in rows:
            click.echo("\t".join(row))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    click.echo("\r\x1b[K", err=True, nl=False)
    table = Table(title=f"{name}: declared and measured", title_justify="left")
    head = ("what", "declared", "median", "min", "max", "ratio", "unit", "how")
    for place, title in enumerate(head):
        table.add_column(title, overflow="fold", justify="right" if 0 < place < 6 else "left")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
