"""Each operator, by the evaluator of the tensor IR, against a NumPy formula of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hal
import hal.dsl

from .cases import CASES, IDS, X, floats


@pytest.mark.parametrize(
    ("name", "arguments", "keywords", "expected"),
    CASES,
    ids=IDS,
)
def test_operator_equals_its_formula(
    name: str, arguments: tuple[Any, ...], keywords: dict[str, Any], expected: Any
) -> None:
    result = getattr(hal, name).reference(*arguments, **keywords)
    if expected is ...:
        expected = np.matmul(*arguments)
    elif callable(expected):
        expected = expected(*arguments)
    assert result.shape == np.shape(expected)
    np.testing.assert_allclose(
        np.asarray(result, np.float64), np.asarray(expected, np.float64), rtol=2e-3, atol=1e-5
    )


def test_topk_gives_values_and_positions() -> None:
    values, positions = hal.topk.reference(X, 3)
    order = np.argsort(-X, 1, kind="stable")[:, :3]
    np.testing.assert_array_equal(positions, order)
    np.testing.assert_array_equal(values, np.take_along_axis(X, order, 1))


def test_split_gives_equal_parts() -> None:
    for got, expected in zip(hal.split.reference(X, 3, 1), np.split(X, 3, 1), strict=True):
        np.testing.assert_array_equal(got, expected)


def test_adamw_takes_its_rate_and_step_at_the_launch() -> None:
    p, g, m, v = floats(5), floats(5), floats(5), floats(5)
    new, first, second = hal.adamw.reference(p, g, m, v, rate=0.01, step=3.0)
    m1, v1 = m * 0.9 + g * 0.1, v * 0.999 + g * g * 0.001
    step = m1 / (1 - 0.9**3) / (np.sqrt(v1 / (1 - 0.999**3)) + 1e-8) + p * 0.01
    np.testing.assert_allclose(new, p - 0.01 * step, rtol=1e-4)
    np.testing.assert_allclose(first, m1, rtol=1e-5)
    np.testing.assert_allclose(second, v1, rtol=1e-5)


def test_dropout_keeps_about_the_share_that_is_asked_for_and_repeats() -> None:
    x = np.ones((50, 40), np.float32)
    one = hal.dropout.reference(x, 0.25, np.int64(11))
    assert set(np.unique(one)) == {0.0, np.float32(1 / 0.75)}
    assert 0.7 < (one != 0).mean() < 0.8
    np.testing.assert_array_equal(one, hal.dropout.reference(x, 0.25, np.int64(11)))
    assert (one != hal.dropout.reference(x, 0.25, np.int64(12))).any()


def test_every_operator_of_the_library_is_an_attribute_of_hal_and_has_a_meaning() -> None:
    for name, function in hal.dsl.OPERATORS.items():
        assert getattr(hal, name) is function
        assert function.__doc__, name
        assert function.domain, name
    assert frozenset(hal.dsl.OPERATORS) == hal._OPERATORS


def test_every_operator_has_a_case_here() -> None:
    elsewhere = {"topk", "adamw", "dropout", "random_uniform", "causal_mask", "getitem"}
    elsewhere |= {"full_like", "zeros_like", "ones_like", "bitwise_invert", "split"}
    assert set(hal.dsl.OPERATORS) - {case[0] for case in CASES} == elsewhere
