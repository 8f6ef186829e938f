"""Write hal/_generated/loader_cdef.h, what cffi is told of libhal, out of include/hal/loader.h.

usage: loader_cdef.py [--check]

What lies between the marks `[cffi` and `cffi]` is copied without comments and export marks.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HEADER = ROOT / "include" / "hal" / "loader.h"
TARGET = ROOT / "hal" / "_generated" / "loader_cdef.h"
TITLE = "// What cffi is told of libhal. Made from hal/loader.h by hal/native/loader_cdef.py.\n"


def declarations(header: str) -> str:
    """Return the declarations of a header as cffi takes them."""
    parts = re.findall(r"// \[cffi\n(.*?)// cffi\]\n", header, re.DOTALL)
    body = "\n".join(parts)
    body = re.sub(r"//[^\n]*", "", body).replace("HAL_API ", "")
    lines = [line.rstrip() for line in body.splitlines()]
    return TITLE + "\n".join(line for line in lines if line) + "\n"


def main() -> int:
    """Write the file; with --check only tell whether it would change (1)."""
    text = declarations(HEADER.read_text(encoding="utf-8"))
    same = TARGET.exists() and TARGET.read_text(encoding="utf-8") == text
    if "--check" in sys.argv[1:]:
        if not same:
            print("hal/_generated/loader_cdef.h differs: run python hal/native/loader_cdef.py")
        return 0 if same else 1
    if not same:
        TARGET.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
