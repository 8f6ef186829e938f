"""`hal doctor`: what is installed, what is broken, and what to do about it.

Every check answers with findings and never raises: a doctor that falls ill helps nobody. Vendor
libraries are opened in a child process with a time limit, so one that crashes or hangs is a finding
too.
"""

from __future__ import annotations

import importlib
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from hal import __version__, _paths
from hal.cli.attempt import Attempt, attempt_all

OK, NOTE, BROKEN = "ok", "note", "broken"
DISTRIBUTION = "hal-sdk"


@dataclass(frozen=True)
class Finding:
    """One line of the report. `state` is ok, note (works without it) or broken."""

    area: str
    name: str
    state: str
    text: str
    advice: str = ""


def check_python() -> Iterator[Finding]:
    """The interpreter, this package, and every package that it needs."""
    from importlib import metadata

    where = "checkout" if _paths.is_checkout() else "wheel"
    yield Finding("python", "python", OK, f"{platform.python_version()} in {sys.prefix}")
    yield Finding("python", "hal", OK, f"{__version__}, {where} in {_paths.PACKAGE.parent}")
    try:
        needed = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        yield Finding(
            "python",
            DISTRIBUTION,
            BROKEN,
            "is importable but not installed, so no port is announced",
            "pip install --no-build-isolation -e . (in the checkout)",
        )
        return
    for line in needed:
        if "extra ==" in line:
            continue
        name = line.split(";")[0].split(">")[0].split("=")[0].strip()
        yield _check_package(name, line)


def _check_package(name: str, wanted: str) -> Finding:
    """Find one distribution that hal-sdk requires and import it."""
    from importlib import metadata

    module = {"PyYAML": "yaml", "pyelftools": "elftools"}.get(name, name)
    try:
        version = metadata.version(name)
        importlib.import_module(module)
    except metadata.PackageNotFoundError:
        return Finding("python", name, BROKEN, "is not installed", f"pip install '{wanted}'")
    except Exception as error:
        return Finding(
            "python",
            name,
            BROKEN,
            f"does not import: {type(error).__name__}: {error}",
            f"pip install --force-reinstall {name}",
        )
    return Finding("python", name, OK, version)


def check_libraries() -> Iterator[Finding]:
    """Check libhal, the extension module on it, and whether they are older than their sources."""
    again = (
        "cmake --build build/editable, or ./start build"
        if _paths.is_checkout()
        else "pip install --force-reinstall hal-sdk"
    )
    library = _paths.lib_dir() / "libhal.so"
    if not library.is_file():
        yield Finding("libraries", "libhal", BROKEN, f"{library} does not exist", again)
        return
    yield Finding("libraries", "libhal", OK, str(library))
    try:
        importlib.import_module("hal._native")
    except Exception as error:
        yield Finding("libraries", "hal._native", BROKEN, f"does not load: {error}", again)
    else:
        yield Finding("libraries", "hal._native", OK, "loads")
    newer = _sources_newer_than(library)
    if newer is not None:
        yield Finding("libraries", "build", NOTE, f"is older than {newer}", again)


def _sources_newer_than(library: Path) -> Path | None:
    """Return a C source that changed after the libraries were built, or None."""
    if not _paths.is_checkout():
        return None
    # A source that changes no library is built too.
    log = _paths.PACKAGE.parent / "build/editable/.ninja_log"
    built = max(path.stat().st_mtime for path in (library, log) if path.is_file())
    native = _paths.PACKAGE / "native"
    sources = [*native.rglob("*.[ch]"), *_paths.include_dir().rglob("*.h")]
    newer = [path for path in sources if path.stat().st_mtime > built]
    return min(newer, default=None)


def check_data() -> Iterator[Finding]:
    """The folders that the commands read, and the variables that move them."""
    folders = {
        "include": _paths.include_dir(),
        "hcd": _paths.hcd_dir(),
        "conformance": _paths.conformance_dir(),
        "template": _paths.template_dir(),
        "cmake": _paths.cmake_dir(),
    }
    for name, folder in folders.items():
        if folder.is_dir():
            yield Finding("data", name, OK, str(folder))
        else:
            advice = "Reinstall hal-sdk; a file of the package is missing."
            yield Finding("data", name, BROKEN, f"{folder} does not exist", advice)
    if _paths.LIBRARY_ENV in os.environ:
        text = f"{_paths.LIBRARY_ENV}={os.environ[_paths.LIBRARY_ENV]}"
        yield Finding("data", "environment", NOTE, f"{text} replaces the libraries")


def check_ports() -> Iterator[Finding]:
    """Each port that a package or the environment names: does it load, is its description true?"""
    from hal.port.discovery import PATH_ENV, all_candidates, namesakes

    found = all_candidates()
    if not found:
        advice = "Install a port, or hal-sdk itself, which brings some."
        yield Finding("ports", "hal.ports", BROKEN, "no package announces a port", advice)
    tried = attempt_all(port.path for port in found if port.path is not None and not port.problem)
    for port in found:
        one = tried.get(port.path, Attempt()) if port.path is not None else Attempt()
        problem = port.problem or (f"{port.path}: {one.problem}" if one.problem else "")
        if not problem:
            text = " ".join([f"{port.path}, from {port.source}", *one.closed])
            state, advice = (NOTE, _DEVICE_ADVICE) if one.closed else (OK, "")
            yield Finding("ports", port.name, state, text, advice)
            continue
        ours = port.source == f"package {DISTRIBUTION}"
        state, advice = BROKEN if ours or port.source == PATH_ENV else NOTE, _advice(port.source)
        if one.absent and port.source != PATH_ENV:
            state, advice = NOTE, "Nothing is to be mended where the machine has no such device."
        yield Finding("ports", port.name, state, f"from {port.source}: {problem}", advice)

    for name, paths in namesakes(found).items():
        text = f"the name stands for {' and '.join(map(str, paths))}, so it opens neither"
        advice = f"Uninstall one, take it out of {PATH_ENV}, or name ports by their paths."
        yield Finding("ports", name, BROKEN, text, advice)


_DEVICE_ADVICE = "See the device's own tools and the system's log; 'hal devices' tries again."


def _advice(source: str) -> str:
    """Say what to do about a port that does not load, by who named it."""
    from hal.port.discovery import PATH_ENV

    if source == PATH_ENV:
        return f"Correct {PATH_ENV} or unset it."
    if source == f"package {DISTRIBUTION}":
        mend = "./start build" if _paths.is_checkout() else f"Reinstall {DISTRIBUTION}"
        return f"{mend}; a driver that the reason names has tools of its own."
    return f"Mend or uninstall the {source}."


def check_tools() -> Iterator[Finding]:
    """What only the author of a port needs: a C compiler and CMake."""
    advice = {
        "C compiler": "Needed to build ports. Debian: apt-get install gcc",
        "cmake": "Needed to build ports: pip install cmake ninja",
    }
    if shutil.which("make") is None and os.environ.get("CMAKE_GENERATOR") is None:
        text = "neither make nor CMAKE_GENERATOR is there"
        what = "To build ports: apt-get install make, or pip install ninja and cmake -G Ninja"
        yield Finding("tools", "make", NOTE, text, what)
    compiler = (os.environ.get("CC") or "cc").split()[0]
    for name, command in (("C compiler", compiler), ("cmake", "cmake")):
        path = shutil.which(command)
        if path is None:
            yield Finding("tools", name, NOTE, f"'{command}' is not there", advice[name])
        else:
            yield Finding("tools", name, OK, _version_line(path))


def _version_line(path: str) -> str:
    """Return the first line that a tool prints of its version, or its path."""
    try:
        done = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return path
    return next(iter(done.stdout.splitlines()), path)


CHECKS: tuple[Callable[[], Iterator[Finding]], ...] = (
    check_python,
    check_libraries,
    check_data,
    check_ports,
    check_tools,
)


def examine() -> list[Finding]:
    """Run every check; one that fails by itself is reported as a finding."""
    found: list[Finding] = []
    for check in CHECKS:
        try:
            found.extend(check())
        except Exception as error:
            name = check.__name__.removeprefix("check_")
            text = f"this check failed: {type(error).__name__}: {error}"
            found.append(Finding(name, name, BROKEN, text, "Please report it."))
    return found


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def command(as_json: bool) -> int:
    """Say what is installed, what is broken, and what to do.

    Exits with 1 when something is broken that is needed; what is only noted works without.
    """
    found = examine()
    broken = [finding for finding in found if finding.state == BROKEN]
    if as_json:
        click.echo(json.dumps([asdict(finding) for finding in found], indent=1))
        return 1 if broken else 0
    area = ""
    for finding in found:
        if finding.area != area:
            area = finding.area
            click.secho(area, bold=True)
        colour = {OK: "green", NOTE: "yellow", BROKEN: "red"}[finding.state]
        mark = click.style(f"{finding.state:6}", fg=colour)
        click.echo(f"  {mark} {finding.name:14} {finding.text}")
        if finding.advice:
            click.echo(f"  {'':6} {'':14} → {finding.advice}")
    noted = sum(finding.state == NOTE for finding in found)
    click.echo(f"\n{len(found)} checked, {len(broken)} broken, {noted} noted")
    return 1 if broken else 0
