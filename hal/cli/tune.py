"""The command `hal tune`: the best choice of tiles for a kernel, a chip and sizes."""

from __future__ import annotations

import json
import re
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from hal.cli import kernel_file
from hal.cli.seconds import seconds
from hal.wording import counted

if TYPE_CHECKING:
    from hal.device import Device
    from hal.hcd import Hcd
    from hal.tune import Candidate, Tuning

SHOWN = 12
"""Candidates of a group in the table."""


def _sizes(
    context: click.Context, param: click.Parameter, value: tuple[str, ...]
) -> dict[str, int]:
    """`M=1000,N=513` as a mapping; the option may be given more than once."""
    del context
    sizes: dict[str, int] = {}
    for item in ",".join(value).split(","):
        if not item.strip():
            continue
        name, _, number = (part.strip() for part in item.partition("="))
        if not name.isidentifier() or not re.fullmatch(r"[0-9]+", number):
            raise click.BadParameter(f"{item!r}: write NAME=LENGTH, as M=1000", param=param)
        sizes[name] = int(number)
    return sizes


@click.command()
@click.argument("path", metavar="KERNEL.hal")
@click.option("--size", "sizes", multiple=True, callback=_sizes, help="Params, as M=1000,N=513.")
@click.option("--kernel", "name", help="Which kernel of the file; needed where it has several.")
@click.option("--device", "device_name", metavar="DEVICE", help="Measure here, as cpu:0.")
@click.option("--chip", metavar="HCD", help="Forecast for this chip, without a device.")
@click.option("--budget", default="30s", callback=seconds, show_default=True, help="Time to spend.")
@click.option("--keep/--no-keep", default=True, help="Write the choice where compiling finds it.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    path: str,
    sizes: dict[str, int],
    name: str | None,
    device_name: str | None,
    chip: str | None,
    budget: float,
    keep: bool,
    as_json: bool,
) -> None:
    """Rank all choices of tiles for a kernel, measure the best and keep the winner.

    With --device the first few of the ranking are measured there; with --chip alone the list
    schedule decides.
    """
    import hal.tune
    from hal.errors import UsageError
    from hal.hcd import load
    from hal.ir import parse

    if device_name is None and chip is None:
        raise UsageError("tuning needs a chip", next_step="Add --device DEVICE or --chip HCD.")
    source = kernel_file.read(path)
    kernel = kernel_file.chosen(parse(source, path), path, name)
    with ExitStack() as stack:
        device: Device | None = None
        if device_name is not None:
            device = stack.enter_context(hal.open(device_name))
        hcd: Hcd | None = load(chip) if chip is not None else None
        progress = stack.enter_context(_Bar(not as_json))
        found = hal.tune.tune(
            kernel, device, hcd=hcd, sizes=sizes, budget_s=budget, keep=keep, progress=progress
        )
    if as_json:
        click.echo(json.dumps(_plain(found), indent=1))
    else:
        _print(found)


class _Bar:
    """A progress bar on a terminal's error stream; nothing elsewhere."""

    def __init__(self, wanted: bool) -> None:
        self._wanted = wanted and sys.stderr.isatty()
        self._bar: Any = None
        self._task: Any = None
        self._what = ""

    def __enter__(self) -> _Bar:
        if self._wanted:
            from rich.console import Console
            from rich.progress import Progress

            self._bar = Progress(console=Console(stderr=True), transient=True)
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, what: str, done: int, total: int) -> None:
        if self._bar is None:
            return
        if what != self._what:
            self._what = what
            self._task = self._bar.add_task(what, total=total)
        self._bar.update(self._task, completed=done)


def _us(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e6


def _row(item: Candidate) -> dict[str, Any]:
    return {
        "group": item.group,
        "strategy": item.strategy,
        "choice": str(item.choice),
        "forecast_us": _us(item.forecast_s),
        "measured_us": _us(item.measured_s),
    }


def _plain(found: Tuning) -> dict[str, Any]:
    return {
        "best": [str(choice) for choice in found.best],
        "default_us": _us(found.default_s),
        "best_us": _us(found.best_s),
        "measured": found.measured,
        "seconds": found.seconds,
        "path": None if found.path is None else str(found.path),
        "candidates": [_row(item) for item in found.candidates],
    }


def _print(found: Tuning) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else 120)
    for number in range(len(found.best)):
        rows = [item for item in found.candidates if item.group == number]
        table = Table("choice", "forecast us", "measured us")
        for item in rows[:SHOWN]:
            cells = [_us(item.forecast_s), _us(item.measured_s)]
            table.add_row(
                str(item.choice), *("-" if cell is None else f"{cell:,.1f}" for cell in cells)
            )
        title = f"group {number + 1} of {len(found.best)}: {found.best[number]}"
        console.print(title, highlight=False, markup=False)
        if rows:
            console.print(table)
            if len(rows) > SHOWN:
                console.print(f"and {len(rows) - SHOWN} more", highlight=False)
    kind = "measured" if found.measured else "forecast"
    console.print(
        f"{kind}: {found.default_s * 1e6:,.1f} us before, {found.best_s * 1e6:,.1f} us after; "
        f"{counted(len(found.candidates), 'choice')} in {found.seconds:.1f} s",
        highlight=False,
    )
    if found.path is not None:
        console.print(f"kept: {found.path}", highlight=False, soft_wrap=True)
