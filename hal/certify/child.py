"""What runs in a forked child: the cases of one job, each through pytest's own protocol.

A result is one line of JSON on the pipe. A PASS counts only when the child then ends with code 0;
whatever a case prints, raises, swallows or returns cannot make up for a missing line.
"""

from __future__ import annotations

import faulthandler
import json
import mmap
import os
import resource
import signal
import sys
import time
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from hal.testing import record, seeds, session
from hal.testing.case import ATTRIBUTE, Case

MESSAGE_CHARACTERS = 4000
Reports = list[pytest.TestReport]


def warm() -> None:
    """Import in the server what every child would import for itself; loads no port."""
    import numpy.random  # noqa: F401

    import hal.testing.fixtures
    import hal.testing.rig
    import hal.testing.tolerance
    from hal.testing import programs

    programs.add_one()
    _warm_compiler()

    try:
        import hal._native  # noqa: F401
    except ImportError:
        return  # reported by the preflight; cases that need no port still run


def _warm_compiler() -> None:
    """Compile one kernel of each strategy for the floor of all chips, which loads all of it."""
    from hal import ops
    from hal.codegen import compile as compile_kernel

    for name in ("matmul", "softmax", "causal_attention", "gather", "topk", "scatter_add"):
        compile_kernel(ops.get(name))


def main(
    cases: list[tuple[str, pytest.Item]],
    *,
    session: dict[str, Any],
    environment: dict[str, str],
    pipe: int,
    output: int,
    crumb: mmap.mmap,
) -> None:
    """Run the cases of a job and end the process; never returns."""
    try:
        _settle(pipe, output, crumb, environment)
        _open_session(session)
        for index, (name, item) in enumerate(cases):
            following = cases[index + 1][1] if index + 1 < len(cases) else None
            seed = _seed(name, session)
            _tell(pipe, {"event": "start", "id": name})
            result = run_case(name, item, following, seed)
            _tell(pipe, {"event": "result", "id": name, "result": result})
    except BaseException as error:
        import traceback

        traceback.print_exception(error)
        sys.stderr.flush()
        os._exit(70)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _settle(pipe: int, output: int, crumb: mmap.mmap, environment: dict[str, str]) -> None:
    """Make the process its own group, with its own output, and without core dumps."""
    os.setpgid(0, 0)
    os.set_inheritable(pipe, False)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.stdout = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
    faulthandler.enable(file=sys.stderr, all_threads=False)
    record.share_breadcrumb(crumb)
    for name, value in environment.items():
        os.environ[name] = value


def _open_session(given: dict[str, Any]) -> None:
    """Make the supervisor's settings the session of this process."""
    if "target" not in given:
        return
    fields = {key: value for key, value in given.items() if key != "target"}
    session.use(session.Session(target=session.Target(**given["target"]), **fields))


def _seed(name: str, given: dict[str, Any]) -> int:
    return seeds.seed_of(name, seed=int(given.get("seed", 0)), nonce=str(given.get("nonce", "")))


def _tell(pipe: int, line: dict[str, Any]) -> None:
    data = json.dumps(line, separators=(",", ":"), default=str).encode() + b"\n"
    while data:
        data = data[os.write(pipe, data) :]


def run_case(
    name: str, item: pytest.Item, following: pytest.Item | None, seed: int
) -> dict[str, Any]:
    """Run one case and return its result, without what only the supervisor knows."""
    found = getattr(getattr(item, "function", None), ATTRIBUTE, None)
    rules = found.rules if isinstance(found, Case) else ()
    notes = record.begin(record.Record(case_id=name, seed=seed, rules=rules))
    started = time.monotonic()
    reports = runtestprotocol(item, log=False, nextitem=following)
    duration = time.monotonic() - started
    status, message, cause = judge(item, reports, notes)
    result: dict[str, Any] = {
        "status": status,
        "message": message[-MESSAGE_CHARACTERS:],
        "cause": cause,
        "duration_s": round(duration, 6),
        "seed": seed,
    }
    if notes.comparisons:
        result["comparisons"] = notes.comparisons
    if notes.error_over_bound is not None:
        result["error_over_bound"] = notes.error_over_bound
    absent = getattr(item, ABSENT, None)
    if absent is not None:
        result["capability"] = absent.capability
        result["witnesses"] = absent.witnesses
    for key in ("operator", "dtype", "warnings", "facts"):
        if value := getattr(notes, key):
            result[key] = value
    return result


ABSENT = "hal_capability_absent"


class Watcher:
    """A pytest plugin that keeps the exception of each phase beside its report."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
        """Remember that a case ended because the chip lacks something."""
        report = yield
        value = call.excinfo.value if call.excinfo is not None else None
        if isinstance(value, record.CapabilityAbsent):
            setattr(item, ABSENT, value)
        report.hal_exception = value
        return report


def judge(item: pytest.Item, reports: Reports, notes: record.Record) -> tuple[str, str, str]:
    """Return (status, message, cause) of a case that ran to its end in this process.

    A skip counts only when `CapabilityAbsent` made it and nothing else failed; a required function
    that answered UNSUPPORTED names the failure.
    """
    phases = {report.when: report for report in reports}
    absent = getattr(item, ABSENT, None)
    failed = [
        report
        for report in reports
        if report.outcome != "passed"
        and not isinstance(getattr(report, "hal_exception", None), record.CapabilityAbsent)
    ]
    if not failed and absent is not None:
        return "SKIP_CAPABILITY", str(absent), absent.capability
    if not failed:
        complete = {"setup", "call", "teardown"} <= set(phases)
        return ("PASS", "", "") if complete else ("FAIL", "a phase of the case is missing", "phase")
    first = failed[0]
    error = getattr(first, "hal_exception", None)
    text = str(error) if error is not None else first.longreprtext
    where = "" if first.when == "call" else f"{first.when}: "
    if first.outcome == "skipped":
        text = f"skipped by the case itself, without a capability of the HCD: {text}"
    if notes.unsupported:
        cause = f"{notes.unsupported[0]} answers UNSUPPORTED"
        return "UNSUPPORTED_REQUIRED", f"{where}{cause}; {text}", cause
    line = next((part for part in text.splitlines() if part.strip()), type(error).__name__)
    if not isinstance(error, AssertionError):
        line = f"{type(error).__name__}: {line}"
    return "FAIL", f"{where}{text}\n{first.longreprtext}", f"{where}{line}"[:200]
