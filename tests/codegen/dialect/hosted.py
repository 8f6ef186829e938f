"""Compiles sources of the C dialect with the machine's compiler and runs plans with them."""

from __future__ import annotations

import ctypes
import hashlib
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
from plan import bits, results, steps

import hal.hcd
from hal.codegen.dialect import entry_name, render
from hal.vil import Module, VilRefused

FLAGS = ("-O1", "-std=gnu11", "-march=native", "-ffp-contract=off", "-fwrapv", "-fopenmp-simd")


class Bound(ctypes.Structure):
    """hal_bound of the sources."""

    _fields_ = (("data", ctypes.c_void_p), ("bytes", ctypes.c_uint64), ("scalar", ctypes.c_uint64))


class Compiler:
    """Sources as loaded libraries, kept by content in a folder."""

    def __init__(self, folder: Path, *flags: str) -> None:
        self.folder = folder
        self.flags = flags or FLAGS

    def load(self, source: str) -> ctypes.CDLL:
        """The library of a source. Raises AssertionError with the compiler's words."""
        name = hashlib.sha256((source + str(self.flags)).encode()).hexdigest()[:24]
        library = self.folder / f"{name}.so"
        if not library.exists():
            text = self.folder / f"{name}.c"
            text.write_text(source, encoding="utf-8")
            command = [os.environ.get("CC", "cc"), "-shared", "-fPIC", "-w", *self.flags]
            done = subprocess.run(
                [*command, str(text), "-o", str(library), "-lm"],
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stderr[:3000] + f"\n{text}"
        return ctypes.CDLL(str(library))

    def run(
        self, module: Module, kernel: str, arguments: dict[str, Any], hcd: Any = None
    ) -> tuple[str, dict[str, Any]]:
        """Status and written buffers of one launch."""
        library = self.load(render(module, hcd or hal.hcd.load("hal/cpu")))
        try:
            memory, plan = steps(module, kernel, arguments)
            for step in plan:
                params = (Bound * max(1, len(step.bound)))()
                for number, (param, value) in enumerate(
                    zip(step.program.params, step.bound, strict=True)
                ):
                    if param.kind == "buffer":
                        params[number] = Bound(value.ctypes.data, value.nbytes, 0)
                    else:
                        params[number] = Bound(None, 0, bits(param, value))
                name = entry_name(step.program)
                function = getattr(library, name)
                function.restype = ctypes.c_int64
                size = ctypes.c_uint64.in_dll(library, f"{name}_bytes").value
                tiles = np.full(size + 128, 0xFF, np.uint8)
                start = -(-tiles.ctypes.data // 64) * 64
                grid = (ctypes.c_uint64 * 3)(*step.grid)
                count = step.grid[0] * step.grid[1] * step.grid[2]
                found = function(
                    params, grid, ctypes.c_uint64(0), ctypes.c_uint64(count), ctypes.c_void_p(start)
                )
                if found:
                    return "EXECUTION_FAILED", {}
        except VilRefused:
            return "INVALID_VALUE", {}
        return "OK", results(module, kernel, arguments, memory)
