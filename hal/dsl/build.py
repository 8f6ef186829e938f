"""Turns the graph of a trace into a kernel of the tensor IR."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hal.dsl.dim import Length, expr_of
from hal.dsl.tensor import Group, Tensor
from hal.dtypes import DType
from hal.ir.analysis import index_extents, params_of, reduced_indices
from hal.ir.nodes import (
    Access,
    Array,
    Assign,
    Expr,
    Extent,
    Index,
    Kernel,
    Scalar,
    ScalarRef,
)

__all__ = ["Build", "kernel_of"]


def kernel_of(name: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Kernel:
    """The kernel that computes `outputs` from `inputs`.

    A mapping that several statements read becomes a temp, any other is written where it is read;
    what pays to fuse or to compute again is for the passes to say.
    """
    return Build(name, inputs, outputs).kernel()


class Build:
    """A kernel under construction."""

    def __init__(self, name: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
        self.name, self.inputs, self.outputs = name, inputs, outputs
        self._names: dict[Tensor, str] = {}
        self._arrays: list[Array] = []
        self._statements: list[Assign] = []
        self._extents: dict[str, Expr] = {}
        self._lengths: dict[str, Length] = {}
        self._written: set[int] = set()
        self._reduced = 0
        self._temps = 0
        self._order = self._ordered()
        self._uses = self._counted()

    # --- the graph ---------------------------------------------------------------------------

    def _ordered(self) -> list[Tensor]:
        """All tensors, operands first."""
        order: dict[Tensor, None] = {}
        stack: list[tuple[Tensor, bool]] = [(item, False) for item in reversed(self.outputs)]
        while stack:
            tensor, done = stack.pop()
            if tensor in order:
                continue
            if done:
                order[tensor] = None
                continue
            stack.append((tensor, True))
            stack += [(read, False) for read in reversed(_reads(tensor)) if read not in order]
        return list(order)

    def _counted(self) -> Counter[Tensor]:
        """How often each tensor's element would be written out if it had no array."""
        uses: Counter[Tensor] = Counter(self.outputs)
        seen_groups: set[int] = set()
        for tensor in reversed(self._order):
            if tensor.group is not None:
                if id(tensor.group) in seen_groups:
                    continue
                seen_groups.add(id(tensor.group))
            for read in _reads(tensor):
                uses[read] += uses[tensor] if tensor.is_view else 1
        return uses

    # --- for the operators ---------------------------------------------------------------------

    def at(self, tensor: Tensor, subscripts: Sequence[Expr]) -> Expr:
        """The element of a tensor."""
        if tensor.is_weak and tensor.name:
            return ScalarRef(tensor.name)
        name = self._names.get(tensor)
        if name is not None:
            return Access(name, tuple(subscripts))
        if tensor.element is None:
            raise AssertionError(f"{tensor!r} of {tensor.place} was read before it was written")
        return tensor.element(self, tuple(subscripts))

    def array(self, tensor: Tensor) -> str:
        """The name of the array that holds a tensor which a group or mapping wants whole."""
        return self._names[tensor]

    def indices(self, shape: Sequence[Length]) -> tuple[Index, ...]:
        """Indices for the axes of a target: i0, i1 …"""
        return tuple(Index(f"i{axis}") for axis in range(len(shape)))

    def reduced(self, length: Length) -> Index:
        """An index that no target has."""
        self._reduced += 1
        name = f"r{self._reduced - 1}"
        self._lengths[name] = length
        return Index(name)

    def assign(
        self, targets: Sequence[tuple[str, Sequence[Expr]]], assignment: str, value: Expr
    ) -> None:
        """Adds a statement."""
        accesses = tuple(Access(name, tuple(indices)) for name, indices in targets)
        self._statements.append(Assign(accesses, assignment, value))

    def temp(self, shape: Sequence[Length], dtype: DType) -> str:
        """The name of a new temp."""
        self._temps += 1
        name = f"t{self._temps - 1}"
        self._declare(name, dtype, shape, "temp")
        return name

    # --- the kernel ------------------------------------------------------------------------------

    def kernel(self) -> Kernel:
        """The finished kernel."""
        for tensor in self.inputs:
            if not tensor.is_weak:
                self._declare(tensor.name, tensor.dtype, tensor.shape, "input")
                self._names[tensor] = tensor.name
        places: dict[Tensor, str] = {}
        for number, tensor in enumerate(self.outputs):
            name = "out" if len(self.outputs) == 1 else f"out{number}"
            self._declare(name, tensor.dtype, tensor.shape, "output")
            if tensor not in self._names:
                places.setdefault(tensor, name)
        wanted = {read for tensor in self._order for read in _whole(tensor)}
        for tensor in self._order:
            self._place(tensor, places, wanted)
        for number, tensor in enumerate(self.outputs):
            name = "out" if len(self.outputs) == 1 else f"out{number}"
            if places.get(tensor) != name:
                self._copy(name, tensor)
        return self._finished()

    def _place(self, tensor: Tensor, places: dict[Tensor, str], wanted: set[Tensor]) -> None:
        if tensor in self._names or tensor.is_weak:
            return
        if tensor.group is not None:
            self._write_group(tensor.group, places)
        elif tensor in places:
            self._copy(places[tensor], tensor)
            self._names[tensor] = places[tensor]
        elif tensor in wanted or (not tensor.is_view and self._uses[tensor] > 1 and tensor.reads):
            name = self.temp(tensor.shape, tensor.dtype)
            self._copy(name, tensor)
            self._names[tensor] = name

    def _write_group(self, group: Group, places: dict[Tensor, str]) -> None:
        if id(group) in self._written:
            return
        self._written.add(id(group))
        names = tuple(
            places.get(item) or self.temp(item.shape, item.dtype) for item in group.outputs
        )
        group.write(self, names)
        self._names.update(zip(group.outputs, names, strict=True))

    def _copy(self, name: str, tensor: Tensor) -> None:
        indices = self.indices(tensor.shape)
        self.assign([(name, indices)], "=", self.at(tensor, indices))

    def _declare(self, name: str, dtype: DType, shape: Sequence[Length], role: str) -> None:
        self._arrays.append(Array(name, dtype, tuple(map(expr_of, shape)), role))

    def _finished(self) -> Kernel:
        scalars = tuple(Scalar(t.name, t.dtype) for t in self.inputs if t.is_weak)
        roles = {"input": 0, "output": 1, "temp": 2}
        arrays = sorted(self._arrays, key=lambda array: roles[array.role])
        bare = Kernel(self.name, (), tuple(arrays), tuple(self._statements), scalars)
        for statement in self._statements:
            known = index_extents(bare, statement)
            for index in reduced_indices(statement):
                if index not in known and index in self._lengths:
                    self._extents[index] = expr_of(self._lengths[index])
        extents = tuple(Extent(name, size) for name, size in self._extents.items())
        sizes = [size for array in arrays for size in array.shape] + list(self._extents.values())
        params = dict.fromkeys(name for size in sizes for name in params_of(size))
        return Kernel(
            self.name, tuple(params), tuple(arrays), tuple(self._statements), scalars, extents
        )


def _reads(tensor: Tensor) -> tuple[Tensor, ...]:
    return tensor.reads if tensor.group is None else tensor.group.reads


def _whole(tensor: Tensor) -> tuple[Tensor, ...]:
    return tensor.whole if tensor.group is None else tensor.group.whole
