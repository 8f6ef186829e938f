"""Kernels of the tensor IR: every pass on and off gives the numbers of the definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hal.ir import parse
from hal.ir.nodes import Kernel
from hal.ir.passes import NAMES
from hal.testing import case
from hal.testing.compute import Lab
from hal.testing.inputs import floats, small
from hal.testing.kernels import close_kernel, expected
from hal.testing.tolerance import Numerics

PROGRAMS: dict[str, tuple[str, dict[str, int]]] = {
    "chain": (
        """
        param M, N : int  scalar f32 a
        input: f32[M, N] x, f32[N] b  output: f32[M, N] y  temp: f32[M, N] t, f32[M, N] u
        operation: t[i, j] = x[i, j] * a + b[j]
        operation: u[i, j] = tanh(t[i, j]) * 1.0 + 0.0
        operation: y[i, j] = max(u[i, j], t[i, j] * 0.5) - x[i, j]
        """,
        {"M": 13, "N": 70},
    ),
    "shared": (
        """
        param M, N : int
        input: f32[M, N] x  output: f32[M, N] y, f32[M] s  temp: f32[M, N] e
        operation: e[i, j] = exp(x[i, j] * 0.25)
        operation: s[i] += e[i, j]
        operation: y[i, j] = e[i, j] / s[i] + exp(x[i, j] * 0.25)
        """,
        {"M": 9, "N": 67},
    ),
    "softmax": (
        """
        param M, N : int
        input: f32[M, N] x  output: f32[M, N] y  temp: f32[M] m, f32[M, N] e, f32[M] s
        operation: m[i] max= x[i, j] * 40.0
        operation: e[i, j] = exp(x[i, j] * 40.0 - m[i])
        operation: s[i] += e[i, j]
        operation: y[i, j] = e[i, j] / s[i]
        """,
        {"M": 7, "N": 131},
    ),
    "layernorm": (
        """
        param M, N : int
        input: f32[M, N] x, f32[N] g  output: f32[M, N] y
        temp: f32[M] s, f32[M, N] c, f32[M] v
        operation: s[i] += x[i, j] + 10000.0
        operation: c[i, j] = x[i, j] + 10000.0 - s[i] / f32(N)
        operation: v[i] += c[i, j] * c[i, j]
        operation: y[i, j] = c[i, j] * rsqrt(v[i] / f32(N) + 0.00001) * g[j]
        """,
        {"M": 6, "N": 99},
    ),
    "transposes": (
        """
        param M, N : int
        input: f32[M, N] x  output: f32[N, M] y  temp: f32[N, M] t, f32[M, N] u
        operation: t[j, i] = x[i, j]
        operation: u[i, j] = t[j, i] * 2.0
        operation: y[j, i] = u[i, j] + t[j, i]
        """,
        {"M": 21, "N": 34},
    ),
    "product": (
        """
        param M, N, K : int
        input: f32[M, K] a, f32[K, N] b, f32[N] c  output: f32[M, N] y  temp: f32[M, N] t
        operation: t[i, j] += a[i, k] * b[k, j]
        operation: y[i, j] = max(t[i, j] + c[j], 0.0)
        """,
        {"M": 19, "N": 37, "K": 45},
    ),
    "chained products": (
        """
        param M, N, K : int
        input: f32[M, K] a, f32[N, K] b, f32[N, K] c  output: f32[M, K] y
        temp: f32[M, N] t, f32[M, N] u
        operation: t[i, j] += a[i, k] * b[j, k]
        operation: u[i, j] = t[i, j] * 0.125
        operation: y[i, k] += u[i, j] * c[j, k]
        """,
        {"M": 11, "N": 23, "K": 18},
    ),
    "attention": (
        """
        param B, M, N, D : int
        input: f32[B, M, D] q, f32[B, N, D] k, f32[B, N, D] v  output: f32[B, M, D] o
        temp: f32[B, M, N] t, f32[B, M] m, f32[B, M, N] e, f32[B, M] s, f32[B, M, N] p
        operation: t[b, i, j] += q[b, i, d] * k[b, j, d]
        operation: m[b, i] max= where(j <= i, t[b, i, j] * 0.25, -inf)
        operation: e[b, i, j] = exp(where(j <= i, t[b, i, j] * 0.25, -inf) - m[b, i])
        operation: s[b, i] += e[b, i, j]
        operation: p[b, i, j] = e[b, i, j] / s[b, i]
        operation: o[b, i, d] += p[b, i, j] * v[b, j, d]
        """,
        {"B": 2, "M": 20, "N": 20, "D": 12},
    ),
    "windows": (
        """
        param H, W : int  index p, q : 3
        input: f32[H, W] x, f32[3, 3] k  output: f32[H, W] y  temp: f32[H, W] t
        operation: t[i, j] += (x[i + p - 1, j + q - 1] pad 0) * k[p, q]
        operation: y[i, j] = t[i, j] - x[i, j]
        """,
        {"H": 15, "W": 26},
    ),
    "strided": (
        """
        param N : int
        input: f32[2 * N, 3] x  output: f32[N, 3] y  temp: f32[N, 3] t
        operation: t[i, j] = x[2 * i, j] + x[2 * i + 1, j]
        operation: y[i, j] = t[N - 1 - i, 2 - j]
        """,
        {"N": 17},
    ),
    "gather": (
        """
        param M, N, V : int
        input: f32[V, N] w, i32[M] t, f32[N] b  output: f32[M, N] y  temp: f32[M, N] u
        operation: u[i, j] = w[t[i], j] pad 0
        operation: y[i, j] = u[i, j] + b[j]
        """,
        {"M": 14, "N": 29, "V": 8},
    ),
    "unused": (
        """
        param M, N : int
        input: f32[M, N] x, f32[M, N] z  output: f32[M] y
        temp: f32[M, N] t, f32[M, N] u, f32[M] w
        operation: t[i, j] = x[i, j] * z[i, j]
        operation: u[i, j] = log(abs(t[i, j]) + 1.0)
        operation: w[i] max= u[i, j]
        operation: y[i] += x[i, j] * z[i, j]
        """,
        {"M": 10, "N": 75},
    ),
    "integers": (
        """
        param M, N : int
        input: i32[M, N] x, i32[M, N] z  output: i32[M, N] y, i32[M] s  temp: i32[M, N] t
        operation: t[i, j] = x[i, j] * 3 + z[i, j] // 2
        operation: s[i] += t[i, j] % 5
        operation: y[i, j] = where(t[i, j] > s[i], t[i, j] - x[i, j], t[i, j] xor z[i, j])
        """,
        {"M": 12, "N": 41},
    ),
    "places": (
        """
        param M, N : int
        input: f32[M, N] x  output: f32[M, N] y  temp: f32[M, N] t
        operation: t[i, j] = where(j % 3 == i // 2, x[i, j], f32(i + 2 * j))
        operation: y[i, j] = t[i, j] * f32(N - j)
        """,
        {"M": 9, "N": 50},
    ),
    "accumulator": (
        """
        param M, N : int  scalar f32 rate
        inout: f32[M] p  input: f32[M, N] g  temp: f32[M] s
        operation: s[i] += g[i, j]
        operation: p[i] = p[i] - rate * s[i] / f32(N)
        """,
        {"M": 40, "N": 13},
    ),
    "half": (
        """
        param M, N : int
        input: f16[M, N] x, f16[N] b  output: f16[M, N] y  temp: f16[M, N] t
        operation: t[i, j] = x[i, j] * 1.5 + b[j]
        operation: y[i, j] = t[i, j] / (1.0 + exp(-t[i, j]))
        """,
        {"M": 8, "N": 61},
    ),
}
VARIANTS: dict[str, frozenset[str]] = {"all passes": frozenset(), "no pass": frozenset(NAMES)}
VARIANTS |= {f"without {name}": frozenset({name}) for name in NAMES}


def kernel_of(name: str) -> Kernel:
    """Return one of the programs."""
    return parse(f"kernel program {{{PROGRAMS[name][0]}}}").kernels[0]


def inputs_of(
    kernel: Kernel, params: dict[str, int], rng: np.random.Generator
) -> dict[str, np.ndarray[Any, Any]]:
    """Return random inputs; integers are small, so that they index too."""
    from hal.ir.analysis import value_of

    found = {}
    for item in kernel.arrays_of("input", "inout"):
        shape = [value_of(extent, params) for extent in item.shape]
        count = int(np.prod(shape))
        if item.dtype.kind == "float":
            found[item.name] = (
                floats(rng, item.dtype, count).reshape(shape).astype(item.dtype.numpy)
            )
        else:
            found[item.name] = small(rng, item.dtype, *shape, limit=9)
    return found


@case(rules=["HAL-VIL-042"], operator="kernel")
@pytest.mark.parametrize("variant", list(VARIANTS))
@pytest.mark.parametrize("name", list(PROGRAMS))
def test_passes_never_change_what_a_kernel_computes(
    lab: Lab, rng: np.random.Generator, numerics: Numerics, name: str, variant: str
) -> None:
    kernel, params = kernel_of(name), PROGRAMS[name][1]
    arrays = inputs_of(kernel, params, rng)
    scalars = {item.name: 0.375 for item in kernel.scalars}
    results = lab.compute(kernel, arrays, params, scalars, without=VARIANTS[variant])
    close_kernel(results, expected(kernel, arrays, params, scalars), kernel, numerics=numerics)


EDGES = [0, 1, 2, 64, 65, 257]


@case(rules=["HAL-VIL-042"], operator="kernel")
@pytest.mark.parametrize("size", EDGES)
@pytest.mark.parametrize("name", ["softmax", "layernorm", "product", "windows", "gather"])
def test_a_kernel_serves_every_size(
    lab: Lab, rng: np.random.Generator, numerics: Numerics, name: str, size: int
) -> None:
    kernel, given = kernel_of(name), PROGRAMS[name][1]
    for param in given:
        params = {key: size if key == param else min(value, 9) for key, value in given.items()}
        arrays = inputs_of(kernel, params, rng)
        results = lab.compute(kernel, arrays, params)
        close_kernel(results, expected(kernel, arrays, params), kernel, numerics=numerics)
