"""Which form of a module a device gets, and why."""

from __future__ import annotations

from typing import Any

import pytest

import hal
from hal.codegen import compile as compile_kernel
from hal.codegen.dialect.route import ordered
from hal.hcd import load

CPU = load("hal/cpu")
CHAIN = hal.kernel(lambda x: hal.relu(x * 2.0 + 1.0))
SPEC = hal.spec((64, 80))


def first(function: Any, *arguments: Any, seconds: float, route: str = "auto") -> tuple[str, str]:
    kernel = function.ir(*arguments)
    wanted, why = ordered(compile_kernel(kernel, CPU).module, CPU, route, seconds)
    return wanted[0], why


def test_plain_arithmetic_that_runs_long_is_compiled() -> None:
    assert first(CHAIN, SPEC, seconds=0.01)[0] == "source.c"
    assert "plain arithmetic of 10.0 ms a run" in first(CHAIN, SPEC, seconds=0.01)[1]


@pytest.mark.parametrize(
    ("function", "seconds"), [(CHAIN, 1e-5), (hal.softmax, 0.01), (hal.gelu, 0.01)]
)
def test_what_is_short_or_has_other_functions_starts_at_once(function: Any, seconds: float) -> None:
    assert first(function, SPEC, seconds=seconds)[0] == "vil.v1"


def test_a_route_that_is_asked_for_is_taken() -> None:
    assert first(CHAIN, SPEC, seconds=1e-5, route="source")[0] == "source.c"
    assert first(CHAIN, SPEC, seconds=0.01, route="vil")[0] == "vil.v1"


def test_products_without_a_template_are_interpreted() -> None:
    spec = hal.spec((64, 64), "bf16")
    name, why = first(hal.matmul, spec, spec, seconds=0.01)
    assert name == "vil.v1"
    assert "no template" in why
