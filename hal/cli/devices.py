"""`hal devices`: the devices of every port that loads."""

from __future__ import annotations

import json
from typing import Any

import click


@click.command("devices")
@click.option("--json", "as_json", is_flag=True, help="Print the devices as JSON.")
def command(as_json: bool) -> int:
    """List the devices of every port, each looked at in a process of its own.

    A port or a device that does not open is named on stderr with the reason; the others are listed.
    Exits with 1 when there is no device at all.
    """
    import hal
    from hal.cli.attempt import attempt_all

    rows: list[dict[str, Any]] = []
    records = hal.ports()
    found = attempt_all(r.path for r in records if r.path is not None and r.status != "failed")
    for record in records:
        if record.path is None or record.path not in found:
            click.echo(f"{record.name}: {record.reason}", err=True)
            continue
        tried = found[record.path]
        rows += tried.devices
        for problem in [f"{record.path}: {tried.problem}"] if tried.problem else tried.closed:
            click.echo(f"{record.name}: {problem}", err=True)
    if as_json:
        click.echo(json.dumps(rows, indent=1))
    for row in rows if not as_json else []:
        memory = f"{row['memory_bytes'] / 2**30:8.2f} GiB"
        click.echo(f"{row['name']:10} {row['hcd']:24} {memory}  {row['title']}")
    if not rows:
        click.echo("No device was found. 'hal ports --why' says why.", err=True)
    return 0 if rows else 1
