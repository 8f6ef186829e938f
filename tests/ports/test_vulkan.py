"""The port of Vulkan devices: load reasons, transfers, long launches, faults.

They need the software device of Mesa, and fail without one.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hal
from hal.testing import programs

LIBRARY = Path(hal.__file__).parent / "_lib/hal_port_vulkan.so"
OPEN = "import hal; hal.load_port('vulkan', options={'device': DEVICE} if DEVICE else None)"


def lavapipe() -> str:
    """Return the path of the software driver's file, or nothing."""
    found = sorted(Path("/usr/share/vulkan/icd.d").glob("lvp_icd*.json"))
    return str(found[0]) if found else ""


@pytest.fixture(autouse=True, scope="module")
def needs() -> None:
    """Say what to install where something is missing; a test that cannot run has failed."""
    assert LIBRARY.exists(), "the port is not built: apt-get install libvulkan-dev glslang-tools"
    assert lavapipe(), "no software device: apt-get install libvulkan1 mesa-vulkan-drivers"


def attempt(drivers: str, device: str = "") -> str:
    """Return what is said when the port is loaded with these drivers: stderr of a process."""
    run = subprocess.run(
        [sys.executable, "-c", f"DEVICE = {device!r}\n{OPEN}"],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "VK_ICD_FILENAMES": drivers, "VK_DRIVER_FILES": drivers},
    )
    return run.stderr


@pytest.fixture(scope="module")
def device() -> hal.Device:
    return hal.load_port("vulkan").device(0)


@pytest.mark.parametrize("text", ["", "garbage", "{}", '{"ICD": {"library_path": "/no/such.so"}}'])
def test_a_file_that_names_no_driver_is_a_clear_reason(tmp_path: Path, text: str) -> None:
    path = tmp_path / "icd.json"
    path.write_text(text, encoding="utf-8")
    assert "no Vulkan driver starts here" in attempt(str(path))


def test_a_driver_of_another_kind_of_file_is_a_clear_reason(tmp_path: Path) -> None:
    library, path = tmp_path / "driver.so", tmp_path / "icd.json"
    library.write_bytes(b"\x7fELF" + bytes(60))
    body = {
        "file_format_version": "1.0.0",
        "ICD": {"library_path": str(library), "api_version": "1.3.0"},
    }
    path.write_text(json.dumps(body), encoding="utf-8")
    assert "no Vulkan driver starts here" in attempt(str(path))


def test_a_device_that_is_not_there_is_named_with_what_is() -> None:
    said = attempt(lavapipe(), "no such device")
    assert "no vulkan device: llvmpipe" in said
    assert "the option device= names another" in said


def test_a_device_can_be_chosen_by_number_and_by_name() -> None:
    assert [attempt(lavapipe(), name) for name in ("0", "llvmpipe")] == ["", ""]


def test_a_long_launch_goes_on_in_further_dispatches(device: hal.Device) -> None:
    """100,000 turns are more than a shader of the software device makes in one dispatch."""
    with device.stream() as stream:
        memory = device.array(np.array([9], np.int32))
        device.load(programs.slow())["slow"].launch(stream, 100_000, memory)
        stream.synchronize()
        assert int(memory.numpy().view(np.uint32)[0]) == programs.after_loop(9, 100_000)


@pytest.mark.parametrize("pattern", [1, 2, 4, 8])
@pytest.mark.parametrize("offset", [0, 1, 3, 4])
def test_a_fill_reaches_every_byte_and_no_other(
    device: hal.Device, pattern: int, offset: int
) -> None:
    bytes_ = bytes(range(1, pattern + 1))
    with device.stream() as stream:
        memory, back = device.alloc(64, zero=True), np.ones(64, np.uint8)
        stream.fill(memory[offset : offset + 5 * pattern], bytes_)
        stream.copy(back, memory)
        stream.synchronize()
        expected = np.zeros(64, np.uint8)
        expected[offset : offset + 5 * pattern] = np.frombuffer(bytes_ * 5, np.uint8)
        assert back.tolist() == expected.tolist()


def test_copies_within_a_buffer_may_overlap(device: hal.Device) -> None:
    with device.stream() as stream:
        memory = device.alloc(64)
        stream.copy(memory, np.arange(64, dtype=np.uint8))
        stream.copy(memory[8:40], memory[0:32])
        back = np.zeros(64, np.uint8)
        stream.copy(back, memory)
        stream.synchronize()
        whole = list(range(64))
        assert back.tolist() == whole[:8] + whole[:32] + whole[40:]


def test_a_fault_names_program_instruction_and_element(device: hal.Device) -> None:
    with device.stream() as stream:
        source, target = (device.array(np.array([1], np.int32)) for _ in range(2))
        device.load(programs.outside())["outside"].launch(stream, 1 << 40, source, target)
        with pytest.raises(
            hal.errors.HalError, match=r"program p, instruction 0 \(load\): element"
        ):
            stream.synchronize()


def test_large_tiles_of_slow_functions_stay_within_what_a_dispatch_may_do(
    device: hal.Device,
) -> None:
    @hal.kernel
    def body(x: Any) -> Any:
        return hal.softmax(hal.tanh(x) + hal.erf(x), axis=-1)

    values = np.random.default_rng(7).standard_normal((130, 515)).astype(np.float32)
    got = body(device.array(values)).numpy()
    exact = np.tanh(values.astype(np.float64)) + np.vectorize(math.erf)(values)
    powers = np.exp(exact - exact.max(axis=1, keepdims=True))
    wanted = powers / powers.sum(axis=1, keepdims=True)
    assert float(np.abs(got / wanted - 1).max()) < 1e-5
