"""Builds the fake CUDA libraries: `python tests/ports/cuda_fake/build.py FOLDER [FLAG…]`.

With LD_LIBRARY_PATH=FOLDER the port of CUDA devices runs on them. fake.h tells the switches.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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


if __name__ == "__main__":
    build(Path(sys.argv[1]), *sys.argv[2:])
