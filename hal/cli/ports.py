"""`hal ports`: every port that is named somewhere, and why each did or did not load."""

from __future__ import annotations

import json
from dataclasses import asdict

import click


@click.command("ports")
@click.option("--why", is_flag=True, help="Try each port and say what happened.")
@click.option("--json", "as_json", is_flag=True, help="Print the records as JSON.")
def command(why: bool, as_json: bool) -> int:
    """List the ports that packages and HAL_PORT_PATH name.

    Without --why nothing is loaded. Exits with 1 when a port that was tried did not load.
    """
    import hal
    from hal.loading import try_all

    records = try_all() if why else hal.ports()
    if as_json:
        rows = [{**asdict(r), "path": str(r.path) if r.path else None} for r in records]
        click.echo(json.dumps(rows, indent=1))
    else:
        _print(records)
    return 1 if any(record.status == "failed" for record in records) else 0


def _print(records: list[hal.PortRecord]) -> None:  # type: ignore[name-defined] # noqa: F821
    if not records:
        click.echo("No port is installed. Install one, or name its .so file in HAL_PORT_PATH.")
        return
    for record in records:
        colour = {"loaded": "green", "failed": "red"}.get(record.status, "yellow")
        state = click.style(f"{record.status:9}", fg=colour)
        click.echo(f"{record.name:12} {state} {record.source}: {record.path or '(no file)'}")
        if record.hcd:
            click.echo(f"{'':22} described by {record.hcd}")
        if record.reason:
            click.echo(f"{'':22} {record.reason}")
