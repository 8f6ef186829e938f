"""`hal cert`: show a certificate, check it against its results, compare two."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

PLACE = click.Path(path_type=Path)


@click.group("cert", context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Show, verify and compare certificates."""


@command.command("show")
@click.argument("place", type=PLACE, metavar="DIR|FILE")
def show(place: Path) -> int:
    """Print what a certificate says; exit status 1 when it does not certify."""
    from hal.certify.certificate import read_certificate

    predicate = read_certificate(place)["predicate"]
    for line in _lines(predicate):
        click.echo(line)
    return 0 if predicate["verdict"] == "CERTIFIED" else 1


def _lines(predicate: dict[str, Any]) -> Iterator[str]:
    port, digests = predicate["port"], predicate["digests"]
    yield f"{predicate['verdict']}  tier {predicate['tier']}  {predicate['claim']}"
    yield from (f"  {reason}" for reason in predicate["reasons"])
    vendor = port["vendor"] or "an unknown vendor"
    yield f"port      {port['name']} {port['version']} by {vendor}, ABI {port['abi']}"
    yield f"device    {port['device_index']}: {port['device']}"
    counts = ", ".join(f"{count} {status}" for status, count in predicate["counts"].items())
    yield f"cases     {predicate['required']} required: {counts}"
    for name, value in predicate["numerics"].items():
        yield f"weaker    {name}: {value}"
    for skip in predicate["skips"]:
        yield f"skip      {skip['id']} ({skip['capability']})"
    host = predicate["host_share"]
    yield f"runs on   {host['port'] or 'unknown'}"
    for name, digest in digests.items():
        yield f"sha256    {name:12} {digest or '-'}"
    when = predicate["environment"]
    yield f"run       {when['started']}, {when['seconds']} s, seed {predicate['seed']}, " + (
        f"nonce {predicate['nonce']}" if predicate["nonce"] else "no nonce"
    )
    yield f"machine   {when['processor']}, {when['cores']} cores, {when['system']}"


@command.command("verify")
@click.argument("place", type=PLACE, metavar="DIR|FILE")
@click.option("--port", type=PLACE, metavar="FILE", help="The shared object; its hash is compared.")
def verify(place: Path, port: Path | None) -> int:
    """Derive the verdict again from the results; exit status 5 when it does not hold.

    The stated verdict is ignored. Each required case must be there exactly once, the hash chain
    must be whole, and each skip must be one that the chip's HCD allows.
    """
    from hal.certify.verification import UNPROVEN
    from hal.certify.verification import verify as check

    found = check(place, port)
    for problem in found.problems:
        click.echo(f"wrong     {problem}")
    click.echo(f"derived   {found.derived}")
    for text in UNPROVEN:
        click.echo(f"unproven  {text}")
    return 5 if found.problems else 0


@command.command("diff")
@click.argument("old", type=PLACE)
@click.argument("new", type=PLACE)
def diff(old: Path, new: Path) -> int:
    """Compare two certificates and, where they are there, their results; exit status 1 if worse."""
    from hal.certify.certificate import read_certificate
    from hal.certify.difference import compare

    found = compare(
        read_certificate(old)["predicate"],
        read_certificate(new)["predicate"],
        _results(old),
        _results(new),
    )
    for line in found.lines:
        click.echo(line)
    return 1 if found.is_worse else 0


def _results(place: Path) -> dict[str, dict[str, Any]]:
    """Return the results beside a certificate; none when they are not there."""
    from hal.certify.results import latest, read

    folder = place if place.is_dir() else place.parent
    return latest(read(folder / "results.jsonl").results)
