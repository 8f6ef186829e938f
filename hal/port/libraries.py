"""Libraries that wheels bring and ports may use: found here, since a port in C cannot look."""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path

__all__ = ["installed_libraries"]

WHEELS = {"blas": ("scipy_openblas32", "lib/libscipy_openblas*.so")}
"""Kind of library to the package of its wheel and where the library lies in it."""


@cache
def installed_libraries() -> bytes:
    """Option lines `library.KIND=PATH` for what is installed; every port gets them."""
    lines = []
    for kind, (package, pattern) in WHEELS.items():
        spec = importlib.util.find_spec(package)
        for folder in (spec.submodule_search_locations or []) if spec is not None else []:
            lines += [f"library.{kind}={path}\n" for path in sorted(Path(folder).glob(pattern))[:1]]
    return "".join(lines).encode()
