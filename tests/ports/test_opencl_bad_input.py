"""What the port of OpenCL devices says when there is no loader, no driver, no device, or a bad one.

The loader is replaced by a library of ours (`opencl_fake.c`) in a child process; where the port is
not built (no CL/cl.h) these tests have no cases.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FAKE = Path(__file__).with_name("opencl_fake.c")


@pytest.fixture(scope="module")
def loader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with our libOpenCL.so.1."""
    folder = tmp_path_factory.mktemp("opencl")
    library = folder / "libOpenCL.so.1"
    command = ["cc", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-o", library, FAKE]
    subprocess.run(command, check=True, capture_output=True)
    return folder


def run(code: str, folder: Path | None = None, **environment: str) -> str:
    """What a Python program prints; its errors are ours to see."""
    full = {**os.environ, **environment}
    if folder is not None:
        full["LD_LIBRARY_PATH"] = str(folder)
    done = subprocess.run(
        [sys.executable, "-c", code], env=full, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


OPEN = """
import hal
try:
    print("devices", hal.load_port("opencl").device_count)
except hal.errors.HalError as error:
    print(error)
"""


def test_a_file_that_is_no_library_is_no_loader(tmp_path: Path) -> None:
    (tmp_path / "libOpenCL.so.1").write_text("no library\n" * 100)
    text = run(OPEN, tmp_path)
    assert ("no OpenCL loader" in text, "ocl-icd-libopencl1" in text) == (True, True)


def test_a_loader_without_the_functions_of_1_2_is_named(tmp_path: Path) -> None:
    source = tmp_path / "empty.c"
    source.write_text("int clGetPlatformIDs(void) { return 0; }\n")
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-o", tmp_path / "libOpenCL.so.1", source], check=True
    )
    assert "the OpenCL loader has no cl" in run(OPEN, tmp_path)


def test_without_drivers_the_reason_says_where_they_are_listed(tmp_path: Path) -> None:
    text = run(OPEN, OCL_ICD_VENDORS=str(tmp_path))
    assert ("no OpenCL platform" in text, "/etc/OpenCL/vendors" in text) == (True, True)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ("platforms", "clGetPlatformIDs answers -1001"),
        ("devices", "no opencl device: the runtime lists none"),
        ("context", "Fake Device: Fake Platform, driver 7: no context (OpenCL -5)"),
        ("old", "Fake Device: it is OpenCL 1.1 fake; OpenCL 1.2 is needed"),
    ],
)
def test_a_driver_that_cannot_be_used_gives_its_reason(
    loader: Path, wrong: str, words: str
) -> None:
    assert words in run(OPEN, loader, FAKE_OPENCL=wrong)


def test_the_reason_stands_in_the_list_of_ports(loader: Path) -> None:
    code = """
from click.testing import CliRunner
from hal.cli import group
print(CliRunner().invoke(group, ["ports", "--why"]).output)
print(CliRunner().invoke(group, ["doctor"]).output)
"""
    assert run(code, loader, FAKE_OPENCL="context").count("no context (OpenCL -5)") == 2


def test_an_option_chooses_devices_by_a_part_of_their_name(loader: Path) -> None:
    found = [run(OPEN, loader, HAL_OPENCL_DEVICE=name) for name in ("Fake", "0", "Other")]
    assert found[:2] == ["devices 1"] * 2
    assert "no opencl device" in found[2]


LOAD = """
import hal, numpy as np
from hal import dtypes
from hal.codegen.dialect import image
from hal.vil import recipes
device = hal.open("opencl")
module = recipes.elementwise("un", "neg", [getattr(dtypes, TYPE)], getattr(dtypes, TYPE))
def load():
    return device.load(image(module, device.hcd), "source.opencl")
"""


def test_what_the_compiler_refuses_names_our_line_and_the_instruction(loader: Path) -> None:
    code = (
        LOAD.replace("TYPE", "'f32'")
        + """
lines = __import__("hal.codegen.dialect", fromlist=["render"]).render(module, device.hcd)
line = next(n for n, text in enumerate(lines.splitlines(), 1) if "// un.neg" in text) + 1
import os
os.environ["FAKE_OPENCL_LINE"] = str(line)
import ctypes
ctypes.CDLL(None).setenv(b"FAKE_OPENCL_LINE", str(line).encode(), 1)
try:
    load()
except hal.errors.HalError as error:
    print(type(error).__name__, line, error)
"""
    )
    text = run(code, loader, FAKE_OPENCL="build")
    name, line, words = text.split(" ", 2)
    assert name == "InvalidModule"
    assert f"refuses the source at line {line}, from VIL `un.neg" in words
    assert "error: no such word" in words


def test_a_compiler_that_says_nothing_is_told_so(loader: Path) -> None:
    code = (
        LOAD.replace("TYPE", "'f32'")
        + """
try:
    load()
except hal.errors.InvalidModule as error:
    print(error)
"""
    )
    text = run(code, loader, FAKE_OPENCL="build_silent")
    assert "the OpenCL compiler refuses the source and names no line: it is silent" in text


def test_words_that_the_compiler_does_not_take_are_told(loader: Path) -> None:
    code = (
        LOAD.replace("TYPE", "'f32'")
        + """
try:
    load()
except hal.errors.InvalidValue as error:
    print(error)
"""
    )
    text = run(code, loader, HAL_OPENCL_BUILD="-odd")
    assert "does not take the words '-cl-std=CL1.2" in text
    assert "-odd'" in text


def test_a_device_without_64_bit_floats_refuses_them_and_says_so(loader: Path) -> None:
    code = (
        LOAD.replace("TYPE", "'f64'")
        + """
print([item["compute"] for item in device.hcd.get("dtypes") if item["id"] == "f64"])
try:
    load()
except hal.errors.HalError as error:
    print(type(error).__name__, error)
"""
    )
    text = run(code, loader, FAKE_OPENCL="no_fp64")
    assert "['none']" in text
    assert ("f64" in text.splitlines()[-1], "Traceback" in text) == (True, False)


def test_a_lost_device_answers_lost_from_then_on(loader: Path) -> None:
    code = """
import hal
device = hal.open("opencl")
buffer, stream = device.alloc(64), device.stream()
for step in range(4):
    try:
        stream.fill(buffer, b"x")
        stream.synchronize()
        print("ok")
    except hal.errors.HalError as error:
        print(type(error).__name__)
try:
    device.alloc(64)
except hal.errors.HalError as error:
    print(type(error).__name__, "given the device up" in str(error) or "lost" in str(error))
"""
    text = run(code, loader, FAKE_OPENCL="lost:4").split("\n")
    assert text == ["ok", "ok", "DeviceLost", "DeviceLost", "DeviceLost True"]


@pytest.mark.parametrize("offset", [0, 1, 2, 3])
def test_fills_off_the_grid_of_their_pattern_are_whole(loader: Path, offset: int) -> None:
    code = f"""
import hal, numpy as np
device = hal.open("opencl")
buffer, stream = device.alloc(32), device.stream()
stream.fill(buffer, b"\\xee")
stream.fill(buffer[{offset}:{offset} + 12], bytes.fromhex("11223344"))
stream.synchronize()
out = np.zeros(32, np.uint8)
stream.copy(out, buffer)
stream.synchronize()
print(out.tobytes().hex())
"""
    pattern = bytes.fromhex("11223344") * 3
    wanted = b"\xee" * offset + pattern + b"\xee" * (20 - offset)
    assert run(code, loader) == wanted.hex()
