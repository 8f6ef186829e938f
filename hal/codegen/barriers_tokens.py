"""Edges become tokens: one each while the chip has enough, else several edges share one.

Edges may share a token when each WAIT still meets the SIGNAL of its own edge: tokens count, so the
n-th WAIT meets the n-th SIGNAL. Where that is not enough, two edges of one block become one that
signals at the later place and waits at the earlier one; it orders more than the two did.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
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
                f"program {follower.accesses.program.name}: {len(shared)} tokens between engines "
                f"are needed and the chip has {limit}",
                call="codegen.explicit",
                next_step="Use fewer tiles or loops, or the flat profile.",
            )


def _shared(edges: Sequence[Edge], nesting: Nesting) -> list[list[Edge]]:
    """Edges in groups that can share a token, first fit.

    Edges within one turn share when their WAITs stand in the order of their SIGNALs. An edge whose
    WAIT stands behind a loop keeps those of the loop off its token, so turns do not matter.
    """
    groups: list[list[Edge]] = []
    within = [edge for edge in edges if not edge.credits]
    for edge in sorted(within, key=lambda each: (each.after, each.before)):
        for group in groups:
            last = group[-1]
            same = (last.producer, last.consumer) == (edge.producer, edge.consumer)
            if same and last.before <= edge.before:
                group.append(edge)
                break
        else:
            groups.append([edge])
    carried: list[list[Edge]] = []
    for edge in (edge for edge in edges if edge.credits):
        for group in carried:
            same = (group[0].producer, group[0].consumer) == (edge.producer, edge.consumer)
            if same and _keeps_pairs([*group, edge], nesting):
                group.append(edge)
                break
        else:
            carried.append([edge])
    return groups + carried


def _keeps_pairs(edges: Sequence[Edge], nesting: Nesting) -> bool:
    """True when each WAIT of these edges with credits meets its own edge's SIGNAL on one token."""
    if len({id(nesting.block_of(edge.before)) for edge in edges}) > 1:
        return False
    events = sorted(
        [(edge.before, 0, place) for place, edge in enumerate(edges)]
        + [(edge.after, 1, place) for place, edge in enumerate(edges)]
    )
    start = sum(edge.credits for edge in edges)
    queue: deque[int] = deque([-1] * start)
    taken = [0] * len(edges)
    for _ in range(start + 1):
        for _, is_signal, place in events:
            if is_signal:
                queue.append(place)
                continue
            front = queue.popleft()
            if front == -1:
                taken[place] += 1
            elif front != place:
                return False
    return taken == [edge.credits for edge in edges]


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
