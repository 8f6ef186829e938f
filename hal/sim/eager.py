"""Host time of a framework that runs one operator a call (PyTorch eager), beside the kernel.

    host + max(0, kernel - hidden)

The host's time of an operator is a counted constant of the harness, not of the chip (family
`eager`; LLMCompass keeps such a table too, its overhead_dict). While the host still works, part of
the kernel has already run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from hal.sim.calibration import Constants

Array = np.ndarray[Any, np.dtype[np.float64]]
HARNESSES = ("", "none", "pytorch-eager")
"""Names that a table or --harness may give; the first two add nothing."""


def host_us(constants: Constants, operator: str) -> float:
    """Host time of one call; an operator that nobody measured costs what gelu does."""
    return constants.values.get(operator, constants["gelu"])


def call_us(constants: Constants, operator: str, kernel_us: Array) -> Array:
    """Microseconds that a caller sees, given the kernel's own time without its launch."""
    seen = np.maximum(0.0, constants["kernel"] * kernel_us - constants["hidden"])
    found: Array = host_us(constants, operator) + seen
    return found
