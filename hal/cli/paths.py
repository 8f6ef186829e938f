"""`hal paths`: where headers, libraries and data of this installation lie."""

import click

from hal import _paths

PATHS = {
    "cmake": _paths.cmake_dir,
    "conformance": _paths.conformance_dir,
    "hcd": _paths.hcd_dir,
    "include": _paths.include_dir,
    "kit": _paths.kit_dir,
    "lib": _paths.lib_dir,
    "template": _paths.template_dir,
    "toolchains": _paths.toolchains_dir,
}


@click.command("paths")
@click.argument("name", required=False, type=click.Choice(sorted(PATHS)))
def command(name: str | None) -> None:
    """Print all folders, or only the one called NAME, for use in a build.

    \b
    cmake -Dhal_DIR="$(hal paths cmake)" …
    cc -I"$(hal paths include)" …
    """
    if name is not None:
        click.echo(PATHS[name]())
        return
    for key in sorted(PATHS):
        click.echo(f"{key:12} {PATHS[key]()}")
