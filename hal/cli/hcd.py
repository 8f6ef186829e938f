"""The command `hal hcd`: check, show, resolve and compare capability descriptions."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hal.cli.hcd_import import command as import_command
from hal.cli.hcd_measure import command as measure_command
from hal.errors import HalError, UsageError
from hal.wording import counted

if TYPE_CHECKING:
    from hal.hcd import Hcd

_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON for a program.")
_NAME = "A FILE is a path, or the name of a shipped description such as sim/npu-small."


@click.group(epilog=_NAME)
def command() -> None:
    """Check, show, resolve and compare capability descriptions of chips."""


command.add_command(import_command)
command.add_command(measure_command)


def _load(name: str) -> Hcd:
    """Loads a description and prints its warnings on stderr."""
    from hal.hcd import load

    hcd = load(name)
    for warning in hcd.warnings:
        click.echo(f"warning: {warning}", err=True)
    return hcd


def _dump(value: Any) -> None:
    click.echo(json.dumps(value, indent=1, ensure_ascii=False))


@command.command(epilog=_NAME)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@_JSON
def check(files: tuple[str, ...], as_json: bool) -> None:
    """Say everything that is wrong with each FILE.

    Exit code 0: all are right. 2: at least one is wrong; each mistake is one line
    `file:line:col: path: what is wrong; what is allowed`.
    """
    from hal.errors import HcdError

    results = []
    for name in files:
        try:
            hcd = _load(name)
        except HcdError as error:
            results.append({"file": name, "ok": False, "problems": list(error.problems)})
            if not as_json:
                click.echo(str(error), err=True)
        else:
            results.append({"file": name, "ok": True, "name": hcd.name, "sha256": hcd.sha256})
            if not as_json:
                click.echo(f"{name}: ok ({hcd.kind} {hcd.name}, sha256 {hcd.sha256[:16]})")
    if as_json:
        _dump(results)
    sys.exit(0 if all(result["ok"] for result in results) else 2)


@command.command(epilog=_NAME)
@click.argument("file")
@click.argument("section", required=False)
@_JSON
def show(file: str, section: str | None, as_json: bool) -> None:
    """Show FILE for people: a summary, or all values of one SECTION or path."""
    hcd = _load(file)
    if section is None and not as_json:
        _summary(hcd)
        return
    value = hcd.data if section is None else hcd[section]
    if as_json:
        _dump(value)
        return
    rows = [(path, _text(v)) for path, v in hcd.items() if f"{path}.".startswith(f"{section}.")]
    _table(("path", "value"), rows, title=f"{hcd.name}: {section}")


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:,}"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]], *, title: str) -> None:
    """Prints a table: drawn on a terminal, tab-separated lines into a pipe."""
    if not sys.stdout.isatty():
        for row in rows:
            click.echo("\t".join(row))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", show_header=any(head))
    for name in head:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)


def _summary(hcd: Hcd) -> None:
    rows: list[tuple[str, ...]] = [("name", hcd.name), ("kind", hcd.kind)]
    rows += [(key, _text(value)) for key, value in hcd.get("identity", {}).items()]
    for unit in hcd.get("units", []):
        count = f"{unit['count']} x " if "count" in unit else ""  # A part may leave it to a child.
        rows.append((f"unit {unit['id']}", f"{count}{unit.get('kind', '')}"))
    for memory in hcd.get("memory", []):
        speed = memory.get("bandwidth_bytes_per_s")
        text = f"{speed / 1e9:,.1f} GB/s" if speed else ""
        if "bandwidth_bytes_per_cycle" in memory:
            text = f"{_text(memory['bandwidth_bytes_per_cycle'])} bytes a cycle"
        size = f"{_size(memory['capacity_bytes'])} " if "capacity_bytes" in memory else ""
        kind = memory.get("kind", "")
        rows.append((f"memory {memory['id']}", f"{size}{kind}, {text}".rstrip(", ")))
    for part in hcd.get("compute", []):
        names = ", ".join(row["id"] for row in part.get("operations", []))
        rows.append((f"compute {part['id']}", f"{part.get('kind', '')}: {names}"))
    if "kernels.formats" in hcd and hcd.kind == "chip":
        formats = [f"{f['format']} on the {f['runs_on']}" for f in hcd["kernels.formats"]]
        rows.append(("kernels", ", ".join(formats)))
        rows.append(("vil profile", hcd.get("kernels.vil.profile", "")))
    on = [name for name, value in hcd.get("features", {}).items() if value]
    rows.append(("features", ", ".join(sorted(on))))
    for device in hcd.get("devices", []):
        rows.append((f"device {device['id']}", device["chip"]))
    for link in hcd.get("links", []):
        ends = " - ".join(link.get("ends", []))
        speed = f"{link['count']} x {link['bytes_per_s'] / 1e9:,.1f} GB/s"
        rows.append((f"link {link['id']}", f"{ends} {speed}".strip()))
    rows.append(("sha256", hcd.sha256))
    _table(("", ""), rows, title=hcd.file)


def _size(count: int) -> str:
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= factor:
            return f"{count / factor:,.4g} {unit}"
    return f"{count} bytes"


@command.command(epilog=_NAME)
@click.argument("file")
@click.option("--flat", is_flag=True, help="Print the canonical form: path, tab, value.")
@_JSON
def resolve(file: str, flat: bool, as_json: bool) -> None:
    """Print FILE with all that it extends, each value with its place of origin."""
    hcd = _load(file)
    if flat:
        click.echo(hcd.flat(), nl=False)
        return
    if as_json:
        _dump({p: {"value": v, "origin": hcd.origin(p)} for p, v in hcd.items()})
        return
    from hal.hcd.flat import text_of

    for path, value in hcd.items():
        click.echo(f"{path}: {text_of(value)}  # {hcd.origin(path)}")


@command.command(epilog=_NAME)
@click.argument("a")
@click.argument("b")
@_JSON
def diff(a: str, b: str, as_json: bool) -> None:
    """Compare two descriptions by the rule of each value: does B keep what A declares?

    Exit code 0: B keeps every promise of A. 1: at least one is broken.
    """
    from hal.hcd import compare

    rows = [
        row
        for row in compare(_load(a), _load(b))
        if row.declared != row.reported and not row.path.endswith(".id")
    ]
    broken = [row for row in rows if row.verdict == "fail" or _gone(row)]
    if as_json:
        keys = ("path", "rule", "a", "b", "broken")
        _dump(
            [
                dict(zip(keys, (r.path, r.rule, r.declared, r.reported, r in broken), strict=True))
                for r in rows
            ]
        )
    else:
        lines: list[tuple[str, ...]] = []
        for row in rows:
            cells = ["-" if v is None else _text(v) for v in (row.declared, row.reported)]
            verdict = "broken" if row in broken else "kept" if row.verdict == "pass" else "differs"
            lines.append((verdict, row.path, *cells, row.rule))
        _table(("", "path", a, b, "rule"), lines, title=counted(len(rows), "difference"))
        click.echo(
            f"{counted(len(rows), 'difference')}, {counted(len(broken), 'broken promise')}",
            err=True,
        )
    sys.exit(1 if broken else 0)


def _gone(row: Any) -> bool:
    """Whether A promises something that B no longer declares."""
    if row.reported is not None or row.rule == "info":
        return False
    return bool(row.declared) if row.rule == "implies" else True


@command.command(epilog=_NAME)
@click.argument("file")
@click.option("--profile", "wanted", multiple=True, help="Ask for this profile only (repeatable).")
@_JSON
def profile(file: str, wanted: tuple[str, ...], as_json: bool) -> None:
    """Say which profiles FILE meets, and what it lacks for the others.

    Exit code 1 when a profile that --profile names is not met.
    """
    from hal.hcd.profiles import load_profile, missing, shipped_profiles

    hcd = _load(file)
    if hcd.kind not in ("chip", "part"):
        raise UsageError(f"is a {hcd.kind}; profiles ask for what a chip has", call=file)
    results: dict[str, Any] = {}
    for name in wanted or shipped_profiles():
        found = load_profile(name)
        results[found["profile"]] = missing(hcd, found)
    if as_json:
        _dump({n: {"met": not ls, "lacks": [x._asdict() for x in ls]} for n, ls in results.items()})
    else:
        for name, lacks in results.items():
            click.echo(f"{name}: {'met' if not lacks else f'{len(lacks)} lacking'}")
            for lack in lacks:
                have = "nothing" if lack.declared is None else _text(lack.declared)
                need = _text(lack.required)
                click.echo(f"  {lack.path}: declares {have}; needs {lack.rule} {need}")
    sys.exit(1 if wanted and any(results.values()) else 0)


@command.command()
@click.option("--check", "only_check", is_flag=True, help="Write nothing; fail on a difference.")
def docs(only_check: bool) -> None:
    """Write what is made from the schema: the reference page and the compiled schema."""
    from hal import _paths
    from hal.hcd.reference import reference
    from hal.hcd.schema import COMPILED, compiled_text, schema

    if not _paths.is_checkout():
        raise HalError("only a source checkout has the reference page", call="hcd docs")
    compiled = compiled_text(_paths.hcd_dir() / "schema")
    stale = []
    if _differs(COMPILED, compiled):
        stale.append(COMPILED)
        if not only_check:
            COMPILED.write_text(compiled, encoding="utf-8")
            schema.cache_clear()
    page = _paths.data_root() / "docs" / "hcd-reference.md"
    if _differs(page, reference()):
        stale.append(page)
        if not only_check:
            page.write_text(reference(), encoding="utf-8")
    for path in stale:
        click.echo(f"{'stale' if only_check else 'wrote'}: {path}")
    if stale and only_check:
        click.echo("run `hal hcd docs` and commit the result", err=True)
        sys.exit(1)


def _differs(path: Path, text: str) -> bool:
    return not path.exists() or path.read_text(encoding="utf-8") != text
