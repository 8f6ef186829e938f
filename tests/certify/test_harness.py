"""Broken harnesses H1 to H12: each must end without a certificate."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from hal.certify import results as outcome
from hal.certify import supervisor as supervising
from hal.certify import verdict
from hal.certify.supervisor import HarnessError

from .conftest import Certify, MakeSuite, broken_server

GOOD = """
@case(rules=["HAL-MEM-004"])
def test_good() -> None:
    assert True
"""
TWO = (
    GOOD
    + """
@case(rules=["HAL-MEM-005"])
def test_other() -> None:
    assert True
"""
)


def test_the_honest_harness_certifies(make_suite: MakeSuite, run_suite: Certify) -> None:
    run = run_suite(make_suite(basic=TWO))
    assert (run.verdict.word, run.exit_code) == ("CERTIFIED", 0)


BROKEN_SERVERS = {
    "H1 the comparator accepts everything": """
        import numpy as np
        import hal.testing.tolerance as t
        honest = t.compare
        def compare(*a, **k):
            found = honest(*a, **k)
            return t.Comparison(np.ones_like(found.good), found.error, found.bound, 0.0)
        t.compare = compare
    """,
    "H2 failures are not counted": """
        import hal.certify.child as c
        c.judge = lambda item, reports, notes: ("PASS", "", "")
    """,
    "H3 the worker leaves before its result": """
        import os
        import hal.certify.child as c
        c.run_case = lambda *a: os._exit(0)
    """,
    "H3 and claims a pass first": """
        import os
        import hal.certify.child as c
        def run_case(name, item, following, seed):
            return {"status": "PASS", "message": "", "cause": "", "duration_s": 0, "seed": seed}
        c.run_case = run_case
    """,
    "H5 the word unsupported hides a crash": """
        import hal.certify.server as s
        honest = s.Server.send
        def send(self, event):
            if event["event"] == "exit" and "UNSUPPORTED" in event["output"]:
                result = {"status": "SKIP_CAPABILITY", "message": "", "cause": "", "duration_s": 0}
                honest(self, {"event": "result", "job": event["job"], "id": event["case"],
                              "result": result})
                event = event | {"code": 0, "case": ""}
            honest(self, event)
        s.Server.send = send
    """,
    "H10 exceptions are swallowed": """
        import hal.certify.child as c
        honest = c.runtestprotocol
        def swallow(item, **k):
            reports = honest(item, **k)
            for report in reports:
                report.outcome = "passed"
            return reports
        c.runtestprotocol = swallow
    """,
    "H11 the masks of NaN are swapped": """
        import numpy as np
        import hal.testing.tolerance as t
        honest = t.compare
        def compare(got, ref, **k):
            nan = np.isnan(np.asarray(got, np.float64))
            return honest(np.where(nan, ref, got), ref, **k)
        t.compare = compare
    """,
}


@pytest.mark.parametrize("patch", BROKEN_SERVERS.values(), ids=BROKEN_SERVERS.keys())
def test_a_broken_worker_is_a_harness_error(
    make_suite: MakeSuite, run_suite: Certify, patch: str
) -> None:
    suite = make_suite(basic=GOOD)
    with pytest.raises(HarnessError, match="does not see what is wrong") as refused:
        run_suite(suite, server=broken_server(patch))
    assert refused.value.exit_code == 3


def test_h4_a_case_that_did_not_run_is_no_pass(
    make_suite: MakeSuite, run_suite: Certify, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = make_suite(basic=GOOD)
    monkeypatch.setattr(verdict, "ACCEPTED", ("PASS", "NOT_RUN"))
    with pytest.raises(HarnessError, match="a case that did not run gives CERTIFIED"):
        run_suite(suite)


def test_h6_a_lost_result_is_incomplete(
    make_suite: MakeSuite, run_suite: Certify, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = make_suite(basic=TWO)
    honest = outcome.Writer.add

    def lose(self: outcome.Writer, result: dict[str, object]) -> dict[str, object]:
        if "test_other" in str(result["id"]):
            return {**result, "chain": self.chain}
        return honest(self, result)

    monkeypatch.setattr(outcome.Writer, "add", lose)
    run = run_suite(suite)
    assert (run.verdict.word, run.exit_code) == ("INCOMPLETE", 4)
    assert run.verdict.reasons == ["1 required case did not run"]


@pytest.mark.parametrize("damage", ["cut the last line", "remove a line", "change a line"])
def test_h6_damaged_results_are_incomplete(
    make_suite: MakeSuite, run_suite: Certify, damage: str
) -> None:
    run = run_suite(make_suite(basic=TWO))
    lines = run.results_path.read_bytes().splitlines(keepends=True)
    changed = {
        "cut the last line": [lines[0], lines[1][:-30]],
        "remove a line": [lines[1]],
        "change a line": [lines[0].replace(b"HAL-MEM-00", b"HAL-MEM-01"), lines[1]],
    }[damage]
    assert changed != lines
    run.results_path.write_bytes(b"".join(changed))
    found = verdict.derive(run.required, outcome.read(run.results_path), run.flat)
    assert found.word == "INCOMPLETE"


def test_h7_two_cases_with_one_id_are_refused(make_suite: MakeSuite, run_suite: Certify) -> None:
    suite = make_suite(basic=TWO)
    patch = """
        import hal.certify.server as s
        honest = s.describe
        def describe(item, suite):
            about = honest(item, suite)
            if "test_other" in about["id"]:
                about["id"] = about["id"].replace("test_other", "test_good")
            return about
        s.describe = describe
        s.zip = lambda a, b, strict: __builtins__.zip(a, b)
    """
    with pytest.raises(HarnessError, match="test_good: the id is there twice"):
        run_suite(suite, server=broken_server(patch))


@pytest.mark.parametrize(
    ("edit", "complaint"),
    [
        ("remove", "test_other: not in the required list"),
        ("add", "test_invented: required, but the suite has no such case"),
        ("double", "names a case twice"),
        ("delete", "holds no list"),
    ],
)
def test_h8_an_edited_list_is_refused(
    make_suite: MakeSuite, run_suite: Certify, edit: str, complaint: str
) -> None:
    suite = make_suite(basic=TWO)
    path = suite / "required" / "tier1" / "basic.txt"
    text = path.read_text()
    other, invented = "tier1/basic.py::test_other\n", "tier1/basic.py::test_invented\n"
    edited = {"remove": text.replace(other, ""), "add": text.replace(other, invented + other)}
    path.write_text({**edited, "double": text + other}.get(edit, ""))
    if edit == "delete":
        path.unlink()
    with pytest.raises(HarnessError, match=complaint):
        run_suite(suite)


SKIPS = {
    "no witnesses": """
        from hal.testing.record import CapabilityAbsent
        @case(rules=["HAL-ABI-006"])
        def test_skips() -> None:
            raise CapabilityAbsent("features.peer", {})
    """,
    "a claimed feature": """
        from hal.testing.record import CapabilityAbsent
        @case(rules=["HAL-ABI-006"])
        def test_skips() -> None:
            witnesses = {"hcd": "absent", "query": "0", "probe": "UNSUPPORTED"}
            raise CapabilityAbsent("features.async_copy", witnesses)
    """,
    "pytest's own skip": """
        @case(rules=["HAL-ABI-006"])
        def test_skips() -> None:
            pytest.importorskip("a_module_that_nobody_has")
    """,
}


@pytest.mark.parametrize("code", SKIPS.values(), ids=SKIPS.keys())
def test_h9_a_skip_without_the_hcd_is_no_pass(
    make_suite: MakeSuite, run_suite: Certify, code: str
) -> None:
    run = run_suite(make_suite(basic=code))
    assert (run.verdict.word, run.exit_code) == ("NOT CERTIFIED", 1)


def test_h12_a_clock_that_jumps_voids_the_run(
    make_suite: MakeSuite, run_suite: Certify, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = make_suite(basic=TWO)
    calls = []

    class Jumping:
        monotonic = staticmethod(time.monotonic)

        @staticmethod
        def time() -> float:
            calls.append(1)
            return time.time() + (3600 if len(calls) > 3 else 0)

    monkeypatch.setattr(supervising, "time", Jumping)
    run = run_suite(suite)
    assert (run.verdict.word, run.exit_code) == ("VOID", 4)
    assert "the clock jumped by 3600" in run.verdict.reasons[0]


def test_a_suite_that_does_not_import_is_a_harness_error(
    make_suite: MakeSuite, run_suite: Certify
) -> None:
    suite = make_suite(basic=GOOD)
    (suite / "tier1" / "basic.py").write_text("import a_module_that_nobody_has\n")
    with pytest.raises(HarnessError, match="does not import"):
        run_suite(suite)


def test_a_function_that_is_no_case_is_a_harness_error(
    make_suite: MakeSuite, run_suite: Certify
) -> None:
    suite = make_suite(basic=GOOD + "\ndef test_bare() -> None:\n    assert True\n")
    with pytest.raises(HarnessError, match="test_bare: not a case"):
        run_suite(suite)


def test_an_unknown_rule_is_a_harness_error(make_suite: MakeSuite, run_suite: Certify) -> None:
    suite = make_suite(basic=GOOD.replace("HAL-MEM-004", "HAL-MEM-999"))
    with pytest.raises(HarnessError, match="there is no rule HAL-MEM-999"):
        run_suite(suite)


def test_a_server_that_dies_is_a_harness_error(make_suite: MakeSuite, run_suite: Certify) -> None:
    suite = make_suite(basic=GOOD)
    patch = """
        import os
        import hal.certify.server as s
        s.Server.fork = lambda self, order: os._exit(9)
    """
    with pytest.raises(HarnessError, match="the fork server ended"):
        run_suite(suite, server=broken_server(patch))


def test_nothing_but_the_results_file_makes_the_verdict(
    make_suite: MakeSuite, run_suite: Certify
) -> None:
    run = run_suite(make_suite(basic=TWO))
    lines = [json.loads(line) for line in run.results_path.read_text().splitlines()]
    writer_path = Path(run.out) / "forged.jsonl"
    writer = outcome.Writer(writer_path)
    for line in lines:
        writer.add({k: v for k, v in line.items() if k != "chain"} | {"status": "FAIL"})
    writer.close()
    found = verdict.derive(run.required, outcome.read(writer_path), run.flat)
    assert (found.word, found.counts) == ("NOT CERTIFIED", {"FAIL": 2})


def test_the_exam_covers_every_bad_status() -> None:
    from hal.certify.examine import EXPECTED

    assert {*EXPECTED.values()} >= {"PASS", "FAIL", "CRASH", "HANG"}
