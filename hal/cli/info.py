"""`hal info DEVICE`: what one device can do, and who does it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import click

COLOURS = {"native": "green", "emulated": "yellow", "none": "red"}
SUMMARY = (
    ("execution", "execution.model"),
    ("vil profile", "kernels.vil.profile"),
    ("programs per core", "kernels.vil.programs_per_core"),
)


@click.command("info")
@click.argument("device")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def command(device: str, as_json: bool) -> int:
    """Show what DEVICE can do: NAME, NAME:INDEX or NAME:HCD:INDEX; NAME may be a path.

    A capability is native (the port has it), emulated (the loader does it by other means) or none.
    """
    import hal
    from hal.cli.attempt import require_alive

    require_alive(device)
    with hal.open(device) as opened:
        info = asdict(opened.info())
        info["summary"] = dict(_summary(opened.hcd))
        info["features"] = sorted(name for name, on in opened.hcd.get("features", {}).items() if on)
    if as_json:
        click.echo(json.dumps(info, indent=1))
        return 0
    for line in _lines(info):
        click.echo(line)
    return 0


def _summary(hcd: Any) -> Iterator[tuple[str, Any]]:
    """The few facts of a description that fit on a screen."""
    for title, path in SUMMARY:
        value = hcd.get(path)
        if value is not None:
            yield title, value
    yield "formats", ", ".join(row["format"] for row in hcd.get("kernels.formats", []))
    for unit in hcd.get("compute", []):
        yield f"compute {unit['id']}", unit.get("kind", "")
    computed = [f"{d['id']} ({d['compute']})" for d in hcd.get("dtypes", [])]
    yield "dtypes", ", ".join(computed)


def _lines(info: dict[str, Any]) -> Iterator[str]:
    port, hcd, memory = info["port"], info["hcd"], info["memory"]
    yield click.style(f"{info['name']}  {info['title']}", bold=True)
    runs = f", kernels run on the {port['runs_on']}" if port["runs_on"] else ""
    who = f"{port['name']} {port['version']} by {port['vendor']}"
    yield f"  port        {who}, ABI {port['abi']}{runs}"
    if port["runtime"]:
        yield f"  runtime     {port['runtime']}"
    yield f"  library     {port['library']}"
    yield f"  description {hcd['name']}  sha256 {hcd['sha256'][:16]}…  {hcd['file']}"
    free = memory["free_bytes"]
    shown = f", {_bytes(free)} free" if free is not None else ""
    yield (
        f"  memory      {_bytes(memory['total_bytes'])}, {_bytes(memory['in_use_bytes'])} in use"
        f"{shown}"
    )
    for title, value in info["summary"].items():
        yield f"  {title:18} {value}"
    yield f"  {'features':18} {', '.join(info['features']) or 'none'}"
    yield from _capabilities(info["capabilities"])


def _capabilities(capabilities: dict[str, str]) -> Iterator[str]:
    """One line for each interface and state."""
    by_interface: dict[str, dict[str, list[str]]] = {}
    for call, state in capabilities.items():
        interface, _, verb = call.partition(".")
        by_interface.setdefault(interface, {}).setdefault(state, []).append(verb)
    yield click.style("capabilities", bold=True)
    for interface, states in by_interface.items():
        for position, state in enumerate(s for s in COLOURS if s in states):
            head = interface if position == 0 else ""
            mark = click.style(f"{state:8}", fg=COLOURS[state])
            yield f"  {head:12} {mark} {', '.join(states[state])}"


def _bytes(count: int) -> str:
    size = float(count)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
