"""Kinds of chips: what a new port's folder says differently for an NPU, a GPU and processors."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["KINDS", "add_kind", "add_start_files"]

KINDS = tuple("npu gpu cpu".split())
"""The kinds; the first is the default."""

_START = Path(__file__).resolve().parent / "start"
_FILES = {
    "port.yml": ".github/workflows/port.yml",
    "test_port.py.txt": "tests/test_port.py",
    "gitignore.txt": ".gitignore",
}


@cache
def _notes() -> dict[str, Any]:
    import yaml

    notes: dict[str, Any] = yaml.safe_load((_START / "kinds.yaml").read_text(encoding="utf-8"))
    return notes


def add_start_files(folder: Path) -> None:
    """Write the files that are the same for every port: CI, the first tests, what git ignores."""
    for source, target in _FILES.items():
        path = folder / target
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text((_START / source).read_text(encoding="utf-8"), encoding="utf-8")


def add_kind(kind: str, readme: Path, hcd: Path) -> None:
    """Add what is true of a kind: a part of the README, comments in the description."""
    notes = _notes()[kind]
    text = readme.read_text(encoding="utf-8").rstrip("\n")
    readme.write_text(f"{text}\n\n## {notes['title']}\n\n{notes['readme']}", encoding="utf-8")
    text = hcd.read_text(encoding="utf-8")
    for section, note in notes["hcd"].items():
        comment = "".join(f"# {line}\n" for line in note.splitlines())
        text = re.sub(rf"^{section}:", f"{comment}{section}:", text, count=1, flags=re.M)
    hcd.write_text(text, encoding="utf-8")
