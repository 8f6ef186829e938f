"""Products on the cpu port against the evaluator: exact on small whole numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from product_running import SMALL, check, run, tile

import hal
from hal import codegen, ir
from hal.codegen.choice import Choice

Whole = Callable[..., np.ndarray[Any, Any]]

PRODUCT = """kernel product {{
  param M, N, K : int
  input: {a}[M,K] A, {b}[K,N] B
  output: {c}[M,N] C
  operation: C[i,j] += A[i,k] * B[k,j]
}}"""
F32 = PRODUCT.format(a="f32", b="f32", c="f32")
SIZES = [(1, 1, 1), (0, 3, 4), (3, 0, 4), (3, 4, 0), (16, 16, 16), (17, 15, 31), (15, 17, 33)]
SIZES += [(1, 31, 17), (31, 1, 17), (33, 34, 35), (7, 13, 101)]


@pytest.mark.parametrize("choice", [*SMALL, None], ids=str)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_every_size_is_exact(
    device: hal.Device, whole: Whole, sizes: tuple[int, int, int], choice: Choice | None
) -> None:
    m, n, k = sizes
    arrays = {"A": whole(m, k), "B": whole(k, n)}
    got = run(device, F32, {"M": m, "N": n, "K": k}, arrays, choice)
    np.testing.assert_array_equal(got["C"], arrays["A"] @ arrays["B"])


TYPES = [("f64", "f64", "f64"), ("f16", "f16", "f16"), ("bf16", "bf16", "f32")]
TYPES += [("f16", "bf16", "f32"), ("f16", "f32", "f16"), ("i8", "i8", "i32"), ("i8", "u8", "i32")]
TYPES += [("i32", "i32", "i32"), ("i64", "i64", "i64"), ("u8", "u8", "i32")]


@pytest.mark.parametrize("choice", [tile(16, 16, 16), tile(16, 16, 16, 2)], ids=str)
@pytest.mark.parametrize("types", TYPES, ids="-".join)
def test_every_type_is_exact(
    device: hal.Device, whole: Whole, types: tuple[str, str, str], choice: Choice
) -> None:
    a, b, c = types
    least = 0 if "u8" in types else -3
    arrays = {"A": whole(19, 37, least=least), "B": whole(37, 18, least=least)}
    text = PRODUCT.format(a=a, b=b, c=c)
    check(device, text, {"M": 19, "N": 18, "K": 37}, arrays, choice)


def test_8_bit_floats_are_multiplied_in_a_wider_type(device: hal.Device, whole: Whole) -> None:
    text = PRODUCT.format(a="f8e4m3", b="f8e5m2", c="f32").replace("A[i,k]", "f32(A[i,k])")
    text = text.replace("B[k,j]", "f32(B[k,j])")
    arrays = {"A": whole(17, 20), "B": whole(20, 18)}
    check(device, text, {"M": 17, "N": 18, "K": 20}, arrays, tile(16, 16, 16))


@pytest.mark.parametrize("choice", [*SMALL, None], ids=str)
def test_what_follows_is_computed_before_the_store(
    device: hal.Device, whole: Whole, choice: Choice | None
) -> None:
    text = """kernel product {
      param M, N, K : int
      input: f32[M,K] A, f32[K,N] B, f32[N] bias, f32[M,N] X
      temp: f32[M,N] C
      output: f32[M,N] D
      operation: C[i,j] += A[i,k] * B[k,j]
      D[p,q] = max(C[p,q] + bias[q], 0.0) + X[p,q]
    }"""
    arrays = {"A": whole(17, 23), "B": whole(23, 19), "bias": whole(19), "X": whole(17, 19)}
    check(device, text, {"M": 17, "N": 19, "K": 23}, arrays, choice)


@pytest.mark.parametrize("choice", SMALL, ids=str)
def test_several_statements_follow_and_the_sum_is_an_output_too(
    device: hal.Device, whole: Whole, choice: Choice
) -> None:
    text = """kernel product {
      param M, N, K : int
      input: f16[M,K] A, f16[K,N] B
      output: f32[M,N] C, f32[N,M] T, i32[M,N] I
      operation: C[i,j] += A[i,k] * B[k,j]
      T[q,p] = C[p,q] * 2.0
      I[p,q] = i32(T[q,p]) + i32(p) * 100 - i32(q)
    }"""
    arrays = {"A": whole(17, 23), "B": whole(23, 19)}
    check(device, text, {"M": 17, "N": 19, "K": 23}, arrays, choice)


@pytest.mark.parametrize("choice", SMALL, ids=str)
def test_scalars_scale_the_sum_and_an_inout_goes_on(
    device: hal.Device, whole: Whole, choice: Choice
) -> None:
    text = """kernel product {
      param M, N, K : int
      scalar f32 s
      input: f32[K,M] A, f32[N,K] B
      inout: f32[M,N] C
      operation: C[i,j] += s * A[k,i] * B[j,k] / 2.0
    }"""
    arrays = {"A": whole(23, 17), "B": whole(19, 23), "C": whole(17, 19)}
    check(device, text, {"M": 17, "N": 19, "K": 23}, arrays, choice, {"s": 3.0})


@pytest.mark.parametrize("choice", SMALL, ids=str)
def test_a_second_product_goes_on_from_the_first(
    device: hal.Device, whole: Whole, choice: Choice
) -> None:
    text = """kernel product {
      param M, N, K : int
      input: f32[M,K] A, f32[K,N] B, f32[M,K] D
      output: f32[M,N] C
      operation: C[i,j] += A[i,k] * B[k,j]
      C[i,j] += D[i,k] * B[k,j]
    }"""
    arrays = {"A": whole(17, 23), "B": whole(23, 19), "D": whole(17, 23)}
    check(device, text, {"M": 17, "N": 19, "K": 23}, arrays, choice)


@pytest.mark.parametrize("choice", SMALL, ids=str)
def test_sides_may_be_scaled_masked_and_converted(
    device: hal.Device, whole: Whole, choice: Choice
) -> None:
    text = """kernel product {
      param M, N, K : int
      input: f32[M,K] A, i8[K,N] B, f32[K] s, f32[N] t
      output: f32[M,N] C
      operation: C[i,j] += where(k <= i, A[i,k], 0.0) * s[k] * (f32(B[k,j]) - 1.0) * t[j]
    }"""
    arrays = {"A": whole(17, 23), "B": whole(23, 19), "s": whole(23), "t": whole(19)}
    check(device, text, {"M": 17, "N": 19, "K": 23}, arrays, choice)


@pytest.mark.parametrize("choice", [tile(1, 16, 16), tile(1, 16, 16, 2), None], ids=str)
@pytest.mark.parametrize("places", ["M,K|A[i,k]", "K,M|A[k,i]"])
def test_a_matrix_times_a_vector(
    device: hal.Device, whole: Whole, places: str, choice: Choice | None
) -> None:
    shape, access = places.split("|")
    text = f"""kernel product {{
      param M, K : int
      input: bf16[{shape}] A, bf16[K] x
      output: f32[M] y
      operation: y[i] += {access} * x[k]
    }}"""
    arrays = {"A": whole(*((19, 37) if shape == "M,K" else (37, 19))), "x": whole(37)}
    check(device, text, {"M": 19, "K": 37}, arrays, choice)


@pytest.mark.parametrize("choice", SMALL, ids=str)
def test_batches_with_heads_that_share_a_side(
    device: hal.Device, whole: Whole, choice: Choice
) -> None:
    text = """kernel product {
      param B, H, M, N, K : int
      input: f32[B,H,M,K] Q, f32[B,N,K] X
      output: f32[B,M,H,N] C
      operation: C[b,i,h,j] += Q[b,h,i,k] * X[b,j,k]
    }"""
    arrays = {"Q": whole(2, 3, 9, 5), "X": whole(2, 7, 5)}
    check(device, text, {"B": 2, "H": 3, "M": 9, "N": 7, "K": 5}, arrays, choice)


@pytest.mark.parametrize("choice", [*SMALL, None], ids=str)
@pytest.mark.parametrize("way", [(1, 1, 1), (2, 1, 1), (1, 2, 0), (2, 2, 3)], ids=str)
def test_convolutions_with_stride_dilation_and_pad(
    device: hal.Device, whole: Whole, way: tuple[int, int, int], choice: Choice | None
) -> None:
    stride, dilation, pad = way
    h, w = 9, 11
    p, q = ((length + 2 * pad - 2 * dilation - 1) // stride + 1 for length in (h, w))
    at = ", ".join(f"{stride}*{i} + {dilation}*d{i} - {pad}" for i in "yx")
    text = f"""kernel product {{
      param N, C, H, W, F, P, Q : int
      index dy, dx : 3
      input: f32[N,C,H,W] X, f32[F,C,3,3] K
      output: f32[N,F,P,Q] Y
      operation: Y[n,f,y,x] += X[n,c,{at}] pad 0 * K[f,c,dy,dx]
    }}"""
    arrays = {"X": whole(2, 3, h, w), "K": whole(5, 3, 3, 3)}
    sizes = {"N": 2, "C": 3, "H": h, "W": w, "F": 5, "P": p, "Q": q}
    check(device, text, sizes, arrays, choice)


@pytest.mark.parametrize("choice", SMALL, ids=str)
def test_convolution_of_groups_with_channels_last(
    device: hal.Device, whole: Whole, choice: Choice
) -> None:
    text = """kernel product {
      param N, G, C, H, W, F : int
      index dy, dx : 3
      input: bf16[N,H,W,G,C] X, bf16[G,3,3,C,F] K, f32[G,F] bias
      temp: f32[N,H,W,G,F] T
      output: bf16[N,H,W,G,F] Y
      operation: T[n,y,x,g,f] += X[n,y+dy-1,x+dx-1,g,c] pad 0 * K[g,dy,dx,c,f]
      Y[n,y,x,g,f] = T[n,y,x,g,f] + bias[g,f]
    }"""
    arrays = {"X": whole(2, 5, 6, 2, 3), "K": whole(2, 3, 3, 3, 4), "bias": whole(2, 4)}
    check(device, text, {"N": 2, "G": 2, "C": 3, "H": 5, "W": 6, "F": 4}, arrays, choice)


@pytest.mark.parametrize("choice", [tile(16, 16, 16), tile(16, 16, 16, 2)], ids=str)
def test_convolution_in_three_dimensions_holds_the_surplus_indices_fixed(
    device: hal.Device, whole: Whole, choice: Choice
) -> None:
    text = """kernel product {
      param N, C, D, H, W, F, P, Q, R : int
      index dz, dy, dx : 2
      input: f32[N,C,D,H,W] X, f32[F,C,2,2,2] K
      output: f32[N,F,P,Q,R] Y
      operation: Y[n,f,z,y,x] += X[n,c,z+dz,y+dy,x+dx] * K[f,c,dz,dy,dx]
    }"""
    arrays = {"X": whole(2, 3, 4, 5, 6), "K": whole(5, 3, 2, 2, 2)}
    sizes = {"N": 2, "C": 3, "D": 4, "H": 5, "W": 6, "F": 5, "P": 3, "Q": 4, "R": 5}
    check(device, text, sizes, arrays, choice)


@pytest.mark.parametrize("choice", SMALL, ids=str)
def test_what_the_product_does_not_reach_starts_at_zero(
    device: hal.Device, whole: Whole, choice: Choice
) -> None:
    text = F32.replace("output: f32[M,N] C", "output: f32[M+2,N] C").replace("C[i,j]", "C[i+1,j]")
    arrays = {"A": whole(17, 23), "B": whole(23, 19)}
    check(device, text, {"M": 17, "N": 19, "K": 23}, arrays, choice)


def test_a_schedule_sets_tiles_order_and_parts(device: hal.Device, whole: Whole) -> None:
    text = F32 + ' schedule product for "" { tile j 32, i 8, k 24; split k 2 }'
    program = ir.parse(text)
    kernel = program.kernels[0]
    sizes = {"M": 19, "N": 70, "K": 61}
    made = codegen.compile(kernel, device.hcd, sizes=sizes, schedule=program.schedules[0])
    assert made.choices[0].choice == tile(8, 32, 24, 2, "rows")
    arrays = {"A": whole(19, 61), "B": whole(61, 70)}
    got = run(device, F32, sizes, arrays, made.choices[0].choice)
    np.testing.assert_array_equal(got["C"], arrays["A"] @ arrays["B"])
