"""Build the C tests with CMake and run each as a test of its own.

A C test is one program, tests/native/NAME.c; exit status 0 is a pass. A fuzz target,
tests/fuzz/NAME.c, must survive its seeded inputs. They
use the build folder of the checkout, so only what changed is compiled.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "editable"
PROGRAMS = [f"test_{path.stem}" for path in sorted((ROOT / "tests/native").glob("*.c"))]
FUZZERS = [f"fuzz_{path.stem}" for path in sorted((ROOT / "tests/fuzz").glob("*.c"))]


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the C test programs, built once for all workers that run tests at a time."""
    import fcntl

    lock = tmp_path_factory.getbasetemp().parent / "native_tests.lock"
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        done = subprocess.run(
            ["cmake", "--build", BUILD, "--target", "native_tests"],
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    return BUILD / "tests"


def run_program(built: Path, program: str, *arguments: str | Path) -> tuple[int, str]:
    """Run a program and return its exit status and the end of what it wrote to stderr."""
    done = subprocess.run(
        [built / program, *arguments],
        env={"HAL_LIB_DIR": str(ROOT / "hal" / "_lib"), "HAL_ROOT": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stderr[-2000:]


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_c_program_passes(built: Path, program: str) -> None:
    status, stderr = run_program(built, program)
    assert status == 0, stderr


@pytest.mark.parametrize("target", FUZZERS)
def test_the_parser_survives_mutated_input(built: Path, target: str) -> None:
    corpus = ROOT / "tests/fuzz/corpus" / target.removeprefix("fuzz_")
    folders = [corpus] if corpus.is_dir() else []
    status, stderr = run_program(built, target, "-runs=5000", "-seed=1", *folders)
    assert status == 0, stderr
