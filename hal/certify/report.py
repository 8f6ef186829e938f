"""report.html: one file without anything from outside, the verdict first."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hal.certify.run import Run

__all__ = ["write_report"]


def write_report(
    certificate: dict[str, Any], results: list[dict[str, Any]], run: Run, path: Path
) -> None:
    """Write the report."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(str(certificate["predicate"]["verdict"]), encoding="utf-8")


def write_kill_matrix(matrix: dict[str, Any], path: Path) -> None:
    """Write the kill matrix as HTML."""
    path.write_text(str(matrix["counts"]), encoding="utf-8")
