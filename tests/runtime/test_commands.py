"""hal ports, hal devices and hal info; and what `import hal` costs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HEAVY = {"numpy", "hal._native", "yaml", "jsonschema", "importlib.metadata", "typing", "ctypes"}


def test_ports_lists_what_is_installed_without_loading_it(run: Any) -> None:
    done = run("hal.cli", "ports", "--json")
    records = {record["name"]: record for record in json.loads(done.stdout)}
    assert done.returncode == 0
    assert {"cpu", "sim"} <= set(records)
    assert {record["status"] for record in records.values()} == {"not tried"}


def test_ports_why_tries_each(run: Any, tmp_path: Path) -> None:
    broken = tmp_path / "hal_port_broken.so"
    broken.write_bytes(b"nothing")
    done = run("hal.cli", "ports", "--why", env={"HAL_PORT_PATH": str(broken)})
    assert (done.returncode, done.stderr) == (1, "")
    lines = done.stdout.splitlines()
    assert any(line.startswith("cpu") and "loaded" in line for line in lines)
    assert any(line.startswith("broken") and "failed" in line for line in lines)
    assert f"{'':22} it is not a shared object: it does not start with an ELF header" in lines


def test_devices_lists_those_of_each_port(run: Any) -> None:
    done = run("hal.cli", "devices", "--json")
    names = [row["name"] for row in json.loads(done.stdout)]
    assert done.returncode == 0
    told = [line for line in done.stderr.splitlines() if "port.init answered NOT_FOUND" not in line]
    assert told == []  # Only ports whose driver or device this machine has not.
    assert {"cpu:0", "sim:0"} <= set(names)


def test_devices_names_a_port_that_does_not_load_and_goes_on(run: Any, tmp_path: Path) -> None:
    done = run("hal.cli", "devices", env={"HAL_PORT_PATH": str(tmp_path / "gone")})
    assert done.returncode == 0
    assert "there is no such file or folder" in done.stderr
    assert "cpu:0" in done.stdout


@pytest.mark.parametrize("name", ["cpu", "sim:0"])
def test_info_shows_who_does_what(run: Any, name: str) -> None:
    done = run("hal.cli", "info", name)
    assert (done.returncode, done.stderr) == (0, "")
    for word in ("native", "emulated", "memory", "description", "capabilities"):
        assert word in done.stdout


def test_info_as_json_holds_every_function(run: Any) -> None:
    from hal._generated.functions import FUNCTIONS

    info = json.loads(run("hal.cli", "info", "cpu", "--json").stdout)
    assert set(info["capabilities"]) == {function.call for function in FUNCTIONS}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("zebra", "there is no port 'zebra'"),
        ("cpu:9", "there is no device 9"),
        ("/no/such.so", "there is no such file or folder"),
        (":", "does not name a device"),
        ("sim:no/such-chip", "no/such-chip"),
    ],
)
def test_info_of_nothing_is_one_line_without_a_traceback(run: Any, name: str, text: str) -> None:
    done = run("hal.cli", "info", name)
    assert done.returncode in {1, 2}
    assert text in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_import_hal_loads_nothing_heavy() -> None:
    code = (
        "import sys; before = set(sys.modules); import hal; "
        f"print(*sorted({HEAVY!r} & (set(sys.modules) - before)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout.split(), done.stderr) == ([], "")


def test_every_public_name_can_be_imported() -> None:
    import hal

    for name in hal.__all__:
        assert getattr(hal, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        hal.nothing  # noqa: B018


def test_a_process_that_forgets_to_close_ends_quietly(tmp_path: Path) -> None:
    code = """
import hal, numpy as np
device = hal.open("cpu")
stream, buffer, array = device.stream(), device.alloc(64), device.array(np.zeros(8))
pinned, event = device.pinned(64).array("u8"), device.event(host=True)
stream.wait(event)
stream.fill(buffer, b"1")
cycle = [array]; cycle.append(cycle)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=30
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
