"""The closed forms: limits that they reach, and directions in which they must move."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hal.errors import HcdError
from hal.hcd import load
from hal.sim import collective, gemm, literals, vector
from hal.sim.calibration import CONSTANTS_MOST, FAMILIES
from hal.sim.chip import Chip, Link
from hal.sim.predict import Target

H100 = Target.of(Chip.of(load("nvidia/h100-sxm")))
LENGTH = st.integers(1, 70_000)


def product(
    m: float, n: float, k: float, target: Target = H100, dtype: str = "bf16", **more: float
) -> float:
    """Seconds of one product."""
    arrays = (np.array([float(x)]) for x in (m, n, k))
    constants = target.constants["gemm"]
    return float(gemm.predict_s(target.chip, constants, *arrays, dtype=dtype, **more)[0])


def reduce_s(count: int, size: float, **more: Link) -> float:
    """Seconds of one all-reduce on H100."""
    constants = H100.constants["collective"]
    arrays = np.array([float(count)]), np.array([size])
    return float(collective.predict_s(H100.chip, constants, "all_reduce", *arrays, **more)[0])


@settings(deadline=None, max_examples=60)
@given(LENGTH, LENGTH, LENGTH)
def test_a_product_is_never_faster_than_the_matrix_units_nor_the_launch(
    m: int, n: int, k: int
) -> None:
    chip, constants = H100.chip, H100.constants["gemm"]
    least = max(2 * m * n * k / chip.peak_flops("bf16"), constants["launch"] * chip.launch_s)
    assert product(m, n, k) >= least


@settings(deadline=None, max_examples=60)
@given(LENGTH, LENGTH, LENGTH)
def test_a_faster_clock_and_memory_never_slow_a_product(m: int, n: int, k: int) -> None:
    chip = H100.chip
    faster = replace(
        chip,
        clock_hz=1.5 * chip.clock_hz,
        dram_bytes_per_s=1.5 * chip.dram_bytes_per_s,
        cache_bytes_per_s=1.5 * chip.cache_bytes_per_s,
    )
    assert product(m, n, k, Target(faster, H100.constants)) <= product(m, n, k) * (1 + 1e-9)


@pytest.mark.parametrize("odd", [4095, 4097, 3000, 999])
def test_an_odd_count_of_rows_costs_about_what_its_neighbours_do(odd: int) -> None:
    low, high = product(odd - odd % 512, 4096, 4096), product(odd - odd % 512 + 512, 4096, 4096)
    assert 0.95 * low <= product(odd, 4096, 4096) <= 1.15 * high


def test_an_unaligned_k_is_slower_than_the_next_aligned_one() -> None:
    assert product(64, 4096, 4095) > product(64, 4096, 4096)


def test_a_product_of_one_element_costs_a_launch() -> None:
    launch = H100.constants["gemm"]["launch"] * H100.chip.launch_s
    assert product(1, 1, 1) == pytest.approx(launch, rel=0.2)


def test_a_batch_of_products_costs_less_than_one_after_another() -> None:
    assert product(128, 128, 128, batch=64) < 64 * product(128, 128, 128)


def test_many_products_at_once_are_the_same_as_one_at_a_time() -> None:
    random = np.random.default_rng(1)
    m, n, k = (np.floor(2 ** random.uniform(0, 16, 300)) for _ in range(3))
    together = gemm.predict_s(H100.chip, H100.constants["gemm"], m, n, k)
    alone = [product(a, b, c) for a, b, c in zip(m[:20], n[:20], k[:20], strict=True)]
    assert together[:20] == pytest.approx(alone)


def test_a_type_without_a_matrix_unit_is_refused_with_those_there_are() -> None:
    with pytest.raises(HcdError, match="no matrix operation takes i64; the description declares"):
        product(8, 8, 8, dtype="i64")


def test_f8_products_are_faster_than_bf16_where_the_unit_is() -> None:
    assert product(8192, 8192, 8192, dtype="f8e4m3") < 0.7 * product(8192, 8192, 8192)


def test_the_h200_gains_only_where_memory_bounds() -> None:
    h200 = Target.of(Chip.of(load("nvidia/h200-sxm")))
    assert h200.constants["gemm"].chip == "nvidia/h100-sxm"
    assert product(64, 12288, 12288, h200) < 0.8 * product(64, 12288, 12288)
    assert product(8192, 8192, 8192, h200) == pytest.approx(product(8192, 8192, 8192), rel=0.02)


@pytest.mark.parametrize("name", sorted(vector.OPERATORS))
def test_a_long_vector_operator_is_bound_by_memory_or_lanes(name: str) -> None:
    rows, length, chip = 65536.0, 4096.0, H100.chip
    what = vector.OPERATORS[name]
    moved = (what.reads + what.writes) * 2 * rows * length / chip.dram_bytes_per_s
    work = what.work * rows * length / (chip.lane_rate() * H100.constants["vector"]["lanes"])
    arrays = np.array([rows]), np.array([length])
    seconds = float(vector.predict_s(chip, H100.constants["vector"], name, *arrays)[0])
    assert max(moved, work) <= seconds <= 3 * max(moved, work)


def test_a_ring_of_more_chips_takes_longer_for_the_same_message() -> None:
    times = [reduce_s(count, 2.0**20) for count in (2, 4, 8, 64, 1024)]
    assert times == sorted(times)


def test_a_large_all_reduce_is_bound_by_the_links() -> None:
    size, link = 2.0**33, H100.chip.link
    assert link is not None
    assert reduce_s(2, size) >= size / link.total_bytes_per_s


def test_a_sum_in_the_switch_beats_the_ring_for_large_messages() -> None:
    link = H100.chip.link
    assert link is not None
    plain = replace(link, in_switch_reduce=False)
    assert reduce_s(8, 2.0**30) < reduce_s(8, 2.0**30, link=plain)


def test_a_collective_needs_links() -> None:
    chip = replace(H100.chip, link=None)
    one = np.array([4.0])
    with pytest.raises(HcdError, match="needs links and the description declares none"):
        collective.predict_s(chip, H100.constants["collective"], "all_gather", one, one)


def test_a_system_gives_the_links_of_its_chips() -> None:
    mesh, star = Link.of_system(load("nvidia/a100-x4")), Link.of_system(load("nvidia/h100-x8"))
    assert mesh.total_bytes_per_s == 12 * 25e9
    assert (star.total_bytes_per_s, star.in_switch_reduce) == (18 * 25e9, True)


def test_two_chips_of_a_mesh_have_only_the_links_between_them() -> None:
    mesh = Link.of_system(load("nvidia/a100-x4"))
    assert mesh.among(np.array([2.0, 4.0])).tolist() == [4 * 25e9, 12 * 25e9]
    assert reduce_s(2, 2.0**30, link=mesh) > 2 * reduce_s(2, 2.0**30)


def test_no_family_has_more_than_ten_constants_and_each_is_explained() -> None:
    for constants in FAMILIES.values():
        assert len(constants) <= CONSTANTS_MOST
        assert all(c.low <= c.default <= c.high and c.meaning and c.unit for c in constants)


def test_every_literal_has_a_unit_and_a_source() -> None:
    assert all(row.unit and row.source for row in literals.TABLE)
    assert len({row.name for row in literals.TABLE}) == len(literals.TABLE)
