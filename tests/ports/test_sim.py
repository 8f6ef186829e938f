"""The simulated chip: any description becomes devices, with exact results and a virtual clock."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

import hal
from hal import dtypes
from hal.testing import raw
from hal.testing.target import find
from hal.vil.recipes import matmul

SYSTEM = "sim:sim/npu-small-x4"


@pytest.fixture
def system() -> Iterator[list[hal.Device]]:
    """The devices of four small chips in a ring."""
    port = hal.load_port(SYSTEM)
    devices = [port.device(index) for index in range(4)]
    yield devices
    for device in devices:
        device.close()


def time_of_matmul(chip: str, size: int) -> int:
    """Virtual nanoseconds of one product of two size x size matrices on a chip."""
    with hal.open(f"sim:{chip}") as device:
        kernel = device.load(matmul(dtypes.f32, dtypes.f32, dtypes.f32))["main"]
        matrices = [device.empty((size, size), np.float32) for _ in range(3)]
        stream, start, end = device.stream(), device.event(timing=True), device.event(timing=True)
        stream.record(start)
        kernel.launch(stream, size, size, size, *matrices)
        stream.record(end)
        stream.synchronize()
        return start.elapsed_ns(end)


def test_the_port_refuses_to_start_without_a_description() -> None:
    target = replace(find("sim"), hcd_text="", hcd_name="")
    with pytest.raises(raw.PortRefused, match="needs the chip's description"):
        raw.open(target)


def test_a_description_without_a_bandwidth_is_refused_by_its_key() -> None:
    target = find("sim:sim/npu-small")
    text = "".join(
        line
        for line in target.hcd_text.splitlines(keepends=True)
        if not line.startswith("memory.dram.bandwidth")
    )
    with pytest.raises(raw.PortRefused, match=r"lacks memory\.dram\.bandwidth_bytes_per_s"):
        raw.open(replace(target, hcd_text=text))


def test_a_system_gives_one_device_for_each_of_its_chips(system: list[hal.Device]) -> None:
    assert [device.hcd.name for device in system] == ["sim/npu-small"] * 4


def test_virtual_time_repeats_to_the_nanosecond() -> None:
    assert time_of_matmul("sim/npu-small", 64) == time_of_matmul("sim/npu-small", 64)


def test_more_work_takes_more_virtual_time() -> None:
    assert time_of_matmul("sim/npu-small", 128) > time_of_matmul("sim/npu-small", 32)


def test_a_copy_takes_its_setup_and_its_bytes_at_the_bus_rate() -> None:
    with hal.open("sim:sim/npu-small") as device:
        size = 1 << 20
        buffer, stream = device.alloc(size), device.stream()
        start, end = device.event(timing=True), device.event(timing=True)
        stream.record(start)
        stream.copy(buffer, np.zeros(size, np.uint8))
        stream.record(end)
        stream.synchronize()
        setup = int(device.hcd.get("overheads.copy_setup_ns"))
        rate = int(device.hcd.get("memory.host.bandwidth_bytes_per_s"))
        assert start.elapsed_ns(end) == int(setup + size * 1e9 / rate)


def test_a_wait_carries_the_virtual_time_of_the_other_stream() -> None:
    with hal.open("sim:sim/npu-small") as device:
        buffer = device.alloc(1 << 20)
        first, second = device.stream(), device.stream()
        done, after = device.event(timing=True), device.event(timing=True)
        first.fill(buffer, 0, "u8")
        first.record(done)
        second.wait(done)
        second.record(after)
        second.synchronize()
        assert done.elapsed_ns(after) == 0


def test_peer_copies_cross_the_links_between_chips(system: list[hal.Device]) -> None:
    numbers = np.arange(1000, dtype=np.float32)
    source = system[0].array(numbers)
    near, far = system[1].empty(1000, np.float32), system[2].empty(1000, np.float32)
    for target in (near, far):
        stream = target.device.stream()
        stream.copy_peer(target, source)
        stream.synchronize()
    assert near.numpy().tolist() == numbers.tolist()
    assert far.numpy().tolist() == numbers.tolist()


@pytest.mark.parametrize(("peer", "hops"), [(1, 1), (2, 2), (3, 1)])
def test_peer_info_follows_the_links(peer: int, hops: int) -> None:
    port = raw.open(find(SYSTEM))
    try:
        devices = [port.out("hal_device"), port.out("hal_device")]
        for index, out in zip((0, peer), devices, strict=True):
            assert port.call("device.open", index, out) == 0
        answers = []
        for key in (1, 2, 3):  # access, bandwidth, latency
            value = port.out("int64_t")
            assert port.call("device.peer_info", devices[0][0], devices[1][0], key, value) == 0
            answers.append(value[0])
        payload = 25_000_000_000 * 256 // (256 + 16)
        assert answers == [1, payload, 500 * hops]
    finally:
        port.close()
