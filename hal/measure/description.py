"""The description that measurements make: a child of the device's own, as YAML text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from hal.hcd.cross import OVERLAY
from hal.hcd.schema import leaf_at
from hal.measure.figures import Figure
from hal.wording import counted

if TYPE_CHECKING:
    from hal.hcd import Hcd

__all__ = ["description"]

NEW_LISTS = ("claims.matmul", "library", ".rates")
"""Lists that the parent may lack."""
DIGITS = 4
"""Digits of a measured number that is no whole number."""


def description(
    figures: Sequence[Figure], hcd: Hcd, *, extends: str, device: str, command: str, date: str
) -> str:
    """The text of the file.

    What the port itself told when it was opened stands in it, and is never replaced by a figure.

    Args:
        hcd: The device's description, with what its port told.
        extends: The parent that the file names.
        device: Name of the device, for people.
        command: What was typed.
        date: Day, as 2026-12-01.
    """
    tree: dict[str, Any] = {}
    told = [path for path, _ in hcd.items() if hcd.origin(path).startswith(OVERLAY)]
    for path in told:
        _put(tree, path, hcd[path], "told by the port")
    entries: list[str] = []
    numbers = [path for path in told if leaf_at("chip", path).get("x-measured")]
    if numbers:
        entries += _entry(command, date, "port", numbers, "Told by the port when it was opened.")
    for number, figure in enumerate(figures, 1):
        spread = figure.spread
        paths = [
            path
            for path in (*figure.paths, *figure.low_paths)
            if path not in told and _is_best(figure, path, figures, hcd)
        ]
        if spread is None or not paths:
            continue
        for path, value in figure.extra.items():
            if path not in told:
                _put(tree, path, value, "")
        for path in paths:
            value = spread.low if path in figure.low_paths else spread.middle
            had = hcd.get(path)
            _put(tree, path, rounded(path, value), "new" if had is None else f"was {had}")
        conditions = (
            f"{figure.note}. Unit: {figure.unit}; {counted(len(spread.values), 'round')}: "
            f"min {spread.low:.6g}, median {spread.middle:.6g}, max {spread.high:.6g}."
        )
        entries += _entry(command, date, f"measured-{number}", paths, conditions)
    head = [
        f"# Measured on {device} by `{command}`, {date}.",
        "# Each number has its spread under provenance.",
        'hcd_version: "1.0"',
        f"extends: {json.dumps(extends)}",
        *_lines(tree, 0, ""),
        *(["provenance:", *entries] if entries else []),
    ]
    return "\n".join(head) + "\n"


def _is_best(figure: Figure, path: str, figures: Sequence[Figure], hcd: Hcd) -> bool:
    """Whether a leaf takes this figure: no other of the same leaf is greater, nor a datasheet."""
    if figure.spread is None or not figure.spread.is_sound:
        return False
    value = figure.spread.middle
    is_exact = hcd.get("features.virtual_clock", False) or hcd.provenance(path) == "datasheet"
    if figure.is_floor and is_exact:
        return value > float(hcd.get(path, 0))
    rivals = [f.spread for f in figures if path in f.paths and f.spread and f.spread.is_sound]
    return all(rival.middle <= value for rival in rivals)


def rounded(path: str, value: float) -> int | float:
    """A number as its leaf takes it: whole, but for rates a cycle."""
    if path.endswith("_per_cycle"):
        return float(f"{value:.{DIGITS}g}")
    return max(1, round(value)) if path.endswith("_per_s") else round(value)


def _put(tree: dict[str, Any], path: str, value: object, comment: str) -> None:
    *parents, last = path.split(".")
    for key in parents:
        tree = tree.setdefault(key, {})
    tree[last] = (value, comment)


def _lines(tree: dict[str, Any], depth: int, path: str) -> Iterator[str]:
    """The mapping as YAML. Lists of objects that a parent has are mappings from their ids."""
    for key, value in tree.items():
        here = f"{path}.{key}".lstrip(".")
        if not isinstance(value, dict):
            plain, comment = value
            text = json.dumps(plain, ensure_ascii=False)
            yield f"{'  ' * depth}{key}: {text}" + (f"  # {comment}" if comment else "")
        elif any(here.endswith(name) for name in NEW_LISTS):
            yield f"{'  ' * depth}{key}:"
            for name, row in value.items():
                yield f"{'  ' * depth}  - id: {name}"
                yield from _lines(row, depth + 2, f"{here}.{name}")
        else:
            yield f"{'  ' * depth}{key}:"
            yield from _lines(value, depth + 1, here)


def _entry(command: str, date: str, name: str, paths: Sequence[str], conditions: str) -> list[str]:
    """One entry of `provenance`."""
    return [
        f"  - id: {name}",
        f"    covers: {json.dumps(list(paths))}",
        "    source: measured",
        f"    reference: {json.dumps(command, ensure_ascii=False)}",
        f'    date: "{date}"',
        f"    conditions: {json.dumps(conditions, ensure_ascii=False)}",
    ]
