"""`hal port bind`: a first Python binding of a vendor's C header."""

from __future__ import annotations

from pathlib import Path

import click

from hal.wording import counted


@click.command("bind")
@click.argument("header", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The Python file to write; STEM_binding.py by default.",
)
@click.option(
    "-I",
    "--include",
    multiple=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="A folder with headers that HEADER includes; may be repeated.",
)
@click.option("-l", "--library", default="", help="Name or path of the library, as OpenCL.")
def bind(header: Path, output: Path | None, include: tuple[Path, ...], library: str) -> None:
    """Write a ctypes binding of the C header HEADER, and say what is in it.

    The library is loaded once to see which functions it has. The list of functions per method of a
    port in Python goes by their names alone.
    """
    from hal.portkit.bind import bind as make

    made = make(header, into=output, include=include, library=library)
    click.echo(f"Wrote {made.path}: {counted(len(made.declared), 'function')} of {header}.")
    if made.complaints:
        click.echo(f"ctypesgen could not read {counted(len(made.complaints), 'place')}, the first:")
        for complaint in made.complaints[:5]:
            click.echo(f"  {complaint}")
    absent = [name for name in made.declared if name not in made.bound]
    if not library:
        click.echo("No function is bound yet: name the library that has them with --library.")
    elif absent:
        shown = ", ".join(absent[:5]) + (", …" if len(absent) > 5 else "")
        click.echo(f"{library} lacks {len(absent)} of them: {shown}")
    if made.rows:
        click.echo("\nBy their names, these may serve a port's methods (docs/python-port.md):")
    width = max((len(row.what) for row in made.rows), default=0)
    for row in made.rows:
        shown = ", ".join(row.functions[:6]) + (", …" if len(row.functions) > 6 else "")
        click.echo(f"  {row.what:{width}}  {shown}")
