"""docs/write-a-kernel.md and the examples of kernels, as a reader would run them."""

from __future__ import annotations

import linecache
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/write-a-kernel.md").read_text(encoding="utf-8")
BIN = Path(sys.executable).parent


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.S)


def test_the_python_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    import hal.dsl

    names: dict[str, Any] = {"__name__": "write_a_kernel"}
    try:
        for number, code in enumerate(blocks("python")):
            file = f"write-a-kernel-{number}.py"
            linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)
            exec(compile(code, file, "exec"), names)
    finally:
        hal.dsl.OPERATORS.pop("swish", None)
        names["device"].close()
    shown = capsys.readouterr().out
    assert "(1000, 513)" in shown
    assert "True" in shown
    assert "operation: " in shown
    assert "do not multiply" in shown


def test_the_commands_of_the_page_run(tmp_path: Path) -> None:
    (tmp_path / "affine.hal").write_text(blocks("hal")[0], encoding="utf-8")
    tuning = re.findall(r"`(hal tune [^`]*)`", PAGE)
    for script in [*blocks("sh"), *tuning]:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=tmp_path,
            env={
                **os.environ,
                "PATH": f"{BIN}:{os.environ['PATH']}",
                "XDG_CACHE_HOME": str(tmp_path),
            },
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, script + done.stdout + done.stderr


@pytest.mark.parametrize("device", ["cpu", "sim"])
def test_the_tour_is_right_on_a_device(device: str) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples/kernels/tour.py"), device],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("largest error") == 7
