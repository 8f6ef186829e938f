"""Streams, events and host calls: order, waiting, failure."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import hal
from hal import errors


def test_a_new_stream_is_idle(stream: hal.Stream) -> None:
    assert stream.query() is True
    stream.synchronize(timeout_s=0.0)


def test_work_behind_an_unsignalled_event_is_not_done(
    device: hal.Device, stream: hal.Stream, gate: hal.Event
) -> None:
    stream.fill(device.alloc(64), b"\1")
    assert stream.query() is False
    gate.signal()
    stream.synchronize(timeout_s=10)
    assert stream.query() is True


def test_a_timeout_names_the_time_and_the_stream_goes_on(
    device: hal.Device, stream: hal.Stream, gate: hal.Event
) -> None:
    stream.fill(device.alloc(64), b"\1")
    with pytest.raises(errors.Timeout, match=r"still running after 0\.001 s") as caught:
        stream.synchronize(timeout_s=0.001)
    assert (caught.value.call, caught.value.device) == ("stream.synchronize", device.name)
    gate.signal()
    stream.synchronize(timeout_s=10)


@pytest.mark.parametrize("time", ["soon", float("nan"), [1]], ids=str)
def test_a_time_that_is_no_number_of_seconds_is_refused(stream: hal.Stream, time: object) -> None:
    with pytest.raises(errors.UsageError, match="is no time in seconds"):
        stream.synchronize(time)  # type: ignore[arg-type]


def test_a_time_may_be_endless_or_below_zero(stream: hal.Stream) -> None:
    for time in (None, float("inf"), -1.0, 1e30):
        stream.synchronize(time)


def test_an_event_orders_two_streams(device: hal.Device, stream: hal.Stream) -> None:
    other, event, buffer = device.stream(), device.event(), device.alloc(4)
    held = device.event(host=True)
    out = np.zeros(4, np.uint8)
    stream.wait(held)
    stream.fill(buffer, b"\3")
    stream.record(event)
    other.wait(event)
    other.copy(out, buffer)
    assert (event.query(), other.query()) == (False, False)
    held.signal()
    other.synchronize(timeout_s=10)
    assert out.tolist() == [3, 3, 3, 3]
    assert event.query() is True


def test_a_failed_event_fails_the_stream_that_waits_and_no_other(
    device: hal.Device, stream: hal.Stream
) -> None:
    event, other = device.event(host=True), device.stream()
    stream.wait(event)
    event.signal(errors.ExecutionFailed.status)
    with pytest.raises(errors.ExecutionFailed):
        stream.synchronize(timeout_s=10)
    with pytest.raises(errors.ExecutionFailed):
        stream.fill(device.alloc(4), b"\1")
    other.fill(device.alloc(4), b"\1")
    other.synchronize(timeout_s=10)


def test_a_host_event_is_signalled_once(device: hal.Device) -> None:
    event = device.event(host=True)
    event.signal()
    with pytest.raises(errors.InvalidState, match=r"event\.signal"):
        event.signal()


def test_a_host_event_is_not_recorded(device: hal.Device, stream: hal.Stream) -> None:
    with pytest.raises(errors.InvalidState, match=r"event\.record"):
        stream.record(device.event(host=True))


def test_events_measure_time_on_the_device(device: hal.Device, stream: hal.Stream) -> None:
    first, last = device.event(timing=True), device.event(timing=True)
    stream.record(first)
    stream.fill(device.alloc(1 << 16), b"\1")
    stream.record(last)
    stream.synchronize(timeout_s=10)
    assert first.elapsed_ns(last) >= 0
    assert last.elapsed_ns(first) == -first.elapsed_ns(last)


def test_an_event_without_timing_measures_nothing(device: hal.Device, stream: hal.Stream) -> None:
    first, last = device.event(), device.event()
    stream.record(first)
    stream.record(last)
    stream.synchronize(timeout_s=10)
    with pytest.raises(errors.InvalidState, match=r"event\.elapsed_ns"):
        first.elapsed_ns(last)


def test_a_host_call_runs_once_in_order(device: hal.Device, stream: hal.Stream) -> None:
    buffer, out, seen = device.alloc(4), np.zeros(4, np.uint8), []
    stream.fill(buffer, b"\1")
    stream.copy(out, buffer)
    stream.host_call(lambda: seen.append((out.tolist(), threading.get_ident())))
    stream.synchronize(timeout_s=10)
    assert [values for values, _ in seen] == [[1, 1, 1, 1]]
    assert seen[0][1] != threading.get_ident()


def test_what_a_host_call_raises_comes_out_of_synchronize(stream: hal.Stream) -> None:
    def fail() -> None:
        raise KeyError("lost")

    stream.host_call(fail)
    with pytest.raises(errors.ExecutionFailed, match="a host call raised KeyError: 'lost'"):
        stream.synchronize(timeout_s=10)
    stream.synchronize(timeout_s=10)


def test_a_host_call_needs_a_function(stream: hal.Stream) -> None:
    with pytest.raises(errors.UsageError, match="int cannot be called"):
        stream.host_call(3)  # type: ignore[arg-type]


def test_a_stream_takes_only_events(stream: hal.Stream) -> None:
    for use in (stream.record, stream.wait):
        with pytest.raises(errors.UsageError, match="the event is int"):
            use(3)  # type: ignore[arg-type]


def test_memory_of_another_device_is_refused_with_both_names() -> None:
    with hal.open("cpu") as one, hal.open("sim") as two:
        stream, mine, foreign = two.stream(), two.alloc(8), one.alloc(8)
        with pytest.raises(errors.InvalidHandle, match="is of cpu:0; the stream is of sim:0"):
            stream.copy(mine, foreign)


def test_a_copy_between_two_ports_keeps_the_order_of_both() -> None:
    with hal.open("cpu") as one, hal.open("sim") as two:
        first, second = one.stream(), two.stream()
        source, target = one.array(np.arange(64, dtype=np.int32)), two.empty(64, "i32")
        second.copy_peer(target, source, source_stream=first)
        assert target.numpy(stream=second).tolist() == list(range(64))


def test_a_copy_between_two_ports_needs_both_streams() -> None:
    with hal.open("cpu") as one, hal.open("sim") as two:
        stream, mine, foreign = two.stream(), two.alloc(8), one.alloc(8)
        with pytest.raises(errors.InvalidValue, match="source_stream="):
            stream.copy_peer(mine, foreign)


def test_a_closed_stream_is_refused_and_its_work_finishes(
    device: hal.Device, stream: hal.Stream
) -> None:
    out = np.zeros(4, np.uint8)
    stream.copy(out, device.alloc(4, zero=True))
    stream.close()
    stream.close()
    with pytest.raises(errors.InvalidHandle, match="this stream was closed"):
        stream.query()
    device.synchronize(timeout_s=10)


def test_threads_use_streams_of_their_own(device: hal.Device) -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            stream, out = device.stream(), np.zeros(256, np.uint8)
            for _ in range(20):
                buffer = device.alloc(256)
                stream.fill(buffer, bytes([number]))
                stream.copy(out, buffer)
                stream.synchronize(timeout_s=30)
                assert set(out.tolist()) == {number}
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
