"""What a run shows while it goes on: each new failure, and not the same one a hundred times."""

from __future__ import annotations

import pytest

from hal.certify.progress import ALIKE_SHOWN, Progress


def shown(messages: list[str], capsys: pytest.CaptureFixture[str]) -> list[str]:
    with Progress("acme, tier 1", len(messages), live=False) as progress:
        for number, message in enumerate(messages):
            progress.add({"status": "FAIL", "id": f"case {number}", "message": message})
    return [line for line in capsys.readouterr().err.splitlines() if line.startswith("FAIL")]


def test_failures_that_look_alike_are_shown_a_few_times(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = shown([f"answered {1000 + n}" for n in range(100)], capsys)
    assert len(lines) == ALIKE_SHOWN + 1
    assert lines[0] == "FAIL  case 0: answered 1000"
    assert lines[-1] == "FAIL  … more of this are counted alone: answered #"


def test_every_other_failure_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    words = [f"{chr(97 + n)} went wrong" for n in range(26)]
    assert len(shown(words, capsys)) == 26
