"""`hal port`: a port from the first file to the package. `new` is here, the rest beside."""

from __future__ import annotations

from pathlib import Path

import click

from hal.cli.port_bind import bind
from hal.cli.port_build import build
from hal.cli.port_check import check
from hal.cli.port_pack import pack
from hal.cli.port_size import size
from hal.cli.port_update import update
from hal.portkit.kinds import KINDS


@click.group("port")
def command() -> None:
    """Make a port: start it, bind its runtime, build it, check it, measure it, pack it."""


for _subcommand in (bind, build, check, pack, size, update):
    command.add_command(_subcommand)


@command.command("new")
@click.argument("name")
@click.option(
    "--into",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    help="The folder that gets the new folder NAME; the current one by default.",
)
@click.option(
    "--kind",
    type=click.Choice(KINDS),
    default=KINDS[0],
    show_default=True,
    help="What the chip is; the comments of the description and the README follow it.",
)
@click.option("--vendor", help="The company, as the port and its description name it.")
@click.option(
    "--raw", is_flag=True, help="Bare tables without the kit: every function answers UNSUPPORTED."
)
def new(name: str, into: Path, kind: str, vendor: str | None, raw: bool) -> None:
    """Make the folder NAME with a port that builds and that tier 1 certifies as it is.

    Its memory and its kernels are the host's, by the kit; the chip takes its place hook by hook.
    """
    from hal.portkit.start_port import VENDOR, start_port

    folder = start_port(name, into, kind=kind, vendor=VENDOR if vendor is None else vendor, raw=raw)
    click.echo(f"Made {folder}: the port '{name}', its description, its build, tests and CI.\n")
    if raw:
        click.echo("Every function answers UNSUPPORTED. Build it, and see which to write first:\n")
    else:
        click.echo("It runs on the host until port.c gives it the chip, step by step:\n")
    click.echo(f"  hal port build {_as_path(folder)}")
    click.echo(f"  hal-certify {_as_path(folder)} --tier 1")


def _as_path(folder: Path) -> str:
    """Write a folder so that it cannot be taken for a port's name."""
    return str(folder) if folder.is_absolute() or len(folder.parts) > 1 else f"./{folder}"
