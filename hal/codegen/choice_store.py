"""Choices that `hal tune` found, on disk: one small file for each kernel, chip and sizes.

A file that cannot be read, or that another version wrote, counts as absent. Writing is atomic, so
that processes may share the folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hal import _paths
from hal.ir import show
from hal.ir.nodes import Kernel

__all__ = ["find", "identity", "keep", "path_of", "state"]

VERSION = 1


def identity(kernel: Kernel, hcd_sha256: str, sizes: Mapping[str, int]) -> str:
    """SHA-256 of what a choice depends on: the kernel's text, the chip and the sizes."""
    parts = [show(kernel), hcd_sha256, json.dumps(dict(sizes), sort_keys=True)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def path_of(key: str) -> Path:
    """The file of an identity."""
    return _paths.cache_dir() / "choices" / f"{key}.json"


def state() -> int:
    """A number that changes when a choice is kept or goes; 0 without any."""
    try:
        return (_paths.cache_dir() / "choices").stat().st_mtime_ns
    except OSError:
        return 0


def find(kernel: Kernel, hcd_sha256: str, sizes: Mapping[str, int]) -> list[Any] | None:
    """The tuned choice of each group of statements, in order; None when nothing was tuned.

    Each is what `hal.codegen.tuned.plain` made of it.
    """
    try:
        text = path_of(identity(kernel, hcd_sha256, sizes)).read_text(encoding="utf-8")
        data = json.loads(text)
        known = data["version"] == VERSION
        return (
            [item if isinstance(item, dict) else None for item in data["choices"]]
            if known
            else None
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def keep(kernel: Kernel, hcd_sha256: str, sizes: Mapping[str, int], choices: Sequence[Any]) -> Path:
    """Writes the plain choices and returns the file. Raises OSError when the folder takes none."""
    path = path_of(identity(kernel, hcd_sha256, sizes))
    path.parent.mkdir(parents=True, exist_ok=True)
    data = {"version": VERSION, "kernel": kernel.name, "choices": list(choices)}
    text = json.dumps(data, indent=1)
    handle, name = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text + "\n")
        Path(name).replace(path)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise
    return path
