"""Is the library of a port sound? Symbols, tables, description against binary, what is missing.

The file is read first, which needs no chip and no fitting machine. What needs the code to run is
done in processes of their own: a port that crashes or hangs is told, and takes nothing with it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from hal.errors import HcdError, UsageError
from hal.portkit.library import Library, host_architecture, read_library

__all__ = ["Finding", "PortCheck", "check", "locate"]

ENTRY = "hal_port_entry"
TIERS = (1, 2, 3)
_OF_THE_HOST = re.compile(r"_?Py[A-Z_]\w*|hal_(?!port_entry$)\w+|kit_\w+|vil_\w+")
_HOST_LIBRARIES = re.compile(r"libpython[\d.]*\.so.*|libhal\.so.*|_native.*\.so")
_SHOWN = 6


@dataclass
class Finding:
    """One thing that was looked at.

    Attributes:
        state: `ok`, `later` (for a tier that was not asked for), `warning`, or `wrong`.
        subject: file, symbols, tables, description, start, functions.
        text: What is the case, and for the rest what to do.
    """

    state: str
    subject: str
    text: str


@dataclass
class PortCheck:
    """What `hal port check` tells.

    Attributes:
        path: The library.
        hcd: The description beside it; empty when there is none.
        architecture: What the library is built for.
        findings: All that was looked at, in order.
        missing: Per tier, the functions that are not there, in the order to write them.
    """

    path: str
    hcd: str = ""
    architecture: str = ""
    findings: list[Finding] = field(default_factory=list)
    missing: dict[int, list[str]] = field(default_factory=dict)

    @property
    def is_sound(self) -> bool:
        """Whether nothing is wrong."""
        return all(finding.state != "wrong" for finding in self.findings)

    def say(self, state: str, subject: str, text: str) -> None:
        """Add a finding."""
        self.findings.append(Finding(state, subject, text))


def locate(path: Path) -> tuple[Path, Path | None]:
    """The library that a path means, and the description beside it.

    Raises:
        UsageError: there is none, or more than one.
    """
    from hal.port.discovery import Spec, candidates, next_step_here

    if ".py" in (path.suffix, Path(str(path).rpartition(":")[0]).suffix):
        raise UsageError(
            f"{path} is a port in Python, which has no library to look at",
            call="port.check",
            next_step="Write 'hal-certify FILE.py:CLASS'; docs/python-port.md has the way to C.",
        )
    found = candidates(Spec(str(path.absolute())))[0]
    if found.path is None:
        next_step = next_step_here(Spec(str(path))) or (
            "Name the .so file, or a folder that holds one."
        )
        raise UsageError(found.problem, call="port.check", next_step=next_step)
    return found.path, found.hcd or _above_the_build(found.path)


def _above_the_build(library: Path) -> Path | None:
    """The one description of the port's folder, for a library that lies in its build folder."""
    for folder in library.parents:
        if not folder.name.startswith("build"):
            near = sorted(folder.glob("*.hcd.yaml")) if folder != library.parent else []
            return near[0] if len(near) == 1 else None
    return None


def check(path: Path, *, tier: int = 1) -> PortCheck:
    """Look at a port's library from all sides.

    Args:
        path: The library, or the folder that holds it.
        tier: Functions that this tier requires and that are missing are wrong; later ones are told.

    Raises:
        UsageError: there is no library at the path, or it is none.
    """
    file, hcd = locate(path)
    library = read_library(file)
    found = PortCheck(str(file), str(hcd or ""), library.architecture)
    runs_here = _check_file(library, found)
    _check_symbols(library, found)
    _check_description(file, hcd, found)
    is_described = found.findings[-1].state != "wrong"
    if not runs_here:
        return found
    if _check_tables(file, found) and is_described:
        _check_start(file, hcd, found, tier)
    return found


def _check_file(library: Library, found: PortCheck) -> bool:
    """Is it a shared library for this machine? Returns whether it can be loaded here."""
    if not library.is_shared:
        found.say("wrong", "file", "It is no shared library. Build it with hal_add_port.")
        return False
    here = host_architecture()
    if library.architecture != here:
        found.say(
            "wrong",
            "file",
            f"It is built for {library.architecture}; this machine is {here}. Its code was not "
            "run: check it on such a machine, or under qemu-user.",
        )
        return False
    if not library.path.name.startswith("hal_port_"):
        found.say("warning", "file", f"{library.path.name}: name it hal_port_NAME.so.")
    found.say("ok", "file", f"A shared library for {library.architecture}.")
    return True


def _check_symbols(library: Library, found: PortCheck) -> None:
    """One symbol out, none of the host's in."""
    before = len(found.findings)
    if ENTRY not in library.exported:
        found.say("wrong", "symbols", f"It does not export {ENTRY}, the one symbol of a port.")
    others = sorted(set(library.exported) - {ENTRY})
    if others:
        found.say(
            "wrong",
            "symbols",
            f"It exports more than {ENTRY}: {_some(others)}. Build it with hal_add_port, which "
            "hides them.",
        )
    ours = sorted(name for name in library.undefined if _OF_THE_HOST.fullmatch(name))
    if ours:
        found.say(
            "wrong",
            "symbols",
            f"It takes symbols of its host: {_some(ours)}. A port imports none: give what it "
            "needs to hal_add_port (KIT, SOURCES, LIBRARIES).",
        )
    hosts = [name for name in library.needed if _HOST_LIBRARIES.fullmatch(name)]
    if hosts:
        found.say("wrong", "symbols", f"It is linked with {_some(hosts)}, which is its host's.")
    own = [name for name in library.search_paths if name and not name.startswith("$ORIGIN")]
    if own:
        found.say("warning", "symbols", f"It looks for libraries in {_some(own)}, of this machine.")
    if len(found.findings) == before:
        needs = ", ".join(library.needed) or "no library"
        found.say("ok", "symbols", f"It exports {ENTRY} alone and needs {needs}.")


def _check_description(file: Path, hcd: Path | None, found: PortCheck) -> None:
    """Is there a valid description? Without one the port is not started."""
    from hal.port.description import load_description
    from hal.port.discovery import descriptions

    several = descriptions(file.parent) if hcd is None else []
    if len(several) > 1:
        names, own = ", ".join(path.name for path in several), f"{file.stem}.hcd.yaml"
        found.say(
            "wrong", "description", f"More than one lies beside it: {names}. Call its own {own}."
        )
        return
    if hcd is None:
        found.say(
            "warning",
            "description",
            "No *.hcd.yaml lies beside it; the port must name a shipped one (hcd.ref).",
        )
        return
    try:
        load_description(hcd)
    except HcdError as error:
        found.say("wrong", "description", f"{error}\nThe port is not started before it is correct.")
        return
    found.say("ok", "description", f"{hcd.name} is valid.")


def _check_tables(file: Path, found: PortCheck) -> bool:
    """Do the tables have the ABI's layout? Returns whether the port can be asked more."""
    from hal.portkit.tables import look_at_tables

    look = look_at_tables(file)
    if look.problem:
        found.say("wrong", "tables", f"{look.problem}.")
        return False
    for text in look.odd:
        found.say("wrong", "tables", f"{text}.")
    stem = file.name.removesuffix(".so").removeprefix("hal_port_")
    if look.name != stem:
        found.say(
            "warning",
            "tables",
            f"The port calls itself '{look.name}' and its file '{stem}'; users type the latter.",
        )
    if not look.odd:
        found.say("ok", "tables", f"ABI {look.abi}; {look.entries} entries, sizes as in hal.h.")
    return not look.odd


def _check_start(file: Path, hcd: Path | None, found: PortCheck, tier: int) -> None:
    """Start the port in a child; then compare what it says with the description."""
    from hal.certify.preflight import missing_functions, preflight
    from hal.port.description import flat_text, load_description
    from hal.testing.session import Target

    text = flat_text(load_description(hcd)).decode() if hcd else ""
    name = str(hcd or "")
    look = preflight(Target(str(file), str(file), text, hcd_source=name, hcd_name=name), 0)
    for number, call, _ in missing_functions(look, max(TIERS)):
        found.missing.setdefault(number, []).append(call)
    for number in TIERS:
        calls = found.missing.get(number, [])
        if calls:
            state = "wrong" if number <= tier else "later"
            found.say(state, "functions", f"Tier {number} lacks {len(calls)}: {_some(calls)}.")
        else:
            found.say("ok", "functions", f"All that tier {number} requires are there.")
    if look.problem:
        found.say("wrong", "start", f"It fails: {look.problem}.")
        return
    for text in look.warnings:
        found.say("warning", "start", f"{text}.")
    devices = look.facts.get("device_count", 0)
    found.say("ok", "start", f"It starts, opens a device (of {devices}), and stops.")
    _compare(file, hcd, found, look.facts, look.answers)


def _compare(
    file: Path,
    hcd: Path | None,
    found: PortCheck,
    facts: dict[str, object],
    answers: dict[str, str],
) -> None:
    """Hold the description of the opened device against what the port is and has."""
    from hal.errors import HalError, PortLoadError
    from hal.port.description import check_claims, load_description, resolve_reference

    reference, overlay = str(facts.get("hcd.ref") or ""), str(facts.get("hcd.overlay") or "")
    try:
        given = load_description(hcd) if hcd else None
        chip = resolve_reference(reference, overlay, file.parent, given)
    except HalError as error:
        beside = f"; {hcd.name} lies beside the library" if hcd is not None else ""
        text = f"The device's hcd.ref is '{reference}': {error}{beside}."
        found.say("wrong", "description", text)
        return
    if hcd is not None and reference and reference not in {hcd.name, chip.name}:
        found.say("warning", "description", f"The device names '{reference}', not {hcd.name}.")
    before = len(found.findings)
    try:
        check_claims(chip, lambda call: answers.get(call) == "present", port=file.name)
    except PortLoadError as error:
        for reason in error.reasons:
            found.say("wrong", "description", f"It claims what the port lacks. {reason}.")
    claimed = sorted({str(f["runs_on"]) for f in chip.get("kernels.formats", []) if "runs_on" in f})
    runs_on = str(facts.get("runs_on") or "")
    if runs_on and claimed and runs_on not in claimed:
        found.say(
            "wrong",
            "description",
            f"kernels.formats says runs_on: {', '.join(claimed)}; the port says {runs_on}.",
        )
    if len(found.findings) == before:
        identity = f"{chip.get('identity.vendor', '?')} {chip.get('identity.product', '?')}"
        found.say(
            "ok", "description", f"The port has what '{identity}' claims; kernels run on {runs_on}."
        )


def _some(names: list[str]) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
