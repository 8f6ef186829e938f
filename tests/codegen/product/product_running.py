"""Compiles a kernel by the strategy of products alone and runs it on the cpu port."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import hal
from hal import hcd, ir, vil
from hal.codegen import product
from hal.codegen.choice import Choice
from hal.codegen.lowering import Lowering
from hal.codegen.target import Target
from hal.ir.analysis import inline_lets, value_of
from hal.ir.nodes import Kernel

Arrays = Mapping[str, np.ndarray[Any, Any]]


def tile(rows: int, columns: int, inner: int, split: int = 1, order: str = "columns") -> Choice:
    """A choice of the strategy."""
    lengths = (("rows", rows), ("columns", columns), ("inner", inner))
    return Choice("product", lengths, split, 1, order)


SMALL = (tile(16, 16, 16), tile(16, 16, 16, 2), tile(8, 32, 16, 3, "rows"), tile(32, 8, 8))
"""Choices whose edges small matrices reach."""


def kernel_of(text: str) -> Kernel:
    return inline_lets(ir.parse(text).kernels[0])


def module_of(
    kernel: Kernel, chip: hcd.Hcd, choice: Choice | None, sizes: Mapping[str, int]
) -> vil.Module:
    """The valid module of a kernel all of whose statements are products or join one."""
    target = Target.of(chip)
    lowering = Lowering(kernel, target)
    rest = lowering.kernel.assigns
    while rest:
        found = product.match(lowering.kernel, rest, target)
        assert found is not None, rest[0]
        best = choice or product.candidates(found, target, sizes)[0]
        product.lower(lowering, found, best)
        rest = rest[len(found.statements) :]
    module = lowering.module()
    assert vil.validate(module, chip) == []
    return module


def run(
    device: hal.Device,
    text: str,
    params: Mapping[str, int],
    arrays: Arrays,
    choice: Choice | None = None,
    scalars: Mapping[str, float] | None = None,
) -> dict[str, np.ndarray[Any, Any]]:
    """Outputs and inouts of a kernel that the device ran."""
    kernel = kernel_of(text)
    loaded = device.load(module_of(kernel, device.hcd, choice, params))[kernel.name]
    handles: dict[str, Any] = {}
    for array in kernel.arrays_of("input", "inout", "output"):
        if array.name in arrays:
            given = np.ascontiguousarray(arrays[array.name].astype(array.dtype.numpy))
            handles[array.name] = device.array(given)
        else:
            shape = tuple(value_of(size, params) for size in array.shape)
            handles[array.name] = device.empty(shape, array.dtype.numpy)
    numbers = [(scalars or {})[item.name] for item in kernel.scalars]
    stream = device.stream()
    loaded.launch(stream, *handles.values(), *numbers, *(params[name] for name in kernel.params))
    stream.synchronize()
    names = [array.name for array in kernel.arrays_of("inout", "output")]
    return {name: handles[name].numpy() for name in names}


def check(
    device: hal.Device,
    text: str,
    params: Mapping[str, int],
    arrays: Arrays,
    choice: Choice | None = None,
    scalars: Mapping[str, float] | None = None,
) -> None:
    """Runs a kernel on small whole numbers and compares with the evaluator, exactly."""
    kernel = kernel_of(text)
    typed = {
        array.name: arrays[array.name].astype(array.dtype.numpy)
        for array in kernel.arrays_of("input", "inout")
    }
    expected = ir.evaluate(kernel, typed, dict(params), dict(scalars or {}))
    got = run(device, text, params, arrays, choice, scalars)
    for name, value in got.items():
        np.testing.assert_array_equal(
            value.astype(np.float64), np.asarray(expected[name]).astype(np.float64), err_msg=name
        )
