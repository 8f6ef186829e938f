"""Event: points in a stream's order, and signals that the host gives."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from hal.testing import Rig, Status, case, programs
from hal.testing.abi import EventFlag, status_name
from hal.testing.rig import LONG_NS

HOST, TIMING = int(EventFlag.HOST), int(EventFlag.TIMING)
NO_EVENT = ["zero", "invented", "destroyed", "a stream's"]


def state(rig: Rig, event: int) -> str:
    """Return the name of what event.query answers."""
    return status_name(rig.raw.call("event.query", event))


# ---- create and destroy ----


@case(rules=["HAL-EVT-001"], negative=True)
def test_create_needs_an_output(layer: Rig) -> None:
    layer.refuse("event.create", layer.device, 0, layer.raw.NULL, status=Status.INVALID_VALUE)


@case(rules=["HAL-EVT-002"], negative=True)
@pytest.mark.parametrize("flags", [4, 8, 0x80000001])
def test_create_refuses_unknown_flags(layer: Rig, flags: int) -> None:
    out = layer.raw.out("hal_event")
    layer.refuse("event.create", layer.device, flags, out, status=Status.INVALID_VALUE)


@case(rules=["HAL-EVT-003", "HAL-ABI-012"], negative=True)
@pytest.mark.parametrize("handle", ["zero", "invented", "closed", "a stream's"])
def test_create_refuses_a_device_that_is_none(rig: Rig, handle: str) -> None:
    device, out = rig.no_device(handle), rig.raw.out("hal_event")
    rig.refuse("event.create", device, 0, out, status=Status.INVALID_HANDLE)


@case(rules=["HAL-EVT-004"])
@pytest.mark.parametrize("flags", [0, TIMING])
def test_a_new_event_can_be_recorded(rig: Rig, flags: int) -> None:
    stream, event = rig.stream(), rig.event(flags)
    assert event != 0
    rig.raw.ok("event.record", event, stream)
    rig.raw.ok("event.synchronize", event, LONG_NS)
    assert state(rig, event) == "OK"


@case(rules=["HAL-EVT-004", "HAL-EVT-053"])
def test_a_new_host_event_can_be_signalled(rig: Rig) -> None:
    event = rig.event(HOST)
    rig.raw.ok("event.signal", event, 0)
    rig.raw.ok("event.synchronize", event, 0)
    assert state(rig, event) == "OK"


@case(rules=["HAL-EVT-010"], negative=True)
@pytest.mark.parametrize("handle", NO_EVENT)
def test_destroy_refuses_an_event_that_is_none(rig: Rig, handle: str) -> None:
    rig.refuse("event.destroy", rig.no_event(handle), status=Status.INVALID_HANDLE)


@case(rules=["HAL-EVT-011"], negative=True)
def test_a_stream_fails_when_the_signal_that_it_awaits_is_destroyed(rig: Rig) -> None:
    stream, event, memory = rig.stream(), rig.event(HOST), rig.numbers([1])
    rig.raw.ok("stream.wait_event", stream, event)
    rig.raw.ok("transfer.fill", stream, rig.raw.ref(memory, 0, 4), b"\x7f", 1)
    rig.raw.ok("event.destroy", event)
    status = rig.raw.call("stream.synchronize", stream, LONG_NS)
    assert status < 0
    assert status_name(status) != "TIMEOUT"
    assert rig.read(memory, 1) == [1]
    rig.refuse("event.query", event, status=Status.INVALID_HANDLE)


@case(rules=["HAL-EVT-011"])
def test_destroy_of_a_recorded_event_leaves_waits_on_it_in_force(rig: Rig) -> None:
    kernel = rig.program(programs.slow(), "slow")
    first, second, event = rig.stream(), rig.stream(), rig.event()
    source, target = rig.numbers([3]), rig.numbers([0])
    with rig.held(first):
        rig.launch(first, kernel, rig.symbol(500), rig.buffer(source, 4))
        rig.raw.ok("event.record", event, first)
        rig.raw.ok("stream.wait_event", second, event)
        rig.raw.ok("event.destroy", event)
        rig.copy(second, source, target, 4)
    rig.wait(second)
    assert rig.read(target, 1, dtype="<u4") == [programs.after_loop(3, 500)]


@case(rules=["HAL-EVT-011"])
def test_destroy_of_a_signalled_event_hurts_nobody(rig: Rig) -> None:
    stream, event = rig.stream(), rig.event(HOST)
    rig.raw.ok("stream.wait_event", stream, event)
    rig.raw.ok("event.signal", event, 0)
    rig.raw.ok("event.destroy", event)
    rig.wait(stream)


# ---- record ----


@case(rules=["HAL-EVT-020"], negative=True)
@pytest.mark.parametrize("handle", NO_EVENT)
def test_record_refuses_an_event_that_is_none(rig: Rig, handle: str) -> None:
    stream = rig.stream()
    rig.refuse("event.record", rig.no_event(handle), stream, status=Status.INVALID_HANDLE)


@case(rules=["HAL-EVT-020"], negative=True)
@pytest.mark.parametrize("handle", ["zero", "invented", "destroyed"])
def test_record_refuses_a_stream_that_is_none(rig: Rig, handle: str) -> None:
    event = rig.event()
    rig.refuse("event.record", event, rig.no_stream(handle), status=Status.INVALID_HANDLE)


@case(rules=["HAL-EVT-021"], negative=True)
@pytest.mark.parametrize("signalled", [False, True])
def test_a_host_event_is_not_recorded(rig: Rig, signalled: bool) -> None:
    stream, event = rig.stream(), rig.event(HOST)
    if signalled:
        rig.raw.ok("event.signal", event, 0)
    rig.refuse("event.record", event, stream, status=Status.INVALID_STATE)


@case(rules=["HAL-EVT-022"])
@pytest.mark.parametrize("work", ["fill", "copy", "launch"])
def test_an_event_completes_when_the_work_before_it_has_finished(rig: Rig, work: str) -> None:
    kernel = rig.program(programs.slow(), "slow")
    stream, event = rig.stream(), rig.event()
    memory, other = rig.numbers([5]), rig.numbers([6])
    with rig.held(stream):
        if work == "fill":
            rig.raw.ok("transfer.fill", stream, rig.raw.ref(memory, 0, 4), b"\x01", 1)
        elif work == "copy":
            rig.copy(stream, other, memory, 4)
        else:
            rig.launch(stream, kernel, rig.symbol(10), rig.buffer(memory, 4))
        rig.raw.ok("event.record", event, stream)
        states = {state(rig, event) for _ in range(3)}
    assert states == {"NOT_READY"}
    rig.raw.ok("event.synchronize", event, LONG_NS)
    wanted = {"fill": 0x01010101, "copy": 6, "launch": programs.after_loop(5, 10)}[work]
    assert rig.read(memory, 1, dtype="<u4") == [wanted]


@case(rules=["HAL-EVT-022", "HAL-EVT-041"])
def test_an_event_does_not_wait_for_work_behind_it(rig: Rig) -> None:
    stream, event, memory = rig.stream(), rig.event(), rig.memory(4)
    rig.raw.ok("transfer.fill", stream, rig.raw.ref(memory, 0, 4), b"\x01", 1)
    rig.raw.ok("event.record", event, stream)
    with rig.held(stream):
        rig.raw.ok("event.synchronize", event, LONG_NS)
        assert state(rig, event) == "OK"
    rig.wait(stream)


@case(rules=["HAL-EVT-022"])
def test_a_second_record_replaces_the_first(rig: Rig) -> None:
    first, second, event = rig.stream(), rig.stream(), rig.event()
    with rig.held(first):
        rig.raw.ok("event.record", event, first)
        assert state(rig, event) == "NOT_READY"
        rig.raw.ok("event.record", event, second)
        rig.raw.ok("event.synchronize", event, LONG_NS)
        assert state(rig, event) == "OK"
        with rig.held(second):
            rig.raw.ok("event.record", event, second)
            assert state(rig, event) == "NOT_READY"
    rig.raw.ok("event.synchronize", event, LONG_NS)


@case(rules=["HAL-EVT-023", "HAL-STR-041"])
def test_a_recorded_event_holds_back_a_wait_on_it(rig: Rig) -> None:
    first, second, event = rig.stream(), rig.stream(), rig.event()
    source, target = rig.numbers([0]), rig.numbers([0])
    with rig.held(first):
        rig.raw.ok("transfer.fill", first, rig.raw.ref(source, 0, 4), b"\x01", 1)
        rig.raw.ok("event.record", event, first)
        rig.raw.ok("stream.wait_event", second, event)
        rig.copy(second, source, target, 4)
        assert status_name(rig.raw.call("stream.query", second)) == "NOT_READY"
    rig.wait(second)
    assert rig.read(target, 1) == [0x01010101]


# ---- query ----


@case(rules=["HAL-EVT-030"], negative=True)
@pytest.mark.parametrize("handle", NO_EVENT)
def test_query_refuses_an_event_that_is_none(rig: Rig, handle: str) -> None:
    rig.refuse("event.query", rig.no_event(handle), status=Status.INVALID_HANDLE)


@case(rules=["HAL-EVT-031"])
def test_an_event_is_not_ready_while_its_work_runs(rig: Rig) -> None:
    kernel = rig.program(programs.slow(), "slow")
    stream, event, memory = rig.stream(), rig.event(), rig.numbers([1])
    rig.launch(stream, kernel, rig.symbol(30_000), rig.buffer(memory, 4))
    rig.raw.ok("event.record", event, stream)
    while rig.raw.call("event.query", event) == Status.NOT_READY:
        pass
    assert state(rig, event) == "OK"
    assert rig.read(memory, 1, dtype="<u4") == [programs.after_loop(1, 30_000)]


@case(rules=["HAL-EVT-031", "HAL-EVT-041"])
def test_an_event_that_was_never_recorded_is_complete(rig: Rig) -> None:
    event = rig.event()
    assert state(rig, event) == "OK"
    rig.raw.ok("event.synchronize", event, 0)


@case(rules=["HAL-EVT-032"])
@pytest.mark.parametrize("flags", [HOST, HOST | TIMING])
def test_a_host_event_is_not_ready_until_it_is_signalled(rig: Rig, flags: int) -> None:
    event = rig.event(flags)
    before = {state(rig, event) for _ in range(3)}
    rig.raw.ok("event.signal", event, 0)
    assert (before, state(rig, event)) == ({"NOT_READY"}, "OK")


# ---- synchronize ----


@case(rules=["HAL-EVT-040"], negative=True)
@pytest.mark.parametrize("handle", NO_EVENT)
def test_synchronize_refuses_an_event_that_is_none(rig: Rig, handle: str) -> None:
    event = rig.no_event(handle)
    rig.refuse("event.synchronize", event, LONG_NS, status=Status.INVALID_HANDLE)


@case(rules=["HAL-EVT-041"])
def test_after_synchronize_the_work_before_the_event_has_finished(rig: Rig) -> None:
    kernel = rig.program(programs.slow(), "slow")
    stream, event, memory = rig.stream(), rig.event(), rig.numbers([1])
    rig.launch(stream, kernel, rig.symbol(30_000), rig.buffer(memory, 4))
    rig.raw.ok("event.record", event, stream)
    rig.raw.ok("event.synchronize", event, LONG_NS)
    assert rig.read(memory, 1, dtype="<u4") == [programs.after_loop(1, 30_000)]


@case(rules=["HAL-EVT-042"], negative=True)
@pytest.mark.parametrize("timeout_ns", [0, 1, 1_000_000])
@pytest.mark.parametrize("kind", ["recorded", "host"])
def test_synchronize_gives_up_in_time_and_the_event_goes_on(
    rig: Rig, kind: str, timeout_ns: int
) -> None:
    stream = rig.stream()
    event = rig.event(HOST if kind == "host" else 0)
    with rig.held(stream):
        if kind == "recorded":
            rig.raw.ok("event.record", event, stream)
        rig.refuse("event.synchronize", event, timeout_ns, status=Status.TIMEOUT)
    if kind == "host":
        rig.raw.ok("event.signal", event, 0)
    rig.raw.ok("event.synchronize", event, LONG_NS)


@case(rules=["HAL-EVT-041", "HAL-EVT-053"])
def test_a_signal_wakes_a_thread_that_waits(rig: Rig) -> None:
    event, answers = rig.event(HOST), []
    thread = threading.Thread(
        target=lambda: answers.append(rig.raw.call("event.synchronize", event, LONG_NS))
    )
    thread.start()
    rig.raw.ok("event.signal", event, 0)
    thread.join()
    assert answers == [0]


# ---- signal ----


@case(rules=["HAL-EVT-050"], negative=True)
@pytest.mark.parametrize("status", [1, 2, 0x7FFFFFFF])
def test_signal_refuses_a_status_that_is_no_end(layer: Rig, status: int) -> None:
    event = layer.event(HOST)
    layer.refuse("event.signal", event, status, status=Status.INVALID_VALUE)
    assert state(layer, event) == "NOT_READY"
    layer.raw.ok("event.signal", event, 0)


@case(rules=["HAL-EVT-051"], negative=True)
@pytest.mark.parametrize("kind", ["plain", "timing", "recorded", "signalled", "failed"])
def test_signal_refuses_an_event_that_does_not_await_it(rig: Rig, kind: str) -> None:
    flags = {"plain": 0, "timing": TIMING, "recorded": 0, "signalled": HOST, "failed": HOST}[kind]
    event, stream = rig.event(flags), rig.stream()
    if kind == "recorded":
        rig.raw.ok("event.record", event, stream)
        rig.wait(stream)
    if flags == HOST:
        first = Status.EXECUTION_FAILED if kind == "failed" else Status.OK
        rig.raw.ok("event.signal", event, int(first))
    rig.refuse("event.signal", event, 0, status=Status.INVALID_STATE)


@case(rules=["HAL-EVT-052"], negative=True)
@pytest.mark.parametrize("handle", NO_EVENT)
def test_signal_refuses_an_event_that_is_none(rig: Rig, handle: str) -> None:
    rig.refuse("event.signal", rig.no_event(handle), 0, status=Status.INVALID_HANDLE)


@case(rules=["HAL-EVT-053"])
@pytest.mark.parametrize("waiters", [1, 4])
def test_streams_that_wait_go_on_at_the_signal(rig: Rig, waiters: int) -> None:
    event = rig.event(HOST)
    streams = [rig.stream() for _ in range(waiters)]
    memories = [rig.numbers([0]) for _ in range(waiters)]
    for stream, memory in zip(streams, memories, strict=True):
        rig.raw.ok("stream.wait_event", stream, event)
        rig.raw.ok("transfer.fill", stream, rig.raw.ref(memory, 0, 4), b"\x01", 1)
    before = [rig.read(memory, 1) for memory in memories]
    rig.raw.ok("event.signal", event, 0)
    for stream in streams:
        rig.wait(stream)
    assert before == [[0]] * waiters
    assert [rig.read(memory, 1) for memory in memories] == [[0x01010101]] * waiters


@case(rules=["HAL-EVT-053", "HAL-ABI-013"], negative=True)
@pytest.mark.parametrize("status", ["EXECUTION_FAILED", "PEER_FAILED", "INTERNAL"])
def test_a_signal_with_an_error_fails_the_streams_that_wait(rig: Rig, status: str) -> None:
    error = Status[status]
    stream, event, memory = rig.stream(), rig.event(HOST), rig.numbers([1])
    rig.raw.ok("stream.wait_event", stream, event)
    rig.raw.ok("transfer.fill", stream, rig.raw.ref(memory, 0, 4), b"\x7f", 1)
    rig.raw.ok("event.signal", event, int(error))
    rig.refuse("stream.synchronize", stream, LONG_NS, status=error)
    rig.refuse("event.query", event, status=error)
    assert rig.read(memory, 1) == [1]


@case(rules=["HAL-EVT-053"])
def test_a_signal_may_come_from_another_thread(rig: Rig) -> None:
    stream, event, memory = rig.stream(), rig.event(HOST), rig.numbers([0])
    rig.raw.ok("stream.wait_event", stream, event)
    rig.raw.ok("transfer.fill", stream, rig.raw.ref(memory, 0, 4), b"\x01", 1)
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(rig.raw.call("event.signal", event, 0)))
    thread.start()
    thread.join()
    rig.wait(stream)
    assert (answers, rig.read(memory, 1)) == ([0], [0x01010101])


@case(rules=["HAL-EVT-053"])
def test_a_signal_before_the_wait_counts_too(rig: Rig) -> None:
    stream, event, memory = rig.stream(), rig.event(HOST), rig.numbers([0])
    rig.raw.ok("event.signal", event, 0)
    rig.raw.ok("stream.wait_event", stream, event)
    rig.raw.ok("transfer.fill", stream, rig.raw.ref(memory, 0, 4), b"\x01", 1)
    rig.wait(stream)
    assert rig.read(memory, 1) == [0x01010101]
