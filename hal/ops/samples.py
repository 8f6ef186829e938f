"""Arguments for operators, the same for the same seed."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hal.dtypes import DType
from hal.errors import InvalidValue
from hal.ir.analysis import value_of
from hal.ir.nodes import Kernel
from hal.ops.table import Operator, get, operator

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["SIZES", "Sample", "sample"]

SIZES = ("small", "edge", "empty", "large")
"""Names of sizes: some odd lengths, all 1, the first length 0, beyond one tile."""

_SMALL = (5, 7, 3, 4, 2, 6, 3, 2, 1, 1)
_LARGE = {
    0: (),
    1: (4099,),
    2: (130, 515),
    3: (130, 77, 65),
}
_LARGE_OF_MANY = (3, 9, 17, 33, 12, 11, 5, 3, 1, 1)


@dataclass(frozen=True, slots=True)
class Sample:
    """Arguments of one call: inputs and inouts, params and scalars."""

    arrays: dict[str, NDArray[Any]]
    params: dict[str, int]
    scalars: dict[str, float | int]


def sample(
    name: str,
    dtype: str = "",
    size: str | Mapping[str, int] = "small",
    *,
    seed: int = 0,
    exact: bool = False,
    **attributes: Any,
) -> Sample:
    """Arguments for `get(name, dtype, **attributes)`.

    Args:
        size: One of SIZES, or all params.
        exact: Small whole numbers (and halves): sums and products of them are exact in any type.

    Raises:
        InvalidValue: no such size, or a param is missing in it.
    """
    found = operator(name)
    kernel = get(name, dtype, **attributes)
    params = _params(found, kernel, size)
    arrays = {}
    for array in kernel.arrays_of("input", "inout"):
        shape = tuple(max(value_of(part, params), 0) for part in array.shape)
        kind = found.inputs.get(array.name, "")
        values = attributes | params
        arrays[array.name] = _draw(
            f"{name}.{array.name}", array.dtype, shape, kind, values, seed, exact
        )
    scalars = {item.name: found.scalars[item.name] for item in kernel.scalars}
    return Sample(arrays, params, scalars)


def _params(found: Operator, kernel: Kernel, size: str | Mapping[str, int]) -> dict[str, int]:
    if not isinstance(size, str):
        missing = [name for name in kernel.params if name not in size]
        if missing:
            raise InvalidValue(f"the size lacks {', '.join(missing)}", call="ops.sample")
        return {name: size[name] for name in kernel.params}
    if size not in SIZES:
        listed = " ".join(SIZES)
        what = f"there is no size {size}"
        raise InvalidValue(what, call="ops.sample", next_step=f"Use one of: {listed}.")
    count = len(kernel.params)
    lengths: tuple[int, ...] = _SMALL
    if size == "edge":
        lengths = (1,) * 10
    elif size == "empty":
        lengths = (0, *_SMALL[1:])
    elif size == "large":
        lengths = _LARGE.get(count, _LARGE_OF_MANY)
    chosen = dict(zip(kernel.params, lengths, strict=False))
    chosen |= {**found.sizes.get("all", {}), **found.sizes.get(size, {})}
    return {name: chosen[name] for name in kernel.params}


def _draw(
    name: str,
    dtype: DType,
    shape: tuple[int, ...],
    kind: str,
    values: Mapping[str, int],
    seed: int,
    exact: bool,
) -> NDArray[Any]:
    """Numbers for one array; the kind is a word of operators.yaml, docs/ir.md lists them."""
    import numpy as np

    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    if kind.startswith("index "):
        return rng.integers(0, max(values[kind.split()[1]], 1), shape).astype(dtype.numpy)
    if dtype.kind == "bool":
        return np.asarray(rng.random(shape) < (0.1 if kind == "rare" else 0.5))
    if dtype.is_int:
        low = 1 if kind == "positive" else 0 if dtype.minimum == 0 else -4
        return rng.integers(low, 5, shape).astype(dtype.numpy)
    drawn = _whole(rng, kind, shape) if exact or kind == "whole" else _floats(rng, kind, shape)
    if kind == "special" and drawn.size:
        flat = drawn.reshape(-1)
        flat[::3] = np.resize([np.nan, np.inf, -np.inf, 0.0], flat[::3].shape)
    return np.asarray(drawn.astype(dtype.numpy))


def _floats(rng: np.random.Generator, kind: str, shape: tuple[int, ...]) -> NDArray[np.float64]:
    match kind:
        case "positive":
            return rng.uniform(0.5, 2, shape)
        case "unit":
            return rng.uniform(-1, 1, shape)
        case "near_one":
            return rng.uniform(0.9, 1.1, shape)
    return rng.standard_normal(shape)


def _whole(rng: np.random.Generator, kind: str, shape: tuple[int, ...]) -> NDArray[np.float64]:
    import numpy as np

    match kind:
        case "positive":
            return np.asarray(2.0 ** rng.integers(-1, 2, shape))
        case "unit":
            return np.asarray(rng.integers(-2, 3, shape) / 2)
        case "near_one":
            return np.asarray(1.0 - 2 * rng.integers(0, 2, shape))
    return rng.integers(-3, 4, shape).astype(np.float64)
