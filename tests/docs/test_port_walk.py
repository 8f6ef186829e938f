"""Follow docs/port-your-chip.md as a reader would: its commands, its code, its exit codes."""

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
    make, ask, again, check, ship = COMMANDS
    done = bash(tmp_path, make)
    assert done.returncode == 0, done.stdout + done.stderr

    done = bash(tmp_path, ask)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "The port lacks" in done.stdout
    assert "port.init" in done.stdout

    code = re.search(r"```c\n(.*?)```", TEXT, re.S)
    assert code is not None
    (tmp_path / "acme/port.c").write_text(code[1], encoding="utf-8")
    done = bash(tmp_path, again)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "CERTIFIED  tier 1" in done.stdout

    assert bash(tmp_path, check).returncode == 0

    done = bash(tmp_path, ship)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(list((tmp_path / "acme/dist").glob("*.whl"))) == 1
    done = bash(tmp_path, f"{sys.executable} -m pytest -q acme/tests")
    assert done.returncode == 0, done.stdout + done.stderr


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
