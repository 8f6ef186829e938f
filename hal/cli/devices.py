"""`hal devices`: the devices of every port that loads."""

from __future__ import annotations

import json
from typing import Any

import click


@click.command("devices")
@click.option("--json", "as_json", is_flag=True, help="Print the devices as JSON.")
def command(as_json: bool) -> int:
    """List the devices of every port.

    A port or a device that does not open is named on stderr with the reason; the others are listed.
    Exits with 1 when there is no device at all.
    """
    import hal
    from hal.errors import HalError

    rows: list[dict[str, Any]] = []
    for record in hal.ports():
        if record.path is None or record.status == "failed":
            click.echo(f"{record.name}: {record.reason}", err=True)
            continue
        try:
            port = hal.load_port(str(record.path))
            count = port.device_count
        except HalError as error:
            reasons = getattr(error, "reasons", ()) or (str(error),)
            click.echo(f"{record.name}: {record.path}: {reasons[0]}", err=True)
            continue
        for index in range(count):
            try:
                with port.device(index) as device:
                    rows.append(_row(device))
            except HalError as error:
                click.echo(f"{record.name}:{index}: {error}", err=True)
    if as_json:
        click.echo(json.dumps(rows, indent=1))
    for row in rows if not as_json else []:
        memory = f"{row['memory_bytes'] / 2**30:8.2f} GiB"
        click.echo(f"{row['name']:10} {row['hcd']:24} {memory}  {row['title']}")
    if not rows:
        click.echo("No device was found. 'hal ports --why' says why.", err=True)
    return 0 if rows else 1


def _row(device: Any) -> dict[str, Any]:
    return {
        "name": device.name,
        "title": device.text("device.name", default=""),
        "hcd": device.hcd.name,
        "memory_bytes": device.memory_bytes,
        "library": str(device.port.path),
    }
