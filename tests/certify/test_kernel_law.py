"""The law of whole kernels: right results pass, wrong ones do not."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import hal
import hal.dsl
from hal import ops
from hal.ir import evaluate, parse
from hal.testing.kernels import close_kernel, expected

RNG = np.random.default_rng(5)
NORM = hal.layer_norm.ir(hal.spec((8, 500)))
FAR = (1e4 + RNG.standard_normal((8, 500))).astype(np.float32)
NEAR = RNG.standard_normal((8, 500)).astype(np.float32)


def norm(x: np.ndarray[Any, Any], kind: Any, shortcut: bool) -> np.ndarray[Any, Any]:
    x = x.astype(kind)
    mean = x.mean(1, keepdims=True, dtype=kind)
    if shortcut:
        variance = (x * x).mean(1, keepdims=True, dtype=kind) - mean * mean
    else:
        variance = ((x - mean) ** 2).mean(1, keepdims=True, dtype=kind)
    with np.errstate(all="ignore"):
        return ((x - mean) / np.sqrt(variance + kind(1e-5))).astype(np.float32)


@pytest.mark.parametrize(("x", "shortcut"), [(NEAR, False), (FAR, False), (NEAR, True)])
def test_a_right_layer_norm_passes(x: np.ndarray[Any, Any], shortcut: bool) -> None:
    close_kernel({"out": norm(x, np.float32, shortcut)}, expected(NORM, {"x": x}), NORM)


def test_a_layer_norm_that_cancels_is_refused() -> None:
    wanted = expected(NORM, {"x": FAR})
    with pytest.raises(AssertionError, match="out: law kernel"):
        close_kernel({"out": norm(FAR, np.float32, True)}, wanted, NORM)


@pytest.mark.parametrize("kind", [ml_dtypes.bfloat16, np.float16])
def test_arithmetic_in_16_bits_is_refused_for_f32(kind: Any) -> None:
    wanted = expected(NORM, {"x": NEAR})
    with pytest.raises(AssertionError):
        close_kernel({"out": norm(NEAR, kind, False)}, wanted, NORM)


def test_a_sum_without_its_last_term_is_refused() -> None:
    kernel = hal.sum.ir(hal.spec((3, 1000)), 1)
    x = RNG.uniform(0.5, 1.0, (3, 1000)).astype(np.float32)
    wanted = expected(kernel, {"x": x})
    close_kernel({"out": x.sum(1)}, wanted, kernel)
    with pytest.raises(AssertionError, match="3 of 3 elements are wrong"):
        close_kernel({"out": x[:, :-1].sum(1)}, wanted, kernel)


@pytest.mark.parametrize("seed", range(4))
def test_a_running_sum_that_rounds_at_each_step_passes_and_one_that_lost_a_term_does_not(
    seed: int,
) -> None:
    kernel = ops.get("cumsum")
    x = np.random.default_rng(seed).standard_normal((130, 515)).astype(np.float32)
    wanted = expected(kernel, {"X": x})
    close_kernel({"Y": np.cumsum(x, 1, dtype=np.float32)}, wanted, kernel)
    x[:, 200] = 0
    with pytest.raises(AssertionError, match="Y: law kernel"):
        close_kernel({"Y": np.cumsum(x, 1, dtype=np.float32)}, wanted, kernel)


@pytest.mark.parametrize("name", ["f64", "f16", "bf16"])
def test_the_law_follows_the_dtype(name: str) -> None:
    kernel = hal.matmul.ir(hal.spec((5, 64), name), hal.spec((64, 7), name))
    kind = kernel.arrays[0].dtype.numpy
    a, b = (RNG.standard_normal(s).astype(kind) for s in ((5, 64), (64, 7)))
    wide = np.float64 if name == "f64" else np.float32
    right = (a.astype(wide) @ b.astype(wide)).astype(kind)
    wanted = expected(kernel, {"a": a, "b": b})
    close_kernel({"out": right}, wanted, kernel)
    step = 1e-9 if name == "f64" else 4 * float(ml_dtypes.finfo(kind).eps)
    with pytest.raises(AssertionError):
        close_kernel({"out": (right.astype(np.float64) * (1 + step)).astype(kind)}, wanted, kernel)


def test_integers_are_exact() -> None:
    text = "kernel K { param N : int\n input: i32[N] x\n output: i32[N] y\n"
    kernel = parse(text + " operation: y[i] = x[i] * 3 }").kernels[0]
    x = np.arange(9, dtype=np.int32)
    wanted = expected(kernel, {"x": x})
    close_kernel({"y": evaluate(kernel, {"x": x})["y"]}, wanted, kernel)
    with pytest.raises(AssertionError, match="1 of 9"):
        close_kernel({"y": x * 3 + (x == 4)}, wanted, kernel)


def test_a_nan_or_infinity_in_place_of_a_number_is_refused() -> None:
    kernel = hal.softmax.ir(hal.spec((2, 9)))
    x = (RNG.standard_normal((2, 9)) + 100).astype(np.float32)
    wanted = expected(kernel, {"x": x})
    with np.errstate(all="ignore"):
        e = np.exp(x)
        wrong = e / e.sum(1, keepdims=True)
    with pytest.raises(AssertionError):
        close_kernel({"out": wrong}, wanted, kernel)
