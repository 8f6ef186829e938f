"""Ports of a few lines, and a new port, built once."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hal import _paths
from hal.portkit.start_port import start_port

ENTRY = """
#include "hal/hal.h"
static const hal_device_table devices = {.size = DEVICES_SIZE, .open = OPEN};
static const hal_port_root root = {.size = sizeof(root), .abi_major = HAL_ABI_MAJOR,
    .name = "odd", .vendor = "v", .version = "1", .build_id = "", .device = &devices};
int32_t hal_port_entry(uint32_t major, uint32_t minor, const hal_port_root **out_root) {
  (void)major; (void)minor; *out_root = &root; return HAL_OK;
}
"""


@pytest.fixture
def library(tmp_path: Path):
    """Compile C code to tmp_path/hal_port_odd.so; all symbols are exported."""

    def make(code: str = "", *, size: str = "sizeof(devices)", entry: str = "0") -> Path:
        source, target = tmp_path / "port.c", tmp_path / "hal_port_odd.so"
        source.write_text(code + ENTRY, encoding="utf-8")
        words = ["cc", "-shared", "-fPIC", f"-I{_paths.include_dir()}", f"-DOPEN={entry}"]
        words += [f"-DDEVICES_SIZE={size}", "-o", str(target), str(source)]
        subprocess.run(words, check=True)
        return target

    return make


@pytest.fixture(scope="session")
def kit_port(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a new port, without a build."""
    return start_port("acme", tmp_path_factory.mktemp("new"))


@pytest.fixture(scope="session")
def built(kit_port: Path, run) -> Path:
    """The same folder after `hal port build`."""
    done = run("hal.cli", "port", "build", kit_port)
    assert done.returncode == 0, done.stdout + done.stderr
    return kit_port
