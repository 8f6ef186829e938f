"""Profiles: what a class of software asks of a chip, and what a chip lacks for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from hal.errors import HcdError
from hal.hcd import schema as language
from hal.hcd.compare import holds
from hal.hcd.model import Hcd, load


class Lack(NamedTuple):
    """One requirement that a chip does not meet. `declared` is None when it says nothing."""

    path: str
    rule: str
    required: Any
    declared: Any


def shipped_profiles() -> dict[str, Path]:
    """Name and file of each profile that comes with the SDK."""
    from hal import _paths

    folder = _paths.hcd_dir() / "profiles"
    return {path.name.partition(".")[0]: path for path in sorted(folder.glob("*.profile.yaml"))}


def load_profile(name: str | Path) -> Hcd:
    """Reads a shipped profile by name, or a file. Raises HcdError when it is not a profile."""
    known = shipped_profiles()
    path = known.get(str(name), Path(name))
    if str(name) not in known and not path.exists():
        hint = language.nearest(name, list(known))
        raise HcdError(f"there is no profile {str(name)!r}; shipped are {', '.join(known)}{hint}")
    profile = load(path)
    if profile.kind != "profile":
        raise HcdError(f"is a {profile.kind}, not a profile", call=str(path))
    return profile


def requirements(profile: Hcd, seen: tuple[str, ...] = ()) -> dict[str, Any]:
    """All that a profile asks for, with what it includes. Raises HcdError on a circle."""
    name = profile["profile"]
    if name in seen:
        raise HcdError(f"includes go in a circle: {' -> '.join([*seen, name])}", call=profile.file)
    out: dict[str, Any] = {}
    for include in profile.get("includes", []):
        out.update(requirements(load_profile(include), (*seen, name)))
    out.update(profile["requires"])
    return out


def missing(chip: Hcd, profile: Hcd) -> list[Lack]:
    """What the chip lacks for the profile; an empty list means that it meets it.

    A list beside a single value means any of them; otherwise the leaf's rule compares.
    Raises HcdError when the profile asks for a path that the language does not have.
    """
    lacks = []
    for path, required in sorted(requirements(profile).items()):
        try:
            leaf = language.leaf_at("chip", path)
        except HcdError as error:
            raise HcdError(error.problem, call=f"{profile.file}: requires") from None
        declared = chip.get(path)
        rule = leaf["x-compare"]
        if isinstance(required, list) and leaf.get("type") != "array":
            kept, rule = declared in required, "any of"
        else:
            rule = "exact" if rule == "info" else rule
            kept = declared is not None and holds(rule, required, declared)
        if not kept:
            lacks.append(Lack(path, rule, required, declared))
    return lacks
