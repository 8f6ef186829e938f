"""What every test shares: the folders of the checkout, and runs of the commands."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# CMake's own choice is make, which a machine with the locked packages alone does not have.
if shutil.which("make") is None:
    os.environ.setdefault("CMAKE_GENERATOR", "Ninja")

NEEDS = {
    "ports/test_opencl*.py": ["/usr/include/CL/cl.h"],
    "ports/test_vulkan.py": [
        "/usr/include/vulkan/vulkan.h",
        "/usr/bin/glslangValidator",
        "/usr/share/vulkan/icd.d/lvp_icd.x86_64.json",
    ],
    "portkit/test_bind_opencl.py": ["/usr/include/CL/cl.h", "/etc/OpenCL/vendors/pocl.icd"],
}
"""What a machine cannot build or run has no tests there: these files, without which tests have no
cases. CI has them all."""

collect_ignore_glob = []
if os.environ.get("CI") != "true":
    collect_ignore_glob += [
        tests for tests, files in NEEDS.items() if not all(map(os.path.isfile, files))
    ]

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def root() -> Path:
    """The top folder of the checkout."""
    return ROOT


@pytest.fixture(scope="session")
def run() -> Run:
    """Run a Python module as a command would: `run("hal.cli", "ports")`; never raises on a status.

    Keyword arguments: env (added to the environment), cwd, timeout in seconds (60).
    """

    def call(
        module: str,
        *arguments: str | Path,
        env: dict[str, str] | None = None,
        cwd: Path = ROOT,
        timeout: float = 60,
    ) -> subprocess.CompletedProcess[str]:
        code = f"import sys; from {module} import main; sys.argv[0] = 'hal'; sys.exit(main())"
        words: Sequence[str] = [sys.executable, "-c", code, *map(str, arguments)]
        return subprocess.run(
            words,
            capture_output=True,
            text=True,
            cwd=cwd,
            timeout=timeout,
            env={**os.environ, "NO_COLOR": "1", "TERM": "dumb", **(env or {})},
            check=False,
        )

    return call
