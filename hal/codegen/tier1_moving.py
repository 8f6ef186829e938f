"""COPY, GATHER, SCATTER and near descriptors with the operations of tier 1."""

from __future__ import annotations

from dataclasses import replace

from hal import dtypes
from hal.codegen.tier1_rewriter import Rewriter
from hal.vil.builder import DescriptorHandle, TileHandle, ValueLike
from hal.vil.expressions import I64_MIN, Const, as_expr
from hal.vil.model import Axis, Descriptor, Instruction, SReg, Term, Value

__all__ = ["copy", "gather", "scatter"]


def copy(p: Rewriter, item: Instruction) -> None:
    """COPY d, a: UN mov."""
    p.un("mov", p.handle(item.d), p.handle(item.a))


# --- rows by index -------------------------------------------------------------------------------


def _value(value: ValueLike) -> Value:
    return value if isinstance(value, SReg) else as_expr(value)


def _shifted(p: Rewriter, descriptor: Descriptor, dim: int, index: ValueLike) -> Descriptor:
    """The descriptor with `index` added to the coordinate of a dimension, after its terms."""
    register = index if isinstance(index, SReg) else p.compute("mov", index)
    dimensions = list(descriptor.dimensions)
    terms = (*dimensions[dim].terms, Term("sreg", register.index, as_expr(1)))
    dimensions[dim] = replace(dimensions[dim], terms=terms)
    return replace(descriptor, dimensions=tuple(dimensions))


def _one_row(p: Rewriter, axis: Axis, row: ValueLike) -> Axis:
    """The axis moved by `row` positions."""
    origin = p.count("add", row, 0 if axis.origin is None else axis.origin)
    return replace(axis, origin=_value(origin))


def _all_outside(descriptor: Descriptor) -> Descriptor:
    """Reads nothing: the fill everywhere, with the same counts."""
    dims = tuple(replace(d, extent=Const(0)) for d in descriptor.dimensions)
    return replace(descriptor, dimensions=dims)


def gather(p: Rewriter, item: Instruction) -> None:
    """GATHER d, x, index: row by row with SREG tile, else value by value with a one-hot mask.

    d starts as the fill. With registers from tiles, each row is one LOAD at its index. Without
    them, each index value v that can be inside is one LOAD as if all rows had v, kept where index
    = v.
    """
    d, index, descriptor = p.handle(item.d), p.handle(item.a), p.described(item)
    p.load(d, p.describe(_all_outside(descriptor)))
    p.sel(d, p.always("index valid", index), d, d)
    if "sreg_from_tile" in p.chip.features:
        _gather_by_rows(p, item.axis, d, index, descriptor)
    else:
        _gather_by_values(p, item.axis, d, index, descriptor)


def _gather_by_rows(
    p: Rewriter, dim: int, d: TileHandle, index: TileHandle, descriptor: Descriptor
) -> None:
    rows, columns = d.tile.rows, d.tile.columns
    line = p.scratch("line", d.tile.dtype, 1, columns)
    place = p.positions(0, dtypes.i32, rows)

    def one(row: ValueLike) -> None:
        here = p.equal_to(place, row)
        found: ValueLike = p.read_tile(p.pick("index of row", here, index, axis=0))
        axis = _one_row(p, descriptor.row, row)
        if axis.limit is not None and axis.origin is not None:
            found = p.compute("sel", p.compute("lt", axis.origin, axis.limit), found, I64_MIN)
        moved = replace(descriptor, row=replace(axis, limit=None))
        p.load(line, p.describe(_shifted(p, moved, dim, found)))
        p.sel(d, here, line, d)

    p.repeat(rows, one)


def _gather_by_values(
    p: Rewriter, dim: int, d: TileHandle, index: TileHandle, descriptor: Descriptor
) -> None:
    first, count = _reach(p, descriptor, dim, d.tile.rows, d.tile.columns, index)
    found = p.like("as if", d)
    mask = p.like("has value", index, dtypes.bool_)
    wanted = p.scratch("value", index.tile.dtype, 1, 1)

    def one(turn: ValueLike) -> None:
        value = p.compute("add", first, turn)
        p.load(found, p.describe(_shifted(p, descriptor, dim, value)))
        p.iota(wanted, base=value)
        p.bin("eq", mask, index, wanted)
        p.sel(d, mask, found, d)

    p.repeat_while(count, one)


def _reach(
    p: Rewriter, descriptor: Descriptor, dim: int, rows: int, columns: int, index: TileHandle
) -> tuple[ValueLike, ValueLike]:
    """The index values that can lie inside: the first, and how many.

    The coordinate is least(terms) … most(terms) plus the index, and is inside from 0 to extent − 1.
    """
    dimension = descriptor.dimensions[dim]
    low: ValueLike = dimension.base
    high: ValueLike = dimension.base
    for term in dimension.terms:
        least, most = _ends(p, descriptor, term, rows, columns)
        ends = [p.count("mul", end, term.coefficient) for end in (least, most)]
        low = p.count("add", low, p.count("min", *ends))
        high = p.count("add", high, p.count("max", *ends))
    type_low, type_high = int(index.tile.dtype.minimum), int(index.tile.dtype.maximum)
    first = p.count("max", p.count("sub", 0, high), type_low)
    last = p.count("sub", p.count("sub", dimension.extent, 1), low)
    last = p.count("min", last, type_high)
    return first, p.count("add", p.count("sub", last, first), 1)


def _ends(
    p: Rewriter, descriptor: Descriptor, term: Term, rows: int, columns: int
) -> tuple[ValueLike, ValueLike]:
    """The least and the largest value of a term's source."""
    if term.source == "sreg":
        return SReg(term.index), SReg(term.index)
    axis = descriptor.row if term.source == "row" else descriptor.column
    length = rows if term.source == "row" else columns
    digit = axis.digits[term.index]
    if digit.size is not None:
        least = p.count("min", p.count("add", digit.size, 1), 0)
        return least, p.count("max", p.count("sub", digit.size, 1), 0)
    origin: ValueLike = 0 if axis.origin is None else axis.origin
    last = p.count("add", origin, length - 1)
    if digit.divisor == Const(1):
        return origin, last
    ends = [p.compute("idiv", end, digit.divisor) for end in (origin, last)]
    return p.count("min", *ends), p.count("max", *ends)


def scatter(p: Rewriter, item: Instruction) -> None:
    """SCATTER x, values, index: row by row, each a read, a combination and a write.

    Rows go in increasing order. The program runs as one instance (`lower` sees to it), so nothing
    else touches the buffer. Without registers from tiles each (row, index value) pair is tried and
    changes the element only where the row has that index.
    """
    values, descriptor = p.handle(item.a), p.described(item)
    index = _index_of_valid(p, p.handle(item.b), values)
    rows, columns = values.tile.rows, values.tile.columns
    place = p.positions(0, dtypes.i32, rows)
    by_register = "sreg_from_tile" in p.chip.features
    line = p.scratch("line", values.tile.dtype, 1, columns)

    def one(row: ValueLike) -> None:
        here = p.equal_to(place, row)
        moved = replace(descriptor, row=_one_row(p, descriptor.row, row))
        value = p.pick("values of row", here, values, axis=0)
        if by_register:
            found = p.read_tile(p.pick("index of row", here, index, axis=0))
            target = p.describe(_shifted(p, moved, item.axis, found))
            _combine(p, item.function, line, value, target, None)
            return
        chosen = p.pick("index of row", here, index, axis=0)
        first, count = _reach(p, moved, item.axis, 1, columns, index)

        def each(turn: ValueLike) -> None:
            at = p.compute("add", first, turn)
            mask = p.equal_to(chosen, at, "has index")
            target = p.describe(_shifted(p, moved, item.axis, at))
            _combine(p, item.function, line, value, target, mask)

        p.repeat_while(count, each)

    p.repeat(rows, one)


def _index_of_valid(p: Rewriter, index: TileHandle, values: TileHandle) -> TileHandle:
    """The index tile, valid only where the row of the values is valid too."""
    rows = values.tile.rows
    number, most = p.like("as number", values, dtypes.i32), p.scratch("most", dtypes.i32, rows, 1)
    one, kept = p.constant(dtypes.i32, 1), p.like("kept index", index)
    p.sel(number, p.always("values valid", values), one, one)
    p.red("or", most, number, axis=1)
    p.sel(kept, p.always("rows valid", most), index, index)
    return kept


def _combine(
    p: Rewriter,
    function: str,
    line: TileHandle,
    value: TileHandle,
    target: DescriptorHandle,
    mask: TileHandle | None,
) -> None:
    """target = function(target, value), where the mask is true."""
    if function == "set" and mask is None:
        p.store(target, value)
        return
    p.load(line, target)
    result = value
    if function != "set":
        result = p.scratch("combined", value.tile.dtype, 1, value.tile.columns)
        p.bin(function, result, line, value)
    if mask is not None:
        p.sel(line, mask, result, line)
        result = line
    p.store(target, result)
