"""RED, SCAN, MMA, TOPK and RNG on the valid parts of tiles (docs/vil.md, sections 5.5 to 5.8)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hal import dtypes
from hal.dtypes import DType
from hal.vil.errors import VilFault
from hal.vil.numerics import Array, Numerics

__all__ = ["matmul", "philox", "reduce_axis", "reduce_result", "scan_axis", "top_entries"]

_SUMS = ("add", "mul")


def reduce_result(function: str, source: DType, target: DType) -> bool:
    """True when RED or SCAN may go from one type to the other."""
    if function in _SUMS:
        if source.is_float:
            return target is source or (source.bytes == 2 and target is dtypes.f32)
        allowed = {"i8": "i32 i64", "u8": "i32 i64", "i32": "i32 i64", "i64": "i64"}
        return target.name in allowed.get(source.name, "").split()
    if function in ("argmax", "argmin"):
        return (source.is_float or source.is_int) and target in (dtypes.i32, dtypes.i64)
    if function in ("and", "or"):
        return (source.is_int or source.kind == "bool") and target is source
    return (source.is_float or source.is_int) and target is source


def _extreme(function: str, dtype: DType) -> float | int:
    if dtype.is_float:
        return -math.inf if function == "max" else math.inf
    return int(dtype.minimum if function == "max" else dtype.maximum)


def reduce_axis(
    numerics: Numerics,
    function: str,
    values: Array,
    axis: int,
    source: DType,
    target: DType,
    base: int = 0,
) -> Array:
    """RED over the whole of `values`; the reduced axis stays with length 1."""
    if function in ("argmax", "argmin"):
        return _arg(numerics, function, values, axis, source, target, base)
    if function in ("and", "or"):
        ufunc: Any = np.bitwise_and if function == "and" else np.bitwise_or
        ones: Any = True if source.kind == "bool" else np.array(-1).astype(values.dtype)
        none: Any = False if source.kind == "bool" else np.array(0).astype(values.dtype)
        start = ones if function == "and" else none
        return np.asarray(ufunc.reduce(values, axis=axis, keepdims=True, initial=start))
    if function in ("max", "min"):
        wide = numerics.widen(values) if source.is_float else values.astype(np.int64)
        ufunc = np.maximum if function == "max" else np.minimum
        start = _extreme(function, source)
        found = np.asarray(ufunc.reduce(wide, axis=axis, keepdims=True, initial=start))
        return numerics.narrow(found, source) if source.is_float else found.astype(values.dtype)
    ufunc = np.add if function == "add" else np.multiply
    with np.errstate(all="ignore"):
        if source.is_float:
            kind = numerics.accumulator(source)
            total = ufunc.reduce(values.astype(kind), axis=axis, keepdims=True, dtype=kind)
            return numerics.narrow(np.asarray(total).astype(np.float64), target)
        total = ufunc.reduce(values.astype(np.int64), axis=axis, keepdims=True, dtype=np.int64)
    return np.asarray(total).astype(target.numpy)


def _arg(
    numerics: Numerics,
    function: str,
    values: Array,
    axis: int,
    source: DType,
    target: DType,
    base: int,
) -> Array:
    others = values.shape[1 - axis]
    if values.shape[axis] == 0:
        if others:
            raise VilFault(f"red.{function} over no element")
        found = np.zeros((1, 0) if axis == 0 else (0, 1), np.int64)
    else:
        wide = numerics.widen(values) if source.is_float else values.astype(np.int64)
        pick = np.argmax if function == "argmax" else np.argmin
        found = np.expand_dims(pick(wide, axis=axis), axis)  # NumPy: first NaN, lowest index
    wrapped = found.astype(np.int64) + np.int64(base)
    return np.asarray(wrapped).astype(target.numpy)


def scan_axis(
    numerics: Numerics,
    function: str,
    values: Array,
    axis: int,
    source: DType,
    target: DType,
    *,
    exclusive: bool = False,
    reverse: bool = False,
) -> Array:
    """SCAN over the whole of `values`."""
    ufunc = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}[function]
    kind: Any = numerics.accumulator(source) if source.is_float else np.int64
    start = {"add": 0, "mul": 1}.get(function)
    identity = _extreme(function, source) if start is None else start
    wide = values.astype(kind)
    if reverse:
        wide = np.flip(wide, axis)
    with np.errstate(all="ignore"):
        total = ufunc.accumulate(wide, axis=axis, dtype=kind) if wide.size else wide
    if exclusive and total.shape[axis]:
        head = list(total.shape)
        head[axis] = 1
        first = np.full(head, identity, kind)
        total = np.concatenate([first, total.take(range(total.shape[axis] - 1), axis)], axis)
    if reverse:
        total = np.flip(total, axis)
    if source.is_float:
        return numerics.narrow(total.astype(np.float64), target)
    return np.asarray(total).astype(target.numpy)


def matmul(numerics: Numerics, a: Array, b: Array, source: DType, target: DType) -> Array:
    """a · b in the accumulator's type."""
    with np.errstate(all="ignore"):
        if target.is_float:
            kind = numerics.accumulator(target if source.is_float else dtypes.f32)
            product = np.matmul(a.astype(kind), b.astype(kind))
            return np.asarray(product.astype(numerics.storage(target)))
        whole = np.matmul(a.astype(np.int64), b.astype(np.int64))
        return np.asarray(whole.astype(target.numpy))


def top_entries(
    numerics: Numerics,
    entries: list[tuple[Any, int]],
    count: int,
    dtype: DType,
    *,
    smallest: bool,
) -> list[tuple[Any, int]]:
    """The best `count` of (value, index) pairs in TOPK's order."""

    def key(entry: tuple[Any, int]) -> tuple[int, float | int, int]:
        value, index = entry
        number: float | int = float(value) if dtype.is_float else int(value)
        if number != number:
            return (1 if smallest else 0, 0, index)
        return (0 if smallest else 1, number if smallest else -number, index)

    return sorted(entries, key=key)[:count]


def philox(element: Array, seed: int, offset: int) -> Array:
    """Philox4x32-10: the u32 of each logical element index (uint64 array)."""
    low = np.uint64(0xFFFFFFFF)
    shift = np.uint64(32)
    block = element >> np.uint64(2)
    words = [block & low, block >> shift]
    words += [np.full_like(block, offset & 0xFFFFFFFF), np.full_like(block, offset >> 32)]
    key0, key1 = seed & 0xFFFFFFFF, seed >> 32
    for _ in range(10):
        first = words[0] * np.uint64(0xD2511F53)
        second = words[2] * np.uint64(0xCD9E8D57)
        words = [
            (second >> shift) ^ words[1] ^ np.uint64(key0),
            second & low,
            (first >> shift) ^ words[3] ^ np.uint64(key1),
            first & low,
        ]
        key0, key1 = (key0 + 0x9E3779B9) & 0xFFFFFFFF, (key1 + 0xBB67AE85) & 0xFFFFFFFF
    lane = (element & np.uint64(3)).astype(np.int64)
    return np.choose(lane, words).astype(np.uint32)
