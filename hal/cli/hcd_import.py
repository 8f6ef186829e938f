"""The command `hal hcd import`: descriptions from files that vendors already publish."""

from __future__ import annotations

from pathlib import Path

import click

from hal.errors import UsageError


@click.group("import")
def command() -> None:
    """Write a description from a file of a vendor."""


@command.command("ascend-ini")
@click.argument("file", metavar="FILE")
@click.option("--soc", metavar="NAME", help="The chip, where FILE holds several.")
@click.option(
    "--out", metavar="HCD", default="-", help="The file to write; standard output without it."
)
@click.option(
    "--memory-bytes",
    type=click.IntRange(min=1),
    metavar="BYTES",
    help="Capacity of the device memory, where FILE leaves it empty.",
)
def ascend_ini(file: str, soc: str | None, out: str, memory_bytes: int | None) -> None:
    """Describe an Ascend chip by its platform configuration FILE (.ini, or CSV).

    CSV has the columns soc, section, key, value, and may have source_repo, source_path and
    source_commit. Every number is from FILE; what it lacks is estimated, with reasons, in
    huawei/ascend-base, which the result extends. Entries that were not used are listed.
    """
    from hal.hcd.importers.ascend import import_ascend

    made = import_ascend(file, soc=soc, memory_bytes=memory_bytes)
    if out == "-":
        click.echo(made.text, nl=False)
        return
    try:
        Path(out).write_text(made.text, encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"cannot be written: {error.strerror}", call=out, next_step="Give another --out."
        ) from None
    from hal.hcd import load

    click.echo(f"wrote {out} ({made.soc}, {load(out).name})")
    for section, keys in made.unused.items():
        click.echo(f"not used: {section}: {', '.join(keys)}")
