"""The port of this machine: what its options and its overlay say, and large launches."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest

import hal
from hal import dtypes
from hal.errors import Unsupported
from hal.testing import raw
from hal.testing.target import find
from hal.vil.recipes import matmul


def test_the_overlay_says_what_was_read_from_the_machine() -> None:
    with hal.open("cpu") as device:
        assert device.hcd.get("units.core.count") == len(os.sched_getaffinity(0))
        assert device.hcd.get("memory.dram.capacity_bytes") == device.info().memory.total_bytes


def test_the_port_starts_without_a_description() -> None:
    port = raw.open(replace(find("cpu"), hcd_text="", hcd_name=""))
    try:
        count = port.out("uint32_t")
        assert port.call("port.device_count", count) == 0
        assert count[0] == 1
    finally:
        port.close()


def test_fenced_memory_shows_no_address() -> None:
    port = hal.load_port("cpu", options={"fence": "1"})
    with port.device(0) as device:
        assert device.hcd.get("features.native_handles") is False
        array = device.array(np.arange(10, dtype=np.int32))
        assert array.numpy().tolist() == list(range(10))
        with pytest.raises(Unsupported):
            np.from_dlpack(array)


@pytest.mark.parametrize("threads", ["1", "3"])
def test_a_large_launch_gives_the_same_bits_on_any_number_of_threads(threads: str) -> None:
    size = 160
    left = np.arange(size * size, dtype=np.float32).reshape(size, size) % 7 - 3
    port = hal.load_port("cpu", options={"threads": threads})
    with port.device(0) as device:
        kernel = device.load(matmul(dtypes.f32, dtypes.f32, dtypes.f32))["main"]
        source, target = device.array(left), device.empty((size, size), np.float32)
        stream = device.stream()
        kernel.launch(stream, size, size, size, source, source, target)
        stream.synchronize()
        assert np.array_equal(target.numpy(), left @ left)
