"""checks=race, inside a program: engines of an explicit program meet at tokens."""

from __future__ import annotations

import re

import numpy as np
import pytest

import hal
from hal.vil import parse
from tests.sim_port.explicit import PIPELINE, without


def run(text: str, blocks: int, checks: str = "race") -> np.ndarray:
    """Run a program of the small example chip on so many blocks of 512 elements."""
    port = hal.load_port("sim:sim/npu-small", options={"checks": checks} if checks else {})
    with port.device(0) as device:
        source = np.arange(512 * blocks, dtype=np.float32)
        x, y = device.array(source), device.empty(source.shape, np.float32)
        stream = device.stream()
        device.load(parse(text))["main"].launch(stream, source.size, x, y)
        stream.synchronize()
        result = y.numpy()
    assert isinstance(result, np.ndarray)
    return result


@pytest.mark.parametrize("blocks", [1, 2, 7])
def test_a_program_whose_tokens_are_right_has_no_race(blocks: int) -> None:
    assert np.array_equal(run(PIPELINE, blocks), -np.arange(512 * blocks, dtype=np.float32))


@pytest.mark.parametrize(
    ("token", "message"),
    [
        ("filled", r"un\): race: engine vector reads x\[0\], .*dma_in is done writing it at"),
        ("used", r"load\): race: engine dma_in writes x\[0\], .*vector is done reading it at"),
        ("made", r"store\): race: engine dma_out reads y\[0\], .*vector is done writing it at"),
        ("kept", r"un\): race: engine vector writes y\[0\], .*dma_out is done reading it at"),
    ],
)
def test_each_token_that_is_deleted_is_a_race(token: str, message: str) -> None:
    """None of the four is implied by the others; the two of reuse show from the third block on."""
    text = without(PIPELINE, f"signal {token}", f"wait {token}")
    with pytest.raises(hal.errors.ExecutionFailed, match=message):
        run(text, 3)


@pytest.mark.parametrize("token", ["used", "kept"])
def test_one_credit_too_many_is_a_race(token: str) -> None:
    """Two stages and three credits: the third block meets the first one's stage."""
    text = re.sub(rf"(token {token}: .*) credits 2", r"\1 credits 3", PIPELINE)
    assert text != PIPELINE
    with pytest.raises(hal.errors.ExecutionFailed, match=r"program main: instruction \d+ .*race"):
        run(text, 3)


def test_reuse_of_a_stage_shows_only_where_it_happens() -> None:
    """With two blocks no stage is used twice, so the token of reuse is not needed."""
    text = without(PIPELINE, "signal used", "wait used")
    assert np.array_equal(run(text, 2), -np.arange(1024, dtype=np.float32))


def test_without_the_check_a_race_goes_unseen() -> None:
    text = without(PIPELINE, "signal filled", "wait filled")
    assert np.array_equal(run(text, 3, checks=""), -np.arange(1536, dtype=np.float32))


def test_tiles_that_share_bytes_are_one_place() -> None:
    """Tile y lies on tile x: the negation writes where a load may still be at work."""
    text = """vil 1.0
kernel main {
  arg N: symbol
  arg X: f32 read bytes 4 * N
  arg Y: f32 write bytes 4 * N
  launch main grid(1) (X, Y, N)
}
program main explicit {
  param X: f32 read
  param Y: f32 write
  param N: symbol
  tile x: f32[8, 64] near @0
  tile y: f32[8, 64] near @0
  desc dx = X {
    row digits (_, 1)
    column digits (_, 1)
    dim N stride 1 base 0, r0 * 64, c0 * 1
  }
  desc dy = Y {
    row digits (_, 1)
    column digits (_, 1)
    dim N stride 1 base 0, r0 * 64, c0 * 1
  }
  load x, dx
  iota_here
  store dy, y
}
"""
    with pytest.raises(hal.errors.ExecutionFailed, match=r"fill\): race: engine vector writes y"):
        run(text.replace("iota_here", "fill y, 1.0"), 1)


LOAD_AFTER_STORE = """vil 1.0
kernel main {
  arg N: symbol
  arg X: f32 read bytes 4 * N
  arg Y: f32 inout bytes 4 * N
  launch main grid(1) (X, Y, N)
}
program main explicit {
  param X: f32 read
  param Y: f32 inout
  param N: symbol
  tile y: f32[8, 32] near @0
  tile z: f32[8, 32] near @4096
  token stored: dma_out -> dma_in credits 0
  token made: vector -> dma_out credits 0
  desc first = Y {
    row digits (_, 1)
    column digits (_, 1)
    dim N stride 1 base 0, r0 * 32, c0 * 1
  }
  desc second = Y {
    row digits (_, 1)
    column digits (_, 1)
    dim N stride 1 base SECOND, r0 * 32, c0 * 1
  }
  fill y, 1.0
  signal made
  wait made
  store first, y
    signal stored
    wait stored
  load z, second
}
"""


def test_a_load_of_what_a_store_writes_needs_a_token() -> None:
    text = LOAD_AFTER_STORE.replace("SECOND", "255")
    run(text, 1)
    with pytest.raises(
        hal.errors.ExecutionFailed,
        match=r"load\): race: engine dma_in reads element 255 of Y, .* dma_out is done writing it",
    ):
        run(without(text, "signal stored", "wait stored"), 1)


def test_a_load_beside_what_a_store_writes_needs_none() -> None:
    run(without(LOAD_AFTER_STORE.replace("SECOND", "256"), "signal stored", "wait stored"), 1)
