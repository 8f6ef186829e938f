"""Ports tried in processes of their own: what a crash, a hang or no port at all is called."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hal import _paths
from hal.cli.attempt import attempt, attempt_all

CRASH = "#include <stdlib.h>\n__attribute__((constructor)) static void f(void) { abort(); }\n"
HANG = "#include <unistd.h>\n__attribute__((constructor)) static void f(void) { pause(); }\n"


def build_library(folder: Path, code: str) -> Path:
    """Compile C code to a shared library that is called like a port."""
    source = folder / "port.c"
    source.write_text(code, encoding="utf-8")
    library = folder / "hal_port_odd.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    return library


def test_a_port_that_crashes_is_named_with_the_signal(tmp_path: Path) -> None:
    problem = attempt(build_library(tmp_path, CRASH)).problem
    assert problem == "loading it ends the process with SIGABRT"


def test_a_port_that_hangs_is_ended(tmp_path: Path) -> None:
    library = build_library(tmp_path, HANG)
    assert attempt(library, 2.0).problem == "loading it takes more than 2 s"


def test_a_library_without_the_entry_says_so(tmp_path: Path) -> None:
    assert "hal_port_entry" in attempt(build_library(tmp_path, "int x;\n")).problem


def test_a_port_shows_its_devices_and_one_that_fails_stops_no_other(tmp_path: Path) -> None:
    text = tmp_path / "hal_port_text.so"
    text.write_text("not a library", encoding="utf-8")
    good = _paths.lib_dir() / "hal_port_cpu.so"
    found = attempt_all([text, good])
    assert found[text].problem == "it is not a shared object: it does not start with an ELF header"
    assert (found[good].problem, [row["name"] for row in found[good].devices]) == ("", ["cpu:0"])


@pytest.mark.parametrize(
    ("command", "place"), [("ports --why", "stdout"), ("devices", "stderr"), ("doctor", "stdout")]
)
def test_a_port_that_crashes_takes_no_command_with_it(
    run, tmp_path: Path, command: str, place: str
) -> None:
    library = build_library(tmp_path, CRASH)
    done = run("hal.cli", *command.split(), env={"HAL_PORT_PATH": str(library)})
    assert done.returncode in {0, 1}
    assert "loading it ends the process with SIGABRT" in getattr(done, place)
    assert "cpu" in done.stdout


def test_info_of_a_port_that_crashes_says_so(run, tmp_path: Path) -> None:
    library = build_library(tmp_path, CRASH)
    done = run("hal.cli", "info", str(library))
    assert done.returncode == 1
    assert "loading it ends the process with SIGABRT" in done.stderr
    assert "Traceback" not in done.stderr
