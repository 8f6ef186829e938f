"""`hal port size`: how many lines of code a port has, and how many of them tier 1 needs."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click


@click.command("size")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--json",
    "target",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    help="Write the figures to this file as JSON ('-' for the screen).",
)
def size(folder: Path, target: Path | None) -> None:
    """Count the lines of the port in FOLDER by the rules of cloc: C and C++ without comments.

    Tier 1's part leaves out the functions that only later tiers or optional table entries need,
    and what stands below a line '// ---- Tier 2 ----', '// ---- Tier 3 ----' or
    '// ---- Optional ----'.
    """
    from hal.portkit.size import measure

    found = measure(folder)
    text = json.dumps(asdict(found), indent=1)
    if target is not None and str(target) == "-":
        click.echo(text)
        return
    if target is not None:
        target.write_text(text + "\n", encoding="utf-8")
    total = "lines of C and C++"
    width = max(len(name) for name in (total, *(file.path for file in found.files))) + 2
    click.echo(f"{'file':{width}}{'tier 1':>8}{'whole':>8}")
    for file in found.files:
        click.echo(f"{file.path:{width}}{file.tier_1_lines:>8,}{file.lines:>8,}")
    click.echo(f"{total:{width}}{found.tier_1_lines:>8,}{found.lines:>8,}")
    dialect = f", {found.dialect_lines} of them the dialect" if found.dialect_lines else ""
    click.echo(
        f"\n{len(found.files) + len(found.other_files)} files in {found.folder}; "
        f"{found.hcd_lines} lines of description{dialect}."
    )
