"""Calls that see a whole axis, over the last axis of a NumPy array."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hal.dtypes import DType
from hal.ir.arithmetic import REDUCTIONS, Values, cast, identity
from hal.ir.nodes import NamedCall

__all__ = ["NAMED"]


def _scan(values: Values, call: NamedCall, dtype: DType) -> tuple[Values, ...]:
    function = call.function.removeprefix("scan_")
    if "reverse" in call.flags:
        values = values[..., ::-1]
    with np.errstate(all="ignore"):
        result = REDUCTIONS[function].accumulate(values, axis=-1)
    if "exclusive" in call.flags and values.shape[-1]:
        first = np.full_like(result[..., :1], identity(function, dtype))
        result = np.concatenate([first, result[..., :-1]], axis=-1)
    if dtype.is_int:
        result = cast(result, dtype)
    return (result[..., ::-1] if "reverse" in call.flags else result,)


def _position(values: Values, call: NamedCall, dtype: DType) -> tuple[Values, ...]:
    if not values.size:
        return (np.zeros(values.shape[:-1], np.int64),)
    find = np.argmax if call.function == "argmax" else np.argmin
    return (np.asarray(find(values, axis=-1)).astype(np.int64),)


def _order(values: Values, descending: bool) -> Values:
    """Stable order along the last axis; NaN counts as larger than all, ties go by position."""
    if not descending:
        return np.argsort(values, axis=-1, kind="stable")
    behind = np.argsort(values[..., ::-1], axis=-1, kind="stable")[..., ::-1]
    result: Values = values.shape[-1] - 1 - behind
    return result


def _sorted(values: Values, call: NamedCall, dtype: DType) -> tuple[Values, ...]:
    descending = "smallest" not in call.flags if call.function == "topk" else False
    order = _order(values, descending or "descending" in call.flags)
    return np.take_along_axis(values, order, axis=-1), order.astype(np.int64)


NAMED: dict[str, Callable[[Values, NamedCall, DType], tuple[Values, ...]]] = {
    "scan_add": _scan,
    "scan_mul": _scan,
    "scan_max": _scan,
    "scan_min": _scan,
    "argmax": _position,
    "argmin": _position,
    "topk": _sorted,
    "sort": _sorted,
}
"""Named call -> its results, one a target. `dtype` is the type of the sums."""
