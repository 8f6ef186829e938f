"""Descriptors: from tile positions to element offsets (docs/vil.md, section 1.4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hal.vil.errors import VilFault
from hal.vil.expressions import I64_MAX, I64_MIN
from hal.vil.model import Axis, Descriptor, Value
from hal.vil.numerics import Array

__all__ = ["axis_count", "offsets"]

Read = Callable[[Value], int]


def axis_count(axis: Axis, read: Read, length: int) -> int:
    """How many positions of a tile axis take part: clamp(limit − origin, 0, length)."""
    if axis.limit is None:
        return length
    origin = 0 if axis.origin is None else read(axis.origin)
    return max(0, min(length, read(axis.limit) - origin))


class _Checked:
    """Exact integer arrays (Python integers), with the overflow rule of i64 on every step."""

    def __init__(self, shape: tuple[int, int]) -> None:
        self.outside = np.zeros(shape, bool)

    def fits(self, values: Array) -> Array:
        """Marks elements beyond i64 as outside and replaces them by 0."""
        bad = np.asarray((values < I64_MIN) | (values > I64_MAX), bool)
        self.outside |= bad
        return np.where(bad, 0, values)


def _digits(axis: Axis, read: Read, checked: _Checked, length: int, column: bool) -> list[Array]:
    origin = 0 if axis.origin is None else read(axis.origin)
    positions = np.array([origin + index for index in range(length)], object)
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
    checked = _Checked(shape)
    row_digits = _digits(descriptor.row, read, checked, rows, False)
    column_digits = _digits(descriptor.column, read, checked, columns, True)
    coordinates: list[Array] = []
    for number, item in enumerate(descriptor.dimensions):
        total: Array = np.full(shape, read(item.base), object)
        for term in item.terms:
            factor = read(term.coefficient)
            source: Any
            if term.source == "sreg":
                from hal.vil.model import SReg

                source = np.full((1, 1), read(SReg(term.index)), object)
            else:
                source = (row_digits if term.source == "row" else column_digits)[term.index]
            total = checked.fits(total + checked.fits(source * factor))
        if index is not None and number == dimension:
            total = checked.fits(total + index.astype(object)[:, None])
        coordinates.append(total)
    inside = ~checked.outside
    for item, coordinate in zip(descriptor.dimensions, coordinates, strict=True):
        inside &= np.asarray((coordinate >= 0) & (coordinate < read(item.extent)), bool)
    sum_check = _Checked(shape)
    offset: Array = np.zeros(shape, object)
    for item, coordinate in zip(descriptor.dimensions, coordinates, strict=True):
        product = sum_check.fits(np.where(inside, coordinate, 0) * read(item.stride))
        offset = sum_check.fits(offset + product)
    if (sum_check.outside & inside).any():
        raise VilFault(f"descriptor {descriptor.name}: an element offset overflows 64 bits")
    return inside, offset.astype(np.int64)
