"""The wheel: what is in it, and that it and ports built against it work away from the checkout."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

PORT = """
cmake_minimum_required(VERSION 3.26)
project(acme LANGUAGES C)
find_package(hal REQUIRED)
hal_add_port(acme SOURCES acme.c KIT)
"""
PORT_CODE = """
#include "hal/hal.h"
int kept_inside(void);
int kept_inside(void) { return 1; }
int32_t hal_port_entry(uint32_t major, uint32_t minor, const hal_port_root **out_root) {
  (void)major; (void)minor; (void)out_root;
  return -kept_inside();
}
"""


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of the checkout as it is."""
    folder = tmp_path_factory.mktemp("wheel")
    words = ["pip", "wheel", "-q", "--no-build-isolation", "--no-deps", "-w", folder, ROOT]
    done = subprocess.run(
        [sys.executable, "-m", *words],
        capture_output=True,
        text=True,
        env={**os.environ, "SKBUILD_BUILD_DIR": str(folder / "build")},  # not the checkout's
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python whose only `hal` is the wheel's; other packages are those of this Python."""
    home = tmp_path_factory.mktemp("installed")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True)
    site = next(home.glob("lib/python*/site-packages"))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    (site / "others.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return home / "bin" / "python"


def hal(
    python: Path, *arguments: str, module: str = "hal.cli", path: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command `hal` of an installation, away from the checkout."""
    return subprocess.run(
        [python, "-c", f"from {module} import main; main()", *arguments],
        capture_output=True,
        text=True,
        cwd=python.parent,
        env={**os.environ, "PYTHONPATH": str(path) if path else ""},
        check=False,
    )


def certify(python: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command `hal-certify` of an installation."""
    return hal(python, *arguments, module="hal.certify.cli")


def test_the_top_level_is_hal_and_its_dist_info(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        top = {name.split("/")[0] for name in archive.namelist()}
    version = wheel.name.split("-")[1]
    assert top == {"hal", f"hal_sdk-{version}.dist-info"}


def test_one_wheel_serves_every_python(wheel: Path) -> None:
    assert wheel.name.split("-")[2:4] == ["cp311", "abi3"]


def test_the_wheel_brings_data_and_libraries(wheel: Path) -> None:
    wanted = {
        "hal/_lib/libhal.so",
        "hal/_lib/libhal_kit.a",
        "hal/_lib/hal_port_sim.so",
        "hal/_lib/hal_port_cpu.so",
        "hal/_lib/cmake/hal-config.cmake",
        "hal/_data/include/hal/hal.h",
        "hal/_data/include/registry/memory.yaml",
        "hal/_data/vendors/template/copier.yml",
        "hal/_data/vendors/template/project/.github/workflows/port.yml",
        "hal/_data/vendors/template/hooks.c",
        "hal/_data/vendors/template/tables.c",
        "hal/_data/vendors/template/project/port.c.jinja",
        "hal/_data/sim/data/allreduce_a100x4.csv",
        "hal/ops/library/matmul.hal",
        "hal/ops/library/operators.yaml",
        "hal/py.typed",
    }
    with zipfile.ZipFile(wheel) as archive:
        assert wanted - set(archive.namelist()) == set()


def test_the_wheel_leaves_out_what_only_a_build_needs(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert [
        n
        for n in names
        if n.startswith(("hal/native/", "hal/_data/vendors/cpu")) or n.endswith("sim/port.c")
    ] == []


def test_the_installed_wheel_is_sound(installed: Path) -> None:
    done = hal(installed, "doctor", "--json")
    broken = [finding for finding in json.loads(done.stdout) if finding["state"] == "broken"]
    assert (done.returncode, broken) == (0, [])


@pytest.mark.parametrize("where", ["checkout", "wheel"])
def test_a_port_builds_outside_the_project(where: str, installed: Path, tmp_path: Path) -> None:
    python = Path(sys.executable) if where == "checkout" else installed
    cmake_dir = hal(python, "paths", "cmake").stdout.strip()
    (tmp_path / "CMakeLists.txt").write_text(PORT, encoding="utf-8")
    (tmp_path / "acme.c").write_text(PORT_CODE, encoding="utf-8")
    build = tmp_path / "build"
    for words in (["-S", tmp_path, "-B", build, f"-Dhal_DIR={cmake_dir}"], ["--build", build]):
        done = subprocess.run(["cmake", *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    symbols = subprocess.run(
        ["nm", "-D", "--defined-only", build / "hal_port_acme.so"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert [line.split()[-1] for line in symbols.splitlines()] == ["hal_port_entry"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["npu", "gpu", "cpu"])
def test_a_port_goes_from_nothing_to_its_package_with_the_wheel_alone(
    kind: str, installed: Path, tmp_path: Path
) -> None:
    done = hal(installed, "port", "new", "acme", "--into", str(tmp_path), "--kind", kind)
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "acme"
    for words in (("build", folder), ("check", folder), ("size", folder), ("pack", folder)):
        done = hal(installed, "port", *map(str, words))
        assert done.returncode == 0, done.stdout + done.stderr
    (package,) = (folder / "dist").glob("hal_port_acme-0.1.0-py3-none-linux_*.whl")
    site = tmp_path / "site"
    words = ["pip", "install", "-q", "--no-deps", "--no-index", "--target", str(site), str(package)]
    subprocess.run([sys.executable, "-m", *words], check=True, capture_output=True)
    done = hal(installed, "ports", "--why", "--json", path=site)
    (found,) = [row for row in json.loads(done.stdout) if row["name"] == "acme"]
    assert (found["status"], found["source"]) == ("loaded", "package hal-port-acme")
    if kind == "npu":
        done = certify(installed, str(folder), "--tier", "1", "-q", "--out", str(tmp_path / "out"))
        last = f"CERTIFIED  tier 1  {folder}"
        assert (done.returncode, done.stdout.splitlines()[-1]) == (0, last), done.stdout


@pytest.mark.slow
def test_a_port_in_python_is_certified_with_the_wheel_alone(
    installed: Path, tmp_path: Path
) -> None:
    page = (ROOT / "docs/python-port.md").read_text(encoding="utf-8")
    file = tmp_path / "my_port.py"
    file.write_text(page.split("```python\n")[1].split("```")[0], encoding="utf-8")
    words = [f"{file}:MyPort", "--tier", "1", "-q", "--out", str(tmp_path / "out")]
    done = certify(installed, *words)
    last = f"CERTIFIED  tier 1  {file}:MyPort"
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, last), done.stdout


def test_what_the_wheel_imports_is_installed_with_it() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = {re.split(r"[>=\[]", line)[0].lower() for line in project["dependencies"]}
    modules = {"pyyaml": "yaml", "pyelftools": "elftools"}
    there = {modules.get(name, name) for name in names} | {"hal", "_pytest"}
    there |= set(sys.stdlib_module_names)
    asked_for = {"matplotlib"}  # by an extra; the command says so
    found = set()
    for path in [*(ROOT / "hal").rglob("*.py"), *(ROOT / "conformance").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                found.add(node.module.split(".")[0])
    assert found - there - asked_for == set()
