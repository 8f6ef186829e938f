"""Sources of the CUDA dialect by NVIDIA's own compilers, which need no device.

HAL_TEST_CUDA_TOOLS names a folder into which nvidia-cuda-nvrtc and nvidia-cuda-nvcc were installed
(`pip install --target FOLDER …`); without it conftest.py leaves this file out. `.ci/run cuda` sets
it.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

import hal.hcd
from hal import dtypes
from hal.codegen.dialect import render
from hal.dtypes import DType
from hal.vil import recipes
from hal.vil.check_chip import Limits
from hal.vil.generate import Choices, generate
from hal.vil.module import Module

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "cuda_fake"))

from build import build  # noqa: E402 -- found by the line above

TOOLS = os.environ["HAL_TEST_CUDA_TOOLS"]
SEEDS = list(range(7000, 7006))
TYPES = [dtypes.f16, dtypes.bf16, dtypes.f32, dtypes.f64, dtypes.i32, dtypes.i64]
ELF_OF_CUDA = 190  # e_machine


def tool(pattern: str) -> Path:
    """A file of the installed packages."""
    found = sorted(Path(TOOLS).glob(f"nvidia/*/{pattern}"))
    assert found, f"{TOOLS} holds no {pattern}"
    return found[-1]


class Compiler:
    """NVRTC, called as the port calls it."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL(str(tool("lib/libnvrtc.so.1[23]")))

    def compile(self, text: str, kind: str) -> bytes:
        """Machine code for `sm_…`, portable text for `compute_…`."""
        made, call = ctypes.c_void_p(), self.library
        words = [f"--gpu-architecture={kind}", "--std=c++17", "--fmad=false", "-w"]
        rows = (ctypes.c_char_p * len(words))(*(word.encode() for word in words))
        name = b"program.cu"
        assert call.nvrtcCreateProgram(ctypes.byref(made), text.encode(), name, 0, None, None) == 0
        if call.nvrtcCompileProgram(made, len(words), rows):
            raise AssertionError(self._part(made, "ProgramLog").decode()[:3000])
        return self._part(made, "CUBIN" if kind.startswith("sm_") else "PTX")

    def _part(self, made: ctypes.c_void_p, name: str) -> bytes:
        size = ctypes.c_size_t()
        assert getattr(self.library, f"nvrtcGet{name}Size")(made, ctypes.byref(size)) == 0
        room = ctypes.create_string_buffer(size.value)
        assert getattr(self.library, f"nvrtcGet{name}")(made, room) == 0
        return room.raw


@pytest.fixture(scope="session")
def compiler() -> Compiler:
    """The real NVRTC."""
    return Compiler()


@pytest.fixture(scope="session")
def chip() -> hal.hcd.Hcd:
    """A chip that takes CUDA C."""
    return hal.hcd.load("hal/cuda")


def is_cubin(code: bytes) -> bool:
    """True for an ELF file of a CUDA device."""
    return code[:4] == b"\x7fELF" and int.from_bytes(code[18:20], "little") == ELF_OF_CUDA


@pytest.mark.parametrize("seed", SEEDS)
def test_generated_programs_become_machine_code(
    compiler: Compiler, chip: hal.hcd.Hcd, seed: int
) -> None:
    case = generate(Choices(seed), Limits.of(chip), steps=16)
    assert is_cubin(compiler.compile(render(case.module, chip), "sm_90"))


def programs(dtype: DType) -> list[Module]:
    """A reduction, a product and a scatter."""
    out = {"f64": dtypes.f64, "i64": dtypes.i64}.get(dtype.name)
    total = out or (dtypes.f32 if dtype.is_float else dtypes.i32)
    return [
        recipes.reduction("add", dtype, total, axis=1),
        recipes.matmul(dtype, dtype, total),
        recipes.scattered("add", total, dtypes.i32),
    ]


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_sums_products_and_scatters_become_machine_code(
    compiler: Compiler, chip: hal.hcd.Hcd, dtype: DType
) -> None:
    codes = [compiler.compile(render(module, chip), "sm_90") for module in programs(dtype)]
    assert [is_cubin(code) for code in codes] == [True] * 3


def nvcc(text: str, folder: Path) -> bytes:
    """Machine code of sm_90 that the program nvcc makes of a source."""
    source, code = folder / "program.cu", folder / "program.cubin"
    source.write_text(text)
    command = [str(tool("bin/nvcc")), "-cubin", "-arch=sm_90", "-std=c++17", "-fmad=false"]
    command += ["-w", str(source), "-o", str(code)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return code.read_bytes()


@pytest.mark.parametrize("seed", SEEDS[:2])
def test_nvcc_makes_machine_code_of_generated_programs(
    chip: hal.hcd.Hcd, seed: int, tmp_path: Path
) -> None:
    case = generate(Choices(seed), Limits.of(chip), steps=16)
    assert is_cubin(nvcc(render(case.module, chip), tmp_path))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_nvcc_makes_machine_code_of_sums_products_and_scatters(
    chip: hal.hcd.Hcd, dtype: DType, tmp_path: Path
) -> None:
    codes = [nvcc(render(module, chip), tmp_path) for module in programs(dtype)]
    assert [is_cubin(code) for code in codes] == [True] * 3


def test_nvcc_tells_an_error_in_a_source(chip: hal.hcd.Hcd, tmp_path: Path) -> None:
    text = render(recipes.matmul(dtypes.f32, dtypes.f32, dtypes.f32), chip)
    with pytest.raises(AssertionError, match="hal_stats"):
        nvcc(text.replace("hal_bad = hal_state", "hal_bad = hal_stats"), tmp_path)


def test_the_assembler_of_nvcc_takes_the_portable_text(
    compiler: Compiler, chip: hal.hcd.Hcd, tmp_path: Path
) -> None:
    text, code = tmp_path / "program.ptx", tmp_path / "program.cubin"
    module = recipes.matmul(dtypes.f32, dtypes.f32, dtypes.f32)
    portable = compiler.compile(render(module, chip), "compute_90")
    text.write_bytes(portable.rstrip(b"\0"))
    command = [str(tool("bin/ptxas")), "-arch=sm_90", str(text), "-o", str(code)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert is_cubin(code.read_bytes())


def test_the_port_loads_what_the_real_compiler_made(tmp_path: Path) -> None:
    # NVRTC asks a libcuda.so.1 that is loaded for more than the fake has: it goes by another name.
    fake = build(tmp_path / "lib", "-Wl,-soname,libcuda-fake.so")
    script = """
import hal
from hal import dtypes
from hal.codegen.dialect import image
from hal.vil import recipes
device = hal.open("cuda")
module = recipes.matmul(dtypes.f32, dtypes.f32, dtypes.f32)
data = image(module, device.hcd)
print("loaded", len(device.load(data, "source.cuda")["main"].signature))
try:
    device.load(data.replace(b"hal_bad = hal_state", b"hal_bad = hal_stats"), "source.cuda")
except hal.errors.InvalidModule as error:
    print(error)
"""
    environment = {
        **os.environ,
        "HAL_CUDA_DRIVER": str(fake / "libcuda.so.1"),
        "HAL_CUDA_NVRTC": str(tool("lib/libnvrtc.so.1[23]")),
    }
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "loaded 6" in done.stdout, done.stderr
    assert ("refuses the source at line" in done.stdout, "hal_stats" in done.stdout) == (True, True)
