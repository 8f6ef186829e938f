"""A whole port in Python: the device is NumPy arrays of this process.

hal-certify docs/examples/python/numpy_port.py:NumpyPort --tier 1
"""

from __future__ import annotations

import numpy as np

from hal.testing import PythonPort


class NumpyPort(PythonPort):
    """Four methods; the base class copies and fills by reading and writing."""

    runtime = f"NumPy {np.__version__}"

    def alloc(self, device: int, length: int, alignment: int) -> np.ndarray:
        """A buffer is an array of bytes."""
        return np.empty(length, dtype=np.uint8)

    def free(self, memory: np.ndarray) -> None:
        """NumPy frees what nobody names."""

    def write(self, memory: np.ndarray, offset: int, data: bytes) -> None:
        """Copy in."""
        memory[offset : offset + len(data)] = np.frombuffer(data, dtype=np.uint8)

    def read(self, memory: np.ndarray, offset: int, length: int) -> np.ndarray:
        """Show the range; the caller copies it out."""
        return memory[offset : offset + length]
