"""The physical limits as a cffi module, compiled once into build/bench from limits.c."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import re
import subprocess
import sysconfig
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import click

SOURCE = Path(__file__).with_name("limits.c")
BUILD = Path(__file__).resolve().parent.parent / "build" / "bench"


@cache
def limits() -> Any:
    """Return the module; its functions are `limits().lib.limit_…`, its cffi `limits().ffi`.

    Raises:
        click.ClickException: there is no C compiler, or it refused the source.
    """
    text = SOURCE.read_text(encoding="utf-8")
    name = f"_limits_{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    path = BUILD / f"{name}.abi3.so"
    if not path.exists():
        _compile(text, name, path)
    return _load(name, path)


def _compile(text: str, name: str, path: Path) -> None:
    """Write cffi's C source for the module and compile it."""
    from cffi import FFI

    declared = re.findall(r"^int32_t limit_\w+\([^{]*\)(?= \{)", text, re.M | re.S)
    ffi = FFI()
    ffi.cdef(";\n".join(declared) + ";")
    ffi.set_source(name, text, py_limited_api=True)
    BUILD.mkdir(parents=True, exist_ok=True)
    source = BUILD / f"{name}.c"
    with contextlib.redirect_stdout(None):  # it announces what it writes
        ffi.emit_c_code(str(source))
    compiler = (os.environ.get("CC") or "cc").split()
    include = sysconfig.get_path("include")
    flags = ["-O2", "-shared", "-fPIC", "-DPy_LIMITED_API=0x030B0000", f"-I{include}"]
    try:
        done = subprocess.run(
            [*compiler, *flags, "-o", path, source], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        raise RuntimeError(
            f"bench: the limits need a C compiler; no '{compiler[0]}' here"
        ) from None
    if done.returncode != 0:
        raise click.ClickException(f"the limits did not compile:\n{done.stderr}")


def _load(name: str, path: Path) -> ModuleType:
    """Import an extension module from its file."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
