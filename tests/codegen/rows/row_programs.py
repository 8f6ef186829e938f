"""Kernels whose statements share their rows, and the check of a lowering against the meaning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hal.codegen.lowering import Lowering
from hal.codegen.target import Target
from hal.ir import Kernel, evaluate, parse
from hal.ir.analysis import inline_lets, value_of
from hal.vil import evaluate as run_module
from hal.vil import validate
from hal.vil.module import Module

SOFTMAX = """
kernel Softmax {
  param M, N : int
  input: f32[M,N] X
  output: f32[M,N] Y
  temp: f32[M] m, f32[M,N] e, f32[M] s
  operation: m[i] max= X[i,j]
  operation: e[i,j] = exp(X[i,j] - m[i])
  operation: s[i] += e[i,j]
  operation: Y[i,j] = e[i,j] / s[i]
}
"""
LOG_SOFTMAX = """
kernel LogSoftmax {
  param M, N : int
  input: f32[M,N] X
  output: f32[M,N] Y
  temp: f32[M] m, f32[M] s
  operation: m[i] max= X[i,j]
  operation: s[i] += exp(X[i,j] - m[i])
  operation: Y[i,j] = X[i,j] - m[i] - log(s[i])
}
"""
LAYER_NORM = """
kernel LayerNorm {
  param M, N : int
  scalar f32 eps
  input: f32[M,N] X, f32[N] g, f32[N] b
  output: f32[M,N] Y, f32[M] mean
  temp: f32[M] s, f32[M] v
  operation: s[i] += X[i,j]
  operation: mean[a] = s[a] / f32(N)
  operation: v[i] += (X[i,k] - mean[i]) * (X[i,k] - mean[i])
  operation: Y[i,j] = (X[i,j] - mean[i]) * rsqrt(v[i] / f32(N) + eps) * g[j] + b[j]
}
"""
RMS_NORM = """
kernel RmsNorm {
  param B, M, N : int
  input: f16[B,M,N] X, f16[N] g
  output: f16[B,M,N] Y
  temp: f32[B,M] s
  operation: s[a,i] += f32(X[a,i,j]) * f32(X[a,i,j])
  operation: Y[a,i,j] = X[a,i,j] * rsqrt(s[a,i] / f32(N) + 0.00001) * g[j]
}
"""
CROSS_ENTROPY = """
kernel CrossEntropy {
  param M, N : int
  input: f32[M,N] X, i32[M] t
  output: f32[M] loss, i64[M] guess
  temp: f32[M] m, f32[M] s
  operation: m[i] max= X[i,j]
  operation: s[i] += exp(X[i,j] - m[i])
  operation: loss[i] = log(s[i]) + m[i] - X[i,t[i]]
  operation: guess[i] = argmax(X[i,j], j)
}
"""
BATCH_NORM = """
kernel BatchNorm {
  param M, C, N : int
  input: f32[M,C,N] X
  output: f32[M,C,N] Y
  temp: f32[C] s, f32[C] v
  operation: s[c] += X[n,c,h]
  operation: v[c] += (X[n,c,h] - s[c] / f32(M * N)) * (X[n,c,h] - s[c] / f32(M * N))
  operation: Y[n,c,h] = (X[n,c,h] - s[c] / f32(M * N)) * rsqrt(v[c] / f32(M * N) + 0.001)
}
"""
SUM_INTO = """
kernel SumInto {
  param M, N : int
  input: i32[M,N] X
  inout: i32[M] total
  output: i32[M,N] Y, i32[M] least
  operation: total[i] += X[i,j]
  operation: least[i] min= X[i,j] - total[i]
  operation: Y[i,j] = X[i,j] * 2 + least[i]
}
"""
ALL = {
    text.split()[1]: text
    for text in (SOFTMAX, LOG_SOFTMAX, LAYER_NORM, RMS_NORM, CROSS_ENTROPY, BATCH_NORM, SUM_INTO)
}


def kernel_of(text: str) -> Kernel:
    """The only kernel of a text, its lets inlined."""
    (found,) = parse(text).kernels
    return inline_lets(found)


def inputs_of(kernel: Kernel, params: Mapping[str, int], seed: int = 1) -> dict[str, NDArray[Any]]:
    """Small whole numbers for every input and inout; index arrays point inside N."""
    rng = np.random.default_rng(seed)
    found = {}
    for array in kernel.arrays_of("input", "inout"):
        shape = tuple(value_of(size, params) for size in array.shape)
        low, high = (0, max(params["N"], 1)) if array.name == "t" else (-4, 5)
        found[array.name] = rng.integers(low, high, shape).astype(array.dtype.numpy)
    return found


def run(
    module: Module,
    kernel: Kernel,
    arrays: Mapping[str, NDArray[Any]],
    params: Mapping[str, int],
    scalars: Mapping[str, float],
) -> dict[str, NDArray[Any]]:
    """Outputs and inouts by the evaluator of VIL."""
    arguments: dict[str, Any] = {**params, **scalars}
    for array in kernel.arrays_of("input", "inout", "output"):
        shape = tuple(value_of(size, params) for size in array.shape)
        given = arrays.get(array.name)
        arguments[array.name] = (
            np.full(shape, 77, array.dtype.numpy) if given is None else given.copy()
        )
    shapes = {name: np.shape(value) for name, value in arguments.items()}
    results = run_module(module, kernel.name, arguments)
    return {
        array.name: np.asarray(results[array.name]).reshape(shapes[array.name])
        for array in kernel.arrays_of("inout", "output")
    }


def check(
    module: Module, kernel: Kernel, target: Target, params: Mapping[str, int],
    scalars: Mapping[str, float], *, tolerance: float = 2e-6,
) -> None:  # fmt: skip
    """The module is valid on the chip and gives the kernel's numbers."""
    problems = validate(module, target.data or None)
    assert [f"{p.where}: {p.text}" for p in problems] == []
    arrays = inputs_of(kernel, params)
    wanted = evaluate(kernel, arrays, dict(params), dict(scalars))
    got = run(module, kernel, arrays, params, scalars)
    for name, value in wanted.items():
        if value.dtype.kind == "i":
            np.testing.assert_array_equal(got[name], value, err_msg=name)
            continue
        loose = max(2e-3, tolerance) if value.dtype.itemsize == 2 else tolerance
        np.testing.assert_allclose(
            got[name].astype(np.float64), value.astype(np.float64), rtol=loose, atol=loose,
            err_msg=name,
        )  # fmt: skip


def lowering_of(kernel: Kernel, target: Target) -> Lowering:
    """An empty lowering."""
    return Lowering(kernel, target)
