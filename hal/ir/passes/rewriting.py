"""What the passes share: who reads and writes what, substitution of indices, new names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from hal.ir.analysis import affine, index_extents
from hal.ir.nodes import (
    Access,
    Assign,
    Call,
    Cast,
    Expr,
    Extent,
    Index,
    Kernel,
    Let,
    NamedCall,
    transform,
    walk,
)

__all__ = [
    "accesses",
    "all_affine",
    "cost",
    "has_gather",
    "is_elementwise",
    "keep_extents",
    "mentioned",
    "plain_indices",
    "reads_of",
    "rename",
    "rename_statement",
    "taken_names",
    "unused_name",
    "writes_of",
]

_COSTS = dict.fromkeys(["div", "sqrt", "rsqrt", "rcp", "idiv", "imod", "fmod"], 4)
_COSTS |= dict.fromkeys("exp exp2 log log2 sin cos tanh erf pow".split(), 12)
_COSTS |= {"philox": 24}
_GATHER_COST = 4


def cost(expr: Expr) -> int:
    """Work of one element in simple operations; a load counts 1, a gathered one 4."""
    total = 0
    for item in walk(expr):
        if isinstance(item, Call):
            total += _COSTS.get(item.function, 1)
        elif isinstance(item, Access):
            total += _GATHER_COST if has_gather(item) else 1
        elif isinstance(item, Cast):
            total += 1
    return total


def accesses(expr: Expr) -> Iterator[Access]:
    """Every access below an expression, itself included."""
    return (item for item in walk(expr) if isinstance(item, Access))


def has_gather(access: Access) -> bool:
    """True when a subscript holds a loaded value."""
    return any(True for subscript in access.indices for _ in accesses(subscript))


def reads_of(item: Assign | Let) -> set[str]:
    """Names of the arrays that a statement loads, subscripts of its targets included."""
    found = {access.array for access in accesses(item.value)}
    if isinstance(item, Assign):
        for target in item.targets:
            found |= {a.array for subscript in target.indices for a in accesses(subscript)}
    return found


def writes_of(item: Assign | Let) -> set[str]:
    """Names of the arrays that a statement stores to."""
    return {target.array for target in item.targets} if isinstance(item, Assign) else set()


def plain_indices(access: Access) -> tuple[str, ...] | None:
    """Names of the subscripts when all are bare and distinct indices, else None."""
    names = tuple(item.name for item in access.indices if isinstance(item, Index))
    whole = len(names) == len(access.indices) and len(set(names)) == len(names)
    return names if whole else None


def is_elementwise(statement: Assign) -> bool:
    """True for `T[i, j] = value` with one target at bare, distinct indices and no named call."""
    return (
        statement.assignment == "="
        and len(statement.targets) == 1
        and not isinstance(statement.value, NamedCall)
        and plain_indices(statement.target) is not None
    )


def rename(expr: Expr, values: Mapping[str, Expr]) -> Expr:
    """The expression with each index put by its value, all at once."""

    def put(item: Expr) -> Expr:
        return values.get(item.name, item) if isinstance(item, Index) else item

    changed = transform(expr, put)
    if isinstance(changed, NamedCall) and changed.axis in values:
        axis = values[changed.axis]
        assert isinstance(axis, Index)
        changed = replace(changed, axis=axis.name)
    return changed


def rename_statement(statement: Assign, values: Mapping[str, Expr]) -> Assign:
    """The statement with each index put by its value."""
    targets = []
    for target in statement.targets:
        changed = rename(target, values)
        assert isinstance(changed, Access)
        targets.append(changed)
    return replace(statement, targets=tuple(targets), value=rename(statement.value, values))


def taken_names(kernel: Kernel) -> set[str]:
    """Every name that a new one must not repeat."""
    names = set(kernel.params) | {array.name for array in kernel.arrays}
    names |= {item.name for item in kernel.scalars} | {item.name for item in kernel.extents}
    for item in kernel.statements:
        names |= mentioned(item)
        if isinstance(item, Let):
            names.add(item.name)
    return names


def unused_name(stem: str, taken: set[str]) -> str:
    """`stem`, or `stem1`, `stem2` …: the first that is not taken; it is taken from then on."""
    name, count = stem, 0
    while name in taken:
        count += 1
        name = f"{stem}{count}"
    taken.add(name)
    return name


def all_affine(expr: Expr) -> bool:
    """True when each subscript below the expression is an affine one."""
    return all(
        affine(subscript) is not None for item in accesses(expr) for subscript in item.indices
    )


def keep_extents(kernel: Kernel, before: Assign, after: Assign, changed: Kernel) -> Kernel | None:
    """Bind what the change of a statement left unbound.

    Args:
        kernel: The kernel in which `before` stands; `changed` holds `after` in its place.

    Returns:
        `changed`, where an index of `after` whose range would differ from that in `before` has got
        a new name with a declared extent; None where that cannot be done (the index is one of a
        named call's axes and its range came from what is gone).
    """
    old, new = index_extents(kernel, before), index_extents(changed, after)
    lost = {name: size for name, size in old.items() if new.get(name) != size}
    lost = {name: size for name, size in lost.items() if name in mentioned(after)}
    if not lost:
        return changed
    if isinstance(after.value, NamedCall):
        return None
    declared = {item.name: item.size for item in changed.extents}
    taken = taken_names(changed)
    names, extents = {}, list(changed.extents)
    for name, size in lost.items():
        if declared.get(name) == size:
            continue
        names[name] = Index(unused_name(name, taken))
        extents.append(Extent(names[name].name, size))
    fixed = rename_statement(after, names)
    statements = tuple(fixed if item is after else item for item in changed.statements)
    return replace(changed, statements=statements, extents=tuple(extents))


def mentioned(item: Assign | Let) -> set[str]:
    """Names of all indices of a statement."""
    parts: list[Expr] = [item.value]
    if isinstance(item, Assign):
        parts += item.targets
    return {part.name for root in parts for part in walk(root) if isinstance(part, Index)}
