"""The list schedule: what a launch takes on a chip that is only described."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from hal import dtypes
from hal.errors import PortLoadError, UsageError
from hal.forecast import Forecast, Forecaster, Kernel
from hal.hcd import from_flat, load
from hal.vil import parse
from hal.vil.recipes import elementwise, matmul, reduction
from tests.sim_port.explicit import PIPELINE

SMALL = "sim/npu-small"


@pytest.fixture
def small() -> Iterator[Forecaster]:
    """The small example chip."""
    with Forecaster(SMALL) as chip:
        yield chip


def product(chip: Forecaster, tile: tuple[int, int, int] = (64, 64, 32)) -> Kernel:
    """A matrix product of bf16 on a chip."""
    return chip.kernel(bytes(matmul(dtypes.bf16, dtypes.bf16, dtypes.f32, tile=tile)))


def cube(kernel: Kernel, side: int) -> Forecast:
    """The forecast of a product of square matrices."""
    return kernel.forecast([side, side, side, 2 * side**2, 2 * side**2, 4 * side**2])


@pytest.mark.parametrize("side", [64, 100, 1000, 1024])
def test_a_product_counts_each_of_its_multiply_adds_once(small: Forecaster, side: int) -> None:
    assert cube(product(small), side).macs == side**3


def test_a_forecast_repeats_to_the_bit(small: Forecaster) -> None:
    kernel = product(small)
    assert cube(kernel, 1000) == cube(kernel, 1000)


def test_an_empty_grid_takes_the_overhead_alone(small: Forecaster) -> None:
    forecast = cube(product(small), 0)
    assert (forecast.time_ns, forecast.programs, forecast.bound_name) == (2000, 0, "nothing")


def test_loads_count_whole_bursts(small: Forecaster) -> None:
    """Rows of 8 elements of 4 bytes, 64 bytes apart, take a burst of 64 each."""
    module = elementwise("un", "neg", [dtypes.f32], dtypes.f32, tile=(64, 8))
    forecast = small.launch(bytes(module), [64, 16, 4096, 4096])
    assert forecast.loaded_bytes == 2 * 64 * 64


def test_edge_tiles_are_classes_of_their_own(small: Forecaster) -> None:
    kernel = product(small)
    assert (cube(kernel, 1024).classes, cube(kernel, 1000).classes) == (1, 4)


def test_one_more_wave_takes_one_more_program(small: Forecaster) -> None:
    """Four cores: five programs take as long as eight."""
    kernel = small.kernel(bytes(elementwise("un", "exp", [dtypes.f32], dtypes.f32, tile=(64, 64))))
    times = [
        kernel.forecast([64, 64 * count, 16384 * count, 16384 * count]).core_ns
        for count in (1, 4, 5, 8)
    ]
    assert times == [times[0], times[0], 2 * times[0], 2 * times[0]]


def test_a_long_loop_grows_by_its_steady_turn(small: Forecaster) -> None:
    """Each turn of a steady loop takes as long as the one before, however many there are."""
    kernel = product(small)
    times = [
        kernel.forecast([64, 64, depth, 128 * depth, 128 * depth, 16384]).core_ns
        for depth in (3200, 6400, 9600)
    ]
    assert times[2] - times[1] == pytest.approx(times[1] - times[0], rel=1e-9)


def test_two_stages_let_engines_overlap(small: Forecaster) -> None:
    """The pipeline takes little more than its slowest engine; with one credit it cannot."""
    arguments = [512 * 256, 4 * 512 * 256, 4 * 512 * 256]
    overlapped = small.launch(bytes(parse(PIPELINE)), arguments)
    serial = small.launch(bytes(parse(PIPELINE.replace("credits 2", "credits 1"))), arguments)
    slowest = max(overlapped.dma_in_ns, overlapped.dma_out_ns, overlapped.vector_ns)
    assert slowest < overlapped.core_ns < 2 * slowest < serial.core_ns


def test_engines_that_share_a_unit_take_turns() -> None:
    """On the example systolic chip one unit loads and stores."""
    image = bytes(elementwise("un", "neg", [dtypes.f32], dtypes.f32, tile=(64, 64)))
    with Forecaster("sim/npu-systolic") as chip:
        forecast = chip.launch(image, [512, 512, 4 * 512**2, 4 * 512**2])
    assert forecast.core_ns >= (forecast.dma_in_ns + forecast.dma_out_ns) / 2


def test_a_launch_that_streams_stands_at_the_memory() -> None:
    image = bytes(elementwise("un", "neg", [dtypes.f32], dtypes.f32, tile=(64, 256)))
    with Forecaster("nvidia/a100-sxm-80gb") as chip:
        forecast = chip.launch(image, [8192, 8192, 4 * 8192**2, 4 * 8192**2])
    assert (forecast.bound_name, forecast.memory_bytes) == ("memory", 2 * 4 * 8192**2)


def test_rows_that_programs_share_are_moved_once_when_the_cache_holds_them() -> None:
    with Forecaster("nvidia/a100-sxm-80gb") as chip:
        forecast = cube(product(chip), 1024)
    assert forecast.memory_bytes == 2 * 2 * 1024**2 + 4 * 1024**2


def test_a_chip_without_the_moves_that_timing_needs_is_refused_with_what_it_lacks() -> None:
    lines = load(SMALL).flat().decode().splitlines(keepends=True)
    rest = [line for line in lines if not re.match(r"paths\.(dram_|\w+_dram\.)", line)]
    assert len(rest) < len(lines)
    with pytest.raises(PortLoadError, match=r"npu-small cannot be forecast: .* lacks paths"):
        Forecaster(from_flat("".join(rest)))


def test_a_wrong_size_is_refused_with_both_values(small: Forecaster) -> None:
    with pytest.raises(UsageError, match="argument 3 has 1 bytes and needs 8192"):
        product(small).forecast([64, 64, 64, 1, 8192, 16384])


def test_a_loop_that_data_decides_is_said_to_be_assumed(small: Forecaster) -> None:
    text = """vil 1.0
kernel main {
  arg N: i32 read bytes 4
  arg Y: f32 write bytes 256
  launch main grid(1) (N, Y)
}
program main flat {
  param N: i32 read
  param Y: f32 write
  tile n: i32[1, 1] near @0
  tile y: f32[8, 8] near @64
  desc dn = N {
    row
    column
    dim 1 stride 1 base 0
  }
  desc dy = Y {
    row digits (_, 1)
    column digits (_, 1)
    dim 8 stride 8 base 0, r0 * 1
    dim 8 stride 1 base 0, c0 * 1
  }
  load n, dn
  sreg.tile %3, n
  fill y, 0.0
  loop %4, %3
    un.exp y, y
  end
  store dy, y
}
"""
    forecast = small.launch(bytes(parse(text)), [4, 256])
    assert (forecast.open_counts, forecast.vector_elements) == (1, 64 + 8 * 64)


def test_sums_of_long_rows_count_every_element(small: Forecaster) -> None:
    module = reduction("add", dtypes.f32, dtypes.f32, axis=1)
    forecast = small.launch(bytes(module), [128, 4096, 4 * 128 * 4096, 4 * 128])
    assert forecast.loaded_bytes == 4 * 128 * 4096
