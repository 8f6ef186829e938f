"""Every operator on devices: the ports give what the evaluator of the tensor IR gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import hal
from hal.errors import UsageError

from .cases import CASES, IDS, floats


@pytest.fixture(scope="module", params=["cpu", "sim"])
def device(request: pytest.FixtureRequest) -> Iterator[Any]:
    with hal.open(request.param) as opened:
        yield opened


def on(device: Any, item: Any) -> Any:
    if isinstance(item, np.ndarray):
        return device.array(item)
    return type(item)(on(device, part) for part in item) if isinstance(item, list) else item


@pytest.mark.parametrize(("name", "arguments", "keywords", "expected"), CASES, ids=IDS)
def test_operator_on_a_device_equals_the_evaluator(
    device: Any, name: str, arguments: tuple[Any, ...], keywords: dict[str, Any], expected: Any
) -> None:
    function = getattr(hal, name)
    reference = function.reference(*arguments, **keywords)
    result = function(*(on(device, item) for item in arguments), **keywords).numpy()
    assert result.dtype == reference.dtype
    assert result.shape == reference.shape
    np.testing.assert_allclose(
        result.astype(np.float64), reference.astype(np.float64), rtol=2e-3, atol=1e-5
    )


@hal.kernel
def affine(x: Any, w: Any) -> Any:
    return x @ w * 2.0 + 1.0


def test_a_second_call_compiles_nothing(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x, w = device.array(floats(4, 6)), device.array(floats(6, 3))
    first = affine(x, w).numpy()
    monkeypatch.setattr("hal.dsl.function.ready", None)
    np.testing.assert_array_equal(affine(x, w).numpy(), first)


def test_the_result_can_go_to_an_array_and_a_stream_of_the_caller(device: Any) -> None:
    x, w = device.array(floats(4, 6)), device.array(floats(6, 3))
    out, stream = device.empty((4, 3), "f32"), device.stream()
    assert affine(x, w, out=out, stream=stream) is out
    np.testing.assert_array_equal(out.numpy(stream=stream), affine(x, w).numpy())


def test_a_scalar_is_read_at_each_launch(device: Any) -> None:
    @hal.kernel
    def step(p: Any, g: Any, rate: Any) -> Any:
        return p - g * rate

    p, g = floats(9), floats(9)
    for rate in (0.5, 0.25):
        result = step(device.array(p), device.array(g), rate).numpy()
        np.testing.assert_allclose(result, p - g * np.float32(rate), rtol=1e-6)


def test_wrong_arguments_are_told(device: Any) -> None:
    x, w = floats(4, 6), floats(6, 3)
    with pytest.raises(UsageError, match="which lies on no device"):
        affine(x, device.array(w))
    with pytest.raises(UsageError, match="none of the arguments is an array of a device"):
        affine(1, 2)
    with pytest.raises(UsageError, match=r"result 0 is f32\[4, 3\]; f32\[3\] was given"):
        affine(device.array(x), device.array(w), out=device.empty((3,), "f32"))
