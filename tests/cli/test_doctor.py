"""`hal doctor` on a sound installation and on broken ones."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from hal.cli import doctor


def build_library(folder: Path, code: str) -> Path:
    """Compile C code to a shared library that is called like a port."""
    source = folder / "port.c"
    source.write_text(code, encoding="utf-8")
    library = folder / "hal_port_odd.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    return library


def test_a_sound_installation_has_nothing_broken(run) -> None:
    done = run("hal.cli", "doctor", "--json")
    broken = [finding for finding in json.loads(done.stdout) if finding["state"] == "broken"]
    assert (done.returncode, broken) == (0, [])


def test_a_missing_libhal_is_named_with_what_to_do(run, tmp_path: Path) -> None:
    done = run("hal.cli", "doctor", env={"HAL_LIB_DIR": str(tmp_path)})
    assert done.returncode == 1
    assert f"broken libhal         {tmp_path}/libhal.so does not exist" in done.stdout
    assert "→ cmake --build build/editable" in done.stdout


def test_a_port_path_that_does_not_exist_is_broken(run) -> None:
    done = run("hal.cli", "doctor", "--json", env={"HAL_PORT_PATH": "/nowhere/port.so"})
    found = {finding["name"]: finding for finding in json.loads(done.stdout)}
    assert found["port"]["state"] == "broken"
    assert "/nowhere/port.so: there is no such file or folder" in found["port"]["text"]
    assert found["port"]["advice"] == "Correct HAL_PORT_PATH or unset it."


def test_a_port_that_crashes_when_it_is_opened_is_a_finding(tmp_path: Path) -> None:
    code = "#include <stdlib.h>\n__attribute__((constructor)) static void f(void) { abort(); }\n"
    problem = doctor._open_in_child(build_library(tmp_path, code))
    assert problem == "loading it ends the process with signal 6"


def test_a_port_that_hangs_when_it_is_opened_is_a_finding(tmp_path: Path, monkeypatch) -> None:
    code = "#include <unistd.h>\n__attribute__((constructor)) static void f(void) { pause(); }\n"
    monkeypatch.setattr(doctor, "PORT_SECONDS", 1.0)
    problem = doctor._open_in_child(build_library(tmp_path, code))
    assert problem == "loading it takes more than 1 s"


def test_a_library_without_the_entry_is_a_finding(tmp_path: Path) -> None:
    problem = doctor._open_in_child(build_library(tmp_path, "int x;\n"))
    assert problem is not None and "hal_port_entry" in problem


def test_a_file_that_is_no_library_is_a_finding(tmp_path: Path) -> None:
    path = tmp_path / "hal_port_text.so"
    path.write_text("not a library", encoding="utf-8")
    problem = doctor._open_in_child(path)
    assert problem is not None and "hal_port_text.so" in problem


def test_a_check_that_fails_is_a_finding(monkeypatch) -> None:
    def check_nothing():
        raise OSError("the disk is gone")
        yield

    monkeypatch.setattr(doctor, "CHECKS", (check_nothing,))
    finding = doctor.examine()[0]
    assert (finding.state, finding.text) == (
        "broken",
        "this check failed: OSError: the disk is gone",
    )


@pytest.mark.parametrize("name", ["PyYAML", "numpy"])
def test_a_package_that_is_installed_is_ok(name: str) -> None:
    assert doctor._check_package(name, name).state == "ok"


def test_a_package_that_is_missing_says_how_to_install_it() -> None:
    finding = doctor._check_package("no-such-package", "no-such-package>=1")
    assert (finding.state, finding.advice) == ("broken", "pip install 'no-such-package>=1'")
