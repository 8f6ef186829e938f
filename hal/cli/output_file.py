"""A file to write as an option takes it: refused before the work whose result it would hold."""

from __future__ import annotations

import os
from pathlib import Path

import click

__all__ = ["OUTPUT_FILE"]


class _OutputFile(click.Path):
    """A path that can be written."""

    name = "file"

    def __init__(self) -> None:
        super().__init__(path_type=Path, dir_okay=False, writable=True)

    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Path:
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        folder = path.parent
        if not folder.is_dir():
            self.fail(f"there is no folder {folder}; make it: mkdir -p {folder}", param, ctx)
        if not path.exists() and not os.access(folder, os.W_OK | os.X_OK):
            self.fail(f"the folder {folder} cannot be written; name a file elsewhere", param, ctx)
        return path


OUTPUT_FILE = _OutputFile()
"""The type of an option that names a file to write."""
