"""`hal port pack`: the wheel installs, and the port is there afterwards."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from hal.errors import UsageError
from hal.portkit.library import host_architecture
from hal.portkit.pack import pack


@pytest.fixture
def folder(built: Path, tmp_path: Path) -> Path:
    """A copy of the built port."""
    return shutil.copytree(built, tmp_path / "acme", ignore=shutil.ignore_patterns("build*"))


@pytest.mark.slow
def test_an_installed_wheel_makes_the_port_appear(folder: Path, tmp_path: Path, run) -> None:
    done = run("hal.cli", "port", "pack", folder)
    assert done.returncode == 0, done.stdout + done.stderr
    wheel = next((folder / "dist").glob("*.whl"))
    assert wheel.name == f"hal_port_acme-0.1.0-py3-none-linux_{host_architecture()}.whl"
    site = tmp_path / "site"
    words = ["pip", "install", "-q", "--no-deps", "--no-index", "--target", str(site), str(wheel)]
    done = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = run("hal.cli", "ports", "--why", "--json", env={"PYTHONPATH": path})
    found = {row["name"]: row for row in json.loads(done.stdout)}
    assert found["acme"]["status"] == "loaded", found["acme"]
    assert found["acme"]["source"] == "package hal-port-acme"
    assert found["acme"]["path"] == str(site / "hal_port_acme/hal_port_acme.so")
    assert Path(found["acme"]["hcd"]).name == "acme.hcd.yaml"


@pytest.mark.slow
def test_the_same_files_give_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    first, again = (pack(folder, into=tmp_path / name) for name in ("a", "b"))
    assert first.read_bytes() == again.read_bytes()
    with zipfile.ZipFile(first) as archive:
        assert sorted(archive.namelist()) == [
            "hal_port_acme-0.1.0.dist-info/METADATA",
            "hal_port_acme-0.1.0.dist-info/RECORD",
            "hal_port_acme-0.1.0.dist-info/WHEEL",
            "hal_port_acme-0.1.0.dist-info/entry_points.txt",
            "hal_port_acme/acme.hcd.yaml",
            "hal_port_acme/hal_port_acme.so",
        ]


@pytest.mark.slow
def test_what_cannot_be_shipped_is_refused(folder: Path) -> None:
    with pytest.raises(UsageError, match="'one' is no version"):
        pack(folder, version="one")
    hcd = folder / "acme.hcd.yaml"
    text = hcd.read_text(encoding="utf-8")
    shutil.copy(hcd, folder / "base.yaml")
    hcd.write_text('hcd_version: "1.0"\nextends: ./base.yaml\n', encoding="utf-8")
    with pytest.raises(UsageError, match="does not stand alone"):
        pack(folder)
    hcd.write_text(text.replace("runs_on: host", "runs_on: device"), encoding="utf-8")
    with pytest.raises(UsageError, match=r"is not sound: .* the port says host"):
        pack(folder)
    hcd.unlink()
    with pytest.raises(UsageError, match="no description lies beside"):
        pack(folder)


@pytest.mark.slow
def test_a_port_for_another_machine_can_be_packed(folder: Path) -> None:
    library = folder / "hal_port_acme.so"
    data = bytearray(library.read_bytes())
    data[18:20] = (243).to_bytes(2, "little")
    library.write_bytes(data)
    assert pack(folder).name.endswith("-py3-none-linux_riscv64.whl")
