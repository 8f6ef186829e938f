"""What one certification run has in common: the port, the chip, the device and the seeds.

The fork server sets it before it forks; fixtures read it in the child. It never loads a port.
"""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Session", "Target", "current", "flat_values", "use"]


@dataclass(frozen=True)
class Target:
    """A port on disk and what it is opened with.

    Attributes:
        name: How the user called it.
        path: The shared object.
        hcd_text: The resolved HCD in flat form; empty when the port brings its own.
        hcd_source: Where the HCD came from, for messages.
        hcd_name: What names the HCD for `hal.load_port`: a file or a shipped name.
        index: The device that the name asked for.
        options: Lines key=value for the port.
        python_class: The class behind a port in Python, as `FILE.py:CLASS`; empty for others.
    """

    name: str
    path: str
    hcd_text: str = ""
    hcd_source: str = ""
    hcd_name: str = ""
    index: int = 0
    options: str = ""
    python_class: str = ""

    @property
    def spec(self) -> str:
        """What names the port for `hal.load_port`."""
        return self.python_class or self.path

    @property
    def file(self) -> str:
        """What the port's author wrote: the shared object, or the file of the Python class."""
        return self.python_class.rpartition(":")[0] or self.path


def flat_values(hcd_text: str) -> dict[str, str]:
    """Return the paths and values of a flat HCD."""
    lines = (line.partition("\t") for line in hcd_text.splitlines())
    return {path: value for path, _, value in lines}


@dataclass(frozen=True)
class Session:
    """Everything that a child process needs to run a case.

    Attributes:
        target: The port.
        device_index: Which of its devices.
        seed: The run's seed.
        nonce: The run's nonce in hexadecimal.
        broken_rule: Rule that a layer breaks on purpose, or empty.
        skipped_rule: Host rule that the validate layer leaves out on purpose, or empty.
        soak_s: Seconds that each case of a long run goes on for.
        flat: What the device's resolved HCD says, by path.
    """

    target: Target
    device_index: int = 0
    seed: int = 0
    nonce: str = ""
    broken_rule: str = ""
    skipped_rule: str = ""
    soak_s: float = 0.0
    flat: dict[str, str] = field(default_factory=dict, compare=False)


_current: Session | None = None


def use(session: Session) -> Session:
    """Make a session the current one of this process."""
    global _current
    _current = session
    return session


def current() -> Session:
    """Return the session of this process.

    Raises:
        LookupError: cases run outside `hal-certify` and `hal repro`.
    """
    if _current is None:
        raise LookupError("no certification runs here; use hal-certify or hal repro CASE-ID")
    return _current
