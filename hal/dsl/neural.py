"""Operators of neural networks, written with the others as a user would."""

from __future__ import annotations

from typing import Any

from hal.dsl import elementwise as el
from hal.dsl.function import operator
from hal.dsl.indexing import take_along_axis
from hal.dsl.shaping import causal_mask, expand_dims, squeeze
from hal.dsl.tensor import Tensor, apply, refuse

__all__ = ["attention", "gelu", "layer_norm", "relu", "rms_norm", "silu", "softmax"]


@operator(domain="activation")
def relu(x: Tensor) -> Tensor:
    """max(x, 0)."""
    return apply("maximum", x, 0)


@operator(domain="activation")
def leaky_relu(x: Tensor, slope: float = 0.01) -> Tensor:
    """x where x ≥ 0, else slope · x."""
    return apply("where", x >= 0, x, x * slope)


@operator(domain="activation")
def elu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """x where x > 0, else alpha · (eˣ − 1)."""
    return apply("where", x > 0, x, (apply("exp", x) - 1.0) * alpha)


@operator(domain="activation")
def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + e⁻ˣ)."""
    return apply("reciprocal", 1.0 + apply("exp", -x))


@operator(domain="activation")
def silu(x: Tensor) -> Tensor:
    """x · sigmoid(x)."""
    return x / (1.0 + apply("exp", -x))


@operator(domain="activation")
def gelu(x: Tensor, *, approximate: bool = False) -> Tensor:
    """x · Φ(x), with Φ by erf, or by tanh when approximate (Hendrycks and Gimpel 2016)."""
    if approximate:
        inner = (x + x * x * x * 0.044715) * 0.7978845608028654
        return x * 0.5 * (apply("tanh", inner) + 1.0)
    return x * 0.5 * (apply("erf", x * 0.7071067811865476) + 1.0)


@operator(domain="normalisation")
def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """eˣ / Σ eˣ along an axis, shifted by the maximum."""
    weights: Tensor = apply("exp", x - apply("max", x, axis, keepdims=True))
    return weights / apply("sum", weights, axis, keepdims=True)


@operator(domain="normalisation")
def log_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """The logarithm of softmax."""
    shifted = x - apply("max", x, axis, keepdims=True)
    total = apply("sum", apply("exp", shifted), axis, keepdims=True)
    return shifted - apply("log", total)


@operator(domain="normalisation")
def layer_norm(
    x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, *, eps: float = 1e-5
) -> Tensor:
    """(x − mean) / √(variance + eps) along the last axis, times weight, plus bias."""
    centred = x - apply("mean", x, -1, keepdims=True)
    variance = apply("mean", centred * centred, -1, keepdims=True)
    return _scaled(centred * apply("rsqrt", variance + eps), weight, bias)


@operator(domain="normalisation")
def rms_norm(x: Tensor, weight: Tensor | None = None, *, eps: float = 1e-6) -> Tensor:
    """x / √(mean(x²) + eps) along the last axis, times weight."""
    power = apply("mean", x * x, -1, keepdims=True)
    return _scaled(x * apply("rsqrt", power + eps), weight, None)


@operator(domain="normalisation")
def batch_norm(
    x: Tensor,
    mean: Tensor,
    variance: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    eps: float = 1e-5,
) -> Tensor:
    """Inference: (x − mean) / √(variance + eps) per channel (axis 1), times weight, plus bias."""
    after = tuple(range(1, x.ndim - 1))
    parts = [None if p is None else expand_dims(p, after) for p in (mean, variance, weight, bias)]
    if parts[0] is None or parts[1] is None:
        raise refuse("batch_norm", "mean and variance are needed")
    return _scaled((x - parts[0]) * apply("rsqrt", parts[1] + eps), parts[2], parts[3])


def _scaled(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    scaled = x if weight is None else x * weight
    return scaled if bias is None else scaled + bias


@operator(domain="attention")
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """softmax(q · kᵀ · scale) · v over the last two axes (Vaswani et al. 2017).

    Args:
        causal: A query sees no key behind its own place; the last places are aligned.
        scale: 1 / √(width of q) by default.
        mask: bool, broadcast to the scores: true where a query sees a key.
    """
    factor = 1.0 / float(q.shape[-1]) ** 0.5 if scale is None else scale
    scores: Tensor = apply("matmul", q, k.mT) * factor
    if causal:
        seen = causal_mask(q, q.shape[-2], k.shape[-2])
        scores = apply("where", seen, scores, float("-inf"))
    if mask is not None:
        scores = apply("where", mask, scores, float("-inf"))
    return apply("matmul", softmax(scores), v)


@operator(domain="loss")
def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """The mean of −log softmax(logits)[target] over rows: logits (n, classes), targets (n)."""
    if logits.ndim != 2 or targets.ndim != 1:
        raise refuse(
            "cross_entropy", f"{logits!r} and {targets!r}; (n, classes) and (n) are needed"
        )
    picked = take_along_axis(log_softmax(logits), expand_dims(targets, 1))
    return -apply("mean", squeeze(picked, 1))


@operator(domain="optimiser")
def adamw(
    parameter: Tensor,
    gradient: Tensor,
    first: Tensor,
    second: Tensor,
    *,
    rate: Any,
    step: Any,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
    decay: float = 0.01,
) -> tuple[Tensor, Tensor, Tensor]:
    """One step of AdamW (Loshchilov and Hutter 2019): the new parameter and both moments.

    Args:
        rate, step: The learning rate and the number of this step from 1; floats, no recompilation.
    """
    m = first * beta1 + gradient * (1.0 - beta1)
    v = second * beta2 + gradient * gradient * (1.0 - beta2)
    m_hat = m / (1.0 - apply("pow", el.full_like(m, beta1), step))
    v_hat = v / (1.0 - apply("pow", el.full_like(v, beta2), step))
    change = m_hat / (apply("sqrt", v_hat) + eps) + parameter * decay
    return parameter - change * rate, m, v
