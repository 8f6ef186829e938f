"""`hal port check`: what is wrong with a library is named, and a sound one passes."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from hal import _paths
from hal.errors import UsageError
from hal.portkit.check import PortCheck, check
from hal.testing.abi import FUNCTIONS


def wrong(found: PortCheck, subject: str) -> str:
    """The text of all that is wrong with a subject."""
    return " ".join(f.text for f in found.findings if (f.state, f.subject) == ("wrong", subject))


def test_a_sound_port_passes(run) -> None:
    done = run("hal.cli", "port", "check", _paths.lib_dir() / "hal_port_cpu.so", "--tier", "2")
    assert (done.returncode, done.stderr) == (0, "")
    assert "exports hal_port_entry alone" in done.stdout


def test_symbols_of_the_host_and_exports_are_named(library) -> None:
    code = "int more = 1;\nvoid PyErr_Clear(void);\nvoid use(void) { PyErr_Clear(); }\n"
    found = check(library(code))
    assert "exports more than hal_port_entry: more, use" in wrong(found, "symbols")
    assert "takes symbols of its host: PyErr_Clear" in wrong(found, "symbols")


def test_a_library_without_the_entry_says_so(tmp_path: Path, library) -> None:
    path = library()
    data = path.read_bytes().replace(b"hal_port_entry\0", b"hal_port_entrx\0")
    path.write_bytes(data)
    assert "does not export hal_port_entry" in wrong(check(path), "symbols")


@pytest.mark.parametrize(
    ("size", "entry", "text"),
    [
        ("12", "0", "the table device says that its size is 12 bytes"),
        ("0", "0", "the table device says that its size is 0 bytes"),
        ("8000", "0", "hal_device_table.size is 8000, far beyond"),
        ("sizeof(devices)", "(void*)&root_like", "hal_device_table.open points to"),
    ],
)
def test_a_table_that_is_none_is_told(library, size: str, entry: str, text: str) -> None:
    found = check(library("static int root_like;\n", size=size, entry=entry))
    assert text in wrong(found, "tables")


def test_a_library_that_crashes_takes_nothing_with_it(library) -> None:
    code = "#include <stdlib.h>\n__attribute__((constructor)) static void f(void) { abort(); }\n"
    assert "ends the process with SIGABRT" in wrong(check(library(code)), "tables")


def test_another_architecture_is_told_and_not_run(tmp_path: Path) -> None:
    path = tmp_path / "hal_port_cpu.so"
    data = bytearray((_paths.lib_dir() / "hal_port_cpu.so").read_bytes())
    data[18:20] = (243).to_bytes(2, "little")
    path.write_bytes(data)
    found = check(path)
    assert "built for riscv64" in wrong(found, "file")
    assert [f for f in found.findings if f.subject in {"tables", "start"}] == []


def test_what_is_no_port_is_refused_with_exit_code_2(run, tmp_path: Path) -> None:
    text = tmp_path / "hal_port_text.so"
    text.write_text("text", encoding="utf-8")
    damaged = tmp_path / "hal_port_damaged.so"
    damaged.write_bytes((_paths.lib_dir() / "hal_port_cpu.so").read_bytes()[:100])
    for path, said in (
        (text, "is no ELF file"),
        (damaged, "is a damaged ELF file"),
        (tmp_path / "none", "there is no such file"),
    ):
        done = run("hal.cli", "port", "check", path)
        assert (done.returncode, done.stdout) == (2, "")
        assert said in done.stderr and "Traceback" not in done.stderr


def test_a_folder_that_is_not_built_says_how_to(kit_port: Path, tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text("", encoding="utf-8")
    with pytest.raises(UsageError, match="Build it first: hal port build"):
        check(tmp_path)


def test_missing_functions_come_in_the_order_to_write_them(library, run) -> None:
    done = run("hal.cli", "port", "check", library(), "--json")
    found = json.loads(done.stdout)
    assert (done.returncode, found["is_sound"]) == (1, False)
    wanted = [f.call for f in FUNCTIONS if f.tier == 1]
    assert found["missing"]["1"] == wanted


@pytest.mark.parametrize("name", ["my_port.py", "my_port.py:MyPort"])
def test_a_port_in_python_has_no_library_to_check(name: str) -> None:
    with pytest.raises(UsageError, match=r"is a port in Python.*hal-certify FILE.py:CLASS"):
        check(Path(name))


def test_of_two_descriptions_none_is_taken_in_silence(tmp_path: Path) -> None:
    shutil.copy(_paths.lib_dir() / "hal_port_cpu.so", tmp_path / "hal_port_acme.so")
    for name in ("one", "two"):
        (tmp_path / f"{name}.hcd.yaml").write_text("", encoding="utf-8")
    text = "More than one lies beside it: one.hcd.yaml, two.hcd.yaml."
    found = check(tmp_path)
    assert text in wrong(found, "description")
    assert [f for f in found.findings if f.subject == "start"] == []


def test_a_port_with_a_wrong_description_is_not_started(tmp_path: Path) -> None:
    shutil.copy(_paths.lib_dir() / "hal_port_cpu.so", tmp_path / "hal_port_acme.so")
    (tmp_path / "acme.hcd.yaml").write_text("hcd_version: 1\n", encoding="utf-8")
    found = check(tmp_path)
    assert "The port is not started before" in wrong(found, "description")
    assert [f for f in found.findings if f.subject == "start"] == []


@pytest.mark.slow
def test_the_description_is_held_against_the_library(built: Path, tmp_path: Path) -> None:
    shutil.copy(built / "hal_port_acme.so", tmp_path)
    text = (built / "acme.hcd.yaml").read_text(encoding="utf-8")
    target = tmp_path / "acme.hcd.yaml"
    target.write_text(text, encoding="utf-8")
    assert check(tmp_path).is_sound
    target.write_text(text.replace("runs_on: host", "runs_on: device"), encoding="utf-8")
    assert "runs_on: device; the port says host" in wrong(check(tmp_path), "description")
    target.write_text(
        text.replace("  timing: true", "  timing: true\n  graph: true"), encoding="utf-8"
    )
    assert "features.graph: the port has no graph.begin" in wrong(check(tmp_path), "description")
    target.write_text(text.replace("identity:", "identify:"), encoding="utf-8")
    assert "identify" in wrong(check(tmp_path), "description")


@pytest.mark.parametrize(
    ("removed", "said"),
    [
        (".release = release,", "the hook reserve needs release, which kit_hooks lacks"),
        (".reserve = reserve,", "the hook release needs reserve, which kit_hooks lacks"),
    ],
)
@pytest.mark.slow
def test_half_a_pair_of_hooks_does_not_start(
    built: Path, tmp_path: Path, removed: str, said: str
) -> None:
    code = (built / "port.c").read_text(encoding="utf-8")
    assert removed in code
    source = tmp_path / "port.c"
    source.write_text(code.replace(removed, ""), encoding="utf-8")
    shutil.copy(built / "acme.hcd.yaml", tmp_path)
    words = ["cc", "-w", "-shared", "-fPIC", "-fvisibility=hidden", "-D_GNU_SOURCE", "-pthread"]
    words += [f"-I{_paths.include_dir()}", f"-I{_paths.kit_dir()}", str(source)]
    words += ["-o", str(tmp_path / "hal_port_acme.so"), str(_paths.lib_dir() / "libhal_kit.a")]
    subprocess.run([*words, "-lm"], check=True)
    assert said in wrong(check(tmp_path), "start")
