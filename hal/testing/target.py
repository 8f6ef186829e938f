"""From what a user types to a shared object and its HCD, without loading anything."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hal.errors import UsageError
from hal.testing.session import Target

if TYPE_CHECKING:
    from hal.hcd import Hcd

__all__ = ["describe", "find"]


def find(spec: str = "", *, hcd: str = "") -> Target:
    """Return the target that a port's name, path, folder or `NAME:HCD` stands for.

    Args:
        spec: What the user typed; empty for the default port.
        hcd: An HCD's file or shipped name; it wins over one in `spec` and over one beside the port.

    Raises:
        UsageError: there is no such port, or more than one.
        HcdError: the HCD is wrong.
    """
    from hal.port.description import flat_text, load_description
    from hal.port.discovery import (
        DEFAULT_PORT,
        all_candidates,
        candidates,
        next_step_here,
        parse_spec,
    )

    wish = parse_spec(spec or DEFAULT_PORT)
    if hcd:
        wish = replace(wish, hcd=hcd)
    found = candidates(wish)
    files = {candidate.path: candidate for candidate in found if candidate.path is not None}
    if not files:
        problems = [candidate.problem for candidate in found if candidate.problem]
        names = sorted({candidate.name for candidate in all_candidates()})
        listed = ", ".join(names) or "(none installed)"
        raise UsageError(
            "; ".join(problems) or f"there is no port '{wish.port}'",
            call="hal-certify",
            next_step=next_step_here(wish)
            or f"Name one of {listed}, a .so file, or a folder that holds one.",
        )
    if len(files) > 1:
        raise UsageError(
            f"'{wish.port}' is {len(files)} files: {', '.join(map(str, files))}",
            call="hal-certify",
            next_step="Give the path of one.",
        )
    path, candidate = next(iter(files.items()))
    assert path is not None
    source = wish.hcd or (str(candidate.hcd) if candidate.hcd else "")
    text, shown = "", ""
    if source:
        given = load_description(source)
        text, shown = flat_text(given).decode(), given.file
    return Target(
        name=spec or DEFAULT_PORT,
        path=str(path),
        hcd_text=text,
        hcd_source=shown,
        hcd_name=source,
        index=wish.index,
        python_class=candidate.python_class,
    )


def describe(target: Target, reference: str, overlay: str) -> Hcd:
    """Return the resolved HCD of the device that answered `reference` and `overlay`.

    Raises:
        HcdError: the reference names no HCD, or the overlay does not fit.
    """
    from hal.hcd import from_flat
    from hal.port.description import load_description, resolve_reference

    given = None
    if target.hcd_name:
        given = load_description(target.hcd_name)
    elif target.hcd_text:
        given = from_flat(target.hcd_text)
    return resolve_reference(reference, overlay, Path(target.path).parent, given)
