"""Which functions of a vendor's runtime may serve which of a port's methods: a guess by names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Row", "worksheet"]

_SIGNS: dict[str, tuple[str, ...]] = {
    "start": ("init", "initialize", "platform get|ids", "driver init|open"),
    "device_count, device_name": ("device count|get|ids|info|name|open",),
    "alloc": ("malloc", "alloc|allocate", "create buffer", "memory create|new", "mem create|new"),
    "free": ("free", "release mem|memory|buffer", "destroy mem|memory|buffer"),
    "write, read, copy": ("memcpy", "copy", "write buffer", "read buffer", "map buffer"),
    "fill": ("memset", "fill buffer|memory|mem"),
    "stream": ("create|destroy|release|wait queue|stream", "finish|flush", "stream synchronize"),
    "event": ("create|record|wait|query|release event", "event elapsed|status"),
    "module": ("load|create|build|unload module|program", "get|create function|kernel"),
    "launch": ("launch", "enqueue kernel|range", "set arg"),
    "errors": ("error string|name|text", "last error"),
}
"""Method of hal.testing.PythonPort, or table of the ABI, to words that such functions have.

Words of one sign may stand in any order; `a|b` is either.
"""


@dataclass(frozen=True)
class Row:
    """A method or a table, and functions whose names speak of it.

    Attributes:
        what: A method of PythonPort, or an interface of the ABI.
        functions: Names, in the header's order.
    """

    what: str
    functions: tuple[str, ...]


def worksheet(functions: Iterable[str]) -> list[Row]:
    """Sort functions by what their names say; one may stand in several rows or in none."""
    split = [(name, _words(name)) for name in functions]
    rows = []
    for what, signs in _SIGNS.items():
        found = [name for name, words in split if any(_has(words, sign) for sign in signs)]
        if found:
            rows.append(Row(what, tuple(found)))
    return rows


def _words(name: str) -> set[str]:
    """`clEnqueueReadBuffer` and `acme_read_buffer` have the words enqueue, read, buffer."""
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)
    words = {part.lower() for part in parts}
    return words | {word.removesuffix("s") for word in words}


def _has(words: set[str], sign: str) -> bool:
    groups = [set(group.split("|")) for group in sign.split()]
    return all(words & group for group in groups)
