"""Collectives between devices of one process."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import hal
from hal import errors
from hal.collective import Communicator

SYSTEM = "sim:sim/npu-small-x4"


@pytest.fixture(params=[1, 2, 3, 4])
def ranks(request: pytest.FixtureRequest) -> Iterator[list[Communicator]]:
    """Communicators of one to four devices of a simulated system."""
    devices = [hal.open(f"{SYSTEM}:{index}") for index in range(request.param)]
    yield hal.collective.join(devices)
    for device in devices:
        device.close()


def test_all_reduce_gives_each_rank_the_whole_sum(ranks: list[Communicator]) -> None:
    streams = [rank.device.stream() for rank in ranks]
    parts = [r.device.array(np.arange(37, dtype=np.float32) + r.rank) for r in ranks]
    with hal.collective.group():
        for rank, stream, part in zip(ranks, streams, parts, strict=True):
            rank.all_reduce(stream, part, part)
    count = len(ranks)
    expected = (np.arange(37) * count + sum(range(count))).tolist()
    for stream, part in zip(streams, parts, strict=True):
        assert part.numpy(stream=stream).tolist() == expected


@pytest.mark.parametrize(("op", "value"), [("max", 5), ("min", 2), ("product", 10)])
def test_all_reduce_knows_other_reductions(op: str, value: int) -> None:
    with hal.open(f"{SYSTEM}:0") as one, hal.open(f"{SYSTEM}:1") as two:
        ranks = hal.collective.join([one, two])
        streams = [one.stream(), two.stream()]
        parts = [one.array([2], dtype="i32"), two.array([5], dtype="i32")]
        with hal.collective.group():
            for rank, stream, part in zip(ranks, streams, parts, strict=True):
                rank.all_reduce(stream, part, part, op=op)
        got = [p.numpy(stream=s).tolist() for p, s in zip(parts, streams, strict=True)]
        assert got == [[value], [value]]


def test_all_gather_gives_each_rank_all_parts(ranks: list[Communicator]) -> None:
    streams = [rank.device.stream() for rank in ranks]
    wholes = [r.device.empty(5 * len(ranks), "i32") for r in ranks]
    with hal.collective.group():
        for rank, stream, whole in zip(ranks, streams, wholes, strict=True):
            part = rank.device.array(np.full(5, rank.rank, np.int32))
            rank.all_gather(stream, part, whole)
    expected = np.repeat(np.arange(len(ranks)), 5).tolist()
    for stream, whole in zip(streams, wholes, strict=True):
        assert whole.numpy(stream=stream).tolist() == expected


def test_broadcast_gives_every_rank_the_roots_source(ranks: list[Communicator]) -> None:
    root = len(ranks) - 1
    streams = [rank.device.stream() for rank in ranks]
    parts = [r.device.array(np.full(9, r.rank, np.float32)) for r in ranks]
    outs = [r.device.empty(9, "f32") for r in ranks]
    with hal.collective.group():
        for rank, stream, part, out in zip(ranks, streams, parts, outs, strict=True):
            rank.broadcast(stream, part, out, root=root)
    for stream, out in zip(streams, outs, strict=True):
        assert out.numpy(stream=stream).tolist() == [root] * 9


def test_reduce_scatter_gives_each_rank_its_part(ranks: list[Communicator]) -> None:
    count = len(ranks)
    streams = [rank.device.stream() for rank in ranks]
    outs = [r.device.empty(3, "i32") for r in ranks]
    with hal.collective.group():
        for rank, stream, out in zip(ranks, streams, outs, strict=True):
            whole = rank.device.array(np.arange(3 * count, dtype=np.int32))
            rank.reduce_scatter(stream, whole, out)
    for rank, stream, out in zip(ranks, streams, outs, strict=True):
        expected = [count * (3 * rank.rank + i) for i in range(3)]
        assert out.numpy(stream=stream).tolist() == expected


def test_a_range_goes_from_one_rank_to_another() -> None:
    with hal.open(f"{SYSTEM}:0") as one, hal.open(f"{SYSTEM}:1") as two:
        ranks = hal.collective.join([one, two])
        out, stream = two.empty(7, "f32"), two.stream()
        with hal.collective.group():
            ranks[0].send(one.stream(), one.array(np.arange(7, dtype=np.float32)), peer=1)
            ranks[1].recv(stream, out, peer=0)
        assert out.numpy(stream=stream).tolist() == list(range(7))


def test_bad_input_to_a_collective_names_both_values() -> None:
    with hal.open(f"{SYSTEM}:0") as one, hal.open(f"{SYSTEM}:1") as two:
        rank = hal.collective.join([one])[0]
        part, stream = one.empty(4, "f32"), one.stream()
        with pytest.raises(errors.UsageError, match="there is no reduction 'mean'"):
            rank.all_reduce(stream, part, part, op="mean")
        with pytest.raises(errors.InvalidHandle, match="the target is of"):
            rank.all_reduce(stream, part, two.empty(4, "f32"))
        with pytest.raises(errors.InvalidHandle, match="the stream is of"):
            rank.all_reduce(two.stream(), part, part)
        with pytest.raises(errors.UsageError, match="has an element type"):
            rank.all_reduce(stream, one.alloc(8), one.alloc(8))
        with pytest.raises(errors.InvalidValue, match="there is no rank 1 of 1"):
            rank.broadcast(stream, part, part, root=1)


def test_devices_of_two_ports_do_not_join() -> None:
    with hal.open("cpu") as one, hal.open("sim") as two:
        pair = [one, two]
        with pytest.raises(errors.UsageError, match="are of two ports"):
            hal.collective.join(pair)


def test_a_group_inside_a_group_is_refused() -> None:
    inner = hal.collective.group()
    with hal.collective.group(), pytest.raises(errors.UsageError, match="is in a group already"):
        inner.__enter__()
