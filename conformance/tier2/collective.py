"""Collectives at 1 to 4 ranks through the stack that every user has: native, or by the loader.

Rank r speaks for the r-th device of the port, and for the device under test where there are fewer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import hal
from hal import dtypes, errors
from hal.dtypes import DType
from hal.testing import case, close
from hal.testing.compute import blank, is_bitwise_equal
from hal.testing.inputs import codes, floats, numbers, small
from hal.testing.session import Session

FLOATS = [dtypes.f32, dtypes.f16, dtypes.bf16, dtypes.f64]
INTS = [dtypes.i8, dtypes.u8, dtypes.i32, dtypes.i64]
EVERY = [*FLOATS, *INTS, dtypes.bool_, dtypes.f8e4m3, dtypes.f8e5m2]
RANKS = [1, 2, 3, 4]
COUNTS = [1, 7, 1025]
GUARD, GUARD_BYTES = 0xB7, 256
MERGE: dict[str, Any] = {
    "sum": np.add,
    "product": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}
ALL_REDUCE = ["HAL-COL-035", "HAL-COL-036", "HAL-COL-037"]


def named(item: Any) -> str | None:
    """Return the id of a parameter: a type's name."""
    return item.name if isinstance(item, DType) else None


@dataclass
class Place:
    """A range of a rank's memory between two guards."""

    rank: Rank
    buffer: Any
    bytes: int

    @property
    def view(self) -> Any:
        """The range itself."""
        return self.buffer[GUARD_BYTES : GUARD_BYTES + self.bytes]

    def part(self, index: int, count: int) -> Any:
        """Return one of `count` equal parts."""
        size = self.bytes // count
        start = GUARD_BYTES + index * size
        return self.buffer[start : start + size]

    def read(self, like: Any) -> Any:
        """Return the range as an array of a kind; check the guards."""
        whole = np.zeros(self.bytes + 2 * GUARD_BYTES, np.uint8)
        self.rank.stream.copy(whole, self.buffer)
        self.rank.stream.synchronize()
        edges = np.concatenate([whole[:GUARD_BYTES], whole[GUARD_BYTES + self.bytes :]])
        assert set(edges.tolist()) == {GUARD}, "a collective wrote outside its target"
        inner = whole[GUARD_BYTES : GUARD_BYTES + self.bytes].copy()
        return inner.view(like.dtype).reshape(like.shape)


@dataclass
class Rank:
    """One rank: device, communicator and stream."""

    device: Any
    comm: Any
    stream: Any

    def place(self, array: Any) -> Place:
        """Return device memory that holds an array, between guards."""
        edge = np.full(GUARD_BYTES, GUARD, np.uint8)
        raw = np.frombuffer(array.tobytes(), np.uint8)
        whole = np.concatenate([edge, raw, edge])
        buffer = self.device.alloc(len(whole))
        self.stream.copy(buffer, whole)
        self.stream.synchronize()
        return Place(self, buffer, array.nbytes)


Join = Callable[..., list[Rank]]


@pytest.fixture
def join(port: Any, settings: Session) -> Iterator[Join]:
    """Make a communicator of some ranks; they end with the case."""
    made: list[Rank] = []

    def make(count: int, timeout_s: float = 10.0) -> list[Rank]:
        there = port.device_count
        indices = [r if there >= count else settings.device_index for r in range(count)]
        devices = [port.device(index) for index in indices]
        comms = hal.collective.join(devices, timeout_s=timeout_s)
        ranks = [Rank(d, c, d.stream()) for d, c in zip(devices, comms, strict=True)]
        made.extend(ranks)
        return ranks

    yield make
    for rank in made:
        rank.comm.close()
        rank.device.close()


def together(ranks: list[Rank], call: Callable[[int, Rank], None]) -> None:
    """Let every rank enqueue its call in one group and wait for all."""
    with hal.collective.group():
        for number, rank in enumerate(ranks):
            call(number, rank)
    for rank in ranks:
        rank.stream.synchronize()


def inputs(rng: np.random.Generator, dtype: DType, op: str, ranks: int, *shape: int) -> list[Any]:
    """Return a rank's numbers each, whose reduction is exact in any order."""
    limit = 2 if op == "product" else 15
    return [small(rng, dtype, *shape, limit=limit) for _ in range(ranks)]


def reduced(parts: list[Any], op: str, dtype: DType) -> Any:
    """Return the exact reduction."""
    kind = np.float64 if dtype.is_float else np.int64
    total = parts[0].astype(kind)
    for part in parts[1:]:
        total = MERGE[op](total, part.astype(kind))
    return total.astype(dtype.numpy)


@case(rules=ALL_REDUCE, operator="all_reduce")
@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("op", list(MERGE))
@pytest.mark.parametrize("dtype", [*FLOATS, *INTS], ids=named)
def test_all_reduce_is_exact_for_small_integers(
    join: Join, rng: np.random.Generator, dtype: DType, op: str, ranks: int
) -> None:
    group = join(ranks)
    for count in COUNTS:
        parts = inputs(rng, dtype, op, ranks, count)
        wanted = reduced(parts, op, dtype)
        source = [rank.place(part) for rank, part in zip(group, parts, strict=True)]
        target = [rank.place(blank(dtype, count)) for rank in group]
        together(
            group,
            lambda r, rank, s=source, t=target: rank.comm.all_reduce(
                rank.stream, s[r].view, t[r].view, op=op, dtype=dtype.name
            ),
        )
        for r in range(ranks):
            close(target[r].read(wanted), wanted, law="minmax", dtype=dtype.name)
            assert is_bitwise_equal(source[r].read(parts[r]), parts[r]), "a source has changed"


@case(rules=ALL_REDUCE, operator="all_reduce")
@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("dtype", [dtypes.f32, dtypes.i32, dtypes.f16, dtypes.u8], ids=named)
def test_all_reduce_in_place(
    join: Join, rng: np.random.Generator, dtype: DType, ranks: int
) -> None:
    group = join(ranks)
    for count in (1, 33, 4097):
        parts = inputs(rng, dtype, "sum", ranks, count)
        places = [rank.place(part) for rank, part in zip(group, parts, strict=True)]
        together(
            group,
            lambda r, rank, p=places: rank.comm.all_reduce(
                rank.stream, p[r].view, p[r].view, dtype=dtype.name
            ),
        )
        wanted = reduced(parts, "sum", dtype)
        for place in places:
            close(place.read(wanted), wanted, law="minmax", dtype=dtype.name)


@case(rules=["HAL-COL-037", "HAL-COL-036"], operator="all_reduce")
@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize("dtype", FLOATS, ids=named)
def test_all_ranks_end_with_the_same_bits_within_the_law(
    join: Join, rng: np.random.Generator, dtype: DType, ranks: int
) -> None:
    group = join(ranks)
    parts = [floats(rng, dtype, 3001) for _ in range(ranks)]
    places = [rank.place(part) for rank, part in zip(group, parts, strict=True)]
    together(
        group,
        lambda r, rank: rank.comm.all_reduce(
            rank.stream, places[r].view, places[r].view, dtype=dtype.name
        ),
    )
    found = [place.read(parts[0]) for place in places]
    for other in found[1:]:
        assert is_bitwise_equal(other, found[0]), "two ranks have different bits (HAL-COL-037)"
    wide = np.stack([part.astype(np.longdouble) for part in parts])
    scale = np.abs(wide).sum(axis=0).astype(np.float64)
    ref = wide.sum(axis=0).astype(np.float64)
    # A sum of 16-bit floats may be rounded to the type after each rank.
    kind = dtype.name if dtype.bytes == 2 else ""
    close(
        found[0], ref, law="collective", dtype=dtype.name, scale=scale, terms=ranks,
        accumulator=kind,
    )  # fmt: skip


@case(rules=["HAL-COL-035", "HAL-COL-036"], operator="all_reduce")
@pytest.mark.parametrize("ranks", RANKS)
def test_each_rank_counts_once(join: Join, ranks: int) -> None:
    group = join(ranks)
    places = [rank.place(np.array([10**r], np.int64)) for r, rank in enumerate(group)]
    together(
        group,
        lambda r, rank: rank.comm.all_reduce(
            rank.stream, places[r].view, places[r].view, dtype="i64"
        ),
    )
    wanted = np.array([sum(10**r for r in range(ranks))])
    for place in places:
        close(place.read(wanted), wanted, law="exact", dtype="i64")


@case(rules=["HAL-COL-046", "HAL-COL-045"], operator="all_gather")
@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("dtype", EVERY, ids=named)
def test_all_gather_puts_parts_in_rank_order(
    join: Join, rng: np.random.Generator, dtype: DType, ranks: int
) -> None:
    group = join(ranks)
    for count in COUNTS:
        parts = [some(rng, dtype, count) for _ in range(ranks)]
        wanted = np.concatenate(parts)
        source = [rank.place(part) for rank, part in zip(group, parts, strict=True)]
        target = [rank.place(blank(dtype, ranks * count)) for rank in group]
        together(
            group,
            lambda r, rank, s=source, t=target: rank.comm.all_gather(
                rank.stream, s[r].view, t[r].view, dtype=dtype.name
            ),
        )
        for r in range(ranks):
            assert is_bitwise_equal(target[r].read(wanted), wanted)
            assert is_bitwise_equal(source[r].read(parts[r]), parts[r])


def some(rng: np.random.Generator, dtype: DType, count: int) -> Any:
    """Return values of any kind, special ones with them."""
    if dtype.kind == "bool":
        return small(rng, dtype, count)
    values = codes(dtype) if dtype.bytes <= 2 else numbers(rng, dtype, 1100)
    return np.resize(rng.permutation(values), count)


@case(rules=["HAL-COL-046", "HAL-COL-045"], operator="all_gather")
@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("dtype", [dtypes.f32, dtypes.u8, dtypes.f16], ids=named)
def test_all_gather_of_a_part_in_place(
    join: Join, rng: np.random.Generator, dtype: DType, ranks: int
) -> None:
    group = join(ranks)
    for count in (1, 5, 333):
        parts = [some(rng, dtype, count) for _ in range(ranks)]
        places = []
        for r, rank in enumerate(group):
            whole = blank(dtype, ranks, count)
            whole[r] = parts[r]
            places.append(rank.place(whole))
        together(
            group,
            lambda r, rank, p=places: rank.comm.all_gather(
                rank.stream, p[r].part(r, ranks), p[r].view, dtype=dtype.name
            ),
        )
        wanted = np.stack(parts)
        for place in places:
            assert is_bitwise_equal(place.read(wanted), wanted)


@case(rules=["HAL-COL-055"], operator="reduce_scatter")
@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("dtype", [*FLOATS, *INTS], ids=named)
def test_reduce_scatter_gives_each_rank_its_part(
    join: Join, rng: np.random.Generator, dtype: DType, ranks: int
) -> None:
    group = join(ranks)
    for op in MERGE:
        for count in (1, 77):
            parts = inputs(rng, dtype, op, ranks, ranks * count)
            wanted = reduced(parts, op, dtype).reshape(ranks, count)
            source = [rank.place(part) for rank, part in zip(group, parts, strict=True)]
            target = [rank.place(blank(dtype, count)) for rank in group]
            together(
                group,
                lambda r, rank, s=source, t=target, o=op: rank.comm.reduce_scatter(
                    rank.stream, s[r].view, t[r].view, op=o, dtype=dtype.name
                ),
            )
            for r in range(ranks):
                close(target[r].read(wanted[r]), wanted[r], law="minmax", dtype=dtype.name)
                assert is_bitwise_equal(source[r].read(parts[r]), parts[r])


@case(rules=["HAL-COL-065"], operator="broadcast")
@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("dtype", EVERY, ids=named)
def test_broadcast_from_each_root(
    join: Join, rng: np.random.Generator, dtype: DType, ranks: int
) -> None:
    group = join(ranks)
    for root in range(ranks):
        parts = [some(rng, dtype, 99) for _ in range(ranks)]
        source = [rank.place(part) for rank, part in zip(group, parts, strict=True)]
        target = [rank.place(blank(dtype, 99)) for rank in group]
        together(
            group,
            lambda r, rank, s=source, t=target, o=root: rank.comm.broadcast(
                rank.stream, s[r].view, t[r].view, root=o, dtype=dtype.name
            ),
        )
        for place in target:
            assert is_bitwise_equal(place.read(parts[root]), parts[root])


@case(rules=["HAL-COL-075", "HAL-COL-085"], operator="send recv")
@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize("dtype", [dtypes.f32, dtypes.u8, dtypes.f64, dtypes.bool_], ids=named)
def test_a_ring_of_sends(join: Join, rng: np.random.Generator, dtype: DType, ranks: int) -> None:
    group = join(ranks)
    parts = [some(rng, dtype, 501) for _ in range(ranks)]
    source = [rank.place(part) for rank, part in zip(group, parts, strict=True)]
    target = [rank.place(blank(dtype, 501)) for rank in group]

    def turn(r: int, rank: Rank) -> None:
        rank.comm.send(rank.stream, source[r].view, peer=(r + 1) % ranks, dtype=dtype.name)
        rank.comm.recv(rank.stream, target[r].view, peer=(r - 1) % ranks, dtype=dtype.name)

    together(group, turn)
    for r in range(ranks):
        wanted = parts[(r - 1) % ranks]
        assert is_bitwise_equal(target[r].read(wanted), wanted)


@case(rules=["HAL-COL-075", "HAL-COL-085"], operator="send recv")
def test_two_sends_to_one_peer_arrive_in_order(join: Join) -> None:
    group = join(2)
    first, second = np.arange(9, dtype=np.int32), np.arange(9, dtype=np.int32) + 100
    gives = [group[0].place(first), group[0].place(second)]
    takes = [group[1].place(blank(dtypes.i32, 9)) for _ in range(2)]
    for give, take in zip(gives, takes, strict=True):
        with hal.collective.group():
            group[0].comm.send(group[0].stream, give.view, peer=1, dtype="i32")
            group[1].comm.recv(group[1].stream, take.view, peer=0, dtype="i32")
    for rank in group:
        rank.stream.synchronize()
    close(takes[0].read(first), first, law="exact", dtype="i32")
    close(takes[1].read(second), second, law="exact", dtype="i32")


@case(rules=["HAL-COL-125"], operator="all_to_all")
@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("dtype", [dtypes.f32, dtypes.i8, dtypes.i64, dtypes.bf16], ids=named)
def test_all_to_all_swaps_parts(
    join: Join, rng: np.random.Generator, dtype: DType, ranks: int
) -> None:
    group = join(ranks)
    for count in (1, 35):
        parts = [some(rng, dtype, ranks * count).reshape(ranks, count) for _ in range(ranks)]
        source = [rank.place(part) for rank, part in zip(group, parts, strict=True)]
        target = [rank.place(blank(dtype, ranks, count)) for rank in group]
        together(
            group,
            lambda r, rank, s=source, t=target: rank.comm.all_to_all(
                rank.stream, s[r].view, t[r].view, dtype=dtype.name
            ),
        )
        for r in range(ranks):
            wanted = np.stack([parts[q][r] for q in range(ranks)])
            assert is_bitwise_equal(target[r].read(wanted), wanted)


@case(rules=["HAL-COL-090", "HAL-COL-035"], operator="all_reduce")
@pytest.mark.parametrize("ranks", RANKS)
def test_a_group_holds_several_collectives(
    join: Join, rng: np.random.Generator, ranks: int
) -> None:
    group = join(ranks)
    parts = [inputs(rng, dtypes.i32, "sum", ranks, 65) for _ in range(3)]
    places = [[rank.place(p) for rank, p in zip(group, part, strict=True)] for part in parts]

    def turn(r: int, rank: Rank) -> None:
        for place in places:
            rank.comm.all_reduce(rank.stream, place[r].view, place[r].view, dtype="i32")

    together(group, turn)
    for part, place in zip(parts, places, strict=True):
        wanted = reduced(part, "sum", dtypes.i32)
        for each in place:
            close(each.read(wanted), wanted, law="exact", dtype="i32")


@case(rules=["HAL-COL-035", "HAL-VIL-036"], operator="all_reduce")
@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_a_collective_waits_for_the_work_before_it(
    join: Join, rng: np.random.Generator, ranks: int
) -> None:
    group = join(ranks)
    parts = inputs(rng, dtypes.i32, "sum", ranks, 1000)
    places = [rank.place(np.zeros(1000, np.int32)) for rank in group]

    def turn(r: int, rank: Rank) -> None:
        rank.stream.copy(places[r].view, parts[r])
        rank.comm.all_reduce(rank.stream, places[r].view, places[r].view, dtype="i32")

    for _ in range(3):
        together(group, turn)
        wanted = reduced(parts, "sum", dtypes.i32)
        for place in places:
            close(place.read(wanted), wanted, law="exact", dtype="i32")


# ---- what collectives refuse ----


@case(rules=["HAL-COL-034"], negative=True)
@pytest.mark.parametrize("ranks", [1, 2])
def test_all_reduce_refuses_a_target_that_is_too_small(join: Join, ranks: int) -> None:
    group = join(ranks)
    source, target = group[0].place(np.zeros(8, np.int32)), group[0].place(np.zeros(4, np.int32))
    with pytest.raises(errors.OutOfRange):
        group[0].comm.all_reduce(group[0].stream, source.view, target.view, dtype="i32")


@case(rules=["HAL-COL-044"], negative=True)
def test_all_gather_refuses_a_target_without_room_for_all(join: Join) -> None:
    rank = join(2)[0]
    source, target = rank.place(np.zeros(8, np.int32)), rank.place(np.zeros(15, np.int32))
    with pytest.raises(errors.OutOfRange):
        rank.comm.all_gather(rank.stream, source.view, target.view, dtype="i32")


@case(rules=["HAL-COL-054"], negative=True)
def test_reduce_scatter_refuses_a_source_without_a_part_for_each(join: Join) -> None:
    rank = join(3)[0]
    source, target = rank.place(np.zeros(8, np.int32)), rank.place(np.zeros(3, np.int32))
    with pytest.raises(errors.OutOfRange):
        rank.comm.reduce_scatter(rank.stream, source.view, target.view, dtype="i32")


@case(rules=["HAL-COL-020"], negative=True)
def test_a_communicator_that_was_destroyed_is_refused(join: Join) -> None:
    rank = join(1)[0]
    place = rank.place(np.zeros(4, np.int32))
    rank.comm.close()
    with pytest.raises(errors.InvalidHandle):
        rank.comm.all_reduce(rank.stream, place.view, place.view, dtype="i32")


@case(rules=["HAL-COL-013"], negative=True)
def test_a_rank_that_stays_away_gives_a_timeout(join: Join) -> None:
    rank = join(2, 0.1)[0]
    place = rank.place(np.arange(4, dtype=np.int32))
    with pytest.raises((errors.Timeout, errors.PeerFailed)):
        rank.comm.all_reduce(rank.stream, place.view, place.view, dtype="i32")
        rank.stream.synchronize(timeout_s=5)
    other = rank.device.stream()
    fresh = rank.device.alloc(16)
    other.copy(fresh, np.arange(4, dtype=np.int32))
    other.synchronize()


@case(rules=["HAL-COL-101"], negative=True)
def test_abort_ends_ranks_with_peer_failed(join: Join) -> None:
    group = join(2)
    group[0].comm.abort()
    place = group[1].place(np.zeros(4, np.int32))
    with pytest.raises(errors.PeerFailed):
        group[1].comm.all_reduce(group[1].stream, place.view, place.view, dtype="i32")
        group[1].stream.synchronize(timeout_s=5)
