"""Timing of events, where the HCD claims it."""

from __future__ import annotations

import itertools

import pytest

from hal.testing import Rig, Status, case, programs
from hal.testing.abi import EventFlag
from hal.testing.rig import LONG_NS

HOST, TIMING = int(EventFlag.HOST), int(EventFlag.TIMING)
NEEDS = ["features.timing"]


def elapsed(rig: Rig, start: int, end: int) -> int:
    """Return event.elapsed_ns."""
    out = rig.raw.out("int64_t")
    rig.raw.ok("event.elapsed_ns", start, end, out)
    return int(out[0])


def clock(rig: Rig) -> tuple[int, int]:
    """Return (device_ns, domain) of profile.clock."""
    out = rig.raw.out("hal_clock")
    rig.raw.ok("profile.clock", rig.device, out)
    return int(out.device_ns), int(out.domain)


def stamped(rig: Rig, stream: int) -> int:
    """Record an event with a time and wait for it."""
    event = rig.event(TIMING)
    rig.raw.ok("event.record", event, stream)
    rig.raw.ok("event.synchronize", event, LONG_NS)
    return event


@case(rules=["HAL-EVT-060"], negative=True, needs=NEEDS)
def test_elapsed_needs_an_output(layer: Rig) -> None:
    event = stamped(layer, layer.stream())
    null = layer.raw.NULL
    layer.refuse("event.elapsed_ns", event, event, null, status=Status.INVALID_VALUE)


@case(rules=["HAL-EVT-061"], negative=True, needs=NEEDS)
@pytest.mark.parametrize("side", ["start", "end"])
@pytest.mark.parametrize("kind", ["without timing", "never recorded"])
def test_elapsed_refuses_an_event_without_a_time(rig: Rig, kind: str, side: str) -> None:
    stream, good, out = rig.stream(), 0, rig.raw.out("int64_t")
    good, bad = stamped(rig, stream), rig.event(0 if kind == "without timing" else TIMING)
    if kind == "without timing":
        rig.raw.ok("event.record", bad, stream)
        rig.wait(stream)
    pair = (bad, good) if side == "start" else (good, bad)
    rig.refuse("event.elapsed_ns", *pair, out, status=Status.INVALID_STATE)


@case(rules=["HAL-EVT-062"], needs=NEEDS)
@pytest.mark.parametrize("side", ["start", "end"])
def test_elapsed_of_an_event_that_is_not_complete_is_not_ready(rig: Rig, side: str) -> None:
    stream, event, out = rig.stream(), rig.event(TIMING), rig.raw.out("int64_t")
    good = stamped(rig, stream)
    with rig.held(stream):
        rig.raw.ok("event.record", event, stream)
        pair = (event, good) if side == "start" else (good, event)
        assert rig.raw.call("event.elapsed_ns", *pair, out) == Status.NOT_READY
    rig.wait(stream)
    rig.raw.ok("event.elapsed_ns", *pair, out)


@case(rules=["HAL-EVT-063"], needs=NEEDS)
def test_time_never_runs_backwards(rig: Rig) -> None:
    stream, memory = rig.stream(), rig.memory(4096)
    events = []
    for _ in range(8):
        rig.raw.ok("transfer.fill", stream, rig.raw.ref(memory, 0, 4096), b"\1", 1)
        events.append(stamped(rig, stream))
    steps = [elapsed(rig, one, two) for one, two in itertools.pairwise(events)]
    assert [step >= 0 for step in steps] == [True] * 7
    whole = elapsed(rig, events[0], events[-1])
    assert whole == sum(steps)
    assert elapsed(rig, events[-1], events[0]) == -whole
    assert elapsed(rig, events[0], events[0]) == 0


@case(rules=["HAL-EVT-063"], needs=NEEDS)
def test_the_time_agrees_with_the_clock(rig: Rig) -> None:
    """Two events lie between two readings of the clock, in the same unit."""
    kernel = rig.program(programs.slow(), "slow")
    stream, memory = rig.stream(), rig.numbers([1])
    before, domain = clock(rig)
    start = stamped(rig, stream)
    rig.launch(stream, kernel, rig.symbol(60_000), rig.buffer(memory, 4))
    end = stamped(rig, stream)
    after, _ = clock(rig)
    took = elapsed(rig, start, end)
    assert domain in (1, 2)
    assert 0 < took <= after - before
    assert took * 200 >= after - before


@case(rules=["HAL-EVT-064"], negative=True, needs=NEEDS)
@pytest.mark.parametrize("handle", ["zero", "invented", "destroyed", "a stream's"])
def test_elapsed_refuses_an_event_that_is_none(rig: Rig, handle: str) -> None:
    good, out = stamped(rig, rig.stream()), rig.raw.out("int64_t")
    bad = rig.no_event(handle)
    rig.refuse("event.elapsed_ns", good, bad, out, status=Status.INVALID_HANDLE)
    rig.refuse("event.elapsed_ns", bad, good, out, status=Status.INVALID_HANDLE)
