"""Ports of a kept release on today's loader, today's ports on a host of that release."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import hal
from hal._generated.constants import Status
from hal.errors import PortLoadError
from hal.testing import raw
from tests.compatibility.conftest import Host

Shipped = dict[str, tuple[Path, Path]]


# ---- An old port on today's loader ----


@pytest.mark.slow
def test_an_old_port_is_certified_by_todays_suite(old_example: Path, tmp_path: Path, run) -> None:
    words = [old_example, "--tier", "1", "--out", tmp_path, "-q", "--jobs", "2"]
    done = run("hal.certify.cli", *words, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "CERTIFIED  tier 1" in done.stdout


def test_an_old_port_that_stands_alone_is_opened_and_used(old_port: Path, fresh) -> None:
    opened = raw.open(str(fresh(old_port)), layers=("validate", "emulate"))
    device, memory = opened.out("hal_device"), opened.out("hal_memory")
    opened.ok("device.open", 0, device)
    opened.ok("memory.alloc", device[0], opened.new("memory_desc", bytes=64), memory)
    opened.ok("memory.free", memory[0])
    assert opened.call("memory.free", memory[0]) == Status.INVALID_HANDLE
    opened.ok("device.close", device[0], 10**9)


# ---- Today's ports on an old host ----


def test_todays_ports_work_on_an_old_host(host: Host, shipped: Shipped, image: Path) -> None:
    for name, (library, flat) in shipped.items():
        done = host(library, flat, image)
        wanted = ["computed", "tables beyond this host's release: none"]
        assert done.stdout.splitlines()[-2:] == wanted, (name, done.stdout)


def test_an_old_port_works_on_an_old_host(host: Host, old_port: Path) -> None:
    done = host(old_port)
    assert (done.returncode, "ordered" in done.stdout) == (0, True), done.stdout


def test_a_port_of_a_later_minor_with_longer_tables_works_on_an_old_host(
    host: Host, shipped: Shipped, bent_port: Path, image: Path
) -> None:
    library, flat = shipped["cpu"]
    bent = {"HAL_BENT_PORT": library, "HAL_BENT_GROW": "5", "HAL_BENT_MINOR": "9"}
    done = host(bent_port, flat, image, **bent)
    assert done.returncode == 0, done.stdout
    assert "root: cpu speaks 1.9" in done.stdout
    assert done.stdout.splitlines()[-1] == "tables beyond this host's release: yes"


# ---- Ports of other sizes on today's loader, each in a process of its own ----

WORK = """
import json, os, numpy as np, hal
port = hal.load_port(os.environ["PORT"], hcd=os.environ["HCD"])
device = port.device(0)
array = device.array(np.arange(12, dtype=np.int32))
stream = device.stream()
with stream.capture() as graph:
    stream.fill(array, 5, "i32")
graph.launch(stream)
stream.synchronize()
kinds = {call: port.capability(call) for call in os.environ["CALLS"].split()}
print(json.dumps([array.numpy().tolist(), kinds]))
"""


@pytest.fixture
def bent(bent_port: Path, shipped: Shipped):
    """Use the port cpu in another form: what its arrays held, and how it offers some calls."""

    def call(calls: str, **environment: str) -> tuple[list[int], dict[str, str]]:
        library, _ = shipped["cpu"]
        words = {"PORT": bent_port, "HAL_BENT_PORT": library, "CALLS": calls, **environment}
        words["HCD"] = library.with_suffix(".hcd.yaml")
        done = subprocess.run(
            [sys.executable, "-c", WORK],
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, **{name: str(value) for name, value in words.items()}},
        )
        assert done.returncode == 0, done.stdout + done.stderr
        values, kinds = json.loads(done.stdout)
        return values, kinds

    return call


FIVES = [5] * 12


def test_longer_tables_and_a_longer_root_are_read_as_far_as_they_are_known(bent) -> None:
    values, kinds = bent("memory.alloc stream.host_call", HAL_BENT_GROW="64", HAL_BENT_MINOR="9")
    assert (values, kinds["memory.alloc"]) == (FIVES, "native")


def test_a_table_that_ends_early_lacks_what_lies_behind_its_end(bent) -> None:
    values, kinds = bent(
        "transfer.copy transfer.fill transfer.copy_peer transfer.copy_2d",
        HAL_BENT_CUT=f"transfer:{8 + 2 * 8}",
    )
    assert values == FIVES
    assert kinds == {
        "transfer.copy": "native",
        "transfer.fill": "native",
        "transfer.copy_peer": "emulated",
        "transfer.copy_2d": "emulated",
    }


def test_an_entry_that_the_end_of_its_table_cuts_is_absent(bent) -> None:
    with pytest.raises(AssertionError, match=r"transfer says that its size is 28 bytes"):
        bent("transfer.fill", HAL_BENT_CUT=f"transfer:{8 + 2 * 8 + 4}")


def test_a_root_that_ends_early_has_no_later_tables(bent) -> None:
    root_bytes = 16 + 4 * 8 + 11 * 8  # all but profile, which the description claims
    with pytest.raises(AssertionError, match=r"features\.timing: the port has no profile\.clock"):
        bent("profile.clock", HAL_BENT_ROOT=str(root_bytes))


# ---- Versions and extensions ----


def test_another_major_is_refused_with_both_versions(
    bent_port: Path, shipped: Shipped, monkeypatch: pytest.MonkeyPatch
) -> None:
    library, _ = shipped["cpu"]
    monkeypatch.setenv("HAL_BENT_PORT", str(library))
    monkeypatch.setenv("HAL_BENT_MAJOR", "2")
    with pytest.raises(PortLoadError, match=r"the port speaks ABI 2\.0, this host 1\.x"):
        hal.load_port(bent_port, hcd=library.with_suffix(".hcd.yaml"))


def test_every_port_says_version_to_a_major_that_it_does_not_speak(
    host: Host, shipped: Shipped, old_example: Path
) -> None:
    # host.c offers the next major first and wants VERSION without a root.
    for library in [library for library, _ in shipped.values()] + [*old_example.glob("*.so")]:
        assert "a root for a major" not in host(library).stdout


def test_an_unknown_extension_is_not_there(shipped: Shipped, old_port: Path, fresh) -> None:
    for library in (shipped["cpu"][0], old_port):
        opened = raw.open(str(fresh(library)), layers=("validate", "emulate"))
        table = opened.out("void *")
        answer = opened.call("port.get_extension", opened.ffi.new("char[]", b"no.such"), 1, table)
        assert answer in (Status.NOT_FOUND, Status.UNSUPPORTED)
