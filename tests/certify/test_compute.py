"""The tools of numeric cases: what a chip can run, guards, inputs, and honest skips."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

import hal.hcd
from hal import dtypes
from hal.dtypes import DType
from hal.testing import record, session
from hal.testing.compute import LENGTHS, Lab, blank, chip_of
from hal.testing.inputs import codes, edges, grid_of, numbers, pairs, small
from hal.testing.raw import open_target
from hal.testing.rig import Rig
from hal.testing.session import Session, flat_values
from hal.testing.target import find
from hal.vil import recipes
from hal.vil.builder import Builder
from hal.vil.check_chip import Limits

CHIPS = ["sim/npu-small", "sim/npu-systolic", "hal/cpu"]


def flat_of(name: str) -> dict[str, str]:
    """The flat values of a shipped chip."""
    return flat_values(hal.hcd.load(name).flat().decode())


def in_order(limits: Limits) -> Limits:
    """The limits with the rows of each operation in the order of their ids."""
    assert limits.rows is not None
    rows = {op: sorted(found, key=lambda row: str(row["id"])) for op, found in limits.rows.items()}
    return replace(limits, rows=rows)


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    target = find("sim")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "_current", Session(target))
        raw = open_target(target)
        out = raw.out("hal_device")
        raw.ok("device.open", 0, out)
        yield Rig(raw, int(out[0]))
        raw.clean()
        assert raw.close() == 0


@pytest.fixture
def lab(rig: Rig) -> Lab:
    return Lab(rig, flat_of("sim/npu-small"))


@pytest.mark.parametrize("name", CHIPS)
def test_the_limits_of_a_flat_hcd_are_those_of_the_whole(name: str) -> None:
    whole, read = Limits.of(hal.hcd.load(name)), Limits.of(chip_of(flat_of(name)))
    assert in_order(read) == in_order(whole)


@pytest.mark.parametrize("name", CHIPS)
def test_tiles_are_multiples_of_the_granule_within_the_floor(rig: Rig, name: str) -> None:
    lab = Lab(rig, flat_of(name))
    rows, columns = lab.tile
    limits = lab.limits
    assert (rows % limits.granule_rows, columns % limits.granule_columns) == (0, 0)
    assert (lab.side % limits.granule_rows, lab.side % limits.granule_columns) == (0, 0)
    assert max(rows, columns, lab.side) <= 64


def test_named_lengths_surround_a_tile(lab: Lab) -> None:
    assert [lab.length(name, 16) for name in LENGTHS] == [0, 1, 15, 16, 17, 32, 37]


def test_a_run_gives_the_written_buffers(lab: Lab) -> None:
    x = np.arange(21, dtype=np.int32).reshape(3, 7)
    given = {"M": 3, "N": 7, "X0": x, "Y": blank(dtypes.i32, 3, 7)}
    module = recipes.elementwise("un", "neg", [dtypes.i32], dtypes.i32, tile=lab.tile)
    got = lab.run(module, given)
    assert {name: value.tolist() for name, value in got.items()} == {"Y": (-x).tolist()}


def test_a_changed_input_is_seen(lab: Lab) -> None:
    x = np.arange(21, dtype=np.int32).reshape(3, 7)
    module = recipes.elementwise("un", "neg", [dtypes.i32], dtypes.i32, tile=lab.tile)
    bound = lab.bind(module, {"M": 3, "N": 7, "X0": x, "Y": blank(dtypes.i32, 3, 7)})
    bound.given["X0"] = x + 1
    with pytest.raises(AssertionError, match="HAL-VIL-035"):
        bound.results()


def test_a_write_beside_a_buffer_is_seen(lab: Lab) -> None:
    x = np.arange(21, dtype=np.int32).reshape(3, 7)
    module = recipes.elementwise("un", "neg", [dtypes.i32], dtypes.i32, tile=lab.tile)
    bound = lab.bind(module, {"M": 3, "N": 7, "X0": x, "Y": blank(dtypes.i32, 3, 7)})
    lab.rig.upload(bound.memory["Y"], b"\0", offset=bound.guard + x.nbytes)
    with pytest.raises(AssertionError, match="HAL-VIL-002"):
        bound.results()


def test_what_hcd_and_port_refuse_is_skipped_with_three_witnesses(lab: Lab) -> None:
    kinds = dtypes.f8e4m3, dtypes.f8e4m3, dtypes.f32
    module = recipes.matmul(*kinds, tile=(lab.side, lab.side, lab.side))
    with pytest.raises(record.CapabilityAbsent) as caught:
        lab.load(module)
    assert caught.value.witnesses["probe"] == "module.load: INVALID_MODULE"
    assert caught.value.witnesses["query"] == "NOT_FOUND"


def test_what_every_chip_must_run_is_never_skipped(rig: Rig) -> None:
    flat = flat_of("sim/npu-small")
    poor = {path: text for path, text in flat.items() if ".ops.un_sign." not in path}
    lab = Lab(rig, poor)
    module = recipes.elementwise("un", "neg", [dtypes.i32], dtypes.i32, tile=lab.tile)
    with pytest.raises(AssertionError, match="every chip must run this"):
        lab.load(module)


def test_a_wrong_program_of_a_case_is_no_skip(lab: Lab) -> None:
    b = Builder()
    p = b.program("main")
    t, u = p.tile("t", dtypes.f32, 8, 16), p.tile("u", dtypes.i32, 8, 16)
    p.un("neg", t, u)
    b.kernel_of(p, bytes={})
    with pytest.raises(AssertionError, match="the case's own program is wrong"):
        lab.load(b.module())


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=lambda item: item.name)
def test_small_integers_are_exact_in_every_type(dtype: DType) -> None:
    values = small(np.random.default_rng(0), dtype, 50, limit=4).astype(np.float64)
    assert np.array_equal(values, np.rint(values))
    assert float(np.abs(values).max()) <= 4


def test_edges_have_every_special_value() -> None:
    found = edges(dtypes.f16).astype(np.float64)
    zeros = found[found == 0]
    assert {bool(s) for s in np.signbit(zeros)} == {True, False}
    wanted = [np.inf, -np.inf, 65504.0, -65504.0, 2.0**-24]
    assert [bool(np.any(found == value)) for value in wanted] == [True] * 5
    assert bool(np.any(np.isnan(found)))


def test_every_code_and_every_pair_of_an_8_bit_type_occur() -> None:
    left, right = pairs(np.random.default_rng(0), dtypes.i8)
    assert len(set(zip(left.tolist(), right.tolist(), strict=True))) == 65536
    assert len(set(codes(dtypes.f16).view(np.uint16).tolist())) == 65536


def test_a_grid_holds_all_values_and_has_odd_sides() -> None:
    values = numbers(np.random.default_rng(0), dtypes.i32)
    grid = grid_of(values)
    assert (grid.shape[0] % 2, grid.shape[0]) == (1, grid.shape[1])
    assert np.array_equal(grid.reshape(-1)[: len(values)], values)
