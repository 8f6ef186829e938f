"""A VIL module under construction for one IR kernel: its arguments, programs and plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce

from hal.codegen import conditions, symbolic
from hal.codegen.errors import CodegenError
from hal.codegen.scope import Scope
from hal.codegen.target import Target
from hal.ir.analysis import compute_dtype, index_extents, inline_lets
from hal.ir.nodes import Access, Array, Assign, Index, Kernel
from hal.vil.builder import Builder
from hal.vil.expressions import Const, ExprLike, Symbol, as_expr
from hal.vil.expressions import Expr as VilExpr
from hal.vil.model import Program
from hal.vil.module import Module

__all__ = ["Lowering", "identity_of"]


@dataclass(frozen=True, slots=True)
class _Launch:
    scope: Scope
    grid: tuple[ExprLike, ...]
    condition: VilExpr  # 1 or 0, known at launch


class Lowering:
    """Collects programs and launches; `module()` writes the signature and the plan.

    Attributes:
        kernel: The kernel, its lets inlined.
        target: The chip.
    """

    def __init__(self, kernel: Kernel, target: Target, *, started: Iterable[str] = ()) -> None:
        self.kernel = inline_lets(kernel)
        self.target = target
        self.arrays: dict[str, Array] = {array.name: array for array in kernel.arrays}
        self._launches: list[_Launch] = []
        self._names: set[str] = set()
        self._condition: VilExpr = Const(1)
        self.started_arrays: set[str] = set(started)  # what earlier statements wrote

    # ---- What strategies ask ----

    def array(self, name: str) -> Array:
        """An array of the kernel, or a temp that lowering added."""
        return self.arrays[name]

    def temp(self, stem: str, array: Array) -> Array:
        """Adds a workspace like `array` (its shape and dtype) under a new name."""
        name = self._unique(stem, set(self.arrays) | set(self.kernel.params))
        self.arrays[name] = replace(array, name=name, role="temp")
        self.kernel = replace(self.kernel, arrays=(*self.kernel.arrays, self.arrays[name]))
        return self.arrays[name]

    def extents(self, statement: Assign) -> dict[str, VilExpr]:
        """Extent of each index of a statement."""
        found = index_extents(self.kernel, statement)
        return {name: symbolic.from_ir(size) for name, size in found.items()}

    def shape(self, array: str) -> tuple[VilExpr, ...]:
        """Extents of an array."""
        return tuple(symbolic.from_ir(size) for size in self.array(array).shape)

    def continues(self, statement: Assign) -> bool:
        """True when a reduction goes on from what the target holds.

        That is so for an inout, and for an array that an earlier statement wrote.
        """
        name = statement.target.array
        return self.array(name).role in ("inout", "input") or name in self.started_arrays

    def started(self, statement: Assign) -> None:
        """To be called when a statement is lowered: later ones go on from its targets."""
        self.started_arrays.update(target.array for target in statement.targets)

    def covers(self, access: Access, extents: Mapping[str, VilExpr]) -> bool:
        """True when a target's subscripts name each element of the array once."""
        names = [index.name for index in access.indices if isinstance(index, Index)]
        if len(names) != len(access.indices) or len(set(names)) != len(names):
            return False
        shape = self.shape(access.array)
        return all(symbolic.equal(extents[n], size) for n, size in zip(names, shape, strict=True))

    def initialise(self, statement: Assign) -> None:
        """Adds a program that fills the target of a first reduction with the identity."""
        array = self.array(statement.target.array)
        self.fill(array, identity_of(statement, array))
        self.started(statement)

    def fill(self, array: Array, value: float) -> None:
        """Adds a launch that fills an array with one value."""
        names = [f"d{number}" for number in range(len(array.shape))]
        extents = dict(zip(names, self.shape(array.name), strict=True))
        scope = self.program(f"{array.name}_start", extents=extents)
        width = self.target.rounded_columns(1024)
        height = self.target.rounded_rows(max(1, 4096 // width)) if names else 1
        if not names:
            width = 1
        blocks = symbolic.ceil_ratio(symbolic.product(extents.values()), width * height)
        with scope.grid(blocks) as (place,):
            if names:
                origin = scope.compute("mul", place, height)
                scope.fold(*names, rows=height, columns=width, origin=origin)
            tile = scope.tile(compute_dtype(array.dtype), height, width)
            scope.p.fill(tile, value)
            scope.store(Access(array.name, tuple(Index(name) for name in names)), tile)
        self.launch(scope)

    # ---- Programs and the plan ----

    def program(
        self,
        name: str,
        statement: Assign | None = None,
        *,
        extents: Mapping[str, VilExpr] | None = None,
        deterministic: bool = False,
    ) -> Scope:
        """Starts a program.

        Args:
            name: Wish for its name; a number is added where it is taken.
            statement: Its indices' extents are known to the scope.
            extents: More extents, or others.
        """
        known = self.extents(statement) if statement is not None else {}
        known |= dict(extents or {})
        unique = self._unique(f"{self.kernel.name}_{name}"[:56], self._names)
        self._names.add(unique)
        return Scope(self, unique, known, deterministic=deterministic)

    def launch(self, scope: Scope, grid: Sequence[ExprLike] | None = None) -> None:
        """Ends a program and adds a launch of it.

        Args:
            grid: Axes over params; None takes those that `scope.grid` made.
        """
        axes = tuple(scope.axes if grid is None else grid)
        if self._condition != Const(1):
            first = as_expr(axes[0]) if axes else Const(1)
            axes = (symbolic.times(first, self._condition), *axes[1:])
        self._launches.append(_Launch(scope, axes, self._condition))

    @contextmanager
    def only_when(self, condition: VilExpr) -> Iterator[None]:
        """Launches made inside have an empty grid unless the condition (1 or 0) is 1.

        Alternatives for sizes that are known only at launch are made so; the workspaces that none
        but skipped launches use take no bytes. What counts as started is put back at the end: a
        strategy that made all its alternatives says `started` itself.
        """
        before, started = self._condition, set(self.started_arrays)
        self._condition = conditions.all_of(before, condition)
        yield
        self._condition, self.started_arrays = before, started

    def module(self) -> Module:
        """The finished module (not validated)."""
        programs = [item.scope.build() for item in self._launches]
        builder = Builder()
        plan = builder.kernel(self.kernel.name)
        for array in self.kernel.arrays_of("input", "inout", "output"):
            size = symbolic.times(array.dtype.bytes, symbolic.product(self.shape(array.name)))
            plan.buffer(array.name, array.dtype, self._access(array, programs), size)
        for scalar in self.kernel.scalars:
            plan.scalar(scalar.name, scalar.dtype)
        for param in self.kernel.params:
            plan.symbol(param)
        for array in self.arrays.values():
            needed = self._needed(array, programs) if array.role == "temp" else None
            if needed is not None:
                size = symbolic.times(array.dtype.bytes, symbolic.product(self.shape(array.name)))
                plan.workspace(array.name, symbolic.times(size, needed))
        for item, program in zip(self._launches, programs, strict=True):
            names = [Symbol(p.name) if p.kind == "symbol" else p.name for p in program.params]
            plan.launch(program.name, item.grid, names)
        module = builder.module()
        return Module(module.kernels, tuple(programs))

    def _needed(self, temp: Array, programs: Iterable[Program]) -> VilExpr | None:
        """1 where some launch that uses the temp runs, else 0; None when no program uses it."""
        uses = [
            item.condition
            for item, program in zip(self._launches, programs, strict=True)
            if any(param.name == temp.name for param in program.params)
        ]
        if not uses or Const(1) in uses:
            return Const(1) if uses else None
        return reduce(conditions.any_of, dict.fromkeys(uses))

    def _access(self, array: Array, programs: Iterable[Program]) -> str:
        uses = {p.access for program in programs for p in program.params if p.name == array.name}
        if array.role == "input":
            if uses - {"read"}:
                raise CodegenError(f"{array.name} is an input and cannot be written")
            return "read"
        if array.role == "inout" or uses & {"read", "inout"}:
            return "inout"
        return "write"

    @staticmethod
    def _unique(stem: str, taken: set[str]) -> str:
        name, number = stem, 1
        while name in taken:
            number += 1
            name = f"{stem}_{number}"
        return name


def identity_of(statement: Assign, array: Array) -> float | int:
    """What a reduction into an array starts from, in the array's dtype."""
    dtype = array.dtype
    if statement.assignment == "+=":
        return 0
    if statement.assignment == "*=":
        return 1
    if dtype.kind in ("float", "float8"):
        infinite = dtype.has_infinity
        most = float("inf") if infinite else float(dtype.maximum)
        return -most if statement.assignment == "max=" else most
    return int(dtype.minimum if statement.assignment == "max=" else dtype.maximum)
