"""The flow of a program: which tiles are read after each instruction, what a block writes."""

from __future__ import annotations

from collections.abc import Iterator

from hal.vil.model import Instruction, Kernel, Program, TileRef
from hal.vil.module import Module

__all__ = ["Flow", "buffer_classes", "matches", "reads", "writes"]


def _tiles(*references: TileRef | None) -> Iterator[int]:
    for reference in references:
        if reference is not None:
            yield reference.tile


def reads(item: Instruction) -> set[int]:
    """Tiles whose elements or valid region an instruction reads."""
    if item.op == "topk":
        first = set(_tiles(item.a))
        return first if "init" in item.flags else first | set(_tiles(item.d, item.c))
    found = set(_tiles(item.a, item.b, item.c))
    if (item.op == "mma" and "init" not in item.flags) or item.op in ("store", "scatter"):
        found |= set(_tiles(item.d))
    return found


def writes(item: Instruction) -> set[int]:
    """Tiles that an instruction writes."""
    if item.op == "topk":
        return set(_tiles(item.d, item.c))
    return set(_tiles(item.d))


def matches(program: Program) -> dict[int, int]:
    """LOOP or IF position to its END's."""
    found: dict[int, int] = {}
    stack: list[int] = []
    for position, item in enumerate(program.instructions):
        if item.op in ("loop", "if"):
            stack.append(position)
        elif item.op == "end":
            found[stack.pop()] = position
    return found


class Flow:
    """Liveness of tiles, and what lies between a LOOP or IF and its END."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.ends = matches(program)
        self.live_after: dict[int, frozenset[int]] = {}
        self._starts = {end: start for start, end in self.ends.items()}
        self._block(0, len(program.instructions), frozenset())

    def _block(self, first: int, last: int, live: frozenset[int]) -> frozenset[int]:
        """Fills live_after of [first, last) backwards; gives the tiles live before it."""
        position = last - 1
        while position >= first:
            item = self.program.instructions[position]
            self.live_after[position] = self.live_after.get(position, frozenset()) | live
            if item.op == "end":
                start = self._starts[position]
                before = self._block(start + 1, position, live)
                if self.program.instructions[start].op == "loop":
                    before = self._block(start + 1, position, live | before)
                live = live | before
                position = start
                self.live_after[start] = live
            else:
                killed = {tile for tile in writes(item) if self._kills(item, tile)}
                live = frozenset((live - killed) | reads(item))
            position -= 1
        return live

    def _kills(self, item: Instruction, tile: int) -> bool:
        return self.program.tiles[tile].stages == 1 and tile not in reads(item)

    def written_in(self, start: int) -> tuple[set[int], set[int]]:
        """Tiles and registers that the body of a LOOP or IF (its counter too) writes."""
        tiles: set[int] = set()
        registers: set[int] = set()
        for position in range(start, self.ends[start]):
            item = self.program.instructions[position]
            tiles |= writes(item)
            if item.op in ("loop", "sreg") and item.x is not None:
                registers.add(item.x)
        return tiles, registers


def _related(kernel: Kernel) -> dict[str, str]:
    """Argument name to the first argument that it may equal."""
    roots: dict[str, str] = {}
    for item in kernel.arguments:
        roots[item.name] = roots.get(item.alias, item.alias) if item.alias else item.name
    return roots


def buffer_classes(module: Module, program: Program) -> dict[str, str]:
    """Parameter name to the parameter that stands for all that may be the same memory."""
    classes = {param.name: param.name for param in program.params if param.kind == "buffer"}

    def root(name: str) -> str:
        while classes[name] != name:
            name = classes[name]
        return name

    for kernel in module.kernels:
        roots = _related(kernel)
        for launch in kernel.launches:
            if launch.program != program.name:
                continue
            seen: dict[str, str] = {}
            for param, binding in zip(program.params, launch.bindings, strict=True):
                if param.kind != "buffer":
                    continue
                key = f"w {binding.workspace}"
                if binding.argument is not None:
                    key = f"a {roots[binding.argument]}"
                if key in seen:
                    classes[root(param.name)] = root(seen[key])
                seen[key] = param.name
    return {name: root(name) for name in classes}
