"""`hal port`: a port from the first file to the package. `new` is here, the rest beside."""

from __future__ import annotations

import re
from pathlib import Path

import click

from hal import _paths
from hal.cli.port_build import build
from hal.cli.port_check import check
from hal.cli.port_pack import pack
from hal.cli.port_size import size
from hal.errors import UsageError
from hal.portkit.kinds import KINDS, add_kind, add_start_files

PLACEHOLDER = "template"
NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")


@click.group("port")
def command() -> None:
    """Make a port: start it, build it, check it, measure it, pack it."""


for _subcommand in (build, check, pack, size):
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
def new(name: str, into: Path, kind: str) -> None:
    """Make the folder NAME with a port that builds and answers UNSUPPORTED to everything."""
    folder = create(name, into, kind=kind)
    click.echo(f"Made {folder}: the port '{name}', its description, its build, tests and CI.\n")
    click.echo("Build it, and see what certification asks for first:\n")
    click.echo(f"  hal port build {_as_path(folder)}")
    click.echo(f"  hal-certify {_as_path(folder)} --tier 1")


def create(name: str, into: Path, *, kind: str = KINDS[0]) -> Path:
    """Copy the template to `into`/`name` under the new name and return that folder.

    Args:
        name: Name of the port.
        into: The folder that gets the new folder.
        kind: One of KINDS.

    Raises:
        UsageError: the name cannot name a library and a Python package, a port has it, or the
            folder is there.
    """
    if NAME.fullmatch(name) is None or name in {PLACEHOLDER, "kit"}:
        raise UsageError(
            f"'{name}' cannot name a port",
            call="port.new",
            next_step="Use 1 to 32 small letters, digits and underscores, a letter first, "
            f"and neither '{PLACEHOLDER}' nor 'kit'.",
        )
    _refuse_taken(name)
    folder = into / name
    if folder.exists():
        raise UsageError(
            f"{folder} exists",
            call="port.new",
            next_step="Choose another name, or remove it first.",
        )
    template = _paths.template_dir()
    folder.mkdir(parents=True)
    for source in sorted(template.iterdir()):
        if source.is_dir() or source.suffix == ".so":
            continue  # what is left of a build in the template's own folder
        target = folder / renamed(source.name, name)
        target.write_text(renamed(source.read_text(encoding="utf-8"), name), encoding="utf-8")
    add_start_files(folder)
    add_kind(kind, folder / "README.md", folder / f"{name}.hcd.yaml")
    return folder


def _refuse_taken(name: str) -> None:
    """Refuse the name of a port that is there: two ports of one name cannot be loaded by it."""
    from hal.port.discovery import all_candidates

    for found in all_candidates():
        if found.name == name:
            raise UsageError(
                f"there is a port '{name}' at {found.path}",
                call="port.new",
                next_step="Choose another name; two ports of one name can only be told by path.",
            )


def renamed(text: str, name: str) -> str:
    """Put a port's name in the place of the template's, where it stands as a word of its own."""
    return re.sub(
        rf"(?<![A-Za-z0-9_])(hal_port_)?{PLACEHOLDER}(?![A-Za-z0-9_])", rf"\g<1>{name}", text
    )


def _as_path(folder: Path) -> str:
    """Write a folder so that it cannot be taken for a port's name."""
    return str(folder) if folder.is_absolute() or len(folder.parts) > 1 else f"./{folder}"
