"""Threads: many at once on one device, each with its own objects, and with each other's."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from hal.testing import Rig, Status, case, programs
from hal.testing.abi import EventFlag
from hal.testing.rig import LONG_NS
from hal.testing.threads import PATIENCE_S, Crew, crew, room_for

THREADS = [2, 4, 8]
SIZE = 4096
STEPS = 200


def pattern(number: int, turn: int = 0) -> bytes:
    """Return the bytes that a thread writes in a turn."""
    return bytes((number * 37 + turn * 11 + place) % 251 for place in range(64)) * (SIZE // 64)


# ---- objects ----


@case(rules=["HAL-SYS-001"], timeout_s=60)
@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("kind", ["stream", "event", "host event", "memory", "module"])
def test_objects_that_threads_make_at_once_are_distinct(rig: Rig, kind: str, threads: int) -> None:
    count = room_for(rig, threads) if kind == "stream" else threads
    turns = 1 if kind == "stream" else 8
    image = programs.add_one()
    make = {
        "stream": lambda own: own.stream(),
        "event": lambda own: own.event(),
        "host event": lambda own: own.event(EventFlag.HOST),
        "memory": lambda own: own.memory(256),
        "module": lambda own: own.module(image),
    }[kind]
    made = crew(rig, count, lambda _, own: [make(own) for _ in range(turns)])
    handles = [handle for row in made for handle in row]
    assert len(handles) == len(set(handles)) == count * turns


@case(rules=["HAL-SYS-001"], timeout_s=60)
@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("kind", ["stream", "event", "memory", "module", "device"])
def test_threads_make_and_end_objects_side_by_side(rig: Rig, kind: str, threads: int) -> None:
    image = programs.add_one()

    def work(_: int, own: Rig) -> None:
        raw = own.raw
        for _ in range(20 if kind in ("stream", "event", "memory") else 4):
            if kind == "stream":
                raw.ok("stream.destroy", own.stream())
            elif kind == "event":
                raw.ok("event.destroy", own.event())
            elif kind == "memory":
                raw.ok("memory.free", own.memory(1000))
            elif kind == "module":
                raw.ok("module.unload", own.module(image))
            else:
                raw.ok("device.close", own.second().device, LONG_NS)

    crew(rig, room_for(rig, threads), work)


@case(rules=["HAL-SYS-001"], timeout_s=60)
@pytest.mark.parametrize("kind", ["stream", "event", "memory", "module"])
def test_what_one_thread_makes_another_may_end(rig: Rig, kind: str) -> None:
    image, count = programs.add_one(), room_for(rig, 4)
    maker, ender = {
        "stream": (lambda own: own.stream(), "stream.destroy"),
        "event": (lambda own: own.event(), "event.destroy"),
        "memory": (lambda own: own.memory(256), "memory.free"),
        "module": (lambda own: own.module(image), "module.unload"),
    }[kind]
    made: list[int] = [0] * count
    meet = threading.Barrier(count, timeout=PATIENCE_S)

    def work(number: int, own: Rig) -> tuple[int, int]:
        made[number] = maker(own)
        meet.wait()
        other = made[(number + 1) % count]
        first = own.raw.call(ender, other)
        meet.wait()
        return first, own.raw.call(ender, other)

    team = Crew(rig, count)
    team.start(work)
    for own in team.rigs:  # what has ended elsewhere is not ended again
        own.raw.clean = lambda keep=0: []  # type: ignore[method-assign]
    assert team.finish() == [(Status.OK, Status.INVALID_HANDLE)] * count


# ---- work ----


@case(rules=["HAL-SYS-002"], timeout_s=60)
@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("how", ["upload", "fill", "copy", "launch"])
def test_each_thread_gets_its_own_results(rig: Rig, how: str, threads: int) -> None:
    """Each works on its own stream and buffers, in turns that differ from all other threads'."""
    image = programs.slow()

    def work(number: int, own: Rig) -> None:
        raw, stream = own.raw, own.stream()
        memory, target = own.memory(SIZE), own.memory(SIZE)
        kernel = own.program(image, "slow") if how == "launch" else 0
        for turn in range(8):
            data = pattern(number, turn)
            if how == "upload":
                own.upload(memory, data, stream=stream)
            elif how == "fill":
                raw.ok("transfer.fill", stream, raw.ref(memory, 0, SIZE), data[:4], 4)
                data = data[:4] * (SIZE // 4)
            elif how == "copy":
                own.upload(target, data)
                own.copy(stream, target, memory, SIZE)
            else:
                value, steps = number * 100 + turn, 10 + number * 8 + turn
                data = value.to_bytes(4, "little")
                own.upload(memory, data)
                own.launch(stream, kernel, own.symbol(steps), own.buffer(memory, 4))
                data = programs.after_loop(value, steps).to_bytes(4, "little")
            own.wait(stream)
            assert own.download(memory, len(data)) == data, f"turn {turn} of thread {number}"

    crew(rig, room_for(rig, threads), work)


@case(rules=["HAL-SYS-002"], timeout_s=60)
@pytest.mark.parametrize("threads", THREADS)
def test_one_kernel_serves_all_threads(rig: Rig, threads: int) -> None:
    kernel = rig.program(programs.slow(), "slow")

    def work(number: int, own: Rig) -> list[int]:
        memory, stream = own.numbers([number]), own.stream()
        for turn in range(12):
            own.launch(stream, kernel, own.symbol(number + turn), own.buffer(memory, 4))
        own.wait(stream)
        return own.read(memory, 1, dtype="<u4")

    count = room_for(rig, threads)
    wanted = [[programs.after_loop(n, sum(n + turn for turn in range(12)))] for n in range(count)]
    assert crew(rig, count, work) == wanted


@case(rules=["HAL-SYS-002"], timeout_s=60)
@pytest.mark.parametrize("threads", THREADS)
def test_modules_come_and_go_beside_running_work(rig: Rig, threads: int) -> None:
    image = programs.two_kernels()

    def work(number: int, own: Rig) -> None:
        stream = own.stream()
        for turn in range(3):
            source, target = own.numbers([number, turn, 5]), own.numbers([0, 0, 0])
            module = own.module(image)
            name = "add_one" if (number + turn) % 2 else "negate"
            kernel = own.kernel(module, name)
            buffers = own.buffer(source, 12), own.buffer(target, 12)
            own.launch(stream, kernel, own.symbol(3), *buffers)
            own.raw.ok("module.unload", module)
            own.wait(stream)
            step = (lambda x: x + 1) if name == "add_one" else (lambda x: -x)
            assert own.read(target, 3) == [step(number), step(turn), step(5)]

    crew(rig, room_for(rig, threads), work)


@case(rules=["HAL-SYS-002"], timeout_s=60)
@pytest.mark.parametrize("threads", THREADS)
def test_buffers_of_threads_never_overlap(rig: Rig, threads: int, rng: Any) -> None:
    sizes = rng.integers(1, 20_000, size=(threads, 12)).tolist()

    def work(number: int, own: Rig) -> None:
        kept: list[tuple[int, int]] = []
        for turn, size in enumerate(sizes[number]):
            memory = own.memory(size)
            own.fill(memory, bytes([number * 16 + turn]), size)
            kept.append((memory, size))
            if turn % 3 == 2:
                own.raw.ok("memory.free", kept.pop(0)[0])
                kept.insert(0, (own.memory(8), 8))
                own.fill(kept[0][0], bytes([number * 16 + turn]), 8)
        for memory, size in kept:
            found = set(own.download(memory, size))
            assert len(found) == 1, f"bytes of other buffers are in one of thread {number}"
            assert found.pop() >> 4 == number

    crew(rig, room_for(rig, threads), work)


@case(rules=["HAL-SYS-002"], timeout_s=60)
@pytest.mark.parametrize("threads", THREADS)
def test_pinned_memory_serves_all_threads(rig: Rig, threads: int) -> None:
    def work(number: int, own: Rig) -> None:
        raw, stream, memory = own.raw, own.stream(), own.memory(SIZE)
        for turn in range(4):
            out = raw.out("void *")
            raw.ok("memory.host_alloc", own.device, SIZE, out)
            view = raw.ffi.buffer(out[0], SIZE)
            view[:] = pattern(number, turn)
            own.upload(memory, view, stream=stream)
            own.wait(stream)
            raw.ok("memory.host_free", own.device, out[0])
            assert own.download(memory, SIZE) == pattern(number, turn)

    crew(rig, room_for(rig, threads), work)


@case(rules=["HAL-SYS-002", "HAL-MEM-043"], timeout_s=60)
@pytest.mark.parametrize("threads", THREADS)
def test_figures_stay_true_while_threads_allocate(rig: Rig, threads: int) -> None:
    before = rig.stats().in_use_bytes

    def work(_: int, own: Rig) -> None:
        for _ in range(20):
            memory = own.memory(10_000)
            figures = own.stats()
            assert figures.in_use_bytes >= before + 10_000
            assert figures.peak_bytes >= figures.in_use_bytes
            own.raw.ok("memory.free", memory)

    crew(rig, threads, work)
    assert rig.stats().in_use_bytes == before


@case(rules=["HAL-SYS-002"], timeout_s=60)
@pytest.mark.parametrize("threads", THREADS)
def test_questions_are_answered_while_work_runs(rig: Rig, threads: int) -> None:
    kernel, memory, stream = rig.program(programs.slow(), "slow"), rig.numbers([3]), rig.stream()
    name = rig.raw.text(rig.device, "device.name")
    total = rig.raw.i64(rig.device, "device.memory_bytes")

    def work(_: int, own: Rig) -> None:
        for _ in range(30):
            assert own.raw.text(own.device, "device.name") == name
            assert own.raw.i64(own.device, "device.memory_bytes") == total
            assert own.info(memory).bytes == 4
            assert own.raw.call("stream.query", stream) in (Status.OK, Status.NOT_READY)

    for _ in range(20):
        rig.launch(stream, kernel, rig.symbol(STEPS), rig.buffer(memory, 4))
    crew(rig, threads, work)
    rig.wait(stream)
    assert rig.read(memory, 1, dtype="<u4") == [programs.after_loop(3, 20 * STEPS)]
