"""Kernels as Python functions, each checked against its definition.

python examples/kernels/tour.py [DEVICE]      any port: cpu, sim, sim:hcd/chips/h100.hcd.yaml …
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import hal


@hal.kernel
def matmul(a: Any, b: Any) -> Any:
    return a @ b


@hal.kernel
def softmax(x: Any) -> Any:
    e = hal.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@hal.kernel
def layernorm(x: Any, weight: Any, bias: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    variance = (centred * centred).mean(-1, keepdims=True)
    return centred * hal.rsqrt(variance + 1e-5) * weight + bias


@hal.kernel
def attention(q: Any, k: Any, v: Any) -> Any:
    scores = hal.matmul(q, k.mT) / q.shape[-1] ** 0.5
    return hal.matmul(hal.softmax(scores, axis=-1), v)


@hal.kernel
def block(image: Any, weight: Any, bias: Any) -> Any:
    return hal.relu(hal.conv2d(image, weight, bias, stride=2, padding=1))


@hal.kernel
def lookup(table: Any, tokens: Any) -> Any:
    return table[tokens] * table.shape[-1] ** 0.5


@hal.kernel
def adam(p: Any, gradient: Any, first: Any, second: Any, rate: Any, step: Any) -> Any:
    return hal.adamw(p, gradient, first, second, rate=rate, step=step)


def examples(rng: np.random.Generator) -> list[tuple[Any, tuple[Any, ...]]]:
    """Each kernel with arguments."""

    def values(*shape: int) -> np.ndarray[Any, Any]:
        return rng.uniform(0.25, 1.0, shape).astype(np.float32)

    tokens = rng.integers(0, 50, (4, 9)).astype(np.int32)
    return [
        (matmul, (values(100, 33), values(33, 65))),
        (softmax, (values(17, 130),)),
        (layernorm, (values(17, 130), values(130), values(130))),
        (attention, (values(2, 40, 16), values(2, 40, 16), values(2, 40, 16))),
        (block, (values(2, 3, 15, 15), values(8, 3, 3, 3), values(8))),
        (lookup, (values(50, 24), tokens)),
        (adam, (values(999), values(999), values(999), values(999), 1e-3, 7.0)),
    ]


def main() -> int:
    """Run all; the status is 1 when one is wrong."""
    status = 0
    with hal.open(sys.argv[1] if len(sys.argv) > 1 else "cpu") as device:
        for function, arguments in examples(np.random.default_rng(0)):
            on_device = [device.array(a) if isinstance(a, np.ndarray) else a for a in arguments]
            results, wanted = function(*on_device), function.reference(*arguments)
            many = isinstance(results, tuple)
            pairs = zip(results, wanted, strict=True) if many else [(results, wanted)]
            error = max(float(np.abs(got.numpy() - ref).max()) for got, ref in pairs)
            print(f"{function.name:10} largest error {error:.1e}")
            status |= error > 1e-4
    return status


if __name__ == "__main__":
    sys.exit(main())
