"""Random kernels on the ports, held against the IR's evaluator."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from kernels import case

import hal
from hal.codegen import Executable
from hal.ir import evaluate
from hal.ir.analysis import value_of

PORTS = ("cpu", "sim", "sim:sim/npu-systolic", "sim:sim/npu-tier1", "sim:huawei/ascend-910b1")


@pytest.fixture(scope="module", params=PORTS)
def device(request: pytest.FixtureRequest) -> Iterator[hal.Device]:
    with hal.open(request.param) as opened:
        yield opened


@pytest.mark.parametrize("seed", range(500, 516))
def test_a_port_gives_the_results_of_the_evaluator(
    device: hal.Device, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HAL_CACHE_DIR", str(tmp_path))
    made = case(seed)
    kernel, stream = made.kernel, device.stream()
    arrays = {}
    for array in kernel.arrays_of("input", "inout", "output"):
        shape = tuple(value_of(size, made.params) for size in array.shape)
        values = made.arrays.get(array.name, np.ones(shape, array.dtype.numpy))
        arrays[array.name] = device.array(values, array.dtype)
    scalars = [made.scalars[item.name] for item in kernel.scalars]
    Executable(device, kernel)(stream, *arrays.values(), *scalars, **made.params)
    stream.synchronize()
    wanted = evaluate(kernel, made.arrays, made.params, made.scalars)
    for name, values in wanted.items():
        got = arrays[name].numpy().astype(np.float64)
        np.testing.assert_array_equal(got, values.astype(np.float64), err_msg=name)
