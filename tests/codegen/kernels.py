"""Random kernels of the tensor IR whose results are exact: small whole numbers everywhere."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hal import dtypes
from hal.dtypes import DType
from hal.ir import verify
from hal.ir.analysis import index_extents, reduced_indices, value_of
from hal.ir.nodes import (
    Access,
    Array,
    Assign,
    Call,
    Cast,
    Const,
    Expr,
    Extent,
    Index,
    Kernel,
    ParamRef,
    Scalar,
    ScalarRef,
)

MOST_POINTS = 20000
SIZES = (0, 1, 1, 2, 3, 4, 5, 7, 9, 17, 33, 70)
FLOATS = (dtypes.f32, dtypes.f32, dtypes.f16, dtypes.bf16, dtypes.f64)
INTEGERS = (dtypes.i32, dtypes.i32, dtypes.i64, dtypes.i8, dtypes.u8)
NUMBERS = {"float": ("add", "sub", "mul", "max", "min"), "int": ("add", "sub", "mul", "max", "min")}
WHOLE = ("idiv", "imod", "and", "or", "xor")


@dataclass(frozen=True)
class Case:
    """A kernel with sizes and arrays."""

    kernel: Kernel
    params: dict[str, int]
    arrays: dict[str, Any]
    scalars: dict[str, float | int]


class Maker:
    """Makes one case from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.params = {name: self.random.choice(SIZES) for name in ("L", "M", "N")}
        self.arrays: list[Array] = []
        self.extents: dict[str, Expr] = {}
        self.declared: list[Extent] = []
        self.scalars: list[Scalar] = []
        self.gathered: dict[str, int] = {}  # index array -> length of the dimension

    def case(self) -> Case:
        """One kernel with one statement, or two that follow each other."""
        rank = self.random.choice((0, 1, 1, 2, 2, 2, 3, 3, 4, 6))
        names = [f"i{number}" for number in range(rank)]
        shape = tuple(self.size() for _ in names)
        self.extents = dict(zip(names, shape, strict=True))
        kind = self.random.choice(("float", "float", "int"))
        target = self.array("Y", self.dtype(kind), shape, self.random.choice(("output", "inout")))
        reduce = self.random.random() < 0.5 or rank == 0
        added: list[str] = []
        if reduce:
            for number in range(self.random.choice((1, 1, 2))):
                added.append(f"r{number}")
                self.extents[added[-1]] = self.size()
        while self.volume() > MOST_POINTS:
            name = max(self.params, key=lambda item: self.params[item])
            self.params[name] = self.params[name] // 2
        used = [*names, *added]
        value = self.value(kind, used, 2)
        for name in added:  # each reduced index must stand on the right
            value = Call("add", (value, self.access(kind, [name], plain=True)))
        assignment = self.random.choice(("+=", "+=", "max=", "min=")) if reduce else "="
        if kind == "int":
            value = Cast(target.dtype, value)
        left = Access("Y", tuple(Index(name) for name in names))
        statements = [Assign((left,), assignment, value)]
        if self.random.random() < 0.3:
            other = self.array("Z", self.dtype(kind), shape, "output")
            again: Expr = Call("add", (left, self.value(kind, names, 1)))
            if kind == "int":
                again = Cast(other.dtype, again)
            target_z = Access(other.name, left.indices)
            statements.append(Assign((target_z,), "=", again))
        kernel = Kernel(
            "k",
            tuple(self.params),
            tuple(self.arrays),
            tuple(statements),
            tuple(self.scalars),
            tuple(self.declared),
        )
        kernel = self.with_extents(kernel)
        return Case(kernel, self.params, self.values(kernel), {s.name: 3 for s in self.scalars})

    def volume(self) -> int:
        """Points that the evaluator visits."""
        return math.prod(value_of(size, self.params) for size in self.extents.values())

    def with_extents(self, kernel: Kernel) -> Kernel:
        """The kernel with an extent declared for each index that nothing bounds."""
        declared = {}
        for statement in kernel.assigns:
            known = index_extents(kernel, statement)
            left = {i.name for i in statement.target.indices if isinstance(i, Index)}
            for name in (*left, *reduced_indices(statement)):
                bare = known.get(name)
                if bare is None or bare != self.extents[name]:
                    declared[name] = Extent(name, self.extents[name])
        found = tuple(declared.values())
        return Kernel(
            kernel.name, kernel.params, kernel.arrays, kernel.statements, kernel.scalars, found
        )

    def size(self) -> Expr:
        """An extent: a param or a small number."""
        if self.random.random() < 0.7:
            return ParamRef(self.random.choice(tuple(self.params)))
        return Const(self.random.choice((1, 2, 3, 4, 12)))

    def dtype(self, kind: str) -> DType:
        """An element type of a kind."""
        if kind == "bool":
            return dtypes.bool_
        return self.random.choice(FLOATS if kind == "float" else INTEGERS)

    def array(self, name: str, dtype: DType, shape: Sequence[Expr], role: str) -> Array:
        """A new array."""
        self.arrays.append(Array(name, dtype, tuple(shape), role))
        return self.arrays[-1]

    # ---- Expressions ----

    def value(self, kind: str, names: Sequence[str], depth: int) -> Expr:
        """A random expression."""
        if depth == 0 or self.random.random() < 0.2:
            return self.leaf(kind, names)
        pick = self.random.random()
        if kind == "bool":
            if pick < 0.7:
                inner = self.random.choice(("float", "int"))
                function = self.random.choice(("lt", "le", "eq", "ne"))
                return Call(
                    function,
                    (self.value(inner, names, depth - 1), self.value(inner, names, depth - 1)),
                )
            function = self.random.choice(("and", "or", "xor"))
            parts = (self.value("bool", names, depth - 1), self.value("bool", names, depth - 1))
            return Call(function, parts)
        if pick < 0.15:
            parts = (self.value(kind, names, depth - 1), self.value(kind, names, depth - 1))
            return Call("where", (self.value("bool", names, depth - 1), *parts))
        if pick < 0.25:
            return Call(self.random.choice(("neg", "abs")), (self.value(kind, names, depth - 1),))
        if pick < 0.35:
            other = "int" if kind == "float" else "float"
            wide = dtypes.f32 if kind == "float" else dtypes.i32
            return Cast(wide, self.value(other, names, depth - 1))
        functions = NUMBERS[kind] + (WHOLE if kind == "int" else ())
        parts = (self.value(kind, names, depth - 1), self.value(kind, names, depth - 1))
        return Call(self.random.choice(functions), parts)

    def leaf(self, kind: str, names: Sequence[str]) -> Expr:
        """A literal, an index, a scalar or an access."""
        pick = self.random.random()
        if kind == "int" and pick < 0.15 and names:
            return Index(self.random.choice(names))
        if kind == "float" and pick < 0.08:
            name = f"s{len(self.scalars)}"
            self.scalars.append(Scalar(name, dtypes.f32))
            return ScalarRef(name)
        if kind != "bool" and pick < 0.2:
            return Const(float(self.random.randint(-3, 3)) if kind == "float" else 2)
        count = self.random.randint(0, min(3, len(names)))
        return self.access(kind, self.random.sample(list(names), count))

    def access(self, kind: str, names: Sequence[str], *, plain: bool = False) -> Access:
        """An access of a new array by some of the indices, each in some way."""
        subscripts, shape, pad = [], [], None
        for name in names:
            extent = self.extents[name]
            style = "plain" if plain else self.random.choice(("plain",) * 6 + STYLES)
            if style == "window":
                subscripts.append(Call("add", (Index(name), Const(self.random.choice((-1, 1))))))
                pad = self.random.choice((0, 1, 2)) if kind != "bool" else True
                shape.append(extent)
            elif style == "stride":
                subscripts.append(Call("mul", (Const(2), Index(name))))
                shape.append(Call("mul", (Const(2), extent)))
            elif style == "flip":
                last = Call("sub", (extent, Const(1)))
                subscripts.append(Call("sub", (last, Index(name))))
                shape.append(extent)
            elif style == "half":
                subscripts.append(Call("idiv", (Index(name), Const(2))))
                shape.append(extent)
            elif style == "wrap":
                subscripts.append(Call("imod", (Index(name), Const(3))))
                shape.append(Const(3))
            elif style == "gather":
                index = f"t{len(self.arrays)}"
                self.array(index, dtypes.i32, (extent,), "input")
                length = self.random.choice((2, 5))
                self.gathered[index] = length
                subscripts.append(Access(index, (Index(name),)))
                shape.append(Const(length))
            else:
                subscripts.append(Index(name))
                shape.append(extent)
        name = f"X{len(self.arrays)}"
        self.array(name, self.dtype(kind), shape, "input")
        return Access(name, tuple(subscripts), pad)

    # ---- Values ----

    def values(self, kernel: Kernel) -> dict[str, Any]:
        """Small whole numbers for inputs and inouts."""
        rng = np.random.default_rng(self.random.randrange(2**32))
        found = {}
        for array in kernel.arrays_of("input", "inout"):
            shape = tuple(value_of(size, self.params) for size in array.shape)
            low, high = (0, 2) if array.dtype.kind == "bool" else (-3, 4)
            if array.dtype == dtypes.u8:
                low = 0
            if array.name in self.gathered:
                low, high = 0, self.gathered[array.name]
            found[array.name] = rng.integers(low, high, shape).astype(array.dtype.numpy)
        return found


STYLES = ("window", "stride", "flip", "half", "wrap", "gather")


def case(seed: int) -> Case:
    """The case of a seed; what the verifier refuses is made anew."""
    for turn in range(100):
        made = Maker(1000 * seed + turn).case()
        if not verify(made.kernel):
            return made
    raise AssertionError(f"no valid kernel from seed {seed}")
