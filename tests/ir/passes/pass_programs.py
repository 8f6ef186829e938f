"""Kernels that the tests of the passes share, and how they read a result."""

from __future__ import annotations

from hal.ir import Kernel, parse, show

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

ATTENTION = """
kernel Attention {
  param B, H, M, N, D : int
  scalar f32 scale
  input: f32[B,H,M,D] Q, f32[B,H,N,D] K, f32[B,H,N,D] V
  output: f32[B,H,M,D] O
  temp: f32[B,H,M,N] S, f32[B,H,M,N] Z, f32[B,H,M] m, f32[B,H,M,N] e, f32[B,H,M] l
  temp: f32[B,H,M,N] P
  operation: S[b,h,i,j] += Q[b,h,i,d] * K[b,h,j,d]
  operation: Z[b,h,i,j] = where(j <= i, S[b,h,i,j] * scale, -inf)
  operation: m[b,h,i] max= Z[b,h,i,j]
  operation: e[b,h,i,j] = exp(Z[b,h,i,j] - m[b,h,i])
  operation: l[b,h,i] += e[b,h,i,j]
  operation: P[b,h,i,j] = e[b,h,i,j] / l[b,h,i]
  operation: O[b,h,i,d] += P[b,h,i,j] * V[b,h,j,d]
}
"""


def kernel(text: str) -> Kernel:
    """The only kernel of a text."""
    (found,) = parse(text, verify=False).kernels
    return found


def small(declarations: str, *operations: str) -> Kernel:
    """A kernel with params M, N, K, made of declaration lines and operations."""
    lines = [f"  {line.strip()}" for line in declarations.strip().splitlines()]
    lines += [f"  operation: {line}" for line in operations]
    return kernel("\n".join(["kernel T {", "  param M, N, K : int", *lines, "}"]))


def operations(found: Kernel) -> list[str]:
    """The statements (lets too) as text."""
    words = ("operation: ", "let ")
    lines = [line.strip() for line in show(found).splitlines()]
    kept = [line for line in lines if line.startswith(words)]
    return [line.removeprefix("operation: ").removeprefix("let ") for line in kept]


def temps(found: Kernel) -> list[str]:
    """Names of the temps."""
    return [array.name for array in found.arrays_of("temp")]
