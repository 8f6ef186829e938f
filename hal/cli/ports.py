"""`hal ports`: every port that is named somewhere, and why each did or did not load."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from hal import PortRecord


@click.command("ports")
@click.option("--why", is_flag=True, help="Try each port and say what happened.")
@click.option("--json", "as_json", is_flag=True, help="Print the records as JSON.")
def command(why: bool, as_json: bool) -> int:
    """List the ports that packages and HAL_PORT_PATH name.

    Without --why nothing is loaded. With it each port is tried in a process of its own. Exits with
    1 when a port did not load.
    """
    import hal

    records = _tried(hal.ports()) if why else hal.ports()
    if as_json:
        rows = [{**asdict(r), "path": str(r.path) if r.path else None} for r in records]
        click.echo(json.dumps(rows, indent=1))
    else:
        _print(records)
    if not why and not as_json and records:
        click.echo("\nNothing was loaded; 'hal ports --why' tries each.", err=True)
    return 1 if any(record.status == "failed" for record in records) else 0


def _tried(records: list[PortRecord]) -> list[PortRecord]:
    """The records again, each with the outcome of a try."""
    from hal.cli.attempt import attempt_all
    from hal.port.discovery import all_candidates, namesakes

    twins = namesakes(all_candidates())
    found = attempt_all(r.path for r in records if r.path is not None and r.status == "not tried")
    out = []
    for record in records:
        if record.path in found and record.status == "not tried":
            problem = found[record.path].problem
            said = problem or " ".join(found[record.path].closed)
            record = replace(record, status="failed" if problem else "loaded", reason=said)
        if record.name in twins and record.path in twins[record.name]:
            others = ", ".join(str(path) for path in twins[record.name] if path != record.path)
            text = f"{record.reason} The name is also that of {others}: open each by its path."
            record = replace(record, status="failed", reason=text.strip())
        out.append(record)
    return out


def _print(records: list[PortRecord]) -> None:
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
