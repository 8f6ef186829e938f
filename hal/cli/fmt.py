"""The command `hal fmt`: kernels in the one canonical form."""

from __future__ import annotations

import difflib
import sys
from pathlib import Path

import click

from hal.cli import kernel_file
from hal.errors import UsageError
from hal.wording import counted


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="KERNEL.hal...")
@click.option("--check", is_flag=True, help="Write nothing; show what would change, exit code 1.")
@click.option("--write", is_flag=True, help="Write the file in place instead of printing it.")
def command(files: tuple[str, ...], check: bool, write: bool) -> None:
    """Print kernel texts (docs/ir.md) in the canonical form; comments stay.

    A FILE of - is the standard input.
    """
    if check and write:
        raise UsageError("--check and --write exclude each other")
    if write and "-" in files:
        raise UsageError("the standard input cannot be written", next_step="Leave --write out.")
    changed = [name for name in files if not _one(name, check, write)]
    if check and changed:
        click.echo(f"{counted(len(changed), 'file')} would change; run hal fmt --write.", err=True)
        sys.exit(1)


def _one(name: str, check: bool, write: bool) -> bool:
    """Format one file; True when it was in the form already."""
    from hal.ir import parse, show

    text = kernel_file.read(name)
    shown = show(parse(text, name, verify=False))
    if check:
        before, after = text.splitlines(True), shown.splitlines(True)
        click.echo("".join(difflib.unified_diff(before, after, name, name)), nl=False)
    elif not write:
        click.echo(shown, nl=False)
    elif shown != text:
        try:
            Path(name).write_text(shown, encoding="utf-8")
        except OSError as error:
            raise UsageError(f"cannot write it: {error.strerror}", call=name) from None
        click.echo(f"{name}: rewritten", err=True)
    return shown == text
