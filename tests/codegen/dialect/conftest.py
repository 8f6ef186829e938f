"""Fixtures of the dialect tests; their shared modules, and those of VIL, go on the path."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import hal.hcd

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "vil")]

from hosted import Compiler  # noqa: E402 -- found by the line above


@pytest.fixture(scope="session")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> Compiler:
    """The C compiler, quick rather than thorough."""
    return Compiler(tmp_path_factory.mktemp("sources"))


@pytest.fixture(scope="session")
def cpu() -> hal.hcd.Hcd:
    """The description of the port that compiles C."""
    return hal.hcd.load("hal/cpu")
