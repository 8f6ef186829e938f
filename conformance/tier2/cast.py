"""CAST: any type to any type, with and without saturate, over all special values or all codes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from hal import dtypes
from hal.dtypes import DType
from hal.testing import case, close
from hal.testing.compute import Lab, blank
from hal.testing.exact import Pair
from hal.testing.formats import FORMATS
from hal.testing.inputs import grid_of, numbers
from hal.testing.tolerance import Numerics
from hal.vil import recipes
from hal.vil.numerics import round_to

FLOATS = [dtypes.f32, dtypes.f16, dtypes.bf16, dtypes.f64, dtypes.f8e4m3, dtypes.f8e5m2]
INTS = [dtypes.i8, dtypes.u8, dtypes.i32, dtypes.i64]
FLAGS = (False, True)


def named(item: Any) -> str | None:
    """Return the id of a parameter: a type's name."""
    return item.name if isinstance(item, DType) else None


def cast(lab: Lab, x: Any, source: DType, target: DType, saturate: bool) -> Any:
    """Return CAST of a matrix."""
    module = recipes.elementwise("cast", "", [source], target, tile=lab.tile, saturate=saturate)
    m, n = x.shape
    return lab.run(module, {"M": m, "N": n, "X0": x, "Y": blank(target, m, n)})["Y"]


def ties(target: DType) -> Any:
    """Return numbers between neighbours of a float type and beside its limits, in float64."""
    form = FORMATS[target.name]
    top, tiny = form.largest, form.smallest
    step = math.ldexp(1.0, math.frexp(top)[1] - form.digits)
    with np.errstate(all="ignore"):
        edge = [top, top + step / 4, np.nextafter(top + step / 2, 0), top + step / 2, top + step]
        edge += [top * 1.5, top * 4, tiny / 2, np.nextafter(tiny / 2, 1), tiny / 4, tiny * 1.5]
        edge += [tiny * 2.5, form.smallest_normal - tiny / 2, form.smallest_normal * (1 - 2.0**-12)]
    unit = 2.0 ** (1 - form.digits)
    middle = [1 + unit * (k + f) for k in range(6) for f in (0.25, 0.5, 0.75)]
    middle += [1 + unit / 2 + 2.0**-30, 1 + unit / 2 - 2.0**-30]
    found = np.array([*edge, *middle])
    return np.concatenate([found, -found])


def floats_of(rng: np.random.Generator, source: DType, target: DType) -> Any:
    """Return floats of a type, those between the target's neighbours with them."""
    every = numbers(rng, source)
    between = round_to(ties(target), source) if target.name in FORMATS else every[:0]
    return grid_of(np.concatenate([between, every]))


@case(rules=["HAL-VIL-015", "HAL-VIL-016", "HAL-VIL-009", "HAL-VIL-010"], operator="cast")
@pytest.mark.parametrize("target", FLOATS, ids=named)
@pytest.mark.parametrize("source", FLOATS, ids=named)
def test_float_to_float_rounds_once_and_overflows_by_format(
    lab: Lab, rng: np.random.Generator, numerics: Numerics, source: DType, target: DType
) -> None:
    x = floats_of(rng, source, target)
    with np.errstate(all="ignore"):
        exact = x.astype(np.float64)
    got = cast(lab, x, source, target, saturate=False)
    close(got, exact, law="rounded", dtype=target.name, numerics=numerics)


@case(rules=["HAL-VIL-016", "HAL-VIL-015"], operator="cast")
@pytest.mark.parametrize("target", FLOATS, ids=named)
@pytest.mark.parametrize("source", FLOATS, ids=named)
def test_float_to_float_saturates_when_asked(
    lab: Lab, rng: np.random.Generator, numerics: Numerics, source: DType, target: DType
) -> None:
    x = floats_of(rng, source, target)
    top = float(target.maximum)
    with np.errstate(all="ignore"):
        exact = np.clip(x.astype(np.float64), -top, top)
    got = cast(lab, x, source, target, saturate=True)
    close(got, exact, law="rounded", dtype=target.name, numerics=numerics)


@case(rules=["HAL-VIL-017"], operator="cast")
@pytest.mark.parametrize("target", INTS, ids=named)
@pytest.mark.parametrize("source", FLOATS, ids=named)
def test_float_to_integer_truncates_and_clamps(
    lab: Lab, rng: np.random.Generator, source: DType, target: DType
) -> None:
    low, high = int(target.minimum), int(target.maximum)
    limits = [low - 1.0, low - 0.5, low + 0.5, high - 0.5, high + 0.5, high + 1.0, 0.9, -0.9, 2e19]
    x = grid_of(np.concatenate([round_to(np.array(limits), source), numbers(rng, source)]))
    with np.errstate(all="ignore"):
        exact = x.astype(np.float64)
    inside = (exact >= low) & (exact < float(high))
    whole = np.where(inside, np.trunc(np.where(inside, exact, 0.0)), 0.0).astype(np.int64)
    wanted = np.where(exact >= float(high), high, np.where(exact < low, low, whole))
    for saturate in FLAGS:
        got = cast(lab, x, source, target, saturate)
        close(got, wanted.astype(target.numpy), law="exact", dtype=target.name)


@case(rules=["HAL-VIL-015", "HAL-VIL-016"], operator="cast")
@pytest.mark.parametrize("target", FLOATS, ids=named)
@pytest.mark.parametrize("source", INTS, ids=named)
def test_integer_to_float_rounds_the_integer_once(
    lab: Lab, rng: np.random.Generator, source: DType, target: DType
) -> None:
    digits = FORMATS[target.name].digits
    odd = [(1 << k) + d for k in range(digits - 1, 63) for d in (-1, 0, 1, 1 << max(0, k - digits))]
    odd += [(1 << 62) + (1 << (62 - digits)) + 1, (1 << 62) + (1 << (62 - digits)) - 1]
    fitting = [v for v in odd if v <= int(source.maximum)]
    negative = [-v for v in fitting if source.is_signed]
    extra = np.array([*fitting, *negative], np.int64).astype(source.numpy)
    x = grid_of(np.concatenate([extra, numbers(rng, source)]))
    plain = cast(lab, x, source, target, saturate=False)
    close(plain, Pair.of(x), law="rounded", dtype=target.name)
    top = target.maximum
    clipped = Pair.of(x if float(source.maximum) <= top else np.clip(x, -int(top), int(top)))
    close(cast(lab, x, source, target, True), clipped, law="rounded", dtype=target.name)


@case(rules=["HAL-VIL-018"], operator="cast")
@pytest.mark.parametrize("target", INTS, ids=named)
@pytest.mark.parametrize("source", INTS, ids=named)
def test_integer_to_integer_wraps_or_clamps(
    lab: Lab, rng: np.random.Generator, source: DType, target: DType
) -> None:
    x = grid_of(numbers(rng, source))
    exact = x.astype(np.int64)
    close(cast(lab, x, source, target, False), exact.astype(target.numpy), law="exact")
    clamped = np.clip(exact, int(target.minimum), int(target.maximum)).astype(target.numpy)
    close(cast(lab, x, source, target, True), clamped, law="exact", dtype=target.name)


@case(rules=["HAL-VIL-018"], operator="cast")
@pytest.mark.parametrize("source", [*FLOATS, *INTS, dtypes.bool_], ids=named)
def test_to_bool_is_1_for_all_but_zero(lab: Lab, rng: np.random.Generator, source: DType) -> None:
    x = grid_of(numbers(rng, source) if source.kind != "bool" else np.arange(99) % 3 == 0)
    with np.errstate(all="ignore"):
        wanted = (x.astype(np.float64) != 0).view(np.uint8)
    for saturate in FLAGS:
        got = cast(lab, x, source, dtypes.bool_, saturate).view(np.uint8)
        close(got, wanted, law="exact", dtype="u8")


@case(rules=["HAL-VIL-018"], operator="cast")
@pytest.mark.parametrize("target", [*FLOATS, *INTS], ids=named)
def test_from_bool_is_0_or_1(lab: Lab, target: DType) -> None:
    x = grid_of(np.arange(500) % 3 == 0)
    for saturate in FLAGS:
        got = cast(lab, x, dtypes.bool_, target, saturate)
        close(got, x.astype(np.float64).astype(target.numpy), law="exact", dtype=target.name)
