"""An independent NumPy formula for each operator: (arrays in float64 or as they are) -> results."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

Values = dict[str, Any]
Formula = Callable[[Values], Any]

_erf = np.vectorize(math.erf, otypes=[float])


def windows(v: Values, pad: float, sides: tuple[str, ...] = ("R", "S")) -> Any:
    """[B, C, …positions, …window] of the padded X."""
    p, stride = v["pad_width"], v["stride"]
    count = len(sides)
    x = np.pad(v["X"], [(0, 0), (0, 0)] + [(p, p)] * count, constant_values=pad)
    axes = tuple(range(2, 2 + count))
    found = sliding_window_view(x, [v[side] for side in sides], axis=axes)
    return found[(slice(None), slice(None)) + (slice(None, None, stride),) * count]


def conv(v: Values, sides: tuple[str, ...]) -> Any:
    """Grouped convolution of one or two axes, group by group."""
    w = windows(v, 0, sides)
    xs = np.split(w, v["G"], 1)
    ks = np.split(v["K"], v["G"], 0)
    form = "bdxr,fdr->bfx" if len(sides) == 1 else "bdyxrs,fdrs->bfyx"
    return np.concatenate([np.einsum(form, x, k) for x, k in zip(xs, ks, strict=True)], 1)


def softmax(x: Any, axis: int = -1) -> Any:
    """By its definition, shifted."""
    with np.errstate(invalid="ignore"):
        e = np.exp(x - x.max(axis, keepdims=True, initial=-np.inf))
    return e / e.sum(axis, keepdims=True)


def normal(x: Any, axes: Any, eps: float) -> Any:
    """Mean 0 and variance 1 along axes."""
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def heads(v: Values, *, causal: bool, repeat: int = 1) -> Any:
    """Attention head by head."""
    out = []
    for h in range(v["Q"].shape[0]):
        k, w = v["K"][h // repeat], v["V"][h // repeat]
        z = v["Q"][h] @ k.T * v["scale"]
        if causal:
            z = np.where(np.tri(*z.shape, dtype=bool), z, -np.inf)
        out.append(softmax(z) @ w)
    return np.array(out).reshape(v["Q"].shape)


def rows(x: Any, t: Any) -> Any:
    """x[i, t[i]]."""
    return np.take_along_axis(x, t[:, None].astype(np.int64), 1)[:, 0]


def one_hot(t: Any, count: int) -> Any:
    """A one at each position."""
    return (t[:, None] == np.arange(count)).astype(float)


def scattered(v: Values) -> Any:
    """Rows added one by one."""
    y = v["Y"].copy()
    for n, row in enumerate(v["t"]):
        y[row] += v["X"][n]
    return y


def sgd(v: Values) -> Any:
    """Weights and velocity."""
    velocity = v["momentum"] * v["velocity"] + v["G"] + v["decay"] * v["W"]
    return {"W": v["W"] - v["rate"] * velocity, "velocity": velocity}


def adamw(v: Values) -> Any:
    """Weights and moments."""
    m = v["beta1"] * v["m"] + (1 - v["beta1"]) * v["G"]
    w = v["beta2"] * v["v"] + (1 - v["beta2"]) * v["G"] ** 2
    m_hat, v_hat = m / (1 - v["beta1"] ** v["step"]), w / (1 - v["beta2"] ** v["step"])
    decayed = v["W"] * (1 - v["rate"] * v["decay"])
    return {"W": decayed - v["rate"] * m_hat / (np.sqrt(v_hat) + v["eps"]), "m": m, "v": w}


def uniform(v: Values) -> Any:
    """Philox4x32-10 in Python's integers."""
    mask = 2**32 - 1
    out = []
    for i in range(v["N"]):
        c = [i // 4 & mask, i // 4 >> 32, v["offset"] & mask, v["offset"] >> 32]
        key = [v["seed"] & mask, v["seed"] >> 32]
        for _ in range(10):
            a, b = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
            c = [(b >> 32) ^ c[1] ^ key[0], b & mask, (a >> 32) ^ c[3] ^ key[1], a & mask]
            key = [(key[0] + 0x9E3779B9) & mask, (key[1] + 0xBB67AE85) & mask]
        out.append((c[i % 4] >> 8) / 2**24)
    return np.array(out)


def rope(v: Values) -> Any:
    """As a product of complex numbers."""
    d = v["D"]
    z = v["X"][..., :d] + 1j * v["X"][..., d:]
    turned = z * (v["cosine"] + 1j * v["sine"])[:, None, :]
    return np.concatenate([turned.real, turned.imag], -1)


def groupnorm(v: Values) -> Any:
    """Group by group."""
    x = v["X"].reshape(v["B"], v["G"], v["D"] * v["H"] * v["W"])
    y = normal(x, 2, v["eps"]).reshape(v["X"].shape)
    return y * v["gamma"][:, None, None] + v["beta"][:, None, None]


def channel(a: Any) -> Any:
    """A vector along the channels of an image."""
    return a[:, None, None]


def positions(x: Any, descending: bool) -> Any:
    """Stable order of each row, by Python's sort; without NaN."""
    rank = [sorted(range(len(r)), key=lambda j, r=r: -r[j] if descending else r[j]) for r in x]
    return np.array(rank, np.int64).reshape(x.shape)


def taken(x: Any, order: Any) -> Any:
    """Values and positions."""
    return {"V": np.take_along_axis(x, order, 1), "P": order}


FORMULAS: dict[str, Formula] = {
    "matmul": lambda v: v["A"] @ v["B"],
    "matmul_nt": lambda v: v["A"] @ v["B"].T,
    "matmul_tn": lambda v: v["A"].T @ v["B"],
    "matmul_i8": lambda v: v["A"].astype(np.int32) @ v["B"].astype(np.int32),
    "matvec": lambda v: v["A"] @ v["x"],
    "dot": lambda v: v["x"] @ v["y"],
    "outer": lambda v: np.outer(v["x"], v["y"]),
    "batched_matmul": lambda v: v["X"] @ v["Y"],
    "linear": lambda v: v["X"] @ v["W"].T + v["b"],
    "linear_gelu": lambda v: FORMULAS["gelu"]({"X": v["X"] @ v["W"].T + v["b"]}),
    "conv1d": lambda v: conv(v, ("R",)),
    "conv2d": lambda v: conv(v, ("R", "S")),
    "conv2d_plain": lambda v: conv(v | {"G": 1, "stride": 1, "pad_width": 0}, ("R", "S")),
    "depthwise_conv2d": lambda v: np.einsum("bcyxrs,crs->bcyx", windows(v, 0), v["K"]),
    "max_pool2d": lambda v: windows(v, -np.inf).max((-1, -2)),
    "avg_pool2d": lambda v: windows(v, 0).mean((-1, -2)),
    "global_avg_pool": lambda v: v["X"].mean((2, 3)),
    "upsample2d": lambda v: v["X"].repeat(2, 2).repeat(2, 3),
    "softmax": lambda v: softmax(v["X"]),
    "log_softmax": lambda v: np.log(softmax(v["X"])),
    "layernorm": lambda v: normal(v["X"], 1, v["eps"]) * v["gamma"] + v["beta"],
    "rmsnorm": lambda v: (
        v["X"] / np.sqrt((v["X"] ** 2).mean(1, keepdims=True) + v["eps"]) * v["gamma"]
    ),
    "batchnorm": lambda v: (
        (v["X"] - channel(v["mean"]))
        / np.sqrt(channel(v["variance"]) + v["eps"])
        * channel(v["gamma"])
        + channel(v["beta"])
    ),
    "groupnorm": groupnorm,
    "relu": lambda v: v["X"] * (v["X"] > 0),
    "relu6": lambda v: np.clip(v["X"], 0, 6),
    "leaky_relu": lambda v: np.where(v["X"] > 0, 1, v["slope"]) * v["X"],
    "elu": lambda v: np.where(v["X"] > 0, v["X"], v["alpha"] * np.expm1(v["X"])),
    "sigmoid": lambda v: 0.5 + 0.5 * np.tanh(v["X"] / 2),
    "silu": lambda v: v["X"] * (0.5 + 0.5 * np.tanh(v["X"] / 2)),
    "tanh": lambda v: np.tanh(v["X"]),
    "gelu": lambda v: v["X"] * (1 + _erf(v["X"] / math.sqrt(2))) / 2,
    "gelu_tanh": lambda v: (
        v["X"] / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (v["X"] + 0.044715 * v["X"] ** 3)))
    ),
    "softplus": lambda v: np.logaddexp(0, v["X"]),
    "swiglu": lambda v: FORMULAS["silu"]({"X": v["X"][:, : v["N"]]}) * v["X"][:, v["N"] :],
    "add": lambda v: v["A"] + v["B"],
    "sub": lambda v: v["A"] - v["B"],
    "mul": lambda v: v["A"] * v["B"],
    "div": lambda v: v["A"] / v["B"],
    "add_row": lambda v: v["X"] + v["b"],
    "axpy": lambda v: v["y"] + v["a"] * v["x"],
    "clamp": lambda v: np.clip(v["X"], v["low"], v["high"]),
    "where": lambda v: np.where(v["c"], v["A"], v["B"]),
    "equal": lambda v: v["A"] == v["B"],
    "less": lambda v: v["A"] < v["B"],
    "isfinite": lambda v: np.isfinite(v["X"]),
    "exp": lambda v: np.exp(v["X"]),
    "log": lambda v: np.log(v["X"]),
    "sqrt": lambda v: np.sqrt(v["X"]),
    "pow": lambda v: np.exp(np.log(v["A"]) * v["B"]),
    "round": lambda v: np.round(v["X"]),
    "cast": lambda v: v["X"].astype(np.float16),
    "reduce_sum": lambda v: v["X"].sum(1),
    "reduce_sum_rows": lambda v: v["X"].sum(0),
    "reduce_sum_all": lambda v: v["X"].sum(),
    "reduce_prod": lambda v: v["X"].prod(1),
    "reduce_max": lambda v: v["X"].max(1),
    "reduce_min": lambda v: v["X"].min(1),
    "reduce_mean": lambda v: v["X"].mean(1),
    "reduce_var": lambda v: v["X"].var(1),
    "reduce_any": lambda v: v["X"].any(1),
    "reduce_all": lambda v: v["X"].all(1),
    "reduce_axes": lambda v: v["X"].sum((0, 2)),
    "logsumexp": lambda v: np.logaddexp.reduce(v["X"], 1),
    "argmax": lambda v: v["X"].argmax(1),
    "argmin": lambda v: v["X"].argmin(1),
    "transpose": lambda v: v["X"].T,
    "permute": lambda v: v["X"].transpose(2, 0, 1),
    "slice": lambda v: v["X"][v["top"] :: v["step"], v["left"] :: v["step"]][: v["M"], : v["N"]],
    "pad": lambda v: np.pad(v["X"], [(v["top"], v["bottom"]), (v["left"], v["right"])]),
    "flip": lambda v: v["X"][::-1],
    "roll": lambda v: np.roll(v["X"], v["shift"], 1),
    "tile": lambda v: np.tile(v["x"], (v["M"], 1)),
    "concat": lambda v: np.hstack([v["A"], v["B"]]),
    "concat_many": lambda v: np.vstack([v["X0"], v["X1"], v["X2"]]),
    "tril": lambda v: np.tril(v["X"]),
    "iota": lambda v: np.arange(v["N"]),
    "one_hot": lambda v: one_hot(v["t"], v["N"]),
    "gather": lambda v: v["X"][v["t"]],
    "gather_elements": lambda v: np.take_along_axis(v["X"], v["t"].astype(np.int64), 1),
    "scatter_add": scattered,
    "embedding": lambda v: v["table"][v["t"]],
    "topk": lambda v: taken(v["X"], positions(v["X"], True)[:, : v["R"]]),
    "sort": lambda v: taken(v["X"], positions(v["X"], False)),
    "cumsum": lambda v: v["X"].cumsum(1),
    "cumsum_exclusive": lambda v: v["X"].cumsum(1) - v["X"],
    "cumprod": lambda v: v["X"].cumprod(1),
    "cummax": lambda v: np.maximum.accumulate(v["X"][:, ::-1], 1)[:, ::-1],
    "dropout": lambda v: np.where(uniform(v) < v["p"], 0, v["X"] / (1 - v["p"])),
    "uniform": uniform,
    "attention": lambda v: heads(v, causal=False),
    "causal_attention": lambda v: heads(v, causal=True),
    "grouped_attention": lambda v: heads(v, causal=True, repeat=v["R"]),
    "rope": rope,
    "cross_entropy": lambda v: -np.log(rows(softmax(v["X"]), v["t"])),
    "cross_entropy_gradient": lambda v: (
        (softmax(v["X"]) - one_hot(v["t"], v["N"])) / max(v["M"], 1)
    ),
    "mse_loss": lambda v: ((v["X"] - v["T"]) ** 2).mean(),
    "sgd": sgd,
    "adamw": adamw,
    "quantize": lambda v: np.clip(np.round(v["X"] / v["scale"][:, None]), -128, 127),
    "dequantize": lambda v: v["Q"] * v["scale"][:, None],
}
