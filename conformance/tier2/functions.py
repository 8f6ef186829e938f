"""Kernels that are written as Python functions, as a framework's user writes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hal
from hal.testing import case
from hal.testing.compute import Lab
from hal.testing.kernels import close_kernel, expected
from hal.testing.tolerance import Numerics


def mlp(x: Any, w1: Any, b1: Any, w2: Any) -> Any:
    return hal.gelu(x @ w1 + b1) @ w2 + x


def block(x: Any, wq: Any, wk: Any, wv: Any, gain: Any) -> Any:
    y = hal.rms_norm(x, gain)
    q, k, v = (hal.reshape(y @ w, (y.shape[0], 2, w.shape[1] // 2)) for w in (wq, wk, wv))
    heads = [hal.permute_dims(part, (1, 0, 2)) for part in (q, k, v)]
    seen = hal.attention(*heads, causal=True)
    return x + hal.reshape(hal.permute_dims(seen, (1, 0, 2)), x.shape)


def rotary(x: Any, angle: Any) -> Any:
    half = x.shape[-1] // 2
    low, high = x[:, :half], x[:, half:]
    cos, sin = hal.cos(angle), hal.sin(angle)
    return hal.concat([low * cos - high * sin, high * cos + low * sin], axis=1)


def router(scores: Any) -> Any:
    weights, experts = hal.topk(scores, 2)
    return hal.softmax(weights), experts


def train(x: Any, w: Any, target: Any, rate: Any) -> Any:
    error = x @ w - target
    return w - x.T @ error * (rate / x.shape[0]), hal.mean(error * error)


def histogram(tokens: Any, values: Any) -> Any:
    return hal.scatter_add(9, tokens, values)


def image(x: Any, w: Any, b: Any) -> Any:
    return hal.max_pool2d(hal.relu(hal.conv2d(x, w, b, padding=1)), 2)


def loss(x: Any, labels: Any) -> Any:
    return hal.cross_entropy(x, labels)


def window(x: Any) -> Any:
    return x[1:, ::2] - x[:-1, ::2] + hal.flip(x, 1)[:-1, ::2]


def spread(x: Any) -> Any:
    return (x - hal.mean(x, 0)) / hal.std(x, 0), hal.max(x), hal.argmax(x, 1)


F, T = "f32", "i32"
FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "mlp": (mlp, ((F, 9, 12), (F, 12, 20), (F, 20), (F, 20, 12))),
    "block": (block, ((F, 11, 8), *[(F, 8, 8)] * 3, (F, 8))),
    "rotary": (rotary, ((F, 7, 16), (F, 7, 8))),
    "router": (router, ((F, 6, 8),)),
    "train": (train, ((F, 21, 10), (F, 10, 4), (F, 21, 4), 0.125)),
    "histogram": (histogram, ((T, 30), (F, 30, 5))),
    "image": (image, ((F, 1, 3, 8, 8), (F, 4, 3, 3, 3), (F, 4))),
    "loss": (loss, ((F, 8, 9), (T, 8))),
    "window": (window, ((F, 9, 14),)),
    "spread": (spread, ((F, 12, 17),)),
}


def arguments_of(shapes: tuple[Any, ...], rng: np.random.Generator, scale: int) -> list[Any]:
    """Return arrays of these dtypes and shapes, and scalars as they are."""
    found: list[Any] = []
    for item in shapes:
        if isinstance(item, float):
            found.append(item)
        elif item[0] == T:
            found.append(rng.integers(0, 8, item[1:]).astype(np.int32))
        else:
            found.append((rng.standard_normal(item[1:]) * scale).astype(np.float32))
    return found


@case(rules=["HAL-VIL-041"], operator="function")
@pytest.mark.parametrize("scale", [1, 4])
@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_function_gives_the_numbers_of_its_definition(
    lab: Lab, rng: np.random.Generator, numerics: Numerics, name: str, scale: int
) -> None:
    body, shapes = FUNCTIONS[name]
    arguments = arguments_of(shapes, rng, scale)
    trace = hal.kernel(name=name)(body).trace(*arguments)
    arrays, params, scalars = trace.bound(arguments)
    results = lab.compute(trace.kernel, arrays, params, scalars)
    wanted = expected(trace.kernel, arrays, params, scalars)
    close_kernel(results, wanted, trace.kernel, numerics=numerics)
