"""Uses of the operators, each with the result by NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

RNG = np.random.default_rng(7)


def floats(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.uniform(0.25, 2.0, shape).astype(np.float32)


def integers(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.integers(-9, 9, shape).astype(np.int32)


X, Y, ROW, COLUMN = floats(4, 6), floats(4, 6), floats(6), floats(4, 1)
SIGNED = floats(4, 6) - np.float32(1.0)
INTS, J = integers(4, 6), integers(4, 6)
B, C = RNG.random((4, 6)) > 0.5, RNG.random((4, 6)) > 0.5
erf = np.vectorize(math.erf)


def softmax(x: np.ndarray[Any, Any], axis: int = -1) -> np.ndarray[Any, Any]:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def convolution(
    x: np.ndarray[Any, Any],
    w: np.ndarray[Any, Any],
    stride: int,
    pad: int,
    dilation: int,
    groups: int,
) -> np.ndarray[Any, Any]:
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    n, _, h, width = x.shape
    f, each, r, s = w.shape
    rows = (h - dilation * (r - 1) - 1) // stride + 1
    columns = (width - dilation * (s - 1) - 1) // stride + 1
    y = np.zeros((n, f, rows, columns))
    for out, i, j in np.ndindex(f, rows, columns):
        first = out // (f // groups) * each
        part = x[
            :,
            first : first + each,
            i * stride : i * stride + dilation * (r - 1) + 1 : dilation,
            j * stride : j * stride + dilation * (s - 1) + 1 : dilation,
        ]
        y[:, out, i, j] = (part * w[out]).sum((1, 2, 3))
    return y


UNARY = {
    "negative": np.negative, "abs": np.abs, "exp": np.exp, "exp2": np.exp2, "log": np.log,
    "log2": np.log2, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x),
    "reciprocal": np.reciprocal, "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "erf": erf,
    "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": np.round, "isnan": np.isnan,
    "isinf": np.isinf, "square": np.square,
}  # fmt: skip
BINARY = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide,
    "maximum": np.maximum, "minimum": np.minimum, "pow": np.power, "fmod": np.fmod,
    "less": np.less, "less_equal": np.less_equal, "greater": np.greater,
    "greater_equal": np.greater_equal, "equal": np.equal, "not_equal": np.not_equal,
    "floor_divide": np.floor_divide, "remainder": np.remainder,
}  # fmt: skip
INTEGER = {
    "floor_divide": lambda x, y: np.where(y == 0, 0, x // np.where(y == 0, 1, y)),
    "remainder": lambda x, y: np.where(y == 0, 0, x % np.where(y == 0, 1, y)),
    "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor,
    "bitwise_left_shift": lambda x, y: x << (y & 31),
    "bitwise_right_shift": lambda x, y: x >> (y & 31),
}  # fmt: skip
LOGIC = {
    "logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor,
    "bitwise_and": np.logical_and, "bitwise_or": np.logical_or, "bitwise_xor": np.logical_xor,
}  # fmt: skip
A3, W3, BIAS = floats(2, 3, 7, 7), floats(4, 3, 3, 3), floats(4)
DEEP = floats(6, 1, 3, 3)
PICKS, CLASSES = np.array([3, 0, 3], np.int32), np.array([1, 0, 5, 2], np.int32)
Q, K, V = floats(2, 5, 4), floats(2, 7, 4), floats(2, 7, 3)

Case = tuple[str, tuple[Any, ...], dict[str, Any], Any]
CASES: list[Case] = [
    *((name, (X,), {}, f(X)) for name, f in UNARY.items()),
    *((name, (X, Y), {}, f(X, Y)) for name, f in BINARY.items()),
    *((name, (X, ROW), {}, f(X, ROW)) for name, f in BINARY.items()),
    *((name, (INTS, J), {}, f(INTS, J)) for name, f in INTEGER.items()),
    *((name, (B, C), {}, f(B, C)) for name, f in LOGIC.items()),
    ("add", (COLUMN, ROW), {}, COLUMN + ROW),
    ("where", (B, X, Y), {}, np.where(B, X, Y)),
    ("where", (B, X, 0.5), {}, np.where(B, X, 0.5)),
    ("astype", (X * 5, "i32"), {}, (X * 5).astype(np.int32)),
    ("astype", (X, "f16"), {}, X.astype(np.float16)),
    ("sign", (INTS,), {}, np.sign(INTS)),
    ("clip", (X, 0.5, 1.5), {}, np.clip(X, 0.5, 1.5)),
    ("logical_not", (B,), {}, ~B),
    ("sum", (X,), {}, X.sum()),
    ("sum", (X, 0), {}, X.sum(0)),
    ("sum", (X, (0, 1)), {"keepdims": True}, X.sum(keepdims=True)),
    ("sum", (INTS, -1), {}, INTS.sum(-1)),
    ("prod", (X, 1), {}, X.prod(1)),
    ("max", (X, 1), {"keepdims": True}, X.max(1, keepdims=True)),
    ("min", (INTS, 0), {}, INTS.min(0)),
    ("mean", (X, 1), {}, X.mean(1)),
    ("var", (X, 1), {}, X.var(1)),
    ("var", (X, 1), {"correction": 1}, X.var(1, ddof=1)),
    ("std", (X, None), {}, X.std()),
    ("any", (B, 0), {}, B.any(0)),
    ("all", (B, 1), {}, B.all(1)),
    ("argmax", (X, 1), {}, X.argmax(1)),
    ("argmin", (X, 0), {}, X.argmin(0)),
    ("argmax", (X,), {}, X.argmax()),
    ("cumulative_sum", (X, 1), {}, X.cumsum(1)),
    ("cumulative_sum", (X, 0), {"reverse": True}, X[::-1].cumsum(0)[::-1]),
    ("cumulative_sum", (X, 1), {"exclusive": True}, X.cumsum(1) - X),
    ("cumulative_prod", (X, 0), {}, X.cumprod(0)),
    ("sort", (X, 0), {}, np.sort(X, 0)),
    ("sort", (X,), {"descending": True}, -np.sort(-X, -1)),
    ("argsort", (X, 1), {}, np.argsort(X, 1, kind="stable")),
    ("matmul", (X, floats(6, 5)), {}, ...),
    ("matmul", (floats(2, 1, 4, 6), floats(3, 6, 5)), {}, ...),
    ("matmul", (ROW, floats(6, 5)), {}, ...),
    ("matmul", (X, ROW), {}, ...),
    ("linear", (X, floats(3, 6), floats(3)), {}, lambda x, w, b: x @ w.T + b),
    ("conv2d", (A3, W3, BIAS), {},
     lambda x, w, b: convolution(x, w, 1, 0, 1, 1) + b[:, None, None]),
    ("conv2d", (A3, W3), {"stride": 2, "padding": 1}, lambda x, w: convolution(x, w, 2, 1, 1, 1)),
    ("conv2d", (A3, DEEP), {"groups": 3}, lambda x, w: convolution(x, w, 1, 0, 1, 3)),
    ("conv2d", (A3, W3), {"dilation": 2, "padding": 2}, lambda x, w: convolution(x, w, 1, 2, 2, 1)),
    ("conv1d", (A3[:, :, 0], W3[:, :, 0]), {},
     lambda x, w: convolution(x[:, :, None], w[:, :, None], 1, 0, 1, 1)[:, :, 0]),
    ("max_pool2d", (A3, 3), {"stride": 2},
     np.lib.stride_tricks.sliding_window_view(A3, (3, 3), (2, 3))[:, :, ::2, ::2].max((4, 5))),
    ("avg_pool2d", (A3, 3), {"stride": 2},
     np.lib.stride_tricks.sliding_window_view(A3, (3, 3), (2, 3))[:, :, ::2, ::2].mean((4, 5))),
    ("permute_dims", (A3, (2, 0, 3, 1)), {}, A3.transpose(2, 0, 3, 1)),
    ("matrix_transpose", (A3,), {}, A3.swapaxes(2, 3)),
    ("expand_dims", (X, (0, 2)), {}, X[None, :, None]),
    ("squeeze", (COLUMN,), {}, COLUMN[:, 0]),
    ("broadcast_to", (ROW, (3, 6)), {}, np.broadcast_to(ROW, (3, 6))),
    ("flip", (X, 1), {}, X[:, ::-1]),
    ("reshape", (X, (2, 2, 6)), {}, X.reshape(2, 2, 6)),
    ("reshape", (X, (3, 8)), {}, X.reshape(3, 8)),
    ("reshape", (X, -1), {}, X.reshape(-1)),
    ("concat", ([X, Y], 1), {}, np.concatenate([X, Y], 1)),
    ("stack", ([X, Y], 1), {}, np.stack([X, Y], 1)),
    ("pad", (X, ((1, 0), (2, 3)), 7.0), {}, np.pad(X, ((1, 0), (2, 3)), constant_values=7.0)),
    ("tril", (X,), {}, np.tril(X)),
    ("triu", (X, 1), {}, np.triu(X, 1)),
    ("take", (X, PICKS), {}, X[PICKS]),
    ("take", (X, CLASSES, 1), {}, X[:, CLASSES]),
    ("take_along_axis", (X, np.abs(INTS) % 6), {}, lambda x, i: np.take_along_axis(x, i, 1)),
    ("embedding", (X, PICKS), {}, X[PICKS]),
    ("scatter_add", (5, PICKS, X[:3]), {},
     lambda n, i, u: np.array([u[i == r].sum(0) for r in range(n)])),
    ("one_hot", (PICKS, 4), {}, np.eye(4)[PICKS]),
    ("relu", (SIGNED,), {}, np.maximum(SIGNED, 0)),
    ("leaky_relu", (SIGNED,), {}, np.where(SIGNED >= 0, SIGNED, SIGNED * 0.01)),
    ("elu", (SIGNED,), {}, np.where(SIGNED > 0, SIGNED, np.exp(SIGNED) - 1)),
    ("sigmoid", (SIGNED,), {}, 1 / (1 + np.exp(-SIGNED))),
    ("silu", (SIGNED,), {}, SIGNED / (1 + np.exp(-SIGNED))),
    ("gelu", (SIGNED,), {}, 0.5 * SIGNED * (1 + erf(SIGNED / math.sqrt(2)))),
    ("gelu", (SIGNED,), {"approximate": True},
     0.5 * SIGNED * (1 + np.tanh(math.sqrt(2 / math.pi) * (SIGNED + 0.044715 * SIGNED**3)))),
    ("softmax", (X,), {}, softmax(X)),
    ("softmax", (X, 0), {}, softmax(X, 0)),
    ("log_softmax", (X,), {}, np.log(softmax(X))),
    ("layer_norm", (X, ROW, ROW), {},
     (X - X.mean(-1, keepdims=True)) / np.sqrt(X.var(-1, keepdims=True) + 1e-5) * ROW + ROW),
    ("rms_norm", (X, ROW), {}, X / np.sqrt((X**2).mean(-1, keepdims=True) + 1e-6) * ROW),
    ("batch_norm", (A3, *(floats(3) for _ in range(4))), {}, lambda x, m, v, w, b: (
        (x - m[:, None, None]) / np.sqrt(v[:, None, None] + 1e-5) * w[:, None, None]
        + b[:, None, None])),
    ("attention", (Q, K, V), {},
     lambda q, k, v: softmax(q @ k.swapaxes(1, 2) / 2) @ v),
    ("attention", (Q, K, V), {"causal": True}, lambda q, k, v: softmax(
        np.where(np.tri(5, 7, 2, bool), q @ k.swapaxes(1, 2) / 2, -np.inf)) @ v),
    ("cross_entropy", (X, CLASSES), {}, lambda x, t: -np.log(softmax(x))[np.arange(4), t].mean()),
]  # fmt: skip
IDS = [f"{case[0]}_{number}" for number, case in enumerate(CASES)]
