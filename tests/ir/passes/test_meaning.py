"""Passes on and off give the same numbers, bit for bit: random kernels with whole-number values."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from pass_programs import ATTENTION, SOFTMAX, kernel

from hal import dtypes
from hal.ir import Kernel, evaluate, show, verify
from hal.ir.analysis import value_of
from hal.ir.nodes import (
    Access,
    Array,
    Assign,
    Call,
    Const,
    Expr,
    Extent,
    Index,
    Let,
    LetRef,
    ParamRef,
    Statement,
)
from hal.ir.passes import NAMES, PASSES, run

SHAPES = {"MN": ("M", "N"), "NM": ("N", "M"), "M": ("M",), "N": ("N",)}
TYPES = (dtypes.f32, dtypes.f32, dtypes.f16, dtypes.f64)


class Maker:
    """Makes a kernel of several statements over arrays of four shapes."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.arrays: list[Array] = []
        self.shapes: dict[str, str] = {}
        self.ready: list[str] = []
        self.statements: list[Statement] = []
        self.lets: dict[str, set[str]] = {}

    def array(self, name: str, role: str) -> None:
        shape = self.random.choice(list(SHAPES))
        dtype = self.random.choice(TYPES)
        sizes = tuple(ParamRef(param) for param in SHAPES[shape])
        self.arrays.append(Array(name, dtype, sizes, role))
        self.shapes[name] = shape

    def load(self, names: dict[str, str], *, reduced: bool) -> Expr:
        """A load whose subscripts are the indices of its dimensions' params."""
        name = self.random.choice(self.ready)
        indices = [names[param] for param in SHAPES[self.shapes[name]]]
        if not reduced and any(index.startswith("r") for index in indices):
            return Const(self.random.choice([1, 2, 3.0]))
        if self.random.random() < 0.15:
            shifted = tuple(Call("add", (Index(i), Const(1))) for i in indices)
            return Access(name, shifted, pad=self.random.choice([0, 2]))
        return Access(name, tuple(Index(index) for index in indices))

    def value(self, names: dict[str, str], depth: int, *, reduced: bool) -> Expr:
        roll = self.random.random()
        if depth == 0 or roll < 0.2:
            return self.load(names, reduced=reduced)
        part = self.value(names, depth - 1, reduced=reduced)
        if roll < 0.3:
            return Call(self.random.choice(["neg", "abs"]), (part,))
        if roll < 0.5:
            return Call("mul", (part, Const(self.random.choice([0.5, 1, 1.0, 2, -1]))))
        if roll < 0.6:
            return Call("div", (part, Const(self.random.choice([1, 2, 4]))))
        other = self.value(names, depth - 1, reduced=reduced)
        if roll < 0.7:
            condition = Call(self.random.choice(["lt", "le", "eq"]), (part, other))
            return Call("where", (condition, other, part))
        return Call(self.random.choice(["add", "sub", "max", "min", "add"]), (part, other))

    def statement(self, target: Array) -> None:
        """Writes a whole array; params that it lacks are reduced over, or not used."""
        stem = self.random.choice(["i", "j", "k"])
        kept = {param: f"{stem}{param}" for param in SHAPES[self.shapes[target.name]]}
        names = {param: kept.get(param, f"r{param}") for param in ("M", "N")}
        access = Access(
            target.name, tuple(Index(kept[p]) for p in SHAPES[self.shapes[target.name]])
        )
        reduces = len(kept) == 1 and self.random.random() < 0.5
        value = self.value(names, self.random.choice([0, 1, 2]), reduced=reduces)
        if self.random.random() < 0.2:
            name = f"let{len(self.lets)}"
            self.statements.append(Let(name, value))
            self.lets[name] = set()
            value = Call("add", (LetRef(name), LetRef(name)))
        found = {i.name for i in _indices(value, self.statements)}
        reduces = any(name.startswith("r") for name in found)
        operation = self.random.choice(["+=", "max=", "min="]) if reduces else "="
        self.statements.append(Assign((access,), operation, value))

    def kernel(self) -> Kernel:
        for number in range(3):
            self.array(f"in{number}", "input")
            self.ready.append(f"in{number}")
        count = self.random.choice([2, 3, 5, 7])
        for number in range(count):
            last = number == count - 1
            self.array(f"t{number}", "output" if last or self.random.random() < 0.2 else "temp")
            self.statement(self.arrays[-1])
            self.ready.append(f"t{number}")
        extents = tuple(
            Extent(f"{stem}{param}", ParamRef(param))
            for param in ("M", "N")
            for stem in ("i", "j", "k", "r")
        )
        return Kernel(
            "Random", ("M", "N"), tuple(self.arrays), tuple(self.statements), extents=extents
        )


def _indices(value: Expr, statements: list[Statement]) -> list[Index]:
    from hal.ir.nodes import walk

    lets = {item.name: item.value for item in statements if isinstance(item, Let)}
    found = [item for item in walk(value) if isinstance(item, Index)]
    for item in walk(value):
        if isinstance(item, LetRef):
            found += _indices(lets[item.name], statements)
    return found


def numbers(found: Kernel, params: dict[str, int], seed: int) -> dict[str, Any]:
    """Outputs for small whole numbers."""
    rng = np.random.default_rng(seed)
    arrays = {}
    for array in found.arrays_of("input"):
        shape = tuple(value_of(size, params) for size in array.shape)
        arrays[array.name] = rng.integers(-3, 4, shape).astype(array.dtype.numpy)
    return evaluate(found, arrays, params)


@pytest.mark.parametrize("seed", range(60))
def test_no_pass_changes_a_bit(seed: int) -> None:
    before = Maker(seed).kernel()
    params = {"M": seed % 4 + 1, "N": (seed // 4) % 5}
    wanted = numbers(before, params, seed)
    variants = {item.name: item.function(before) for item in PASSES}
    variants["all"] = run(before)
    for name in NAMES:
        variants[f"without {name}"] = run(before, without={name})
    for name, after in variants.items():
        assert [(p.rule, p.text) for p in verify(after)] == [], f"{name}:\n{show(after)}"
        got = numbers(after, params, seed)
        for array, value in wanted.items():
            message = f"{name}, {array}:\n{show(before)}\n{show(after)}"
            np.testing.assert_array_equal(got[array], value, err_msg=message)


@pytest.mark.parametrize("text", [SOFTMAX, ATTENTION])
def test_what_people_write_keeps_its_numbers(text: str) -> None:
    before = kernel(text)
    params = {"B": 2, "H": 2, "M": 3, "N": 4, "D": 5}
    rng = np.random.default_rng(3)
    arrays = {
        array.name: rng.standard_normal([value_of(s, params) for s in array.shape]).astype("f4")
        for array in before.arrays_of("input")
    }
    known = {name: params[name] for name in before.params}
    scalars = {item.name: 0.5 for item in before.scalars}
    wanted = evaluate(before, arrays, known, scalars, rounded=False)
    got = evaluate(run(before), arrays, known, scalars, rounded=False)
    for name, value in wanted.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-13)
