"""Fixtures of the tests of products; the folder goes on the path for their shared module."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hal

sys.path.insert(0, str(Path(__file__).resolve().parent))


@pytest.fixture(scope="module")
def device() -> Iterator[hal.Device]:
    with hal.open("cpu") as opened:
        yield opened


@pytest.fixture
def whole() -> Callable[..., np.ndarray[Any, Any]]:
    """Makes arrays of small whole numbers, whose products and sums are exact in every type."""
    rng = np.random.default_rng(7)

    def make(*shape: int, least: int = -3) -> np.ndarray[Any, Any]:
        return rng.integers(least, 4, shape)

    return make
