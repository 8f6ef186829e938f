"""Time: what elapsed_ns and the profile functions refuse, and what they tell."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from hal.testing import Rig, Status, case, programs
from hal.testing.abi import Clock, EventFlag, Profile
from hal.testing.rig import LONG_NS

KINDS = [Profile.LAUNCH, Profile.COPY, Profile.FILL]
ALL = sum(1 << (int(kind) - 1) for kind in KINDS)
BYTES = 65536


def bit(kind: Profile) -> int:
    """Return the bit of a mask that asks for records of a kind."""
    return 1 << (int(kind) - 1)


class Work:
    """Operations of each kind on one stream, in small numbers."""

    def __init__(self, rig: Rig) -> None:
        self.rig, self.stream = rig, rig.stream()
        self.memory, self.other = rig.memory(BYTES), rig.memory(BYTES)
        kernel = rig.program(programs.add_one(), "add_one")
        x, y = rig.numbers([1] * 64), rig.numbers([0] * 64)
        arguments = rig.symbol(64), rig.buffer(x, 256), rig.buffer(y, 256)
        self._launch = kernel, arguments

    def do(self, kind: Profile) -> None:
        """Enqueue one operation of a kind."""
        if kind == Profile.LAUNCH:
            kernel, arguments = self._launch
            self.rig.launch(self.stream, kernel, *arguments)
        elif kind == Profile.COPY:
            self.rig.copy(self.stream, self.memory, self.other, BYTES)
        else:
            ref = self.rig.raw.ref(self.memory, 0, BYTES)
            self.rig.raw.ok("transfer.fill", self.stream, ref, b"\x11", 1)

    def wait(self) -> None:
        """Wait for all of it."""
        self.rig.wait(self.stream)


class Reading(NamedTuple):
    """What `profile.clock` told."""

    device_ns: int
    host_ns: int
    uncertainty_ns: int
    domain: int


def clock(rig: Rig) -> Reading:
    """Return the two clocks, read together."""
    mark = rig.raw.mark()
    out = rig.raw.out("hal_clock")
    rig.raw.ok("profile.clock", rig.device, out)
    found = Reading(*(int(getattr(out, name)) for name in Reading._fields))
    rig.raw.forget(mark)
    return found


def drain(rig: Rig, capacity: int = 64) -> tuple[list[Any], int]:
    """Return the records moved out and how many were lost."""
    raw = rig.raw
    records = raw.ffi.new("hal_profile_record[]", max(capacity, 1))
    count, dropped = raw.out("uint64_t"), raw.out("uint64_t")
    given = records if capacity else raw.NULL
    raw.ok("profile.drain", rig.device, capacity, given, count, dropped)
    assert int(count[0]) <= capacity, "more records than there is room for"
    return [records[index] for index in range(int(count[0]))], int(dropped[0])


@pytest.fixture
def recording(rig: Rig) -> Iterator[Rig]:
    """Keep records of every kind during the case."""
    rig.raw.ok("profile.start", rig.device, ALL)
    yield rig
    rig.raw.call("profile.stop", rig.device)


def timed(rig: Rig) -> int:
    """Return a new event that keeps the time of its record."""
    return rig.event(EventFlag.TIMING)


def recorded(rig: Rig) -> int:
    """Return an event with TIMING that is complete."""
    stream, event = rig.stream(), timed(rig)
    rig.raw.ok("event.record", event, stream)
    rig.wait(stream)
    return event


# ---- elapsed_ns ----


@case(rules=["HAL-EVT-060"], negative=True)
def test_elapsed_needs_an_output(layer: Rig) -> None:
    first, second = recorded(layer), recorded(layer)
    null = layer.raw.NULL
    layer.refuse("event.elapsed_ns", first, second, null, status=Status.INVALID_VALUE)


@case(rules=["HAL-EVT-061"], negative=True)
@pytest.mark.parametrize("side", ["start", "end"])
@pytest.mark.parametrize("kind", ["without timing", "never recorded", "signalled by the host"])
def test_elapsed_refuses_an_event_without_a_time(rig: Rig, kind: str, side: str) -> None:
    stream = rig.stream()
    if kind == "without timing":
        wrong = rig.event()
        rig.raw.ok("event.record", wrong, stream)
        rig.wait(stream)
    elif kind == "never recorded":
        wrong = timed(rig)
    else:
        wrong = rig.event(EventFlag.HOST)
        rig.raw.ok("event.signal", wrong, 0)
    good = recorded(rig)
    pair = (wrong, good) if side == "start" else (good, wrong)
    out = rig.raw.out("int64_t")
    rig.refuse("event.elapsed_ns", *pair, out, status=Status.INVALID_STATE)


@case(rules=["HAL-EVT-062"], negative=True)
@pytest.mark.parametrize("side", ["start", "end"])
def test_elapsed_is_not_ready_before_its_event_is_complete(rig: Rig, side: str) -> None:
    good, late, stream = recorded(rig), timed(rig), rig.stream()
    pair = (late, good) if side == "start" else (good, late)
    with rig.held(stream):
        rig.raw.ok("event.record", late, stream)
        out = rig.raw.out("int64_t")
        rig.refuse("event.elapsed_ns", *pair, out, status=Status.NOT_READY)
    rig.wait(stream)
    rig.raw.ok("event.elapsed_ns", *pair, rig.raw.out("int64_t"))


@case(rules=["HAL-EVT-064"], negative=True)
@pytest.mark.parametrize("side", ["start", "end"])
@pytest.mark.parametrize("kind", ["zero", "invented", "destroyed", "a stream's"])
def test_elapsed_refuses_what_is_no_event(rig: Rig, kind: str, side: str) -> None:
    good, wrong = recorded(rig), rig.no_event(kind)
    pair = (wrong, good) if side == "start" else (good, wrong)
    out = rig.raw.out("int64_t")
    rig.refuse("event.elapsed_ns", *pair, out, status=Status.INVALID_HANDLE)


@case(rules=["HAL-EVT-063"])
def test_no_time_lies_between_an_event_and_itself(rig: Rig) -> None:
    event, out = recorded(rig), rig.raw.out("int64_t")
    rig.raw.ok("event.elapsed_ns", event, event, out)
    assert int(out[0]) == 0


@case(rules=["HAL-EVT-063"])
def test_times_add_up_and_never_run_backwards(rig: Rig) -> None:
    work = Work(rig)
    events = []
    for _ in range(6):
        events.append(timed(rig))
        rig.raw.ok("event.record", events[-1], work.stream)
        work.do(Profile.COPY)
    work.wait()

    def between(start: int, end: int) -> int:
        out = rig.raw.out("int64_t")
        rig.raw.ok("event.elapsed_ns", start, end, out)
        return int(out[0])

    steps = [between(a, b) for a, b in itertools.pairwise(events)]
    assert [step for step in steps if step < 0] == []
    assert between(events[0], events[-1]) == sum(steps)
    assert between(events[-1], events[0]) == -sum(steps)


@case(rules=["HAL-EVT-063"])
def test_elapsed_agrees_with_the_profiles_clock(rig: Rig) -> None:
    work = Work(rig)
    rig.raw.ok("profile.start", rig.device, ALL)
    before = clock(rig)
    start, end = timed(rig), timed(rig)
    rig.raw.ok("event.record", start, work.stream)
    for _ in range(5):
        work.do(Profile.FILL)
    rig.raw.ok("event.record", end, work.stream)
    work.wait()
    after = clock(rig)
    rig.raw.ok("profile.stop", rig.device)
    out = rig.raw.out("int64_t")
    rig.raw.ok("event.elapsed_ns", start, end, out)
    records, _ = drain(rig)
    busy = sum(int(r.end_ns - r.begin_ns) for r in records)
    assert busy > 0, "five fills took no time at all"
    slack = before.uncertainty_ns + after.uncertainty_ns
    assert busy <= int(out[0]) <= after.device_ns - before.device_ns + slack


# ---- clock ----


@case(rules=["HAL-PRF-001"], negative=True)
def test_clock_needs_an_output(layer: Rig) -> None:
    null = layer.raw.NULL
    layer.refuse("profile.clock", layer.device, null, status=Status.INVALID_VALUE)


@case(rules=["HAL-PRF-002"], negative=True)
@pytest.mark.parametrize("size", [0, 8, 32])
def test_clock_refuses_an_output_that_is_too_small(layer: Rig, size: int) -> None:
    out = layer.raw.out("hal_clock", size=size)
    layer.refuse("profile.clock", layer.device, out, status=Status.INVALID_VALUE)


@case(rules=["HAL-PRF-003"], negative=True)
@pytest.mark.parametrize("kind", ["zero", "invented", "closed", "a stream's"])
def test_clock_refuses_what_is_no_device(rig: Rig, kind: str) -> None:
    out = rig.raw.out("hal_clock")
    rig.refuse("profile.clock", rig.no_device(kind), out, status=Status.INVALID_HANDLE)


@case(rules=["HAL-PRF-004"])
def test_the_clock_never_runs_backwards(rig: Rig) -> None:
    work = Work(rig)
    last = clock(rig)
    assert last.domain in (int(Clock.REAL), int(Clock.VIRTUAL))
    for kind in KINDS * 3:
        work.do(kind)
        work.wait()
        now = clock(rig)
        assert now.device_ns >= last.device_ns
        assert now.host_ns >= last.host_ns
        assert now.domain == last.domain
        last = now


@case(rules=["HAL-PRF-004"])
def test_a_real_clock_keeps_pace_with_the_hosts(rig: Rig) -> None:
    first = clock(rig)
    work, last = Work(rig), first
    for _ in range(200_000):
        last = clock(rig)
        if last.host_ns - first.host_ns > 30_000_000 or first.domain != Clock.REAL:
            break
        work.do(Profile.FILL)
        work.wait()
    if first.domain == Clock.VIRTUAL:
        work.do(Profile.COPY)
        work.wait()
        assert clock(rig).device_ns > first.device_ns, "work takes virtual time"
        return
    host, device = last.host_ns - first.host_ns, last.device_ns - first.device_ns
    slack = first.uncertainty_ns + last.uncertainty_ns
    assert host / 2 - slack <= device <= 2 * host + slack


# ---- start and stop ----


@case(rules=["HAL-PRF-010"], negative=True)
@pytest.mark.parametrize("mask", [0, 16, 1 << 31, 31])
def test_start_refuses_a_mask_of_no_known_kind(layer: Rig, mask: int) -> None:
    layer.refuse("profile.start", layer.device, mask, status=Status.INVALID_VALUE)


@case(rules=["HAL-PRF-011"], negative=True)
def test_a_second_start_is_refused(recording: Rig) -> None:
    recording.refuse("profile.start", recording.device, ALL, status=Status.INVALID_STATE)


@case(rules=["HAL-PRF-020"], negative=True)
@pytest.mark.parametrize("before", ["nothing", "a stop"])
def test_a_stop_without_a_start_is_refused(rig: Rig, before: str) -> None:
    if before == "a stop":
        rig.raw.ok("profile.start", rig.device, ALL)
        rig.raw.ok("profile.stop", rig.device)
    rig.refuse("profile.stop", rig.device, status=Status.INVALID_STATE)


@case(rules=["HAL-PRF-012", "HAL-PRF-031"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name.lower())
def test_work_after_start_gives_a_record(recording: Rig, kind: Profile) -> None:
    work = Work(recording)
    drain(recording)
    work.do(kind)
    work.wait()
    records, dropped = drain(recording)
    kinds = [(int(r.kind), int(r.stream)) for r in records]
    assert (kinds, dropped) == ([(int(kind), work.stream)], 0)


@case(rules=["HAL-PRF-012"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name.lower())
def test_only_the_kinds_of_the_mask_give_records(rig: Rig, kind: Profile) -> None:
    work = Work(rig)
    rig.raw.ok("profile.start", rig.device, bit(kind))
    for each in KINDS:
        work.do(each)
    work.wait()
    rig.raw.ok("profile.stop", rig.device)
    records, _ = drain(rig)
    assert [int(r.kind) for r in records] == [int(kind)]


@case(rules=["HAL-PRF-021", "HAL-PRF-012"])
def test_work_before_start_and_after_stop_gives_no_record(rig: Rig) -> None:
    work = Work(rig)
    work.do(Profile.COPY)
    work.wait()
    rig.raw.ok("profile.start", rig.device, ALL)
    work.do(Profile.FILL)
    work.wait()
    rig.raw.ok("profile.stop", rig.device)
    work.do(Profile.LAUNCH)
    work.wait()
    records, _ = drain(rig)
    assert [int(r.kind) for r in records] == [int(Profile.FILL)]


@case(rules=["HAL-PRF-012", "HAL-PRF-021"])
def test_profiling_can_start_again(rig: Rig) -> None:
    work = Work(rig)
    for _ in range(3):
        rig.raw.ok("profile.start", rig.device, ALL)
        work.do(Profile.COPY)
        work.wait()
        rig.raw.ok("profile.stop", rig.device)
        assert len(drain(rig)[0]) == 1


# ---- drain ----


@case(rules=["HAL-PRF-030"], negative=True)
@pytest.mark.parametrize("missing", ["records", "count", "dropped"])
def test_drain_needs_its_outputs(layer: Rig, missing: str) -> None:
    raw = layer.raw
    records = raw.ffi.new("hal_profile_record[4]")
    outs: dict[str, Any] = {"records": records, "count": raw.out("uint64_t")}
    outs["dropped"] = raw.out("uint64_t")
    outs[missing] = raw.NULL
    layer.refuse("profile.drain", layer.device, 4, *outs.values(), status=Status.INVALID_VALUE)


@case(rules=["HAL-PRF-032"], negative=True)
@pytest.mark.parametrize("kind", ["zero", "invented", "closed", "a stream's"])
def test_drain_refuses_what_is_no_device(rig: Rig, kind: str) -> None:
    raw = rig.raw
    records, count = raw.ffi.new("hal_profile_record[4]"), raw.out("uint64_t")
    outs = records, count, raw.out("uint64_t")
    device = rig.no_device(kind)
    rig.refuse("profile.drain", device, 4, *outs, status=Status.INVALID_HANDLE)


@case(rules=["HAL-PRF-031"])
def test_each_operation_gives_one_record_with_its_number(recording: Rig) -> None:
    work = Work(recording)
    drain(recording)
    order = KINDS * 4
    for kind in order:
        work.do(kind)
    work.wait()
    records, dropped = drain(recording)
    assert [int(r.kind) for r in records] == [int(kind) for kind in order]
    assert [int(r.operation_id) for r in records] == list(range(1, len(order) + 1))
    assert {int(r.stream) for r in records} == {work.stream}
    assert [r for r in records if r.end_ns < r.begin_ns] == []
    starts = [int(r.begin_ns) for r in records]
    assert starts == sorted(starts)
    ends = [int(r.end_ns) for r in records[:-1]]
    late = [1 for end, start in zip(ends, starts[1:], strict=True) if start < end]
    assert (late, dropped) == ([], 0)


@case(rules=["HAL-PRF-031"])
def test_records_lie_between_two_readings_of_the_clock(recording: Rig) -> None:
    work = Work(recording)
    drain(recording)
    before = clock(recording)
    for kind in KINDS:
        work.do(kind)
    work.wait()
    after = clock(recording)
    records, _ = drain(recording)
    slack = before.uncertainty_ns + after.uncertainty_ns
    early = [r for r in records if int(r.begin_ns) < before.device_ns - slack]
    late = [r for r in records if int(r.end_ns) > after.device_ns + slack]
    assert (len(records), early, late) == (3, [], [])


@case(rules=["HAL-PRF-031"])
def test_drain_leaves_what_has_no_room(recording: Rig) -> None:
    work = Work(recording)
    drain(recording)
    for _ in range(5):
        work.do(Profile.FILL)
    work.wait()
    found = []
    for capacity in (0, 2, 2, 2, 2):
        records, dropped = drain(recording, capacity)
        found.append(([int(r.operation_id) for r in records], dropped))
    assert found == [([], 0), ([1, 2], 0), ([3, 4], 0), ([5], 0), ([], 0)]


@case(rules=["HAL-PRF-031"])
def test_two_streams_have_numbers_of_their_own(recording: Rig) -> None:
    first, second = Work(recording), Work(recording)
    drain(recording)
    for _ in range(3):
        first.do(Profile.COPY)
        second.do(Profile.FILL)
    first.wait()
    second.wait()
    records, _ = drain(recording)
    for work, kind in ((first, Profile.COPY), (second, Profile.FILL)):
        own = [r for r in records if int(r.stream) == work.stream]
        assert [int(r.operation_id) for r in own] == [1, 2, 3]
        assert {int(r.kind) for r in own} == {int(kind)}


@case(rules=["HAL-PRF-031"])
def test_unfinished_work_gives_no_record(recording: Rig) -> None:
    work = Work(recording)
    drain(recording)
    with recording.held(work.stream):
        work.do(Profile.FILL)
        assert drain(recording) == ([], 0)
    work.wait()
    assert len(drain(recording)[0]) == 1


@case(rules=["HAL-EVT-063"])
def test_events_of_two_streams_share_one_clock(rig: Rig) -> None:
    first, second = rig.stream(), rig.stream()
    start, end, out = timed(rig), timed(rig), rig.raw.out("int64_t")
    rig.raw.ok("event.record", start, first)
    rig.raw.ok("stream.wait_event", second, start)
    rig.raw.ok("event.record", end, second)
    rig.raw.ok("stream.synchronize", second, LONG_NS)
    rig.raw.ok("event.elapsed_ns", start, end, out)
    assert int(out[0]) >= 0
