"""What a running case tells its runner besides passing or failing.

One case runs at a time in a process, so the current record is a module variable.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass, field
from typing import Any

__all__ = [
    "CapabilityAbsent",
    "Record",
    "begin",
    "breadcrumb",
    "current",
    "is_traced",
    "share_breadcrumb",
    "trace_calls",
]

BREADCRUMB_BYTES = 64


class CapabilityAbsent(BaseException):
    """Ends a case that needs what the chip truly lacks: all witnesses agree.

    It is not an `Exception`, so that a case cannot swallow it by accident.
    """

    def __init__(self, capability: str, witnesses: dict[str, str]) -> None:
        super().__init__(f"the chip has no {capability}")
        self.capability = capability
        self.witnesses = witnesses


@dataclass
class Record:
    """Notes of one case.

    Attributes:
        case_id: The case's id.
        seed: Seed of its inputs.
        rules: The rules that it cites.
        operator: Row of the heat map.
        dtype: Column of the heat map.
        error_over_bound: Largest error divided by its bound over all comparisons, or None.
        comparisons: How many times `close` was asked.
        warnings: Sentences for the report; they never change the status.
        unsupported: Required functions that answered UNSUPPORTED.
        facts: Named values for the report, as `memory.total_bytes`.
        call: The last call that was made into the port.
    """

    case_id: str = ""
    seed: int = 0
    rules: tuple[str, ...] = ()
    operator: str = ""
    dtype: str = ""
    error_over_bound: float | None = None
    comparisons: int = 0
    warnings: list[str] = field(default_factory=list)
    unsupported: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    call: str = ""


_current = Record()


def begin(record: Record) -> Record:
    """Make a record the current one."""
    global _current
    _current = record
    return record


def current() -> Record:
    """Return the record of the case that runs; outside a case it is one that nobody reads."""
    return _current


_crumb: mmap.mmap | None = None


def share_breadcrumb(page: mmap.mmap | None) -> None:
    """Name the shared page that a parent process reads after this one died."""
    global _crumb
    _crumb = page


def breadcrumb(text: str) -> None:
    """Leave the name of the call that is about to be made where the parent can read it."""
    if _crumb is not None:
        _crumb[:BREADCRUMB_BYTES] = text.encode()[:BREADCRUMB_BYTES].ljust(BREADCRUMB_BYTES, b"\0")


_is_traced = False


def trace_calls(wanted: bool) -> None:
    """Print each call into the port from now on, or no longer."""
    global _is_traced
    _is_traced = wanted


def is_traced() -> bool:
    """Tell whether calls are printed."""
    return _is_traced
