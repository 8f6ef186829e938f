"""Failures of work: sticky streams, the number of the operation, what stays well."""

from __future__ import annotations

import itertools

import pytest

from hal.testing import Rig, Status, case, programs
from hal.testing.abi import Copy, status_name
from hal.testing.rig import LONG_NS


@case(rules=["HAL-ABI-013", "HAL-LCH-019"], negative=True)
@pytest.mark.parametrize("call", ["fill", "copy", "launch", "record", "wait"])
def test_a_failed_stream_takes_no_more_work(rig: Rig, call: str) -> None:
    raw, stream = rig.raw, rig.failed_stream()
    memory, event = rig.numbers([1] * 65), rig.event()
    kernel = rig.program(programs.slow(), "slow")
    half = [raw.ref(memory, offset, 4) for offset in (0, 256)]
    launch = rig.launch_desc([rig.symbol(1), rig.buffer(memory, 4)])
    asks = {
        "fill": ("transfer.fill", stream, half[0], b"\1", 1),
        "copy": (
            "transfer.copy",
            stream,
            rig.copy_desc(Copy.DEVICE_TO_DEVICE, source=half[0], target=half[1]),
        ),
        "launch": ("launch.launch", stream, kernel, launch),
        "record": ("event.record", event, stream),
        "wait": ("stream.wait_event", stream, event),
    }
    rig.refuse(*asks[call], status=Status.EXECUTION_FAILED)
    assert raw.call(*asks[call]) == Status.EXECUTION_FAILED
    assert raw.error()[1] == 1
    assert rig.read(memory, 65) == [1] * 65


@case(rules=["HAL-ABI-013"], negative=True)
@pytest.mark.parametrize("before", [0, 1, 4])
def test_the_error_names_the_first_operation_that_failed(rig: Rig, before: int) -> None:
    raw, stream = rig.raw, rig.stream()
    memory = rig.memory(64)
    for _ in range(before):
        raw.ok("transfer.fill", stream, raw.ref(memory, 0, 64), b"\1", 1)
    rig.fault(stream)
    rig.refuse("stream.synchronize", stream, LONG_NS, status=Status.EXECUTION_FAILED)
    assert raw.call("stream.query", stream) == Status.EXECUTION_FAILED
    assert raw.error()[1] == before + 1


@case(rules=["HAL-ABI-013"])
def test_work_behind_a_failure_does_not_run(rig: Rig) -> None:
    stream, memory = rig.stream(), rig.numbers([1])
    with rig.held(stream):
        rig.fault(stream)
        rig.raw.ok("transfer.fill", stream, rig.raw.ref(memory, 0, 4), b"\x7f", 1)
    rig.raw.call("stream.synchronize", stream, LONG_NS)
    assert rig.read(memory, 1) == [1]


@case(rules=["HAL-ABI-013"])
def test_a_failed_stream_can_be_destroyed(rig: Rig) -> None:
    streams = [rig.failed_stream() for _ in range(4)]
    statuses = [rig.raw.call("stream.destroy", stream) for stream in streams]
    assert [status_name(status) for status in statuses] == ["OK"] * 4


@case(rules=["HAL-ABI-014"])
@pytest.mark.parametrize("made", ["before", "after"])
def test_a_failure_leaves_other_streams_alone(rig: Rig, made: str) -> None:
    kernel = rig.program(programs.slow(), "slow")
    early, memory = rig.stream(), rig.numbers([9])
    rig.failed_stream()
    stream = early if made == "before" else rig.stream()
    rig.launch(stream, kernel, rig.symbol(1000), rig.buffer(memory, 4))
    rig.wait(stream)
    assert rig.read(memory, 1, dtype="<u4") == [programs.after_loop(9, 1000)]


@case(rules=["HAL-ABI-014"])
def test_a_running_stream_goes_on_while_another_fails(rig: Rig) -> None:
    kernel = rig.program(programs.slow(), "slow")
    stream, memory = rig.stream(), rig.numbers([9])
    with rig.held(stream):
        rig.launch(stream, kernel, rig.symbol(1000), rig.buffer(memory, 4))
        rig.failed_stream()
        rig.launch(stream, kernel, rig.symbol(1000), rig.buffer(memory, 4))
    rig.wait(stream)
    assert rig.read(memory, 1, dtype="<u4") == [programs.after_loop(9, 2000)]


# ---- what kinds of failures there are ----


@case(rules=["HAL-LCH-019"], negative=True)
@pytest.mark.parametrize("at", [16, 1 << 20, 1 << 40, -1, -(1 << 40)])
def test_a_kernel_that_reads_outside_its_buffer_fails_its_stream(rig: Rig, at: int) -> None:
    kernel = rig.program(programs.outside(), "outside")
    stream, source, target = rig.stream(), rig.numbers([1] * 8), rig.numbers([2])
    arguments = rig.symbol(at), rig.buffer(source, 16), rig.buffer(target, 4)
    rig.launch(stream, kernel, *arguments)
    status = rig.raw.call("stream.synchronize", stream, LONG_NS)
    if at < 0:
        assert status_name(status) == "OK"
        assert rig.read(target, 1) == [0]
    else:
        rig.refuse("stream.query", stream, status=Status.EXECUTION_FAILED)
        assert rig.read(target, 1) == [2]


@case(rules=["HAL-LCH-019"], negative=True)
def test_a_range_smaller_than_its_buffer_is_the_bound(rig: Rig) -> None:
    """The kernel may read nothing outside the range that it was given, buffer or no buffer."""
    kernel = rig.program(programs.outside(), "outside")
    stream, source, target = rig.stream(), rig.numbers(range(68)), rig.numbers([2])
    inside = rig.buffer(source, 8, offset=256)
    rig.launch(stream, kernel, rig.symbol(1), inside, rig.buffer(target, 4))
    rig.wait(stream)
    assert rig.read(target, 1) == [65]
    rig.launch(stream, kernel, rig.symbol(2), inside, rig.buffer(target, 4))
    rig.refuse("stream.synchronize", stream, LONG_NS, status=Status.EXECUTION_FAILED)


@case(rules=["HAL-LCH-019"], negative=True)
def test_the_largest_of_nothing_fails_its_stream(rig: Rig) -> None:
    kernel = rig.program(programs.argmax_of_nothing(), "argmax_of_nothing")
    stream, source, target = rig.stream(), rig.numbers([3, 9, 4]), rig.numbers([-1])
    for count, size in ((3, 12), (0, 0)):
        buffers = rig.buffer(source, size), rig.buffer(target, 4)
        rig.launch(stream, kernel, rig.symbol(count), *buffers)
    rig.refuse("stream.synchronize", stream, LONG_NS, status=Status.EXECUTION_FAILED)
    assert rig.read(target, 1) == [1]
    assert rig.raw.call("stream.query", stream) == Status.EXECUTION_FAILED
    assert rig.raw.error()[1] == 2


# ---- events behind a failure ----


@case(rules=["HAL-ABI-010"], negative=True)
@pytest.mark.parametrize("ask", ["query", "synchronize", "wait and work"])
def test_an_event_behind_a_failure_completes_with_it(rig: Rig, ask: str) -> None:
    raw, stream, event, other = rig.raw, rig.stream(), rig.event(), rig.stream()
    with rig.held(stream):
        rig.fault(stream)
        raw.ok("event.record", event, stream)
        if ask == "wait and work":
            raw.ok("stream.wait_event", other, event)
    if ask == "query":
        raw.call("stream.synchronize", stream, LONG_NS)
        rig.refuse("event.query", event, status=Status.EXECUTION_FAILED)
    elif ask == "synchronize":
        rig.refuse("event.synchronize", event, LONG_NS, status=Status.EXECUTION_FAILED)
    else:
        rig.refuse("stream.synchronize", other, LONG_NS, status=Status.EXECUTION_FAILED)
        assert raw.call("stream.query", stream) == Status.EXECUTION_FAILED
        origin = raw.error()[1]
        assert raw.call("stream.query", other) == Status.EXECUTION_FAILED
        assert raw.error()[1] == origin != 0


@case(rules=["HAL-ABI-010"])
def test_an_event_before_a_failure_completes_well(rig: Rig) -> None:
    stream, event, memory = rig.stream(), rig.event(), rig.memory(4)
    rig.raw.ok("transfer.fill", stream, rig.raw.ref(memory, 0, 4), b"\1", 1)
    rig.raw.ok("event.record", event, stream)
    rig.fault(stream)
    rig.raw.call("stream.synchronize", stream, LONG_NS)
    assert status_name(rig.raw.call("event.synchronize", event, LONG_NS)) == "OK"
    assert status_name(rig.raw.call("event.query", event)) == "OK"


@case(rules=["HAL-ABI-010", "HAL-ABI-013"], negative=True)
def test_a_failure_travels_from_stream_to_stream_with_its_number(rig: Rig) -> None:
    raw = rig.raw
    streams, memory = [rig.stream() for _ in range(4)], rig.memory(4)
    with rig.held(streams[0]):
        raw.ok("transfer.fill", streams[0], raw.ref(memory, 0, 4), b"\1", 1)
        rig.fault(streams[0])
        for before, after in itertools.pairwise(streams):
            event = rig.event()
            raw.ok("event.record", event, before)
            raw.ok("stream.wait_event", after, event)
    rig.refuse("stream.synchronize", streams[3], LONG_NS, status=Status.EXECUTION_FAILED)
    numbers = []
    for stream in streams:
        raw.call("stream.query", stream)
        numbers.append(raw.error()[1])
    assert numbers[1:] == [numbers[0]] * 3


@case(rules=["HAL-ABI-010"])
def test_a_record_on_a_healthy_stream_heals_an_event(rig: Rig) -> None:
    failed, healthy, event = rig.stream(), rig.stream(), rig.event()
    with rig.held(failed):
        rig.fault(failed)
        rig.raw.ok("event.record", event, failed)
    rig.raw.call("event.synchronize", event, LONG_NS)
    rig.raw.ok("event.record", event, healthy)
    assert status_name(rig.raw.call("event.synchronize", event, LONG_NS)) == "OK"


@case(rules=["HAL-ABI-014", "HAL-DEV-041"])
def test_the_device_synchronizes_over_a_failed_stream(rig: Rig) -> None:
    rig.failed_stream()
    assert status_name(rig.raw.call("device.synchronize", rig.device, LONG_NS)) == "OK"
