"""Adaptation of the element type, on request: 16-bit storage, sums still in f32."""

from __future__ import annotations

from dataclasses import replace

from hal import dtypes
from hal.dtypes import DType
from hal.errors import InvalidValue
from hal.ir.analysis import inline_lets
from hal.ir.nodes import Access, Array, Assign, Expr, Index, Kernel, transform
from hal.ir.passes.rewriting import reads_of, taken_names, unused_name, writes_of

__all__ = ["STORAGE", "adapt_dtype"]

STORAGE = {dtypes.f16.name: dtypes.f16, dtypes.bf16.name: dtypes.bf16}


def adapt_dtype(kernel: Kernel, dtype: DType) -> Kernel:
    """The kernel with its f32 inputs, outputs and inouts stored as `dtype` (f16 or bf16).

    Temps stay f32, and so do sums; an output that is loaded or written again is kept in an f32
    temp until its last write, so that it is rounded once. An inout is rounded by each statement
    that writes it, as its meaning says.

    Raises:
        InvalidValue: `dtype` is neither f16 nor bf16.
    """
    if dtype.name not in STORAGE:
        raise InvalidValue(
            f"f32 cannot be stored as {dtype}",
            call="hal.ir.passes.run",
            next_step=f"Choose one of {', '.join(STORAGE)}.",
        )
    kernel = inline_lets(kernel)
    taken = taken_names(kernel)
    for output in kernel.arrays_of("output"):
        if output.dtype == dtypes.f32 and _is_used_again(kernel, output.name):
            kernel = _kept_in_temp(kernel, output, unused_name(f"{output.name}_f32", taken))
    return replace(kernel, arrays=tuple(_stored(array, dtype) for array in kernel.arrays))


def _stored(array: Array, dtype: DType) -> Array:
    changes = array.dtype == dtypes.f32 and array.role != "temp"
    return replace(array, dtype=dtype) if changes else array


def _is_used_again(kernel: Kernel, name: str) -> bool:
    writers = [item for item in kernel.assigns if name in writes_of(item)]
    return len(writers) > 1 or any(name in reads_of(item) for item in kernel.assigns)


def _kept_in_temp(kernel: Kernel, output: Array, temp: str) -> Kernel:
    """The kernel with a temp in place of an output, and a copy of it at the end."""

    def put(item: Expr) -> Expr:
        same = isinstance(item, Access) and item.array == output.name
        return replace(item, array=temp) if same else item  # type: ignore[type-var]

    statements = []
    for item in kernel.assigns:
        targets = tuple(transform(target, put) for target in item.targets)
        kept = tuple(target for target in targets if isinstance(target, Access))
        statements.append(replace(item, targets=kept, value=transform(item.value, put)))
    taken = taken_names(kernel)
    names = tuple(Index(unused_name(f"d{place}", taken)) for place in range(len(output.shape)))
    copy = Assign((Access(output.name, names),), "=", Access(temp, names))
    arrays = (*kernel.arrays, replace(output, name=temp, role="temp"))
    return replace(kernel, arrays=arrays, statements=(*statements, copy))
