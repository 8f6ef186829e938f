"""What the port of Vulkan devices says when there is no loader, no driver, no device, or a bad one.

The loader is replaced by a library of ours (`vulkan_fake`) in a child process.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

BUILD = Path(__file__).with_name("vulkan_fake") / "build.py"


@pytest.fixture(scope="module")
def loader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with our libvulkan.so.1."""
    spec = importlib.util.spec_from_file_location("vulkan_fake_build", BUILD)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    folder: Path = module.build(tmp_path_factory.mktemp("vulkan"))
    return folder


HEAD = """
import ctypes, hal, numpy as np
from hal.testing import programs
def wrong(what):  # From now on; os.environ would not reach the fake at once.
    ctypes.CDLL(None).setenv(b"FAKE_VULKAN", what.encode(), 1)
def told(do):
    try:
        do()
        return "ok"
    except hal.errors.HalError as error:
        return f"{type(error).__name__}: {error}"
"""
OPEN = 'print(told(lambda: print("devices", hal.load_port("vulkan").device_count)))'


def run(code: str, folder: Path | None = None, **environment: str) -> list[str]:
    """The lines that a Python program prints; its errors are ours to see."""
    full = {k: v for k, v in os.environ.items() if not k.startswith(("HAL_VULKAN", "FAKE_"))}
    if folder is not None:
        full["LD_LIBRARY_PATH"] = str(folder)
    done = subprocess.run(
        [sys.executable, "-c", HEAD + code],
        env=full | environment,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().splitlines()


def test_a_file_that_is_no_library_is_no_loader(tmp_path: Path) -> None:
    (tmp_path / "libvulkan.so.1").write_text("no library\n" * 100)
    said = run(OPEN, tmp_path)[0]
    assert ("no Vulkan loader" in said, "apt-get install libvulkan1" in said) == (True, True)


def test_a_loader_without_the_functions_of_1_2_is_named(tmp_path: Path) -> None:
    source = tmp_path / "empty.c"
    source.write_text("int vkCreateInstance(void) { return 0; }\n")
    command = ["cc", "-shared", "-fPIC", "-o", str(tmp_path / "libvulkan.so.1"), str(source)]
    subprocess.run(command, check=True)
    said = run(OPEN, tmp_path)[0]
    assert ("the Vulkan loader has no vk" in said, "Vulkan 1.2 is needed" in said) == (True, True)


FEATURES = [
    "bufferDeviceAddress", "timelineSemaphore", "storageBuffer8BitAccess", "shaderInt8",
    "shaderInt64", "shaderFloat64",
]  # fmt: skip
REASONS = {
    "drivers": "no Vulkan driver starts here: vkCreateInstance answers -9",
    "init": "no Vulkan driver starts here: vkCreateInstance answers -3",
    "enumerate": "drivers: vkEnumeratePhysicalDevices: Vulkan error -3",
    "devices": "no vulkan device: the runtime lists none",
    "old": "Fake Device: it lacks Vulkan 1.2",
    "queue": "Fake Device: it lacks a queue for compute",
    "at:vkCreateDevice:-3": "Fake Device: vkCreateDevice: Vulkan error -3",
    "at:vkCreateShaderModule:-2": "vkCreateShaderModule: Vulkan error -2, the driver has no memory",
    "lost:vkCreateDevice": "vkCreateDevice: Vulkan error -4, the device is lost",
} | {f"lacks:{name}": f"Fake Device: it lacks {name}" for name in FEATURES}


@pytest.mark.parametrize("wrong", REASONS)
def test_a_driver_or_device_that_cannot_be_used_gives_its_reason(loader: Path, wrong: str) -> None:
    assert REASONS[wrong] in run(OPEN, loader, FAKE_VULKAN=wrong)[0]


COMMANDS = """
from click.testing import CliRunner
from hal.cli import group
print(CliRunner().invoke(group, ["ports", "--why"]).output)
print(CliRunner().invoke(group, ["doctor"]).output)
"""


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ("lacks:shaderInt64", "Fake Device: it lacks shaderInt64"),
        ("init", "no Vulkan driver starts here"),
        ("lost:vkQueueSubmit", "vkQueueSubmit: Vulkan error -4, the device is lost"),
    ],
)
def test_the_reason_stands_in_the_lists_of_ports_and_of_the_doctor(
    loader: Path, wrong: str, words: str
) -> None:
    text = "\n".join(run(COMMANDS, loader, FAKE_VULKAN=wrong))
    assert text.count(words) == 2, text
    assert "Traceback" not in text


def test_an_option_chooses_devices_by_a_part_of_their_name(loader: Path) -> None:
    found = [run(OPEN, loader, HAL_VULKAN_DEVICE=name)[0] for name in ("Fake", "0", "Other")]
    assert found[:2] == ["devices 1"] * 2
    assert "the option device= names another" in found[2]


# ---- A device that is lost ----

LOSE = """
device = hal.open("vulkan")
stream, buffer = device.stream(), device.alloc(64)
back = np.zeros(64, np.uint8)
def work():
    stream.fill(buffer, b"x")
    stream.fill(buffer[1:3], b"y")
    stream.copy(back, buffer)
    stream.copy(buffer[8:40], buffer[0:32])
    stream.synchronize()
calls = {
    "reserve": lambda: device.alloc(64, zero=True),
    "pin": lambda: device.pinned(64),
    "queue": lambda: device.stream(),
    "event": lambda: device.event(),
    "module": lambda: device.load(programs.two_kernels()),
    "work": work,
    "wait": lambda: device.synchronize(),
}
wrong("lost:" + CALL)
first = told(calls[FIRST])
wrong("")
print(first)
for name, call in calls.items():
    print(name, told(call))
"""


@pytest.mark.parametrize(
    ("first", "call"),
    [
        ("reserve", "vkCreateBuffer"),
        ("reserve", "vkAllocateMemory"),
        ("reserve", "vkBindBufferMemory"),
        ("reserve", "vkQueueSubmit"),
        ("reserve", "vkWaitSemaphores"),
        ("queue", "vkCreateSemaphore"),
        ("queue", "vkCreateCommandPool"),
        ("queue", "vkAllocateCommandBuffers"),
        ("queue", "vkMapMemory"),
        ("work", "vkBeginCommandBuffer"),
        ("work", "vkCreateComputePipelines"),
        ("work", "vkEndCommandBuffer"),
        ("work", "vkQueueSubmit"),
        ("work", "vkGetSemaphoreCounterValue"),
    ],
)
def test_a_call_that_finds_the_device_lost_loses_it(loader: Path, first: str, call: str) -> None:
    code = f"CALL, FIRST = {call!r}, {first!r}\n" + LOSE
    said, *later = run(code, loader)
    assert said.startswith("DeviceLost: "), said
    assert f"{call}: Vulkan error -4, the device is lost" in said
    assert [line for line in later if " DeviceLost: " not in line] == []


# ---- Kernels ----

LAUNCH = """
device = hal.open("vulkan")
stream, memory = device.stream(), device.array(np.array([9], np.int32))
kernel = device.load(programs.slow())["slow"]
def launch():
    kernel.launch(stream, 100, memory)
    stream.synchronize()
wrong(WRONG)
print(told(launch))
wrong("")
print(told(lambda: stream.fill(memory, b"x")))
"""


def test_a_shader_that_the_driver_refuses_fails_the_launch_with_what_to_do(loader: Path) -> None:
    said, later = run("WRONG = 'shader'\n" + LAUNCH, loader)
    assert said.startswith("Unsupported: ")
    assert "vkCreateComputePipelines: Vulkan error -1000012000, the driver refuses" in said
    assert "another device (device=) may take it" in said
    assert later.startswith("Unsupported: ")


def test_a_fault_of_a_kernel_is_told_with_program_and_instruction(loader: Path) -> None:
    said, later = run("WRONG = 'fault'\n" + LAUNCH, loader)
    assert said.startswith("ExecutionFailed: ")
    assert "instruction 0" in said
    assert later.startswith("ExecutionFailed: ")


@pytest.mark.parametrize("turns", [1, 2, 7])
def test_a_kernel_is_dispatched_until_it_has_finished(loader: Path, turns: int) -> None:
    assert run(f"WRONG = 'turns:{turns}'\n" + LAUNCH, loader) == ["ok", "ok"]


def test_a_program_that_is_no_vil_is_refused_with_its_place(loader: Path) -> None:
    code = """
device = hal.open("vulkan")
print(told(lambda: device.load(programs.two_kernels()[:-40])))
"""
    assert run(code, loader)[0].startswith("InvalidModule: ")
