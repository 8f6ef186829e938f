"""Before the cases: does the port load, start, and do the very first things?

A child of its own (`python -m hal.certify.preflight`) does one step after the other and says which
it is about to do, so that a crash, a hang or a lie has a name. The supervisor gets a clear verdict
and the list of what the port lacks, in the order to do it.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hal.testing.raw import Raw
    from hal.testing.session import Target

__all__ = ["Preflight", "missing_functions", "preflight"]

STEP_LIMIT_S = 30.0
PROBE_LIMIT_S = 2
SYNC_NS = 2_000_000_000
LINE_END = b"\n"

NOT_A_PORT = {"NOT_FOUND", "INVALID_VALUE", "VERSION"}
"""Answers of the loader that mean: this file is no port for this machine and this HAL."""


@dataclass
class Preflight:
    """What the first look at a port found.

    Attributes:
        problem: Why no case can run; empty when they can.
        step: The step that failed.
        usable: False when the file is no port at all: a mistake of the caller's.
        answers: Per function: `present`, `missing` (no entry), `unsupported`.
        facts: What the port says of itself: name, vendor, version, abi, device count, texts.
        warnings: What is odd but no obstacle.
    """

    problem: str = ""
    step: str = ""
    usable: bool = True
    answers: dict[str, str] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        """Whether the cases can run."""
        return self.problem == ""


def missing_functions(found: Preflight, tier: int) -> list[tuple[int, str, str]]:
    """Return (tier, function, answer) of all required functions that are not there.

    The order is the one in which to write them: by tier, then as the registry has them.
    """
    from hal.testing.abi import FUNCTIONS

    rows = []
    for wanted in range(1, tier + 1):
        for function in FUNCTIONS:
            answer = found.answers.get(function.call, "present")
            if function.tier == wanted and answer != "present":
                rows.append((wanted, function.call, answer))
    return rows


# ---- the supervisor's side ----


def preflight(target: Target, device_index: int, keys: Sequence[str] = ()) -> Preflight:
    """Look at a port from outside; never hangs longer than the limit of a step.

    Args:
        target: The port.
        device_index: Which of its devices.
        keys: What to ask `device.get_i64` for; the answers are `facts["reported"]`.
    """
    read_end, write_end = os.pipe()
    order = json.dumps({"target": asdict(target), "device_index": device_index, "keys": list(keys)})
    process = subprocess.Popen(
        [sys.executable, "-m", "hal.certify.preflight", str(write_end)],
        pass_fds=(write_end,),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    os.close(write_end)
    assert process.stdin is not None and process.stderr is not None
    process.stdin.write(order.encode())
    process.stdin.close()
    found = Preflight()
    finished = _follow(read_end, found)
    _kill(process.pid)
    code = process.wait()
    errors = process.stderr.read().decode("utf-8", "replace").strip()
    process.stderr.close()
    os.close(read_end)
    if not finished and not found.problem:
        found.problem = _death(found.step, code, errors)
    return found


def _follow(pipe: int, found: Preflight) -> bool:
    """Read the child's lines; return whether it came to its end."""
    buffer = b""
    deadline = time.monotonic() + STEP_LIMIT_S
    while True:
        ready, _, _ = select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            found.problem = f"the port hangs in {found.step}: no end after {STEP_LIMIT_S:g} s"
            return False
        data = os.read(pipe, 1 << 16)
        if not data:
            return False
        buffer += data
        deadline = time.monotonic() + STEP_LIMIT_S
        while LINE_END in buffer:
            line, _, buffer = buffer.partition(LINE_END)
            news = json.loads(line)
            found.step = news.get("step", found.step)
            found.problem = news.get("problem", found.problem)
            found.usable = news.get("usable", found.usable)
            found.answers |= news.get("answers", {})
            found.facts |= news.get("facts", {})
            found.warnings += news.get("warnings", [])
            if "done" in news:
                return True


def _death(step: str, code: int, errors: str) -> str:
    """Say how the child ended when it did not say so itself."""
    last = errors.splitlines()[-1] if errors else ""
    if code < 0:
        known = -code in set(signal.Signals)
        name = signal.Signals(-code).name if known else f"signal {-code}"
        return f"the port crashes in {step}: {name}"
    if code == 0:
        return f"the port ended the process in {step}"
    return f"the port ended the process in {step} with code {code}. {last}".strip()


def _kill(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


# ---- the child's side ----


class _Look:
    """The steps in the child."""

    def __init__(self, order: dict[str, Any], pipe: int) -> None:
        from hal.testing.session import Target

        self.target: Target = Target(**order["target"])
        self.device_index: int = order["device_index"]
        self.keys: list[str] = order["keys"]
        self.pipe = pipe
        self.device = 0
        self.raw: Raw

    def tell(self, **news: Any) -> None:
        """Write a line for the supervisor."""
        os.write(self.pipe, json.dumps(news, default=str).encode() + LINE_END)

    def run(self) -> None:
        """Do all steps; the first problem ends it."""
        steps: list[tuple[str, Callable[[], str]]] = [
            ("the loader", self.load),
            ("the tables", self.tables),
            ("port.init", self.init),
            ("port.device_count", self.count),
            ("device.open", self.open),
            ("device.get_str", self.texts),
            ("memory.alloc", self.memory),
            ("stream.create", self.stream),
            ("device.synchronize", self.synchronize),
            ("device.close", self.close),
            ("port.shutdown", self.shutdown),
        ]
        for name, step in steps:
            self.tell(step=name)
            if problem := step():
                self.tell(problem=problem)
                break
        self.tell(done=True)

    def load(self) -> str:
        """Load the file and shake hands; nothing is started yet."""
        from hal.testing.abi import status_name
        from hal.testing.raw import PortRefused, open_target

        try:
            self.raw = open_target(self.target, init=False)
        except PortRefused as refused:
            self.tell(usable=status_name(refused.status) not in NOT_A_PORT)
            return refused.reason
        root, ffi = self.raw.root, self.raw.ffi

        def text(pointer: Any) -> str:
            empty = pointer == ffi.NULL
            return "" if empty else ffi.string(pointer, 200).decode("utf-8", "replace")

        facts = {name: text(getattr(root, name)) for name in ("name", "vendor", "version")}
        facts["name"] = self.target.python_class.rpartition(":")[2] or facts["name"]
        facts["build_id"] = text(root.build_id)
        facts["abi"] = f"{root.abi_major}.{root.abi_minor}"
        self.tell(facts=facts)
        return ""

    def tables(self) -> str:
        """Ask each function, in a process of its own, whether it is there at all."""
        from hal.testing.abi import FUNCTIONS

        answers: dict[str, str] = {}
        for function in FUNCTIONS:
            answers[function.call] = self.ask(function.call)
            self.tell(answers={function.call: answers[function.call]})
        required = [f.call for f in FUNCTIONS if f.tier == 1]
        if all(answers[call] == "missing" for call in required):
            return "the port's tables are empty: not one function of tier 1 is there"
        if all(answers[call] != "present" for call in required):
            return "each function of tier 1 answers UNSUPPORTED"
        return ""

    def ask(self, call: str) -> str:
        """Call a function with zeros before the port is started; most refuse, and that is fine."""
        from hal.testing.abi import Status
        from hal.testing.capability import harmless

        entry = self.raw.entry(call)
        if entry is None:
            return "missing"
        if call == "port.init":
            return "present"
        asking = harmless(self.raw, call)
        pid = os.fork()
        if pid == 0:
            signal.alarm(PROBE_LIMIT_S)
            os._exit(9 if asking(entry) == Status.UNSUPPORTED else 0)
        _, status = os.waitpid(pid, 0)
        return "unsupported" if os.waitstatus_to_exitcode(status) == 9 else "present"

    def answer(self, call: str, *arguments: Any) -> str:
        """Call a function that must succeed and write its outputs."""
        from hal.testing.abi import status_name

        status = self.raw.call(call, *arguments)
        if status != 0:
            error = self.raw.error()[2]
            if status_name(status) == "UNSUPPORTED":
                self.tell(answers={call: "unsupported"})
            return f"{call} answered {status_name(status)}{': ' + error if error else ''}"
        silent = [out for out in self.raw.outs(arguments) if self.raw.untouched(out)]
        return f"{call} answered OK and wrote nothing" if silent else ""

    def init(self) -> str:
        """Start the port."""
        from hal.testing.abi import ABI_MAJOR, ABI_MINOR

        text = self.target.hcd_text.encode()
        host = self.raw.new(
            "host",
            abi_major=ABI_MAJOR,
            abi_minor=ABI_MINOR,
            hcd_text=text if text else self.raw.NULL,
            hcd_bytes=len(text),
            options=self.raw.target.options.encode() or self.raw.NULL,
        )
        return self.answer("port.init", host)

    def count(self) -> str:
        """Count the devices."""
        out = self.raw.out("uint32_t")
        if problem := self.answer("port.device_count", out):
            return problem
        self.tell(facts={"device_count": int(out[0])})
        if out[0] == 0:
            return "the port finds no device on this machine"
        if out[0] <= self.device_index:
            return f"there is no device {self.device_index}: the port has {out[0]}"
        return ""

    def open(self) -> str:
        """Open the device."""
        out = self.raw.out("hal_device")
        problem = self.answer("device.open", self.device_index, out)
        self.device = int(out[0])
        return problem or ("" if self.device else "device.open answered OK and gave no handle")

    def texts(self) -> str:
        """Read who the device is and what it says of itself; the cases judge it."""
        from hal.testing.abi import PortInfo

        texts = {key: self.raw.text(self.device, key) for key in _TEXTS}
        absent = [key for key, text in texts.items() if text is None]
        if absent:
            self.tell(warnings=[f"device.get_str does not know {', '.join(absent)}"])
        runs_on = self.raw.info(PortInfo.RUNS_ON)
        self.tell(facts=texts | {"runs_on": runs_on})
        self.tell(step="device.get_i64")
        self.tell(facts={"reported": {key: self.raw.i64(self.device, key) for key in self.keys}})
        return ""

    def memory(self) -> str:
        """Make a buffer and end it."""
        out = self.raw.out("hal_memory")
        desc = self.raw.new("memory_desc", bytes=256)
        return self.answer("memory.alloc", self.device, desc, out) or self.answer(
            "memory.free", int(out[0])
        )

    def stream(self) -> str:
        """Make a stream, wait for nothing, end it."""
        out = self.raw.out("hal_stream")
        problem = self.answer("stream.create", self.device, 0, out)
        if problem:
            return problem
        self.tell(step="stream.synchronize")
        return self.answer("stream.synchronize", int(out[0]), SYNC_NS) or self.answer(
            "stream.destroy", int(out[0])
        )

    def synchronize(self) -> str:
        """Wait for the idle device."""
        return self.answer("device.synchronize", self.device, SYNC_NS)

    def close(self) -> str:
        """Close the device."""
        return self.answer("device.close", self.device, SYNC_NS)

    def shutdown(self) -> str:
        """Stop the port."""
        return self.answer("port.shutdown", SYNC_NS)


_TEXTS = ("device.name", "hcd.ref", "hcd.overlay")


def main() -> int:
    """Run in the child."""
    _Look(json.loads(sys.stdin.read()), int(sys.argv[1])).run()
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
