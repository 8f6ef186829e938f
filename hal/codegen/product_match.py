"""Finds the matrix product in a statement: which indices are rows, columns, batch and inner.

    C[n, f, y, x] += W[f, c, dy, dx] * X[n, c, y + dy, x + dx]

has the rows f, the columns n y x, the inner indices c dy dx and no batch. The two sides may be any
elementwise expression of their own indices (a cast, a scale, a mask); a factor without an inner
index belongs to the epilogue.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from hal import dtypes
from hal.dtypes import DType
from hal.ir.analysis import (
    affine,
    compute_dtype,
    dtype_of,
    index_extents,
    indices_of,
    promote,
    reduced_indices,
    value_of,
)
from hal.ir.nodes import Access, Assign, Call, Cast, Const, Expr, Index, Kernel, walk

__all__ = ["MAX_DIGITS", "Product", "find", "keeps_values"]

MAX_DIGITS = 3
"""Indices that one tile axis can hold (docs/vil.md, section 1.4)."""

LEAST_DEPTH = 32
EXACT_IN = {dtypes.f8e4m3: dtypes.f16, dtypes.f8e5m2: dtypes.f16}
"""Types without a product of their own -> a type that holds all their values."""


@dataclass(frozen=True, slots=True)
class Product:
    """A statement as a product of two matrices, one pair for each batch.

    Attributes:
        statement: The statement, lets inlined.
        left: Value of the left matrix at (rows, inner), as an elementwise expression.
        right: Value of the right matrix at (inner, columns).
        factors: What the sum is multiplied by, without an inner index.
        divisors: What it is divided by.
        rows, columns, inner: Indices of each axis, outermost first; at most MAX_DIGITS.
        batch: Indices that a program holds fixed, outermost first.
        folded: Inner indices that do not fit on the axis, outermost first: loops of a program.
        extents: Extent of each index.
        left_dtype, right_dtype: Types that the sides are multiplied in.
        total_dtype: Type of the sum.
    """

    statement: Assign
    left: Expr
    right: Expr
    factors: tuple[Expr, ...]
    divisors: tuple[Expr, ...]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    inner: tuple[str, ...]
    batch: tuple[str, ...]
    folded: tuple[str, ...]
    extents: dict[str, Expr]
    left_dtype: DType
    right_dtype: DType
    total_dtype: DType

    @property
    def target(self) -> Access:
        """What the statement writes."""
        return self.statement.target

    @property
    def left_is_plain(self) -> bool:
        """The left side is an array, at most converted."""
        return isinstance(_core(self.left), Access)

    @property
    def right_is_plain(self) -> bool:
        """The right side is an array, at most converted."""
        return isinstance(_core(self.right), Access)


def find(kernel: Kernel, statement: Assign) -> Product | None:
    """The product in a statement (lets inlined), or None where it has another shape."""
    if statement.assignment != "+=" or not _plain_target(statement.target):
        return None
    multiplied: list[Expr] = []
    divided: list[Expr] = []
    _split(kernel, statement.value, multiplied, divided)
    reduced = set(reduced_indices(statement))
    if not reduced or any(reduced & set(indices_of(part)) for part in divided):
        return None
    inside = [part for part in multiplied if reduced & set(indices_of(part))]
    sides = _two_sides(inside, reduced)
    if sides is None or any(_reads_target(statement, part) for part in (*multiplied, *divided)):
        return None
    outside = tuple(part for part in multiplied if part not in inside)
    return _grouped(kernel, statement, sides, outside, tuple(divided))


def _plain_target(target: Access) -> bool:
    """Each subscript is an index of its own, with whole-number offset and factor allowed."""
    seen: set[str] = set()
    for subscript in target.indices:
        form = affine(subscript)
        if form is None or len(form.terms) > 1:
            return False
        for term, _ in form.terms:
            if not isinstance(term, Index) or term.name in seen:
                return False
            seen.add(term.name)
    return True


def _split(kernel: Kernel, value: Expr, multiplied: list[Expr], divided: list[Expr]) -> None:
    """Takes a value apart into factors and divisors."""
    match value:
        case Call(function="mul", operands=(a, b)):
            _split(kernel, a, multiplied, divided)
            _split(kernel, b, multiplied, divided)
        case Call(function="div", operands=(a, b)):
            _split(kernel, a, multiplied, divided)
            divided.append(b)
        case Call(function="neg", operands=(a,)):
            multiplied.append(Const(-1))
            _split(kernel, a, multiplied, divided)
        case Cast(dtype=dtype, operand=operand, saturate=False) if _is_wide(kernel, dtype, operand):
            _split(kernel, operand, multiplied, divided)
        case _:
            multiplied.append(value)


def _is_wide(kernel: Kernel, dtype: DType, operand: Expr) -> bool:
    """The cast of a product to the type that it is computed in anyway."""
    if not isinstance(operand, Call):
        return False
    inner = dtype_of(kernel, operand)
    return inner is not None and compute_dtype(inner) == dtype


def _two_sides(factors: list[Expr], reduced: set[str]) -> tuple[Expr, Expr] | None:
    """Merges factors that share a kept index until two sides remain; None for another count.

    A factor of inner indices alone goes to the first side.
    """
    groups: list[tuple[set[str], list[Expr]]] = []
    alone: list[Expr] = []
    if len(factors) == 2:
        return factors[0], factors[1]
    for factor in factors:
        kept = set(indices_of(factor)) - reduced
        if not kept:
            alone.append(factor)
            continue
        match = next((group for group in groups if group[0] == kept), None)
        if match is None:
            groups.append((kept, [factor]))
        else:
            match[1].append(factor)
    while len(groups) > 2:
        first = min(range(len(groups)), key=lambda number: len(groups[number][0]))
        host = next((g for g in groups if g[0] > groups[first][0]), None)
        if host is None:
            return None
        host[1].extend(groups.pop(first)[1])
    if len(groups) == 2:
        groups[0][1].extend(alone)
        return _together(groups[0][1]), _together(groups[1][1])
    if len(groups) == 1 and alone:
        return _together(groups[0][1]), _together(alone)
    return None


def _together(factors: list[Expr]) -> Expr:
    whole = factors[0]
    for factor in factors[1:]:
        whole = Call("mul", (whole, factor))
    return whole


def _reads_target(statement: Assign, value: Expr) -> bool:
    """The value has the array that the statement writes, while other programs write it."""
    reads = (item for item in walk(value) if isinstance(item, Access))
    return any(item.array == statement.target.array for item in reads)


def _core(value: Expr) -> Expr:
    while isinstance(value, Cast):
        value = value.operand
    return value


def _grouped(
    kernel: Kernel,
    statement: Assign,
    sides: tuple[Expr, Expr],
    factors: tuple[Expr, ...],
    divisors: tuple[Expr, ...],
) -> Product | None:
    extents = index_extents(kernel, statement)
    kept = [name for subscript in statement.target.indices for name in indices_of(subscript)]
    inner = set(reduced_indices(statement))
    of_sides = [set(indices_of(side)) for side in sides]
    if any(name not in extents for name in {*kept, *of_sides[0], *of_sides[1]}):
        return None
    if not inner <= of_sides[0] & of_sides[1]:
        return None  # A sum over one side alone.
    one, other = ([name for name in kept if name in side] for side in of_sides)
    batch = [name for name in kept if (name in one) == (name in other)]
    one, other = ([name for name in names if name not in batch] for names in (one, other))
    if not one and not other:
        return None  # A sum for each element: nothing is used twice.
    last = kept[-1] if kept else ""
    if last in one or (last not in other and not other):  # Columns hold the innermost index.
        one, other, sides = other, one, (sides[1], sides[0])
    types = _types(kernel, statement, sides)
    if types is None or (not (one and other) and _is_short(extents, inner)):
        return None
    order = _inner_order(sides, inner)
    over_rows, rows = one[:-MAX_DIGITS], one[-MAX_DIGITS:]
    over_columns, columns = other[:-MAX_DIGITS], other[-MAX_DIGITS:]
    outer = {*batch, *over_rows, *over_columns}
    return Product(
        statement,
        *sides,
        factors,
        divisors,
        tuple(rows),
        tuple(columns),
        tuple(order[-MAX_DIGITS:]),
        tuple(name for name in kept if name in outer),
        tuple(order[:-MAX_DIGITS]),
        extents,
        *types,
    )


def _is_short(extents: dict[str, Expr], inner: set[str]) -> bool:
    """A sum of a few terms, known in number: a matrix unit has nothing to do with a vector."""
    sizes = [extents[name] for name in inner]
    if not all(isinstance(size, Const) for size in sizes):
        return False
    return math.prod(value_of(size, {}) for size in sizes) < LEAST_DEPTH


def _inner_order(sides: tuple[Expr, Expr], inner: set[str]) -> list[str]:
    """Inner indices in the order of the dimensions of the side that they subscript barely."""

    def bare(side: Expr) -> int:
        reads = [item for item in walk(side) if isinstance(item, Access)]
        names = [part.name for read in reads for part in read.indices if isinstance(part, Index)]
        return len(inner & set(names))

    best = max(reversed(sides), key=bare)
    return [name for name in indices_of(best) if name in inner]


def _types(
    kernel: Kernel, statement: Assign, sides: tuple[Expr, Expr]
) -> tuple[DType, DType, DType] | None:
    """Types of the sides in MMA and of the sum (docs/vil.md, section 5.6)."""
    try:
        found = [dtype_of(kernel, side) for side in sides]
        whole = dtype_of(kernel, statement.value)
        if found[0] is None or found[1] is None or whole is None or whole.kind == "bool":
            return None
        common = promote(found[0], found[1])
    except TypeError:
        return None
    target = kernel.array(statement.target.array).dtype
    if common is None or common.kind not in ("float", "int", "float8"):
        return None
    total = compute_dtype(whole)
    if compute_dtype(common) != total and common.is_int:
        return None
    if target.kind != whole.kind and not (target.kind == "float8" and total.is_float):
        return None
    if compute_dtype(target) != total:
        return None
    left, right = (_operand(kernel, side, total) for side in sides)
    if left != right and not (left.bytes == right.bytes == 1 and total == dtypes.i32):
        left = right = total
    return left, right, total


def _operand(kernel: Kernel, side: Expr, total: DType) -> DType:
    """The narrowest type that holds a side without loss and that MMA knows for this sum."""
    access = _core(side)
    dtype = dtype_of(kernel, side)
    if dtype is None or not isinstance(access, Access):
        return total
    stored = kernel.array(access.array).dtype
    if keeps_values(stored, dtype):
        dtype = stored
    dtype = EXACT_IN.get(dtype, dtype)
    if total == dtypes.f32 and dtype.is_float:
        return dtype
    return dtype if total == dtypes.i32 and dtype.is_int else total


def keeps_values(stored: DType, dtype: DType) -> bool:
    """A conversion between them changes no value."""
    if stored.kind == "int" and dtype.kind == "int":
        return dtype.minimum <= stored.minimum and stored.maximum <= dtype.maximum
    floats = ("float", "float8")
    return (
        stored.kind in floats
        and dtype.kind in floats
        and stored.precision <= dtype.precision
        and stored.maximum <= dtype.maximum
        and stored.smallest_exponent >= dtype.smallest_exponent
    )
