"""Finds attention by its structure: a product, weights that sum to one over its columns, a product.

    S[i, j] += Q[i, d] * K[j, d]
    m[i] max= f(S[i, j])
    l[i] += exp(f(S[i, j]) - m[i])
    P[i, j] = exp(f(S[i, j]) - m[i]) / l[i]
    O[i, e] += P[i, j] * V[j, e]

f is any elementwise expression (a scale, a mask, a bias); names, batches and the temps between are
free. Neither S nor P is needed afterwards, so neither has to reach memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hal.codegen.product_match import Product, find
from hal.codegen.rows_match import RowGroup, find_rows
from hal.codegen.rows_walk import walks
from hal.ir.analysis import compute_dtype, indices_of, reduced_indices
from hal.ir.nodes import Access, Assign, Call, Cast, Const, Expr, Index, Kernel, transform
from hal.ir.passes.rewriting import (
    accesses,
    mentioned,
    plain_indices,
    reads_of,
    rename_statement,
    unused_name,
    writes_of,
)

__all__ = ["Attention", "find_attention"]


@dataclass(frozen=True, slots=True)
class Attention:
    """Statements as attention; all under the names of one group of rows.

    Attributes:
        originals: The statements as they stand in the kernel.
        scores: The first product.
        queries, keys: Its sides.
        raw: The access that stands for the sum of the first product.
        score: f of the raw sum: what the maximum is taken of.
        top, total: Statements of the maximum and of the sum of the exponentials.
        ends: Other statements of one element a row, in order; they may read both.
        output: The second product; `values` is its side without the weights.
        batch: Rows that a program holds fixed, outermost first.
        rows: Rows of the tiles.
        column: The index that the weights are summed over.
        inner: Indices that the first product sums over.
        wide: Indices of the output that the values bring.
        kept: Arrays of one element a row that are stored.
        extents: Extent of each index.
    """

    originals: tuple[Assign, ...]
    scores: Product
    queries: Expr
    keys: Expr
    raw: Access
    score: Expr
    top: Assign
    total: Assign
    ends: tuple[Assign, ...]
    output: Product
    values: Expr
    batch: tuple[str, ...]
    rows: tuple[str, ...]
    column: str
    inner: tuple[str, ...]
    wide: tuple[str, ...]
    kept: frozenset[str]
    extents: dict[str, Expr]


@dataclass(frozen=True, slots=True)
class _Weights:
    """What the statements between the products compute."""

    score: Expr
    top: Assign
    total: Assign
    ends: tuple[Assign, ...]
    weights: Assign
    normalised: bool


def find_attention(kernel: Kernel, statements: Sequence[Assign]) -> Attention | None:
    """Attention at the head of the statements (lets inlined), or None."""
    if len(statements) < 5 or kernel.extents:
        return None
    first = find(kernel, statements[0])
    near = frozenset({statements[0].target.array})
    group = find_rows(kernel, statements[1:], near=near) if first is not None else None
    if group is None or len(group.columns) != 1:
        return None
    place = 1 + len(group.statements)
    if len(statements) <= place:
        return None
    used = statements[: place + 1]
    raw = _only_access(group, statements[0].target.array)
    found = _weights(kernel, group, raw) if raw is not None else None
    if raw is None or found is None or not _are_private(kernel, used, group, found):
        return None
    taken = {*group.rows, *group.columns}
    scores = _scores(kernel, statements[0], raw, taken)
    output = _output(kernel, used[-1], found.weights.target, taken)
    if scores is None or output is None:
        return None
    return _put_together(kernel, used, group, raw, found, scores, output)


def _only_access(group: RowGroup, array: str) -> Access | None:
    """The one place where the group reads an array, at its own rows and column."""
    found = {a for item in group.statements for a in accesses(item.value) if a.array == array}
    if len(found) != 1:
        return None
    (access,) = found
    names = plain_indices(access)
    whole = names is not None and set(names) == {*group.rows, *group.columns}
    return access if whole and access.pad is None else None


def _weights(kernel: Kernel, group: RowGroup, raw: Access) -> _Weights | None:
    """Maximum, sum of exponentials and weights among the statements of the group."""
    levels = walks(kernel, group)
    if len(levels) < 3 or len(levels) > 4:
        return None
    tops, totals = levels[1].reductions, levels[2].reductions
    stores = [item for level in levels for item in level.stores]
    if len(tops) != 1 or len(totals) != 1 or len(stores) != 1 or levels[0].after:
        return None
    if any(level.reductions for level in levels[3:]) or levels[1].after:
        return None
    top, total, weights = tops[0], totals[0], stores[0]
    if (top.assignment, total.assignment) != ("max=", "+="):
        return None
    power = Call("exp", (Call("sub", (top.value, top.target)),))
    if total.value != power or raw not in set(accesses(top.value)):
        return None
    normalised = _weight_kind(weights.value, power, total.target)
    if normalised is None:
        return None
    wide = (top, total, weights)
    dtypes = [kernel.array(item.target.array).dtype for item in wide[:2]]
    if any(compute_dtype(dtype) != dtype for dtype in dtypes):
        return None
    ends = tuple(item for level in levels[2:] for item in level.after)
    return _Weights(top.value, top, total, ends, weights, normalised)


def _weight_kind(value: Expr, power: Expr, total: Access) -> bool | None:
    """True: power / total; False: power alone; None: something else."""
    while isinstance(value, Cast) and value.dtype.is_float:
        value = value.operand
    if value == power:
        return False
    inverse = Call("rcp", (total,))
    forms = [
        Call("div", (power, total)),
        Call("mul", (power, inverse)),
        Call("mul", (inverse, power)),
        Call("mul", (power, Call("div", (Const(1), total)))),
        Call("mul", (Call("div", (Const(1), total)), power)),
    ]
    return True if value in forms else None


def _are_private(kernel: Kernel, used: Sequence[Assign], group: RowGroup, found: _Weights) -> bool:
    """S and P are temps that no other statement reads or writes."""
    inside = {id(item) for item in used}
    others = [item for item in kernel.assigns if id(item) not in inside]
    outside = {name for item in others for name in reads_of(item) | writes_of(item)}
    temps = [used[0].target.array, found.weights.target.array]
    if any(kernel.array(name).role != "temp" or name in outside for name in temps):
        return False
    score = kernel.array(used[0].target.array).dtype
    written = {name for item in used for name in writes_of(item)}
    loaded = {name for item in (used[0], used[-1]) for name in reads_of(item)}
    overwritten = used[-1].target.array in {n for item in used for n in reads_of(item)}
    strangers = loaded & written - set(temps) - {found.total.target.array}
    return compute_dtype(score) == score and not overwritten and not strangers


def _scores(kernel: Kernel, item: Assign, raw: Access, taken: set[str]) -> Product | None:
    """The first product under the names of the group."""
    names = plain_indices(item.target)
    to = plain_indices(raw)
    if names is None or to is None:
        return None
    return _renamed_product(kernel, item, dict(zip(names, to, strict=True)), taken)


def _output(kernel: Kernel, item: Assign, weights: Access, taken: set[str]) -> Product | None:
    """The second product under the names of the group; it reads the weights once."""
    found = [access for access in accesses(item.value) if access.array == weights.array]
    to = plain_indices(weights)
    names = plain_indices(found[0]) if len(found) == 1 else None
    if names is None or to is None or found[0].pad is not None:
        return None
    return _renamed_product(kernel, item, dict(zip(names, to, strict=True)), taken)


def _renamed_product(
    kernel: Kernel, item: Assign, names: Mapping[str, str], taken: set[str]
) -> Product | None:
    """The product in a statement; indices without a new name get one that is not taken."""
    new = {name: Index(to) for name, to in names.items()}
    for name in sorted(mentioned(item) - set(names)):
        new[name] = Index(unused_name(f"{name}_", taken))
    product = find(kernel, rename_statement(item, new))
    return None if product is None or product.folded else product


def _put_together(
    kernel: Kernel,
    used: Sequence[Assign],
    group: RowGroup,
    raw: Access,
    found: _Weights,
    scores: Product,
    output: Product,
) -> Attention | None:
    column = group.columns[0]
    sides = (scores.left, scores.right)
    if (column in indices_of(sides[0])) == (column in indices_of(sides[1])):
        return None
    queries, keys = sides if column in indices_of(sides[1]) else (sides[1], sides[0])
    values = _values_of(output, found.weights.target)
    if values is None or reduced_indices(output.statement) != (column,):
        return None
    batch = tuple(name for name in group.rows if name in indices_of(keys))
    rows = tuple(name for name in group.rows if name not in batch)
    target = plain_indices(output.target)
    if target is None or not rows or set(rows) & set(indices_of(values)):
        return None
    wide = tuple(name for name in target if name not in group.rows)
    if not set(group.rows) <= set(target) or not 0 < len(wide) <= 3:
        return None
    if not (found.normalised or found.total.target in output.divisors):
        return None
    if any(set(indices_of(part)) - {*group.rows, *wide} for part in _scales(output)):
        return None
    kept = group.kept - {found.weights.target.array}
    if found.normalised:
        output = replace(output, divisors=(*output.divisors, found.total.target))
    score = _scored(found.score, raw, scores)
    return Attention(
        tuple(used),
        scores,
        queries,
        keys,
        raw,
        score,
        found.top,
        found.total,
        found.ends,
        output,
        values,
        batch,
        rows,
        column,
        scores.inner,
        wide,
        frozenset(kept),
        group.extents | scores.extents | output.extents,
    )


def _scales(output: Product) -> tuple[Expr, ...]:
    return (*output.factors, *output.divisors)


def _values_of(output: Product, weights: Access) -> Expr | None:
    """The side that is multiplied with the weights as they are."""
    for side, other in ((output.left, output.right), (output.right, output.left)):
        core = side
        while isinstance(core, Cast) and core.dtype.is_float:
            core = core.operand
        if isinstance(core, Access) and core == weights:
            return other
    return None


def _scored(score: Expr, raw: Access, scores: Product) -> Expr:
    """f of the sum times the factors of the first product."""
    whole: Expr = raw
    for factor in scores.factors:
        whole = Call("mul", (whole, factor))
    for divisor in scores.divisors:
        whole = Call("div", (whole, divisor))
    return transform(score, lambda item: whole if item == raw else item)
