"""Builds the fake CUDA libraries: `python tests/ports/cuda_fake/build.py FOLDER [FLAG…]`.

With LD_LIBRARY_PATH=FOLDER the port of CUDA devices runs on them. fake.h tells the switches.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
LIBRARIES = {
    "libcuda.so.1": "driver.c",
    "libnvrtc.so.13": "nvrtc.c",
    "libcublas.so.13": "cublas.c",
    "libnccl.so.2": "nccl.c",
}


def build(folder: Path, *flags: str) -> Path:
    """Compiles the libraries into a folder and gives it back."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, source in LIBRARIES.items():
        command = [os.environ.get("CC", "cc"), "-std=gnu11", "-O1", "-g", "-Wall", "-Wextra"]
        command += ["-Werror", "-fPIC", "-shared", "-fvisibility=hidden", f"-Wl,-soname,{name}"]
        command += [str(HERE / source), "-o", str(folder / name), *flags, "-lm", "-ldl"]
        if name != "libcuda.so.1":
            command += [str(folder / "libcuda.so.1"), "-Wl,-rpath,$ORIGIN"]
        subprocess.run([*command, "-pthread"], check=True)
    return folder


def environment(fake: Path | None, **more: str) -> dict[str, str]:
    """This one's with the libraries of a folder and what fake.h reads; None: without a fake."""
    found = {k: v for k, v in os.environ.items() if not k.startswith(("FAKE_CUDA", "HAL_CUDA"))}
    if fake is not None:
        found |= {"LD_LIBRARY_PATH": str(fake), "FAKE_CUDA_CACHE": str(fake.parent / "kernels")}
    return found | more


def run_script(fake: Path | None, text: str, **more: str) -> dict[str, Any]:
    """What a script leaves in `out`; it imports json."""
    done = subprocess.run(
        [sys.executable, "-c", text + "\nprint('OUT' + json.dumps(out))"],
        env=environment(fake, **more),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("OUT")]
    assert lines, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(lines[0][3:])
    return found


if __name__ == "__main__":
    build(Path(sys.argv[1]), *sys.argv[2:])
