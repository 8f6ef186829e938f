"""Dead code: lets, temps, statements and declared ranges that nothing uses."""

from __future__ import annotations

from dataclasses import replace

from hal.ir.nodes import Assign, Expr, Kernel, Let, LetRef, Statement, walk
from hal.ir.passes.rewriting import mentioned, reads_of, writes_of

__all__ = ["remove_dead_code"]


def remove_dead_code(kernel: Kernel) -> Kernel:
    """The kernel without what no output depends on. Inputs stay: they are its signature.

    What is live follows from the end: outputs and inouts, then all that their statements load.
    """
    live = {array.name for array in kernel.arrays_of("output", "inout")}
    while True:
        found = {n for item in kernel.assigns if writes_of(item) & live for n in reads_of(item)}
        found |= {n for name in _lets_of_live(kernel, live) for n in reads_of(_let(kernel, name))}
        if found <= live:
            break
        live |= found
    lets = _lets_of_live(kernel, live)
    statements = tuple(
        item
        for item in kernel.statements
        if (item.name in lets if isinstance(item, Let) else writes_of(item) & live)
    )
    used = {name for item in statements for name in reads_of(item) | writes_of(item)}
    arrays = tuple(a for a in kernel.arrays if a.role != "temp" or a.name in used)
    names = {name for item in statements for name in mentioned(item)}
    extents = tuple(item for item in kernel.extents if item.name in names)
    return replace(kernel, statements=statements, arrays=arrays, extents=extents)


def _let(kernel: Kernel, name: str) -> Let:
    return next(i for i in kernel.statements if isinstance(i, Let) and i.name == name)


def _lets_of_live(kernel: Kernel, live: set[str]) -> set[str]:
    """Names of the lets that the statements into live arrays need."""
    found: set[str] = set()
    for item in reversed(kernel.statements):  # a let sees only those before it
        if isinstance(item, Let):
            found |= _lets(item) if item.name in found else set()
        elif writes_of(item) & live:
            found |= _lets(item)
    return found


def _lets(item: Statement) -> set[str]:
    roots: list[Expr] = [item.value]
    if isinstance(item, Assign):
        roots += item.targets
    return {part.name for root in roots for part in walk(root) if isinstance(part, LetRef)}
