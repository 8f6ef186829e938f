"""Finds attention by its structure: a product, weights that sum to one over its columns, a product.

    S[i, j] += Q[i, d] * K[j, d]
    m[i] max= f(S[i, j])
    l[i] += exp(f(S[i, j]) - m[i])
    P[i, j] = exp(f(S[i, j]) - m[i]) / l[i]
    O[i, e] += P[i, j] * V[j, e]

f is any elementwise expression (a scale, a mask, a bias); names, batches and the temps between are
free, and the division may come after the second product, in it or before it. Neither S nor P is
needed afterwards, so neither has to reach memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hal.codegen import product_epilogue
from hal.codegen.product_match import Product, find
from hal.codegen.rows_match import RowGroup, find_rows
from hal.codegen.rows_walk import walks
from hal.ir.analysis import compute_dtype, indices_of, reduced_indices
from hal.ir.nodes import (
    Access,
    Assign,
    Call,
    Cast,
    Const,
    Expr,
    Index,
    Kernel,
    children,
    transform,
    walk,
)
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
        epilogue: Statements for each element of the output that follow.
        stores: The output itself is needed in memory.
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
    epilogue: tuple[Assign, ...]
    stores: bool
    batch: tuple[str, ...]
    rows: tuple[str, ...]
    column: str
    inner: tuple[str, ...]
    wide: tuple[str, ...]
    kept: frozenset[str]
    extents: dict[str, Expr]


@dataclass(frozen=True, slots=True)
class _Weights:
    """What the statements between the products compute.

    Attributes:
        power: The exponential.
        stored: The statement that sets a temp to the weights; None where there is none.
        normalised: What it sets is divided by the total already.
    """

    power: Expr
    top: Assign
    total: Assign
    ends: tuple[Assign, ...]
    stored: Assign | None
    normalised: bool


def find_attention(kernel: Kernel, statements: Sequence[Assign]) -> Attention | None:
    """Attention at the head of the statements (lets inlined), or None."""
    if len(statements) < 4 or find(kernel, statements[0]) is None:
        return None
    near = frozenset({statements[0].target.array})
    group = find_rows(kernel, statements[1:], near=near)
    if group is None or len(group.columns) != 1:
        return None
    place = 1 + len(group.statements)
    if len(statements) <= place:
        return None
    raw = _only_access(group, statements[0].target.array)
    weights = _weights(kernel, group, raw) if raw is not None else None
    if raw is None or weights is None:
        return None
    taken = {*group.rows, *group.columns}
    places = {raw.array: raw}
    scores = _renamed_product(kernel, statements[0], raw, statements[0].target, taken)
    if weights.stored is not None:
        places[weights.stored.target.array] = weights.stored.target
    output = _output(kernel, statements[place], places, taken)
    if scores is None or output is None:
        return None
    epilogue = product_epilogue.find(kernel, output, statements[place + 1 :])
    used = statements[: place + 1 + len(epilogue.statements)]
    if not _is_closed(kernel, used, place, weights, raw):
        return None
    return _put_together(kernel, used, group, raw, weights, scores, output, epilogue)


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
    if not 3 <= len(levels) <= 4 or levels[0].after or levels[1].after:
        return None
    tops, totals = levels[1].reductions, levels[2].reductions
    stores = [item for level in levels for item in level.stores]
    later = [item for level in (levels[0], *levels[3:]) for item in level.reductions]
    if len(tops) != 1 or len(totals) != 1 or len(stores) > 1 or later:
        return None
    top, total = tops[0], totals[0]
    if (top.assignment, total.assignment) != ("max=", "+="):
        return None
    power = Call("exp", (Call("sub", (top.value, top.target)),))
    if total.value != power or raw not in set(accesses(top.value)):
        return None
    kinds = [kernel.array(item.target.array).dtype for item in (top, total)]
    if any(compute_dtype(dtype) != dtype for dtype in kinds):
        return None
    stored = stores[0] if stores else None
    normalised = _is_normalised(stored.value, power, total.target) if stored else False
    if normalised is None:
        return None
    ends = tuple(item for level in levels[2:] for item in level.after)
    return _Weights(power, top, total, ends, stored, normalised)


def _is_normalised(value: Expr, power: Expr, total: Access) -> bool | None:
    """True: power / total; False: power alone; None: something else."""
    value = _core(value)
    if value == power:
        return False
    inverses = [Call("rcp", (total,)), Call("div", (Const(1), total))]
    forms = [Call("div", (power, total))]
    forms += [Call("mul", pair) for x in inverses for pair in ((power, x), (x, power))]
    return True if value in forms else None


def _core(value: Expr) -> Expr:
    """The value below conversions to floats."""
    while isinstance(value, Cast) and value.dtype.is_float:
        value = value.operand
    return value


def _is_closed(
    kernel: Kernel, used: Sequence[Assign], place: int, weights: _Weights, raw: Access
) -> bool:
    """No other statement needs the scores and weights, and no program what another one writes.

    Args:
        place: Position of the second product in `used`.
    """
    outside = _outside(kernel, used)
    score = kernel.array(raw.array)
    private = [score] + ([kernel.array(weights.stored.target.array)] if weights.stored else [])
    if any(array.role != "temp" or array.name in outside for array in private):
        return False
    written = {name for item in used for name in writes_of(item)}
    ends = {name for item in used[place:] for name in writes_of(item)}
    before = {name for item in used[: place + 1] for name in reads_of(item)}
    allowed = {array.name for array in private}
    allowed |= {weights.top.target.array, weights.total.target.array}
    products = reads_of(used[0]) | reads_of(used[place])
    strangers = products & written - allowed
    return compute_dtype(score.dtype) == score.dtype and not ends & before and not strangers


def _outside(kernel: Kernel, used: Sequence[Assign]) -> set[str]:
    """Arrays that the other statements read or write."""
    inside = {id(item) for item in used}
    others = [item for item in kernel.assigns if id(item) not in inside]
    return {name for item in others for name in reads_of(item) | writes_of(item)}


def _output(
    kernel: Kernel, item: Assign, places: Mapping[str, Access], taken: set[str]
) -> Product | None:
    """The second product under the names of the group; it reads scores or weights at one place."""
    found = {access for access in accesses(item.value) if access.array in places}
    if len({access.array for access in found}) != len(found) or not found:
        return None
    access = next(iter(found))
    product = _renamed_product(kernel, item, places[access.array], access, taken)
    if product is None:
        return None
    renamed = {a for a in accesses(product.statement.value) if a.array in places}
    return product if all(a == places[a.array] for a in renamed) else None


def _renamed_product(
    kernel: Kernel, item: Assign, to: Access, access: Access, taken: set[str]
) -> Product | None:
    """The product in a statement, named so that `access` becomes `to`; other indices get new names.

    None where it is no product, or a declared range belongs to one of its names.
    """
    names, wanted = plain_indices(access), plain_indices(to)
    declared = {extent.name for extent in kernel.extents}
    if names is None or wanted is None or access.pad is not None or declared & mentioned(item):
        return None
    new = {name: Index(other) for name, other in zip(names, wanted, strict=True)}
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
    epilogue: product_epilogue.Epilogue,
) -> Attention | None:
    column = group.columns[0]
    sides = (scores.left, scores.right)
    if (column in indices_of(sides[0])) == (column in indices_of(sides[1])):
        return None
    queries, keys = sides if column in indices_of(sides[1]) else (sides[1], sides[0])
    values = _values_of(output, found)
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
    if any(set(indices_of(part)) - {*group.rows, *wide} for part in _scales(output)):
        return None
    outside = _outside(kernel, used)
    written = {name for item in group.statements for name in writes_of(item)}
    kept = {n for n in written if n in outside or kernel.array(n).role != "temp"}
    if found.normalised:
        output = replace(output, divisors=(*output.divisors, found.total.target))
    score = _scored(found.top.value, raw, scores)
    queries, score = _scaled_queries(scores, queries, score, raw)
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
        epilogue.statements,
        epilogue.stores or not epilogue.statements,
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


def _values_of(output: Product, found: _Weights) -> Expr | None:
    """The side that is multiplied with the weights as they are."""
    weights = [found.power] + ([found.stored.target] if found.stored else [])
    for side, other in ((output.left, output.right), (output.right, output.left)):
        if _core(side) in weights:
            return other
    return None


def _scaled_queries(scores: Product, queries: Expr, score: Expr, raw: Access) -> tuple[Expr, Expr]:
    """The queries times a scale that all scores get, and f without it: one pass less over scores.

    Only in f32 and f64, where a query is not rounded to fewer bits than a score; the sums stay
    within the law of a dot product.
    """
    if scores.left_dtype != scores.total_dtype or not scores.total_dtype.is_float:
        return queries, score
    parents = {item for item in walk(score) if raw in children(item)}
    if len(parents) != 1:
        return queries, score
    (parent,) = parents
    match parent:
        case Call(function="mul" | "div" as function, operands=(x, scale)) if x == raw:
            pass
        case Call(function="mul" as function, operands=(scale, x)) if x == raw:
            pass
        case _:
            return queries, score
    if any(isinstance(item, Index | Access) for item in walk(scale)):
        return queries, score
    whole = transform(score, lambda item: raw if item == parent else item)
    return Call(function, (queries, scale)), whole


def _scored(score: Expr, raw: Access, scores: Product) -> Expr:
    """f of the sum times the factors of the first product."""
    whole: Expr = raw
    for factor in scores.factors:
        whole = Call("mul", (whole, factor))
    for divisor in scores.divisors:
        whole = Call("div", (whole, divisor))
    return transform(score, lambda item: whole if item == raw else item)
