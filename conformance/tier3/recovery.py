"""Failures, many of them: the device works on, and what did not fail is unharmed."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from hal.testing import Rig, Status, case, programs
from hal.testing.abi import status_name
from hal.testing.rig import LONG_NS, check_health
from hal.testing.threads import PATIENCE_S, Crew, crew, room_for

STEPS = 100
Faulty = Callable[..., Rig]


def works(rig: Rig, kernel: int, value: int) -> bool:
    """Tell whether a launch on a new stream gives the right number."""
    stream, memory = rig.stream(), rig.numbers([value])
    rig.launch(stream, kernel, rig.symbol(STEPS), rig.buffer(memory, 4))
    rig.wait(stream)
    found = rig.read(memory, 1, dtype="<u4")
    rig.raw.ok("stream.destroy", stream)
    rig.raw.ok("memory.free", memory)
    return found == [programs.after_loop(value, STEPS)]


def fail_in(rig: Rig, kernel: int, source: int, target: int) -> None:
    """Let a kernel fail on a stream of its own, which then ends."""
    stream = rig.stream()
    outside = rig.symbol(1 << 40), rig.buffer(source, 4), rig.buffer(target, 4)
    rig.launch(stream, kernel, *outside)
    status = rig.raw.call("stream.synchronize", stream, LONG_NS)
    assert status_name(status) == "EXECUTION_FAILED"
    rig.raw.ok("stream.destroy", stream)


@case(rules=["HAL-SYS-008", "HAL-ABI-014"], timeout_s=60)
@pytest.mark.parametrize("failures", [1, 10, 60])
def test_a_device_works_after_many_kernels_failed(rig: Rig, failures: int) -> None:
    good, bad = rig.program(programs.slow(), "slow"), rig.program(programs.outside(), "outside")
    source, target = rig.numbers([1]), rig.numbers([2])
    for turn in range(failures):
        fail_in(rig, bad, source, target)
        assert works(rig, good, turn), f"the device is wrong after {turn + 1} failures"
    assert rig.read(target, 1) == [2]


@case(rules=["HAL-SYS-008"], negative=True, timeout_s=60)
@pytest.mark.parametrize("kind", ["handle", "range", "image", "memory", "state"])
def test_a_device_works_after_many_refusals(rig: Rig, kind: str) -> None:
    raw, kernel = rig.raw, rig.program(programs.slow(), "slow")
    memory, stream = rig.memory(64), rig.stream()
    image = programs.add_one()[:50]
    too_much = raw.new("memory_desc", bytes=2**62)
    ask, wanted = {
        "handle": (lambda: raw.call("event.query", 0x1234), "INVALID_HANDLE"),
        "range": (
            lambda: raw.call("transfer.fill", stream, raw.ref(memory, 64, 64), b"\1", 1),
            "OUT_OF_RANGE",
        ),
        "image": (
            lambda: raw.call(
                "module.load", rig.device, rig.module_desc(image), raw.out("hal_module")
            ),
            "INVALID_MODULE",
        ),
        "memory": (
            lambda: raw.call("memory.alloc", rig.device, too_much, raw.out("hal_memory")),
            "OUT_OF_MEMORY",
        ),
        "state": (lambda: raw.call("event.signal", rig.event(), 0), "INVALID_STATE"),
    }[kind]
    statuses = {status_name(ask()) for _ in range(200)}
    assert statuses == {wanted}
    assert works(rig, kernel, 5)
    check_health(raw, rig.device)


@case(rules=["HAL-SYS-008", "HAL-ABI-014"], timeout_s=60)
@pytest.mark.parametrize("threads", [2, 4, 8])
def test_failures_on_all_threads_leave_the_device_well(rig: Rig, threads: int) -> None:
    good, bad = rig.program(programs.slow(), "slow"), rig.program(programs.outside(), "outside")

    def work(number: int, own: Rig) -> None:
        source, target = own.numbers([1]), own.numbers([2])
        for turn in range(6):
            fail_in(own, bad, source, target)
            assert works(own, good, number * 10 + turn)

    crew(rig, room_for(rig, threads), work)
    assert works(rig, good, 99)


@case(rules=["HAL-SYS-008"], timeout_s=60)
@pytest.mark.parametrize("rounds", [1, 8])
def test_a_device_that_closes_with_failed_streams_opens_again(rig: Rig, rounds: int) -> None:
    image = programs.slow()
    for turn in range(rounds):
        other = rig.second()
        for _ in range(3):
            other.failed_stream()
        assert works(other, other.program(image, "slow"), turn)
        rig.raw.ok("device.close", other.device, LONG_NS)
    assert works(rig, rig.program(image, "slow"), 77)


@case(rules=["HAL-SYS-008", "HAL-ABI-010"], timeout_s=60)
def test_events_behind_failures_are_recorded_anew(rig: Rig) -> None:
    raw, event, healthy = rig.raw, rig.event(), rig.stream()
    bad = rig.program(programs.outside(), "outside")
    source, target = rig.numbers([1]), rig.numbers([2])
    for turn in range(20):
        stream = rig.stream()
        with rig.held(stream):
            outside = rig.symbol(1 << 40), rig.buffer(source, 4), rig.buffer(target, 4)
            rig.launch(stream, bad, *outside)
            raw.ok("event.record", event, stream)
        failed = raw.call("event.synchronize", event, LONG_NS)
        raw.ok("event.record", event, healthy)
        well = raw.call("event.synchronize", event, LONG_NS)
        names = status_name(failed), status_name(well)
        assert names == ("EXECUTION_FAILED", "OK"), f"turn {turn}"
        raw.ok("stream.destroy", stream)


@case(rules=["HAL-SYS-008"], negative=True, timeout_s=60)
@pytest.mark.parametrize("times", [1, 50])
def test_waits_that_ran_out_leave_the_device_well(rig: Rig, times: int) -> None:
    stream, memory = rig.stream(), rig.memory(64)
    kernel = rig.program(programs.slow(), "slow")
    with rig.held(stream):
        rig.raw.ok("transfer.fill", stream, rig.raw.ref(memory, 0, 64), b"\x51", 1)
        waits = [rig.raw.call("stream.synchronize", stream, 10_000) for _ in range(times)]
        assert waits == [Status.TIMEOUT] * times
        assert works(rig, kernel, 3)
    rig.wait(stream)
    assert rig.download(memory, 64) == b"\x51" * 64


# ---- a lost device ----


@case(rules=["HAL-SYS-009"], negative=True, needs=["features.fault_injection"], timeout_s=60)
@pytest.mark.parametrize("call", ["fill", "launch", "record", "query", "stream", "alloc", "sync"])
def test_each_call_on_a_lost_device_says_so(faulty: Faulty, call: str) -> None:
    rig = faulty(device_lost_after=3)
    raw, stream, other, event = rig.raw, rig.stream(), rig.stream(), rig.event()
    memory, kernel = rig.memory(64), rig.program(programs.slow(), "slow")
    place, launch = raw.ref(memory, 0, 64), rig.launch_desc([rig.symbol(1), rig.buffer(memory, 4)])
    for _ in range(4):
        raw.call("transfer.fill", stream, place, b"\1", 1)
    assert raw.call("stream.synchronize", stream, LONG_NS) == Status.DEVICE_LOST
    ask: tuple[object, ...] = {
        "fill": ("transfer.fill", other, place, b"\1", 1),
        "launch": ("launch.launch", other, kernel, launch),
        "record": ("event.record", event, other),
        "query": ("stream.query", stream),
        "stream": ("stream.create", rig.device, 0, raw.out("hal_stream")),
        "alloc": (
            "memory.alloc",
            rig.device,
            raw.new("memory_desc", bytes=64),
            raw.out("hal_memory"),
        ),
        "sync": ("device.synchronize", rig.device, LONG_NS),
    }[call]
    statuses = {status_name(raw.call(*ask)) for _ in range(3)}  # type: ignore[arg-type]
    assert statuses == {"DEVICE_LOST"}
    raw.ok("device.close", rig.device, LONG_NS)


@case(rules=["HAL-SYS-009"], negative=True, needs=["features.fault_injection"], timeout_s=60)
@pytest.mark.parametrize("threads", [2, 4])
def test_all_threads_that_wait_hear_that_the_device_is_lost(faulty: Faulty, threads: int) -> None:
    rig = faulty(device_lost_after=0)
    raw, stream, memory = rig.raw, rig.stream(), rig.memory(64)
    event, team = rig.event(), Crew(rig, threads)
    meet = threading.Barrier(threads + 1, timeout=PATIENCE_S)

    def work(number: int, own: Rig) -> str:
        meet.wait()
        if number % 2:
            return status_name(own.raw.call("event.synchronize", event, LONG_NS))
        return status_name(own.raw.call("stream.synchronize", stream, LONG_NS))

    with rig.held(stream):
        raw.ok("transfer.fill", stream, raw.ref(memory, 0, 64), b"\1", 1)
        raw.ok("event.record", event, stream)
        team.start(work)
        meet.wait()
    assert team.finish() == ["DEVICE_LOST"] * threads
