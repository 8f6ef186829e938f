"""Validator: LOOP and IF, lifetimes of overlapping tiles, tokens (docs/vil.md, section 6)."""

from __future__ import annotations

from collections.abc import Iterator

from hal.vil.check_instructions import place_of
from hal.vil.model import Instruction, Program
from hal.vil.problems import Problem

__all__ = ["control_problems", "lifetimes", "overlap_problems", "plain_write", "token_problems"]

MAX_DEPTH = 4


def control_problems(program: Program) -> Iterator[Problem]:
    """Matching, depth and loop counters."""
    stack: list[int] = []
    for number, item in enumerate(program.instructions):
        text = ""
        if item.op in ("loop", "if"):
            stack.append(number)
            depth = sum(program.instructions[start].op == item.op for start in stack)
            if depth > MAX_DEPTH:
                text = f"{item.op} nests {depth} deep; at most {MAX_DEPTH}"
        elif item.op == "end":
            if not stack:
                text = "end closes nothing"
            else:
                stack.pop()
        if item.op in ("loop", "sreg") and item.x is not None:
            outer = stack[:-1] if item.op == "loop" else stack
            counters = [program.instructions[start] for start in outer]
            if any(open_.op == "loop" and open_.x == item.x for open_ in counters):
                text = f"%{item.x} counts an open loop and may not be written in its body"
        if text:
            yield Problem(place_of(program, number), text, "control", item.line)
    for number in stack:
        line = program.instructions[number].line
        yield Problem(place_of(program, number), "its end is missing", "control", line)


Block = tuple[int, int, str]


def _blocks(program: Program) -> list[Block]:
    """(start, end, op) of each LOOP and IF, outermost first."""
    stack: list[int] = []
    found: list[Block] = []
    for number, item in enumerate(program.instructions):
        if item.op in ("loop", "if"):
            stack.append(number)
        elif item.op == "end":
            start = stack.pop()
            found.append((start, number, program.instructions[start].op))
    return sorted(found)


def _tiles_of(item: Instruction) -> dict[str, int]:
    pairs = {"d": item.d, "a": item.a, "b": item.b, "c": item.c}
    return {role: reference.tile for role, reference in pairs.items() if reference is not None}


def plain_write(program: Program, item: Instruction, tile: int) -> bool:
    """True when the instruction gives the tile a new value without looking at the old one."""
    roles = [role for role, index in _tiles_of(item).items() if index == tile]
    results = ["d", "c"] if item.op == "topk" else ["d"]
    if any(role not in results for role in roles):
        return False
    if item.op == "store" or (item.op in ("mma", "topk") and "init" not in item.flags):
        return False
    reference = item.d if item.d is not None and item.d.tile == tile else item.c
    staged = reference is not None and reference.stage is not None
    return not (staged and program.tiles[tile].stages > 1)


def lifetimes(program: Program) -> dict[int, tuple[int, int]]:
    """Tile -> first and last instruction between which its bytes are its own."""
    spans: dict[int, tuple[int, int]] = {}
    for number, item in enumerate(program.instructions):
        for tile in _tiles_of(item).values():
            first, _ = spans.get(tile, (number, number))
            spans[tile] = (first, number)
    blocks = _blocks(program)
    loops = [(start, end) for start, end, op in blocks if op == "loop"]
    for tile, (first, last) in spans.items():
        begin, end = first, last
        carried = not plain_write(program, program.instructions[first], tile)
        for start, stop, _ in blocks:
            if start < first < stop and not (start < first and last < stop):
                carried = True
        if carried:
            around = [loop for loop in loops if loop[0] < first < loop[1]]
            if around:
                begin, end = min(begin, around[0][0]), max(end, around[0][1])
        grown = True
        while grown:
            grown = False
            for start, stop in loops:
                touches = start <= end and stop >= begin
                inside = start <= begin and end <= stop
                covers = begin <= start and stop <= end
                if touches and not inside and not covers:
                    begin, end, grown = min(begin, start), max(end, stop), True
        spans[tile] = (begin, end)
    return spans


def overlap_problems(program: Program) -> Iterator[Problem]:
    """Tiles that share bytes of a space need disjoint lifetimes."""
    spans = lifetimes(program)
    tiles = sorted(spans, key=lambda index: program.tiles[index].offset)
    for position, one in enumerate(tiles):
        first = program.tiles[one]
        for other in tiles[position + 1 :]:
            second = program.tiles[other]
            if second.offset >= first.offset + first.total_bytes:
                break
            if first.space != second.space:
                continue
            if spans[one][0] <= spans[other][1] and spans[other][0] <= spans[one][1]:
                yield Problem(
                    f"program {program.name}, tiles {first.name} and {second.name}",
                    f"share bytes of {first.space} from {second.offset} and are alive together "
                    f"(instructions {spans[one]} and {spans[other]})",
                    "overlap",
                )


def token_problems(program: Program) -> Iterator[Problem]:
    """Balance of each body, and no count below zero in program order."""
    if program.profile == "flat":
        for number, item in enumerate(program.instructions):
            if item.op in ("signal", "wait"):
                text = "a flat program has no tokens"
                yield Problem(place_of(program, number), text, "tokens", item.line)
        if program.tokens:
            yield Problem(f"program {program.name}", "a flat program has no tokens", "tokens")
        return
    counts = [token.credits for token in program.tokens]
    stack: list[tuple[int, list[int]]] = []
    for number, item in enumerate(program.instructions):
        text = ""
        if item.op in ("loop", "if"):
            stack.append((number, list(counts)))
        elif item.op == "end":
            start, before = stack.pop()
            for index, token in enumerate(program.tokens):
                if counts[index] != before[index]:
                    change = counts[index] - before[index]
                    op = program.instructions[start].op
                    text = f"the body of this {op} changes token {token.name} by {change:+d}"
                    place = place_of(program, start)
                    line = program.instructions[start].line
                    yield Problem(place, text, "tokens", line)
            counts = before
            continue
        elif item.op == "signal" and item.x is not None:
            counts[item.x] += 1
        elif item.op == "wait" and item.x is not None:
            if counts[item.x] < 1:
                text = f"token {program.tokens[item.x].name} has no signal left here: a deadlock"
            else:
                counts[item.x] -= 1
        if text:
            yield Problem(place_of(program, number), text, "tokens", item.line)
