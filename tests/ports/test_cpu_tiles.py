"""Fast tile operations of the cpu port: each instruction set against the kit's interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import hal
import hal.vil
from hal import dtypes
from hal.device import Device
from hal.dtypes import DType
from hal.errors import PortLoadError
from hal.testing.tolerance import compare
from hal.vil.module import Module
from hal.vil.recipes import matmul, matmul_into, matmul_of_parts
from tests.ports.cpu_sets import device_of, has_set, launch


def whole_numbers(shape: tuple[int, int], dtype: DType, seed: int) -> NDArray[Any]:
    """Small whole numbers, so that every sum of products is exact in every type."""
    low, high = (-8, 8) if dtype.name not in ("u8",) else (0, 16)
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype.numpy)


PRODUCTS = [
    (dtypes.f32, dtypes.f32, dtypes.f32),
    (dtypes.f64, dtypes.f64, dtypes.f64),
    (dtypes.f16, dtypes.f16, dtypes.f32),
    (dtypes.bf16, dtypes.bf16, dtypes.f32),
    (dtypes.i32, dtypes.i32, dtypes.i32),
    (dtypes.i64, dtypes.i64, dtypes.i64),
    (dtypes.i8, dtypes.i8, dtypes.i32),
    (dtypes.i8, dtypes.u8, dtypes.i32),
    (dtypes.u8, dtypes.i8, dtypes.i32),
    (dtypes.u8, dtypes.u8, dtypes.i32),
]
SHAPES = [(1, 1, 1), (15, 33, 7), (14, 32, 64), (29, 97, 131), (64, 64, 600), (240, 70, 33)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("types", PRODUCTS, ids=lambda t: "-".join(d.name for d in t))
def test_whole_numbers_multiply_exactly(
    fast: Device, types: tuple[DType, DType, DType], shape: tuple[int, int, int]
) -> None:
    m, n, k = shape
    a, b = whole_numbers((m, k), types[0], 1), whole_numbers((k, n), types[1], 2)
    module = matmul(*types, tile=(240, 100, 128) if types[2].bytes < 8 else (120, 100, 128))
    got = launch(fast, module, m, n, k, a, b, out=np.zeros((m, n), types[2].numpy))
    exact = a.astype(np.float64) @ b.astype(np.float64)
    assert np.array_equal(got.astype(np.float64), exact)


def turned_product(types: tuple[DType, DType, DType], m: int, n: int, k: int) -> Module:
    """C = A · Bᵀ; where B is stored again in the turned form, the product is not all that reads it.

    Arguments of the kernel: A, B, turned, C.
    """
    left, right, total = types

    def flat(name: str, buffer: str, rows: int, columns: int, steps: tuple[int, int]) -> str:
        return f"""  desc {name} = {buffer} {{
    row limit {rows} digits (_, 1)
    column limit {columns} digits (_, 1)
    dim {rows * columns} stride 1 base 0, r0 * {steps[0]}, c0 * {steps[1]}
  }}
"""

    at_b = -(-m * k * left.bytes // 64) * 64
    at_c = at_b + -(-k * n * right.bytes // 64) * 64
    arguments = {
        "A": (left, "read", m * k),
        "B": (right, "read", n * k),
        "turned": (right, "write", n * k),
        "C": (total, "write", m * n),
    }
    args = "\n".join(
        f"  arg {name}: {dtype.name} {access} bytes {count * dtype.bytes}"
        for name, (dtype, access, count) in arguments.items()
    )
    params = "\n".join(
        f"  param {name}: {dtype.name} {access}" for name, (dtype, access, _) in arguments.items()
    )
    return hal.vil.parse(f"""vil 1.0
kernel main {{
{args}
  launch work grid(1) (A, B, turned, C)
}}
program work flat {{
{params}
  tile a: {left.name}[{m}, {k}] near @0
  tile b: {right.name}[{k}, {n}] near @{at_b}
  tile c: {total.name}[{m}, {n}] near @{at_c}
{flat("from_a", "A", m, k, (k, 1))}{flat("from_b", "B", k, n, (1, k))}\
{flat("to_b", "turned", k, n, (n, 1))}{flat("to_c", "C", m, n, (n, 1))}
  load a, from_a
  load b, from_b
  mma c, a, b init
  store to_b, b
  mma c, a, b
  store to_c, c
}}
""")


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("types", PRODUCTS, ids=lambda t: "-".join(d.name for d in t))
def test_a_turned_right_matrix_is_the_same_to_a_product_and_to_others(
    fast: Device, types: tuple[DType, DType, DType], shape: tuple[int, int, int]
) -> None:
    m, n, k = shape
    a, b = whole_numbers((m, k), types[0], 11), whole_numbers((n, k), types[1], 12)
    stream = fast.stream()
    turned, total = fast.empty((k, n), types[1]), fast.empty((m, n), types[2])
    module = fast.load(turned_product(types, m, n, k))
    module["main"].launch(stream, fast.array(a), fast.array(b), turned, total)
    stream.synchronize()
    assert np.array_equal(turned.numpy(), b.T)
    exact = 2 * (a.astype(np.float64) @ b.T.astype(np.float64))
    assert np.array_equal(total.numpy().astype(np.float64), exact)


@pytest.mark.parametrize("init", [False, True])
@pytest.mark.parametrize("types", PRODUCTS, ids=lambda t: "-".join(d.name for d in t))
def test_sums_go_on_or_start_anew(
    fast: Device, types: tuple[DType, DType, DType], init: bool
) -> None:
    side = 48
    a, b = whole_numbers((side, side), types[0], 3), whole_numbers((side, side), types[1], 4)
    before = whole_numbers((side, side), types[2], 5)
    got = launch(fast, matmul_into(*types, side=side, init=init), a, b, out=before)
    exact = a.astype(np.float64) @ b.astype(np.float64) + (0 if init else before)
    assert np.array_equal(got.astype(np.float64), exact)


@pytest.mark.parametrize("valid", [(0, 5, 5, 5), (5, 7, 0, 9), (17, 31, 12, 7), (9, 4, 3, 12)])
@pytest.mark.parametrize("types", PRODUCTS, ids=lambda t: "-".join(d.name for d in t))
def test_only_valid_parts_count(
    fast: Device, plain: Device, types: tuple[DType, DType, DType], valid: tuple[int, ...]
) -> None:
    side = 32
    a, b = whole_numbers((side, side), types[0], 6), whole_numbers((side, side), types[1], 7)
    module = matmul_of_parts(*types, side=side)
    results = []
    for device in (fast, plain):
        out = np.zeros((valid[0], valid[1]), types[2].numpy)
        results.append(launch(device, module, *valid, a, b, out=out) if out.size else out)
    assert np.array_equal(results[0], results[1])


@pytest.mark.parametrize("dtype", [dtypes.f32, dtypes.f16, dtypes.bf16, dtypes.f64], ids=str)
@pytest.mark.parametrize("scale", [1.0, 1e-3, 2.0**-60])
def test_products_keep_the_law_of_sums(fast: Device, dtype: DType, scale: float) -> None:
    m, n, k = 45, 77, 1100
    rng = np.random.default_rng(8)
    a = (rng.standard_normal((m, k)) * scale).astype(dtype.numpy)
    b = (rng.standard_normal((k, n)) * scale).astype(dtype.numpy)
    target = dtypes.f64 if dtype == dtypes.f64 else dtypes.f32
    module = matmul(dtype, dtype, target, tile=(64, 96, 256))
    got = launch(fast, module, m, n, k, a, b, out=np.zeros((m, n), target.numpy))
    wide = [x.astype(np.float64) for x in (a, b)]
    size = np.abs(wide[0]) @ np.abs(wide[1])
    found = compare(got, wide[0] @ wide[1], law="dot", scale=size, terms=k, dtype=target.name)
    assert found.ratio <= 1


@pytest.mark.parametrize("dtype", [dtypes.f32, dtypes.f16, dtypes.bf16, dtypes.f64], ids=str)
def test_special_values_reach_the_sums_that_they_belong_to(
    fast: Device, plain: Device, dtype: DType
) -> None:
    m, n, k = 31, 45, 70
    a, b = whole_numbers((m, k), dtype, 9), whole_numbers((k, n), dtype, 10)
    a[3, 5], a[7, 9], b[11, 2], b[69, 44] = np.nan, np.inf, -np.inf, np.nan
    target = dtypes.f64 if dtype == dtypes.f64 else dtypes.f32
    module = matmul(dtype, dtype, target, tile=(32, 64, 96))
    results = [
        launch(device, module, m, n, k, a, b, out=np.zeros((m, n), target.numpy))
        for device in (fast, plain)
    ]
    assert np.array_equal(results[0], results[1], equal_nan=True)


@pytest.mark.parametrize("init", [False, True])
@pytest.mark.parametrize("where", ["left", "right", "both"])
def test_subnormal_sums_are_kept_wherever_they_are(fast: Device, where: str, init: bool) -> None:
    """Whole numbers times 2^-140: some rows, columns and depths, in and past the first block."""
    m, n, k = 300, 600, 1100
    a, b = (whole_numbers(shape, dtypes.f32, 11) for shape in ((m, k), (k, n)))
    if where != "right":
        a[[3, 140], :] *= np.float32(2.0**-70)
        a[299, 1050:] *= np.float32(2.0**-70)
    if where != "left":
        b[:, [5, 550]] *= np.float32(2.0**-70)
        b[1090:, 40] *= np.float32(2.0**-70)
    a, b = a.astype(dtypes.bf16.numpy), b.astype(dtypes.bf16.numpy)
    module = matmul(dtypes.bf16, dtypes.bf16, dtypes.f32, tile=(304, 608, 1104 if init else 560))
    got = launch(fast, module, m, n, k, a, b, out=np.zeros((m, n), np.float32))
    exact = (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32)
    plain = np.ones(n, bool)
    if where != "left":
        plain[40] = False  # Large and small numbers meet in one sum.
    rows = np.arange(m) != (299 if where != "right" else m)
    assert np.array_equal(got[np.ix_(rows, plain)], exact[np.ix_(rows, plain)])
    np.testing.assert_allclose(got, exact, rtol=1e-6)


@pytest.mark.parametrize("name", [name for name in ("amx",) if has_set(name)])
def test_products_of_amx_are_the_ones_that_run(name: str) -> None:
    """One that is wrong at the start is replaced, and every other test passes without it."""
    path = "compute.matrix.operations.{}.macs_per_cycle"
    with device_of(name) as device:
        found = {name: device.hcd[path.format(name)] for name in ("bf16", "i8")}
    assert found == {"bf16": 512, "i8": 1024}


def test_an_instruction_set_that_does_not_exist_is_refused() -> None:
    with pytest.raises(PortLoadError, match=r"isa=mmx: .*sets are none, plain, avx2, avx512, amx"):
        hal.load_port("cpu", options={"isa": "mmx"})
