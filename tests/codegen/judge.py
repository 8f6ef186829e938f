"""Runs a kernel through code generation and holds it against the IR's evaluator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hal.codegen import compile as compile_kernel
from hal.ir import evaluate as meaning
from hal.ir.analysis import value_of
from hal.ir.nodes import Kernel
from hal.vil import evaluate, validate
from hal.vil.module import Module


def run_module(
    module: Module,
    kernel: Kernel,
    arrays: Mapping[str, Any],
    params: Mapping[str, int],
    scalars: Mapping[str, Any],
) -> dict[str, Any]:
    """The outputs of a module by VIL's evaluator."""
    given: dict[str, Any] = dict(params) | dict(scalars)
    for array in kernel.arrays_of("input", "inout", "output"):
        shape = tuple(value_of(size, params) for size in array.shape)
        blank = np.full(shape, 1, array.dtype.numpy)
        given[array.name] = np.array(arrays.get(array.name, blank), array.dtype.numpy)
    return evaluate(module, kernel.name, given)


def judge(
    kernel: Kernel,
    arrays: Mapping[str, Any],
    params: Mapping[str, int],
    scalars: Mapping[str, Any] | None = None,
    *,
    chip: Any = None,
    sizes: Mapping[str, int] | None = None,
    **options: Any,
) -> Module:
    """Asserts that the module is valid and gives the evaluator's results, bit for bit."""
    module = compile_kernel(kernel, chip, sizes=sizes, **options).module
    assert validate(module, chip) == []
    wanted = meaning(kernel, arrays, params, scalars or {})
    got = run_module(module, kernel, arrays, params, scalars or {})
    for name, values in wanted.items():
        same = np.asarray(got[name]).astype(np.float64), np.asarray(values).astype(np.float64)
        np.testing.assert_array_equal(*same, err_msg=name)
    return module
