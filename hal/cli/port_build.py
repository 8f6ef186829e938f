"""`hal port build`: configure and build a port's folder, then check the library."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("build")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--debug", is_flag=True, help="Without optimisation, with symbols.")
@click.option("--sanitize", is_flag=True, help="With the compiler's address and UB checks.")
@click.option(
    "--toolchain",
    default="",
    metavar="NAME|FILE",
    help="For another machine: aarch64, riscv64, aarch64-zig, riscv64-zig, or a file of CMake.",
)
@click.option("--no-check", is_flag=True, help="Only build; do not look at the library afterwards.")
def build(folder: Path, debug: bool, sanitize: bool, toolchain: str, no_check: bool) -> int:
    """Build the port in FOLDER with CMake, then do what 'hal port check' does.

    With --toolchain the library stays in FOLDER/build-NAME, and what needs its code to run is not
    looked at. Exits with 1 when the build fails or something is wrong with the library.
    """
    from hal.cli.port_check import show
    from hal.portkit.build import build as make
    from hal.portkit.build import checked

    made = make(folder, debug=debug, sanitize=sanitize, toolchain=toolchain)
    for line in made.messages:
        click.echo(line)
    if not made.is_good:
        click.echo(f"\nThe build of {folder} failed in the step '{made.step}'.", err=True)
        if made.next_step:
            click.echo(made.next_step, err=True)
        return 1
    click.echo(f"Built {made.library}\n")
    if no_check:
        return 0
    found = checked(made)
    show(found, 1)
    return 0 if found.is_sound else 1
