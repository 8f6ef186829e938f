"""The example of docs/dialect.md runs as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "dialect.md"


def test_the_example_renders_the_text_of_a_kernel(capsys) -> None:
    found = re.search(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    assert found is not None
    names: dict[str, object] = {}
    exec(compile(found[1], str(PAGE), "exec"), names)
    shown = capsys.readouterr().out
    assert "__kernel" in shown and "hal_program_Scale_y" in shown
    assert shown.strip().encode() in bytes(names["data"])  # type: ignore[call-overload]
