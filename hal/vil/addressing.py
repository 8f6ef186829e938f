"""Descriptors: from tile positions to element offsets (docs/vil.md, section 1.4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hal.vil.errors import VilFault
from hal.vil.expressions import I64_MAX, I64_MIN
from hal.vil.model import Axis, Descriptor, SReg, Term, Value
from hal.vil.numerics import Array

__all__ = ["axis_count", "offsets"]

Read = Callable[[Value], int]
_SAFE = 2**62


def axis_count(axis: Axis, read: Read, length: int) -> int:
    """How many positions of a tile axis take part: clamp(limit − origin, 0, length)."""
    if axis.limit is None:
        return length
    origin = 0 if axis.origin is None else read(axis.origin)
    return max(0, min(length, read(axis.limit) - origin))


class _Checked:
    """Integer arrays with the overflow rule of i64 on every step.

    Small descriptors use int64; where a step could overflow, Python's exact integers do the work.
    """

    def __init__(self, shape: tuple[int, int], exact: bool) -> None:
        self.kind: Any = object if exact else np.int64
        self.outside = np.zeros(shape, bool)

    def fits(self, values: Array) -> Array:
        """Marks elements beyond i64 as outside and replaces them by 0."""
        if self.kind is not object:
            return values
        bad = np.asarray((values < I64_MIN) | (values > I64_MAX), bool)
        self.outside |= bad
        return np.where(bad, 0, values)


def _reach(axis: Axis, read: Read, length: int) -> int:
    """A bound of the magnitude of every digit of an axis."""
    origin = 0 if axis.origin is None else read(axis.origin)
    sizes = [abs(read(digit.size)) for digit in axis.digits if digit.size is not None]
    return max([abs(origin) + length + 1, *sizes])


def _is_small(item: Descriptor, read: Read, rows: int, columns: int, index: Array | None) -> bool:
    """True when no step of the address arithmetic can leave 62 bits."""
    reach = {"row": _reach(item.row, read, rows), "column": _reach(item.column, read, columns)}
    total = 0
    extra = 0
    if index is not None and index.size:
        extra = max(abs(int(index.min())), abs(int(index.max())))
    for dimension in item.dimensions:
        bound = abs(read(dimension.base)) + extra
        for term in dimension.terms:
            source = abs(read(SReg(term.index))) if term.source == "sreg" else reach[term.source]
            bound += abs(read(term.coefficient)) * source
        total += bound * max(1, abs(read(dimension.stride)))
    return max(total, *reach.values()) < _SAFE


def _digits(axis: Axis, read: Read, checked: _Checked, length: int, column: bool) -> list[Array]:
    origin = 0 if axis.origin is None else read(axis.origin)
    positions = np.array([origin + index for index in range(length)], checked.kind)
    positions = checked.fits(positions[None, :] if column else positions[:, None])
    digits: list[Array] = []
    for digit in axis.digits:
        divisor = read(digit.divisor)
        quotient = positions // divisor if divisor else positions * 0
        if digit.size is not None:
            size = read(digit.size)
            quotient = quotient % size if size else quotient * 0
        digits.append(checked.fits(quotient))
    return digits


def offsets(
    descriptor: Descriptor,
    read: Read,
    rows: int,
    columns: int,
    *,
    index: Array | None = None,
    dimension: int = 0,
) -> tuple[Array, Array]:
    """Element offsets of the first `rows` × `columns` positions.

    Args:
        read: Gives the integer of a value.
        index: GATHER and SCATTER: one integer a row, added to the coordinate of `dimension`.

    Returns:
        A mask of the inside elements and an int64 array of offsets (0 where outside).

    Raises:
        VilFault: an inside element's offset overflows.
    """
    shape = (rows, columns)
    exact = not _is_small(descriptor, read, rows, columns, index)
    checked, sums = _Checked(shape, exact), _Checked(shape, exact)
    digits = {
        "row": _digits(descriptor.row, read, checked, rows, False),
        "column": _digits(descriptor.column, read, checked, columns, True),
    }

    def source(term: Term) -> Array:
        if term.source == "sreg":
            return np.full((1, 1), read(SReg(term.index)), checked.kind)
        return digits[term.source][term.index]

    coordinates: list[Array] = []
    for number, item in enumerate(descriptor.dimensions):
        total: Array = np.full(shape, read(item.base), checked.kind)
        for term in item.terms:
            product = checked.fits(source(term) * read(term.coefficient))
            total = checked.fits(total + product)
        if index is not None and number == dimension:
            total = checked.fits(total + index.astype(checked.kind)[:, None])
        coordinates.append(total)
    inside = ~checked.outside
    for item, coordinate in zip(descriptor.dimensions, coordinates, strict=True):
        inside &= np.asarray((coordinate >= 0) & (coordinate < read(item.extent)), bool)
    offset: Array = np.zeros(shape, checked.kind)
    for item, coordinate in zip(descriptor.dimensions, coordinates, strict=True):
        product = sums.fits(np.where(inside, coordinate, 0) * read(item.stride))
        offset = sums.fits(offset + product)
    if (sums.outside & inside).any():
        raise VilFault(f"descriptor {descriptor.name}: an element offset overflows 64 bits")
    return inside, offset.astype(np.int64)
