"""`hal doctor` on a sound installation and on broken ones."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from hal.cli import doctor


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


def test_a_source_newer_than_the_build_is_a_note(tmp_path: Path, monkeypatch) -> None:
    package = tmp_path / "hal"
    (package / "native").mkdir(parents=True)
    log = tmp_path / "build/editable/.ninja_log"
    log.parent.mkdir(parents=True)
    library, source = package / "libhal.so", package / "native/port.c"
    for file, time in ((library, 1000), (source, 2000), (log, 3000)):
        file.touch()
        os.utime(file, (time, time))
    monkeypatch.setattr(doctor._paths, "PACKAGE", package)
    monkeypatch.setattr(doctor._paths, "is_checkout", lambda: True)
    monkeypatch.setattr(doctor._paths, "include_dir", lambda: tmp_path / "include")
    assert doctor._sources_newer_than(library) is None  # Built since, to the same library.
    os.utime(log, (1500, 1500))
    assert doctor._sources_newer_than(library) == source
