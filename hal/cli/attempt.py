"""Ports tried in processes of their own, so that one that crashes or hangs takes nothing with it.

`python -m hal.cli.attempt FILE` is the child: it loads the port, opens each device once, and prints
what it found as JSON in its last line.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hal.device import Device

SECONDS = 20.0
"""How long one port may take to load and to open its devices."""


@dataclass
class Attempt:
    """How the try of one port ended.

    Attributes:
        problem: Why the port does not load; empty when it does.
        absent: The port itself works, and its driver or device is not on this machine.
        devices: A row for each device that opened: name, title, hcd, memory_bytes, library.
        closed: A sentence for each device that did not open, or did not do the least work.
        died: The process ended by a signal, or did not end.
    """

    problem: str = ""
    absent: bool = False
    devices: list[dict[str, Any]] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)
    died: bool = False


def attempt_all(paths: Iterable[Path], *, seconds: float = SECONDS) -> dict[Path, Attempt]:
    """Try each library in a process of its own, as many at once as there are cores."""
    files = list(dict.fromkeys(paths))
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return dict(zip(files, pool.map(lambda path: attempt(path, seconds), files), strict=True))


def attempt(path: Path, seconds: float = SECONDS) -> Attempt:
    """Try one library in a process of its own. Never raises for what the library does."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "hal.cli.attempt", str(path)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Attempt(f"loading it takes more than {seconds:.0f} s", died=True)
    if done.returncode < 0:
        number = -done.returncode
        name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
        return Attempt(f"loading it ends the process with {name}", died=True)
    try:
        return Attempt(**json.loads(done.stdout.splitlines()[-1]))
    except (IndexError, ValueError, TypeError):
        said = done.stderr.strip().splitlines()
        return Attempt(said[-1] if said else f"loading it ends with status {done.returncode}")


def require_alive(device: str) -> None:
    """Raise PortLoadError when trying the port of NAME[:HCD][:INDEX] ends or stops a process.

    Anything else that is wrong with it is told better by opening it.
    """
    from hal.errors import PortLoadError
    from hal.port.discovery import candidates, parse_spec

    for found in candidates(parse_spec(device)):
        if found.path is None:
            continue
        tried = attempt(found.path)
        if tried.died:
            raise PortLoadError(
                f"{found.path}: {tried.problem}",
                call="hal.open",
                next_step="Run it under a debugger, or ask the port's vendor.",
            )


def _look(path: str) -> Attempt:
    """Load the port here, and open each of its devices once."""
    import hal
    from hal.errors import HalError, NotFound, PortLoadError

    found = Attempt()
    try:
        port = hal.load_port(path)
        count = port.device_count
    except HalError as error:
        problem = "; ".join(getattr(error, "reasons", ())) or str(error)
        status = error.status if isinstance(error, PortLoadError) else 0
        return Attempt(problem, absent=status == NotFound.status)
    for index in range(count):
        try:
            with port.device(index) as device:
                _work(device)
                found.devices.append(
                    {
                        "name": device.name,
                        "title": device.text("device.name", default=""),
                        "hcd": device.hcd.name,
                        "memory_bytes": device.memory_bytes,
                        "library": str(device.port.path),
                    }
                )
        except HalError as error:
            found.closed.append(str(error))
    return found


def _work(device: Device) -> None:
    """Fill a buffer and read it back: a device that is lost opens, and does no more."""
    from hal.errors import HalError

    back = bytearray(64)
    with device.stream() as stream, device.alloc(len(back)) as memory:
        stream.fill(memory, b"\xa5")
        stream.copy(back, memory)
        stream.synchronize()
    if back != b"\xa5" * len(back):
        raise HalError(f"{device.name}: 64 bytes were filled with a5, read back as {back.hex()}")


def main() -> None:
    """The child."""
    print("\n" + json.dumps(asdict(_look(sys.argv[1]))), flush=True)


if __name__ == "__main__":
    main()
