"""hal-certify on the simulated chip, beside the bare cost of one process a case."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import click

from bench.measure import Contender, Figure

GOALS = {1: "less than 60 s on 2 cores", 2: "less than 300 s on 2 cores"}


def figures() -> Iterator[Figure]:
    """Each tier from nothing to its report. One round: minutes, and nothing to compare with."""
    for tier, goal in GOALS.items():
        cases = [0]
        yield Figure(
            f"hal-certify --tier {tier}",
            "s",
            Contender("hal-certify", lambda tier=tier, cases=cases: certify(tier, cases)),
            [],
            Contender("fork and exit, a case", lambda cases=cases: forks(cases[0])),
            goal=goal,
            rounds=1,
        )


def certify(tier: int, cases: list[int]) -> float:
    """Run a certification; keep how many cases it had and return its seconds."""
    code = "from hal.certify.cli import main; main()"
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", code, "--tier", str(tier), "--out", folder],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        seconds = time.perf_counter() - begin
        if done.returncode not in (0, 1):
            raise click.ClickException(f"hal-certify ended with {done.returncode}: {done.stderr}")
        lines = (Path(folder) / "results.jsonl").read_text(encoding="utf-8").splitlines()
        cases[0] = sum("id" in json.loads(line) for line in lines)
    return seconds


def forks(count: int) -> float:
    """Fork a child that ends at once, `count` times, and return the seconds."""
    begin = time.perf_counter()
    for _ in range(count):
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
    return time.perf_counter() - begin
