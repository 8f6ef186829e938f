"""The folder of a new port, from the template by copier."""

from __future__ import annotations

import re
from pathlib import Path

from hal.errors import UsageError
from hal.portkit.kinds import KINDS
from hal.portkit.update import keep_origin, render

__all__ = ["start_port"]

VENDOR = "your company"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")
_RESERVED = ("template", "kit")


def start_port(
    name: str, into: Path, *, kind: str = KINDS[0], vendor: str = VENDOR, raw: bool = False
) -> Path:
    """Write the template's files to `into`/`name` and return that folder.

    Args:
        name: Name of the port.
        into: The folder that gets the new folder.
        kind: One of KINDS.
        vendor: The company, as the port names it.
        raw: Bare tables, whose functions are all to be written, and not hooks of the kit.

    Raises:
        UsageError: the name cannot name a library and a Python package, a port has it, the folder
            is there or cannot be made, or the vendor cannot stand in a C string.
    """
    if _NAME.fullmatch(name) is None or name in _RESERVED:
        raise _refusal(
            f"'{name}' cannot name a port",
            "Use 1 to 32 small letters, digits and underscores, a letter first, "
            f"and neither '{_RESERVED[0]}' nor '{_RESERVED[1]}'.",
        )
    if not vendor or not vendor.isprintable() or set(vendor) & set('"\\'):
        raise _refusal(f"{vendor!r} cannot name a vendor", "Leave quotes and backslashes out.")
    _refuse_taken(name)
    folder = into / name
    if folder.exists():
        raise _refusal(f"{folder} exists", "Choose another name, or remove it first.")
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise _refusal(
            f"{folder} cannot be made: {error.strerror}", "Name a folder of yours with --into."
        ) from None
    render({"name": name, "kind": kind, "vendor": vendor, "raw": raw}, folder)
    keep_origin(folder)
    return folder


def _refuse_taken(name: str) -> None:
    """Refuse the name of a port that is there: two ports of one name cannot be loaded by it."""
    from hal.port.discovery import all_candidates

    for found in all_candidates():
        if found.name == name:
            raise _refusal(
                f"there is a port '{name}' at {found.path}",
                "Choose another name; two ports of one name can only be told by path.",
            )


def _refusal(problem: str, next_step: str) -> UsageError:
    return UsageError(problem, call="port.new", next_step=next_step)
