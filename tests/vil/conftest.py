"""Fixtures of the VIL tests; the folder itself goes on the path for their shared modules."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import hal.vil
from hal.vil import Module

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))


@pytest.fixture(scope="session")
def matmul_text() -> str:
    """The example of the specification page."""
    page = (ROOT / "docs" / "vil.md").read_text()
    found = re.search(r"```\n(vil 1\.0\n.*?)```", page, re.DOTALL)
    assert found is not None
    return found.group(1)


@pytest.fixture(scope="session")
def matmul(matmul_text: str) -> Module:
    """The example of the specification page as a module."""
    return hal.vil.parse(matmul_text)
