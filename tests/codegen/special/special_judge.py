"""A kernel's text through code generation and VIL's evaluator, against the IR's evaluator."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

import hal.hcd
from hal import ir
from hal.codegen import compile as compile_kernel
from hal.codegen.groups import choose, lower_group
from hal.codegen.lowering import Lowering
from hal.codegen.target import Target
from hal.codegen.tier1 import lower
from hal.hcd import Hcd
from hal.ir.analysis import value_of
from hal.vil import evaluate, validate
from hal.vil.module import Module

CHIPS = ("vil-core", "sim/npu-small", "sim/npu-tier1", "hal/cpu")


@lru_cache
def chip(name: str) -> Hcd | None:
    """A shipped chip; None is vil-core."""
    return None if name == "vil-core" else hal.hcd.load(name)


def kernel_of(text: str) -> ir.Kernel:
    """The only kernel of a text, not verified."""
    return ir.parse(text, verify=False).kernels[0]


@lru_cache(maxsize=256)
def compiled(text: str, name: str, options: tuple[tuple[str, Any], ...] = ()) -> Module:
    """The module of a text for a chip, which passes the chip's validator."""
    module = compile_kernel(kernel_of(text), chip(name), route="flat", **dict(options)).module
    assert validate(module, chip(name)) == []
    return module


@lru_cache(maxsize=256)
def compiled_unverified(text: str, name: str) -> Module:
    """As `compiled`, of a text that the verifier may refuse."""
    kernel, where = kernel_of(text), target(name)
    lowering = Lowering(kernel, where)
    rest = lowering.kernel.assigns
    while rest:
        group, choice = choose(lowering.kernel, rest, where, {}, started=lowering.started_arrays)
        lower_group(lowering, group, choice)
        rest = rest[len(group.match.statements) :]
    module = lower(lowering.module(), where)
    assert validate(module, chip(name)) == []
    return module


def judge(
    text: str,
    name: str,
    arrays: dict[str, Any],
    params: dict[str, int] | None = None,
    scalars: dict[str, Any] | None = None,
    *,
    rtol: float = 0.0,
    meaning: str = "",
    **options: Any,
) -> dict[str, Any]:
    """Asserts that the module for a chip gives what the kernel means; returns its results.

    Args:
        meaning: Another text that means the same.
        rtol: Of results whose sums may come in another order; 0: bit for bit but for NaN.
    """
    kernel = kernel_of(text)
    if meaning:
        module = compiled_unverified(text, name)
    else:
        module = compiled(text, name, tuple(options.items()))
    shapes = {item: np.shape(value) for item, value in arrays.items()}
    known = ir.bind(kernel, shapes, params)
    given: dict[str, Any] = {key: known[key] for key in kernel.params} | dict(scalars or {})
    for array in kernel.arrays_of("input", "inout", "output"):
        shape = tuple(value_of(size, known) for size in array.shape)
        blank = np.zeros(shape, array.dtype.numpy)
        given[array.name] = np.array(arrays.get(array.name, blank), array.dtype.numpy)
    wanted = ir.evaluate(kernel_of(meaning or text), arrays, params, scalars or {})
    got = evaluate(module, kernel.name, given)
    for item, want in wanted.items():
        pair = np.asarray(got[item]).astype(np.float64), np.asarray(want).astype(np.float64)
        if rtol:
            np.testing.assert_allclose(*pair, rtol=rtol, atol=rtol, err_msg=item)
        else:
            np.testing.assert_array_equal(*pair, err_msg=item)
    return got


def target(name: str) -> Target:
    """What code generation reads of a chip."""
    return Target.of(chip(name))
