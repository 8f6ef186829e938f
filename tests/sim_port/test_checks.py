"""Checks that real chips do not make, and faults that a test can ask for."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

import hal
from hal import dtypes
from hal.vil.recipes import elementwise

SIZE = 1024
NEGATION = elementwise("un", "neg", [dtypes.f32], dtypes.f32, tile=(8, 64))


@contextmanager
def device(chip: str = "sim:sim/npu-small", **options: object) -> Iterator[hal.Device]:
    """A simulated device with options of the port."""
    port = hal.load_port(chip, options={key: str(value) for key, value in options.items()})
    with port.device(0) as opened:
        yield opened
    port.close()


@pytest.fixture(autouse=True)
def _no_collection() -> Iterator[None]:
    """A device that is collected in between waits, and what the host waited for is ordered."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def negate(dev: hal.Device, stream: hal.Stream, x: object, y: object) -> None:
    """Enqueue Y = −X."""
    dev.load(NEGATION)["main"].launch(stream, 16, 64, x, y)


def test_a_kernel_that_reads_what_nobody_wrote_is_named() -> None:
    with device(checks="uninitialised") as dev:
        x, y = dev.alloc(4 * SIZE), dev.alloc(4 * SIZE)
        stream = dev.stream()
        negate(dev, stream, x, y)
        with pytest.raises(
            hal.errors.ExecutionFailed,
            match=r"program main: instruction \d+ \(load\): parameter X0: uninitialised: it reads "
            r"byte 0 of a buffer of 4096 bytes",
        ):
            stream.synchronize()


def test_the_last_byte_that_nobody_wrote_is_found() -> None:
    with device(checks="uninitialised") as dev:
        x, y = dev.alloc(4 * SIZE), dev.alloc(4 * SIZE)
        stream = dev.stream()
        stream.copy(x[0 : 4 * SIZE - 4], np.zeros(SIZE - 1, np.float32))
        negate(dev, stream, x, y)
        with pytest.raises(hal.errors.ExecutionFailed, match="byte 4092 of a buffer of 4096"):
            stream.synchronize()


def test_a_copy_out_of_fresh_memory_is_named() -> None:
    with device(checks="uninitialised") as dev:
        stream, target = dev.stream(), np.zeros(64, np.uint8)
        stream.copy(target, dev.alloc(64))
        with pytest.raises(hal.errors.ExecutionFailed, match="copy to host: uninitialised"):
            stream.synchronize()


def test_fresh_memory_of_zeros_is_written() -> None:
    with device(checks="uninitialised") as dev:
        stream, target = dev.stream(), np.ones(64, np.uint8)
        stream.copy(target, dev.alloc(64, zero=True))
        stream.synchronize()
    assert not target.any()


@pytest.mark.parametrize("order", ["none", "event", "host"])
@pytest.mark.parametrize("late", ["writer", "reader"])
def test_streams_that_share_a_buffer_need_an_order(order: str, late: str) -> None:
    """A write and a read of one buffer on two streams, in both orders of the calls."""
    with device(checks="race") as dev:
        x, y = dev.alloc(4 * SIZE), dev.alloc(4 * SIZE)
        one, other = dev.stream(), dev.stream()
        one.copy(x, np.zeros(SIZE, np.float32))
        one.synchronize()

        def write() -> None:
            one.copy(x, np.ones(SIZE, np.float32))

        def read() -> None:
            negate(dev, other, x, y)

        steps = [read, write] if late == "writer" else [write, read]
        streams = [other, one] if late == "writer" else [one, other]
        steps[0]()
        if order == "event":
            event = dev.event()
            streams[0].record(event)
            streams[1].wait(event)
        elif order == "host":
            streams[0].synchronize()
        steps[1]()
        if order == "none":
            with pytest.raises(hal.errors.ExecutionFailed, match=r"race: it .* another stream"):
                one.synchronize()
                other.synchronize()
        else:
            one.synchronize()
            other.synchronize()


@pytest.mark.parametrize("seen", ["each", "last"])
def test_streams_of_the_past_leave_room_for_others(seen: str) -> None:
    """Far more streams than are told apart at once; the host waits for each, or for all of them."""
    with device(checks="race") as dev:
        x, y = dev.alloc(4 * SIZE), dev.alloc(4 * SIZE)
        for turn in range(600):
            stream = dev.stream()
            stream.copy(x, np.zeros(SIZE, np.float32))
            if seen == "each" or turn % 200 == 199:
                dev.synchronize()
            else:
                x = dev.alloc(4 * SIZE)
            stream.close()
        dev.synchronize()
        one, other = dev.stream(), dev.stream()
        negate(dev, one, x, y)
        other.copy(x, np.ones(SIZE, np.float32))
        with pytest.raises(hal.errors.ExecutionFailed, match=r"race: it .* another stream"):
            one.synchronize()
            other.synchronize()


def test_more_streams_than_can_be_told_apart_are_named() -> None:
    with device(checks="race") as dev:
        streams = [dev.stream() for _ in range(257)]
        for stream in streams:
            stream.copy(dev.alloc(4 * SIZE), np.zeros(SIZE, np.float32))
        with pytest.raises(
            hal.errors.ExecutionFailed, match=r"race: the order of more than 256 streams"
        ):
            streams[-1].synchronize()


def test_two_streams_may_read_one_buffer() -> None:
    with device(checks="race") as dev:
        x = dev.array(np.zeros(SIZE, np.float32))
        streams = [dev.stream(), dev.stream()]
        for stream in streams:
            negate(dev, stream, x, dev.empty((SIZE,), np.float32))
        for stream in streams:
            stream.synchronize()


def test_streams_that_use_different_halves_need_no_order() -> None:
    with device(checks="race") as dev:
        x = dev.alloc(8 * SIZE)
        streams = [dev.stream(), dev.stream()]
        for half, stream in enumerate(streams):
            part = x[half * 4 * SIZE : (half + 1) * 4 * SIZE]
            stream.copy(part, np.zeros(SIZE, np.float32))
            negate(dev, stream, part, dev.empty((SIZE,), np.float32))
        for stream in streams:
            stream.synchronize()


def test_a_wait_for_an_event_that_nobody_signals_is_a_deadlock() -> None:
    with device(checks="deadlock", deadlock_s=0.05) as dev:
        stream, event = dev.stream(), dev.event(host=True)
        stream.wait(event)
        with pytest.raises(hal.errors.ExecutionFailed, match=r"deadlock: stream\.wait_event"):
            stream.synchronize()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("checks", "races"),
        ("functional", "no"),
        ("fault_kernel", "0"),
        ("fault_slow_link", "0.5"),
        ("fault_late_ns", "1.5"),
        ("deadlock_s", "soon"),
    ],
)
def test_an_option_that_is_wrong_is_refused_with_what_is_allowed(option: str, value: str) -> None:
    with (
        pytest.raises(hal.errors.HalError, match=rf"option {option}={value}; allowed: "),
        device(**{option: value}),
    ):
        pass


def test_allocations_fail_after_so_many() -> None:
    with device(fault_out_of_memory_after=2) as dev:
        kept = [dev.alloc(64), dev.alloc(64)]
        with pytest.raises(hal.errors.OutOfMemory, match="allocation 3 of 64 bytes fails"):
            dev.alloc(64)
    assert len(kept) == 2


def test_the_second_launch_fails_and_no_other() -> None:
    with device(fault_kernel=2) as dev:
        x, y = dev.array(np.zeros(SIZE, np.float32)), dev.empty((SIZE,), np.float32)
        for number in (1, 2, 3):
            stream = dev.stream()
            negate(dev, stream, x, y)
            if number == 2:
                with pytest.raises(hal.errors.ExecutionFailed, match="launch 2, kernel main"):
                    stream.synchronize()
            else:
                stream.synchronize()


def test_the_device_is_lost_after_so_many_operations() -> None:
    with device(fault_device_lost_after=1) as dev:
        stream, buffer = dev.stream(), dev.alloc(64)
        stream.fill(buffer, b"\x01")
        stream.synchronize()
        with pytest.raises(hal.errors.DeviceLost):
            stream.fill(buffer, b"\x02")
            stream.synchronize()


def fill_ns(**options: object) -> int:
    """Virtual time of one fill."""
    with device(**options) as dev:
        stream, buffer = dev.stream(), dev.alloc(64)
        start, end = dev.event(timing=True), dev.event(timing=True)
        stream.record(start)
        stream.fill(buffer, b"\x01")
        stream.record(end)
        stream.synchronize()
        return start.elapsed_ns(end)


def test_a_late_completion_is_late_by_what_was_asked_for() -> None:
    assert fill_ns(fault_late_ns=12345) == fill_ns() + 12345


def test_a_dead_rank_answers_no_copy() -> None:
    port = hal.load_port("sim:sim/npu-small-x4", options={"fault_dead_rank": "1"})
    devices = [port.device(index) for index in range(3)]
    buffers = [dev.alloc(64, zero=True) for dev in devices]
    alive, dead = devices[0].stream(), devices[0].stream()
    alive.copy_peer(buffers[2], buffers[0])
    alive.synchronize()
    dead.copy_peer(buffers[1], buffers[0])
    with pytest.raises(
        hal.errors.ExecutionFailed, match="from device 0 to device 1 gets no answer"
    ):
        dead.synchronize()
    for dev in devices:
        dev.close()
    port.close()
