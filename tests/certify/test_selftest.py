"""The suite's own exam: a case that notices kills, one that looks away does not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hal.certify.exam import hold_exam
from hal.certify.mutants import generated, handwritten
from hal.certify.run import Options
from hal.certify.selftest import self_test
from hal.certify.supervisor import HarnessError
from hal.testing.abi import RULES

from .conftest import PORT, MakeSuite

CASES = """
from hal.testing import Rig, Status

@case(rules=["HAL-MEM-004"], negative=True)
def test_looks(layer: Rig) -> None:
    desc, out = layer.raw.new("memory_desc", bytes=0), layer.raw.out("hal_memory")
    layer.refuse("memory.alloc", layer.device, desc, out, status=Status.INVALID_VALUE)

@case(rules=["HAL-MEM-020"], negative=True)
def test_looks_at_the_port(rig: Rig) -> None:
    rig.refuse("memory.free", 0, status=Status.INVALID_HANDLE)

@case(rules=["HAL-MEM-005"], negative=True)
def test_looks_away(layer: Rig) -> None:
    layer.memory(64)

@case(rules=["HAL-MEM-006"], negative=True)
def test_fails_anyway(layer: Rig) -> None:
    assert layer.device == 0
"""


def test_only_a_case_that_looks_kills(make_suite: MakeSuite, tmp_path: Path) -> None:
    options = Options(
        port=PORT,
        suite=make_suite(exam=CASES),
        quiet=True,
        out=tmp_path,
        select="HAL-MEM-004 HAL-MEM-005 HAL-MEM-006 HAL-MEM-007 HAL-MEM-020",
    )
    code = self_test(options)
    matrix = json.loads((tmp_path / "kill_matrix.json").read_text())
    fates = {row["id"]: row["fate"] for row in matrix["mutants"]}
    assert (code, fates) == (
        7,
        {
            "HAL-MEM-004": "killed",
            "HAL-MEM-005": "survived",
            "HAL-MEM-006": "uncovered",
            "HAL-MEM-007": "uncovered",
            "HAL-MEM-020": "killed",
        },
    )
    assert matrix["honest_failures"] == {"tier1/exam.py::test_fails_anyway": "FAIL"}
    page = (tmp_path / "kill_matrix.html").read_text()
    assert "2 of 5 mutants killed" in page


def test_an_exam_without_survivors_is_passed(make_suite: MakeSuite) -> None:
    suite = make_suite(exam=CASES)
    exam = hold_exam(Options(port=PORT, suite=suite, quiet=True, select="HAL-MEM-004"))
    killers = [(row.mutant.id, row.killers) for row in exam.rows]
    assert (exam.is_passed, killers) == (
        True,
        [("HAL-MEM-004", {"tier1/exam.py::test_looks": "FAIL"})],
    )


def test_every_breakable_rule_of_a_tier_is_a_mutant() -> None:
    from hal.certify.suite import rule_tier

    wanted = [rule.id for rule in RULES if rule.breaking and 0 < rule_tier(rule) <= 2]
    assert [mutant.id for mutant in generated(2, [], {})] == wanted


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("mutants: [", "catalogue.yaml"),
        ("port: x.so", "no list 'mutants'"),
        ("mutants: [{id: M01}]", "no good"),
        ("mutants: [{id: M01, tier: 1, fault: x, rules: [HAL-ABI-002], port: no.so}]", "not built"),
    ],
)
def test_a_wrong_catalogue_is_a_harness_error(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "mutants").mkdir()
    (tmp_path / "mutants" / "catalogue.yaml").write_text(text)
    with pytest.raises(HarnessError, match=complaint):
        handwritten(tmp_path, 2)
