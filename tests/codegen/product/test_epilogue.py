"""Which statements join a product."""

from __future__ import annotations

import pytest
from product_running import kernel_of

from hal.codegen import product
from hal.codegen.target import Target

DECLARED = """kernel k {{
  param M, N, K : int
  input: f32[M,K] A, f32[K,N] B, f32[N] b, f32[M,M] S, f32[N,N] W
  inout: f32[M,K] Z
  {role}: f32[M,N] C
  output: f32[M,N] D, f32[M,N] E
  operation: C[i,j] += A[i,k] * B[k,j]
  {rest}
}}"""


def joined(rest: str, role: str = "temp") -> tuple[int, bool]:
    """How many statements join the product, and whether its result is stored."""
    kernel = kernel_of(DECLARED.format(role=role, rest=rest))
    found = product.match(kernel, kernel.assigns, Target.of(None))
    assert found is not None
    return len(found.epilogue.statements), found.epilogue.stores


@pytest.mark.parametrize(
    ("rest", "count"),
    [
        ("D[i,j] = C[i,j] + b[j]", 1),
        ("D[p,q] = C[p,q] + b[q]", 1),
        ("D[i,j] = C[i,j]\n E[i,j] = D[i,j] * C[i,j]", 2),
        ("D[i,j] = b[j]", 0),
        ("D[i,j] += C[i,l] * W[l,j]", 0),
        ("D[i,j] = C[i,j] + A[i,0]\n Z[i,k] = A[i,k]", 1),
    ],
)
def test_elementwise_statements_at_the_same_place_join(rest: str, count: int) -> None:
    assert joined(rest) == (count, False) if count else joined(rest)[0] == 0


def test_a_temp_that_is_read_later_is_stored() -> None:
    assert joined("D[i,j] = C[i,j]\n E[i,j] += S[i,l] * C[l,j]") == (1, True)


def test_an_output_is_stored() -> None:
    assert joined("D[i,j] = C[i,j] + b[j]", role="output") == (1, True)


def test_a_read_at_another_place_does_not_join() -> None:
    text = DECLARED.format(role="temp", rest="D[i,j] = C[i,j] + C[0,j]")
    kernel = kernel_of(text)
    found = product.match(kernel, kernel.assigns, Target.of(None))
    assert found is not None and found.epilogue.statements == ()
    assert found.epilogue.stores


def test_a_statement_that_writes_an_operand_does_not_join() -> None:
    text = """kernel k {
      param M : int
      inout: f32[M,M] A
      input: f32[M,M] B
      temp: f32[M,M] C
      operation: C[i,j] += A[i,k] * B[k,j]
      A[i,j] = C[i,j]
    }"""
    kernel = kernel_of(text)
    found = product.match(kernel, kernel.assigns, Target.of(None))
    assert found is not None and found.epilogue.statements == ()
