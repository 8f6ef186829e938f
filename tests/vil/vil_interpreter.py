"""The kit's C interpreter through ctypes, built from its sources once a session."""

from __future__ import annotations

import ctypes
import os
import shutil
import struct
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hal.vil import Kernel, Module, encode
from hal.vil.expressions import evaluate

STATUS = {
    0: "OK",
    -1: "INVALID_VALUE",
    -4: "OUT_OF_RANGE",
    -5: "OUT_OF_MEMORY",
    -9: "INVALID_MODULE",
    -10: "EXECUTION_FAILED",
}
_KINDS = {"buffer": 1, "i32": 2, "i64": 3, "f32": 4, "f64": 5}


class _Argument(ctypes.Structure):
    _fields_ = (
        ("kind", ctypes.c_uint32),
        ("scalar", ctypes.c_uint64),
        ("data", ctypes.c_void_p),
        ("bytes", ctypes.c_uint64),
    )


def build(root: Path, folder: Path) -> Interpreter:
    """Compiles vendors/kit/vil_*.c (and what they need) into one shared object."""
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    assert compiler, "the VIL interpreter test needs a C compiler"
    kit = root / "vendors" / "kit"
    sources = [*sorted(kit.glob("vil_*.c")), kit / "kit_hcd.c"]
    target = folder / "vil.so"
    command = [compiler, "-std=c11", "-O1", "-g", "-fPIC", "-shared", "-ffp-contract=off"]
    command += [f"-I{root / 'include'}", f"-I{kit}", "-o", str(target), *map(str, sources), "-lm"]
    subprocess.run(command, check=True, capture_output=True)
    return Interpreter(ctypes.CDLL(str(target)))


class Interpreter:
    """Reads, judges and runs images with the C code."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library
        for name in ("vil_kernel_find", "vil_arena_create", "vil_limits_create"):
            getattr(library, name).restype = ctypes.c_void_p
        library.kit_hcd_parse.restype = ctypes.c_void_p
        library.vil_launch_bytes.restype = ctypes.c_uint64
        self.reason = ""

    def read(self, image: bytes) -> tuple[str, ctypes.c_void_p]:
        """Status and module of an image."""
        module, reason = ctypes.c_void_p(), ctypes.create_string_buffer(512)
        size = ctypes.c_uint64(len(image))
        status = self.library.vil_module_read(
            image, size, ctypes.byref(module), reason, ctypes.c_size_t(512)
        )
        self.reason = reason.value.decode()
        return STATUS[status], module

    def limits(self, flat: bytes | None) -> ctypes.c_void_p:
        """Limits of a flat HCD; None gives vil-core."""
        hcd = None
        if flat is not None:
            size = ctypes.c_size_t(len(flat))
            hcd = ctypes.c_void_p(self.library.kit_hcd_parse(flat, size, None, ctypes.c_size_t(0)))
        return ctypes.c_void_p(self.library.vil_limits_create(hcd))

    def validate(self, image: bytes, flat: bytes | None = None) -> str:
        """What the C validator says about an image; `reason` has its words."""
        status, module = self.read(image)
        if status != "OK":
            return status
        limits = self.limits(flat)
        reason = ctypes.create_string_buffer(512)
        code = self.library.vil_module_validate(module, limits, reason, ctypes.c_size_t(512))
        self.reason = reason.value.decode()
        self.library.vil_limits_free(limits)
        self.library.vil_module_free(module)
        return STATUS[code]

    def run(
        self,
        module: Module,
        name: str,
        arguments: Mapping[str, Any],
        grid: Sequence[int] = (1, 1, 1),
    ) -> tuple[str, dict[str, np.ndarray[Any, Any]]]:
        """Status of one launch, and the written buffers."""
        status, handle = self.read(encode(module))
        assert status == "OK", self.reason
        kernel = ctypes.c_void_p(self.library.vil_kernel_find(handle, name.encode()))
        assert kernel, name
        values, keep = _arguments(module.kernel(name), arguments)
        storage = ctypes.create_string_buffer(self.library.vil_launch_bytes(kernel) + 16)
        place = ctypes.c_void_p((ctypes.addressof(storage) + 15) & ~15)
        reason = ctypes.create_string_buffer(512)
        room = ctypes.c_size_t(512)
        axes = (ctypes.c_uint32 * 3)(*grid)
        limits = self.limits(None)
        code = self.library.vil_launch_bind(
            kernel, axes, values, len(values), limits, place, reason, room
        )
        if code == 0:
            arena = ctypes.c_void_p(self.library.vil_arena_create())
            code = self.library.vil_launch_run(place, arena, None, reason, room)
            self.library.vil_arena_free(arena)
        self.reason = reason.value.decode()
        self.library.vil_limits_free(limits)
        self.library.vil_module_free(handle)
        written = {
            item.name: keep[item.name]
            for item in module.kernel(name).arguments
            if item.kind == "buffer" and item.access != "read"
        }
        return STATUS[code], written


def _arguments(
    kernel: Kernel, given: Mapping[str, Any]
) -> tuple[ctypes.Array[_Argument], dict[str, np.ndarray[Any, Any]]]:
    keep: dict[str, np.ndarray[Any, Any]] = {}
    found: list[_Argument] = []
    symbols = {
        item.name: int(given[item.name]) for item in kernel.arguments if item.kind == "symbol"
    }
    for item in kernel.arguments:
        value = given[item.name]
        if item.kind == "buffer":
            array = np.array(value, copy=True, order="C")
            keep[item.name] = array
            found.append(_Argument(1, 0, array.ctypes.data, array.nbytes))
        elif item.kind == "symbol":
            found.append(_Argument(3, int(value) & (2**64 - 1), None, 0))
        else:
            assert item.dtype is not None
            code = {"f32": "f", "f64": "d", "i32": "i", "i64": "q"}[item.dtype.name]
            raw = struct.pack(f"<{code}", value).ljust(8, b"\0")
            found.append(_Argument(_KINDS[item.dtype.name], int.from_bytes(raw, "little"), None, 0))
    if kernel.workspaces:
        sizes = [evaluate(item.bytes, symbols) for item in kernel.workspaces]
        block = np.full(sum(-(-size // 256) * 256 for size in sizes), 0xA5, np.uint8)
        keep["(workspace)"] = block
        found.append(_Argument(1, 0, block.ctypes.data, block.nbytes))
    return (_Argument * len(found))(*found), keep
