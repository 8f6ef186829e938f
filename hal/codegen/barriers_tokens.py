"""Edges become tokens: one each while the chip has enough, else several edges share one.

Edges may share a token when each WAIT still meets the SIGNAL of its own edge: tokens count, so the
n-th WAIT meets the n-th SIGNAL. Where that is not enough, two edges of one block become one that
signals at the later place and waits at the earlier one; it orders more than the two did.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from hal.codegen.barriers_knowledge import Edge, Follower
from hal.codegen.explicit_blocks import Nesting, names_of
from hal.errors import Unsupported
from hal.vil.model import Instruction, Program, Token
from hal.vil.tables import ENGINES

__all__ = ["assign_tokens", "write_tokens"]

_NAMES = list(ENGINES)


def assign_tokens(follower: Follower, nesting: Nesting, limit: int) -> list[list[Edge]]:
    """The edges of each token, at most `limit` tokens.

    Raises:
        Unsupported: the chip has too few tokens for the program.
    """
    while True:
        edges = [edge for edge in follower.edges if edge.is_active]
        if len(edges) <= limit:
            return [[edge] for edge in edges]
        shared = _shared(edges, nesting)
        if len(shared) <= limit:
            return shared
        if not _join_two(follower, nesting, shared):
            raise Unsupported(
                f"the program needs {len(shared)} tokens between engines; the chip has {limit}",
                call="codegen.explicit",
                next_step="Use fewer tiles or loops, or the flat profile.",
            )


def _shared(edges: Iterable[Edge], nesting: Nesting) -> list[list[Edge]]:
    """Edges in groups that can share a token, first fit."""
    groups: list[list[Edge]] = []
    for edge in sorted(edges, key=lambda each: (each.after, each.before)):
        for group in groups:
            same = (group[0].producer, group[0].consumer) == (edge.producer, edge.consumer)
            if same and _keeps_pairs([*group, edge], nesting):
                group.append(edge)
                break
        else:
            groups.append([edge])
    return groups


def _events(edges: Sequence[Edge]) -> list[tuple[int, int, Edge]]:
    """WAITs (0) and SIGNALs (1) in program order."""
    found = [(edge.before, 0, edge) for edge in edges] + [(edge.after, 1, edge) for edge in edges]
    return sorted(found, key=lambda event: event[:2])


def _keeps_pairs(edges: Sequence[Edge], nesting: Nesting) -> bool:
    """True when each WAIT of these edges meets its own edge's SIGNAL on one token."""
    events = _events(edges)
    start = sum(edge.credits for edge in edges)
    if start and len({id(nesting.block_of(edge.before)) for edge in edges}) > 1:
        return False
    queue: deque[Edge | None] = deque([None] * start)
    taken = {id(edge): 0 for edge in edges}
    for _ in range(start + 1):
        for _, is_signal, edge in events:
            if is_signal:
                queue.append(edge)
                continue
            front = queue.popleft() if queue else None
            if front is None:
                taken[id(edge)] += 1  # A credit, or nothing to take.
            elif front is not edge:
                return False
    return all(taken[id(edge)] == edge.credits for edge in edges)


def _join_two(follower: Follower, nesting: Nesting, shared: list[list[Edge]]) -> bool:
    """Makes one edge of two that stand in different tokens; False when no two can be joined."""
    firsts = [edge for group in shared for edge in group]
    for position, one in enumerate(firsts):
        for other in firsts[position + 1 :]:
            if (one.producer, one.consumer) != (other.producer, other.consumer):
                continue
            if bool(one.credits) != bool(other.credits):
                continue
            if nesting.block_of(one.before) is not nesting.block_of(other.before):
                continue
            after, before = max(one.after, other.after), min(one.before, other.before)
            if one.credits == 0 and after >= before:
                continue
            start = min(one.credits, other.credits)
            joined = replace(one, after=after, before=before, credits=start, is_certain=False)
            one.is_active = other.is_active = False
            follower.add(joined)
            return True
    return False


def _names(program: Program, groups: Sequence[Sequence[Edge]]) -> Iterator[str]:
    taken = names_of(program)
    for group in groups:
        stem = f"{_NAMES[group[0].producer]}_to_{_NAMES[group[0].consumer]}"
        name, number = stem, 1
        while name in taken:
            number += 1
            name = f"{stem}_{number}"
        taken.add(name)
        yield name


@dataclass(frozen=True, slots=True)
class _Marks:
    before: dict[int, list[Instruction]]
    after: dict[int, list[Instruction]]


def write_tokens(program: Program, groups: Sequence[Sequence[Edge]]) -> Program:
    """The explicit program with a token for each group of edges."""
    marks = _Marks({}, {})
    tokens: list[Token] = []
    for index, (group, name) in enumerate(zip(groups, _names(program, groups), strict=True)):
        producer, consumer = _NAMES[group[0].producer], _NAMES[group[0].consumer]
        tokens.append(Token(name, producer, consumer, sum(edge.credits for edge in group)))
        for edge in group:
            signal = Instruction("signal", engine=producer, x=index)
            marks.after.setdefault(edge.after, []).append(signal)
            wait = Instruction("wait", engine=consumer, x=index)
            marks.before.setdefault(edge.before, []).append(wait)
    result: list[Instruction] = []
    for number, item in enumerate(program.instructions):
        result += marks.before.get(number, [])
        result.append(item)
        result += marks.after.get(number, [])
    return replace(program, profile="explicit", tokens=tuple(tokens), instructions=tuple(result))
