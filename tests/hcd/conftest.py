"""A small description that extends a shipped one, to be varied by the tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hal.errors import HcdError
from hal.hcd import Hcd, load

BASE = 'hcd_version: "1.0"\nextends: sim/npu-small\n'


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    """Writes a child of sim/npu-small with some lines and returns its path."""

    def call(lines: str, *, name: str = "child.hcd.yaml", head: str = BASE) -> Path:
        path = tmp_path / name
        path.write_text(head + lines, encoding="utf-8")
        return path

    return call


@pytest.fixture
def child(write: Callable[[str], Path]) -> Callable[[str], Hcd]:
    """Loads a child of sim/npu-small."""
    return lambda lines: load(write(lines))


@pytest.fixture
def problems(write: Callable[[str], Path]) -> Callable[[str], list[str]]:
    """The problems of a child of sim/npu-small, each from its line on."""

    def call(lines: str) -> list[str]:
        path = write(lines)
        with pytest.raises(HcdError) as caught:
            load(path)
        return [problem.partition("child.hcd.yaml:")[2] or problem for problem in
                caught.value.problems]  # fmt: skip

    return call
