"""What a trace is: one kernel for a class of shapes, and the notes that bound the class."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hal
from hal.errors import UsageError
from hal.ir import show


def text(function: Any, *arguments: Any, **keywords: Any) -> str:
    return str(show(function.ir(*arguments, **keywords)))


@hal.kernel
def affine(x: Any, w: Any) -> Any:
    return x @ w * 2.0 + 1.0


def test_a_matrix_product_is_one_statement_over_params() -> None:
    shown = text(hal.matmul, hal.spec((4, 8)), hal.spec((8, 3)))
    assert "operation: out[i0, i1] += a[i0, r0] * b[r0, i1]" in shown
    assert "f32[n0, n1] a, f32[n1, n2] b" in shown


def test_shapes_of_one_class_share_a_trace() -> None:
    first = affine.trace(hal.spec((4, 8)), hal.spec((8, 3)))
    assert affine.trace(hal.spec((40, 80)), hal.spec((80, 30))) is first


@pytest.mark.parametrize(
    "shapes",
    [((8, 8), (8, 8)), ((1, 8), (8, 3)), ((4, 8), (8, 1)), ((0, 8), (8, 3))],
)
def test_equal_lengths_and_the_lengths_0_and_1_are_classes_of_their_own(
    shapes: tuple[tuple[int, int], tuple[int, int]],
) -> None:
    general = affine.trace(hal.spec((4, 8)), hal.spec((8, 3)))
    assert affine.trace(*map(hal.spec, shapes)) is not general


def test_a_length_used_as_a_number_bounds_the_class() -> None:
    @hal.kernel
    def scaled(x: Any) -> Any:
        return x / x.shape[-1] ** 0.5

    first = scaled.trace(hal.spec((4, 16)))
    assert scaled.trace(hal.spec((9, 16))) is first
    assert scaled.trace(hal.spec((4, 25))) is not first
    assert "x[i0, i1] / 5.0" in text(scaled, hal.spec((4, 25)))


def test_a_comparison_bounds_the_class_by_its_outcome() -> None:
    @hal.kernel
    def chosen(x: Any) -> Any:
        return x + 1.0 if x.shape[0] > 10 else x

    small = chosen.trace(hal.spec((4, 3)))
    assert chosen.trace(hal.spec((9, 2))) is small
    assert chosen.trace(hal.spec((20, 2))) is not small


def test_a_value_read_twice_is_computed_once() -> None:
    shown = text(hal.softmax, hal.spec((4, 6)))
    assert shown.count("exp(") == 1


def test_a_view_costs_no_statement() -> None:
    shown = text(hal.matmul, hal.spec((4, 8)), hal.spec((8, 3)))

    @hal.kernel
    def turned(a: Any, b: Any) -> Any:
        return hal.matmul(a, b.T)

    assert text(turned, hal.spec((4, 8)), hal.spec((3, 8))).count("operation") == shown.count(
        "operation"
    )


def test_floats_and_numpy_scalars_are_read_at_the_launch() -> None:
    @hal.kernel
    def step(x: Any, rate: Any, count: Any) -> Any:
        return x * rate + hal.astype(x, "i32") * count if False else x * rate

    trace = step.trace(hal.spec((4,)), 0.5, 3)
    assert step.trace(hal.spec((4,)), 0.25, 3) is trace
    assert step.trace(hal.spec((4,)), 0.25, 4) is not trace
    assert "scalar f32 rate" in str(show(trace.kernel))


X = np.arange(24, dtype=np.float32).reshape(4, 6)
KEYS: list[Any] = [
    0, -1, slice(1, 3), slice(None, None, 2), slice(None, None, -1), slice(3, 0, -2), None, ...,
    (slice(1, None), 2), (Ellipsis, -2), (None, 1, slice(0, 100)), (slice(2, 2),), (2, 3),
    (slice(-3, -1), None, slice(1, 5, 3)),
]  # fmt: skip


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_subscripts_are_numpys(key: Any) -> None:
    @hal.kernel
    def part(x: Any) -> Any:
        return x[key] + 0.0

    np.testing.assert_array_equal(part.reference(X), X[key])


def test_operators_of_python_are_numpys() -> None:
    @hal.kernel
    def mixed(x: Any) -> Any:
        y = 2.0 - x / 4.0 + 3.0 * x
        return hal.where((y > 5.0) & ~(x == 3.0), -y, abs(x) ** 2.0)

    y = 2.0 - X / 4.0 + 3.0 * X
    np.testing.assert_allclose(
        mixed.reference(X), np.where((y > 5.0) & ~(X == 3.0), -y, np.abs(X) ** 2.0), rtol=1e-6
    )


BAD: list[tuple[Any, tuple[Any, ...], str]] = [
    (lambda x: x @ x, ((4, 6),), "do not multiply: 6 columns against 4 rows"),
    (lambda x: x + hal.sum(x, 0)[1:], ((4, 6),), "do not fit together"),
    (lambda x: x + True, ((4, 6),), "the bool True does not go with f32"),
    (lambda x: x & x, ((4, 6),), "f32 is not among int, bool"),
    (lambda x: x if hal.sum(x) > 0 else -x, ((4, 6),), "not known while the kernel is traced"),
    (lambda x: hal.sum(x, 2), ((4, 6),), "there is no axis 2; the tensor has 2"),
    (lambda x: hal.reshape(x, (5, 5)), ((4, 6),), "has 24 elements, [5, 5] has 25"),
    (lambda x: x[7], ((4, 6),), "7 does not lie in an axis of 4"),
    (lambda x: hal.astype(x, "f17"), ((4, 6),), "'f17' is no dtype"),
    (lambda x: 3, ((4, 6),), "returns int; a tensor or a tuple of them is needed"),
    (lambda x: hal.topk(x, 7), ((4, 6),), "k is 7; the axis has 6"),
    (lambda x: x.T, ((4, 6, 2),), "T is for two axes; this has 3"),
    (lambda x: np.exp(x), ((4, 6),), "numpy: a function of NumPy takes no tensor"),
    (lambda x: sum(x), ((4, 6),), "iter: the elements of a tensor are not known"),
    (lambda x: float(x), ((4, 6),), "float: the elements of a tensor are not known"),
    (lambda x: x.__setitem__(0, 1.0), ((4, 6),), "setitem: a tensor is a value"),
    (lambda x, y: x, ((4, 6),), "missing a required argument: 'y'"),
]


@pytest.mark.parametrize(("body", "shapes", "problem"), BAD, ids=[row[2] for row in BAD])
def test_mistakes_are_told_with_the_line(body: Any, shapes: Any, problem: str) -> None:
    with pytest.raises(UsageError) as caught:
        hal.kernel(body).ir(*map(hal.spec, shapes))
    assert problem in str(caught.value)
    if "argument" not in problem and "returns" not in problem:
        assert f"{__file__}:" in str(caught.value)


def test_two_operators_of_one_name_are_refused() -> None:
    with pytest.raises(UsageError, match="there is an operator 'softmax' of the domain"):
        hal.operator(domain="mine")(hal.softmax.body)


def test_an_operator_without_a_domain_or_a_name_of_python_is_refused() -> None:
    with pytest.raises(UsageError, match=r"needs the domain .*hal.operator\(domain="):
        hal.operator(lambda x: x)  # type: ignore[call-overload]
    with pytest.raises(UsageError, match="'two words' cannot name an operator"):
        hal.operator(name="two words", domain="mine")(lambda x: x)


def test_a_name_that_hal_lacks_is_answered_with_the_nearest() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'sofmax'; did you mean hal.softmax\?"):
        hal.sofmax  # noqa: B018


@pytest.mark.parametrize("body", [lambda x: x + 1.0, hal.kernel(name="ß_2")(lambda x: x).body])
def test_a_function_without_a_plain_name_is_a_kernel_too(body: Any) -> None:
    assert hal.kernel(body).ir(hal.spec((3,))).name == "lambda"
