"""The supervisor: starts the fork server, hands out jobs, and turns what comes back into results.

It never loads vendor code. It trusts no child: a PASS needs a result line *and* an exit with code
0; what a child did not say is a crash, and what never ran is NOT_RUN.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hal.certify import results as outcome
from hal.errors import HalError

__all__ = ["Collected", "HarnessError", "Job", "Supervisor"]

START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 5.0
CLOCK_SLACK_S = 2.0
SERVER = (sys.executable, "-m", "hal.certify.server")


class HarnessError(HalError):
    """The suite itself is broken: no word about the port is possible."""

    exit_code = 3


@dataclass(frozen=True)
class Collected:
    """One case as the server found it."""

    id: str
    tier: int
    group: str
    rules: tuple[str, ...]
    negative: bool
    timeout_s: float
    needs: tuple[str, ...]
    operator: str
    dtype: str
    subject: str
    line: int
    decorated: bool
    soak: bool = False

    @classmethod
    def of(cls, about: dict[str, Any]) -> Collected:
        """Take what the server wrote."""
        lists = {name: tuple(about[name]) for name in ("rules", "needs")}
        return cls(**(about | lists))

    @property
    def is_control(self) -> bool:
        """Whether the case examines the harness and not the port."""
        return self.id.startswith("control::")


@dataclass
class Job:
    """Cases that share one child.

    Attributes:
        cases: The cases in order.
        session: What differs from the run's session, as a broken rule.
        environment: Variables of the child.
        tag: The caller's own mark, as the name of a mutant.
    """

    cases: list[Collected]
    session: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    tag: str = ""


Sink = Callable[[Job, Collected, dict[str, Any]], None]


class Supervisor:
    """A fork server and its jobs.

    Args:
        suite: Folder of the suite.
        paths: What to collect: folders or files.
        jobs: Children at once.
        server: Command that starts the server; tests put a broken one in its place.
    """

    def __init__(
        self,
        suite: Path,
        paths: Sequence[Path],
        *,
        jobs: int = 1,
        server: Sequence[str] = SERVER,
    ) -> None:
        self.suite = suite
        self.jobs = jobs
        self.clock_jump_s = 0.0
        self._clocks = _Clocks()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed by stop()
        control_read, self._control = os.pipe()
        self._events, events_write = os.pipe()
        words = [*server, "--suite", str(suite), "--control", str(control_read)]
        words += ["--events", str(events_write), *map(str, paths)]
        self._process = subprocess.Popen(
            words,
            pass_fds=(control_read, events_write),
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
            env=_environment(),
        )
        os.close(control_read)
        os.close(events_write)
        self._buffer = bytearray()
        self._running: dict[int, _Running] = {}
        self._count = 0

    # ---- talking to the server ----

    def collect(self) -> list[Collected]:
        """Wait until the server has collected and return the cases.

        Raises:
            HarnessError: a file does not import, a case is there twice or cites no rule.
        """
        event = self._next(START_TIMEOUT_S)
        if event is None:
            raise HarnessError(
                f"the cases under {self.suite} could not be collected: {self._server_log()}",
                call="hal-certify",
            )
        if event["event"] == "failed" or event.get("problems"):
            found = "\n".join(event.get("problems") or [self._server_log()])
            raise HarnessError(f"the suite does not import:\n{found}", call="hal-certify")
        return [Collected.of(about) for about in event["cases"]]

    def use(self, session: dict[str, Any]) -> None:
        """Tell the server the settings of all later jobs."""
        self._order({"op": "session", "session": session})

    def _order(self, order: dict[str, Any]) -> None:
        data = json.dumps(order).encode() + b"\n"
        try:
            while data:
                data = data[os.write(self._control, data) :]
        except BrokenPipeError:
            raise self._lost() from None

    def _next(self, timeout_s: float) -> dict[str, Any] | None:
        """Return the next event, or None after the time or at the server's end."""
        end = time.monotonic() + timeout_s
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([self._events], [], [], max(0.0, end - time.monotonic()))
            data = os.read(self._events, 1 << 18) if ready else b""
            if not data:
                return None
            self._buffer += data
        line, _, rest = self._buffer.partition(b"\n")
        self._buffer = bytearray(rest)
        event = json.loads(line)
        assert isinstance(event, dict)
        return event

    def _server_log(self) -> str:
        self._log.seek(0)
        return self._log.read().decode("utf-8", "replace")[-3000:].strip() or "it said nothing"

    def _lost(self) -> HarnessError:
        return HarnessError(
            f"the fork server ended: {self._server_log()}",
            call="hal-certify",
            next_step="Start again with --resume; please report it when it repeats.",
        )

    # ---- running ----

    def run(self, jobs: Iterable[Job], sink: Sink, tick: Callable[[], None] | None = None) -> None:
        """Run jobs; `sink` gets each case's result as soon as it is certain.

        `tick` is called about every 0.2 s. What is left of a job whose child died goes into a new
        child behind the case that killed it.

        Raises:
            HarnessError: the server died or went silent.
        """
        waiting: deque[Job] = deque()
        source = iter(jobs)
        while self._fill(waiting, source) or self._running:
            event = self._next(0.2)
            if event is None:
                if self._process.poll() is not None:
                    raise self._lost()
                self._check_silence()
            else:
                waiting.extendleft(reversed(self._take(event, sink)))
            self.clock_jump_s = max(self.clock_jump_s, self._clocks.jump_s())
            if tick is not None:
                tick()

    def _fill(self, waiting: deque[Job], source: Iterator[Job]) -> bool:
        """Start jobs while there is room; return whether some may be left."""
        while len(self._running) < self.jobs:
            job = waiting.popleft() if waiting else next(source, None)
            if job is None:
                return False
            if job.cases:
                self._start(job)
        return True

    def _start(self, job: Job) -> None:
        self._count += 1
        limits = {case.id: case.timeout_s for case in job.cases}
        self._running[self._count] = _Running(job, sum(limits.values()))
        self._order(
            {
                "op": "run",
                "job": self._count,
                "cases": [case.id for case in job.cases],
                "limits": limits,
                "session": job.session,
                "environment": job.environment,
            }
        )

    def _check_silence(self) -> None:
        """The server ends jobs that are over time; when it does not, it is broken itself."""
        for running in self._running.values():
            if time.monotonic() > running.started + running.limit_s + 30:
                raise HarnessError(
                    f"no answer for {running.job.cases[0].id} long after its limit",
                    call="hal-certify",
                )

    def _take(self, event: dict[str, Any], sink: Sink) -> list[Job]:
        """Handle one event; return jobs that became necessary."""
        running = self._running.get(event.get("job", -1))
        if running is None:
            return []
        if event["event"] == "result":
            running.take(event["id"], event["result"], sink)
        elif event["event"] == "exit":
            del self._running[event["job"]]
            return running.end(event, sink)
        return []

    def stop(self) -> None:
        """End the server and everything that it started."""
        with contextlib.suppress(OSError):
            os.close(self._control)
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        with contextlib.suppress(OSError):
            os.close(self._events)
        self._log.close()

    def __enter__(self) -> Supervisor:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class _Running:
    """A job in its child. The last result is held back until the child has ended."""

    def __init__(self, job: Job, limit_s: float) -> None:
        self.job = job
        self.limit_s = limit_s
        self.started = time.monotonic()
        self.done: list[str] = []
        self.held: tuple[Collected, dict[str, Any]] | None = None

    def take(self, name: str, result: dict[str, Any], sink: Sink) -> None:
        """Take a result; it must be the next case of the job and of a known status."""
        expected = self.job.cases[len(self.done)] if len(self.done) < len(self.job.cases) else None
        if expected is None or expected.id != name:
            raise HarnessError(f"a child answered for {name}, which it was not asked to run")
        if result.get("status") not in outcome.STATUSES or result["status"] == outcome.NOT_RUN:
            raise HarnessError(f"{name}: a child gave the status {result.get('status')!r}")
        self.flush(sink)
        self.held = (expected, result)
        self.done.append(name)

    def flush(self, sink: Sink) -> None:
        """Pass the held result on."""
        if self.held is not None:
            sink(self.job, *self.held)
            self.held = None

    def end(self, event: dict[str, Any], sink: Sink) -> list[Job]:
        """Judge how the child ended; return the job for what is left."""
        code, rest = int(event["code"]), self.job.cases[len(self.done) :]
        clean = code == 0 and not event["timed_out"]
        if self.held is not None and not clean and not event["case"]:
            case, result = self.held
            self.held = (case, self.dead(event, result))
        self.flush(sink)
        if not rest:
            return []
        sink(self.job, rest[0], self.dead(event, {}))
        left = rest[1:]
        return [Job(left, self.job.session, self.job.environment, self.job.tag)] if left else []

    def dead(self, event: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
        """Return the result of a case whose child died, hung, or left without a word."""
        code, call = int(event["code"]), event["call"]
        where = f" in {call}" if call else ""
        if event["timed_out"]:
            limit = self.job.cases[min(len(self.done), len(self.job.cases) - 1)].timeout_s
            status, cause = outcome.HANG, f"hangs{where}"
            message = f"no end after {limit:g} s{where}; the process group was killed"
        elif code < 0:
            name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
            status, cause = outcome.CRASH, f"{name}{where}"
            message = f"the process died of {name}{where}"
        else:
            status, cause = outcome.CRASH, f"exit with code {code}{where}"
            message = f"the process ended with code {code} before its result was complete{where}"
        tail = _without_harness(event["output"])
        return {
            **{k: v for k, v in result.items() if k in ("seed", "duration_s")},
            "status": status,
            "cause": cause,
            "message": f"{message}\n{tail}".strip(),
            "duration_s": round(time.monotonic() - self.started, 6),
        }


def _without_harness(output: str) -> str:
    """Return a child's last words without the frames of pytest and of the harness."""
    noise = ("site-packages/", "hal/certify/", "<frozen ", "Extension modules:")
    lines = [line for line in output.splitlines() if not any(word in line for word in noise)]
    return "\n".join(lines).strip()


class _Clocks:
    """Compares the monotonic clock with the clock of the day."""

    def __init__(self) -> None:
        self._difference = time.time() - time.monotonic()
        self._last = time.monotonic()

    def jump_s(self) -> float:
        """Return by how much the clocks disagree since the start, or ran backwards; else 0."""
        now = time.monotonic()
        back = max(0.0, self._last - now)
        self._last = now
        apart = abs(time.time() - now - self._difference)
        return max(back, apart if apart > CLOCK_SLACK_S else 0.0)


def _environment() -> dict[str, str]:
    """Return the server's environment: one thread in numeric libraries, so that forks are safe."""
    threads = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    return {**os.environ, **dict.fromkeys(threads, "1"), "PYTHONFAULTHANDLER": "1"}
