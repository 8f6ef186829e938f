"""The nesting of a program: its LOOP and IF bodies as blocks, and which block holds what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hal.vil.model import Instruction, Program

__all__ = ["Block", "Nesting", "names_of"]


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """One body, or the whole program.

    Attributes:
        start: Index of its LOOP or IF; -1 for the program.
        end: Index of its END; the number of instructions for the program.
        op: `loop`, `if`, or `program`.
        parent: The block around it; None for the program.
        depth: Loops around the body, its own included.
    """

    start: int
    end: int
    op: str
    parent: Block | None
    depth: int

    @property
    def loops(self) -> list[Block]:
        """The loops whose bodies hold this block, itself included, innermost first."""
        found, block = [], self
        while block.parent is not None:
            if block.op == "loop":
                found.append(block)
            block = block.parent
        return found


class Nesting:
    """Blocks of a valid instruction list; LOOP, IF and END belong to the block around them."""

    def __init__(self, instructions: Sequence[Instruction]) -> None:
        ends: dict[int, int] = {}
        stack: list[int] = []
        for number, item in enumerate(instructions):
            if item.op in ("loop", "if"):
                stack.append(number)
            elif item.op == "end":
                ends[stack.pop()] = number
        self.root = Block(-1, len(instructions), "program", None, 0)
        self.blocks: list[Block] = [self.root]
        self.ends = ends
        self.starts = {end: start for start, end in ends.items()}
        self._holder: list[Block] = []
        block = self.root
        for number, item in enumerate(instructions):
            if item.op == "end":
                assert block.parent is not None
                block = block.parent
            self._holder.append(block)
            if item.op in ("loop", "if"):
                depth = block.depth + (item.op == "loop")
                block = Block(number, ends[number], item.op, block, depth)
                self.blocks.append(block)

    def block_of(self, number: int) -> Block:
        """The innermost block that holds an instruction."""
        return self._holder[number]

    def span_in(self, block: Block, number: int) -> tuple[int, int]:
        """First and last index of the item of `block` that is, or holds, an instruction."""
        inner = self._holder[number]
        if inner is block:
            start = self.starts.get(number, number)
            return start, self.ends.get(start, start)
        while inner.parent is not block:
            assert inner.parent is not None, "the block does not hold the instruction"
            inner = inner.parent
        return inner.start, inner.end

    def common(self, one: int, other: int) -> Block:
        """The innermost block that holds two instructions."""
        first, second = self._holder[one], self._holder[other]
        while first is not second:
            deeper_first = first.start >= second.start
            if deeper_first:
                assert first.parent is not None
                first = first.parent
            else:
                assert second.parent is not None
                second = second.parent
        return first


def names_of(program: Program) -> set[str]:
    """Every name that is taken inside a program."""
    found = {item.name for item in program.params} | {item.name for item in program.tiles}
    return found | {each.name for each in program.descriptors} | {t.name for t in program.tokens}
