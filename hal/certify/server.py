"""The fork server: collects the cases once, never opens a port, forks one child per job.

It is started as `python -m hal.certify.server --suite DIR --control FD --events FD PATH…`. It
speaks lines of JSON. From the supervisor: `session` (port, HCD, seeds), `run` (a job: cases,
limits), `kill`. To the supervisor: `collected`, then for each job `start` and `result` per case,
and `exit`.
A child leads a process group of its own; when its time is over or it ends, the whole group is
killed. When the supervisor goes away the server kills all groups and ends.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import mmap
import os
import selectors
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from hal.certify import child
from hal.testing.case import ATTRIBUTE, Case
from hal.testing.record import BREADCRUMB_BYTES

OUTPUT_TAIL_BYTES = 6000
MAIN_CONTROL = "control"
SUBJECTS = {"layer": "layer", "unstarted_layer": "layer", "stack": "loader"}
"""Fixtures that decide what a case examines: the validate layer, or what the loader emulates."""


def case_id(item: pytest.Item, suite: Path) -> str:
    """Return a case's id: `tier1/memory.py::test_name[parameter]`, or `control::test_name`."""
    name = item.nodeid.partition("::")[2]
    try:
        return f"{item.path.relative_to(suite).as_posix()}::{name}"
    except ValueError:
        return f"{MAIN_CONTROL}::{name}"


def describe(item: pytest.Item, suite: Path) -> dict[str, Any]:
    """Return what the supervisor must know of a case."""
    found = getattr(getattr(item, "function", None), ATTRIBUTE, None)
    about = found if isinstance(found, Case) else Case(rules=())
    name = case_id(item, suite)
    folder = name.partition("/")[0]
    fixtures = set(getattr(item, "fixturenames", ()))
    return {
        "id": name,
        "tier": int(folder[4:]) if folder.startswith("tier") and folder[4:].isdigit() else 0,
        "group": Path(name.partition("::")[0]).stem,
        "rules": list(about.rules),
        "negative": about.negative,
        "timeout_s": about.timeout_s,
        "soak": about.soak,
        "needs": list(about.needs),
        "operator": about.operator,
        "dtype": about.dtype,
        "subject": next((word for name, word in SUBJECTS.items() if name in fixtures), "port"),
        "line": (item.reportinfo()[1] or 0) + 1,
        "decorated": isinstance(found, Case),
    }


@dataclass
class Job:
    """A running child.

    Attributes:
        number: The supervisor's number for it.
        pid: The child, leader of its process group.
        limits: Seconds per case id.
        deadline: Monotonic time at which the running case is over its limit.
    """

    number: int
    pid: int
    pidfd: int
    pipe: int
    output: int
    crumb: mmap.mmap
    limits: dict[str, float]
    deadline: float
    case: str = ""
    timed_out: str = ""
    buffer: bytearray = field(default_factory=bytearray)


class Server:
    """The loop that forks and watches; also the pytest plugin that replaces pytest's own loop."""

    def __init__(self, suite: Path, control: int, events: int) -> None:
        self.suite = suite
        self.control = control
        self.events = events
        self.items: dict[str, pytest.Item] = {}
        self.session: dict[str, Any] = {}
        self.jobs: dict[int, Job] = {}
        self.selector = selectors.DefaultSelector()
        self.problems: list[str] = []
        self._incoming = bytearray()
        self._open = True

    # ---- pytest's side ----

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Keep what could not be collected."""
        if report.failed:
            self.problems.append(f"{report.nodeid}: {report.longreprtext[-2000:]}")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Tell the supervisor what there is, then serve until it stops."""
        cases = [describe(item, self.suite) for item in session.items]
        self.items = {about["id"]: item for about, item in zip(cases, session.items, strict=True)}
        self.send({"event": "collected", "cases": cases, "problems": self.problems})
        child.warm()
        gc.collect()
        gc.freeze()
        self.serve()
        return True

    # ---- the loop ----

    def send(self, event: dict[str, Any]) -> None:
        """Write one event; the supervisor reads them in order."""
        data = json.dumps(event, separators=(",", ":")).encode() + b"\n"
        while data:
            data = data[os.write(self.events, data) :]

    def serve(self) -> None:
        """Watch the supervisor and all children until the supervisor stops or goes away."""
        self.selector.register(self.control, selectors.EVENT_READ, self.on_control)
        while self._open or self.jobs:
            deadlines = [job.deadline for job in self.jobs.values() if not job.timed_out]
            wait = min(deadlines) - time.monotonic() if deadlines else None
            for key, _ in self.selector.select(None if wait is None else max(0.0, wait)):
                key.data()
            now = time.monotonic()
            for job in list(self.jobs.values()):
                if not job.timed_out and now >= job.deadline:
                    job.timed_out = job.case or "start"
                    kill_group(job.pid)

    def on_control(self) -> None:
        """Read orders; an end of file means that the supervisor is gone."""
        data = os.read(self.control, 1 << 16)
        if not data:
            self.selector.unregister(self.control)
            self._open = False
            for job in self.jobs.values():
                kill_group(job.pid)
            return
        self._incoming += data
        while (end := self._incoming.find(b"\n")) >= 0:
            order = json.loads(self._incoming[:end])
            del self._incoming[: end + 1]
            if order["op"] == "session":
                self.session = order["session"]
            elif order["op"] == "run":
                self.fork(order)
            elif order["op"] == "kill":
                for job in self.jobs.values():
                    kill_group(job.pid)

    def fork(self, order: dict[str, Any]) -> None:
        """Start a child for a job."""
        items = [self.items[name] for name in order["cases"]]
        limits = {name: float(order["limits"][name]) for name in order["cases"]}
        reader, writer = os.pipe()
        output = os.memfd_create("hal-certify-output")
        crumb = mmap.mmap(-1, mmap.PAGESIZE)
        pid = os.fork()
        if pid == 0:
            os.close(reader)
            self.leave()
            child.main(
                list(zip(order["cases"], items, strict=True)),
                session=self.session | order.get("session", {}),
                environment=order.get("environment", {}),
                pipe=writer,
                output=output,
                crumb=crumb,
            )
        os.close(writer)
        with contextlib.suppress(OSError):  # the child does the same; whoever is first
            os.setpgid(pid, pid)
        first = limits[order["cases"][0]] if order["cases"] else 10.0
        job = Job(
            number=int(order["job"]),
            pid=pid,
            pidfd=os.pidfd_open(pid),
            pipe=reader,
            output=output,
            crumb=crumb,
            limits=limits,
            deadline=time.monotonic() + first,
        )
        self.jobs[job.number] = job
        os.set_blocking(reader, False)
        self.selector.register(reader, selectors.EVENT_READ, lambda: self.on_pipe(job))
        self.selector.register(job.pidfd, selectors.EVENT_READ, lambda: self.on_exit(job))

    def leave(self) -> None:
        """In a child: drop everything that belongs to the server."""
        for job in self.jobs.values():
            for descriptor in (job.pipe, job.pidfd, job.output):
                os.close(descriptor)
            job.crumb.close()
        self.selector.close()
        os.close(self.control)
        os.close(self.events)

    def on_pipe(self, job: Job) -> None:
        """Pass on what a child says; each case that starts gets its own time."""
        while True:
            try:
                data = os.read(job.pipe, 1 << 16)
            except BlockingIOError:
                break
            if not data:
                self.selector.unregister(job.pipe)
                break
            job.buffer += data
        while (end := job.buffer.find(b"\n")) >= 0:
            line = json.loads(job.buffer[:end])
            del job.buffer[: end + 1]
            if line["event"] == "start":
                job.case = line["id"]
                job.deadline = time.monotonic() + job.limits[job.case]
                job.crumb[:BREADCRUMB_BYTES] = bytes(BREADCRUMB_BYTES)
            elif line["event"] == "result":
                job.case = ""
            self.send(line | {"job": job.number})

    def on_exit(self, job: Job) -> None:
        """Report how a child ended, and end what it left behind."""
        self.selector.unregister(job.pidfd)
        kill_group(job.pid)  # before the wait, while the number is still the child's
        _, status = os.waitpid(job.pid, 0)
        if job.pipe in {key.fd for key in self.selector.get_map().values()}:
            self.on_pipe(job)
        with contextlib.suppress(KeyError):
            self.selector.unregister(job.pipe)
        size = os.lseek(job.output, 0, os.SEEK_END)
        start = max(0, size - OUTPUT_TAIL_BYTES)
        tail = os.pread(job.output, OUTPUT_TAIL_BYTES, start)
        event = {
            "event": "exit",
            "job": job.number,
            "code": os.waitstatus_to_exitcode(status),
            "case": job.case,
            "timed_out": job.timed_out,
            "call": bytes(job.crumb[:BREADCRUMB_BYTES]).rstrip(b"\0").decode("utf-8", "replace"),
            "output": tail.decode("utf-8", "replace"),
        }
        for descriptor in (job.pipe, job.pidfd, job.output):
            os.close(descriptor)
        job.crumb.close()
        del self.jobs[job.number]
        self.send(event)


def kill_group(pid: int) -> None:
    """Kill a child's process group; it may be gone already."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def pytest_arguments(suite: Path, paths: list[str]) -> list[str]:
    """Return pytest's command line: no file of the user's may change how cases run."""
    return [
        f"--rootdir={suite}",
        f"--confcutdir={suite}",
        "-c",
        os.devnull,
        "--import-mode=importlib",
        "-o",
        "python_files=*.py",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:faulthandler",
        "-p",
        "hal.testing.fixtures",
        "--capture=no",
        "-q",
        *paths,
    ]


def main() -> int:
    """Collect, then serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--suite", type=Path, required=True)
    parser.add_argument("--control", type=int, required=True)
    parser.add_argument("--events", type=int, required=True)
    parser.add_argument("paths", nargs="+")
    given = parser.parse_args()
    os.set_inheritable(given.control, False)
    os.set_inheritable(given.events, False)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    os.environ.pop("PYTEST_ADDOPTS", None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    server = Server(given.suite.resolve(), given.control, given.events)
    code = pytest.main(
        pytest_arguments(server.suite, given.paths), plugins=[server, child.Watcher()]
    )
    if not server.items:
        server.send({"event": "failed", "problems": server.problems, "code": int(code)})
    return 0


if __name__ == "__main__":
    sys.exit(main())
