"""Collectives at 1 to 4 ranks through the stack that every user has: native, or by the loader.

Rank r speaks for the r-th device of the port, and for the device under test where there are fewer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from hal import dtypes
from hal.dtypes import DType
from hal.testing import Rig, Status, case, close
from hal.testing.abi import Reduce, status_name
from hal.testing.compute import blank, is_bitwise_equal
from hal.testing.inputs import codes, floats, numbers, small
from hal.testing.raw import open_target
from hal.testing.rig import LONG_NS, check_health
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
REDUCE = {"sum": Reduce.SUM, "product": Reduce.PRODUCT, "max": Reduce.MAX, "min": Reduce.MIN}
ALL_REDUCE = ["HAL-COL-035", "HAL-COL-036", "HAL-COL-037"]


def named(item: Any) -> str | None:
    """Return the id of a parameter: a type's name."""
    return item.name if isinstance(item, DType) else None


@dataclass
class Place:
    """A range of a rank's memory between two guards."""

    rank: Rank
    memory: int
    bytes: int

    @property
    def ref(self) -> Any:
        """The range itself."""
        return self.rank.rig.raw.ref(self.memory, GUARD_BYTES, self.bytes)

    def part(self, index: int, count: int) -> Any:
        """Return one of `count` equal parts."""
        size = self.bytes // count
        return self.rank.rig.raw.ref(self.memory, GUARD_BYTES + index * size, size)

    def read(self, like: Any) -> Any:
        """Return the range as an array of a kind; check the guards."""
        whole = self.rank.rig.download(self.memory, self.bytes + 2 * GUARD_BYTES)
        edges = whole[:GUARD_BYTES] + whole[GUARD_BYTES + self.bytes :]
        assert set(edges) == {GUARD}, "a collective wrote outside its target"
        inner = whole[GUARD_BYTES : GUARD_BYTES + self.bytes]
        return np.frombuffer(inner, like.dtype).reshape(like.shape)


@dataclass
class Rank:
    """One rank: a device with short-cuts, its communicator and its stream."""

    rig: Rig
    comm: int
    stream: int

    def place(self, array: Any) -> Place:
        """Return device memory that holds an array, between guards."""
        edge = bytes([GUARD]) * GUARD_BYTES
        memory = self.rig.memory(array.nbytes + 2 * GUARD_BYTES)
        self.rig.upload(memory, edge + array.tobytes() + edge)
        return Place(self, memory, array.nbytes)

    def desc(
        self,
        dtype: DType,
        count: int,
        source: Any = None,
        target: Any = None,
        *,
        op: str = "sum",
        peer: int = 0,
    ) -> Any:
        """Return a `hal_collective_desc *`."""
        fields = {"dtype": dtype.number, "reduce": int(REDUCE[op]), "count": count, "peer": peer}
        ends = {"source": source, "target": target}
        refs = {name: place for name, place in ends.items() if place is not None}
        return self.rig.raw.new("collective_desc", **fields, **refs)

    def enqueue(self, verb: str, *arguments: Any, **options: Any) -> None:
        """Enqueue this rank's part of a collective."""
        desc = self.desc(*arguments, **options)
        self.rig.raw.ok(f"collective.{verb}", self.comm, self.stream, desc)


Join = Callable[..., list[Rank]]


@pytest.fixture
def join(settings: Session) -> Iterator[Join]:
    """Make a communicator of some ranks, over the loader's layers; all ends with the case."""
    raw = open_target(
        settings.target, layers=("validate", "emulate"), broken_rule=settings.broken_rule
    )
    comms: list[int] = []

    def make(count: int, timeout_ns: int = LONG_NS) -> list[Rank]:
        there = raw.out("uint32_t")
        raw.ok("port.device_count", there)
        rigs, ids = [], raw.out("hal_unique_id")
        raw.ok("collective.unique_id", ids)
        for number in range(count):
            index = number if int(there[0]) >= count else settings.device_index
            out = raw.out("hal_device")
            raw.ok("device.open", index, out)
            rigs.append(Rig(raw, int(out[0]), index))
        outs = [raw.out("hal_comm") for _ in rigs]
        raw.ok("collective.group_begin")
        for number, rig in enumerate(rigs):
            facts = {"rank_count": count, "rank": number, "timeout_ns": timeout_ns}
            desc = raw.new("comm_desc", id=ids[0], **facts)
            raw.ok("collective.comm_create", rig.device, desc, outs[number])
        raw.ok("collective.group_end")
        handles = [int(out[0]) for out in outs]
        assert 0 not in handles, "a communicator has the handle 0 (HAL-COL-014)"
        comms.extend(handles)
        return [Rank(rig, comm, rig.stream()) for rig, comm in zip(rigs, handles, strict=True)]

    yield make
    for comm in comms:
        raw.call("collective.comm_destroy", comm)
    problems = raw.clean()
    status = raw.close()
    assert problems == []
    assert status == 0, "the port does not shut down after a collective"


def together(ranks: list[Rank], call: Callable[[int, Rank], None]) -> None:
    """Let every rank enqueue its call in one group and wait for all."""
    raw = ranks[0].rig.raw
    raw.ok("collective.group_begin")
    for number, rank in enumerate(ranks):
        call(number, rank)
    raw.ok("collective.group_end")
    for rank in ranks:
        rank.rig.wait(rank.stream)


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
            lambda r, rank, s=source, t=target, n=count: rank.enqueue(
                "all_reduce", dtype, n, s[r].ref, t[r].ref, op=op
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
            lambda r, rank, p=places, n=count: rank.enqueue(
                "all_reduce", dtype, n, p[r].ref, p[r].ref
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
        lambda r, rank: rank.enqueue("all_reduce", dtype, 3001, places[r].ref, places[r].ref),
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
        lambda r, rank: rank.enqueue("all_reduce", dtypes.i64, 1, places[r].ref, places[r].ref),
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
            lambda r, rank, s=source, t=target, n=count: rank.enqueue(
                "all_gather", dtype, n, s[r].ref, t[r].ref
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
            lambda r, rank, p=places, n=count: rank.enqueue(
                "all_gather", dtype, n, p[r].part(r, ranks), p[r].ref
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
                lambda r, rank, s=source, t=target, o=op, n=count: rank.enqueue(
                    "reduce_scatter", dtype, n, s[r].ref, t[r].ref, op=o
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
            lambda r, rank, s=source, t=target, o=root: rank.enqueue(
                "broadcast", dtype, 99, s[r].ref, t[r].ref, peer=o
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
        rank.enqueue("send", dtype, 501, source[r].ref, peer=(r + 1) % ranks)
        rank.enqueue("recv", dtype, 501, None, target[r].ref, peer=(r - 1) % ranks)

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
        both = {0: ("send", give.ref, None, 1), 1: ("recv", None, take.ref, 0)}

        def turn(r: int, rank: Rank, both: Any = both) -> None:
            verb, source, target, peer = both[r]
            rank.enqueue(verb, dtypes.i32, 9, source, target, peer=peer)

        together(group, turn)
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
            lambda r, rank, s=source, t=target, n=count: rank.enqueue(
                "all_to_all", dtype, n, s[r].ref, t[r].ref
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
            rank.enqueue("all_reduce", dtypes.i32, 65, place[r].ref, place[r].ref)

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
        rank.rig.upload(places[r].memory, parts[r], offset=GUARD_BYTES, stream=rank.stream)
        rank.enqueue("all_reduce", dtypes.i32, 1000, places[r].ref, places[r].ref)

    for _ in range(3):
        together(group, turn)
        wanted = reduced(parts, "sum", dtypes.i32)
        for place in places:
            close(place.read(wanted), wanted, law="exact", dtype="i32")


# ---- what collectives refuse ----


def refused(rank: Rank, verb: str, desc: Any, status: Status) -> None:
    """Check a refusal that leaves the rank usable."""
    rank.rig.refuse(f"collective.{verb}", rank.comm, rank.stream, desc, status=status)


@case(rules=["HAL-COL-034"], negative=True)
@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize("ranks", [1, 2])
def test_all_reduce_refuses_a_range_that_the_count_does_not_fit(
    join: Join, ranks: int, side: str
) -> None:
    rank = join(ranks)[0]
    room, short = rank.place(np.zeros(8, np.int32)), rank.place(np.zeros(7, np.int32))
    ends = (short.ref, room.ref) if side == "source" else (room.ref, short.ref)
    refused(rank, "all_reduce", rank.desc(dtypes.i32, 8, *ends), Status.OUT_OF_RANGE)


@case(rules=["HAL-COL-044"], negative=True)
def test_all_gather_refuses_a_target_without_room_for_all(join: Join) -> None:
    rank = join(2)[0]
    source, target = rank.place(np.zeros(8, np.int32)), rank.place(np.zeros(15, np.int32))
    desc = rank.desc(dtypes.i32, 8, source.ref, target.ref)
    refused(rank, "all_gather", desc, Status.OUT_OF_RANGE)


@case(rules=["HAL-COL-054"], negative=True)
def test_reduce_scatter_refuses_a_source_without_a_part_for_each(join: Join) -> None:
    rank = join(3)[0]
    source, target = rank.place(np.zeros(8, np.int32)), rank.place(np.zeros(3, np.int32))
    desc = rank.desc(dtypes.i32, 3, source.ref, target.ref)
    refused(rank, "reduce_scatter", desc, Status.OUT_OF_RANGE)


@case(rules=["HAL-COL-124"], negative=True)
def test_all_to_all_refuses_a_target_without_a_part_for_each(join: Join) -> None:
    rank = join(2)[0]
    source, target = rank.place(np.zeros(8, np.int32)), rank.place(np.zeros(7, np.int32))
    desc = rank.desc(dtypes.i32, 4, source.ref, target.ref)
    refused(rank, "all_to_all", desc, Status.OUT_OF_RANGE)


@case(rules=["HAL-COL-064", "HAL-COL-074", "HAL-COL-084"], negative=True)
@pytest.mark.parametrize("peer", [2, 2**32 - 1])
@pytest.mark.parametrize("verb", ["broadcast", "send", "recv"])
def test_a_peer_outside_the_group_is_refused(join: Join, verb: str, peer: int) -> None:
    rank = join(2)[0]
    place = rank.place(np.zeros(4, np.int32))
    desc = rank.desc(dtypes.i32, 4, place.ref, place.ref, peer=peer)
    refused(rank, verb, desc, Status.OUT_OF_RANGE)


@case(rules=["HAL-COL-020"], negative=True)
def test_a_communicator_that_was_destroyed_is_refused(join: Join) -> None:
    rank = join(1)[0]
    place = rank.place(np.zeros(4, np.int32))
    rank.rig.raw.ok("collective.comm_destroy", rank.comm)
    desc = rank.desc(dtypes.i32, 4, place.ref, place.ref)
    refused(rank, "all_reduce", desc, Status.INVALID_HANDLE)
    rank.rig.refuse("collective.comm_destroy", rank.comm, status=Status.INVALID_HANDLE)


@case(rules=["HAL-COL-091"], negative=True)
def test_a_group_end_without_a_begin_is_refused(join: Join) -> None:
    rank = join(1)[0]
    rank.rig.refuse("collective.group_end", status=Status.INVALID_STATE)


@case(rules=["HAL-COL-013"], negative=True)
def test_a_rank_that_stays_away_gives_a_timeout(join: Join) -> None:
    rank = join(2, timeout_ns=100_000_000)[0]
    place = rank.place(np.arange(4, dtype=np.int32))
    desc = rank.desc(dtypes.i32, 4, place.ref, place.ref)
    raw = rank.rig.raw
    status = raw.call("collective.all_reduce", rank.comm, rank.stream, desc)
    if status == Status.OK:
        status = raw.call("stream.synchronize", rank.stream, LONG_NS)
    assert status_name(status) in ("TIMEOUT", "PEER_FAILED")
    check_health(raw, rank.rig.device)


@case(rules=["HAL-COL-101"], negative=True)
def test_abort_ends_ranks_with_peer_failed(join: Join) -> None:
    group = join(2)
    raw = group[0].rig.raw
    raw.ok("collective.abort", group[0].comm)
    place = group[1].place(np.zeros(4, np.int32))
    desc = group[1].desc(dtypes.i32, 4, place.ref, place.ref)
    status = raw.call("collective.all_reduce", group[1].comm, group[1].stream, desc)
    if status == Status.OK:
        status = raw.call("stream.synchronize", group[1].stream, LONG_NS)
    assert status_name(status) == "PEER_FAILED"
    out = raw.out("int32_t")
    raw.ok("collective.async_error", group[1].comm, out)
    assert status_name(int(out[0])) == "PEER_FAILED"
    check_health(raw, group[1].rig.device)
