"""Element types and shapes as callers write them."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from math import prod
from typing import Any

from hal import dtypes
from hal.dtypes import DType
from hal.errors import OutOfRange, UsageError

__all__ = ["as_dtype", "as_shape", "element_count", "of_numpy"]

MAX_ELEMENTS = 2**62

_BY_NAME = {dtype.name: dtype for dtype in dtypes.ALL}
_BY_NUMPY: dict[Any, DType] = {}
"""Types by NumPy dtype, as they are met."""


def of_numpy(dtype: Any) -> DType | None:
    """The type of a NumPy dtype in the machine's byte order; None when the HAL has none."""
    try:
        found = _BY_NUMPY.get(dtype)
        if found is None:
            found = _BY_NUMPY[dtype] = dtypes.from_numpy(dtype)
    except (KeyError, TypeError):
        return None
    return found


def as_dtype(wanted: Any, call: str) -> DType:
    """A dtype from a DType, a name (`bf16`), or anything that NumPy takes for one.

    Raises:
        UsageError: the HAL has no such type; the message lists those that it has.
    """
    if isinstance(wanted, DType):
        return wanted
    known = _BY_NAME.get(wanted) if isinstance(wanted, str) else of_numpy(wanted)
    if known is not None:
        return known
    try:
        return dtypes.from_numpy(wanted)
    except (KeyError, TypeError):
        shown = wanted if isinstance(wanted, str) else repr(wanted)
        raise UsageError(
            f"{shown} is no element type of the HAL",
            call=call,
            next_step=f"Use one of {', '.join(d.name for d in dtypes.ALL)}.",
        ) from None


def as_shape(shape: int | Sequence[int], call: str, *, free: int | None = None) -> tuple[int, ...]:
    """A shape as a tuple.

    Args:
        shape: One extent or a sequence of them.
        call: Name for messages.
        free: Elements to share out when one extent is −1; None allows no −1.

    Raises:
        UsageError: an extent is no whole number.
        OutOfRange: one is negative or the product is beyond 2⁶².
    """
    try:
        if isinstance(shape, int):
            extents: tuple[int, ...] = (shape,)
        elif isinstance(shape, tuple | list):
            extents = tuple(map(operator.index, shape))
        else:
            extents = (operator.index(shape),) if not isinstance(shape, Sequence) else ()
            extents = extents or tuple(map(operator.index, shape))
    except TypeError:
        raise UsageError(f"{shape!r} is no shape", call=call) from None
    if free is not None and extents.count(-1) == 1:
        rest = prod(extent for extent in extents if extent != -1)
        found = free // rest if rest > 0 else 0
        extents = tuple(found if extent == -1 else extent for extent in extents)
    if (extents and min(extents) < 0) or prod(extents) > MAX_ELEMENTS:
        raise OutOfRange(f"the shape {list(extents)} cannot be", call=call)
    return extents


def element_count(shape: tuple[int, ...]) -> int:
    """Elements of a shape; 1 for the empty one."""
    return prod(shape)
