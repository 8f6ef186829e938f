"""Compiling through the C dialect: from VIL to a loaded kernel, and how fast that kernel is."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

from bench.measure import SCALE, Contender, Figure, Sample, per_call
from bench.programs import device

FLAGS = ["-x", "c", "-std=gnu11", "-O3", "-march=native", "-w", "-fPIC", "-shared"]
FLAGS += ["-ffp-contract=off", "-fwrapv", "-fopenmp-simd", "-fno-math-errno", "-fno-trapping-math"]
SIDE = 2048
MATRIX = 1024
KERNELS = {
    "relu(2x+1)": (
        (
            "kernel Relu { param M, N : int\n input: f32[M,N] X\n output: f32[M,N] Y\n"
            " operation: Y[i,j] = max(2.0 * X[i,j] + 1.0, 0.0) }"
        ),
        1,
        SIDE,
    ),
    "softmax": (
        (
            "kernel Softmax { param M, N : int\n input: f32[M,N] X\n temp: f32[M] m, f32[M] t\n"
            " output: f32[M,N] Y\n operation: m[i] max= X[i,j]\n"
            " operation: t[i] += exp(X[i,j] - m[i])\n"
            " operation: Y[i,j] = exp(X[i,j] - m[i]) / t[i] }"
        ),
        1,
        SIDE,
    ),
    "product": (
        (
            "kernel Product { param M, N, K : int\n input: f32[M,K] A, f32[K,N] B\n"
            " output: f32[M,N] C\n operation: C[i,j] += A[i,k] * B[k,j] }"
        ),
        2,
        MATRIX,
    ),
}


def figures() -> Iterator[Figure]:
    """Cold and kept loads, then what was compiled beside the interpreter."""
    yield cold_figure()
    yield kept_figure()
    for name in KERNELS:
        yield speed_figure(name)


def module_of(name: str) -> Any:
    """The VIL of one kernel for the cpu."""
    from hal.codegen import compile as compile_kernel
    from hal.ir import parse

    text, _, side = KERNELS[name]
    sizes = dict.fromkeys("MNK" if name == "product" else "MN", side)
    return compile_kernel(parse(text).kernels[0], device().hcd, sizes=sizes).module


def cold(name: str) -> Sample:
    """Make a sample: render, compile and load with nothing kept."""
    from hal.codegen.dialect import image

    module, hcd = module_of(name), device().hcd

    def sample() -> float:
        with tempfile.TemporaryDirectory() as folder:
            os.environ["HAL_CACHE_DIR"] = folder
            begin = time.perf_counter()
            loaded = device().load(image(module, hcd), "source.c")
            seconds = time.perf_counter() - begin
            loaded.close()
            del os.environ["HAL_CACHE_DIR"]
        return seconds * SCALE["ms"]

    return sample


def compiler_alone(name: str) -> Sample:
    """Make a sample: the C compiler on the same text with the same flags."""
    from hal.codegen.dialect import render

    source = render(module_of(name), device().hcd).encode()

    def sample() -> float:
        with tempfile.TemporaryDirectory() as folder:
            begin = time.perf_counter()
            command = [os.environ.get("CC", "cc"), *FLAGS, "-", "-o", f"{folder}/out.so", "-lm"]
            subprocess.run(command, input=source, check=True)
            return (time.perf_counter() - begin) * SCALE["ms"]

    return sample


def cold_figure() -> Figure:
    """Everything from VIL to a kernel on the device, beside the compiler's own share."""
    return Figure(
        "VIL to a loaded kernel, nothing kept (softmax)",
        "ms",
        Contender("render, compile, load", cold("softmax")),
        limit=Contender("the C compiler alone", compiler_alone("softmax")),
        goal="at most 1.3 x the compiler alone",
        rounds=7,
    )


def kept_figure() -> Figure:
    """The same image again: a look-up and the dynamic linker."""
    from hal.codegen.dialect import image

    data = image(module_of("softmax"), device().hcd)
    device().load(data, "source.c").close()
    return Figure(
        "load of a kept kernel (softmax)",
        "ms",
        Contender("load", per_call(lambda: device().load(data, "source.c").close(), "ms", count=5)),
        goal="at most 1 ms",
    )


def launcher(name: str, route: str) -> Callable[[], None]:
    """A launch of the kernel by one route, to its end."""
    import numpy as np

    from hal.codegen import Executable
    from hal.ir import parse

    text, count, side = KERNELS[name]
    kernel = parse(text).kernels[0]
    run, stream = Executable(device(), kernel, route=route), device().stream()
    source = np.random.default_rng(1)
    arrays = [
        device().array(source.standard_normal((side, side)).astype(np.float32))
        for _ in range(count)
    ]
    out = device().array(np.zeros((side, side), np.float32))

    def launch() -> None:
        run(stream, *arrays, out)
        stream.synchronize()

    launch()
    return launch


def speed_figure(name: str) -> Figure:
    """One kernel as C and as interpreted VIL."""
    side = KERNELS[name][2]
    return Figure(
        f"{name} of {side} x {side}, f32",
        "ms",
        Contender("source.c", per_call(launcher(name, "source"), "ms", count=1)),
        [Contender("vil.v1 interpreted", per_call(launcher(name, "vil"), "ms", count=1))],
    )
