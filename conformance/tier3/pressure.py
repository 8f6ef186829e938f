"""Memory pressure: a device used up, refusals at the limit, and all of it whole again."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from hal.testing import Rig, Status, case, programs
from hal.testing.abi import status_name
from hal.testing.case import WHOLE_MEMORY_S
from hal.testing.rig import in_use_bytes
from hal.testing.threads import crew

PIECES = [4, 16, 64]
USABLE = 3 / 4
"""Share of the memory that buffers can use at least, as in HAL-MEM-043."""


def piece(rig: Rig, hcd: Any, count: int) -> int:
    """Return the length of a piece: the memory in so many, or the longest buffer."""
    total = rig.stats().total_bytes
    longest = hcd.number("execution.limits.allocation_bytes_max", total)
    return int(min(total // count, longest))


def request(rig: Rig, size: int) -> int:
    """Return a buffer's handle, or 0 when there is no room."""
    out = rig.raw.out("hal_memory")
    status = rig.raw.call("memory.alloc", rig.device, rig.raw.new("memory_desc", bytes=size), out)
    assert status_name(status) in ("OK", "OUT_OF_MEMORY")
    return int(out[0]) if status == Status.OK else 0


def use_up(rig: Rig, size: int) -> list[int]:
    """Allocate pieces until one is refused; return their handles."""
    most = rig.stats().total_bytes // size
    made: list[int] = []
    while handle := request(rig, size):
        made.append(handle)
        assert len(made) <= most, "the device gave more memory than it has"
    return made


def free(rig: Rig, handles: list[int]) -> None:
    """Free buffers."""
    for handle in handles:
        rig.raw.ok("memory.free", handle)


@case(rules=["HAL-SYS-006", "HAL-MEM-008"], timeout_s=WHOLE_MEMORY_S)
@pytest.mark.parametrize("count", PIECES)
def test_most_of_the_memory_can_be_used_in_pieces(rig: Rig, hcd: Any, count: int) -> None:
    size = piece(rig, hcd, count)
    made = use_up(rig, size)
    assert len(made) * size >= rig.stats().total_bytes * USABLE - size
    assert len(set(made)) == len(made)


@case(rules=["HAL-SYS-006"], timeout_s=WHOLE_MEMORY_S)
@pytest.mark.parametrize("count", PIECES)
def test_what_was_used_up_can_be_used_up_again(rig: Rig, hcd: Any, count: int) -> None:
    size, before = piece(rig, hcd, count), rig.stats().in_use_bytes
    rounds = []
    for _ in range(4):
        made = use_up(rig, size)
        rounds.append(len(made))
        free(rig, made)
        assert rig.stats().in_use_bytes == before
    assert min(rounds) >= rounds[0] - 1, f"pieces in each round: {rounds}"


@case(rules=["HAL-SYS-006", "HAL-MEM-009"], negative=True, timeout_s=WHOLE_MEMORY_S)
@pytest.mark.parametrize("count", PIECES)
def test_refusals_at_the_limit_keep_nothing(rig: Rig, hcd: Any, count: int) -> None:
    size = piece(rig, hcd, count)
    made, used = use_up(rig, size), in_use_bytes(rig.raw, rig.device)
    assert [request(rig, size) for _ in range(50)] == [0] * 50
    assert in_use_bytes(rig.raw, rig.device) == used
    for _ in range(5):
        rig.raw.ok("memory.free", made.pop())
        again = request(rig, size)
        assert again != 0, "a piece that was freed is not there for the next"
        made.append(again)


@case(rules=["HAL-SYS-006"], timeout_s=WHOLE_MEMORY_S)
@pytest.mark.parametrize("how", ["fill", "copy", "launch"])
def test_work_goes_on_while_memory_is_used_up(rig: Rig, hcd: Any, how: str) -> None:
    kernel, stream = rig.program(programs.slow(), "slow"), rig.stream()
    source, target = rig.numbers([11] * 64), rig.numbers([0] * 64)
    made = use_up(rig, piece(rig, hcd, 16))
    assert request(rig, piece(rig, hcd, 16)) == 0
    if how == "fill":
        rig.raw.ok("transfer.fill", stream, rig.raw.ref(target, 0, 4), b"\x0b\0\0\0", 4)
    elif how == "copy":
        rig.copy(stream, source, target, 4)
    else:
        rig.copy(stream, source, target, 4)
        rig.launch(stream, kernel, rig.symbol(100), rig.buffer(target, 4))
    rig.wait(stream)
    wanted = programs.after_loop(11, 100) if how == "launch" else 11
    assert rig.read(target, 1, dtype="<u4") == [wanted]
    free(rig, made)


@case(rules=["HAL-SYS-006"], timeout_s=WHOLE_MEMORY_S)
def test_pieces_at_the_limit_keep_their_bytes(rig: Rig, hcd: Any) -> None:
    """The first and the last bytes of each piece: no two share any."""
    size = piece(rig, hcd, 16)
    made = use_up(rig, size)
    last = (size - 64) // 256 * 256
    for number, memory in enumerate(made):
        rig.fill(memory, bytes([number + 1]), 64)
        rig.fill(memory, bytes([number + 101]), 64, offset=last)
    for number, memory in enumerate(made):
        assert rig.download(memory, 64) == bytes([number + 1]) * 64
        assert rig.download(memory, 64, offset=last) == bytes([number + 101]) * 64


@case(rules=["HAL-SYS-006", "HAL-MEM-014"], timeout_s=WHOLE_MEMORY_S)
def test_smaller_pieces_fill_what_larger_ones_leave(rig: Rig, hcd: Any) -> None:
    size, used = piece(rig, hcd, 4), 0
    while size >= 1 << 20:
        used += size * len(use_up(rig, size))
        size //= 4
    assert used >= rig.stats().total_bytes * USABLE


@case(rules=["HAL-SYS-006"], timeout_s=WHOLE_MEMORY_S)
@pytest.mark.parametrize("threads", [2, 4, 8])
def test_threads_at_the_limit_share_and_give_back(rig: Rig, hcd: Any, threads: int) -> None:
    size, before = piece(rig, hcd, 16), rig.stats().in_use_bytes

    def work(_: int, own: Rig) -> int:
        most = 0
        for _ in range(5):
            made = use_up(own, size)
            most = max(most, len(made))
            free(own, made)
        return most

    crew(rig, threads, work)
    assert rig.stats().in_use_bytes == before
    assert len(use_up(rig, size)) * size >= rig.stats().total_bytes * USABLE - size


@case(rules=["HAL-SYS-007"], timeout_s=WHOLE_MEMORY_S)
@pytest.mark.parametrize("order", ["first in", "last in", "drawn"])
def test_memory_is_whole_after_many_buffers(rig: Rig, hcd: Any, rng: Any, order: str) -> None:
    """Two thousand buffers of many sizes, at most 64 at once, ended in some order."""
    alive: list[int] = []
    for size in (2 ** rng.uniform(0, 22, size=2000)).astype(int).tolist():
        alive.append(rig.memory(int(size)))
        if len(alive) == 64:
            place = {"first in": 0, "last in": 63, "drawn": int(rng.integers(64))}[order]
            rig.raw.ok("memory.free", alive.pop(place))
    free(rig, alive)
    size = piece(rig, hcd, 4)
    made = use_up(rig, size)
    assert len(made) * size >= rig.stats().total_bytes * USABLE - size


@case(rules=["HAL-SYS-007"], timeout_s=WHOLE_MEMORY_S)
@pytest.mark.parametrize("step", [2, 3])
def test_holes_are_used_again(rig: Rig, hcd: Any, step: int) -> None:
    """Every second or third piece goes and comes, for long; each has its own bytes."""
    size = piece(rig, hcd, 64)
    made = use_up(rig, size)
    for turn in range(1200 // (len(made) // step + 1) + 1):
        for place in range(turn % step, len(made), step):
            rig.raw.ok("memory.free", made[place])
        for place in range(turn % step, len(made), step):
            made[place] = request(rig, size)
            assert made[place] != 0, f"turn {turn}: a hole of {size} bytes is not used again"
    for number, memory in zip(itertools.count(1), made, strict=False):
        rig.fill(memory, bytes([number % 251]), 64)
    got = [rig.download(memory, 64) for memory in made]
    assert got == [bytes([(number + 1) % 251]) * 64 for number in range(len(made))]
