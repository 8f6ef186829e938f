"""Write the C source of the extension module hal._native (cffi, API mode).

usage: build_ffi.py OUT.c CDEF.h [CDEF.h …] --include HEADER [--include HEADER …]

CMake runs this at build time. The declarations come from the generator; this file only joins them
and names the headers that the compiler checks them against.
"""

import argparse
from pathlib import Path

from cffi import FFI


def emit(out: Path, cdefs: list[Path], headers: list[str]) -> None:
    """Write the extension's C source to `out`, unless it is there already, unchanged."""
    ffi = FFI()
    for path in cdefs:
        ffi.cdef(path.read_text(encoding="utf-8"), override=False)
    preamble = "".join(f'#include "{header}"\n' for header in headers)
    ffi.set_source("hal._native", preamble, py_limited_api=True)
    out.parent.mkdir(parents=True, exist_ok=True)
    ffi.emit_c_code(str(out))


def main() -> None:
    """Read the arguments and write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("cdefs", type=Path, nargs="+")
    parser.add_argument("--include", action="append", default=[], dest="headers")
    arguments = parser.parse_args()
    emit(arguments.out, arguments.cdefs, arguments.headers)


if __name__ == "__main__":
    main()
