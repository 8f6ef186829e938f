"""Kernels of the tensor IR, compiled for a chip with the explicit profile."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import hal.codegen
from hal.ir import parse
from hal.ir.nodes import Schedule
from hal.vil.expressions import evaluate
from hal.vil.module import Module
from tests.codegen.explicit.port import Chip

KERNELS = parse("""
kernel Product {
  param M, N, K : int
  input: f32[M,K] A, f32[K,N] B
  output: f32[M,N] C
  operation: C[i,j] += A[i,k] * B[k,j]
}
kernel Layer {
  param M, N, K : int
  input: f16[M,K] A, f16[K,N] B, f16[N] b
  output: f16[M,N] C
  temp: f32[M,N] T
  operation: T[i,j] += A[i,k] * B[k,j]; C[i,j] = max(T[i,j] + b[j], 0.0)
}
kernel Softmax {
  param M, N : int
  input: f32[M,N] X
  output: f32[M,N] Y
  temp: f32[M] m, f32[M] s
  operation: m[i] max= X[i,j]; s[i] += exp(X[i,j] - m[i]); Y[i,j] = exp(X[i,j] - m[i]) / s[i]
}
kernel Columns {
  param M, N : int
  input: f32[M,N] X
  output: f32[N] Y
  operation: Y[j] += X[i,j]
}
kernel Convolution {
  param H, W, C, F : int
  index di, dj : 3
  input: f32[H,W,C] X, f32[3,3,C,F] K
  output: f32[H,W,F] Y
  operation: Y[i,j,f] += X[i+di-1,j+dj-1,c] pad 0 * K[di,dj,c,f]
}
kernel Rows {
  param M, N, R : int
  input: f32[R,N] X, i32[M] t
  output: f32[M,N] Y
  operation: Y[i,j] = X[t[i], j]
}
""").kernels
SIZES = {"M": 150, "N": 90, "K": 600, "H": 9, "W": 11, "C": 40, "F": 7, "R": 12}


def called_main(module: Module) -> Module:
    """The module with its kernel under the name that `Chip.run` launches."""
    return replace(module, kernels=(replace(module.kernels[0], name="main"),))


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_compiled_kernels_are_explicit_without_a_race(chip: Chip, kernel: Any) -> None:
    compiled = hal.codegen.compile(kernel, chip.hcd, sizes=SIZES)
    assert compiled.notes == ()
    assert "explicit" in [program.profile for program in compiled.module.programs]
    source = np.random.default_rng(11)
    arguments: dict[str, Any] = {}
    for item in compiled.module.kernels[0].arguments:
        if item.kind == "symbol":
            arguments[item.name] = SIZES[item.name]
        else:
            assert item.dtype is not None and item.required_bytes is not None
            count = evaluate(item.required_bytes, SIZES) // item.dtype.bytes
            arguments[item.name] = source.integers(0, 4, count).astype(item.dtype.numpy)
    found = chip.run(called_main(compiled.module), arguments)
    wanted = chip.run(called_main(compiled.flat), arguments)
    for name, array in wanted.items():
        assert np.array_equal(found[name], array), name


@pytest.mark.parametrize(("stages", "copies"), [(1, 1), (2, 2), (3, 3)])
def test_a_schedule_chooses_the_stages(chip: Chip, stages: int, copies: int) -> None:
    schedule = Schedule("Product", chip.name, stages=stages)
    compiled = hal.codegen.compile(KERNELS[0], chip.hcd, sizes=SIZES, schedule=schedule)
    (program,) = compiled.module.programs
    assert max(tile.stages for tile in program.tiles) == copies
