"""Tuning: the best choice of tiles for a kernel, a chip and sizes, by forecast and measurement.

    found = hal.tune(kernel, device=device, sizes={"M": 4096, "N": 4096, "K": 4096})
    print(found.best)

All choices are ranked by the list-schedule cost of the kit, the first few are measured where a
device is given, and the winner is kept on disk: `hal.codegen.compile` takes it from then on.

The package itself can be called; that is `hal.tune.tune`.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from hal.tune.search import MEASURED, Candidate, Tuning, shortlist, tune

__all__ = ["MEASURED", "Candidate", "Tuning", "shortlist", "tune"]


class _Callable(ModuleType):
    """A module that is called as its function of the same name."""

    def __call__(self, *args: Any, **options: Any) -> Tuning:
        return tune(*args, **options)


sys.modules[__name__].__class__ = _Callable
