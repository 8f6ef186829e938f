"""Short words that the VIL tests share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import hal.vil
from hal import dtypes
from hal.dtypes import DType
from hal.vil import Builder, Module
from hal.vil.builder import ProgramBuilder, TileHandle

Body = Callable[[ProgramBuilder, list[TileHandle], TileHandle], None]


def array(values: Any, dtype: DType) -> np.ndarray[Any, Any]:
    """A NumPy array of a VIL type; floats are rounded once."""
    if dtype.kind in ("float", "float8"):
        from hal.vil.numerics import round_to

        return round_to(np.asarray(values, np.float64), dtype)
    return np.asarray(values).astype(dtype.numpy)


def run(
    body: Body,
    inputs: Sequence[np.ndarray[Any, Any]],
    target: DType,
    shape: tuple[int, int],
    *,
    hcd: Any = None,
    scalars: dict[str, tuple[DType, float]] | None = None,
    initial: float = 0,
    **options: Any,
) -> np.ndarray[Any, Any]:
    """Runs one program instance on whole 2-d inputs.

    `body(p, tiles, result)` fills `result`; what stays invalid keeps `initial` in the output.
    """
    module, arguments = build(body, inputs, target, shape, scalars=scalars, initial=initial)
    problems = hal.vil.validate(module, hcd)
    assert problems == [], [str(problem) for problem in problems]
    return hal.vil.evaluate(module, "main", arguments, **options)["out"]


def build(
    body: Body,
    inputs: Sequence[np.ndarray[Any, Any]],
    target: DType,
    shape: tuple[int, int],
    *,
    scalars: dict[str, tuple[DType, float]] | None = None,
    initial: float = 0,
) -> tuple[Module, dict[str, Any]]:
    """The module and arguments of `run`."""
    b = Builder()
    p = b.program("main")
    arguments: dict[str, Any] = {}
    sizes: dict[str, int] = {}
    tiles: list[TileHandle] = []
    for name, (dtype, value) in (scalars or {}).items():
        p.scalar(name, dtype)
        arguments[name] = value
    for number, values in enumerate(inputs):
        assert values.ndim == 2
        dtype = dtypes.from_numpy(values.dtype)
        name = f"in{number}"
        buffer = p.buffer(name, dtype, "read")
        arguments[name], sizes[name] = values, values.nbytes
        rows, columns = values.shape
        tile = p.tile(f"t{number}", dtype, max(rows, 1), max(columns, 1))
        p.load(tile, p.matrix(buffer, rows, columns))
        tiles.append(tile)
    out = p.buffer("out", target, "write")
    arguments["out"] = array(np.full(shape, initial), target)
    sizes["out"] = arguments["out"].nbytes
    result = p.tile("result", target, *shape)
    body(p, tiles, result)
    p.store(p.matrix(out, *shape), result)
    b.kernel_of(p, bytes=sizes, name="main")
    return b.module(), arguments


def same(got: np.ndarray[Any, Any], want: Any) -> bool:
    """Equal, with NaN equal to NaN and the sign of zero free."""
    wanted = np.asarray(want)
    if got.shape != wanted.shape:
        return False
    if got.dtype.kind in "biu":
        return bool((got == wanted).all())
    with np.errstate(all="ignore"):
        a, b = got.astype(np.float64), wanted.astype(np.float64)
    return bool(((a == b) | (np.isnan(a) & np.isnan(b))).all())
