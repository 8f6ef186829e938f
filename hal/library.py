"""Operators that a device's own library runs: table `operators` of the ABI."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from hal import dtypes
from hal.memory.region import Region
from hal.port.native import CData, fail, ffi, lib

if TYPE_CHECKING:
    from hal.chip.opened import Chip
    from hal.dtypes import DType
    from hal.stream import Stream

__all__ = ["Library", "Operand"]

MOST = 4096
"""Operators after which the list is not read on: a port that never ends it is broken."""


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor of an operator: memory seen with strides.

    Attributes:
        region: Array, buffer or view.
        shape: Lengths; at most 5.
        strides: Elements from one index to the next of each axis.
    """

    region: Region
    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class Library:
    """The operators of one device: `device.library`."""

    def __init__(self, device: Chip) -> None:
        self._device = device

    @cached_property
    def operators(self) -> dict[str, frozenset[DType]]:
        """Name of each operator on offer and the element types that it takes."""
        found: dict[str, frozenset[DType]] = {}
        info = ffi.new("hal_operator_info *")
        for index in range(MOST):
            info.size = ffi.sizeof("hal_operator_info")
            native, handle = self._device.native, self._device._handle
            if lib.hal_operator_enumerate(native, handle, index, info) != 0:
                break
            taken = frozenset(d for d in dtypes.ALL if info.dtype_mask >> d.number & 1)
            found[ffi.string(info.name).decode()] = taken
        return found

    def supports(self, name: str, inputs: Sequence[Operand], outputs: Sequence[Operand]) -> bool:
        """Whether the library runs this use, without workspace of the caller's."""
        if name not in self.operators:
            return False
        desc, _kept = _described(name, inputs, outputs)
        size = ffi.new("uint64_t *")
        device = self._device
        status = lib.hal_operator_supports(device.native, device._handle, desc, size)
        return bool(status == 0 and size[0] == 0)

    def run(
        self, stream: Stream, name: str, inputs: Sequence[Operand], outputs: Sequence[Operand]
    ) -> None:
        """Enqueue an operator.

        Raises:
            Unsupported: the library does not run this use.
        """
        desc, _kept = _described(name, inputs, outputs)
        device = self._device
        status = lib.hal_operator_run(device.native, stream.handle, desc, ffi.NULL)
        if status:
            fail(device.native, status, "operator.run", device=device.name)


def _described(
    name: str, inputs: Sequence[Operand], outputs: Sequence[Operand]
) -> tuple[CData, list[CData]]:
    """A hal_operator_desc, and what must outlive it."""
    kept = [_text(name)]
    desc = ffi.new("hal_operator_desc *")
    desc.size = ffi.sizeof("hal_operator_desc")
    desc.name = kept[0]
    desc.input_count, desc.output_count = len(inputs), len(outputs)
    desc.inputs, desc.outputs = tensors = _tensors(inputs), _tensors(outputs)
    kept += tensors
    return desc, kept


def _tensors(operands: Sequence[Operand]) -> CData:
    tensors = ffi.new("hal_tensor[]", len(operands))
    for place, operand in enumerate(operands):
        region = operand.region
        tensors[place] = _tensor(operand.dtype.number, operand.shape, operand.strides)[0]
        ref = tensors[place].ref
        ref.memory, ref.offset_bytes, ref.bytes = region.handle, region.offset_bytes, region.bytes
    return tensors


@lru_cache(maxsize=256)
def _text(name: str) -> CData:
    return ffi.new("char[]", name.encode())


@lru_cache(maxsize=256)
def _tensor(number: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> CData:
    """A tensor without its memory. It is copied, never handed out."""
    tensor = ffi.new("hal_tensor *")
    tensor.dtype, tensor.rank = number, len(shape)
    tensor.shape[0 : len(shape)] = shape
    tensor.strides[0 : len(strides)] = strides
    return tensor
