"""The harness's own exam, before any port is judged: does it see what is wrong?"""

from __future__ import annotations

from hal.certify import results as outcome
from hal.certify import verdict
from hal.certify.supervisor import Collected, HarnessError, Job, Supervisor

__all__ = ["EXPECTED", "examine", "verdict_check"]

EXPECTED = {
    "test_a_good_case_passes": "PASS",
    "test_a_false_assertion_fails": "FAIL",
    "test_an_exception_fails": "FAIL",
    "test_a_failure_after_the_case_fails": "FAIL",
    "test_an_exit_from_python_fails": "FAIL",
    "test_a_skip_without_a_capability_fails": "FAIL",
    "test_wrong_numbers_fail": "FAIL",
    "test_a_missing_nan_fails": "FAIL",
    "test_an_invented_nan_fails": "FAIL",
    "test_right_numbers_pass": "PASS",
    "test_a_crash_is_a_crash": "CRASH",
    "test_a_crash_that_says_unsupported_is_a_crash": "CRASH",
    "test_an_exit_without_a_result_is_a_crash": "CRASH",
    "test_a_hang_is_a_hang": "HANG",
}
"""What each control must end with."""


def examine(supervisor: Supervisor, controls: list[Collected]) -> None:
    """Run the controls: does the harness see a failure, a crash, a hang, a wrong number?

    Raises:
        HarnessError: a control ended in another way than it must.
    """
    from hal.testing.tolerance import self_check

    seen: dict[str, str] = {}
    supervisor.run(
        [Job([case]) for case in controls],
        lambda _, case, result: seen.update({case.id.partition("::")[2]: result["status"]}),
    )
    wrong = [
        f"{name} ended with {seen.get(name, 'nothing')}, it must end with {want}"
        for name, want in EXPECTED.items()
        if seen.get(name) != want
    ]
    wrong += [*self_check(), *verdict_check()]
    if wrong:
        raise HarnessError(
            "the harness does not see what is wrong: " + "; ".join(wrong),
            call="hal-certify",
            next_step="No port can be judged by it. Reinstall hal-sdk, or report this.",
        )


def verdict_check() -> list[str]:
    """Return what the verdict gets wrong on results whose verdict is known; empty when honest."""
    ids = ["a", "b"]
    good = [_line("a", outcome.PASS), _line("b", outcome.PASS)]
    no_witness = {"capability": "features.peer"}
    denied = {"hcd": "false", "query": "0", "probe": "UNSUPPORTED"}
    claimed = no_witness | {"witnesses": denied}
    present = {"capability": "features.ipc", "witnesses": denied | {"query": "1"}}
    odd = {"capability": "lunch", "witnesses": denied}
    legal = {"capability": "features.ipc", "witnesses": denied}
    known = [
        ("two passes", good, [], "CERTIFIED"),
        *(
            (f"a {status}", [good[0], _line("b", status)], [], "NOT CERTIFIED")
            for status in outcome.BAD
        ),
        ("an unknown status", [good[0], _line("b", "FINE")], [], "NOT CERTIFIED"),
        ("a skip without a capability", [good[0], _line("b", outcome.SKIP)], [], "NOT CERTIFIED"),
        (
            "a skip without witnesses",
            [good[0], _line("b", outcome.SKIP) | no_witness],
            [],
            "NOT CERTIFIED",
        ),
        (
            "a skip of what the HCD claims",
            [good[0], _line("b", outcome.SKIP) | claimed],
            [],
            "NOT CERTIFIED",
        ),
        (
            "a skip that the port's query denies",
            [good[0], _line("b", outcome.SKIP) | present],
            [],
            "NOT CERTIFIED",
        ),
        ("a skip for anything", [good[0], _line("b", outcome.SKIP) | odd], [], "NOT CERTIFIED"),
        ("a legal skip", [good[0], _line("b", outcome.SKIP) | legal], [], "CERTIFIED"),
        ("a case that did not run", [good[0], _line("b", outcome.NOT_RUN)], [], "INCOMPLETE"),
        ("a case without a result", good[:1], [], "INCOMPLETE"),
        ("two results of one case", [*good, _line("b", outcome.PASS)], [], "INCOMPLETE"),
        ("a fail and then a pass", [_line("a", outcome.FAIL), *good], [], "NOT CERTIFIED"),
        ("a cut file", good, ["the last line is cut"], "INCOMPLETE"),
    ]
    wrong = []
    for name, lines, problems, want in known:
        reading = outcome.Reading(lines, problems, 0, "")
        found = verdict.derive(ids, reading, {"features.peer": "true"}).word
        if found != want:
            wrong.append(f"{name} gives {found}, it must give {want}")
    return wrong


def _line(name: str, status: str) -> dict[str, object]:
    return {"id": name, "status": status, "rules": []}
