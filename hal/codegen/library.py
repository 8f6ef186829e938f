"""The library route: a kernel that is one product, run by the device's own library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from hal.codegen import product
from hal.codegen.target import Target
from hal.dtypes import DType
from hal.ir.analysis import index_extents, reduced_indices, value_of
from hal.ir.nodes import Access, Call, Index, Kernel
from hal.ir.passes import run as run_passes
from hal.library import Operand

if TYPE_CHECKING:
    from hal.device import Device
    from hal.stream import Stream

__all__ = ["LibraryKernel", "Product", "found", "preferred"]

EFFICIENCY = 0.9
"""Share of a matrix unit's peak that a library without a measured rate is taken to reach."""
CALL_S = 4e-6
"""What describing an operator costs from Python."""


MOST_SIZES = 64
"""Values of the params whose operands a kernel keeps described."""

View = tuple[int, tuple[DType, tuple[int, ...], tuple[int, ...]]]
"""Place among a kernel's arguments, and element type, lengths and strides of an operand."""


@dataclass(frozen=True)
class Product:
    """A kernel that is `matmul`.

    Attributes:
        left, right, out: Names of its arrays, and for each which of its axes is which axis of the
            operator (batch first where there is one).
    """

    left: tuple[str, tuple[int, ...]]
    right: tuple[str, tuple[int, ...]]
    out: tuple[str, tuple[int, ...]]


def found(kernel: Kernel) -> Product | None:
    """The product that a kernel is, after the passes; None when it is anything else."""
    if len(kernel.arrays_of("input")) != 2 or all(s.assignment != "+=" for s in kernel.assigns):
        return None  # Most kernels, before a pass has run.
    kernel = run_passes(kernel)
    if len(kernel.assigns) != 1 or kernel.scalars or len(kernel.arrays) != 3:
        return None
    (statement,) = kernel.assigns
    value, inner = statement.value, reduced_indices(statement)
    if statement.assignment != "+=" or len(inner) != 1 or not isinstance(value, Call):
        return None
    if value.function != "mul" or kernel.array(statement.target.array).role != "output":
        return None
    left, right = (_names(part) for part in value.operands)
    out = _names(statement.target)
    if left is None or right is None or out is None or not 2 <= len(out) <= 3:
        return None
    if len({array.dtype for array in kernel.arrays}) != 1:
        return None
    *batch, row, column = out
    if row not in left:
        left, right, swapped = right, left, True
    else:
        swapped = False
    wanted = ((*batch, row, inner[0]), (*batch, inner[0], column))
    if sorted(left) != sorted(wanted[0]) or sorted(right) != sorted(wanted[1]):
        return None
    arrays = [part.array for part in value.operands if isinstance(part, Access)]
    if swapped:
        arrays.reverse()
    return Product(
        (arrays[0], tuple(left.index(name) for name in wanted[0])),
        (arrays[1], tuple(right.index(name) for name in wanted[1])),
        (statement.target.array, tuple(range(len(out)))),
    )


def _names(expr: Any) -> tuple[str, ...] | None:
    """Indices of an access that has nothing but plain ones, each once."""
    if not isinstance(expr, Access) or not all(isinstance(i, Index) for i in expr.indices):
        return None
    names = tuple(index.name for index in expr.indices if isinstance(index, Index))
    return names if len(set(names)) == len(names) and expr.pad is None else None


class LibraryKernel:
    """A product on a device; launched as a loaded kernel is."""

    def __init__(self, device: Device, kernel: Kernel, use: Product) -> None:
        self.device, self.kernel, self.use = device, kernel, use
        self._names = [a.name for a in kernel.arrays_of("input", "inout", "output")]
        self._arrays = {array.name: array for array in kernel.arrays}
        self._views = lru_cache(maxsize=MOST_SIZES)(self._views_of)
        self.signature = ()

    def launch(self, stream: Stream, *arguments: Any) -> None:
        """Enqueue it: arrays in the order of their declarations, then the params."""
        views = self._views(arguments[len(self._names) :])
        if views:
            operands = [Operand(arguments[place], *view) for place, view in views]
            self.device.library.run(stream, "matmul", operands[:2], operands[2:])

    def _views_of(self, values: tuple[int, ...]) -> list[View]:
        """The operands as the operator sees them, for these params; none where C is empty."""
        params = dict(zip(self.kernel.params, values, strict=True))
        views = [
            self._view(name, order, params)
            for name, order in (self.use.left, self.use.right, self.use.out)
        ]
        return views if all(views[2][1][1]) else []

    def _view(self, name: str, order: tuple[int, ...], params: Mapping[str, int]) -> View:
        array = self._arrays[name]
        shape = [value_of(extent, params) for extent in array.shape]
        strides = [1] * len(shape)
        for axis in reversed(range(len(shape) - 1)):
            strides[axis] = strides[axis + 1] * shape[axis + 1]
        turned = tuple(shape[n] for n in order), tuple(strides[n] for n in order)
        return self._names.index(name), (array.dtype, *turned)


def preferred(
    device: Device, kernel: Kernel, sizes: Mapping[str, int], *, asked: bool = False
) -> tuple[LibraryKernel | None, str]:
    """The kernel on the device's library where that is predicted to be faster, and why or why not.

    The library is taken at the rate that the description has for it, else at `EFFICIENCY` of the
    matrix unit's peak, or at the memory's bandwidth where that is the limit; the generated route at
    its own closed form.

    Args:
        asked: Take it wherever it runs.
    """
    offered = device.library.operators.get("matmul", frozenset())
    if not offered:
        return None, "the device's library offers no matmul"
    use = found(kernel)
    if use is None:
        return None, "the kernel is more than one matmul"
    dtype = kernel.array(use.out[0]).dtype
    if dtype not in offered:
        return None, f"the library's matmul does not take {dtype}"
    theirs, ours = forecast(kernel, Target.of(device.hcd), sizes)
    times = f"library {theirs * 1e6:,.0f} us, generated {ours * 1e6:,.0f} us"
    if not asked and theirs >= ours:
        return None, f"the generated kernel is predicted to be as fast: {times}"
    return LibraryKernel(device, kernel, use), f"predicted faster: {times}"


def forecast(kernel: Kernel, target: Target, sizes: Mapping[str, int]) -> tuple[float, float]:
    """Seconds of the library and of the generated kernel, by closed forms (roofline)."""
    plain = run_passes(kernel)
    (statement,) = plain.assigns
    extents = index_extents(plain, statement)
    macs = 1
    for extent in extents.values():
        macs *= max(value_of(extent, sizes), 1)
    dtype = plain.array(statement.target.array).dtype
    moved = sum(_elements(array.shape, sizes) * array.dtype.bytes for array in plain.arrays)
    peak = target.macs_per_s(dtype, dtype) or 1e9
    rate = measured_flops_per_s(target, dtype) / 2 or EFFICIENCY * peak
    theirs = CALL_S + target.launch_s
    theirs += max(macs / rate, moved / target.bandwidth_bytes_per_s)
    match, ours = product.match(plain, plain.assigns, target), float("inf")
    if match is not None:
        best = product.candidates(match, target, sizes, most=1)
        ours = min((product.cost(match, choice, target, sizes) for choice in best), default=ours)
    return theirs, ours


def measured_flops_per_s(target: Target, dtype: DType) -> float:
    """What the description says that the library's matmul reaches (`library.ID.rates`), or 0."""
    for row in target.data.get("library", []):
        if row["operator"] == "matmul":
            for rate in row.get("rates", []):
                if rate["dtype"] == dtype.name:
                    return float(rate["flops_per_s"])
    return 0.0


def _elements(shape: tuple[Any, ...], sizes: Mapping[str, int]) -> int:
    total = 1
    for extent in shape:
        total *= max(value_of(extent, sizes), 1)
    return total
