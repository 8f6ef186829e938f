"""The port of CUDA devices, on a fake driver: what works, and what each failure is told as."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import hal

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "cuda_fake"))

from build import build, environment, run_script  # noqa: E402 -- found by the line above

HEAD = """
import json, numpy as np
import hal, hal.errors
from hal import dtypes
from hal.codegen.dialect import image
from hal.vil import recipes
out = {}
def product(device, dtype=dtypes.f32):
    data = image(recipes.matmul(dtype, dtype, dtype), device.hcd)
    return device.load(data, "source.cuda")["main"]
def told(function):
    try:
        function()
    except hal.errors.HalError as error:
        return [type(error).__name__, str(error)]
    return ["nothing", ""]
"""


@pytest.fixture(scope="session")
def fake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the libraries of the fake."""
    return build(tmp_path_factory.mktemp("cuda") / "lib")


def run(fake: Path | None, body: str, **more: str) -> dict[str, Any]:
    """What a script of its own process leaves in `out`."""
    return run_script(fake, HEAD + body, **more)


def refused(fake: Path | None, **more: str) -> str:
    """Why the port is not loaded."""
    return str(run(fake, "out['why'] = told(lambda: hal.load_port('cuda'))[1]", **more)["why"])


def test_the_device_describes_itself(fake: Path) -> None:
    found = run(
        fake,
        """
device = hal.open("cuda")
keys = ["identity.arch", "memory.hbm.capacity_bytes", "units.sm.count",
        "memory.hbm.bandwidth_bytes_per_s", "memory.shared.capacity_bytes", "features.library"]
out = {key: device.hcd.get(key) for key in keys}
""",
        FAKE_CUDA_CAPABILITY="80",
    )
    assert found == {
        "identity.arch": "sm_80",
        "memory.hbm.capacity_bytes": 1 << 30,
        "units.sm.count": 4,
        "memory.hbm.bandwidth_bytes_per_s": 128000000000,
        "memory.shared.capacity_bytes": 232448,
        "features.library": True,
    }


def test_a_kernel_runs_and_its_result_comes_back(fake: Path) -> None:
    found = run(
        fake,
        """
device = hal.open("cuda")
a, b = (np.arange(n * 5, dtype=np.float32).reshape(s) for n, s in ((3, (3, 5)), (4, (5, 4))))
c, stream = device.array(np.zeros((3, 4), np.float32)), device.stream()
product(device).launch(stream, 3, 4, 5, device.array(a), device.array(b), c)
stream.synchronize()
out["same"] = bool((c.numpy() == a @ b).all())
""",
    )
    assert found == {"same": True}


def test_patterns_of_every_length_fill_any_address(fake: Path) -> None:
    found = run(
        fake,
        """
device = hal.open("cuda")
stream = device.stream()
for bytes_ in (1, 2, 4, 8):
    for start in (0, 1, 4, 8):
        buffer = device.alloc(64, zero=True)
        pattern = bytes(range(1, bytes_ + 1))
        kind = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[bytes_]
        stream.fill(buffer[start : start + 2 * bytes_], pattern)
        held = np.zeros(64, np.uint8)
        stream.copy(held, buffer)
        stream.synchronize()
        want = bytes(start) + 2 * pattern
        out[f"{bytes_}@{start}"] = held.tobytes() == want + bytes(64 - len(want))
""",
    )
    assert [key for key, same in found.items() if not same] == []


def test_a_copy_onto_itself_goes_as_if_through_a_third_place(fake: Path) -> None:
    found = run(
        fake,
        """
device = hal.open("cuda")
stream, buffer = device.stream(), device.alloc(64)
stream.copy(buffer, np.arange(64, dtype=np.uint8))
stream.copy(buffer[8:48], buffer[0:40])
held = np.zeros(64, np.uint8)
stream.copy(held, buffer)
stream.synchronize()
out["tail"] = held[8:48].tolist()
""",
    )
    assert found["tail"] == list(range(40))


def test_two_devices_copy_to_each_other(fake: Path) -> None:
    found = run(
        fake,
        """
port = hal.load_port("cuda")
one, two = port.device(0), port.device(1)
source, target = one.array(np.arange(9, dtype=np.int32)), two.array(np.zeros(9, np.int32))
stream = two.stream()
stream.copy_peer(target, source)
stream.synchronize()
out["held"] = target.numpy().tolist()
""",
        FAKE_CUDA_DEVICES="2",
    )
    assert found["held"] == list(range(9))


@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "bf16"])
def test_the_library_multiplies(fake: Path, dtype: str) -> None:
    found = run(
        fake,
        f"""
from hal.library import Operand
dtype = dtypes.{dtype}
device = hal.open("cuda")
stream = device.stream()
a = np.arange(6).reshape(2, 3).astype(dtype.numpy)
b = (np.arange(12) - 4).reshape(3, 4).astype(dtype.numpy)
c = device.array(np.zeros((2, 4), dtype.numpy))
operands = [Operand(device.array(a), dtype, (2, 3), (3, 1)),
            Operand(device.array(b), dtype, (3, 4), (4, 1))]
device.library.run(stream, "matmul", operands, [Operand(c, dtype, (2, 4), (4, 1))])
stream.synchronize()
want = a.astype(np.float64) @ b.astype(np.float64)
out["same"] = bool((c.numpy().astype(np.float64) == want).all())
""",
    )
    assert found["same"] is True


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        ("cuInit:100", ["CUDA_ERROR_NO_DEVICE", "CUDA_VISIBLE_DEVICES"]),
        ("cuInit:803", ["SYSTEM_DRIVER_MISMATCH", "different versions"]),
        ("cuInit:34", ["STUB_LIBRARY", "no driver"]),
        ("cuDeviceGetCount:999", ["cuDeviceGetCount", "999", "nvidia-smi"]),
    ],
)
def test_a_driver_that_does_not_start_is_told(fake: Path, plan: str, words: list[str]) -> None:
    text = refused(fake, FAKE_CUDA_FAIL=plan)
    assert [word for word in words if word not in text] == []


@pytest.mark.parametrize("command", [("ports", "--why"), ("doctor",)], ids=" ".join)
def test_the_commands_tell_why_a_driver_does_not_start(
    fake: Path, command: tuple[str, ...]
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from hal.cli import main; main()", *command],
        env=environment(fake, FAKE_CUDA_FAIL="cuInit:803", COLUMNS="400"),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    told = [word in done.stdout for word in ("cuInit", "803", "different versions")]
    assert (told, "Traceback" in done.stdout + done.stderr) == ([True] * 3, False)


def test_a_device_that_says_nothing_is_left_out(fake: Path) -> None:
    text = refused(fake, FAKE_CUDA_FAIL="cuDeviceGetName:999")
    assert [
        word for word in ("device 0", "cuDeviceGetName", "nvidia-smi") if word not in text
    ] == []


@pytest.mark.parametrize(("asked", "name"), [("1", "Fake GPU 1"), ("GPU 2", "Fake GPU 2")])
def test_devices_can_be_picked(fake: Path, asked: str, name: str) -> None:
    found = run(
        fake,
        """
port = hal.load_port("cuda")
out["names"] = [port.device(0).text("device.name"), port.device_count]
""",
        FAKE_CUDA_DEVICES="3",
        HAL_CUDA_DEVICE=asked,
    )
    assert found["names"] == [name, 1]


def test_without_a_driver_the_reason_names_it() -> None:
    text = refused(None, HAL_CUDA_DRIVER="/nowhere/libcuda.so.1")
    assert ("no CUDA driver" in text, "HAL_CUDA_DRIVER" in text) == (True, True)


def test_without_a_compiler_the_reason_says_what_to_install(fake: Path) -> None:
    text = refused(fake, HAL_CUDA_NVRTC="/nowhere/libnvrtc.so.13")
    assert ("no NVRTC" in text, "nvidia-cuda-nvrtc" in text) == (True, True)


def test_no_device_is_told(fake: Path) -> None:
    assert "NO_DEVICE" in refused(fake, FAKE_CUDA_DEVICES="0")


def test_tiles_that_a_block_has_no_room_for_lie_in_global_memory(fake: Path) -> None:
    found = run(
        fake,
        """
device = hal.open("cuda")
a = np.arange(70 * 80, dtype=np.float32).reshape(70, 80) % 7
b, c = a.T.copy(), device.array(np.zeros((70, 70), np.float32))
stream = device.stream()
product(device).launch(stream, 70, 70, 80, device.array(a), device.array(b), c)
stream.synchronize()
out["same"] = bool((c.numpy() == a @ b).all())
out["near"] = device.hcd.get("memory.shared.capacity_bytes")
out["for programs"] = device.hcd.get("kernels.vil.spaces.near.capacity_bytes")
""",
        FAKE_CUDA_NEAR="8192",
    )
    assert found == {"same": True, "near": 8192, "for programs": 65536}


def test_a_library_that_is_no_driver_is_told(fake: Path) -> None:
    text = refused(fake, HAL_CUDA_DRIVER=str(Path(hal.__file__).parent / "_lib" / "libhal.so"))
    assert "older than CUDA" in text


def test_without_cublas_the_operator_is_not_offered(fake: Path) -> None:
    found = run(
        fake,
        "out['library'] = hal.open('cuda').hcd.get('features.library')",
        HAL_CUDA_CUBLAS="/nowhere/none.so",
    )
    assert found == {"library": False}


def test_memory_that_is_used_up_is_told(fake: Path) -> None:
    found = run(
        fake,
        """
device = hal.open("cuda")
out["much"] = told(lambda: device.alloc(1 << 40))[0]
""",
    )
    assert found["much"] == "OutOfMemory"


def test_a_driver_without_memory_is_told_in_its_own_words(fake: Path) -> None:
    found = run(
        fake,
        """
device = hal.open("cuda")
out["told"] = told(lambda: device.alloc(100))
""",
        FAKE_CUDA_FAIL="cuMemAlloc_v2:2",
    )
    name, text = found["told"]
    assert (name, "CUDA_ERROR_OUT_OF_MEMORY" in text) == ("OutOfMemory", True)


def test_what_the_compiler_refuses_is_told_with_our_line(fake: Path) -> None:
    found = run(
        fake,
        """
device = hal.open("cuda")
data = image(recipes.matmul(dtypes.f32, dtypes.f32, dtypes.f32), device.hcd)
broken = data.replace(b"hal_bad = hal_state", b"hal_bad = hal_stats")
out["told"] = told(lambda: device.load(broken, "source.cuda"))
""",
    )
    name, text = found["told"]
    assert (name, "NVRTC 13.0 refuses the source at line" in text) == ("InvalidModule", True)
    assert "hal_stats" in text


@pytest.mark.parametrize("code", ["700", "719"])
def test_a_kernel_that_crashes_loses_the_device(fake: Path, code: str) -> None:
    found = run(
        fake,
        """
device = hal.open("cuda")
kernel, stream, other = product(device), device.stream(), device.stream()
arrays = [device.array(np.zeros((4, 4), np.float32)) for _ in range(3)]
kernel.launch(stream, 4, 4, 4, *arrays)
out["stream"] = told(lambda: stream.synchronize())
out["other"] = told(lambda: other.synchronize())[0]
out["alloc"] = told(lambda: device.alloc(64))[0]
""",
        FAKE_CUDA_FAIL=f"kernel:{code}",
    )
    assert (found["stream"][0], found["other"], found["alloc"]) == ("DeviceLost",) * 3
    assert code in found["stream"][1]
