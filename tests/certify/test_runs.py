"""Runs: isolation, resuming, choosing, and the files that a run leaves."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from hal.certify import cli
from hal.certify import results as outcome
from hal.certify.choice import selector
from hal.certify.examine import EXPECTED
from hal.certify.run import Options, certify, settings_in
from hal.certify.summary import summary_lines, write_outputs
from hal.certify.supervisor import Collected
from hal.errors import UsageError

from .conftest import PORT, Certify, MakeSuite

MIXED = """
@case(rules=["HAL-MEM-004"])
def test_a_passes() -> None:
    assert True

@case(rules=["HAL-MEM-004"], negative=True)
def test_b_fails() -> None:
    assert 1 + 1 == 3

@case(rules=["HAL-MEM-005"])
def test_c_crashes() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)

@case(rules=["HAL-MEM-005"], timeout_s=1)
def test_d_hangs() -> None:
    time.sleep(60)

@case(rules=["HAL-MEM-006"])
def test_e_leaves() -> None:
    os._exit(0)

@case(rules=["HAL-MEM-006"])
def test_f_leaves_a_child_behind() -> None:
    if os.fork() == 0:
        time.sleep(60)

@case(rules=["HAL-MEM-006"])
def test_g_passes() -> None:
    assert True
"""
STATUSES = {
    "test_a_passes": "PASS",
    "test_b_fails": "FAIL",
    "test_c_crashes": "CRASH",
    "test_d_hangs": "HANG",
    "test_e_leaves": "CRASH",
    "test_f_leaves_a_child_behind": "PASS",
    "test_g_passes": "PASS",
}


def statuses(path: Path) -> dict[str, str]:
    """Return the statuses by the cases' functions."""
    final = outcome.latest(outcome.read(path).results)
    return {name.partition("::")[2]: str(result["status"]) for name, result in final.items()}


@pytest.mark.parametrize("isolation", ["case", "group:3", "group:100"])
def test_a_case_that_dies_takes_no_other_with_it(
    make_suite: MakeSuite, run_suite: Certify, isolation: str
) -> None:
    run = run_suite(make_suite(mixed=MIXED), isolation=isolation)
    assert statuses(run.results_path) == STATUSES
    assert (run.verdict.word, run.exit_code) == ("NOT CERTIFIED", 1)


def test_a_run_leaves_files_that_agree(make_suite: MakeSuite, run_suite: Certify) -> None:
    run = run_suite(make_suite(mixed=MIXED))
    write_outputs(run)
    certificate = json.loads((run.out / "cert.json").read_text())
    predicate = certificate["predicate"]
    counts = {"PASS": 3, "FAIL": 1, "CRASH": 2, "HANG": 1}
    assert (predicate["verdict"], predicate["counts"]) == ("NOT CERTIFIED", counts)
    assert predicate["chain"] == outcome.read(run.results_path).chain
    assert all(len(predicate["digests"][key]) == 64 for key in ("port", "hcd", "header", "suite"))
    suites = ElementTree.parse(run.out / "junit.xml").getroot()
    totals = [sum(int(s.get(key, 0)) for s in suites) for key in ("tests", "failures", "errors")]
    assert totals == [7, 1, 3]


def test_the_report_needs_nothing_from_outside(make_suite: MakeSuite, run_suite: Certify) -> None:
    run = run_suite(make_suite(mixed=MIXED))
    write_outputs(run)
    page = (run.out / "report.html").read_text()
    assert re.findall(r"""(?:src|href)=|@import|url\(|<script|<link""", page) == []
    assert page.index("NOT CERTIFIED") < page.index("Weaker arithmetic") < page.index("Skips")
    for result in run.results():
        if result["status"] != "PASS":
            assert result["id"] in page


def test_the_report_escapes_what_a_port_says(make_suite: MakeSuite, run_suite: Certify) -> None:
    code = """
    @case(rules=["HAL-MEM-004"])
    def test_says_markup() -> None:
        raise AssertionError("<script>alert(1)</script>")
    """
    run = run_suite(make_suite(markup=code))
    write_outputs(run)
    assert "<script>" not in (run.out / "report.html").read_text()


def test_failures_are_grouped_with_a_command_each(
    make_suite: MakeSuite, run_suite: Certify
) -> None:
    code = """
    @case(rules=["HAL-MEM-004"])
    @pytest.mark.parametrize("size", [1000, 2000])
    def test_same(size) -> None:
        raise AssertionError(f"wrong at {size} of 0x{size:x}")
    """
    suite = make_suite(same=code)
    (suite / "required/tier1/same.txt").write_text(
        "tier1/same.py::test_same[1000]\ntier1/same.py::test_same[2000]\n"
    )
    run = run_suite(suite, seed=5, nonce="0a")
    lines = summary_lines(run)
    assert "2 failures with 1 cause:" in lines
    command = next(line.strip() for line in lines if "hal repro" in line)
    assert command == f"hal repro 'tier1/same.py::test_same[1000]' {PORT} --seed 5 --nonce 0a"


def test_resume_runs_only_what_is_left(
    make_suite: MakeSuite, run_suite: Certify, tmp_path: Path
) -> None:
    suite = make_suite(mixed=MIXED)
    run = run_suite(suite)
    lines = run.results_path.read_bytes().splitlines(keepends=True)
    run.results_path.write_bytes(b"".join(lines[:3]) + lines[3][:20])
    again = run_suite(suite, resume=run.out)
    assert statuses(again.results_path) == STATUSES
    assert again.results_path.read_bytes().startswith(b"".join(lines[:3]))
    assert outcome.read(again.results_path).problems == []


def test_resume_takes_what_is_not_said_from_the_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    before = {"port": "./acme", "tier": 2, "hcd": "a.yaml", "device": 1, "seed": 7, "nonce": "0a"}
    (tmp_path / "run.json").write_text(json.dumps(before), encoding="utf-8")
    seen: list[Options] = []
    monkeypatch.setattr(cli, "_certify", lambda options, *_: seen.append(options))
    runner = CliRunner()
    runner.invoke(cli.command, ["--resume", str(tmp_path)])
    runner.invoke(cli.command, ["cpu", "--tier", "1", "--seed", "0", "--resume", str(tmp_path)])
    alone, said = ([getattr(options, name) for name in before] for options in seen)
    assert alone == [*before.values()]
    assert said == ["cpu", 1, "a.yaml", 1, 0, "0a"]


def test_resume_of_damaged_settings_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('["', encoding="utf-8")
    with pytest.raises(UsageError, match="holds no run to resume"):
        settings_in(tmp_path)


def test_resume_refuses_another_run(make_suite: MakeSuite, run_suite: Certify) -> None:
    suite = make_suite(mixed=MIXED)
    run = run_suite(suite)
    with pytest.raises(UsageError, match="seed changed since the run started"):
        run_suite(suite, resume=run.out, seed=1)


def test_a_second_try_never_makes_a_pass(
    make_suite: MakeSuite, run_suite: Certify, tmp_path: Path
) -> None:
    flag = tmp_path / "seen"
    code = f"""
    @case(rules=["HAL-MEM-004"])
    def test_flaky() -> None:
        seen = os.path.exists({str(flag)!r})
        open({str(flag)!r}, "w").close()
        assert seen
    """
    suite = make_suite(flaky=code)
    first = run_suite(suite)
    second = run_suite(suite, rerun_failed=first.out, out=tmp_path / "second")
    assert [first.verdict.word, second.verdict.word] == ["NOT CERTIFIED", "VOID"]
    assert [first.exit_code, second.exit_code] == [1, 4]


@pytest.mark.parametrize("wish", [{"select": "passes"}, {"quick": True}])
def test_part_of_the_suite_certifies_nothing(
    make_suite: MakeSuite, run_suite: Certify, wish: dict[str, object]
) -> None:
    code = """
    @case(rules=["HAL-MEM-004"])
    def test_a_passes() -> None:
        assert True
    """
    run = run_suite(make_suite(part=code), **wish)
    assert (run.verdict.word, run.exit_code) == ("VOID", 4)


def test_inputs_depend_on_case_seed_and_nonce() -> None:
    from hal.testing.seeds import seed_of

    found = {seed_of("a"), seed_of("b"), seed_of("a", seed=1), seed_of("a", nonce="00")}
    assert (len(found), seed_of("a")) == (4, seed_of("a", seed=0, nonce=""))


def test_a_lost_device_ends_the_run(make_suite: MakeSuite, run_suite: Certify) -> None:
    tests = "".join(
        f"""
@case(rules=["HAL-MEM-004"])
def test_{index}_loses() -> None:
    raise AssertionError("memory.alloc answered DEVICE_LOST: gone")
"""
        for index in range(8)
    )
    run = run_suite(make_suite(lost=tests), jobs=1)
    assert run.exit_code == 6
    assert run.verdict.counts == {"FAIL": 3, "NOT_RUN": 5}


def test_required_functions_that_answer_unsupported_name_the_failure(
    make_suite: MakeSuite, run_suite: Certify, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = """
    from hal.testing import record
    @case(rules=["HAL-MEM-004"])
    def test_needs() -> None:
        record.current().unsupported.append("memory.alloc")
        assert False
    """
    run = run_suite(make_suite(needs=code))
    assert run.verdict.counts == {"UNSUPPORTED_REQUIRED": 1}


def case_named(name: str, **facts: object) -> Collected:
    base: dict[str, object] = {
        "tier": 1, "group": "memory", "rules": ("HAL-MEM-004",), "negative": True, "timeout_s": 1.0,
        "needs": (), "operator": "", "dtype": "", "subject": "port", "line": 1, "decorated": True,
    }  # fmt: skip
    return Collected(**{"id": name, **base, **facts})


@pytest.mark.parametrize(
    ("expression", "chosen"),
    [
        ("memory", True),
        ("HAL-MEM-004", True),
        ("HAL-MEM-005", False),
        ("tier1", True),
        ("tier2", False),
        ("not negative", False),
        ("tier1 and not layer", True),
        ("layer or port", True),
        ("tier2 or (memory negative)", True),
        ("tier1/mem*[4]", True),
        ("tier1/mem*[5]", False),
        ("zero or one", True),
    ],
)
def test_an_expression_chooses_cases(expression: str, chosen: bool) -> None:
    assert selector(expression)(case_named("tier1/memory.py::test_zero[4]")) is chosen


@pytest.mark.parametrize("expression", ["", "and", "a or", "(a", "a )", "not"])
def test_a_bad_expression_is_refused(expression: str) -> None:
    with pytest.raises(UsageError):
        selector(expression)


def test_interrupting_keeps_results_and_is_resumable(
    make_suite: MakeSuite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hal.certify.supervisor import Supervisor

    suite = make_suite(mixed=MIXED)
    honest = Supervisor._take
    results = []

    def interrupt(self: Supervisor, event: dict[str, object], sink: object) -> object:
        found = honest(self, event, sink)
        results.extend([1] if event["event"] == "exit" else [])
        if len(results) > len(EXPECTED) + 2:
            raise KeyboardInterrupt
        return found

    monkeypatch.setattr(Supervisor, "_take", interrupt)
    options = Options(port=PORT, suite=suite, out=tmp_path / "out", quiet=True, jobs=1)
    run = certify(options)
    assert (run.exit_code, run.interrupted) == (130, True)
    assert run.verdict.counts["NOT_RUN"] == 4
    monkeypatch.undo()
    again = certify(Options(port=PORT, suite=suite, resume=run.out, quiet=True))
    assert statuses(again.results_path) == STATUSES
