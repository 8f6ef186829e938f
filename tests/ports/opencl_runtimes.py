"""OpenCL implementations on this machine: what the loader lists, and drivers that are named."""

from __future__ import annotations

import ctypes.util
import importlib.metadata
import os
from pathlib import Path

__all__ = ["environments"]

PACKAGE, LIBRARY = "intel-opencl-rt", "libintelocl.so"


def environments(folder: Path) -> dict[str, dict[str, str]]:
    """Name to environment of each implementation; `folder` takes a list of drivers.

    HAL_TEST_OPENCL names the library of one more driver, as of Intel's, which comes as a package
    with a licence of its own and is never required:
    python -m venv FOLDER && FOLDER/bin/pip install intel-opencl-rt intel-cmplr-lib-rt
    """
    found: dict[str, dict[str, str]] = {}
    if ctypes.util.find_library("OpenCL") is not None or os.environ.get("CI") == "true":
        found["of the machine"] = {}
    named = os.environ.get("HAL_TEST_OPENCL") or _installed()
    if named:
        library = Path(named).resolve()
        (folder / "named.icd").write_text(f"{library}\n", encoding="utf-8")
        system = ctypes.util.find_library("OpenCL")
        first = "/usr/lib/x86_64-linux-gnu:" if system else ""
        found["named"] = {
            "OCL_ICD_VENDORS": str(folder),
            "LD_LIBRARY_PATH": f"{first}{library.parent}",
        }
    return found


def _installed() -> str:
    """Intel's library beside this Python, or nothing."""
    try:
        files = importlib.metadata.files(PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        return ""
    return next((str(file.locate()) for file in files if file.name == LIBRARY), "")
