"""Where the inputs of a case come from: a seed that depends on the case, the suite and a nonce."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

__all__ = ["SUITE_VERSION", "bytes_of", "generator", "seed_of"]

SUITE_VERSION = "1"
"""Changes when inputs or tolerances change, so that old certificates stay comparable."""


def seed_of(case_id: str, *, seed: int = 0, nonce: str = "") -> int:
    """Return the 64-bit seed of a case: a hash of id, suite version, run seed and nonce."""
    text = "\0".join((case_id, SUITE_VERSION, str(seed), nonce))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


def generator(seed: int) -> np.random.Generator:
    """Return NumPy's PCG64 generator for a seed of `seed_of`."""
    import numpy as np

    return np.random.Generator(np.random.PCG64(seed))


def bytes_of(count: int, salt: int = 0) -> bytes:
    """Return bytes without a short period, the same ones each time."""
    import numpy as np

    steps = np.arange(count, dtype=np.uint64) + np.uint64(salt + 1)
    return bytes((steps * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(56)).astype(np.uint8))
