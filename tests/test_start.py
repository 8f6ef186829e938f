"""The front door, ./start: help, wrong words, and what it says when something is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def start(folder: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run the script of a folder."""
    return subprocess.run(
        ["/bin/bash", folder / "start", *words],
        capture_output=True,
        text=True,
        env={**os.environ, **env},
        check=False,
    )


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A folder with the script and what it reads, where nothing was built yet."""
    for name in ("start", "requirements.lock", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


@pytest.fixture
def bare_path(tmp_path: Path) -> str:
    """A PATH with the basic tools: no compiler, no Python, no apt-get."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("bash", "cat", "dirname", "id", "readlink", "sed", "sha256sum"):
        path = shutil.which(name)
        assert path is not None
        (tools / name).symlink_to(path)
    return str(tools)


def test_help_tells_the_ways_to_call_it() -> None:
    done = start(ROOT, "--help")
    assert done.returncode == 0
    assert [
        line.split()[1] for line in done.stdout.splitlines() if line.startswith("  ./start")
    ] == [
        "build,",
        "certify",
        "test",
        "build",
    ]


def test_an_unknown_word_is_refused(clone: Path) -> None:
    done = start(clone, "tset")
    assert (done.returncode, done.stderr) == (
        1,
        "start: there is no 'tset'. ./start --help tells what there is.\n",
    )


def test_a_missing_compiler_and_python_are_named_with_the_command(
    clone: Path, bare_path: str
) -> None:
    done = start(clone, "build", PATH=bare_path, CC="")
    assert done.returncode == 1
    assert "sudo apt-get install gcc libc6-dev make python3 python3-venv python3-dev" in done.stderr
    assert "pip install ziglang; export CC='python3 -m ziglang cc'" in done.stderr
    assert done.stderr.endswith("Install them and run ./start again.\n")


def test_a_compiler_that_is_not_there_is_named(clone: Path) -> None:
    done = start(clone, "build", CC="no-such-cc")
    assert (done.returncode, done.stderr) == (
        1,
        "start: CC names 'no-such-cc', which is not there. Unset it, or name a C compiler.\n",
    )
