"""Which buffers are touched at other elements in each turn of a loop.

Sound, not complete: what is not proven counts as an overlap. Proven are descriptors that are alike,
and whose elements move on with the counter of every loop around by more than they reach.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hal.codegen.explicit_blocks import Block, Nesting
from hal.vil.expressions import Binary, Const, Expr, Symbol
from hal.vil.model import Axis, Descriptor, Dimension, Instruction, Program, SReg, Value

__all__ = ["Polynomial", "Registers", "separate_block"]

Polynomial = Mapping[tuple[str, ...], int]
"""Sum of products: sorted factor names to coefficient. `%3` is a register, `N` a symbol."""

_ONE: Polynomial = {(): 1}


def _sum(left: Polynomial, right: Polynomial, sign: int = 1) -> Polynomial:
    total = dict(left)
    for key, factor in right.items():
        total[key] = total.get(key, 0) + sign * factor
    return {key: factor for key, factor in total.items() if factor}


def _product(left: Polynomial, right: Polynomial) -> Polynomial:
    total: dict[tuple[str, ...], int] = {}
    for one, a in left.items():
        for other, b in right.items():
            key = tuple(sorted((*one, *other)))
            total[key] = total.get(key, 0) + a * b
    return {key: factor for key, factor in total.items() if factor}


def _constant(value: Polynomial) -> int | None:
    return value.get((), 0) if set(value) <= {()} else None


class Registers:
    """Values of a program as polynomials of symbols, program ids and loop counters."""

    def __init__(self, program: Program, nesting: Nesting) -> None:
        self.program = program
        self.nesting = nesting
        self._writers: dict[int, list[int]] = {}
        for number, item in enumerate(program.instructions):
            if item.op in ("loop", "sreg") and item.x is not None:
                self._writers.setdefault(item.x, []).append(number)

    def value(self, value: Value | None, at: int) -> Polynomial | None:
        """The value as instruction `at` reads it; None when it is not known."""
        if value is None:
            return {}
        if isinstance(value, SReg):
            return self._register(value.index, at)
        return self._expression(value)

    def _expression(self, value: Expr) -> Polynomial | None:
        if isinstance(value, Const):
            return {(): value.value} if value.value else {}
        if isinstance(value, Symbol):
            return {(value.name,): 1}
        if isinstance(value, Binary) and value.operation in ("+", "-", "*"):
            return self._combined(value.operation, self._expression(value.left),
                                  self._expression(value.right))  # fmt: skip
        return None

    @staticmethod
    def _combined(
        operation: str, left: Polynomial | None, right: Polynomial | None
    ) -> Polynomial | None:
        if left is None or right is None:
            return None
        if operation == "*":
            return _product(left, right)
        return _sum(left, right, -1 if operation == "-" else 1)

    def _register(self, index: int, at: int) -> Polynomial | None:
        if index < 3:
            return {(f"%{index}",): 1}
        writers = self._writers.get(index, [])
        if not writers:
            return {}
        writer = writers[0]
        item = self.program.instructions[writer]
        if len(writers) > 1 or writer >= at:
            return None
        if item.op == "loop":
            return {(f"%{index}",): 1} if at < self.nesting.ends[writer] else None
        block = self.nesting.block_of(writer)
        if not block.start < at < block.end:
            return None  # Another turn, or another branch, may have left it.
        found: Polynomial | None = None
        first, second = item.values[0], item.values[1]
        operation = {"mov": "", "add": "+", "sub": "-", "mul": "*"}.get(item.function)
        if operation == "":
            found = self.value(first, writer)
        elif operation is not None:
            found = self._combined(operation, self.value(first, writer), self.value(second, writer))
        if found is None and block.depth == 0:
            return {(f"%{index}",): 1}  # Written once, so it stays.
        return found


@dataclass(frozen=True, slots=True)
class _Reach:
    """A coordinate: `start` plus 0 to `length` more."""

    start: Polynomial
    length: int


def separate_block(program: Program, nesting: Nesting, names: set[str]) -> Block | None:
    """The body in whose turns, in all loops around it, accesses of some buffers never meet.

    Args:
        names: The parameters that may share memory.

    Returns:
        The body of a loop, or None when overlap cannot be excluded.
    """
    users = [
        (number, item)
        for number, item in enumerate(program.instructions)
        if item.op in ("load", "store", "gather", "scatter")
        and item.x is not None
        and program.descriptors[item.x].param in names
    ]
    if not users or any(item.op in ("gather", "scatter") for _, item in users):
        return None
    first, item = users[0]
    block = nesting.block_of(first)
    if block.op != "loop" or any(nesting.block_of(number) is not block for number, _ in users):
        return None
    shape = _shape(program, item)
    descriptor = _descriptor(program, item)
    for _, other in users[1:]:
        same = replace(_descriptor(program, other), name=descriptor.name, fill=descriptor.fill,
                       param=descriptor.param)  # fmt: skip
        if same != descriptor or _shape(program, other) != shape:
            return None
    registers = Registers(program, nesting)
    if len({_fingerprint(registers, descriptor, number) for number, _ in users}) != 1:
        return None
    if not _is_injective(registers, descriptor, first):
        return None
    counters = {f"%{program.instructions[loop.start].x}" for loop in block.loops}
    reaches = [_reach(registers, descriptor, each, shape, first) for each in descriptor.dimensions]
    if all(any(_moves(reach, name, counters) for reach in reaches) for name in counters):
        return block
    return None


def _descriptor(program: Program, item: Instruction) -> Descriptor:
    assert item.x is not None
    return program.descriptors[item.x]


def _shape(program: Program, item: Instruction) -> tuple[int, int]:
    reference = item.d if item.op == "load" else item.a
    assert reference is not None
    tile = program.tiles[reference.tile]
    return tile.rows, tile.columns


def _fingerprint(registers: Registers, item: Descriptor, at: int) -> tuple[object, ...]:
    """What the registers of a descriptor hold at an instruction."""
    values = [item.row.origin, item.column.origin]
    for dimension in item.dimensions:
        values.append(dimension.base)
        values += [SReg(term.index) for term in dimension.terms if term.source == "sreg"]
    found: list[object] = []
    for value in values:
        known = registers.value(value, at)
        found.append(None if known is None else frozenset(known.items()))
    return tuple(found)


def _is_injective(registers: Registers, item: Descriptor, at: int) -> bool:
    """True when two coordinates inside the extents are never one element."""
    left: list[tuple[Polynomial, Polynomial]] = []
    for dimension in item.dimensions:
        extent, stride = (
            registers.value(dimension.extent, at),
            registers.value(dimension.stride, at),
        )
        if extent is None or stride is None:
            return False
        left.append((extent, stride))
    step: Polynomial = _ONE
    while left:
        found = next((pair for pair in left if pair[1] == step), None)
        if found is None:
            return False
        left.remove(found)
        step = _product(step, found[0])
    return True


def _reach(
    registers: Registers,
    item: Descriptor,
    dimension: Dimension,
    shape: tuple[int, int],
    at: int,
) -> _Reach | None:
    """Where a coordinate starts and how far it runs inside one tile."""
    start = registers.value(dimension.base, at)
    length = 0
    for term in dimension.terms:
        factor = registers.value(term.coefficient, at)
        if factor is None or start is None:
            return None
        if term.source == "sreg":
            moving = registers.value(SReg(term.index), at)
        else:
            axis, count = (item.row, shape[0]) if term.source == "row" else (item.column, shape[1])
            moving = _plain_origin(registers, axis, term.index, at)
            number = _constant(factor)
            if number is None:
                return None
            length += abs(number) * (count - 1)
            if number < 0 and moving is not None:
                moving = _sum(moving, {(): count - 1})
        if moving is None:
            return None
        start = _sum(start, _product(moving, factor))
    return None if start is None else _Reach(start, length)


def _plain_origin(registers: Registers, axis: Axis, digit: int, at: int) -> Polynomial | None:
    """Origin of an axis whose digit is the position itself."""
    chosen = axis.digits[digit]
    if chosen.size is not None or chosen.divisor != Const(1):
        return None
    return registers.value(axis.origin, at)


def _moves(reach: _Reach | None, counter: str, counters: set[str]) -> bool:
    """True when the coordinate leaves its reach with each step of a counter, and no other moves it.

    Registers that are no counters are program ids: they stay for the whole program.
    """
    if reach is None:
        return False
    steps = {key: factor for key, factor in reach.start.items() if counters & set(key)}
    return set(steps) == {(counter,)} and abs(steps[counter,]) > reach.length
