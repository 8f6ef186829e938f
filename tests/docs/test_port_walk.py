"""Follow docs/port-your-chip.md as a reader would: its commands and their exit codes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs/port-your-chip.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"```sh\n(.*?)```", TEXT, re.S)
BUILT = shutil.ignore_patterns("build*", "*.so", "dist", "out", "__pycache__")
BIN = Path(sys.executable).parent


def bash(folder: Path, commands: str) -> subprocess.CompletedProcess[str]:
    """Run a block of the page in a folder."""
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands],
        cwd=folder,
        env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.slow
def test_the_walk_ends_with_a_certified_port(tmp_path: Path) -> None:
    make, check, ship = COMMANDS
    done = bash(tmp_path, make)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "CERTIFIED  tier 1  ./acme"

    assert bash(tmp_path, check).returncode == 0

    done = bash(tmp_path, ship)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(list((tmp_path / "acme/dist").glob("*.whl"))) == 1
    done = bash(tmp_path, f"{sys.executable} -m pytest -q acme/tests")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_hook_that_the_page_shows_is_the_one_in_a_new_port(tmp_path: Path) -> None:
    done = bash(tmp_path, "hal port new acme")
    assert done.returncode == 0, done.stderr
    (shown,) = re.findall(r"```c\n//[^\n]*\n(.*?)```", TEXT, re.S)
    assert shown in (tmp_path / "acme/port.c").read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_port_of_bare_tables_is_told_what_to_write_first(tmp_path: Path) -> None:
    done = bash(tmp_path, "hal port new acme --raw && hal port build acme --no-check")
    assert done.returncode == 0, done.stdout + done.stderr
    done = bash(tmp_path, "hal-certify ./acme --tier 1")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "The port lacks 33 required functions" in done.stdout
    done = bash(tmp_path, "hal port check acme")
    assert done.returncode == 1, done.stdout + done.stderr
    first = done.stdout.partition("Tier 1: write these, in this order\n")[2].split()
    assert first[:3] == ["port.init", "port.shutdown", "port.get_info"]


@pytest.mark.slow
def test_the_example_vendor_builds_away_from_the_tree_and_is_certified(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "docs/examples/acme", tmp_path / "acme", ignore=BUILT)
    done = bash(tmp_path, "hal port build acme && hal port pack acme")
    assert done.returncode == 0, done.stdout + done.stderr
    done = bash(tmp_path, "ACME_CHIPS=0 hal port check acme")
    assert done.returncode == 1
    assert "the Acme runtime finds no chip" in done.stdout
    done = bash(tmp_path, f"{sys.executable} -m pytest -q acme/tests")
    assert done.returncode == 0, done.stdout + done.stderr
    done = bash(tmp_path, "hal-certify ./acme --tier 1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "CERTIFIED  tier 1" in done.stdout
