"""`hal port build`: a folder becomes a library, and a compiler's error is shown as it is."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hal.errors import UsageError
from hal.portkit.build import build


@pytest.mark.slow
def test_a_port_builds_and_is_checked(built: Path) -> None:
    assert (built / "hal_port_acme.so").is_file()


@pytest.mark.slow
def test_a_compilers_error_comes_without_the_noise(kit_port: Path, tmp_path: Path, run) -> None:
    folder = shutil.copytree(kit_port, tmp_path / "acme", ignore=shutil.ignore_patterns("build*"))
    code = (folder / "port.c").read_text(encoding="utf-8")
    (folder / "port.c").write_text(code.replace("return 1;", "return one;"), encoding="utf-8")
    done = run("hal.cli", "port", "build", folder)
    assert done.returncode == 1
    first = done.stdout.splitlines()[0]
    assert first.endswith("port.c: In function ‘device_count’:") or "error:" in first
    assert "one" in done.stdout and "FAILED" not in done.stdout
    assert "failed in the step 'compile'" in done.stderr


@pytest.mark.slow
def test_a_mistake_in_the_build_file_names_its_line(kit_port: Path, tmp_path: Path, run) -> None:
    folder = shutil.copytree(kit_port, tmp_path / "acme", ignore=shutil.ignore_patterns("build*"))
    with (folder / "CMakeLists.txt").open("a", encoding="utf-8") as file:
        file.write("hal_add_prot(x)\n")
    done = run("hal.cli", "port", "build", folder)
    assert done.returncode == 1
    assert "hal_add_prot" in done.stdout and "CMakeLists.txt:" in done.stdout
    assert "failed in the step 'configure'" in done.stderr


@pytest.mark.slow
def test_a_sanitized_port_is_checked_with_the_sanitizer(
    kit_port: Path, tmp_path: Path, run
) -> None:
    folder = shutil.copytree(
        kit_port, tmp_path / "acme", ignore=shutil.ignore_patterns("build*", "*.so")
    )
    done = run("hal.cli", "port", "build", folder, "--sanitize")
    assert done.returncode == 0, done.stdout + done.stderr
    assert b"__asan_init" in (folder / "hal_port_acme.so").read_bytes()


def test_a_folder_without_a_build_file_is_refused(run, tmp_path: Path) -> None:
    done = run("hal.cli", "port", "build", tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "has no CMakeLists.txt" in done.stderr


@pytest.mark.slow
def test_a_library_that_stays_in_the_build_folder_is_found_with_its_description(
    kit_port: Path, tmp_path: Path, run
) -> None:
    folder = shutil.copytree(
        kit_port, tmp_path / "acme", ignore=shutil.ignore_patterns("build*", "*.so")
    )
    text = (folder / "CMakeLists.txt").read_text(encoding="utf-8")
    text = text.replace("LIBRARY_OUTPUT_DIRECTORY", "LABELS")
    (folder / "CMakeLists.txt").write_text(text, encoding="utf-8")
    for words in (["--debug"], []):
        done = run("hal.cli", "port", "build", folder, *words)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "acme.hcd.yaml is valid" in done.stdout
    done = run("hal.cli", "port", "check", folder)
    assert done.returncode == 2
    assert "Name one of its libraries" in done.stderr


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        (("CMakeLists.txt", " KIT)", ")"), "write KIT in hal_add_port"),
        (("port.c", "stop(void) {}", "stop(void) { PyErr_Clear(); }"), "no symbol of its host"),
        (("port.c", "stop(void) {}", "stop(void) { acme_close(); }"), "SOURCES or LIBRARIES"),
    ],
)
@pytest.mark.slow
def test_a_symbol_that_nobody_supplies_is_told_with_what_to_do(
    mistake: tuple[str, str, str], said: str, kit_port: Path, tmp_path: Path, run
) -> None:
    folder = shutil.copytree(
        kit_port, tmp_path / "acme", ignore=shutil.ignore_patterns("build*", "*.so")
    )
    name, old, new = mistake
    text = (folder / name).read_text(encoding="utf-8")
    assert old in text
    (folder / name).write_text(text.replace(old, new), encoding="utf-8")
    done = run("hal.cli", "port", "build", folder)
    assert (done.returncode, said in done.stderr) == (1, True), done.stdout + done.stderr
    assert len(done.stdout.splitlines()) < 30


def test_without_a_compiler_the_build_says_what_to_install(
    kit_port: Path, tmp_path: Path, run
) -> None:
    folder = shutil.copytree(
        kit_port, tmp_path / "acme", ignore=shutil.ignore_patterns("build*", "*.so")
    )
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("cmake", "make", "ninja"):
        if path := shutil.which(name):
            (tools / name).symlink_to(path)
    done = run("hal.cli", "port", "build", folder, env={"PATH": str(tools), "CC": ""})
    assert (done.returncode, "Install a C compiler" in done.stderr) == (1, True), done.stderr


def test_without_cmake_the_build_says_what_to_install(
    kit_port: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hal.portkit.build._tool", lambda name: None)
    with pytest.raises(UsageError, match=r"CMake is missing\. Install it: pip install cmake ninja"):
        build(kit_port)
