"""Stream: order, waiting, failures."""

from __future__ import annotations

import pytest

from hal.testing import Rig, Status, case, programs
from hal.testing.abi import Copy, status_name
from hal.testing.rig import LONG_NS

NO_DEVICE = ["zero", "invented", "closed", "a stream's"]
NO_STREAM = ["zero", "invented", "destroyed", "a device's"]
STEPS = 30_000


def bad_stream(rig: Rig, kind: str) -> int:
    """Return a handle that is no stream."""
    return rig.device if kind == "a device's" else rig.no_stream(kind)


# ---- create ----


@case(rules=["HAL-STR-001"], negative=True)
def test_create_needs_an_output(layer: Rig) -> None:
    layer.refuse("stream.create", layer.device, 0, layer.raw.NULL, status=Status.INVALID_VALUE)


@case(rules=["HAL-STR-002"], negative=True)
@pytest.mark.parametrize("flags", [1, 2, 0x80000000])
def test_create_refuses_unknown_flags(layer: Rig, flags: int) -> None:
    out = layer.raw.out("hal_stream")
    layer.refuse("stream.create", layer.device, flags, out, status=Status.INVALID_VALUE)


@case(rules=["HAL-STR-003", "HAL-STR-005"], negative=True)
@pytest.mark.parametrize("handle", NO_DEVICE)
def test_create_refuses_a_device_that_is_none(rig: Rig, handle: str) -> None:
    device, out = rig.no_device(handle), rig.raw.out("hal_stream")
    rig.refuse("stream.create", device, 0, out, status=Status.INVALID_HANDLE)


@case(rules=["HAL-STR-004"])
def test_a_new_stream_is_ready_and_takes_work(rig: Rig) -> None:
    stream, memory = rig.stream(), rig.memory(64)
    assert stream != 0
    assert status_name(rig.raw.call("stream.query", stream)) == "OK"
    rig.wait(stream, 0)
    rig.raw.ok("transfer.fill", stream, rig.raw.ref(memory, 0, 64), b"\x2e", 1)
    rig.wait(stream)
    assert rig.download(memory, 64) == b"\x2e" * 64


@case(rules=["HAL-STR-004"])
def test_many_streams_work_side_by_side(rig: Rig) -> None:
    limit = rig.raw.i64(rig.device, "device.stream_limit") or 16
    count = min(16, limit - 2)
    streams = [rig.stream() for _ in range(count)]
    memories = [rig.memory(64) for _ in range(count)]
    assert len(set(streams)) == count
    for index, (stream, memory) in enumerate(zip(streams, memories, strict=True)):
        rig.raw.ok("transfer.fill", stream, rig.raw.ref(memory, 0, 64), bytes([index + 1]), 1)
    for stream in streams:
        rig.wait(stream)
    got = [rig.download(memory, 64) for memory in memories]
    assert got == [bytes([index + 1]) * 64 for index in range(count)]


# ---- destroy ----


@case(rules=["HAL-STR-010"], negative=True)
@pytest.mark.parametrize("handle", NO_STREAM)
def test_destroy_refuses_a_stream_that_is_none(rig: Rig, handle: str) -> None:
    rig.refuse("stream.destroy", bad_stream(rig, handle), status=Status.INVALID_HANDLE)


@case(rules=["HAL-STR-011"])
def test_work_enqueued_before_destroy_still_finishes(rig: Rig) -> None:
    kernel = rig.program(programs.slow(), "slow")
    stream, memory = rig.stream(), rig.numbers([3] + [0] * 64)
    with rig.held(stream):
        rig.launch(stream, kernel, rig.symbol(STEPS), rig.buffer(memory, 4))
        desc = rig.copy_desc(
            Copy.DEVICE_TO_DEVICE,
            source=rig.raw.ref(memory, 0, 4),
            target=rig.raw.ref(memory, 256, 4),
        )
        rig.raw.ok("transfer.copy", stream, desc)
        rig.raw.ok("stream.destroy", stream)
    rig.raw.ok("device.synchronize", rig.device, LONG_NS)
    result = programs.after_loop(3, STEPS)
    assert rig.read(memory, 65, dtype="<u4") == [result, *[0] * 63, result]


@case(rules=["HAL-STR-011", "HAL-STR-041"])
def test_an_event_recorded_before_destroy_still_completes(rig: Rig) -> None:
    stream, event, memory = rig.stream(), rig.event(), rig.memory(64)
    with rig.held(stream):
        rig.raw.ok("transfer.fill", stream, rig.raw.ref(memory, 0, 64), b"\x29", 1)
        rig.raw.ok("event.record", event, stream)
        rig.raw.ok("stream.destroy", stream)
        assert status_name(rig.raw.call("event.query", event)) == "NOT_READY"
    rig.raw.ok("event.synchronize", event, LONG_NS)
    assert rig.download(memory, 64) == b"\x29" * 64


@case(rules=["HAL-STR-012"], negative=True)
@pytest.mark.parametrize("call", ["query", "synchronize", "destroy", "wait", "record", "fill"])
def test_after_destroy_the_stream_is_refused(rig: Rig, call: str) -> None:
    stream, event = rig.no_stream("destroyed"), rig.event()
    target = rig.raw.ref(rig.memory(4), 0, 4)
    asks = {
        "query": ("stream.query", stream),
        "synchronize": ("stream.synchronize", stream, 0),
        "destroy": ("stream.destroy", stream),
        "wait": ("stream.wait_event", stream, event),
        "record": ("event.record", event, stream),
        "fill": ("transfer.fill", stream, target, b"\1", 1),
    }
    rig.refuse(*asks[call], status=Status.INVALID_HANDLE)


@case(rules=["HAL-STR-010", "HAL-STR-012"], negative=True)
def test_a_new_stream_does_not_bring_an_old_handle_to_life(rig: Rig) -> None:
    old = [rig.no_stream("destroyed") for _ in range(20)]
    new = [rig.stream() for _ in range(10)]
    assert set(old).isdisjoint(new)
    for handle in old:
        assert status_name(rig.raw.call("stream.query", handle)) == "INVALID_HANDLE"
    rig.refuse("stream.query", old[0], status=Status.INVALID_HANDLE)


# ---- query ----


@case(rules=["HAL-STR-020"], negative=True)
@pytest.mark.parametrize("handle", NO_STREAM)
def test_query_refuses_a_stream_that_is_none(rig: Rig, handle: str) -> None:
    rig.refuse("stream.query", bad_stream(rig, handle), status=Status.INVALID_HANDLE)


@case(rules=["HAL-STR-021"])
@pytest.mark.parametrize("work", ["none", "fill", "launch"])
def test_a_stream_with_work_to_do_is_not_ready(rig: Rig, work: str) -> None:
    stream, memory = rig.stream(), rig.numbers([1])
    kernel = rig.program(programs.slow(), "slow")
    with rig.held(stream):
        if work == "fill":
            rig.raw.ok("transfer.fill", stream, rig.raw.ref(memory, 0, 4), b"\1", 1)
        if work == "launch":
            rig.launch(stream, kernel, rig.symbol(1), rig.buffer(memory, 4))
        answers = {status_name(rig.raw.call("stream.query", stream)) for _ in range(3)}
    rig.wait(stream)
    assert answers == {"NOT_READY"}
    assert status_name(rig.raw.call("stream.query", stream)) == "OK"


@case(rules=["HAL-STR-021"])
def test_a_stream_is_ready_only_when_its_kernel_has_finished(rig: Rig) -> None:
    kernel = rig.program(programs.slow(), "slow")
    stream, memory = rig.stream(), rig.numbers([11])
    rig.launch(stream, kernel, rig.symbol(STEPS), rig.buffer(memory, 4))
    while rig.raw.call("stream.query", stream) == Status.NOT_READY:
        pass
    assert rig.read(memory, 1, dtype="<u4") == [programs.after_loop(11, STEPS)]


@case(rules=["HAL-STR-022", "HAL-ABI-013"], negative=True)
def test_query_of_a_failed_stream_answers_with_its_failure(rig: Rig) -> None:
    stream = rig.failed_stream()
    for _ in range(2):
        rig.refuse("stream.query", stream, status=Status.EXECUTION_FAILED)
        assert rig.raw.call("stream.query", stream) == Status.EXECUTION_FAILED
        assert rig.raw.error()[1] == 1


# ---- synchronize ----


@case(rules=["HAL-STR-030"], negative=True)
@pytest.mark.parametrize("handle", NO_STREAM)
def test_synchronize_refuses_a_stream_that_is_none(rig: Rig, handle: str) -> None:
    stream = bad_stream(rig, handle)
    rig.refuse("stream.synchronize", stream, LONG_NS, status=Status.INVALID_HANDLE)


@case(rules=["HAL-STR-031"])
@pytest.mark.parametrize("launches", [1, 8])
def test_after_synchronize_all_work_has_finished(rig: Rig, launches: int) -> None:
    kernel = rig.program(programs.slow(), "slow")
    stream, memory = rig.stream(), rig.numbers([2])
    for _ in range(launches):
        rig.launch(stream, kernel, rig.symbol(STEPS // 4), rig.buffer(memory, 4))
    rig.wait(stream)
    wanted = programs.after_loop(2, STEPS // 4 * launches)
    assert rig.read(memory, 1, dtype="<u4") == [wanted]


@case(rules=["HAL-STR-032"], negative=True)
@pytest.mark.parametrize("timeout_ns", [0, 1, 1000, 1_000_000, 20_000_000])
def test_synchronize_gives_up_in_time_and_the_stream_goes_on(rig: Rig, timeout_ns: int) -> None:
    stream, memory = rig.stream(), rig.memory(64)
    with rig.held(stream):
        rig.raw.ok("transfer.fill", stream, rig.raw.ref(memory, 0, 64), b"\x18", 1)
        rig.refuse("stream.synchronize", stream, timeout_ns, status=Status.TIMEOUT)
    rig.wait(stream)
    assert rig.download(memory, 64) == b"\x18" * 64


@case(rules=["HAL-STR-032"])
def test_the_longest_time_is_no_short_one(rig: Rig) -> None:
    kernel = rig.program(programs.slow(), "slow")
    stream, memory = rig.stream(), rig.numbers([8])
    rig.launch(stream, kernel, rig.symbol(STEPS), rig.buffer(memory, 4))
    rig.wait(stream, 2**64 - 1)
    assert rig.read(memory, 1, dtype="<u4") == [programs.after_loop(8, STEPS)]


@case(rules=["HAL-STR-033", "HAL-ABI-013"], negative=True)
@pytest.mark.parametrize("timeout_ns", [0, LONG_NS])
def test_synchronize_of_a_failed_stream_answers_with_its_failure(rig: Rig, timeout_ns: int) -> None:
    stream = rig.failed_stream()
    rig.refuse("stream.synchronize", stream, timeout_ns, status=Status.EXECUTION_FAILED)


# ---- wait_event ----


@case(rules=["HAL-STR-040"], negative=True)
@pytest.mark.parametrize("handle", NO_STREAM)
def test_wait_refuses_a_stream_that_is_none(rig: Rig, handle: str) -> None:
    stream, event = bad_stream(rig, handle), rig.event()
    rig.refuse("stream.wait_event", stream, event, status=Status.INVALID_HANDLE)


@case(rules=["HAL-STR-040"], negative=True)
@pytest.mark.parametrize("handle", ["zero", "invented", "destroyed", "a stream's"])
def test_wait_refuses_an_event_that_is_none(rig: Rig, handle: str) -> None:
    stream, event = rig.stream(), rig.no_event(handle)
    rig.refuse("stream.wait_event", stream, event, status=Status.INVALID_HANDLE)


@case(rules=["HAL-STR-041"])
@pytest.mark.parametrize("held", ["the first stream", "neither"])
def test_a_wait_holds_back_what_comes_behind_it(rig: Rig, held: str) -> None:
    kernel = rig.program(programs.slow(), "slow")
    first, second, event = rig.stream(), rig.stream(), rig.event()
    source, target = rig.numbers([4]), rig.numbers([0])

    def enqueue() -> None:
        rig.launch(first, kernel, rig.symbol(STEPS), rig.buffer(source, 4))
        rig.raw.ok("event.record", event, first)
        rig.raw.ok("stream.wait_event", second, event)
        rig.copy(second, source, target, 4)

    if held == "neither":
        enqueue()
    else:
        with rig.held(first):
            enqueue()
            assert status_name(rig.raw.call("stream.query", second)) == "NOT_READY"
            assert rig.read(target, 1) == [0]
    rig.wait(second)
    assert rig.read(target, 1, dtype="<u4") == [programs.after_loop(4, STEPS)]


@case(rules=["HAL-STR-041"])
def test_waits_order_a_ring_of_streams(rig: Rig) -> None:
    kernel = rig.program(programs.slow(), "slow")
    streams = [rig.stream() for _ in range(4)]
    memory = rig.numbers([1])
    with rig.held(streams[0]):
        for turn in range(12):
            stream, event = streams[turn % 4], rig.event()
            rig.launch(stream, kernel, rig.symbol(turn + 1), rig.buffer(memory, 4))
            rig.raw.ok("event.record", event, stream)
            rig.raw.ok("stream.wait_event", streams[(turn + 1) % 4], event)
    rig.raw.ok("device.synchronize", rig.device, LONG_NS)
    assert rig.read(memory, 1, dtype="<u4") == [programs.after_loop(1, sum(range(1, 13)))]


@case(rules=["HAL-STR-041"])
def test_streams_without_a_wait_do_not_hold_each_other(rig: Rig) -> None:
    first, second, memory = rig.stream(), rig.stream(), rig.memory(64)
    with rig.held(first):
        rig.raw.ok("transfer.fill", second, rig.raw.ref(memory, 0, 64), b"\x62", 1)
        rig.wait(second)
        assert rig.download(memory, 64) == b"\x62" * 64


@case(rules=["HAL-STR-042"])
def test_a_wait_on_an_event_that_was_never_recorded_does_not_block(rig: Rig) -> None:
    stream, event, memory = rig.stream(), rig.event(), rig.memory(64)
    rig.raw.ok("stream.wait_event", stream, event)
    rig.raw.ok("transfer.fill", stream, rig.raw.ref(memory, 0, 64), b"\x63", 1)
    rig.wait(stream)
    assert rig.download(memory, 64) == b"\x63" * 64


@case(rules=["HAL-STR-043"])
def test_a_wait_does_not_follow_a_later_record(rig: Rig) -> None:
    first, later, waiting = rig.stream(), rig.stream(), rig.stream()
    event, memory = rig.event(), rig.memory(64)
    rig.raw.ok("event.record", event, first)
    rig.wait(first)
    with rig.held(waiting), rig.held(later):
        rig.raw.ok("stream.wait_event", waiting, event)
        rig.raw.ok("transfer.fill", waiting, rig.raw.ref(memory, 0, 64), b"\x64", 1)
        rig.raw.ok("event.record", event, later)
    rig.wait(waiting)
    rig.wait(later)
    with rig.held(later):
        rig.raw.ok("stream.wait_event", waiting, event)
        rig.raw.ok("event.record", event, later)
        rig.raw.ok("transfer.fill", waiting, rig.raw.ref(memory, 0, 64), b"\x65", 1)
        rig.wait(waiting)
        assert rig.download(memory, 64) == b"\x65" * 64


@case(rules=["HAL-STR-043"])
def test_a_wait_keeps_the_record_that_it_was_bound_to(rig: Rig) -> None:
    kernel = rig.program(programs.slow(), "slow")
    first, idle, waiting = rig.stream(), rig.stream(), rig.stream()
    event, source, target = rig.event(), rig.numbers([6]), rig.numbers([0])
    with rig.held(first):
        rig.launch(first, kernel, rig.symbol(100), rig.buffer(source, 4))
        rig.raw.ok("event.record", event, first)
        rig.raw.ok("stream.wait_event", waiting, event)
        rig.copy(waiting, source, target, 4)
        rig.raw.ok("event.record", event, idle)
        rig.wait(idle)
        assert status_name(rig.raw.call("stream.query", waiting)) == "NOT_READY"
    rig.wait(waiting)
    assert rig.read(target, 1, dtype="<u4") == [programs.after_loop(6, 100)]


# ---- host calls ----


@case(rules=["HAL-STR-050"], negative=True)
def test_host_call_needs_a_function(layer: Rig) -> None:
    stream, null = layer.stream(), layer.raw.NULL
    layer.refuse("stream.host_call", stream, null, null, status=Status.INVALID_VALUE)


@case(rules=["HAL-STR-060"], negative=True)
@pytest.mark.parametrize("absent", ["queue", "output"])
def test_wrap_needs_queue_and_output(layer: Rig, absent: str) -> None:
    native = 0 if absent == "queue" else 64
    out = layer.raw.NULL if absent == "output" else layer.raw.out("hal_stream")
    layer.refuse("stream.wrap", layer.device, native, out, status=Status.INVALID_VALUE)
