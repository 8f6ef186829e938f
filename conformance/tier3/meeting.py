"""Threads with each other: waiting for one object, events between their streams, their errors."""

from __future__ import annotations

import threading

import pytest

from hal.testing import Rig, Status, case, programs
from hal.testing.abi import Copy, EventFlag, status_name
from hal.testing.rig import LONG_NS
from hal.testing.threads import PATIENCE_S, Crew, crew, room_for

THREADS = [2, 4, 8]
SIZE = 4096
STEPS = 200
WHILE_NS = 20_000_000
"""For how long a wait that must not end is tried: 20 ms."""


# ---- waiting ----


@case(rules=["HAL-SYS-003"], timeout_s=60)
@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("what", ["stream", "event", "host event", "device"])
def test_each_thread_that_waits_wakes_behind_the_work(rig: Rig, what: str, threads: int) -> None:
    stream, event, memory = rig.stream(), rig.event(), rig.memory(64)
    opened = threading.Event()
    team = Crew(rig, threads)
    with rig.held(stream) as gate:
        rig.raw.ok("transfer.fill", stream, rig.raw.ref(memory, 0, 64), b"\x41", 1)
        rig.raw.ok("event.record", event, stream)
        call, handle = {
            "stream": ("stream.synchronize", stream),
            "event": ("event.synchronize", event),
            "host event": ("event.synchronize", gate),
            "device": ("device.synchronize", rig.device),
        }[what]

        def work(_: int, own: Rig) -> tuple[str, bool]:
            status = own.raw.call(call, handle, LONG_NS)
            return status_name(status), opened.is_set()

        team.start(work)
        early = rig.raw.call(call, handle, WHILE_NS)
        opened.set()
    answers = team.finish()
    assert status_name(early) == "TIMEOUT"
    assert answers == [("OK", True)] * threads
    rig.wait(stream)
    assert rig.download(memory, 64) == b"\x41" * 64


@case(rules=["HAL-SYS-003"], negative=True, timeout_s=60)
@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("what", ["stream", "event", "device"])
def test_waits_that_run_out_leave_all_as_it_was(rig: Rig, what: str, threads: int) -> None:
    stream, event, memory = rig.stream(), rig.event(), rig.memory(64)
    with rig.held(stream):
        rig.raw.ok("transfer.fill", stream, rig.raw.ref(memory, 0, 64), b"\x42", 1)
        rig.raw.ok("event.record", event, stream)
        call, handle = {
            "stream": ("stream.synchronize", stream),
            "event": ("event.synchronize", event),
            "device": ("device.synchronize", rig.device),
        }[what]
        answers = crew(
            rig,
            threads,
            lambda number, own: [own.raw.call(call, handle, number * 100_000) for _ in range(5)],
        )
    assert answers == [[Status.TIMEOUT] * 5] * threads
    rig.wait(stream)
    assert rig.download(memory, 64) == b"\x42" * 64


@case(rules=["HAL-SYS-003"], timeout_s=60)
@pytest.mark.parametrize("threads", THREADS)
def test_a_signal_from_any_thread_lets_all_streams_go(rig: Rig, threads: int) -> None:
    count = room_for(rig, threads)
    gate, meet = rig.event(EventFlag.HOST), threading.Barrier(count, timeout=PATIENCE_S)

    def work(number: int, own: Rig) -> bytes:
        stream, memory = own.stream(), own.memory(64)
        own.raw.ok("stream.wait_event", stream, gate)
        own.raw.ok("transfer.fill", stream, own.raw.ref(memory, 0, 64), bytes([number + 1]), 1)
        meet.wait()
        if number == count - 1:
            assert own.raw.call("stream.query", stream) == Status.NOT_READY
            own.raw.ok("event.signal", gate, 0)
        own.wait(stream)
        return own.download(memory, 64)

    assert crew(rig, count, work) == [bytes([number + 1]) * 64 for number in range(count)]


# ---- order between threads ----


@case(rules=["HAL-SYS-004"], timeout_s=60)
@pytest.mark.parametrize("threads", THREADS)
def test_a_chain_of_events_goes_through_all_threads(rig: Rig, threads: int) -> None:
    """Each thread takes the number of the thread before it further; the first one is held back."""
    count = room_for(rig, threads)
    kernel, gate = rig.program(programs.slow(), "slow"), rig.event(EventFlag.HOST)
    numbers = [rig.numbers([7 - place]) for place in range(count + 1)]
    events = [rig.event() for _ in range(count)]
    recorded = [threading.Event() for _ in range(count)]

    def work(number: int, own: Rig) -> str:
        stream = own.stream()
        if number:
            recorded[number - 1].wait(PATIENCE_S)
        before = events[number - 1] if number else gate
        own.raw.ok("stream.wait_event", stream, before)
        own.copy(stream, numbers[number], numbers[number + 1], 4)
        own.launch(stream, kernel, own.symbol(STEPS), own.buffer(numbers[number + 1], 4))
        own.raw.ok("event.record", events[number], stream)
        recorded[number].set()
        early = own.raw.call("stream.synchronize", stream, WHILE_NS) if number else 0
        if number == count - 1:
            own.raw.ok("event.signal", gate, 0)
        own.wait(stream)
        return status_name(early)

    early = crew(rig, count, work)
    assert early[-1] == "TIMEOUT", "the last stream of the chain did not wait"
    wanted = [7, *[programs.after_loop(7, STEPS * (place + 1)) for place in range(count)]]
    assert [rig.read(memory, 1, dtype="<u4")[0] for memory in numbers] == wanted


@case(rules=["HAL-SYS-004"], timeout_s=60)
@pytest.mark.parametrize("threads", THREADS)
def test_work_behind_another_threads_event_waits_for_it(rig: Rig, threads: int) -> None:
    """The event of a stream that is held back: nobody's copy may come before its fill."""
    count = room_for(rig, threads)
    source, stream = rig.memory(64), rig.stream()
    rig.fill(source, b"\x01", 64)
    event = rig.event()
    team = Crew(rig, count)
    tried = threading.Barrier(count + 1, timeout=PATIENCE_S)

    def work(_: int, own: Rig) -> tuple[str, bytes]:
        mine, target = own.stream(), own.memory(64)
        own.raw.ok("stream.wait_event", mine, event)
        own.copy(mine, source, target, 64)
        early = own.raw.call("stream.synchronize", mine, WHILE_NS)
        tried.wait()
        own.wait(mine)
        return status_name(early), own.download(target, 64)

    with rig.held(stream):
        rig.raw.ok("transfer.fill", stream, rig.raw.ref(source, 0, 64), b"\x02", 1)
        rig.raw.ok("event.record", event, stream)
        team.start(work)
        tried.wait()
    assert team.finish() == [("TIMEOUT", b"\x02" * 64)] * count


@case(rules=["HAL-SYS-004"], timeout_s=60)
@pytest.mark.parametrize("how", ["launch", "copy"])
def test_two_threads_take_turns_by_events(rig: Rig, how: str) -> None:
    """Ten turns each; only the events between the streams keep the order."""
    module, slow = rig.module(programs.two_kernels()), rig.program(programs.slow(), "slow")
    kernels = [rig.kernel(module, name) for name in ("add_one", "negate")]
    places, turns = [rig.numbers([5]), rig.numbers([0])], 10
    events = [[rig.event() for _ in range(turns)] for _ in range(2)]
    recorded = [[threading.Event() for _ in range(turns)] for _ in range(2)]

    def work(number: int, own: Rig) -> None:
        stream, source, target = own.stream(), places[number], places[1 - number]
        for turn in range(turns):
            other, its = (0, turn) if number else (1, turn - 1)
            if its >= 0:
                recorded[other][its].wait(PATIENCE_S)
                own.raw.ok("stream.wait_event", stream, events[other][its])
            if how == "copy":
                own.copy(stream, source, target, 4)
                own.launch(stream, slow, own.symbol(STEPS), own.buffer(target, 4))
            else:
                buffers = own.buffer(source, 4), own.buffer(target, 4)
                own.launch(stream, kernels[number], own.symbol(1), *buffers)
            own.raw.ok("event.record", events[number][turn], stream)
            recorded[number][turn].set()
        own.wait(stream)

    crew(rig, 2, work)
    value = 5
    for _ in range(turns):
        value = -(value + 1)
    wanted = programs.after_loop(5, 2 * turns * STEPS) if how == "copy" else value & 0xFFFFFFFF
    assert rig.read(places[0], 1, dtype="<u4") == [wanted]


@case(rules=["HAL-SYS-004"], timeout_s=60)
@pytest.mark.parametrize("threads", THREADS)
def test_an_upload_of_one_thread_is_there_for_the_next(rig: Rig, threads: int) -> None:
    """No event is needed when the first thread has waited: what is finished, all streams see."""
    count = room_for(rig, threads)
    memories = [rig.memory(SIZE) for _ in range(count)]
    meet = threading.Barrier(count, timeout=PATIENCE_S)

    def work(number: int, own: Rig) -> None:
        stream, target = own.stream(), own.memory(SIZE)
        for turn in range(4):
            own.upload(memories[number], bytes([number * 16 + turn]) * SIZE)
            meet.wait()
            other = (number + turn + 1) % count
            desc = own.copy_desc(
                Copy.DEVICE_TO_DEVICE,
                source=own.raw.ref(memories[other], 0, SIZE),
                target=own.raw.ref(target, 0, SIZE),
            )
            own.raw.ok("transfer.copy", stream, desc)
            own.wait(stream)
            assert own.download(target, SIZE) == bytes([other * 16 + turn]) * SIZE
            meet.wait()

    crew(rig, count, work)


# ---- errors ----


@case(rules=["HAL-SYS-005", "HAL-ABI-004"], negative=True, timeout_s=60)
@pytest.mark.parametrize("threads", THREADS)
def test_each_thread_reads_its_own_error(rig: Rig, threads: int) -> None:
    asks = [
        ("stream.query", (0,), Status.INVALID_HANDLE),
        ("memory.free", (0,), Status.INVALID_HANDLE),
        ("event.query", (0,), Status.INVALID_HANDLE),
        ("module.unload", (0,), Status.INVALID_HANDLE),
    ]
    image = programs.add_one()[:40]
    meet = threading.Barrier(threads, timeout=PATIENCE_S)

    def work(number: int, own: Rig) -> None:
        for turn in range(20):
            if number % 2:
                out = own.raw.out("hal_module")
                status = own.raw.call("module.load", own.device, own.module_desc(image), out)
                wanted = Status.INVALID_MODULE
            else:
                call, arguments, wanted = asks[turn % len(asks)]
                status = own.raw.call(call, *arguments)
            meet.wait()
            error = own.raw.error()
            names = status_name(status), status_name(error[0])
            assert names == (status_name(wanted), status_name(wanted)), error[2]
            meet.wait()

    crew(rig, threads, work)


@case(rules=["HAL-SYS-005", "HAL-ABI-014"], negative=True, timeout_s=60)
@pytest.mark.parametrize("threads", THREADS)
def test_failing_work_of_some_threads_leaves_the_others_alone(rig: Rig, threads: int) -> None:
    kernel = rig.program(programs.slow(), "slow")

    def work(number: int, own: Rig) -> None:
        for turn in range(3):
            if number % 2:
                own.raw.ok("stream.destroy", own.failed_stream())
                continue
            memory, stream = own.numbers([turn]), own.stream()
            own.launch(stream, kernel, own.symbol(STEPS), own.buffer(memory, 4))
            own.wait(stream)
            assert own.read(memory, 1, dtype="<u4") == [programs.after_loop(turn, STEPS)]
            own.raw.ok("stream.destroy", stream)

    crew(rig, room_for(rig, threads), work)
