"""Plans on the host: bound arguments, workspaces and grids, for sources that a test compiles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from hal.vil import Module, VilRefused
from hal.vil.expressions import evaluate
from hal.vil.model import Launch, Param, Program

Bytes = np.ndarray[Any, Any]


@dataclass
class Step:
    """One launch: the program, its grid and what its parameters get.

    `bound` has (bytes, offset, length) for a buffer, a number for scalars and symbols.
    """

    program: Program
    grid: tuple[int, int, int]
    bound: list[Any]


def steps(
    module: Module, kernel: str, arguments: dict[str, Any]
) -> tuple[dict[str, Bytes], Iterator[Step]]:
    """The written buffers as they will be, and the steps; raises VilRefused as a loader does."""
    plan = module.kernel(kernel)
    symbols = {
        item.name: int(arguments[item.name]) for item in plan.arguments if item.kind == "symbol"
    }
    memory: dict[str, Bytes] = {}
    for item in plan.arguments:
        if item.kind == "buffer":
            flat = np.ascontiguousarray(arguments[item.name]).reshape(-1)
            memory[item.name] = flat.view(np.uint8).copy()
            assert item.required_bytes is not None
            if memory[item.name].nbytes < _size(item.required_bytes, symbols):
                raise VilRefused(f"argument {item.name} is too short")
    spaces = {
        space.name: np.full(-(-_size(space.bytes, symbols) // 256) * 256, 0xA5, np.uint8)
        for space in plan.workspaces
    }
    grids = [_grid(launch, symbols) for launch in plan.launches]
    return memory, (
        _step(module, launch, grid, (arguments, symbols, memory, spaces))
        for launch, grid in zip(plan.launches, grids, strict=True)
    )


def _size(expr: Any, symbols: dict[str, int]) -> int:
    value = evaluate(expr, symbols)
    if value < 0:
        raise VilRefused(f"a size is {value}")
    return value


def _grid(launch: Launch, symbols: dict[str, int]) -> tuple[int, int, int]:
    axes = [_size(axis, symbols) for axis in launch.grid or ()]
    x, y, z = (*axes, 1, 1, 1)[:3]
    return x, y, z


def _step(module: Module, launch: Launch, grid: tuple[int, int, int], known: Any) -> Step:
    arguments, symbols, memory, spaces = known
    program = module.program(launch.program)
    bound: list[Any] = []
    for binding in launch.bindings:
        if binding.expression is not None:
            bound.append(evaluate(binding.expression, symbols))
        elif binding.workspace is not None:
            bound.append(spaces[binding.workspace])
        else:
            assert binding.argument is not None
            bound.append(memory.get(binding.argument, arguments[binding.argument]))
    return Step(program, grid, bound)


def bits(param: Param, value: Any) -> int:
    """A scalar or symbol as the 64 bits that an argument holds."""
    if param.kind == "symbol":
        return int(value) & (2**64 - 1)
    assert param.dtype is not None
    data = np.asarray([value]).astype(param.dtype.numpy).tobytes()
    return int.from_bytes(data, "little")


def results(
    module: Module, kernel: str, arguments: dict[str, Any], memory: dict[str, Bytes]
) -> dict[str, Any]:
    """The written buffers with their types and shapes."""
    found: dict[str, Any] = {}
    for item in module.kernel(kernel).arguments:
        if item.kind == "buffer" and item.access != "read":
            assert item.dtype is not None
            shape = np.asarray(arguments[item.name]).shape
            found[item.name] = memory[item.name].view(item.dtype.numpy).reshape(shape)
    return found


Runner = Callable[[Module, str, dict[str, Any]], tuple[str, dict[str, Any]]]
