"""Kernels that are called with arrays: looked up, kept on disk, refused with a reason."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hal
from hal.codegen import CodegenError, Executable, execute, image_store
from hal.codegen import compile as compile_kernel
from hal.ir import IrValueError, parse
from hal.ir.nodes import Kernel

SCALED = """kernel Scaled {
  param M, N : int
  scalar f32 by
  input: f32[M,N] X
  output: f32[M,N] Y
  operation: Y[i,j] = by * X[i,j] + 1
}"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of compiled images for each test."""
    monkeypatch.setenv("HAL_CACHE_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture(params=["cpu", "sim", "sim:sim/npu-systolic"])
def device(request: pytest.FixtureRequest) -> Iterator[hal.Device]:
    with hal.open(request.param) as opened:
        yield opened


@pytest.fixture
def cpu() -> Iterator[hal.Device]:
    with hal.open("cpu") as opened:
        yield opened


def scaled() -> Kernel:
    return parse(SCALED).kernels[0]


def call(device: hal.Device, run: Executable, shape: tuple[int, ...]) -> Any:
    """The result for small whole numbers."""
    values = np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)
    x, y, stream = device.array(values), device.empty(shape, "f32"), device.stream()
    run(stream, x, y, 2.0)
    stream.synchronize()
    np.testing.assert_array_equal(y.numpy(), 2 * values + 1)
    return y


@pytest.mark.parametrize("shape", [(3, 5), (1, 1), (0, 4), (70, 300)])
def test_a_kernel_runs_on_a_device(device: hal.Device, shape: tuple[int, ...]) -> None:
    call(device, Executable(device, scaled()), shape)


def test_a_second_call_with_the_same_shapes_compiles_nothing(
    cpu: hal.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Executable(cpu, scaled())
    call(cpu, run, (3, 5))
    monkeypatch.setattr(execute, "loaded", None)
    call(cpu, run, (3, 5))


def test_an_image_on_disk_is_used_by_another_opening(
    cpu: hal.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    call(cpu, Executable(cpu, scaled()), (3, 5))
    monkeypatch.setattr(execute, "compile_kernel", None)
    with hal.open("cpu") as other:
        call(other, Executable(other, scaled()), (3, 5))


def test_a_damaged_image_is_made_again(cpu: hal.Device, cache: Path) -> None:
    call(cpu, Executable(cpu, scaled()), (3, 5))
    files = list((cache / "kernels").glob("*.hvil"))
    assert len(files) == 1
    data = bytearray(files[0].read_bytes())
    data[-1] ^= 1
    files[0].write_bytes(bytes(data))
    assert image_store.find(files[0].stem) is None
    with hal.open("cpu") as other:
        call(other, Executable(other, scaled()), (3, 5))
    assert image_store.find(files[0].stem) is not None


def test_an_array_of_another_type_is_refused(cpu: hal.Device) -> None:
    x, y = cpu.empty((3, 5), "f16"), cpu.empty((3, 5), "f32")
    with pytest.raises(CodegenError, match="X is an array of f32; f16 was given"):
        Executable(cpu, scaled())(cpu.stream(), x, y, 2.0)


def test_shapes_that_do_not_fit_are_refused(cpu: hal.Device) -> None:
    x, y = cpu.empty((3, 5), "f32"), cpu.empty((3, 6), "f32")
    with pytest.raises(IrValueError, match="Y"):
        Executable(cpu, scaled())(cpu.stream(), x, y, 2.0)


def test_a_missing_argument_is_named(cpu: hal.Device) -> None:
    x = cpu.empty((3, 5), "f32")
    with pytest.raises(CodegenError, match=r"takes 3 arguments \(X, Y, by\); 1 were given"):
        Executable(cpu, scaled())(cpu.stream(), x)


def test_a_param_that_no_shape_tells_is_asked_for(cpu: hal.Device) -> None:
    text = "kernel k { param N, S : int\n input: f32[N] X\n output: f32[N] Y\n"
    text += " operation: Y[i] = X[i] * f32(S) }"
    run = Executable(cpu, parse(text).kernels[0])
    x, y, stream = cpu.array(np.ones(4, np.float32)), cpu.empty(4, "f32"), cpu.stream()
    with pytest.raises(CodegenError, match="no shape tells S"):
        run(stream, x, y)
    run(stream, x, y, S=7)
    stream.synchronize()
    assert y.numpy().tolist() == [7.0] * 4


def test_a_type_that_the_chip_lacks_is_refused_with_what_it_has() -> None:
    types = ["bool", "i32", "f16", "f32"]
    hcd = hal.hcd.load("hal/cpu").overlay({"kernels.vil.ops.load.dtypes": types})
    kernel = parse(
        "kernel k { param N : int\n input: f64[N] X\n output: f64[N] Y\n operation: Y[i] = X[i] }"
    ).kernels[0]
    with pytest.raises(CodegenError, match=r"X of k is f64, which hal/cpu lacks; it has f32, f16"):
        compile_kernel(kernel, hcd)


def test_a_schedule_with_a_space_that_the_chip_lacks_is_refused() -> None:
    program = parse(SCALED + '\nschedule Scaled for "hal/cpu" { space X mma_a }')
    with pytest.raises(CodegenError, match="puts X into mma_a, which hal/cpu lacks; it has"):
        compile_kernel(program.kernels[0], hal.hcd.load("hal/cpu"), schedule=program.schedules[0])


def test_tiles_of_a_schedule_are_taken() -> None:
    text = SCALED + '\nschedule Scaled for "sim/npu-small" { tile i 16, j 100 }'
    program = parse(text)
    hcd = hal.hcd.load("sim/npu-small")
    compiled = compile_kernel(program.kernels[0], hcd, schedule=program.schedules[0])
    choice = compiled.choices[0].choice
    assert (choice.height, choice.width) == (16, 104)


@pytest.mark.parametrize(
    ("tiles", "text"),
    [
        (
            "i 1000, j 64",
            r"asks for a tile of 1000 rows \(i\); sim/npu-small takes at most 256 rows",
        ),
        ("i 256, j 256", r"With 256 columns at most 128 rows fit\.\n.*schedule"),
    ],
)
def test_a_tile_that_does_not_fit_is_refused_with_what_does(tiles: str, text: str) -> None:
    source = SCALED + f'\nschedule Scaled for "sim/npu-small" {{ tile {tiles} }}'
    program = parse(source)
    hcd = hal.hcd.load("sim/npu-small")
    with pytest.raises(CodegenError, match=text) as caught:
        compile_kernel(
            program.kernels[0], hcd, schedule=program.schedules[0], source=source, name="s.hal"
        )
    assert str(caught.value).startswith("s.hal:8:1: ")
