"""Finds statements that share their rows: softmax, norms, cross-entropy are such groups.

    m[i] max= X[i, j]
    s[i] += exp(X[i, j] - m[i])
    Y[i, j] = exp(X[i, j] - m[i]) / s[i]

have the rows (i) and the columns (j). Every array that the group writes is written by one statement
and read by the group only in the same row and after that, so that a program that holds whole rows
needs no other program's results, and a row may be walked several times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hal.ir.analysis import index_extents, indices_of, reduced_indices
from hal.ir.nodes import Access, Assign, Expr, Index, Kernel, NamedCall
from hal.ir.passes.rewriting import (
    accesses,
    mentioned,
    plain_indices,
    reads_of,
    rename_statement,
    taken_names,
    unused_name,
    writes_of,
)

__all__ = ["RowGroup", "find_rows"]

MOST_DIGITS = 3
"""Indices that one tile axis can hold (docs/vil.md, section 1.4)."""


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Statements over the same rows and columns, under the same names of indices.

    Attributes:
        statements: The statements, renamed; each is FULL, ROW or a reduction (`kind`).
        originals: The same statements as they stand in the kernel.
        rows: Indices that every statement keeps, outermost first.
        columns: Indices that reductions sum over, outermost first.
        extents: Extent of each of them.
        kept: Arrays whose values are stored: outputs, inouts, and temps that others read.
    """

    statements: tuple[Assign, ...]
    originals: tuple[Assign, ...]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    extents: dict[str, Expr]
    kept: frozenset[str]

    def is_full(self, statement: Assign) -> bool:
        """The statement writes an element for each row and column."""
        return len(statement.target.indices) == len(self.rows) + len(self.columns)

    def is_reduction(self, statement: Assign) -> bool:
        """The statement combines along the columns."""
        return statement.is_reduction or isinstance(statement.value, NamedCall)

    @property
    def written(self) -> frozenset[str]:
        """All arrays that the group writes."""
        return frozenset(name for item in self.statements for name in writes_of(item))


@dataclass(frozen=True, slots=True)
class _Frame:
    """Names and extents of rows and columns, and where each written array has them."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    extents: dict[str, Expr]
    places: dict[str, tuple[str, ...]]  # written array -> canonical index of each dimension
    near: frozenset[str]  # arrays that are not in memory, so that their order is free


def find_rows(
    kernel: Kernel, statements: Sequence[Assign], *, near: frozenset[str] = frozenset()
) -> RowGroup | None:
    """The longest group that starts with the first of the statements (lets inlined).

    Args:
        near: Arrays that the program has in tiles, so that the order of their dimensions is free.

    Returns:
        None where there is no group of at least two statements with a reduction among them.
    """
    for seed in statements:
        frame = _frame(kernel, seed, near)
        if frame is not None:
            return _grown(kernel, statements, frame)
        if seed.is_reduction or isinstance(seed.value, NamedCall) or not _is_plain(seed):
            return None
    return None


def _is_plain(statement: Assign) -> bool:
    return len(statement.targets) == 1 and plain_indices(statement.target) is not None


def _frame(kernel: Kernel, seed: Assign, near: frozenset[str]) -> _Frame | None:
    """Rows and columns by a reduction: what it keeps and what it sums over."""
    if not _is_plain(seed) or not (seed.is_reduction or _is_arg(seed.value)):
        return None
    rows, columns = plain_indices(seed.target), reduced_indices(seed)
    extents = index_extents(kernel, seed)
    if rows is None or not columns or len(columns) > MOST_DIGITS or len(rows) > MOST_DIGITS:
        return None
    if any(name not in extents for name in (*rows, *columns)):
        return None
    if not any(set(rows) | set(columns) <= set(indices_of(a)) for a in accesses(seed.value)):
        return None  # a product of matrices: no operand has all rows
    taken = taken_names(kernel)
    new = {name: unused_name(f"{name}_", taken) for name in (*rows, *columns)}
    return _Frame(
        tuple(new[name] for name in rows),
        tuple(new[name] for name in columns),
        {new[name]: extents[name] for name in new},
        {},
        near,
    )


def _is_arg(value: Expr) -> bool:
    return isinstance(value, NamedCall) and value.function in ("argmax", "argmin")


def _grown(kernel: Kernel, statements: Sequence[Assign], frame: _Frame) -> RowGroup | None:
    """Takes statements while they fit the frame and touch what the group loads or stores."""
    taken: list[Assign] = []
    loads: set[str] = set()
    for item in statements:
        fitted = _fitted(kernel, item, frame)
        if fitted is None or not _is_safe(fitted, taken, frame):
            break
        touched = reads_of(item) | writes_of(item)
        if taken and not touched & (loads | set(frame.places)):
            break
        frame.places[fitted.target.array] = plain_indices(fitted.target) or ()
        loads |= reads_of(item)
        taken.append(fitted)
    return _group(kernel, statements[: len(taken)], taken, frame)


def _group(
    kernel: Kernel, originals: Sequence[Assign], taken: list[Assign], frame: _Frame
) -> RowGroup | None:
    group = RowGroup(
        tuple(taken),
        tuple(originals),
        frame.rows,
        frame.columns,
        frame.extents,
        _kept(kernel, originals),
    )
    if len(taken) < 2 or not any(group.is_reduction(item) for item in taken):
        return None
    return group


def _kept(kernel: Kernel, originals: Sequence[Assign]) -> frozenset[str]:
    """What must be in memory afterwards."""
    inside = {id(item) for item in originals}
    others = {n for item in kernel.assigns if id(item) not in inside for n in reads_of(item)}
    others |= {n for item in kernel.assigns if id(item) not in inside for n in writes_of(item)}
    written = {name for item in originals for name in writes_of(item)}
    return frozenset(n for n in written if n in others or kernel.array(n).role != "temp")


def _fitted(kernel: Kernel, item: Assign, frame: _Frame) -> Assign | None:
    """The statement under the frame's names; None where it has other rows or columns."""
    if not _is_plain(item) or (isinstance(item.value, NamedCall) and not _is_arg(item.value)):
        return None
    names = plain_indices(item.target) or ()
    reduced = reduced_indices(item)
    extents = index_extents(kernel, item)
    found = _by_reads(item, frame)
    if found is None:
        return None
    open_rows = [name for name in frame.rows if name not in found.values()]
    open_columns = [name for name in frame.columns if name not in found.values()]
    kept = [name for name in names if name not in found]
    if reduced:
        if len(names) != len(frame.rows) or set(reduced) & set(found) - _columns(found, frame):
            return None
        pairs = [*zip(kept, open_rows, strict=False)]
        rest = [name for name in reduced if name not in found]
        pairs += [*zip(rest, open_columns, strict=False)]
    elif len(names) == len(frame.rows):
        pairs = [*zip(kept, open_rows, strict=False)]
    elif len(names) == len(frame.rows) + len(frame.columns):
        pairs = [*zip(kept, [*open_rows, *open_columns], strict=False)]
    else:
        return None
    found |= dict(pairs)
    return _renamed(item, found, extents, frame)


def _columns(found: Mapping[str, str], frame: _Frame) -> set[str]:
    return {name for name, to in found.items() if to in frame.columns}


def _by_reads(item: Assign, frame: _Frame) -> dict[str, str] | None:
    """Names that follow from where the statement reads what the group wrote."""
    found: dict[str, str] = {}
    for access in accesses(item.value):
        places = frame.places.get(access.array)
        if places is None:
            continue
        names = plain_indices(access)
        if names is None or access.pad is not None:
            return None
        for name, place in zip(names, places, strict=True):
            if found.setdefault(name, place) != place:
                return None
    return found if len(set(found.values())) == len(found) else None


def _renamed(
    item: Assign, found: Mapping[str, str], extents: Mapping[str, Expr], frame: _Frame
) -> Assign | None:
    """The statement under new names, when they are complete and the ranges are the frame's."""
    every = mentioned(item)
    if isinstance(item.value, NamedCall):
        every.add(item.value.axis)
    if every - set(found) or len(set(found.values())) != len(found):
        return None
    if any(extents.get(name) != frame.extents[to] for name, to in found.items() if name in every):
        return None
    after = rename_statement(item, {name: Index(to) for name, to in found.items()})
    target = set(plain_indices(after.target) or ())
    reduced = set(reduced_indices(after))
    if reduced and (target != set(frame.rows) or reduced != set(frame.columns)):
        return None
    if item.is_reduction and not reduced:
        return None
    if not reduced and target not in (set(frame.rows), {*frame.rows, *frame.columns}):
        return None
    if len(target) > len(frame.rows) or reduced:
        return after if _has_columns(after, frame) else None
    return after


def _has_columns(item: Assign, frame: _Frame) -> bool:
    """Some operand is loaded along all columns, and none (nor the target) runs across them.

    The first makes the valid columns of its tile right, the second keeps transfers contiguous.
    """
    columns = set(frame.columns)
    loads = list(accesses(item.value))
    if any(_is_across(access, frame) for access in (item.target, *loads)):
        return False
    return any(columns <= set(indices_of(access)) for access in loads)


def _is_across(access: Access, frame: _Frame) -> bool:
    """Elements that are neighbours in memory lie in different rows of the group."""
    if access.array in frame.near or not access.indices:
        return False
    if not set(frame.columns) & set(indices_of(access)):
        return False
    return bool(set(frame.rows) & set(indices_of(access.indices[-1])))


def _is_safe(item: Assign, taken: Sequence[Assign], frame: _Frame) -> bool:
    """True when the rows of a program meet no other program's: see the module's text."""
    target = item.target
    if target.array in frame.places:
        return False  # a second write
    whole = len(target.indices) == len(frame.rows) + len(frame.columns)
    for other in (*taken, item):
        for access in accesses(other.value):
            same = access.array == target.array
            if same and (whole or access.indices != target.indices or access.pad is not None):
                return False  # loaded before it is written: a second walk would see the new value
    for access in accesses(item.value):
        places = frame.places.get(access.array)
        if places is not None and plain_indices(access) != places:
            return False
    return True
