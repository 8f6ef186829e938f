"""One case in the foreground: pytest's own output, nothing captured, no time limit.

`python -m hal.certify.foreground ORDER` with ORDER a JSON text; `hal repro` writes it.
"""

from __future__ import annotations

import difflib
import faulthandler
import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from hal.certify.child import Watcher, judge
from hal.certify.server import case_id, pytest_arguments
from hal.testing import record, seeds, session


class Foreground:
    """A pytest plugin that keeps one case and judges it as the certification would."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.order = order
        self.suite = Path(order["suite"])
        self.verdict: tuple[str, str, str] | None = None
        self.others: list[str] = []
        self._reports: list[pytest.TestReport] = []
        self._notes = record.Record()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Drop every case but the one."""
        self.others = [case_id(item, self.suite) for item in items]
        items[:] = [item for item in items if case_id(item, self.suite) == self.order["case"]]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Give the case its seed."""
        name = self.order["case"]
        seed = seeds.seed_of(name, seed=self.order["seed"], nonce=self.order["nonce"])
        self._notes = record.begin(record.Record(case_id=name, seed=seed))
        record.trace_calls(bool(self.order["trace"]))
        print(f"case {name}\nseed {seed}", flush=True)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the reports."""
        self._reports.append(report)

    def pytest_runtest_logfinish(self) -> None:
        """Wait: judged at the end of the session."""

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Judge the case."""
        if session.items:
            self.verdict = judge(session.items[0], self._reports, self._notes)


def main() -> int:
    """Run the case; the exit code is 0 for PASS and a legal skip, else 1."""
    order = json.loads(sys.argv[1])
    faulthandler.enable()
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    fields = {**order["session"]}
    target = session.Target(**fields.pop("target"))
    session.use(session.Session(target=target, **fields))
    plugin = Foreground(order)
    path = plugin.suite / order["case"].partition("::")[0]
    words = [word for word in pytest_arguments(plugin.suite, [str(path)]) if word != "-q"]
    pytest.main([*words, "--no-header", "-rN"], plugins=[plugin, Watcher()])
    if plugin.verdict is None:
        near = difflib.get_close_matches(order["case"], plugin.others, n=1, cutoff=0.8)
        hint = f" Did you mean {shlex.quote(near[0])}?" if near else ""
        print(
            f"hal repro: there is no case '{order['case']}'.{hint} "
            "hal-certify --list prints all ids.",
            file=sys.stderr,
        )
        return 2
    status, message, _ = plugin.verdict
    first = message.splitlines()[0] if message else ""
    print(f"\n{status} {order['case']}{': ' + first if first else ''}")
    return 0 if status in ("PASS", "SKIP_CAPABILITY") else 1


if __name__ == "__main__":
    sys.exit(main())
