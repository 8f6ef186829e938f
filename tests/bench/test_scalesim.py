"""Cycles of systolic arrays: our schedule beside what SCALE-Sim reports, without the package."""

from __future__ import annotations

import math
from pathlib import Path

import click
import pytest

from bench import scalesim_subject as subject
from bench.measure import measure
from bench.scalesim_subject import Array

SHAPES = [(16, 16, 16), (129, 129, 129), (100, 200, 300), (16, 512, 128)]
REPORTED = {
    Array(128, "weight_stationary"): [397, 2043, 2891, 1591],
    Array(128, "output_stationary"): [269, 1531, 1107, 1527],
    Array(32, "weight_stationary"): [109, 5574, 13579, 7039],
    Array(32, "output_stationary"): [77, 4774, 10135, 3039],
}
"""Total cycles that scalesim 3.0.0 reports for these shapes."""


@pytest.mark.parametrize("array", REPORTED, ids=str)
def test_with_the_gap_of_scale_sim_the_array_is_busy_for_its_cycles(array: Array) -> None:
    """SCALE-Sim counts cycles from 0, so its total is one less."""
    found = subject.forecast(array, array.gap, SHAPES)
    assert [round(one.matrix) - 1 for one in found] == REPORTED[array]


@pytest.mark.parametrize("array", REPORTED, ids=str)
def test_with_the_declared_fill_only_the_gap_of_each_block_differs(array: Array) -> None:
    found = subject.forecast(array, array.side, SHAPES)
    for (m, n, k), ours, theirs in zip(SHAPES, found, REPORTED[array], strict=True):
        held = (k, n) if array.flow == "weight_stationary" else (m, n)
        blocks = math.prod(-(-length // array.side) for length in held)
        assert theirs + 1 - round(ours.matrix) == blocks * (array.gap - array.side)


def test_equal_values_share_a_rank() -> None:
    assert list(subject.ranks([5, 1, 5, 9])) == [2.5, 1, 2.5, 4]


def test_without_the_package_a_row_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(subject.VARIABLE, raising=False)
    subject.peer_python.cache_clear()
    row = measure("scalesim", next(subject.figures()))
    assert (row["ours"], row["peer"]) == (pytest.approx(144), None)
    assert row["absent"] == ["scalesim (HAL_BENCH_SCALESIM=FOLDER makes it)"]


def report(*rows: str) -> str:
    head = "LayerID, Total Cycles (incl. prefetch), Total Cycles, Stall Cycles, Overall Util %,\n"
    return head + "".join(f"{row},\n" for row in rows)


def peer(folder: Path, script: str) -> Path:
    """A stand-in for the environment's Python; its last argument is the folder of the report."""
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nfor folder; do :; done\nmkdir "$folder/run"\n{script}\n')
    python.chmod(0o755)
    return python


def test_the_column_without_prefetch_is_read_from_the_report(tmp_path: Path) -> None:
    text = report("0, 4593, 397, 0, 0.06", "1, 4831, 509, 0, 25.1")
    python = peer(tmp_path, f"cat > $folder/run/COMPUTE_REPORT.csv <<'END'\n{text}END")
    array = Array(128, "weight_stationary")
    assert subject.peer_cycles(python, array, [(16, 16, 16), (128, 128, 128)]) == [397, 509]


@pytest.mark.parametrize(
    "rows", [["0, 4593, 397, 3, 0.06"], [], ["0, 9, 9, 0, 1", "1, 9, 9, 0, 1"]]
)
def test_a_report_with_stalls_or_other_rows_is_refused(rows: list[str], tmp_path: Path) -> None:
    path = tmp_path / "COMPUTE_REPORT.csv"
    path.write_text(report(*rows))
    with pytest.raises(click.ClickException, match="has stalls or not 1 rows"):
        subject.read_report(path, 1)


@pytest.mark.parametrize(
    ("script", "reason"),
    [("echo no module >&2; exit 1", "failed: no module"), ("exit 0", "wrote no report")],
)
def test_a_peer_that_fails_is_one_clear_error(script: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(click.ClickException, match=reason):
        subject.peer_cycles(peer(tmp_path, script), Array(32, "output_stationary"), [(1, 1, 1)])
