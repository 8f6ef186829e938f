"""The devices on which tests of the cpu port compare its instruction sets, and what is left out."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from hal.device import Device
from tests.ports.cpu_sets import SETS, device_of, has_set

collect_ignore = [] if "HAL_TEST_CUDA_TOOLS" in os.environ else ["test_cuda_compiler.py"]
"""NVIDIA's compilers are no part of a developer's environment: `.ci/run cuda` installs them."""


@pytest.fixture(params=[name for name in SETS if has_set(name)])
def fast(request: pytest.FixtureRequest) -> Iterator[Device]:
    """A device whose tiles run on one instruction set."""
    with device_of(request.param) as device:
        yield device


@pytest.fixture
def plain() -> Iterator[Device]:
    """A device that runs the kit's interpreter alone."""
    with device_of("none") as device:
        yield device
