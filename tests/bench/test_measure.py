"""How figures are measured: in turns, best of the rounds, ratios that say who is faster."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench import measure as measuring
from bench.measure import Contender, Figure, interleave, measure, settled

ROOT = Path(__file__).resolve().parents[2]


def fixed(name: str, *values: float) -> Contender:
    """A contender whose samples are the values, again and again."""
    state = {"next": 0}

    def sample() -> float:
        state["next"] += 1
        return values[(state["next"] - 1) % len(values)]

    return Contender(name, sample)


def test_contenders_take_turns_and_the_first_one_rotates() -> None:
    order: list[str] = []
    contenders = [Contender(n, lambda n=n: order.append(n) or 0.0) for n in ("a", "b")]
    interleave(contenders, rounds=2)
    assert order == ["a", "b", "a", "b", "b", "a"]


def test_the_first_sample_is_thrown_away() -> None:
    assert interleave([fixed("ours", 99.0, 1.0, 2.0)], rounds=2) == {"ours": [1.0, 2.0]}


def test_a_sample_is_taken_behind_calls_that_are_not_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[str] = []
    clock = iter(range(100))
    monkeypatch.setattr(measuring, "SPIN_S", 3)
    monkeypatch.setattr(measuring.time, "perf_counter", lambda: next(clock))
    sample = settled(lambda: done.append("call"), lambda: done.append("sample") or 7.0)
    assert sample() == 7.0
    assert done == ["call", "call", "sample"]


def test_a_time_is_compared_with_the_fastest_peer() -> None:
    figure = Figure("x", "us", fixed("ours", 2.0), [fixed("slow", 8.0), fixed("fast", 4.0)])
    figure.limit = fixed("shim", 1.0)
    row = measure("launch", figure)
    keys = ("ours", "peer", "best_peer", "limit", "ratio_to_peer", "ratio_to_limit")
    assert [row[key] for key in keys] == [2.0, 4.0, "fast", 1.0, 0.5, 2.0]


def test_a_rate_is_compared_the_other_way_round() -> None:
    figure = Figure("x", "GB/s", fixed("ours", 10.0), [fixed("slow", 2.0), fixed("fast", 5.0)])
    figure.limit = fixed("memcpy", 20.0)
    row = measure("copy", figure)
    assert [row["best_peer"], row["ratio_to_peer"], row["ratio_to_limit"]] == ["fast", 0.5, 2.0]


def test_a_figure_without_peers_says_so_with_none() -> None:
    row = measure("x", Figure("x", "us", fixed("ours", 1.0), absent=["torch"]))
    assert [row["peer"], row["best_peer"], row["ratio_to_peer"]] == [None, None, None]
    assert row["absent"] == ["torch"]


def bench(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "bench", *map(str, arguments)]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)


def test_an_unknown_subject_is_refused_with_the_list() -> None:
    done = bench("lunch")
    assert done.returncode == 2
    assert "no subject 'lunch'; there are launch, copy, allocation" in done.stderr


def test_two_files_are_compared(tmp_path: Path) -> None:
    row = {"subject": "copy", "figure": "x", "unit": "us", "ours": 2.0, "ratio_to_peer": 0.5}
    (tmp_path / "old.json").write_text(json.dumps([row]), encoding="utf-8")
    (tmp_path / "new.json").write_text(json.dumps([{**row, "ours": 3.0}]), encoding="utf-8")
    done = bench("--compare", tmp_path / "old.json", tmp_path / "new.json")
    assert done.returncode == 0
    assert "+50% ██████████" in done.stdout


@pytest.mark.parametrize("text", ["not json", "[1]", "{}x"])
def test_a_file_without_rows_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "odd.json"
    path.write_text(text, encoding="utf-8")
    done = bench("--compare", path, path)
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    assert "holds no rows of this benchmark" in done.stderr
