"""The shipped suite: its lists are fresh, its rules covered, its groups negative enough."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import pytest

from hal.certify.run import Options, list_cases
from hal.certify.suite import uncovered_rules
from hal.certify.supervisor import Collected

from .conftest import ROOT

NEGATIVE_SHARE = 0.35


@pytest.fixture(scope="module")
def cases() -> list[Collected]:
    return list_cases(Options(tier=2))


def test_the_required_lists_are_what_the_suite_holds() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hal.certify.required", "--check"],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("tier", [1, 2])
def test_every_rule_of_a_tier_is_cited_by_a_case(cases: list[Collected], tier: int) -> None:
    assert uncovered_rules(cases, tier) == []


@pytest.mark.parametrize(("tier", "least"), [(1, 240), (2, 400)])
def test_a_tier_has_its_cases(cases: list[Collected], tier: int, least: int) -> None:
    assert sum(case.tier == tier for case in cases) >= least


def test_a_third_of_each_group_of_tier_1_is_negative(cases: list[Collected]) -> None:
    totals = Counter(case.group for case in cases if case.tier == 1)
    negative = Counter(case.group for case in cases if case.tier == 1 and case.negative)
    shares = {group: negative[group] / total for group, total in totals.items()}
    assert {group: share for group, share in shares.items() if share < NEGATIVE_SHARE} == {}


def test_host_rules_are_tested_on_the_layer_and_port_rules_are_not(cases: list[Collected]) -> None:
    from hal.testing.abi import RULE_BY_ID

    wrong = []
    for case in cases:
        kinds = {RULE_BY_ID[rule].checked_by for rule in case.rules}
        wanted = "host" if case.subject == "layer" else "port"
        if kinds != {wanted}:
            wrong.append(f"{case.id} runs on the {case.subject} and cites {', '.join(case.rules)}")
    assert wrong == []


def test_help_answers_without_heavy_imports() -> None:
    code = (
        "import sys, hal.certify.cli; "
        "print(*sorted({'numpy','rich','jinja2','yaml','pytest','_pytest'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_the_help_names_every_exit_code() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from hal.certify.cli import main; main()", "--help"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert all(f"{code} " in done.stdout for code in (0, 1, 2, 3, 4, 5, 6, 7, 130))
