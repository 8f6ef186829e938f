"""The guide's examples run, in order and in one program."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path


def test_the_examples_of_the_guide_run(root: Path) -> None:
    text = (root / "docs" / "runtime.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.S)
    done = subprocess.run(
        [sys.executable, "-c", "".join(blocks)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("cpu:0 hal/cpu ")
    assert "[0. 2. 4. 6.]" in lines
    assert "[6. 6. 6. 6. 6. 6. 6. 6.]" in lines
    assert lines[-1].startswith("launch.launch: double takes 3 arguments (n, x, y); 2 were given")
