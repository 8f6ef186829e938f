"""The program in examples/c, built as its README says and run on this machine."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hal import _paths

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, run) -> Path:
    """The folder with the program `add` and the module image."""
    out = tmp_path_factory.mktemp("c_example")
    done = run("hal.cli", "vil", "asm", ROOT / "examples/c/add.vil", "-o", out / "add.hvil")
    assert done.returncode == 0, done.stderr
    source = ["-S", ROOT / "examples/c", "-B", out, f"-Dhal_DIR={_paths.cmake_dir()}"]
    for words in (source, ["--build", out]):
        done = subprocess.run(["cmake", *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    return out


def add(built: Path, port: Path) -> subprocess.CompletedProcess[str]:
    """Run the program with a port."""
    words = [built / "add", port, built / "add.hvil"]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)


def test_it_adds_on_this_machine(built: Path) -> None:
    done = add(built, _paths.lib_dir() / "hal_port_cpu.so")
    assert (done.returncode, done.stdout.split(": ")[1]) == (0, "1000 of 1000 elements are right\n")


def test_it_names_a_port_that_is_not_there(built: Path, tmp_path: Path) -> None:
    done = add(built, tmp_path / "none.so")
    assert (done.returncode, done.stderr) == (1, f"{tmp_path}/none.so: no such file\n")
