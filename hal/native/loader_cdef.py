"""Write what cffi is told of libhal and of the port of Python classes, out of their C headers.

usage: loader_cdef.py [--check]

What lies between the marks `[cffi` and `cffi]` is copied without comments and export marks.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TEXTS = {
    "hal/_generated/loader_cdef.h": ("include/hal/loader.h", "libhal", "hal/loader.h"),
    "hal/_generated/python_port_cdef.h": (
        "hal/native/python_port/hooks.h",
        "the port of Python classes",
        "python_port/hooks.h",
    ),
}
"""File to write: the header, what it declares, and the header's name in the file's first line."""


def declarations(header: str) -> str:
    """Return the declarations of a header as cffi takes them."""
    parts = re.findall(r"// \[cffi\n(.*?)// cffi\]\n", header, re.DOTALL)
    body = "\n".join(parts)
    body = re.sub(r"//[^\n]*", "", body).replace("HAL_API ", "")
    lines = [line.rstrip() for line in body.splitlines()]
    return "\n".join(line for line in lines if line) + "\n"


def main() -> int:
    """Write the files; with --check only tell whether they would change (1)."""
    status = 0
    for target, (header, what, name) in TEXTS.items():
        text = f"// What cffi is told of {what}. Made from {name} by hal/native/loader_cdef.py.\n"
        text += declarations((ROOT / header).read_text(encoding="utf-8"))
        path = ROOT / target
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        if "--check" in sys.argv[1:]:
            print(f"{target} differs: run python hal/native/loader_cdef.py")
            status = 1
        else:
            path.write_text(text, encoding="utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main())
