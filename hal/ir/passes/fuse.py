"""Elementwise fusion: what a temp holds is computed where it is read.

A temp that one `=` statement writes is put into its readers where that costs less than the trip
through memory. Where the temp's type is narrower than the type it is computed in, a conversion
stands in its place, so that every rounding of the text stays (decision 0135).
"""

from __future__ import annotations

from dataclasses import replace

from hal.ir.analysis import compute_dtype, dtype_of, indices_of, inline_lets
from hal.ir.nodes import Access, Assign, Cast, Const, Expr, Kernel, NamedCall, transform
from hal.ir.passes.rewriting import (
    accesses,
    all_affine,
    cost,
    has_gather,
    is_elementwise,
    keep_extents,
    plain_indices,
    reads_of,
    rename,
    writes_of,
)

__all__ = ["RECOMPUTE_LIMIT", "fuse", "inline_temp"]

RECOMPUTE_LIMIT = 8
"""Operations of an element that may be done again rather than stored and loaded once."""


def fuse(kernel: Kernel) -> Kernel:
    """The kernel with each temp put into its readers that is worth it; first in first out."""
    kernel = inline_lets(kernel)
    for temp in kernel.arrays_of("temp"):
        writer = _only_writer(kernel, temp.name)
        if writer is not None and _is_worth_it(kernel, writer):
            kernel = inline_temp(kernel, temp.name) or kernel
    return kernel


def _only_writer(kernel: Kernel, temp: str) -> Assign | None:
    """The one `=` statement that writes a temp, None where there are others."""
    writers = [item for item in kernel.assigns if temp in writes_of(item)]
    return writers[0] if len(writers) == 1 and is_elementwise(writers[0]) else None


def _is_worth_it(kernel: Kernel, writer: Assign) -> bool:
    """One reader that needs each element once, or work so small that doing it again is cheaper."""
    temp = writer.target.array
    readers = [item for item in kernel.assigns if temp in reads_of(item)]
    if not readers:
        return False
    bare = isinstance(writer.value, Access | Const)
    if bare and not any(has_gather(access) for access in accesses(writer.value)):
        return True
    if any(_repeats(reader, temp) for reader in readers):
        return False
    return len(readers) == 1 or cost(writer.value) <= RECOMPUTE_LIMIT


def _repeats(reader: Assign, temp: str) -> bool:
    """True when a reader needs an element more than once: some index is not in its subscripts."""
    every = set(indices_of(reader.value)).union(*(indices_of(t) for t in reader.targets))
    found = [access for access in accesses(reader.value) if access.array == temp]
    return any(set(indices_of(access)) != every for access in found)


def inline_temp(kernel: Kernel, temp: str) -> Kernel | None:
    """The kernel with a temp's value in place of each load of it, and without the temp.

    Returns:
        None where that would change the meaning: an array that the value loads is written in
        between, a load has a `pad`, stands in a `concat` or would get a subscript that is not
        affine, or an index would lose its range or vanish from a sum.
    """
    writer = _only_writer(kernel, temp)
    if writer is None:
        return None
    if not _is_safe(kernel, writer):
        return None
    names = plain_indices(writer.target)
    assert names is not None
    value = _rounded(kernel, writer)
    for reader in kernel.assigns:
        if temp not in reads_of(reader):
            continue
        after = _put(reader, temp, names, value)
        if after is None:
            return None
        statements = tuple(after if item is reader else item for item in kernel.statements)
        bound = keep_extents(kernel, reader, after, replace(kernel, statements=statements))
        if bound is None:
            return None
        kernel = bound
    statements = tuple(item for item in kernel.statements if item is not writer)
    arrays = tuple(array for array in kernel.arrays if array.name != temp)
    return replace(kernel, statements=statements, arrays=arrays)


def _is_safe(kernel: Kernel, writer: Assign) -> bool:
    """True when the temp's value is the same at each of its readers as where it was written."""
    temp, loads = writer.target.array, reads_of(writer)
    seen = False
    changed: set[str] = set()
    for item in kernel.assigns:
        if item is writer:
            seen = True
            continue
        if temp in reads_of(item):
            if not seen or changed & loads or writes_of(item) & loads:
                return False
            if isinstance(item.value, NamedCall) and item.value.function == "concat":
                return False
        if seen:
            changed |= writes_of(item)
    return True


def _rounded(kernel: Kernel, writer: Assign) -> Expr:
    """The value as the temp would give it back: in its type, rounded to it."""
    dtype, value = kernel.array(writer.target.array).dtype, writer.value
    same = dtype_of(kernel, value) == dtype
    if same and (compute_dtype(dtype) == dtype or isinstance(value, Access | Cast)):
        return value
    return Cast(dtype, value)


def _put(reader: Assign, temp: str, names: tuple[str, ...], value: Expr) -> Assign | None:
    """The reader with the value in place of the temp, None where it cannot stand there."""
    reader_loads = [*accesses(reader.value)]
    for target in reader.targets:
        reader_loads += [a for subscript in target.indices for a in accesses(subscript)]
    if any(access.array == temp and access.pad is not None for access in reader_loads):
        return None

    def put(item: Expr) -> Expr:
        if not isinstance(item, Access) or item.array != temp:
            return item
        return rename(value, dict(zip(names, item.indices, strict=True)))

    changed = transform(reader.value, put)
    targets = []
    for target in reader.targets:
        indices = tuple(transform(subscript, put) for subscript in target.indices)
        targets.append(replace(target, indices=indices))
    after = replace(reader, targets=tuple(targets), value=changed)
    folds = reader.is_reduction or isinstance(reader.value, NamedCall)
    if folds and set(indices_of(changed)) != set(indices_of(reader.value)):
        return None  # an index that is summed over must be mentioned
    before_affine = all(all_affine(part) for part in (*reader.targets, reader.value))
    after_affine = all(all_affine(part) for part in (*after.targets, after.value))
    return after if after_affine or not before_affine else None
