"""Libraries that are no good port: each is told apart by `hal ports --why` and by `hal doctor`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from hal import PortRecord, _paths, load_port
from hal.cli import doctor, ports
from hal.cli.attempt import Attempt, attempt_all
from hal.errors import PortLoadError, UsageError
from hal.port.discovery import Candidate, Spec, namesakes, next_step_here
from hal.testing.target import find

ROOT = Path(__file__).resolve().parents[2]
GOOD = _paths.lib_dir() / "hal_port_cpu.so"

SHELL = """
#include "hal/hal.h"
#define hal_port_entry whole_entry
#include "port.c"
#undef hal_port_entry
static int32_t odd_init(const hal_host *given) { (void)given; return INIT; }
static int32_t odd_open(uint32_t index, hal_device *out) { (void)index; (void)out; return OPEN; }
HAL_PORT_EXPORT int32_t hal_port_entry(uint32_t major, uint32_t minor, const hal_port_root **out) {
  static hal_port_root mine;
  static hal_port_table first;
  static hal_device_table devices;
  const int32_t status = whole_entry(major, minor, out);
  if (status != HAL_OK) return status;
  mine = **out;
  first = *mine.port;
  devices = *mine.device;
  if (INIT != HAL_OK) first.init = odd_init;
  if (OPEN != HAL_OK) devices.open = odd_open;
  mine.port = &first;
  mine.device = &devices;
  mine.abi_major = MAJOR;
  *out = &mine;
  return HAL_OK;
}
"""


def compiled(folder: Path, code: str, *words: str) -> Path:
    """Compile C code to a library that is called like a port."""
    source, target = folder / "odd.c", folder / "hal_port_odd.so"
    source.write_text(code, encoding="utf-8")
    include = f"-I{_paths.include_dir()}", f"-I{ROOT / 'tests/compatibility/releases/1.0'}"
    command = ["cc", "-D_GNU_SOURCE", "-shared", "-fPIC", *include, str(source)]
    subprocess.run([*command, "-o", str(target), *words, "-pthread"], check=True)
    return target


def shell(folder: Path, init: str = "HAL_OK", device: str = "HAL_OK", major: int = 1) -> Path:
    """A whole small port with one thing wrong."""
    return compiled(folder, SHELL, f"-DINIT={init}", f"-DOPEN={device}", f"-DMAJOR={major}")


def changed(folder: Path, change: Callable[[bytes], bytes]) -> Path:
    """The bytes of a good port, changed."""
    target = folder / "hal_port_odd.so"
    target.write_bytes(change(GOOD.read_bytes()))
    return target


def _machine(number: int) -> Callable[[bytes], bytes]:
    return lambda data: data[:18] + number.to_bytes(2, "little") + data[20:]


FAILING = {
    "another machine": (
        lambda folder: changed(folder, _machine(243)),
        "is built for RISC-V (ELF machine 243), this program for ",
    ),
    "another word size": (
        lambda folder: changed(folder, lambda data: data[:4] + b"\1" + data[5:]),
        "is a 32-bit file, this program has 64 bits",
    ),
    "cut short": (
        lambda folder: changed(folder, lambda data: data[: len(data) // 2]),
        "is cut short: its header speaks of ",
    ),
    "a text": (
        lambda folder: changed(folder, lambda data: b"#!/bin/sh\n" * 9),
        "is not a shared object: it does not start with an ELF header",
    ),
    "a symbol of nobody": (
        lambda folder: compiled(folder, "int gone(void); int f(void) { return gone(); }\n"),
        "undefined symbol: gone",
    ),
    "no entry": (
        lambda folder: compiled(folder, "int x;\n"),
        "is a shared object but no port: it does not export hal_port_entry",
    ),
    "a driver that fails at init": (
        lambda folder: shell(folder, init='answer(HAL_ERROR_NOT_FOUND, "no driver is loaded")'),
        "port.init answered NOT_FOUND: fake: no driver is loaded",
    ),
    "a driver that crashes at init": (
        lambda folder: shell(folder, init="(abort(), 0) + HAL_ERROR_INTERNAL"),
        "loading it ends the process with SIGABRT",
    ),
    "a lost device": (
        lambda folder: shell(folder, device='answer(HAL_ERROR_DEVICE_LOST, "it fell off the bus")'),
        "it fell off the bus",
    ),
    "another major": (
        lambda folder: shell(folder, major=2),
        "the port speaks ABI 2.0, this host 1.x",
    ),
}


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One bad library of each kind, each under a name of its own."""
    found = {}
    for number, (kind, (make, _)) in enumerate(FAILING.items()):
        library = make(tmp_path_factory.mktemp("bad"))
        found[kind] = library.rename(library.with_name(f"hal_port_odd{number}.so"))
    return found


def test_every_bad_port_is_told_with_its_own_reason(run, libraries: dict[str, Path]) -> None:
    where = {"HAL_PORT_PATH": os.pathsep.join(map(str, libraries.values()))}
    done = run("hal.cli", "ports", "--why", "--json", env=where, timeout=300)
    assert (done.returncode, done.stderr) == (1, "")
    rows = {row["path"]: row for row in json.loads(done.stdout)}
    for kind, library in libraries.items():
        row = rows[str(library)]
        assert (kind, row["status"]) == (kind, "failed")
        assert FAILING[kind][1] in row["reason"], (kind, row["reason"])
    assert rows[str(GOOD)]["status"] == "loaded"


def test_the_doctor_says_the_same_and_what_to_do(run, libraries: dict[str, Path]) -> None:
    where = {"HAL_PORT_PATH": os.pathsep.join(map(str, libraries.values()))}
    done = run("hal.cli", "doctor", "--json", env=where, timeout=300)
    assert done.returncode == 1
    findings = json.loads(done.stdout)
    for kind, library in libraries.items():
        one = next(one for one in findings if str(library) in one["text"])
        assert FAILING[kind][1] in one["text"]
        assert (one["state"], one["advice"]) == ("broken", "Correct HAL_PORT_PATH or unset it.")


def test_only_a_port_that_finds_no_device_is_absent(libraries: dict[str, Path]) -> None:
    tried = attempt_all([*libraries.values(), GOOD])
    absent = [kind for kind, library in libraries.items() if tried[library].absent]
    assert (absent, tried[GOOD].absent) == (["a driver that fails at init"], False)


@pytest.mark.parametrize(("absent", "state"), [(True, "note"), (False, "broken")])
def test_a_port_of_ours_is_broken_unless_its_device_is_absent(
    monkeypatch: pytest.MonkeyPatch, absent: bool, state: str
) -> None:
    tried = Attempt("port.init answered NOT_FOUND: no driver", absent=absent)
    monkeypatch.setattr(doctor, "attempt_all", lambda paths: dict.fromkeys(paths, tried))
    found = [one for one in doctor.check_ports() if one.name == "cpu"]
    assert [(one.state, tried.problem in one.text) for one in found] == [(state, True)]
    assert ("Nothing is to be mended" in found[0].advice) == absent


def test_two_ports_of_one_name_are_told_with_both_files(run, tmp_path: Path) -> None:
    twin = tmp_path / GOOD.name
    shutil.copy(GOOD, twin)
    shutil.copy(GOOD.with_suffix(".hcd.yaml"), tmp_path)
    where = {"HAL_PORT_PATH": os.pathsep.join([str(twin), str(GOOD)])}
    done = run("hal.cli", "ports", "--why", "--json", env=where, timeout=300)
    rows = {row["path"]: row for row in json.loads(done.stdout) if row["name"] == "cpu"}
    assert done.returncode == 1
    assert f"also that of {GOOD}: open each by its path" in rows[str(twin)]["reason"]
    assert f"also that of {twin}: open each by its path" in rows[str(GOOD)]["reason"]
    done = run("hal.cli", "doctor", "--json", env=where, timeout=300)
    found = [one for one in json.loads(done.stdout) if one["text"].startswith("the name stands")]
    assert [(one["name"], one["state"]) for one in found] == [("cpu", "broken")]


def test_one_file_that_two_places_name_is_one_port() -> None:
    def named(source: str, path: Path) -> Candidate:
        return Candidate("cpu", source, path)

    assert namesakes([named("a", GOOD), named("b", GOOD)]) == {}
    other = GOOD.with_name("other.so")
    assert namesakes([named("a", GOOD), named("b", other)]) == {"cpu": [GOOD, other]}


def test_a_device_that_does_not_open_is_told_for_a_port_that_loads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried = Attempt(closed=["device.open: the second chip fell off the bus (cpu:1)"])
    monkeypatch.setattr("hal.cli.attempt.attempt_all", lambda paths: dict.fromkeys(paths, tried))
    monkeypatch.setattr(doctor, "attempt_all", lambda paths: dict.fromkeys(paths, tried))
    record = PortRecord("cpu", "package hal-sdk", GOOD, None, "not tried")
    (told,) = ports._tried([record])
    assert (told.status, told.reason) == ("loaded", tried.closed[0])
    found = [one for one in doctor.check_ports() if one.name == "cpu"]
    assert [(one.state, tried.closed[0] in one.text) for one in found] == [("note", True)]
    assert "hal devices" in found[0].advice


def test_a_folder_named_without_its_path_is_pointed_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "acme"
    folder.mkdir()
    assert next_step_here(Spec("acme")) == ""
    (folder / "CMakeLists.txt").touch()
    assert next_step_here(Spec("acme")) == "Build it first: hal port build acme"
    (folder / "hal_port_acme.so").touch()
    assert next_step_here(Spec("acme")) == "The folder acme has one: write ./acme"
    assert next_step_here(Spec("./acme")) == ""
    (folder / "old.so").touch()
    assert "acme/hal_port_acme.so, acme/old.so" in next_step_here(Spec("./acme"))


def test_certification_of_a_folder_named_without_its_path_says_how(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "acme").mkdir()
    (tmp_path / "acme" / "hal_port_acme.so").touch()
    with pytest.raises(UsageError, match=r"there is no port 'acme'.* write ./acme"):
        find("acme")


def test_a_library_that_was_named_by_its_path_is_sent_to_the_check(tmp_path: Path) -> None:
    wrong = tmp_path / "hal_port_acme.so"
    wrong.write_text("no library", encoding="utf-8")
    with pytest.raises(PortLoadError, match=f"'hal port check {wrong}' looks at it"):
        load_port(str(wrong))
