"""What the README shows is true: the example runs, the links lead somewhere, the commands exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from hal import cli

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_the_example_runs_and_both_devices_are_right() -> None:
    code = re.search(r"```python\n(.*?)```", TEXT, re.S)
    assert code is not None
    done = subprocess.run(
        [sys.executable, "-c", code[1]], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = [line.split() for line in done.stdout.splitlines()]
    assert [name for name, _ in lines] == ["cpu:0", "sim:0"]
    assert all(float(error) < 1e-5 for _, error in lines)


def test_the_start_has_two_commands_of_one_line() -> None:
    blocks = re.findall(r"```sh\n(.*?)```", TEXT.partition("## Start")[2], re.S)
    assert [block.strip() for block in blocks[:2]] == ["./start", "./start test"]


def test_every_command_that_is_named_exists() -> None:
    named = set(re.findall(r"`hal ([a-z]+)", TEXT))
    assert sorted(named - set(cli.COMMANDS)) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_to_a_file(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []
