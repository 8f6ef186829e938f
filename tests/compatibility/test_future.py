"""A release that does not exist yet: one more field of a descriptor, one more function.

The registry's copy grows by both, the generator writes its files, and C is compiled with them: a
loader and a port of the next minor, held against those of today and of the kept releases.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cffi import FFI

from hal._generate.__main__ import main
from hal._generated.constants import Status
from hal.testing import raw
from tests.compatibility.conftest import RELEASES, ROOT, Compile, Host

Fresh = Callable[[Path], Path]

FIELD = "{name: reserved, type: uint32_t, brief: Zero.}\n"
GROWN = FIELD + ("      - {name: priority, type: uint64_t, since: 1, brief: Who moves out last.}\n")
FUNCTION = """
  - name: prefetch
    brief: Moves a buffer where it will be read soon.
    tier: optional
    fallback: none
    thread: free
    params:
      - {name: memory, type: hal_memory, dir: in, brief: The buffer.}
    returns: [OK, INVALID_HANDLE, UNSUPPORTED]
    rules:
      - {id: HAL-MEM-990, checked_by: port, break: skip_check, status: INVALID_HANDLE,
         text: A stale buffer is refused.}
"""
PORT = """
#include "hal/hal.h"
#define hal_port_entry kept_entry
#include "port.c"
#undef hal_port_entry
static int32_t prefetch(hal_memory memory) { return is_known(memory, MEMORY) ? HAL_OK : stale(); }
static hal_memory_table grown;
static uint64_t seen;
static int32_t watch(hal_device device, const hal_memory_desc *desc, hal_memory *out_memory) {
  seen = HAS(desc, priority) ? desc->priority : 0;
  return memory_alloc(device, desc, out_memory);
}
static int32_t text(uint32_t key, uint64_t capacity, char *out_text, uint64_t *out_bytes) {
  if (key != HAL_PORT_INFO_NAME) return port_get_info(key, capacity, out_text, out_bytes);
  *out_bytes = (uint64_t)snprintf(out_text, capacity, "%llu", (unsigned long long)seen) + 1;
  return HAL_OK;
}
HAL_PORT_EXPORT int32_t hal_port_entry(uint32_t major, uint32_t minor,
                                       const hal_port_root **out_root) {
  static hal_port_root mine;
  static hal_port_table first;
  const int32_t status = kept_entry(major, minor, out_root);
  if (status != HAL_OK) return status;
  mine = **out_root;
  grown = *mine.memory;
  grown.size = sizeof(grown);
  grown.alloc = watch;
  grown.prefetch = prefetch;
  mine.memory = &grown;
  first = *mine.port;
  first.get_info = text;
  mine.port = &first;
  *out_root = &mine;
  return HAL_OK;
}
"""


@pytest.fixture(scope="module")
def future(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout's generated files, as the next minor would have them."""
    root = tmp_path_factory.mktemp("future")
    shutil.copytree(ROOT / "include", root / "include")
    shutil.copytree(ROOT / "hal/native", root / "hal/native")
    shutil.copytree(ROOT / "tests/compatibility/releases", root / "tests/compatibility/releases")
    registry = root / "include/registry"
    common = (registry / "common.yaml").read_text(encoding="utf-8")
    assert common.count("minor: 0}") == 1
    (registry / "common.yaml").write_text(common.replace("minor: 0}", "minor: 1}"))
    memory = (registry / "memory.yaml").read_text(encoding="utf-8")
    (registry / "memory.yaml").write_text(memory.replace(FIELD, GROWN, 1) + FUNCTION)
    assert main(["--root", str(root)]) == 0
    return root


@pytest.fixture(scope="module")
def loader(future: Path, compile_c: Compile) -> tuple[FFI, Any]:
    """libhal of the next minor, through cffi."""
    native = future / "hal/native"
    sources = [*native.glob("*.c"), *native.glob("layers/*.c")]
    flags = ["-O0", "-D_GNU_SOURCE", f"-I{future / 'hal/native'}"]
    library = compile_c("libhal.so", future / "include", *flags, *sources, "-lm")
    ffi = FFI()
    for path in (future / "hal/_generated/cdef.h", ROOT / "hal/_generated/loader_cdef.h"):
        ffi.cdef(path.read_text(encoding="utf-8"))
    return ffi, ffi.dlopen(str(library))


@pytest.fixture(scope="module")
def future_port(future: Path, compile_c: Compile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A port of the next minor, which has the function and reads the field."""
    source = tmp_path_factory.mktemp("source") / "future.c"
    source.write_text(PORT, encoding="utf-8")
    return compile_c("hal_port_future.so", future / "include", f"-I{RELEASES[-1]}", source)


class Opened:
    """A port opened by the loader of the next minor, with a device."""

    def __init__(self, loader: tuple[FFI, Any], path: Path) -> None:
        self.ffi, self.lib = loader
        out, reason = self.ffi.new("hal_port **"), self.ffi.new("char[512]")
        status = self.lib.hal_port_open(str(path).encode(), self.ffi.NULL, out, reason, 512)
        assert (status, self.ffi.string(reason)) == (0, b"")
        self.port = out[0]
        device = self.ffi.new("hal_device *")
        assert self.lib.hal_device_open(self.port, 0, device) == Status.OK
        self.device = device[0]

    def alloc(self, **fields: int) -> tuple[int, int]:
        """Allocate 64 bytes; the status and the buffer."""
        desc = self.ffi.new("hal_memory_desc *", {"bytes": 64, **fields})
        desc.size = fields.get("size", self.ffi.sizeof("hal_memory_desc"))
        memory = self.ffi.new("hal_memory *")
        return self.lib.hal_memory_alloc(self.port, self.device, desc, memory), memory[0]

    def error(self) -> str:
        """The text of the last error."""
        record = self.ffi.new("hal_error *", {"size": self.ffi.sizeof("hal_error")})
        assert self.lib.hal_port_last_error(self.port, record) == Status.OK
        return bytes(self.ffi.string(record.text)).decode()


@pytest.mark.slow
def test_a_port_of_today_serves_a_loader_of_the_next_minor(
    loader: tuple[FFI, Any], old_port: Path, fresh: Fresh
) -> None:
    opened = Opened(loader, fresh(old_port))
    status, memory = opened.alloc()
    assert status == Status.OK
    assert opened.lib.hal_memory_prefetch(opened.port, memory) == Status.UNSUPPORTED
    assert opened.alloc(size=32)[0] == Status.OK


@pytest.mark.slow
def test_a_field_that_the_port_is_too_old_for_is_refused_and_not_lost(
    loader: tuple[FFI, Any], old_port: Path, fresh: Fresh
) -> None:
    opened = Opened(loader, fresh(old_port))
    status, _ = opened.alloc(priority=3)
    assert status == Status.UNSUPPORTED
    assert "size = 40, known size = 32" in opened.error()


@pytest.mark.slow
def test_a_port_of_the_next_minor_reads_the_field_and_has_the_function(
    loader: tuple[FFI, Any], future_port: Path, fresh: Fresh
) -> None:
    opened = Opened(loader, fresh(future_port))
    status, memory = opened.alloc(priority=3)
    assert (status, _seen(opened)) == (Status.OK, "3")
    assert opened.lib.hal_memory_prefetch(opened.port, memory) == Status.OK
    assert opened.alloc(size=32, priority=9)[0] == Status.OK  # the caller's size ends before it
    assert _seen(opened) == "0"


def _seen(opened: Opened) -> str:
    """The priority that the future port last read."""
    text, length = opened.ffi.new("char[32]"), opened.ffi.new("uint64_t *")
    assert opened.lib.hal_port_get_info(opened.port, 1, 32, text, length) == Status.OK
    return bytes(opened.ffi.string(text)).decode()


def test_a_port_of_the_next_minor_works_on_todays_loader(future_port: Path, fresh: Fresh) -> None:
    opened = raw.open(str(fresh(future_port)), layers=("validate", "emulate"))
    device, memory = opened.out("hal_device"), opened.out("hal_memory")
    opened.ok("device.open", 0, device)
    desc = opened.new("memory_desc", bytes=64)
    opened.ok("memory.alloc", device[0], desc, memory)
    opened.ok("memory.free", memory[0])


def test_a_port_of_the_next_minor_works_on_an_old_host(future_port: Path, host: Host) -> None:
    done = host(future_port)
    assert "root: fake speaks 1.1" in done.stdout
    assert "ordered" in done.stdout
