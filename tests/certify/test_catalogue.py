"""The hand-written broken ports: well formed, built, and no fault of the registry left out."""

from __future__ import annotations

from typing import Any

import pytest

from hal import _paths
from hal.certify.mutants import handwritten, read_catalogue
from hal.certify.suite import suite_folder
from hal.testing.abi import RULE_BY_ID, RULES

SOURCES = _paths.conformance_dir() / "mutants"
SWITCHES = ("is_fault({})", "case {}:")


@pytest.fixture(scope="module")
def catalogue() -> dict[str, Any]:
    return read_catalogue(suite_folder())


def test_each_fault_has_one_entry(catalogue: dict[str, Any]) -> None:
    ids = [entry["id"] for entry in catalogue["mutants"]]
    assert sorted(ids) == sorted(set(ids))
    assert len(ids) >= 30


def test_each_fault_breaks_rules_that_exist(catalogue: dict[str, Any]) -> None:
    rules = {rule for entry in catalogue["mutants"] for rule in entry["rules"]}
    assert sorted(rules - set(RULE_BY_ID)) == []
    assert [entry["id"] for entry in catalogue["mutants"] if not entry["rules"]] == []


def test_the_faults_that_the_registry_names_are_there(catalogue: dict[str, Any]) -> None:
    there = {entry["id"]: entry["rules"] for entry in catalogue["mutants"]}
    named = {rule.id: rule.mutant for rule in RULES if rule.mutant}
    missing = {rule: name for rule, name in named.items() if rule not in there.get(name, [])}
    assert missing == {}


def test_each_fault_is_in_the_sources(catalogue: dict[str, Any]) -> None:
    text = "".join(path.read_text("utf-8") for path in sorted(SOURCES.glob("*.c")))
    switched = [
        entry["id"]
        for entry in catalogue["mutants"]
        if any(switch.format(int(entry["id"][1:])) in text for switch in SWITCHES)
    ]
    assert switched == [entry["id"] for entry in catalogue["mutants"]]


def test_the_port_of_the_faults_is_built_and_gets_each_by_name() -> None:
    mutants = handwritten(suite_folder(), 2)
    assert {mutant.target.options for mutant in mutants if mutant.target is not None} == {
        f"mutant={mutant.id}\n" for mutant in mutants
    }
