"""docs/python-port.md: its code, its table and its description are what the SDK takes."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import numpy as np

import hal
from hal.port.python_class import METHODS
from hal.testing import PythonPort

PAGE = (Path(__file__).resolve().parents[2] / "docs/python-port.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", PAGE, re.S)
    assert found is not None
    return found[1]


def test_the_pages_port_runs_with_the_pages_description(tmp_path: Path) -> None:
    (tmp_path / "my_port.py").write_text(block("python"), encoding="utf-8")
    (tmp_path / "my_port.hcd.yaml").write_text(block("yaml"), encoding="utf-8")
    given = np.arange(100, dtype=np.float32)
    with hal.open(f"{tmp_path}/my_port.py:MyPort") as device:
        assert np.array_equal(device.array(given).numpy(), given)
        assert (device.hcd.name, device.name) == ("acme/acme-one", "MyPort:0")


def test_the_table_has_every_method_with_its_parameters() -> None:
    rows = re.findall(r"`(\w+)\(([^)]*)\)`", PAGE.split("| method |")[1].split("Methods may")[0])
    told = {name: tuple(filter(None, given.split(", "))) for name, given in rows}
    assert told == METHODS


def test_the_base_class_has_the_same_parameters() -> None:
    own = {
        name: tuple(inspect.signature(getattr(PythonPort, name)).parameters)[1:] for name in METHODS
    }
    assert own == METHODS
