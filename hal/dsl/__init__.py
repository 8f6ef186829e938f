"""Kernels as Python functions: NumPy's names on tensors, traced to the tensor IR.

    @hal.kernel
    def attention(q, k, v):
        scores = hal.matmul(q, k.T) / q.shape[-1] ** 0.5
        return hal.matmul(hal.softmax(scores, axis=-1), v)

    out = attention(q, k, v)            # arrays of a device
    print(hal.ir.show(attention.ir(q, k, v)))

docs/write-a-kernel.md is the guide. Every operator is an attribute here and of `hal`.
"""

from __future__ import annotations

from typing import Any

from hal.dsl import elementwise, indexing, neural, products, reductions, shaping, windows
from hal.dsl.function import OPERATORS, Function, kernel, operator
from hal.dsl.tensor import Tensor
from hal.dsl.trace import Spec, spec

__all__ = ["OPERATORS", "Function", "Spec", "Tensor", "kernel", "operator", "spec"]

_MODULES = (elementwise, indexing, neural, products, reductions, shaping, windows)


def __getattr__(name: str) -> Any:
    if name in OPERATORS:
        return OPERATORS[name]
    raise AttributeError(f"module 'hal.dsl' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *OPERATORS})
