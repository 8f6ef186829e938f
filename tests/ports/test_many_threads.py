"""Ports of runtimes on the host, used by many threads at once, on runtimes of ours.

CI runs this file and others of this folder with sanitizers, too (`.ci/run asan tsan`).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent

CODE = """
import sys, threading
import numpy as np
import hal
from hal import dtypes
from hal.codegen.dialect import image
from hal.vil import encode, recipes

PORT, THREADS, TURNS = sys.argv[1], 4, 12
device = hal.open(PORT)
module = recipes.elementwise("un", "neg", [dtypes.f32], dtypes.f32)
FORMAT = "vil.v1" if PORT == "vulkan" else "source." + PORT
text = encode(module) if PORT == "vulkan" else image(module, device.hcd)

def turns(stream, number):
    for turn in range(TURNS):
        one_turn(stream, number * TURNS + turn)

def one_turn(stream, seed):
    bytes_ = np.arange(seed, seed + 64, dtype=np.uint8)
    memory, zeros = device.alloc(64), device.alloc(64, zero=True)
    back, none = np.ones(64, np.uint8), np.ones(64, np.uint8)
    stream.copy(memory, bytes_)
    stream.copy(memory[8:40], memory[0:32])  # Over itself.
    stream.fill(memory[41:47], bytes([seed % 251]))
    stream.copy(back, memory)
    stream.copy(none, zeros)
    if seed % 4 == 0:
        kernel = device.load(text, FORMAT)[module.kernels[0].name]
        x, y = (device.array(np.ones((3, 5), np.float32)) for _ in range(2))
        kernel.launch(stream, 3, 5, x, y)
    event = device.event()
    stream.record(event)
    event.synchronize()
    wanted = bytes_.copy()
    wanted[8:40] = bytes_[0:32]
    wanted[41:47] = seed % 251
    if back.tolist() != wanted.tolist() or none.any():
        wrong.append(f"turn {seed}: {back.tolist()}")
"""

LARGE = """
import threading
import numpy as np
import hal
from hal import dtypes
from hal.vil import encode, recipes

THREADS, TURNS, ROWS = 4, 300, 64
device = hal.open("cpu")
module = recipes.elementwise("un", "neg", [dtypes.f32], dtypes.f32)
kernel = device.load(encode(module), "vil.v1")[module.kernels[0].name]

def turns(stream, number):
    columns = 2000 + 1000 * number
    x, y = (device.array(np.zeros((ROWS, columns), np.float32)) for _ in range(2))
    for turn in range(1, TURNS + 1):
        stream.fill(x, turn)
        kernel.launch(stream, ROWS, columns, x, y)
        stream.synchronize()
        if (y.numpy() != -turn).any():
            wrong.append(f"launch {turn} of thread {number}")
"""

# Calls `turns(stream, number)` of the text before it on THREADS threads at once.
TOGETHER = """
wrong, together = [], threading.Barrier(THREADS)

def work(number):
    try:
        with device.stream() as stream:
            together.wait()
            turns(stream, number)
    except Exception as error:
        wrong.append(f"{type(error).__name__}: {error}")

threads = [threading.Thread(target=work, args=(n,)) for n in range(THREADS)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print("\\n".join(wrong) if wrong else "right")
"""


def build(port: str, folder: Path) -> None:
    """Builds the runtime of ours that a port works on."""
    folder.mkdir()
    if port == "opencl":
        command = ["cc", "-shared", "-fPIC", "-o", str(folder / "libOpenCL.so.1")]
        command.append(str(HERE / "opencl_fake.c"))
    else:
        command = [sys.executable, str(HERE / f"{port}_fake" / "build.py"), str(folder)]
    subprocess.run(command, check=True)


@pytest.mark.parametrize("port", ["opencl", "cuda", "vulkan"])
def test_threads_with_streams_of_their_own_get_their_own_bytes(port: str, tmp_path: Path) -> None:
    build(port, tmp_path / "lib")
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("FAKE_", f"HAL_{port}"))}
    clean |= {"LD_LIBRARY_PATH": str(tmp_path / "lib"), "FAKE_CUDA_CACHE": str(tmp_path / "kept")}
    done = subprocess.run(
        [sys.executable, "-c", CODE + TOGETHER, port],
        env=clean,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "right"), done.stderr[-8000:]


def test_large_launches_of_several_streams_run_whole_and_apart() -> None:
    """Helper threads share one launch; those of other streams run beside it."""
    done = subprocess.run(
        [sys.executable, "-c", LARGE + TOGETHER],
        env=os.environ | {"HAL_CPU_THREADS": "8"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "right"), done.stderr[-8000:]
