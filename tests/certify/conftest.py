"""What the tests of the certification share: small suites, broken ports, and whole runs."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from hal.certify.run import Options, Run, certify
from hal.certify.supervisor import SERVER

ROOT = Path(__file__).resolve().parents[2]
PORT = "cpu"
HEAD = """
import os, signal, sys, time
import pytest
from hal.testing import case
"""

MakeSuite = Callable[..., Path]
Certify = Callable[..., Run]


@pytest.fixture
def make_suite(tmp_path: Path) -> MakeSuite:
    """Write a suite: `make_suite(group="code")` puts cases into tier1/group.py and lists them."""

    def make(**groups: str) -> Path:
        suite = tmp_path / "suite"
        for name, code in groups.items():
            path = suite / "tier1" / f"{name}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(HEAD + textwrap.dedent(code), encoding="utf-8")
        for name, code in groups.items():
            ids = [f"tier1/{name}.py::{test}" for test in re.findall(r"def (test_\w+)", code)]
            path = suite / "required" / "tier1" / f"{name}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(f"{test}\n" for test in sorted(ids)), encoding="utf-8")
        return suite

    return make


@pytest.fixture
def run_suite(tmp_path: Path) -> Certify:
    """Certify the honest port with a suite of one's own; extra words are options."""

    def run(suite: Path, *, server: Sequence[str] = SERVER, **wishes: object) -> Run:
        wishes.setdefault("out", tmp_path / "out")
        options = Options(port=PORT, tier=1, suite=suite, server=server, quiet=True, **wishes)
        return certify(options)

    return run


def broken_server(patch: str) -> list[str]:
    """Return the command of a fork server after a patch: how a broken harness is made."""
    code = textwrap.dedent(patch) + "\nimport sys\nfrom hal.certify.server import main\n"
    return [sys.executable, "-c", code + "sys.exit(main())"]


@pytest.fixture(scope="session")
def broken_port(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    """Compile tests/certify/ports/broken.c with a fault; returns the shared object."""
    folder = tmp_path_factory.mktemp("ports")

    def build(fault: int) -> Path:
        path = folder / f"hal_port_broken{fault}.so"
        words = ["cc", "-std=gnu11", "-shared", "-fPIC", f"-I{ROOT / 'include'}"]
        words += [f"-DFAULT={fault}", str(ROOT / "tests/certify/ports/broken.c"), "-o", str(path)]
        subprocess.run(words, check=True, timeout=60)
        return path

    return build
