"""A file that cannot be written is refused before the work whose result it would hold."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from hal.cli.output_file import OUTPUT_FILE


def test_a_file_in_a_folder_that_is_there_is_taken(tmp_path: Path) -> None:
    assert OUTPUT_FILE.convert(tmp_path / "a.yaml", None, None) == tmp_path / "a.yaml"


def test_a_file_in_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(click.BadParameter, match=r"no folder .*none; make it: mkdir -p .*none"):
        OUTPUT_FILE.convert(tmp_path / "none" / "a.yaml", None, None)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(click.BadParameter, match="is a directory"):
        OUTPUT_FILE.convert(tmp_path, None, None)


def test_a_device_is_not_measured_for_a_file_that_cannot_be_written(run, tmp_path: Path) -> None:
    done = run("hal.cli", "hcd", "measure", "no_such_port", "-o", tmp_path / "none" / "a.yaml")
    assert done.returncode == 2
    assert "there is no folder" in done.stderr and "no_such_port" not in done.stderr
