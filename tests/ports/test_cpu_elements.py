"""Elementwise operations and reductions of the cpu port: each instruction set by the rules of VIL.

What VIL defines exactly must have the bits of the kit's interpreter; the rest keeps the law.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hal import dtypes
from hal.device import Device
from hal.dtypes import DType
from hal.testing.tolerance import compare
from hal.vil.builder import Builder
from hal.vil.expressions import ceil_div
from hal.vil.module import Module
from hal.vil.recipes import elementwise, reduction_of_tile
from tests.ports.cpu_sets import launch

FLOATS = [dtypes.f32, dtypes.f16, dtypes.bf16, dtypes.f64]
LAWS = {
    "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "sin": np.sin, "cos": np.cos,
    "tanh": np.tanh, "sqrt": np.sqrt,
}  # fmt: skip
EXACT = ["add", "sub", "mul", "max", "min", "lt", "le", "eq", "ne"]
PAIRS = [kinds.split() for kinds in ("r1 rc", "rc 1c", "11 rc", "rc 11", "r1 r1", "1c r1")]
BINARIES = [
    (dtype, function, ["rc", "rc"]) for dtype in (*FLOATS, dtypes.i32) for function in EXACT
]
BINARIES += [(dtypes.f32, function, pair) for function in ("sub", "max", "lt") for pair in PAIRS]
BINARIES += [(dtypes.bf16, "mul", pair) for pair in PAIRS]
ROWS, COLUMNS = 7, 203  # no multiple of any vector


def bits_of(array: NDArray[Any]) -> NDArray[Any]:
    """The bytes, with every NaN made the same: VIL leaves payloads free."""
    kept = array.copy()
    if kept.dtype.kind not in "iub":
        with np.errstate(invalid="ignore"):  # NaN that signal
            kept[np.isnan(kept.astype(np.float64))] = np.nan
    return kept.view(np.uint8)


def special(dtype: DType, seed: int, shape: tuple[int, int] = (ROWS, COLUMNS)) -> NDArray[Any]:
    """Random numbers of every size with zeros, infinities, NaN and subnormal ones among them."""
    rng = np.random.default_rng(seed)
    if dtype.kind == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind == "int":
        info = np.iinfo(dtype.numpy)
        values = rng.integers(info.min, info.max, shape, dtype=dtype.numpy, endpoint=True)
        values.ravel()[:3] = [info.min, info.max, 0][: values.size]
        return values
    words = rng.integers(0, 256, (*shape, dtype.bytes), dtype=np.uint8)
    found = words.view(dtype.numpy)[..., 0].copy()
    small = (rng.standard_normal(shape) * 4).astype(dtype.numpy)
    found = np.where(rng.random(shape) < 0.5, small, found)
    edge = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0]
    found.ravel()[: len(edge)] = np.array(edge[: found.size]).astype(dtype.numpy)
    return found


def on_both(
    fast: Device, plain: Device, module: Module, *arguments: Any, out: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """The bits of a kernel's result on two devices."""
    results = [bits_of(launch(device, module, *arguments, out=out)) for device in (fast, plain)]
    return results[0], results[1]


@pytest.mark.parametrize(("dtype", "function", "shapes"), BINARIES, ids=str)
def test_exact_functions_of_two_operands_have_the_interpreters_bits(
    fast: Device, plain: Device, dtype: DType, function: str, shapes: list[str]
) -> None:
    sides = {"r": ROWS, "c": COLUMNS, "1": 1}
    given = [special(dtype, n, (sides[kind[0]], sides[kind[1]])) for n, kind in enumerate(shapes)]
    target = dtypes.bool_ if function in ("lt", "le", "eq", "ne") else dtype
    module = elementwise("bin", function, [dtype, dtype], target, tile=(4, 128), shapes=shapes)
    out = np.zeros((ROWS, COLUMNS), target.numpy)
    with np.errstate(all="ignore"):
        got, wanted = on_both(fast, plain, module, ROWS, COLUMNS, *given, out=out)
        if function in ("max", "min") and dtype.kind == "float":  # −0 and +0 are interchangeable
            got, wanted = (r.view(dtype.numpy) + dtype.numpy.type(0) for r in (got, wanted))
            got, wanted = bits_of(got), bits_of(wanted)
    assert np.array_equal(got, wanted)


@pytest.mark.parametrize("function", ["mov", "neg", "abs", "floor", "ceil", "trunc", "round"])
@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.name)
@pytest.mark.parametrize("shape", ["rc", "r1"])
def test_exact_functions_of_one_operand_have_the_interpreters_bits(
    fast: Device, plain: Device, dtype: DType, function: str, shape: str
) -> None:
    sides = {"r": ROWS, "c": COLUMNS, "1": 1}
    given = special(dtype, 3, (sides[shape[0]], sides[shape[1]]))
    module = elementwise("un", function, [dtype], dtype, tile=(4, 128), shapes=[shape])
    out = np.zeros((ROWS, COLUMNS), dtype.numpy)
    got, wanted = on_both(fast, plain, module, ROWS, COLUMNS, given, out=out)
    assert np.array_equal(got, wanted)


@pytest.mark.parametrize("function", ["and", "or", "xor"])
@pytest.mark.parametrize("dtype", [dtypes.bool_, dtypes.i8, dtypes.u8, dtypes.i32], ids=str)
def test_logic_has_the_interpreters_bits(
    fast: Device, plain: Device, dtype: DType, function: str
) -> None:
    module = elementwise("bin", function, [dtype, dtype], dtype, tile=(4, 128))
    given = [special(dtype, 4), special(dtype, 5)]
    out = np.zeros((ROWS, COLUMNS), dtype.numpy)
    got, wanted = on_both(fast, plain, module, ROWS, COLUMNS, *given, out=out)
    assert np.array_equal(got, wanted)


@pytest.mark.parametrize("saturate", [False, True])
@pytest.mark.parametrize("source", [*FLOATS, dtypes.i32, dtypes.i8, dtypes.u8, dtypes.bool_],
                         ids=lambda d: d.name)  # fmt: skip
@pytest.mark.parametrize("target", [*FLOATS, dtypes.i32, dtypes.i8, dtypes.bool_],
                         ids=lambda d: d.name)  # fmt: skip
def test_casts_have_the_interpreters_bits(
    fast: Device, plain: Device, source: DType, target: DType, saturate: bool
) -> None:
    module = elementwise("cast", "", [source], target, tile=(4, 128), saturate=saturate)
    out = np.zeros((ROWS, COLUMNS), target.numpy)
    got, wanted = on_both(fast, plain, module, ROWS, COLUMNS, special(source, 6), out=out)
    assert np.array_equal(got, wanted)


@pytest.mark.parametrize("shapes", [("rc", "rc", "rc"), ("rc", "11", "rc"), ("1c", "rc", "r1"),
                                    ("r1", "rc", "11")], ids="-".join)  # fmt: skip
@pytest.mark.parametrize("dtype", [dtypes.f32, dtypes.f16, dtypes.f64, dtypes.i8], ids=str)
def test_selection_keeps_bits(
    fast: Device, plain: Device, dtype: DType, shapes: tuple[str, ...]
) -> None:
    sides = {"r": ROWS, "c": COLUMNS, "1": 1}
    types = [dtypes.bool_, dtype, dtype]
    given = [
        special(kind, n, (sides[s[0]], sides[s[1]]))
        for n, (kind, s) in enumerate(zip(types, shapes, strict=True))
    ]
    module = elementwise("sel", "", types, dtype, tile=(4, 128), shapes=shapes)
    out = np.zeros((ROWS, COLUMNS), dtype.numpy)
    got, wanted = on_both(fast, plain, module, ROWS, COLUMNS, *given, out=out)
    assert np.array_equal(got, wanted)


def arguments_of(function: str, dtype: DType) -> NDArray[Any]:
    """Numbers where a function does something, and where it goes over."""
    rng = np.random.default_rng(7)
    shape = (64, 1021)
    spread = {"exp": 100.0, "exp2": 140.0, "sin": 60.0, "cos": 60.0, "tanh": 3.0, "erf": 2.0}
    values = rng.uniform(-1, 1, shape) * spread.get(function, 1.0)
    sizes = np.exp2(rng.uniform(-148, 127, shape)) * np.sign(values)
    values = np.where(rng.random(shape) < 0.4, sizes, values)
    values[0] = np.linspace(0.5, 2, shape[1])
    edge = [0.0, -0.0, np.inf, -np.inf, np.nan, 88.72284, -103.97, 1e30, 0.625, 1.0, 4.0]
    values[1, : len(edge)] = edge
    return values.astype(dtype.numpy)


@pytest.mark.parametrize("function", [*LAWS, "erf", "rsqrt", "rcp"])
@pytest.mark.parametrize("dtype", [dtypes.f32, dtypes.f16, dtypes.bf16], ids=lambda d: d.name)
def test_elementary_functions_keep_their_laws(
    fast: Device, plain: Device, dtype: DType, function: str
) -> None:
    with np.errstate(all="ignore"):
        x = arguments_of(function, dtype)
        wide = x.astype(np.float64)
        if function in LAWS:
            reference = LAWS[function](wide)
        elif function == "erf":
            module = elementwise("un", "erf", [dtypes.f64], dtypes.f64, tile=(64, 1024))
            reference = launch(plain, module, *x.shape, wide, out=np.zeros(x.shape))
        elif function == "rsqrt":
            reference = np.where(wide == 0, 1 / wide, 1 / np.sqrt(wide))
        else:
            reference = 1 / wide
    law = {"exp2": "exp", "log2": "log", "rcp": "div"}.get(function, function)
    module = elementwise("un", function, [dtype], dtype, tile=(64, 1024))
    got = launch(fast, module, *x.shape, x, out=np.zeros(x.shape, dtype.numpy))
    found = compare(got, reference, law=law, dtype=dtype.name)
    assert found.ratio <= 1, f"{int(np.sum(~found.good))} wrong, as {x[~found.good][:5]}"


@pytest.mark.parametrize("shape", [(1, 300), (9, 1), (12, 299)], ids=str)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("function", ["add", "max", "min", "mul"])
@pytest.mark.parametrize("dtype", [dtypes.f32, dtypes.f16, dtypes.bf16], ids=lambda d: d.name)
def test_reductions_of_whole_numbers_are_exact(
    fast: Device, plain: Device, dtype: DType, function: str, axis: int, shape: tuple[int, int]
) -> None:
    low = 1 if function == "mul" else -4
    x = np.random.default_rng(9).integers(low, 2 if low == 1 else 5, shape).astype(dtype.numpy)
    module = reduction_of_tile(function, dtype, dtype, axis=axis, tile=(12, 300))
    out = np.zeros((1, shape[1]) if axis == 0 else (shape[0], 1), dtype.numpy)
    got, wanted = on_both(fast, plain, module, *shape, x, out=out)
    assert np.array_equal(got, wanted)


@pytest.mark.parametrize("place", [0, 5, 130, 298])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("function", ["add", "max", "min"])
def test_a_nan_or_an_infinity_reaches_the_result(
    fast: Device, plain: Device, function: str, axis: int, place: int
) -> None:
    x = np.random.default_rng(10).integers(-9, 9, (3, 299)).astype(np.float32)
    x[1, place], x[2, place] = np.nan, np.inf
    module = reduction_of_tile(function, dtypes.f32, dtypes.f32, axis=axis, tile=(3, 300))
    out = np.zeros((1, 299) if axis == 0 else (3, 1), np.float32)
    got, wanted = on_both(fast, plain, module, 3, 299, x, out=out)
    assert np.array_equal(got, wanted)


def moved(way: str) -> Module:
    """Y[M, N] = X + (X + X), in place in the loaded tile. Arguments of the kernel: M, N, X, Y.

    `way`: `rows` as it lies, `turned` X is N × M, `whole` tiles are full and filled outside.
    """
    b = Builder()
    p = b.program("main")
    m, n = p.symbol("M"), p.symbol("N")
    x, y = p.buffer("X", dtypes.f32, "read"), p.buffer("Y", dtypes.f32, "write")
    shape = (24, 40)
    tile, again = (p.tile(name, dtypes.f32, *shape) for name in ("tile", "again"))
    origins: Any = {
        "row_origin": p.compute("mul", p.id(1), shape[0]),
        "column_origin": p.compute("mul", p.id(0), shape[1]),
    }
    source: Any = {
        "rows": {},
        "turned": {"row_stride": 1, "column_stride": m},
        "whole": {"limited": False, "fill": 7},
    }[way]
    p.load(tile, p.matrix(x, m, n, **origins, **source))
    p.bin("add", again, tile, tile)
    p.bin("add", tile, tile, again)
    p.store(p.matrix(y, m, n, **origins), tile, stream=True)
    grid = [ceil_div(n, shape[1]), ceil_div(m, shape[0])]
    b.kernel_of(p, grid=grid, bytes={"X": 4 * m * n, "Y": 4 * m * n})
    return b.module()


@pytest.mark.parametrize("shape", [(1, 1), (24, 40), (25, 39), (100, 131), (47, 160)], ids=str)
@pytest.mark.parametrize("way", ["rows", "turned", "whole"])
def test_blocks_move_as_their_descriptors_say(
    fast: Device, way: str, shape: tuple[int, int]
) -> None:
    x = np.random.default_rng(11).integers(-99, 99, shape).astype(np.float32)
    source = np.ascontiguousarray(x.T) if way == "turned" else x
    got = launch(fast, moved(way), *shape, source, out=np.zeros(shape, np.float32))
    assert np.array_equal(got, 3 * x)


def test_a_tile_that_stands_in_a_buffer_serves_the_kits_own_operations(fast: Device) -> None:
    b = Builder()
    p = b.program("main")
    x, y = p.buffer("X", dtypes.f32, "read"), p.buffer("Y", dtypes.f32, "write")
    tile, sums = p.tile("a", dtypes.f32, 4, 6), p.tile("b", dtypes.f32, 4, 6)
    turned = p.tile("c", dtypes.f32, 6, 4)
    p.load(tile, p.matrix(x, 4, 6, row_stride=9))
    p.scan("add", sums, tile, axis=1)
    p.trn(turned, tile)
    p.trn(tile, turned)
    p.bin("add", tile, tile, sums)
    p.store(p.matrix(y, 4, 6), tile)
    b.kernel_of(p, bytes={"X": 4 * 33, "Y": 96})
    values = np.arange(36, dtype=np.float32).reshape(4, 9)
    got = launch(fast, b.module(), values, out=np.zeros((4, 6), np.float32))
    assert np.array_equal(got, values[:, :6] + np.cumsum(values[:, :6], axis=1))


def test_a_buffer_that_is_written_too_is_read_before_it_changes(fast: Device) -> None:
    b = Builder()
    p = b.program("main")
    x, y = p.buffer("X", dtypes.f32, "read"), p.buffer("Y", dtypes.f32, "inout")
    first, second = p.tile("a", dtypes.f32, 4, 8), p.tile("b", dtypes.f32, 4, 8)
    p.load(first, p.matrix(y, 4, 8))
    p.load(second, p.matrix(x, 4, 8))
    p.store(p.matrix(y, 4, 8), second)
    p.bin("sub", first, first, second)
    p.store(p.matrix(y, 4, 8), first)
    b.kernel_of(p, bytes={"X": 128, "Y": 128})
    values = np.arange(32, dtype=np.float32).reshape(4, 8)
    got = launch(fast, b.module(), values * 3, out=values)
    assert np.array_equal(got, values - values * 3)
