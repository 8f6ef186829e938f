"""Tools for certification cases: a port without layers, fixtures, the tolerance law, seeds.

Cases in `conformance/` import only `hal` and this package.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from hal.testing.case import case

if TYPE_CHECKING:
    from hal.testing import abi, exact, guard, programs, raw
    from hal.testing.abi import Status
    from hal.testing.capability import capability
    from hal.testing.python_port import PythonPort
    from hal.testing.rig import Rig
    from hal.testing.tolerance import close

__all__ = [
    "PythonPort",
    "Rig",
    "Status",
    "abi",
    "capability",
    "case",
    "close",
    "exact",
    "guard",
    "programs",
    "raw",
]

_PLACES = {
    "PythonPort": "hal.testing.python_port",
    "Rig": "hal.testing.rig",
    "Status": "hal.testing.abi",
    "capability": "hal.testing.capability",
    "close": "hal.testing.tolerance",
}


def __getattr__(name: str) -> Any:
    """Import a part when it is asked for: NumPy and libhal stay out until then."""
    if name in _PLACES:
        return getattr(importlib.import_module(_PLACES[name]), name)
    if name in __all__:
        return importlib.import_module(f"hal.testing.{name}")
    raise AttributeError(f"module 'hal.testing' has no attribute {name!r}")
