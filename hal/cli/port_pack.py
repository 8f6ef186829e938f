"""`hal port pack`: a package that pip installs, from a port that was built."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("pack")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--into",
    type=click.Path(path_type=Path, file_okay=False),
    help="The folder that gets the wheel; FOLDER/dist by default.",
)
@click.option(
    "--toolchain",
    default="",
    metavar="NAME|FILE",
    help="Pack what 'hal port build --toolchain' made.",
)
@click.option("--version", default="", help="The version; that of pyproject.toml by default.")
def pack(folder: Path, into: Path | None, toolchain: str, version: str) -> None:
    """Write a wheel with the library and the description of the port in FOLDER.

    The library is checked first. Who installs the wheel sees the port in 'hal ports'.
    """
    from hal.portkit.pack import pack as write

    wheel = write(folder, into=into, version=version, toolchain=toolchain)
    click.echo(f"Wrote {wheel}\n\n  pip install {wheel}\n  hal ports --why")
