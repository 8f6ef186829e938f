"""The definition of VIL: a slow, plain evaluator on NumPy, independent of every port."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hal.dtypes import DType
from hal.vil.errors import VilError, VilRefused
from hal.vil.expressions import Expr, show
from hal.vil.expressions import evaluate as evaluate_expression
from hal.vil.instance import Buffer, Instance
from hal.vil.model import Argument, Kernel, Launch, Program
from hal.vil.module import Module
from hal.vil.numerics import Array, Numerics

__all__ = ["evaluate"]

WORKSPACE_ALIGNMENT = 256


def evaluate(
    module: Module,
    kernel: str,
    arguments: Mapping[str, Any] | Sequence[Any],
    *,
    grid: Sequence[int] = (1, 1, 1),
    reference: bool = False,
    shuffle_seed: int | None = None,
) -> dict[str, Array]:
    """Runs a kernel and returns its written buffers; the arguments stay unchanged.

    Args:
        module: A valid module (see `validate`).
        kernel: Name of the kernel.
        arguments: By name, or in the signature's order: a NumPy array of the right type for a
            buffer (any shape; it is used as flat memory), a number for a scalar or symbol.
        grid: Grid of launches that take the caller's.
        reference: Keep floats in float64 and round nothing, not even in CAST between floats:
            the result is `ref` of the tolerance law, and with absolute inputs it is S of sums.
        shuffle_seed: Run the instances of each launch in a random order; None keeps x fastest.

    Returns:
        Name to new array, of the argument's shape, for each write and inout buffer.

    Raises:
        VilRefused: the launch is refused, as a port must refuse it.
        VilFault: a program failed while it ran.
    """
    try:
        plan = module.kernel(kernel)
    except KeyError as error:
        raise VilError(f"no kernel {error.args[0]}", call="vil.evaluate") from None
    run = _Run(module, plan, Numerics(reference), shuffle_seed)
    run.bind(arguments)
    run.check_expressions(grid)
    for launch in plan.launches:
        run.launch(launch, grid)
    return run.outputs()


class _Run:
    """One launch of a kernel: bound arguments, workspaces and symbols."""

    def __init__(
        self, module: Module, kernel: Kernel, numerics: Numerics, shuffle_seed: int | None
    ) -> None:
        self.module = module
        self.kernel = kernel
        self.numerics = numerics
        self.order = None if shuffle_seed is None else np.random.default_rng(shuffle_seed)
        self.symbols: dict[str, int] = {}
        self.scalars: dict[str, float | int] = {}
        self.buffers: dict[str, Buffer] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.workspaces: dict[tuple[str, str], Buffer] = {}

    def bind(self, given: Mapping[str, Any] | Sequence[Any]) -> None:
        """Checks the arguments as the loader does and copies the buffers."""
        wanted = self.kernel.arguments
        if not isinstance(given, Mapping):
            if len(given) != len(wanted):
                raise VilRefused(
                    f"{len(given)} arguments; {self.kernel.name} takes {len(wanted)}",
                    call="vil.evaluate",
                )
            given = {item.name: value for item, value in zip(wanted, given, strict=True)}
        names = [item.name for item in wanted]
        if sorted(given) != sorted(names):
            raise VilRefused(
                f"arguments {sorted(given)}; {self.kernel.name} takes {names}", call="vil.evaluate"
            )
        for item in wanted:
            if item.kind == "symbol":
                self.symbols[item.name] = int(given[item.name])
            elif item.kind == "scalar":
                self.scalars[item.name] = _scalar(item, given[item.name])
        sources: dict[str, Array] = {}
        for item in wanted:
            if item.kind == "buffer":
                self._bind_buffer(item, np.asarray(given[item.name]), sources)

    def _bind_buffer(self, item: Argument, array: Array, sources: dict[str, Array]) -> None:
        assert item.dtype is not None
        if array.dtype != item.dtype.numpy:
            raise VilRefused(f"argument {item.name} is {array.dtype}; it must be {item.dtype}")
        if item.required_bytes is not None:
            needed = self._size(item.required_bytes, f"required_bytes of {item.name}")
            if array.nbytes < needed:
                raise VilRefused(f"argument {item.name} has {array.nbytes} bytes; {needed} needed")
        self.shapes[item.name] = array.shape
        for name, other in sources.items():
            if not np.may_share_memory(array, other) or not array.size:
                continue
            written = item.access != "read" or self._argument(name).access != "read"
            if other is array and (item.alias == name or not written):
                self.buffers[item.name] = self.buffers[name]
                return
            if written:
                raise VilRefused(f"arguments {name} and {item.name} overlap")
        sources[item.name] = array
        storage = self.numerics.storage(item.dtype)
        with np.errstate(all="ignore"):
            flat = array.reshape(-1).astype(storage, copy=True)
        self.buffers[item.name] = Buffer(item.name, flat)

    def _argument(self, name: str) -> Argument:
        return next(item for item in self.kernel.arguments if item.name == name)

    def _size(self, expr: Expr, what: str) -> int:
        value = evaluate_expression(expr, self.symbols)
        if value < 0:
            raise VilRefused(f"{what} is {value} (from {show(expr)}); it may not be negative")
        return value

    def _grid(self, launch: Launch, caller: Sequence[int]) -> tuple[int, ...]:
        if launch.grid is None:
            return (*caller, 1, 1)[:3]
        axes = tuple(self._size(axis, "a grid axis") for axis in launch.grid)
        return (*axes, 1, 1)[:3]

    def check_expressions(self, caller: Sequence[int]) -> None:
        """Computes every expression once, before anything runs."""
        for workspace in self.kernel.workspaces:
            self._size(workspace.bytes, f"workspace {workspace.name}")
        for launch in self.kernel.launches:
            self._grid(launch, caller)
            program = self.module.program(launch.program)
            Instance.expression_values(program, self._program_symbols(launch, program))

    def _program_symbols(self, launch: Launch, program: Program) -> dict[str, int]:
        return {
            param.name: evaluate_expression(binding.expression, self.symbols)
            for param, binding in zip(program.params, launch.bindings, strict=True)
            if binding.expression is not None
        }

    def _workspace(self, name: str, dtype: DType) -> Buffer:
        """A workspace seen as elements of one type; its bytes start as 0xA5."""
        kind = dtype.name if self.numerics.reference else ""
        if (name, kind) not in self.workspaces:
            item = next(each for each in self.kernel.workspaces if each.name == name)
            size = self._size(item.bytes, name)
            if self.numerics.reference:
                filled = np.full(size // dtype.bytes, 0xA5).astype(self.numerics.storage(dtype))
                self.workspaces[name, kind] = Buffer(name, filled)
            else:
                padded = -(-size // WORKSPACE_ALIGNMENT) * WORKSPACE_ALIGNMENT
                raw = np.full(padded, 0xA5, np.uint8)
                self.workspaces[name, kind] = Buffer(name, raw, size)
        found = self.workspaces[name, kind]
        if self.numerics.reference:
            return found
        count = (found.count // dtype.bytes) * dtype.bytes
        return Buffer(name, found.data[:count].view(dtype.numpy))

    def launch(self, launch: Launch, caller: Sequence[int]) -> None:
        """Runs every instance of one step of the plan."""
        program = self.module.program(launch.program)
        buffers: dict[str, Buffer] = {}
        scalars: dict[str, float | int] = {}
        for param, binding in zip(program.params, launch.bindings, strict=True):
            if binding.workspace is not None:
                assert param.dtype is not None
                buffers[param.name] = self._workspace(binding.workspace, param.dtype)
            elif binding.argument is not None and param.kind == "buffer":
                buffers[param.name] = self.buffers[binding.argument]
            elif binding.argument is not None:
                scalars[param.name] = self.scalars[binding.argument]
        symbols = self._program_symbols(launch, program)
        values = Instance.expression_values(program, symbols)
        grid = self._grid(launch, caller)
        points = [
            (x, y, z)
            for z, y, x in itertools.product(range(grid[2]), range(grid[1]), range(grid[0]))
        ]
        if self.order is not None:
            self.order.shuffle(points)
        for point in points:
            x, y, z = (int(axis) for axis in point)
            Instance(program, self.numerics, buffers, scalars, values, (x, y, z), grid).run()

    def outputs(self) -> dict[str, Array]:
        """New arrays for what the kernel may write."""
        return {
            item.name: self.buffers[item.name].data.reshape(self.shapes[item.name]).copy()
            for item in self.kernel.arguments
            if item.kind == "buffer" and item.access != "read"
        }


def _scalar(item: Argument, value: Any) -> float | int:
    assert item.dtype is not None
    if item.dtype.is_int:
        number = int(value)
        if not item.dtype.minimum <= number <= item.dtype.maximum:
            raise VilRefused(f"argument {item.name} = {number} does not fit {item.dtype}")
        return number
    with np.errstate(all="ignore"):
        return float(np.asarray(value, item.dtype.numpy))
