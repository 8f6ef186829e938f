"""The C example, as a user outside the project builds and runs it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import hal.vil

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "c"
LIBRARIES = ROOT / "hal" / "_lib"


def run(*command: str | Path) -> tuple[int, str]:
    """Run a command and return its exit status with all that it wrote."""
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example, built with the package file of the checkout."""
    build = tmp_path_factory.mktemp("example")
    status, output = run("cmake", "-S", EXAMPLE, "-B", build, f"-Dhal_DIR={LIBRARIES / 'cmake'}")
    assert status == 0, output
    status, output = run("cmake", "--build", build)
    assert status == 0, output
    return build / "add"


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example's module as a file."""
    path = tmp_path_factory.mktemp("module") / "add.hvil"
    text = (EXAMPLE / "add.vil").read_text(encoding="utf-8")
    path.write_bytes(hal.vil.encode(hal.vil.parse(text)))
    return path


def test_the_example_adds_on_the_processor(program: Path, image: Path) -> None:
    status, output = run(program, LIBRARIES / "hal_port_cpu.so", image)
    _, said = output.split(": ")
    assert (status, said) == (0, "1000 of 1000 elements are right\n")


def test_the_example_says_why_a_port_does_not_load(program: Path, image: Path) -> None:
    status, output = run(program, image, image)
    assert status == 1
    assert "is not a shared object: it does not start with an ELF header" in output


def test_the_example_says_why_a_module_does_not_load(program: Path) -> None:
    status, output = run(program, LIBRARIES / "hal_port_cpu.so", EXAMPLE / "add.vil")
    assert status == 1
    assert "it starts with neither HVIL nor HIMG" in output


def test_the_commands_of_its_page_work_in_a_fresh_checkout(tmp_path: Path) -> None:
    page = (EXAMPLE / "README.md").read_text(encoding="utf-8")
    block = re.search(r"```sh\n(.*?)```", page, re.S)
    assert block is not None
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", re.sub(r"\bout\b", str(tmp_path / "out"), block[1])],
        cwd=ROOT,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("1000 of 1000 elements are right\n")
