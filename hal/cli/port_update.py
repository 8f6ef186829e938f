"""`hal port update`: the template of this HAL for a port that an older one started."""

from __future__ import annotations

from pathlib import Path

import click

_SAID = {
    "new": "new in the template",
    "updated": "as the template has it now",
    "merged": "yours, with the template's changes",
    "conflict": "both changed the same lines: look for <<<<<<<",
    "removed": "no longer in the template",
    "kept": "left as it is; you or the template deleted it",
}


@click.command("update")
@click.argument("folder", type=click.Path(path_type=Path))
def update(folder: Path) -> int:
    """Bring what changed in the template since into the port in FOLDER; your edits stay.

    Each file is merged from yours, the template's when the port was made or last updated, and the
    template's now. Exits with 1 when you and the template changed the same lines.
    """
    from hal.portkit.update import update as bring

    changes = bring(folder)
    for change in changes:
        click.echo(f"{change.state:9} {change.path}: {_SAID[change.state]}")
    conflicts = [change.path for change in changes if change.state == "conflict"]
    if not changes:
        click.echo(f"{folder} is up to date.")
    elif conflicts:
        click.echo(f"\nSettle {', '.join(conflicts)}, then: hal port build {folder}")
    else:
        click.echo(f"\nNow build and certify it: hal port build {folder}")
    return 1 if conflicts else 0
