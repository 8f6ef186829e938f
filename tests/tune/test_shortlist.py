"""Which choices are measured."""

from __future__ import annotations

import pytest

import hal.hcd
from hal.tune import Candidate, shortlist, tune

PRODUCT = """kernel product {
  param M, N, K : int
  input: f32[M,K] A, f32[K,N] B
  output: f32[M,N] C
  operation: C[i,j] += A[i,k] * B[k,j]
}
"""


def ranked(cores: str) -> list[Candidate]:
    """Choices in the order of their forecasts: `1` for one core alone, `n` for several."""
    return [
        Candidate(0, "product", place, 1e-6 * (place + 1), None, word == "1")
        for place, word in enumerate(cores)
    ]


@pytest.mark.parametrize(
    ("cores", "most", "places"),
    [
        ("nnnnnn", 3, [0, 1, 2]),
        ("n1nnnn", 3, [0, 1, 2]),
        ("nnnn1n1", 3, [0, 1, 4]),
        ("nn1", 1, [0]),
        ("nn", 3, [0, 1]),
    ],
)
def test_the_last_place_is_for_one_core_alone_where_no_other_is(
    cores: str, most: int, places: list[int]
) -> None:
    assert [item.choice for item in shortlist(ranked(cores), most)] == places


def test_two_cores_share_a_small_deep_product_in_halves_and_by_its_depth() -> None:
    """Parts of the depth load less and add a step; operands in a cache load fast: both are close.

    Where loads cost what the memory costs, all that is measured splits the depth.
    """
    sizes = {"M": 64, "N": 64, "K": 2048}
    found = tune(PRODUCT, None, hcd=hal.hcd.load("hal/cpu"), sizes=sizes, measured=0, keep=False)
    timed = [item for item in found.candidates if item.forecast_s is not None]
    timed.sort(key=lambda item: item.forecast_s or 0.0)
    measured = shortlist(timed, 8)
    assert {"split" in str(item.choice) for item in measured if not item.on_one_core} == {
        True,
        False,
    }
    assert any(item.on_one_core for item in measured)
