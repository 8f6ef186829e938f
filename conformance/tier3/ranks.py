"""Several ranks, each on a thread of its own, through the stack that every user has.

Rank r speaks for the r-th device of the port, and for the device under test where there are fewer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from hal import dtypes
from hal.testing import Rig, Status, case, programs
from hal.testing.abi import Reduce, status_name
from hal.testing.raw import open_target
from hal.testing.rig import LONG_NS, check_health
from hal.testing.session import Session
from hal.testing.threads import PATIENCE_S, Crew

RANKS = [2, 3, 4, 8]
TURNS = 30
SHORT_NS = 1_500_000_000
"""For how long ranks wait for one that stays away; all of them have come together by then."""

Work = Callable[["Rank"], Any]
Ranks = Callable[..., list[Any]]


class Rank:
    """One rank on its thread: device, stream and communicator."""

    def __init__(self, rig: Rig, number: int, count: int, unique: Any, timeout_ns: int) -> None:
        self.rig, self.number, self.count = rig, number, count
        self.stream = rig.stream()
        facts = {"rank_count": count, "rank": number, "timeout_ns": timeout_ns}
        out = rig.raw.out("hal_comm")
        desc = rig.raw.new("comm_desc", id=unique, **facts)
        rig.raw.ok("collective.comm_create", rig.device, desc, out)
        self.comm = int(out[0])

    def desc(self, count: int, source: int, target: int, *, peer: int = 0, sizes: Any = ()) -> Any:
        """Return the descriptor of a collective over 32-bit integers."""
        ends = {"source": source, "target": target}
        bytes_ = dict(zip(ends, sizes or (4 * count, 4 * count), strict=True))
        refs = {name: self.rig.raw.ref(memory, 0, bytes_[name]) for name, memory in ends.items()}
        return self.rig.raw.new(
            "collective_desc",
            dtype=dtypes.i32.number,
            reduce=int(Reduce.SUM),
            count=count,
            peer=peer,
            **refs,
        )

    def call(self, verb: str, desc: Any) -> int:
        """Enqueue a collective and wait; return the first status that is not OK."""
        raw = self.rig.raw
        status = raw.call(f"collective.{verb}", self.comm, self.stream, desc)
        return status or raw.call("stream.synchronize", self.stream, LONG_NS)

    def run(self, verb: str, desc: Any) -> None:
        """Do a collective that must succeed."""
        status = self.call(verb, desc)
        assert status == Status.OK, f"{verb}: {status_name(status)}: {self.rig.raw.error()[2]}"


@pytest.fixture
def ranks(settings: Session) -> Iterator[Ranks]:
    """`ranks(4, work)`: run `work(rank)` on a thread for each rank; the answers by rank."""
    raw = open_target(
        settings.target, layers=("validate", "emulate"), broken_rule=settings.broken_rule
    )
    there = raw.out("uint32_t")
    raw.ok("port.device_count", there)

    def run(count: int, work: Work, *, timeout_ns: int = LONG_NS, circles: int = 1) -> list[Any]:
        devices = []
        for number in range(count):
            index = number if int(there[0]) >= count else settings.device_index
            out = raw.out("hal_device")
            raw.ok("device.open", index, out)
            devices.append(int(out[0]))
        uniques = [raw.out("hal_unique_id") for _ in range(circles)]
        for unique in uniques:
            raw.ok("collective.unique_id", unique)
        size = count // circles

        def body(number: int, own: Rig) -> Any:
            unique = uniques[number // size][0]
            rank = Rank(own, number % size, size, unique, timeout_ns)
            try:
                return work(rank)
            finally:
                own.raw.ok("collective.comm_destroy", rank.comm)

        team = Crew(Rig(raw, devices[0]), count, devices=devices)
        team.start(body)
        answers = team.finish()
        for device in devices:
            check_health(raw, device)
            raw.ok("device.close", device, LONG_NS)
        return answers

    yield run
    problems = raw.clean()
    status = raw.close()
    assert problems == []
    assert status == 0, "the port does not shut down after collectives"


def part(rank: int, turn: int, count: int) -> Any:
    """Return the numbers that a rank brings to a turn."""
    return np.arange(count, dtype=np.int32) * (rank + 1) + 1000 * turn + rank


def turn_of(verb: str, rank: Rank, turn: int) -> tuple[Any, Any]:
    """Do one collective; return what the rank got and what it should."""
    count, size = 1 + turn * 7 % 300, rank.count
    whole = verb in ("reduce_scatter", "all_to_all")
    mine = part(rank.number, turn, count * size if whole else count)
    every = [part(r, turn, mine.size) for r in range(size)]
    wanted = {
        "all_reduce": lambda: sum(every),
        "all_gather": lambda: np.concatenate(every),
        "reduce_scatter": lambda: sum(every).reshape(size, count)[rank.number],  # type: ignore[union-attr]
        "broadcast": lambda: every[turn % size],
        "all_to_all": lambda: np.concatenate(
            [each.reshape(size, count)[rank.number] for each in every]
        ),
    }[verb]()
    source, target = rank.rig.numbers(mine), rank.rig.numbers(np.zeros_like(wanted))
    sizes = (mine.nbytes, wanted.nbytes)
    rank.run(verb, rank.desc(count, source, target, peer=turn % size, sizes=sizes))
    found = np.array(rank.rig.read(target, wanted.size), np.int32)
    for memory in (source, target):
        rank.rig.raw.ok("memory.free", memory)
    return found, wanted


VERBS = ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all"]


@case(rules=["HAL-SYS-012"], timeout_s=60)
@pytest.mark.parametrize("count", RANKS)
@pytest.mark.parametrize("verb", VERBS)
def test_ranks_on_threads_get_it_right_turn_after_turn(ranks: Ranks, verb: str, count: int) -> None:
    def work(rank: Rank) -> None:
        for turn in range(TURNS):
            found, wanted = turn_of(verb, rank, turn)
            assert (found == wanted).all(), f"rank {rank.number}, turn {turn}"

    ranks(count, work)


@case(rules=["HAL-SYS-012"], timeout_s=60)
@pytest.mark.parametrize("count", RANKS)
def test_messages_go_round_a_ring(ranks: Ranks, count: int) -> None:
    def work(rank: Rank) -> int:
        raw = rank.rig.raw
        here, there = rank.rig.numbers([100 + rank.number]), rank.rig.numbers([0])
        after, before = (rank.number + 1) % count, (rank.number - 1) % count
        for _ in range(count):
            raw.ok("collective.group_begin")
            out = rank.desc(1, here, here, peer=after)
            raw.ok("collective.send", rank.comm, rank.stream, out)
            into = rank.desc(1, there, there, peer=before)
            raw.ok("collective.recv", rank.comm, rank.stream, into)
            raw.ok("collective.group_end")
            rank.rig.wait(rank.stream)
            here, there = there, here
        return int(rank.rig.read(here, 1)[0])

    assert ranks(count, work) == [100 + number for number in range(count)]


@case(rules=["HAL-SYS-012"], timeout_s=60)
@pytest.mark.parametrize("verb", VERBS)
def test_two_communicators_work_side_by_side(ranks: Ranks, verb: str) -> None:
    def work(rank: Rank) -> None:
        for turn in range(TURNS):
            found, wanted = turn_of(verb, rank, turn)
            assert (found == wanted).all(), f"rank {rank.number}, turn {turn}"

    ranks(4, work, circles=2)


@case(rules=["HAL-SYS-012"], timeout_s=60)
@pytest.mark.parametrize("count", RANKS)
def test_kernels_and_collectives_keep_their_order(ranks: Ranks, count: int) -> None:
    """Each turn: a kernel of each rank, the sum over the ranks, and again, without waiting."""
    image, steps = programs.slow(), 50

    def work(rank: Rank) -> int:
        raw, memory = rank.rig.raw, rank.rig.numbers([rank.number])
        kernel = rank.rig.program(image, "slow")
        for _ in range(5):
            buffer = rank.rig.buffer(memory, 4)
            rank.rig.launch(rank.stream, kernel, rank.rig.symbol(steps), buffer)
            desc = rank.desc(1, memory, memory)
            raw.ok("collective.all_reduce", rank.comm, rank.stream, desc)
        rank.rig.wait(rank.stream)
        return int(rank.rig.read(memory, 1, dtype="<u4")[0])

    values = list(range(count))
    for _ in range(5):
        total = sum(programs.after_loop(value, steps) for value in values) & 0xFFFFFFFF
        values = [total] * count
    assert ranks(count, work) == values


@case(rules=["HAL-SYS-012", "HAL-SYS-010"], timeout_s=60)
@pytest.mark.parametrize("count", [2, 4])
def test_communicators_come_and_go(ranks: Ranks, count: int) -> None:
    def work(rank: Rank) -> None:
        found, wanted = turn_of("all_reduce", rank, 3)
        assert (found == wanted).all()

    for _ in range(8):
        ranks(count, work)


# ---- ranks that stay away ----


@case(rules=["HAL-SYS-013"], negative=True, timeout_s=60)
@pytest.mark.parametrize(
    ("verb", "count"), [*((verb, 3) for verb in VERBS), ("all_reduce", 2), ("all_reduce", 4)]
)
def test_a_rank_that_stays_away_ends_the_others_in_time(
    ranks: Ranks, verb: str, count: int
) -> None:
    """The last rank makes the communicator and no call; a new communicator then works."""
    over = threading.Barrier(count, timeout=PATIENCE_S)

    def work(rank: Rank) -> str:
        status = 0
        if rank.number < count - 1:
            source, target = rank.rig.numbers([1] * 4 * count), rank.rig.numbers([0] * 4 * count)
            whole = 16 * count
            sizes = {
                "all_gather": (16, whole),
                "reduce_scatter": (whole, 16),
                "all_to_all": (whole, whole),
            }.get(verb, (16, 16))
            status = rank.call(verb, rank.desc(4, source, target, peer=count - 1, sizes=sizes))
        over.wait()
        return status_name(status)

    answers = ranks(count, work, timeout_ns=SHORT_NS)
    assert answers[-1] == "OK"
    assert set(answers[:-1]) <= {"TIMEOUT", "PEER_FAILED"}

    def again(rank: Rank) -> bool:
        found, wanted = turn_of(verb, rank, 5)
        return bool((found == wanted).all())

    assert ranks(count, again) == [True] * count


@case(rules=["HAL-SYS-013", "HAL-COL-101"], negative=True, timeout_s=60)
@pytest.mark.parametrize("count", [2, 3, 4])
def test_an_abort_ends_ranks_that_wait(ranks: Ranks, count: int) -> None:
    """The last rank aborts while the others wait for it, or are about to."""

    over = threading.Barrier(count, timeout=PATIENCE_S)

    def work(rank: Rank) -> str:
        if rank.number == count - 1:
            rank.rig.raw.ok("collective.abort", rank.comm)
            over.wait()
            return "PEER_FAILED"
        memory = rank.rig.numbers([1])
        status = rank.call("all_reduce", rank.desc(1, memory, memory))
        over.wait()
        return status_name(status)

    assert ranks(count, work) == ["PEER_FAILED"] * count
