"""Which choices are measured."""

from __future__ import annotations

import pytest

from hal.tune import Candidate, shortlist


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
