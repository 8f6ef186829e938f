"""Faults that are asked for: what the laws promise when memory, a kernel or the device fails."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hal.testing import Rig, Status, case, programs
from hal.testing.rig import LONG_NS

NEEDS = ("features.fault_injection",)
Faulty = Callable[..., Rig]


def allocate(rig: Rig) -> tuple[int, int]:
    """Ask for a small buffer: the status, and what the output holds."""
    out = rig.raw.out("hal_memory")
    before = int(out[0])
    status = rig.raw.call("memory.alloc", rig.device, rig.raw.new("memory_desc", bytes=256), out)
    return status, 0 if int(out[0]) == before else int(out[0])


@case(rules=["HAL-MEM-008", "HAL-MEM-009"], negative=True, needs=NEEDS)
@pytest.mark.parametrize("count", [0, 1, 5])
def test_memory_ends_after_some_buffers(faulty: Faulty, count: int) -> None:
    rig = faulty(out_of_memory_after=count)
    made = [allocate(rig) for _ in range(count)]
    assert [status for status, _ in made] == [Status.OK] * count
    assert [allocate(rig) for _ in range(3)] == [(Status.OUT_OF_MEMORY, 0)] * 3
    for _, memory in made:
        rig.raw.ok("memory.free", memory)


@case(rules=["HAL-MEM-008", "HAL-MEM-013"], negative=True, needs=NEEDS)
def test_buffers_made_before_the_memory_ended_still_work(faulty: Faulty) -> None:
    rig = faulty(out_of_memory_after=1)
    _, memory = allocate(rig)
    assert allocate(rig) == (Status.OUT_OF_MEMORY, 0)
    stream = rig.stream()
    rig.raw.ok("transfer.fill", stream, rig.raw.ref(memory, 0, 256), b"\x2a", 1)
    rig.wait(stream)


@case(rules=["HAL-LCH-019", "HAL-ABI-013"], negative=True, needs=NEEDS)
@pytest.mark.parametrize("failing", [1, 2, 4])
def test_the_kernel_that_fails_is_named(faulty: Faulty, failing: int) -> None:
    rig = faulty(kernel=failing)
    raw, stream, memory = rig.raw, rig.stream(), rig.numbers([1])
    kernel = rig.program(programs.slow(), "slow")
    desc = rig.launch_desc([rig.symbol(1), rig.buffer(memory, 4)])
    for _ in range(failing):
        raw.call("launch.launch", stream, kernel, desc)
    assert raw.call("stream.synchronize", stream, LONG_NS) == Status.EXECUTION_FAILED
    assert raw.error()[:2] == (Status.EXECUTION_FAILED, failing)
    assert raw.call("launch.launch", stream, kernel, desc) == Status.EXECUTION_FAILED


@case(rules=["HAL-ABI-014"], needs=NEEDS)
def test_a_kernel_that_fails_leaves_other_streams_alone(faulty: Faulty) -> None:
    rig = faulty(kernel=1)
    raw, memory = rig.raw, rig.numbers([1])
    kernel = rig.program(programs.slow(), "slow")
    desc = rig.launch_desc([rig.symbol(1), rig.buffer(memory, 4)])
    failed, well = rig.stream(), rig.stream()
    raw.call("launch.launch", failed, kernel, desc)
    assert raw.call("stream.synchronize", failed, LONG_NS) == Status.EXECUTION_FAILED
    raw.ok("launch.launch", well, kernel, desc)
    assert raw.call("stream.synchronize", well, LONG_NS) == Status.OK


@case(rules=["HAL-ABI-010"], negative=True, needs=NEEDS)
def test_an_event_behind_a_kernel_that_fails_fails_too(faulty: Faulty) -> None:
    rig = faulty(kernel=1)
    raw, stream, other, event = rig.raw, rig.stream(), rig.stream(), rig.event()
    memory, kernel = rig.numbers([1]), rig.program(programs.slow(), "slow")
    desc = rig.launch_desc([rig.symbol(1), rig.buffer(memory, 4)])
    with rig.held(stream):
        raw.ok("launch.launch", stream, kernel, desc)
        raw.ok("event.record", event, stream)
        raw.ok("stream.wait_event", other, event)
    assert raw.call("event.synchronize", event, LONG_NS) == Status.EXECUTION_FAILED
    assert raw.call("stream.synchronize", other, LONG_NS) == Status.EXECUTION_FAILED


@case(rules=["HAL-ABI-013", "HAL-ABI-011"], negative=True, needs=NEEDS)
@pytest.mark.parametrize("count", [0, 3])
def test_a_lost_device_says_so_from_then_on(faulty: Faulty, count: int) -> None:
    rig = faulty(device_lost_after=count)
    raw, stream = rig.raw, rig.stream()
    _, memory = allocate(rig)
    place = raw.ref(memory, 0, 256)
    for _ in range(count):
        assert raw.call("transfer.fill", stream, place, b"\1", 1) == Status.OK
    raw.call("transfer.fill", stream, place, b"\1", 1)
    assert raw.call("stream.synchronize", stream, LONG_NS) == Status.DEVICE_LOST
    assert raw.call("transfer.fill", stream, place, b"\1", 1) == Status.DEVICE_LOST


@case(rules=["HAL-STR-021", "HAL-STR-032", "HAL-EVT-031"], negative=True, needs=NEEDS)
def test_work_that_ends_late_is_waited_for(faulty: Faulty) -> None:
    rig = faulty(late_ms=300)
    raw, stream, event, memory = rig.raw, rig.stream(), rig.event(), rig.memory(256)
    with rig.held(stream):
        raw.ok("transfer.fill", stream, raw.ref(memory, 0, 256), b"\1", 1)
        raw.ok("event.record", event, stream)
    assert raw.call("stream.query", stream) == Status.NOT_READY
    assert raw.call("event.query", event) == Status.NOT_READY
    assert raw.call("stream.synchronize", stream, 1000) == Status.TIMEOUT
    assert raw.call("stream.synchronize", stream, LONG_NS) == Status.OK
    assert raw.call("event.query", event) == Status.OK


@case(rules=["HAL-EVT-063"], needs=NEEDS)
def test_time_that_a_fault_adds_is_time_that_events_see(faulty: Faulty) -> None:
    late_ns = 7_000_000
    rig = faulty(late_ns=late_ns)
    raw, stream, memory = rig.raw, rig.stream(), rig.memory(256)
    start, end = rig.event(2), rig.event(2)
    raw.ok("event.record", start, stream)
    raw.ok("transfer.fill", stream, raw.ref(memory, 0, 256), b"\1", 1)
    raw.ok("event.record", end, stream)
    rig.wait(stream)
    out = raw.out("int64_t")
    raw.ok("event.elapsed_ns", start, end, out)
    assert late_ns <= out[0] < 3 * late_ns
