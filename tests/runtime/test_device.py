"""Opening, asking and closing devices."""

from __future__ import annotations

import numpy as np
import pytest

import hal
from hal import errors


def test_a_device_knows_its_name_port_and_description(device: hal.Device) -> None:
    assert device.name == f"{device.port.name}:0"
    assert device.hcd.kind == "chip"
    assert device.memory_bytes > 0


@pytest.mark.parametrize("index", [1, 7, 4294967295])
def test_an_index_out_of_range_says_what_there_is(index: int) -> None:
    with pytest.raises(errors.OutOfRange, match="1 device, number 0") as caught:
        hal.open(f"cpu:{index}")
    assert f"there is no device {index}" in str(caught.value)


@pytest.mark.parametrize("index", [-1, 1.0, "0", None, True])
def test_an_index_that_is_no_number_from_0_is_refused(index: object) -> None:
    with pytest.raises((errors.UsageError, errors.OutOfRange)):
        hal.load_port("cpu").device(index)  # type: ignore[arg-type]


def test_two_openings_have_their_own_objects(device: hal.Device) -> None:
    with device.port.device(0) as other:
        buffer = other.alloc(64)
        with pytest.raises(errors.InvalidHandle, match="another opening of"):
            device.stream().fill(buffer, b"\0")


def test_closing_a_device_ends_what_was_made_on_it(device: hal.Device) -> None:
    buffer, stream, event = device.alloc(64), device.stream(), device.event()
    array = device.array(np.zeros(4, np.float32))
    device.close()
    for used in (
        lambda: buffer[0:1],
        buffer.free,
        stream.synchronize,
        event.query,
        array.numpy,
        lambda: device.alloc(1),
    ):
        with pytest.raises(errors.InvalidHandle, match="closed"):
            used()


def test_closing_a_device_twice_is_fine(device: hal.Device) -> None:
    device.close()
    device.close()
    assert not device.is_open


def test_a_device_that_was_closed_opens_again(device: hal.Device) -> None:
    device.close()
    with device.port.device(0) as again:
        assert again.alloc(16).bytes == 16


def test_synchronize_runs_out_of_time_and_the_device_goes_on(
    device: hal.Device, stream: hal.Stream, gate: hal.Event
) -> None:
    stream.fill(device.alloc(64), b"\1")
    with pytest.raises(errors.Timeout, match=r"still running after 0\.0 s"):
        device.synchronize(timeout_s=0.0)
    gate.signal()
    device.synchronize(timeout_s=10)


def test_closing_with_work_that_never_ends_says_so_and_leaves_the_device_open(
    device: hal.Device, stream: hal.Stream, gate: hal.Event
) -> None:
    stream.fill(device.alloc(64), b"\1")
    with pytest.raises(errors.Timeout, match=r"device\.close"):
        device.close(timeout_s=0.0)
    assert device.is_open
    gate.signal()


def test_figures_of_memory_follow_alloc_and_free(device: hal.Device) -> None:
    before = device.stats()
    buffer = device.alloc(4096)
    during = device.stats()
    buffer.free()
    device.synchronize()
    after = device.stats()
    assert during.in_use_bytes - before.in_use_bytes == 4096
    assert after.in_use_bytes == before.in_use_bytes
    assert after.peak_bytes >= during.in_use_bytes
    assert during.total_bytes == device.memory_bytes


def test_an_unknown_key_is_not_found(device: hal.Device) -> None:
    with pytest.raises(errors.NotFound, match=r"there is no number 'no\.such\.key'"):
        device.number("no.such.key")
    assert device.number("no.such.key", default=7) == 7


def test_info_tells_each_capability(device: hal.Device) -> None:
    info = device.info()
    assert set(info.capabilities.values()) <= {"native", "emulated", "none"}
    assert info.capabilities["memory.alloc"] == "native"
    assert info.hcd["sha256"] == device.hcd.sha256


def test_a_port_that_was_closed_refuses_and_can_be_loaded_again() -> None:
    port = hal.load_port("cpu", layers=("validate",))
    device = port.device(0)
    port.close()
    assert not device.is_open
    with pytest.raises(errors.HalError):
        port.device(0)
    again = hal.load_port("cpu", layers=("validate",))
    assert again.device(0).alloc(8).bytes == 8
    again.close()
