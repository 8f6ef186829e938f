"""Names of the C ABI for cases: statuses, constants, functions and rules, as generated."""

from hal._generated.constants import (
    ABI_MAJOR,
    ABI_MINOR,
    Argument,
    Clock,
    Copy,
    CopyFlag,
    Dtype,
    EventFlag,
    KernelInfo,
    MemoryFlag,
    MemoryValid,
    Peer,
    PortInfo,
    Profile,
    Reduce,
    Status,
)
from hal._generated.functions import FUNCTIONS, INTERFACES, Function
from hal._generated.rules import RULES, Rule

__all__ = [
    "ABI_MAJOR",
    "ABI_MINOR",
    "FUNCTIONS",
    "FUNCTION_BY_CALL",
    "INTERFACES",
    "RULES",
    "RULE_BY_ID",
    "Argument",
    "Clock",
    "Copy",
    "CopyFlag",
    "Dtype",
    "EventFlag",
    "Function",
    "KernelInfo",
    "MemoryFlag",
    "MemoryValid",
    "Peer",
    "PortInfo",
    "Profile",
    "Reduce",
    "Rule",
    "Status",
    "status_name",
]

FUNCTION_BY_CALL: dict[str, Function] = {function.call: function for function in FUNCTIONS}
"""Functions by `interface.verb`, in the registry's order."""

RULE_BY_ID: dict[str, Rule] = {rule.id: rule for rule in RULES}
"""Rules by id."""

_NAMES = {int(status): status.name for status in Status}


def status_name(status: int) -> str:
    """Return the name of a status, or say that it is none."""
    return _NAMES.get(status, f"no status ({status})")
