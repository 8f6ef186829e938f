"""Builds the fake Vulkan loader: `python tests/ports/vulkan_fake/build.py FOLDER [FLAG…]`.

With LD_LIBRARY_PATH=FOLDER the port of Vulkan devices runs on it. fake.h tells the switches.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def build(folder: Path, *flags: str) -> Path:
    """Compiles the library into a folder and gives it back."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [os.environ.get("CC", "cc"), "-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror"]
    command += [
        "-fPIC",
        "-shared",
        "-Wl,-Bsymbolic,-soname,libvulkan.so.1",
    ]
    command += map(str, sorted(HERE.glob("*.c")))
    command += ["-o", str(folder / "libvulkan.so.1"), *flags, "-pthread"]
    subprocess.run(command, check=True)
    return folder


if __name__ == "__main__":
    build(Path(sys.argv[1]), *sys.argv[2:])
