"""Compiled modules on disk: the VIL image under the hash of all that it depends on.

Each file begins with the SHA-256 of the rest, so that a torn or changed one is seen and made again.
Nothing here ever fails a compilation: what cannot be read or written is left out.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from hal import __version__, _paths
from hal.ir.nodes import Kernel

__all__ = ["find", "identity", "keep"]

DIGEST_BYTES = 32


def identity(
    kernel: Kernel, hcd_sha256: str, sizes: Mapping[str, int], options: Mapping[str, object]
) -> str:
    """SHA-256 of what an image depends on: kernel, chip, sizes, options and this SDK."""
    parts = [repr(kernel), hcd_sha256, __version__, _made_by()]
    parts.append(json.dumps([dict(sizes), dict(options)], sort_keys=True, default=repr))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def find(key: str) -> bytes | None:
    """The image of an identity; None when there is none, or it is damaged."""
    try:
        data = _path(key).read_bytes()
    except OSError:
        return None
    digest, image = data[:DIGEST_BYTES], data[DIGEST_BYTES:]
    return image if hashlib.sha256(image).digest() == digest else None


def keep(key: str, image: bytes) -> None:
    """Writes an image, all or nothing."""
    path = _path(key)
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(image).digest() + image)
            Path(name).replace(path)
        except OSError:
            Path(name).unlink(missing_ok=True)


def _path(key: str) -> Path:
    return _paths.cache_dir() / "kernels" / f"{key}.hvil"


@cache
def _made_by() -> str:
    """What tells one state of the compiler from another: its files' lengths and times."""
    root = Path(__file__).resolve().parents[1]
    facts = []
    for folder in ("codegen", "ir", "vil"):
        for path in sorted((root / folder).rglob("*.py")):
            entry = path.stat()
            facts.append(f"{path.name} {entry.st_size} {entry.st_mtime_ns}")
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()
