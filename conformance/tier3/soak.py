"""Long runs: nothing stays behind, and no count is too high. `--budget` makes them longer.

What a process keeps is judged over 200 rounds and more, so that caches that fill and noise of a
few kilobytes are no leak, and a leak of 24 bytes a round is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from hal.testing import Rig, case, programs
from hal.testing.leaks import growth
from hal.testing.rig import LONG_NS
from hal.testing.threads import crew

ROUNDS = 200
STEPS = 10
BEYOND = 70_000
"""More than 16 bits count."""
Soak = Callable[[int], Iterator[int]]


def session(rig: Rig, image: bytes, turn: int) -> None:
    """Open, load, launch, read, close: what a short program does."""
    other = rig.second()
    kernel, memory = other.program(image, "slow"), other.numbers([turn])
    stream = other.stream()
    other.launch(stream, kernel, other.symbol(STEPS), other.buffer(memory, 4))
    other.wait(stream)
    assert other.read(memory, 1, dtype="<u4") == [programs.after_loop(turn, STEPS)]
    rig.raw.ok("device.close", other.device, LONG_NS)


def load(rig: Rig, image: bytes, turn: int) -> None:
    """Load a module, launch a kernel of it, unload it."""
    module, stream, memory = rig.module(image), rig.stream(), rig.numbers([turn])
    kernel = rig.kernel(module, "slow")
    rig.launch(stream, kernel, rig.symbol(STEPS), rig.buffer(memory, 4))
    rig.wait(stream)
    assert rig.read(memory, 1, dtype="<u4") == [programs.after_loop(turn, STEPS)]
    rig.raw.ok("module.unload", module)
    rig.raw.ok("stream.destroy", stream)
    rig.raw.ok("memory.free", memory)


def order(rig: Rig, image: bytes, turn: int) -> None:
    """Two streams, an event between them, a host event before them."""
    del image
    first, second, event, memory = rig.stream(), rig.stream(), rig.event(), rig.memory(64)
    gate = rig.event(1)
    rig.raw.ok("stream.wait_event", first, gate)
    rig.raw.ok("transfer.fill", first, rig.raw.ref(memory, 0, 64), bytes([turn % 251]), 1)
    rig.raw.ok("event.record", event, first)
    rig.raw.ok("stream.wait_event", second, event)
    rig.raw.ok("event.signal", gate, 0)
    rig.wait(second)
    assert rig.download(memory, 64) == bytes([turn % 251]) * 64
    for ender, handle in (("stream.destroy", first), ("stream.destroy", second),
                          ("event.destroy", event), ("event.destroy", gate),
                          ("memory.free", memory)):  # fmt: skip
        rig.raw.ok(ender, handle)


def failure(rig: Rig, image: bytes, turn: int) -> None:
    """A stream whose only work fails, and a module that does not load."""
    del turn
    rig.raw.ok("stream.destroy", rig.failed_stream())
    out = rig.raw.out("hal_module")
    rig.raw.call("module.load", rig.device, rig.module_desc(image[:40]), out)
    rig.raw.clean(keep=rig.device)


LIVES = {"session": session, "load": load, "order": order, "failure": failure}


@case(rules=["HAL-SYS-010", "HAL-ABI-009"], timeout_s=180, soak=True)
@pytest.mark.parametrize("life", list(LIVES))
def test_repeating_leaves_nothing_behind(rig: Rig, soak: Soak, life: str) -> None:
    image, turns = programs.slow(), iter(range(1 << 31))
    for _ in soak(1):
        found = growth(rig, lambda: LIVES[life](rig, image, next(turns)), rounds=ROUNDS)
        assert found == {}, f"each {life} leaves something behind: {found}"


@case(rules=["HAL-SYS-010"], timeout_s=180, soak=True)
def test_threads_that_come_and_go_leave_nothing_behind(rig: Rig, soak: Soak) -> None:
    kernel = rig.program(programs.slow(), "slow")

    def work(number: int, own: Rig) -> None:
        stream, memory = own.stream(), own.numbers([number])
        own.launch(stream, kernel, own.symbol(STEPS), own.buffer(memory, 4))
        own.wait(stream)
        assert own.read(memory, 1, dtype="<u4") == [programs.after_loop(number, STEPS)]

    for _ in soak(1):
        found = growth(rig, lambda: crew(rig, 2, work) and None, rounds=ROUNDS)
        assert found == {}, f"each pair of threads leaves something behind: {found}"


@case(rules=["HAL-SYS-011"], timeout_s=120, soak=True)
@pytest.mark.parametrize("kind", ["event", "host event"])
def test_no_count_of_objects_is_too_high(rig: Rig, soak: Soak, kind: str) -> None:
    raw, out = rig.raw, rig.raw.ffi.new("hal_event *")
    flags = int(kind == "host event")
    for number in soak(BEYOND):
        status = raw.call("event.create", rig.device, flags, out)
        assert status == 0, f"number {number + 1}: {raw.error()[2]}"
        raw.ok("event.destroy", int(out[0]))


@case(rules=["HAL-SYS-011"], timeout_s=120, soak=True)
@pytest.mark.parametrize("kind", ["fill", "record"])
def test_no_count_of_operations_is_too_high(rig: Rig, soak: Soak, kind: str) -> None:
    raw, stream, event, memory = rig.raw, rig.stream(), rig.event(), rig.memory(64)
    place = raw.ref(memory, 0, 64)
    rig.fill(memory, b"\0", 64)
    wanted = 0
    for number in soak(BEYOND):
        if kind == "fill":
            wanted = number % 251
            raw.ok("transfer.fill", stream, place, bytes([wanted]), 1)
        else:
            raw.ok("event.record", event, stream)
        if number % 256 == 255:
            rig.wait(stream)
    rig.wait(stream)
    raw.ok("event.synchronize", event, LONG_NS)
    assert rig.download(memory, 64) == bytes([wanted]) * 64


@case(rules=["HAL-SYS-011", "HAL-ABI-013"], timeout_s=120)
def test_the_number_of_a_late_operation_is_right(rig: Rig) -> None:
    """The operation that fails has the number 70,001 of its stream."""
    raw, stream, memory = rig.raw, rig.stream(), rig.memory(64)
    place = raw.ref(memory, 0, 64)
    for number in range(BEYOND):
        raw.ok("transfer.fill", stream, place, b"\1", 1)
        if number % 256 == 255:
            rig.wait(stream)
    rig.fault(stream)
    raw.call("stream.synchronize", stream, LONG_NS)
    assert raw.error()[1] == BEYOND + 1
