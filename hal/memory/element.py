"""Element types and shapes as callers write them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from hal import dtypes
from hal.dtypes import DType
from hal.errors import OutOfRange, UsageError

__all__ = ["as_dtype", "as_shape", "element_count"]

MAX_ELEMENTS = 2**62


def as_dtype(wanted: Any, call: str) -> DType:
    """A dtype from a DType, a name (`bf16`), or anything that NumPy takes for one.

    Raises:
        UsageError: the HAL has no such type; the message lists those that it has.
    """
    if isinstance(wanted, DType):
        return wanted
    try:
        if isinstance(wanted, str):
            try:
                return dtypes.by_name(wanted)
            except KeyError:
                pass
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
    import operator

    try:
        wish = shape if isinstance(shape, Sequence) else (shape,)
        extents = tuple(operator.index(extent) for extent in wish)
    except TypeError:
        raise UsageError(f"{shape!r} is no shape", call=call) from None
    open_at = [i for i, extent in enumerate(extents) if extent == -1]
    if free is not None and len(open_at) == 1:
        rest = prod(extent for extent in extents if extent != -1)
        found = free // rest if rest > 0 else 0
        extents = tuple(found if extent == -1 else extent for extent in extents)
    if any(extent < 0 for extent in extents) or prod(extents) > MAX_ELEMENTS:
        raise OutOfRange(f"the shape {list(extents)} cannot be", call=call)
    return extents


def element_count(shape: tuple[int, ...]) -> int:
    """Elements of a shape; 1 for the empty one."""
    return prod(shape)
