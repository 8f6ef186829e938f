"""Runs VIL modules on the port under test: what the cases of tier 2 stand on.

lab.run(recipes.elementwise("un", "exp", [f32], f32, tile=lab.tile),
        {"M": 3, "N": 5, "X0": x, "Y": blank(f32, 3, 5)}) -> {"Y": array}

Each buffer lies between two guards. After a launch the guards and every buffer that the kernel may
only read must hold what they held (HAL-VIL-002, HAL-VIL-035). What the HCD's `kernels.vil` cannot
run is skipped, but only when the port refuses it too, and never below the floor of every chip.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hal.dtypes import DType
from hal.testing import record
from hal.testing.abi import Argument, status_name
from hal.testing.rig import Rig
from hal.vil.binary_writer import encode
from hal.vil.check_chip import Limits
from hal.vil.expressions import evaluate as evaluate_expression
from hal.vil.model import Kernel
from hal.vil.module import Module
from hal.vil.serialise import serialise
from hal.vil.tables import OPS
from hal.vil.validator import validate

if TYPE_CHECKING:
    from hal.codegen import Compiled
    from hal.hcd import Hcd
    from hal.ir.nodes import Kernel as TensorKernel
    from hal.vil.model import Argument as ArgumentOf

__all__ = ["LENGTHS", "Bound", "Lab", "blank", "chip_of", "is_bitwise_equal"]

Array = NDArray[Any]
GUARD_BYTE, BLANK_BYTE = 0xB7, 0x7B
GUARD_BYTES = 64
WORKSPACE_ALIGNMENT = 256
FLOOR_TYPES = ("f32", "i32", "bool")
LENGTHS = ("zero", "one", "tile-1", "tile", "tile+1", "two tiles", "prime")
"""Names of lengths around a tile's, for ids that do not depend on the HCD."""

_SCALARS = {"f32": Argument.F32, "f64": Argument.F64, "i32": Argument.I32, "i64": Argument.I64}


def chip_of(flat: Mapping[str, str]) -> dict[str, Any]:
    """Return what the validator reads of a flat HCD: `kernels.vil` and the memories' sizes."""
    import json

    def value(text: str) -> Any:
        if text[:1] in "[{" or text in ("true", "false"):
            return json.loads(text)
        return int(text) if text.lstrip("-").isdigit() else text

    lists: dict[str, dict[str, dict[str, Any]]] = {"ops": {}, "spaces": {}, "memory": {}}
    vil: dict[str, Any] = {}
    for path, text in flat.items():
        parts = path.split(".")
        if parts[:2] == ["kernels", "vil"] and len(parts) == 3:
            vil[parts[2]] = value(text)
        elif parts[:2] == ["kernels", "vil"] and parts[2] in lists and len(parts) == 5:
            lists[parts[2]].setdefault(parts[3], {"id": parts[3]})[parts[4]] = value(text)
        elif parts[0] == "memory" and len(parts) == 3:
            lists["memory"].setdefault(parts[1], {"id": parts[1]})[parts[2]] = value(text)
    vil |= {"ops": list(lists["ops"].values()), "spaces": list(lists["spaces"].values())}
    return {"memory": list(lists["memory"].values()), "kernels": {"vil": vil}}


def blank(dtype: DType, *shape: int) -> Array:
    """Return an array for a result: full of bytes that no right answer is full of."""
    raw = np.full(math.prod(shape) * dtype.bytes, BLANK_BYTE, np.uint8)
    return raw.view(dtype.numpy).reshape(shape)


def is_bitwise_equal(left: Array, right: Array) -> bool:
    """Tell whether two arrays hold the same bytes."""
    return left.tobytes() == right.tobytes()


def _up(length: int, granule: int) -> int:
    return -(-length // granule) * granule


def _prime_after(number: int) -> int:
    found = number + 1
    while any(found % divisor == 0 for divisor in range(2, math.isqrt(found) + 1)):
        found += 1
    return found


class Lab:
    """A port and its chip, as programs see them.

    Attributes:
        rig: The raw port.
        limits: What `kernels.vil` of the HCD allows.
        tile: Rows and columns of a small tile of this chip.
        side: Side of a square tile that may be transposed and may be any operand of MMA.
    """

    def __init__(self, rig: Rig, flat: Mapping[str, str]) -> None:
        self.rig = rig
        self.flat = dict(flat)
        self._compiled: dict[tuple[TensorKernel, frozenset[str]], Compiled] = {}
        self.chip = chip_of(flat)
        self.limits = Limits.of(self.chip)
        rows, columns = self.limits.granule_rows, self.limits.granule_columns
        self.tile = (_up(4, rows), _up(16, columns))
        self.side = _up(16, math.lcm(rows, columns))
        self.alignment = int(flat.get("execution.limits.offset_alignment_bytes", "1"))
        self.is_deterministic = flat.get("features.deterministic") == "true"

    def length(self, name: str, unit: int) -> int:
        """Return one of `LENGTHS` for a tile of `unit`."""
        return {
            "zero": 0,
            "one": 1,
            "tile-1": unit - 1,
            "tile": unit,
            "tile+1": unit + 1,
            "two tiles": 2 * unit,
            "prime": _prime_after(2 * unit),
        }[name]

    def space(self, op: str, end: str) -> str:
        """Return the space in which the chip wants an operand: `near` unless a row forbids it.

        Args:
            op: An operation, as mma.
            end: a, b, in or out, as in the rows' `spaces_a`.
        """
        rows = (self.limits.rows or {}).get(op, [])
        for row in rows:
            spaces = row.get(f"spaces_{end}", ["near"])
            if "near" in spaces:
                return "near"
        return str(rows[0][f"spaces_{end}"][0]) if rows else "near"

    # ---- loading ----

    def own(self, module: Module) -> Module:
        """Return a module in the chip's own profile: with tokens where the chip is explicit."""
        if not self.limits.explicit:
            return module
        return replace(module, programs=tuple(serialise(each) for each in module.programs))

    def load(self, module: Module) -> int:
        """Return the handle of a loaded module.

        Raises:
            CapabilityAbsent: HCD and port agree that the chip cannot run it.
            AssertionError: the case's program is wrong, or the HCD lies below the floor.
        """
        problems = validate(module, self.chip)
        wrong = [str(item) for item in problems if item.rule != "chip"]
        assert wrong == [], "the case's own program is wrong"
        image = bytes(encode(module))
        if problems:
            self._skip(module, image, str(problems[0]))
        return self.rig.module(image)

    def _skip(self, module: Module, image: bytes, problem: str) -> None:
        """End the case when the port, too, says that the chip cannot run the module."""
        assert not _is_floor(module), f"every chip must run this: {problem}"
        raw = self.rig.raw
        out = raw.out("hal_module")
        status = raw.call("module.load", self.rig.device, self.rig.module_desc(image), out)
        if status == 0:
            raw.ok("module.unload", int(out[0]))
            record.current().warnings.append(f"the port runs what the HCD excludes: {problem}")
            return
        path = f"kernels.vil: {problem}"
        answer = raw.i64(self.rig.device, path)
        witnesses = {
            "hcd": problem,
            "query": "NOT_FOUND" if answer is None else str(answer),
            "probe": f"module.load: {status_name(status)}",
        }
        raise record.CapabilityAbsent(path, witnesses)

    # ---- running ----

    def bind(
        self,
        module: Module,
        arguments: Mapping[str, Any],
        *,
        kernel: str = "main",
        grid: tuple[int, ...] = (1,),
    ) -> Bound:
        """Load a module and put a kernel's arguments into device memory."""
        handle = self.rig.kernel(self.load(module), kernel)
        return Bound(self, handle, module.kernel(kernel), arguments, grid)

    def run(
        self,
        module: Module,
        arguments: Mapping[str, Any],
        *,
        kernel: str = "main",
        grid: tuple[int, ...] = (1,),
    ) -> dict[str, Array]:
        """Run a kernel once and return its written buffers, of the arguments' shapes."""
        bound = self.bind(module, arguments, kernel=kernel, grid=grid)
        bound.launch()
        return bound.results()

    # ---- kernels of the tensor IR ----

    @cached_property
    def hcd(self) -> Hcd:
        """The chip's whole description, for the compiler."""
        from hal.hcd import from_flat

        return from_flat("".join(f"{path}\t{text}\n" for path, text in self.flat.items()))

    def compute(
        self,
        kernel: TensorKernel,
        arrays: Mapping[str, Any],
        params: Mapping[str, int],
        scalars: Mapping[str, float | int] | None = None,
        *,
        without: frozenset[str] = frozenset(),
    ) -> dict[str, Array]:
        """Compile a kernel of the tensor IR for the chip, run it, and return what it wrote.

        Args:
            arrays: The inputs and inouts; outputs are made here.
            without: Names of passes to leave out.
        """
        from hal.ir.analysis import value_of

        compiled = self._compile(kernel, params, without)
        given: dict[str, Any] = {**arrays, **params, **(scalars or {})}
        for item in kernel.arrays_of("output"):
            given[item.name] = blank(item.dtype, *(value_of(n, params) for n in item.shape))
        return self.run(compiled.module, given, kernel=compiled.kernel_name)

    def _compile(
        self, kernel: TensorKernel, params: Mapping[str, int], without: frozenset[str]
    ) -> Compiled:
        """A kernel for the chip; the module of the first sizes serves all others too."""
        from hal.codegen import CodegenError
        from hal.codegen import compile as compile_kernel

        if (kernel, without) not in self._compiled:
            try:
                made = compile_kernel(kernel, self.hcd, sizes=params, without=without)
            except CodegenError:
                # What this chip cannot run is judged as in other cases: the port must refuse it.
                made = compile_kernel(kernel, None, sizes=params, without=without)
            self._compiled[kernel, without] = made
        return self._compiled[kernel, without]


def _is_floor(module: Module) -> bool:
    """Tell whether a module needs only what no chip may lack (docs/vil.md, section 6)."""
    for program in module.programs:
        if program.profile != "flat" or program.contract or program.deterministic:
            return False
        if any(tile.dtype.name not in FLOOR_TYPES for tile in program.tiles):
            return False
        if any(OPS[item.op].tier > 1 or item.function == "tile" for item in program.instructions):
            return False
        if any(_is_near(item) for item in program.instructions):
            return False
    return True


def _is_near(item: Any) -> bool:
    return item.op in ("load", "store") and item.a is not None and item.d is not None


class Bound:
    """A kernel whose arguments lie in device memory."""

    def __init__(
        self,
        lab: Lab,
        handle: int,
        kernel: Kernel,
        arguments: Mapping[str, Any],
        grid: tuple[int, ...],
    ) -> None:
        self.lab, self.rig, self.handle, self.kernel = lab, lab.rig, handle, kernel
        self.grid = grid
        self.guard = _up(GUARD_BYTES, lab.alignment)
        self.given: dict[str, Array] = {}
        self.memory: dict[str, int] = {}
        symbols = {
            item.name: int(arguments[item.name])
            for item in kernel.arguments
            if item.kind == "symbol"
        }
        self._arguments = [self._argument(item, arguments[item.name]) for item in kernel.arguments]
        if kernel.workspaces:
            sizes = [evaluate_expression(each.bytes, symbols) for each in kernel.workspaces]
            total = sum(_up(size, WORKSPACE_ALIGNMENT) for size in sizes)
            block = np.full(total, 0xA5, np.uint8)
            self._arguments.append(self._buffer("workspace block", block))
            del self.given["workspace block"]

    def _argument(self, item: ArgumentOf, value: Any) -> dict[str, Any]:
        if item.kind == "buffer":
            return self._buffer(item.name, np.asarray(value))
        if item.kind == "symbol":
            return self.rig.symbol(int(value))
        assert item.dtype is not None
        return self.rig.scalar(_SCALARS[item.dtype.name], value)

    def _buffer(self, name: str, array: Array) -> dict[str, Any]:
        size = array.nbytes + 2 * self.guard
        self.memory[name] = self.rig.memory(size)
        self.upload(name, array)
        return self.rig.buffer(self.memory[name], array.nbytes, offset=self.guard)

    def upload(self, name: str, array: Array) -> None:
        """Give a buffer new content, guards included."""
        edge = bytes([GUARD_BYTE]) * self.guard
        self.given[name] = array
        self.rig.upload(self.memory[name], edge + array.tobytes() + edge)

    def set_scalar(self, name: str, value: float) -> None:
        """Change a scalar or symbol for the launches that follow."""
        for place, item in enumerate(self.kernel.arguments):
            if item.name == name:
                self._arguments[place] = self._argument(item, value)

    def enqueue(self, stream: int) -> None:
        """Enqueue one launch."""
        self.rig.launch(stream, self.handle, *self._arguments, grid=self.grid)

    def launch(self) -> None:
        """Launch once on a stream of its own and wait."""
        stream = self.rig.stream()
        self.enqueue(stream)
        self.rig.wait(stream)
        self.rig.raw.ok("stream.destroy", stream)

    def results(self) -> dict[str, Array]:
        """Return the written buffers; check guards and the buffers that are only read."""
        found: dict[str, Array] = {}
        for item in self.kernel.arguments:
            if item.kind != "buffer":
                continue
            given = self.given[item.name]
            whole = self.rig.download(self.memory[item.name], given.nbytes + 2 * self.guard)
            low, high = whole[: self.guard], whole[self.guard + given.nbytes :]
            edges = {low, high}
            assert edges == {bytes([GUARD_BYTE]) * self.guard}, (
                f"the kernel wrote outside buffer {item.name} (HAL-VIL-002)"
            )
            inner = whole[self.guard : self.guard + given.nbytes]
            if item.access == "read":
                assert inner == given.tobytes(), (
                    f"the kernel changed {item.name}, which it may only read (HAL-VIL-035)"
                )
            else:
                array = np.frombuffer(inner, given.dtype)
                found[item.name] = array.reshape(given.shape)
        return found
