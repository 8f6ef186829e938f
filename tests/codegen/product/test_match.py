"""Which statements are matrix products, and how their indices are split."""

from __future__ import annotations

import pytest

from hal import ir
from hal.codegen.product_match import Product, find
from hal.ir.analysis import inline_lets


def product_of(declarations: str, operation: str) -> Product | None:
    """The product of the one statement of a kernel."""
    text = f"kernel k {{\n{declarations}\n operation: {operation}\n}}"
    kernel = inline_lets(ir.parse(text, verify=False).kernels[0])
    return find(kernel, kernel.assigns[0])


def groups(found: Product | None) -> tuple[str, str, str, str]:
    """Rows, columns, inner and batch as words."""
    assert found is not None
    parts = (found.rows, found.columns, found.inner, found.batch)
    rows, columns, inner, batch = (" ".join(names) for names in parts)
    return rows, columns, inner, batch


def types(found: Product | None) -> tuple[str, str, str]:
    """Types of the two sides and of the sum."""
    assert found is not None
    return found.left_dtype.name, found.right_dtype.name, found.total_dtype.name


MATRICES = "param M, N, K : int\n input: {a}[M,K] A, {b}[K,N] B\n output: {c}[M,N] C"


def matrices(a: str, b: str, c: str) -> str:
    return MATRICES.format(a=a, b=b, c=c)


def test_product_of_two_matrices_splits_into_rows_columns_and_inner() -> None:
    found = product_of(matrices("f32", "f32", "f32"), "C[i,j] += A[i,k] * B[k,j]")
    assert groups(found) == ("i", "j", "k", "")


def test_columns_hold_the_last_index_of_the_target_whatever_the_order_of_the_factors() -> None:
    found = product_of(matrices("f32", "f32", "f32"), "C[i,j] += B[k,j] * A[i,k]")
    assert groups(found) == ("i", "j", "k", "")
    assert found is not None and ir.show is not None
    assert found.left == product_of(matrices("f32", "f32", "f32"), "C[i,j] += A[i,k] * B[k,j]").left  # type: ignore[union-attr]


def test_convolution_puts_the_window_into_the_inner_axis() -> None:
    declared = (
        "param N, C, H, W, F, P, Q : int\n index dy, dx : 3\n"
        " input: f32[N,C,H,W] X, f32[F,C,3,3] K\n output: f32[N,F,P,Q] Y"
    )
    value = "X[n,c,2*y+dy-1,2*x+dx-1] pad 0 * K[f,c,dy,dx]"
    assert groups(product_of(declared, f"Y[n,f,y,x] += {value}")) == ("f", "n y x", "c dy dx", "")


def test_groups_of_a_convolution_are_the_batch() -> None:
    declared = (
        "param N, G, C, H, W, F, P, Q : int\n index dy, dx : 3\n"
        " input: f32[N,G,C,H,W] X, f32[G,F,C,3,3] K\n output: f32[N,G,F,P,Q] Y"
    )
    value = "X[n,g,c,y+dy,x+dx] * K[g,f,c,dy,dx]"
    found = product_of(declared, f"Y[n,g,f,y,x] += {value}")
    assert groups(found) == ("f", "n y x", "c dy dx", "g")


def test_a_fourth_index_of_an_axis_is_held_fixed_by_the_programs() -> None:
    declared = (
        "param N, C, D, H, W, F, P, Q, R : int\n index dz, dy, dx : 3\n"
        " input: f32[N,C,D,H,W] X, f32[F,C,3,3,3] K\n output: f32[N,F,P,Q,R] Y"
    )
    value = "X[n,c,z+dz,y+dy,x+dx] * K[f,c,dz,dy,dx]"
    found = product_of(declared, f"Y[n,f,z,y,x] += {value}")
    assert groups(found) == ("f", "z y x", "dz dy dx", "n")
    assert found is not None and found.folded == ("c",)


def test_matrix_times_vector_has_no_rows() -> None:
    declared = "param M, K : int\n input: f32[M,K] A, f32[K] x\n output: f32[M] y"
    assert groups(product_of(declared, "y[i] += A[i,k] * x[k]")) == ("", "i", "k", "")


def test_scalar_factors_and_divisors_leave_the_sum() -> None:
    declared = "scalar f32 s\n" + matrices("f32", "f32", "f32")
    found = product_of(declared, "C[i,j] += s * A[i,k] * B[k,j] / 3.0")
    assert found is not None
    assert (len(found.factors), len(found.divisors)) == (1, 1)


def test_a_factor_of_kept_indices_alone_leaves_the_sum() -> None:
    declared = "param M, N, K : int\n input: f32[M,K] A, i8[K,N] B, f32[N] s\n output: f32[M,N] C"
    found = product_of(declared, "C[i,j] += A[i,k] * f32(B[k,j]) * s[j]")
    assert groups(found) == ("i", "j", "k", "")
    assert found is not None and len(found.factors) == 1


def test_a_factor_of_inner_indices_alone_joins_a_side() -> None:
    declared = "param M, N, K : int\n input: f32[M,K] A, f32[K,N] B, f32[K] s\n output: f32[M,N] C"
    found = product_of(declared, "C[i,j] += A[i,k] * s[k] * B[k,j]")
    assert groups(found) == ("i", "j", "k", "")
    assert found is not None and not found.left_is_plain and found.right_is_plain


@pytest.mark.parametrize(
    ("a", "b", "c", "value", "expected"),
    [
        ("f16", "f16", "f32", "A[i,k] * B[k,j]", ("f16", "f16", "f32")),
        ("bf16", "bf16", "bf16", "f32(A[i,k]) * f32(B[k,j])", ("bf16", "bf16", "f32")),
        ("f16", "bf16", "f32", "A[i,k] * B[k,j]", ("f32", "f32", "f32")),
        ("f16", "f32", "f32", "A[i,k] * B[k,j]", ("f32", "f32", "f32")),
        ("f32", "f32", "f16", "A[i,k] * B[k,j]", ("f32", "f32", "f32")),
        ("f32", "f32", "f32", "f32(f16(A[i,k])) * B[k,j]", ("f32", "f32", "f32")),
        ("f64", "f64", "f64", "A[i,k] * B[k,j]", ("f64", "f64", "f64")),
        ("i8", "u8", "i32", "A[i,k] * B[k,j]", ("i8", "u8", "i32")),
        ("i8", "u8", "i32", "i32(A[i,k]) * i32(B[k,j])", ("i8", "u8", "i32")),
        ("i8", "i32", "i32", "i32(A[i,k]) * B[k,j]", ("i32", "i32", "i32")),
        ("i64", "i64", "i64", "A[i,k] * B[k,j]", ("i64", "i64", "i64")),
        ("f8e4m3", "f8e5m2", "f32", "f32(A[i,k]) * f32(B[k,j])", ("f16", "f16", "f32")),
    ],
)
def test_sides_are_multiplied_in_the_narrowest_type_without_loss(
    a: str, b: str, c: str, value: str, expected: tuple[str, str, str]
) -> None:
    assert types(product_of(matrices(a, b, c), f"C[i,j] += {value}")) == expected


@pytest.mark.parametrize(
    "operation",
    [
        "C[i,j] += A[i,k] + B[k,j]",
        "C[i,j] max= A[i,k] * B[k,j]",
        "C[i,j] += A[i,j] * B[i,j]",
        "C[i,j] += A[i,j] * B[i,k]",
        "C[i,j] = A[i,j] * B[i,j]",
        "C[i,j] += exp(A[i,k] * B[k,j])",
        "C[i,j] += A[i,k] / B[k,j]",
    ],
)
def test_other_statements_are_no_products(operation: str) -> None:
    declared = "param M : int\n input: f32[M,M] A, f32[M,M] B\n output: f32[M,M] C"
    assert product_of(declared, operation) is None


def test_a_sum_over_one_side_alone_is_no_product() -> None:
    declared = "param M : int\n input: f32[M,M] A, f32[M] b\n output: f32[M,M] C"
    assert product_of(declared, "C[i,j] += A[i,k] * b[j]") is None


def test_a_wider_target_than_the_sum_is_no_product() -> None:
    assert product_of(matrices("f32", "f32", "f64"), "C[i,j] += A[i,k] * B[k,j]") is None


def test_a_vector_times_a_short_window_is_no_product() -> None:
    declared = (
        "param N, C, H, W, P, Q : int\n index dy, dx : 3\n"
        " input: f32[N,C,H,W] X, f32[C,3,3] K\n output: f32[N,C,P,Q] Y"
    )
    assert product_of(declared, "Y[n,c,y,x] += X[n,c,y+dy,x+dx] * K[c,dy,dx]") is None


def test_a_product_that_reads_what_it_writes_is_refused() -> None:
    declared = "param M : int\n input: f32[M,M] A\n inout: f32[M,M] C"
    assert product_of(declared, "C[i,j] += A[i,k] * C[k,j]") is None
