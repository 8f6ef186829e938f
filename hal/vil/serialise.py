"""The plainest legal order of an explicit program: one token between any two engines that meet.

Every instruction waits for the one before it when that ran on another engine, so the result has no
race and no overlap of engines. Use it to test ports; a compiler inserts fewer tokens.
"""

from __future__ import annotations

from dataclasses import replace

from hal.vil.model import Instruction, Program, Token

__all__ = ["serialise"]

_HOME = "vector"
_CONTROL = ("loop", "if", "end")


def serialise(program: Program) -> Program:
    """The explicit form of a flat program, with tokens that keep program order."""
    tokens: dict[tuple[str, str], int] = {}
    result: list[Instruction] = []

    def hand_over(producer: str, consumer: str) -> None:
        if producer == consumer:
            return
        index = tokens.setdefault((producer, consumer), len(tokens))
        result.append(Instruction("signal", engine=producer, x=index))
        result.append(Instruction("wait", engine=consumer, x=index))

    last = _HOME
    for item in program.instructions:
        if item.op in _CONTROL:
            hand_over(last, _HOME)
            last = _HOME
        elif item.op != "sreg" or item.function == "tile":
            hand_over(last, item.engine)
            last = item.engine
        result.append(item)
    names = {tile.name for tile in program.tiles} | {param.name for param in program.params}
    names |= {item.name for item in program.descriptors}
    table = []
    for producer, consumer in tokens:
        name = f"{producer}_to_{consumer}"
        while name in names:
            name += "_"
        table.append(Token(name, producer, consumer))
    return replace(program, profile="explicit", tokens=tuple(table), instructions=tuple(result))
