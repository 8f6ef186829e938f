"""`--budget`: who gets how much of it, what it changes, and that no verdict needs it."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from hal.certify import cli
from hal.certify.run import Options, soak_seconds
from hal.testing.leaks import growth

from .conftest import Certify, MakeSuite
from .test_runs import case_named, statuses

SOAK = """
@case(rules=["HAL-MEM-004"], soak=True, timeout_s=2)
def test_long(soak) -> None:
    start = time.monotonic()
    rounds = sum(1 for _ in soak(3))
    assert rounds >= 3
    from hal.testing import record
    record.current().facts["soak"] = [rounds, time.monotonic() - start]

@case(rules=["HAL-MEM-004"])
def test_short() -> None:
    assert True
"""


@pytest.mark.parametrize(
    ("budget", "jobs", "long", "share"),
    [(0.0, 2, 5, 0.0), (20.0, 2, 0, 0.0), (20.0, 1, 5, 4.0), (20.0, 2, 5, 8.0), (20.0, 8, 2, 20.0)],
)
def test_long_cases_share_the_budget(budget: float, jobs: int, long: int, share: float) -> None:
    cases = [case_named(f"tier3/a.py::test_{n}", soak=n < long) for n in range(long + 3)]
    assert soak_seconds(Options(budget=budget, jobs=jobs), cases) == share


def test_a_long_case_goes_on_for_its_share_and_its_limit_grows_with_it(
    make_suite: MakeSuite, run_suite: Certify
) -> None:
    run = run_suite(make_suite(soak=SOAK), budget=3.0, jobs=1)
    assert statuses(run.results_path) == {"test_long": "PASS", "test_short": "PASS"}
    long = next(result for result in run.results() if "test_long" in result["id"])
    rounds, seconds = long["facts"]["soak"]
    assert rounds > 3
    assert seconds >= 3.0
    assert json.loads((run.out / "run.json").read_text())["budget"] == 3.0


def test_without_a_budget_a_long_case_does_its_least(
    make_suite: MakeSuite, run_suite: Certify
) -> None:
    run = run_suite(make_suite(soak=SOAK))
    long = next(result for result in run.results() if "test_long" in result["id"])
    assert long["facts"]["soak"][0] == 3


@pytest.mark.parametrize("said", ["3x", "-1s", "soon", "0"])
def test_a_budget_that_is_no_time_is_refused(said: str) -> None:
    result = CliRunner().invoke(cli.command, ["cpu", "--budget", said])
    assert result.exit_code == 2
    assert f"'{said}' is no time; write 30s or 2m" in result.output


def test_growth_over_few_rounds_is_refused() -> None:
    with pytest.raises(ValueError, match="growth over 50 rounds is noise; take 200 or more"):
        growth(SimpleNamespace(), lambda: None, rounds=50)  # type: ignore[arg-type]
