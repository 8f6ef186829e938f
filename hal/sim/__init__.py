"""Timing without a port: closed forms of products, vector operators and collectives.

`Chip.of(hcd)` reads a description, `Target.of(chip)` adds the constants that suit it, and
`gemm.predict_s` and its neighbours give seconds for whole arrays of operators. Nothing here opens
a device. See docs/simulator.md.
"""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["Chip", "Target", "collective", "gemm", "predict_us", "vector"]


def __getattr__(name: str) -> Any:
    """Import NumPy only when a name is used."""
    if name == "Chip":
        from hal.sim.chip import Chip

        return Chip
    if name in ("Target", "predict_us"):
        from hal.sim import predict

        return getattr(predict, name)
    if name in ("collective", "gemm", "vector"):
        return importlib.import_module(f"hal.sim.{name}")
    raise AttributeError(f"module 'hal.sim' has no attribute {name!r}")
