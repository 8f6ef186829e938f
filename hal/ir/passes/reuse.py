"""Common subexpressions: two temps with one meaning become one, a repeated part gets a name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from hal.ir.analysis import inline_lets
from hal.ir.nodes import (
    Access,
    Assign,
    Call,
    Cast,
    Expr,
    Index,
    Kernel,
    Let,
    LetRef,
    Statement,
    children,
    transform,
    walk,
)
from hal.ir.passes.rewriting import (
    cost,
    plain_indices,
    reads_of,
    rename_statement,
    taken_names,
    unused_name,
    writes_of,
)

__all__ = ["merge_temps", "name_repeated_parts", "reuse"]

Put = Callable[[Expr, str], Expr]

WORTH_A_NAME = 3
"""Smallest cost of a part that gets a name when it stands twice in a statement."""


def reuse(kernel: Kernel) -> Kernel:
    """The kernel with each meaning computed once."""
    return name_repeated_parts(merge_temps(inline_lets(kernel)))


def merge_temps(kernel: Kernel) -> Kernel:
    """Temps that are written alike, up to the names of indices, become the first of them."""
    first: dict[str, str] = {}
    for temp in [array.name for array in kernel.arrays_of("temp")]:
        meaning = _meaning(kernel, temp)
        if meaning is None:
            continue
        other = first.setdefault(meaning, temp)
        if other != temp and not _changed_between(kernel, other, temp):
            kernel = _merged(kernel, other, temp)
    return kernel


def _meaning(kernel: Kernel, temp: str) -> str | None:
    """What a temp holds, as text that does not depend on names of indices; None: not simple."""
    writers = [item for item in kernel.assigns if temp in writes_of(item)]
    if len(writers) != 1 or len(writers[0].targets) != 1 or temp in reads_of(writers[0]):
        return None
    names = plain_indices(writers[0].target)
    declared = {item.name for item in kernel.extents}
    mentioned = {i.name for i in walk(writers[0].value) if isinstance(i, Index)}
    if names is None or mentioned & declared:  # a declared range belongs to its name
        return None
    order = dict.fromkeys(
        [*names, *(i.name for i in walk(writers[0].value) if isinstance(i, Index))]
    )
    numbered = {name: Index(f"${place}") for place, name in enumerate(order)}
    item = rename_statement(writers[0], numbered)
    array = kernel.array(temp)
    return repr((array.dtype, array.shape, item.assignment, item.target.indices, item.value))


def _changed_between(kernel: Kernel, kept: str, gone: str) -> bool:
    """True when what the two temps load changes between their statements, or `kept` is late."""
    items = kernel.assigns
    places = [n for n, item in enumerate(items) if writes_of(item) & {kept, gone}]
    if kept not in writes_of(items[places[0]]):
        return True
    loads = reads_of(items[places[0]])
    return any(writes_of(item) & loads for item in items[places[0] + 1 : places[1]])


def _merged(kernel: Kernel, kept: str, gone: str) -> Kernel:
    def put(item: Expr) -> Expr:
        return (
            replace(item, array=kept) if isinstance(item, Access) and item.array == gone else item
        )

    statements = []
    for item in kernel.assigns:
        if gone in writes_of(item):
            continue
        targets = tuple(t for t in (transform(t, put) for t in item.targets))
        kept_targets = tuple(t for t in targets if isinstance(t, Access))
        statements.append(replace(item, targets=kept_targets, value=transform(item.value, put)))
    arrays = tuple(array for array in kernel.arrays if array.name != gone)
    return replace(kernel, statements=tuple(statements), arrays=arrays)


def name_repeated_parts(kernel: Kernel) -> Kernel:
    """Each largest part that stands twice in one value, and costs something, becomes a let."""
    taken = taken_names(kernel)
    statements: list[Statement] = []
    for item in kernel.assigns:
        lets, changed = _named(item, taken)
        statements += [*lets, changed]
    return replace(kernel, statements=tuple(statements))


def _named(item: Assign, taken: set[str]) -> tuple[list[Let], Assign]:
    counts: Counter[str] = Counter()
    _count(item.value, counts)
    names: dict[str, str] = {}
    lets: list[Let] = []

    def put(expr: Expr, original: str) -> Expr:
        if counts[original] < 2 or not isinstance(expr, Call | Cast) or expr is item.value:
            return expr
        if original not in names:
            names[original] = unused_name("part", taken)
            lets.append(Let(names[original], expr))
        return LetRef(names[original])

    value = _transform_named(item.value, put)
    return lets, replace(item, value=value)


def _count(expr: Expr, counts: Counter[str]) -> None:
    """Count the parts that are worth a name; below a repeated part, its own parts count once."""
    if isinstance(expr, Call | Cast) and cost(expr) >= WORTH_A_NAME:
        key = repr(expr)
        counts[key] += 1
        if counts[key] > 1:
            return
    for child in () if isinstance(expr, Access) else children(expr):
        _count(child, counts)


def _transform_named(expr: Expr, put: Put) -> Expr:
    """As `transform`, but `put` also gets the text of the part before the change."""
    original = repr(expr)
    if isinstance(expr, Call):
        operands = tuple(_transform_named(part, put) for part in expr.operands)
        expr = replace(expr, operands=operands)
    elif isinstance(expr, Cast):
        expr = replace(expr, operand=_transform_named(expr.operand, put))
    return put(expr, original)
