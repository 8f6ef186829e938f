"""Automatic barriers: SIGNAL and WAIT wherever work of two engines meets, and nowhere else.

    program = insert_barriers(program, kernels=module.kernels, token_count=32).program

docs/barriers.md explains the method. The program comes in program order without tokens; its tiles
have their final spaces, offsets and stages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hal.codegen.barriers_accesses import Accesses
from hal.codegen.barriers_knowledge import Edge, Follower, Race, open_accesses
from hal.codegen.barriers_tokens import assign_tokens, write_tokens
from hal.codegen.explicit_blocks import Nesting
from hal.errors import Internal
from hal.vil.model import Kernel, Program

__all__ = ["Barrier", "Barriers", "insert_barriers"]

PRUNE_BUDGET = 1_000_000
"""Doubtful edges times instructions, above which implied edges may stay."""


@dataclass(frozen=True, slots=True)
class Barrier:
    """One edge, for people.

    Attributes:
        token: Index of its token.
        waits, waited_for: Instructions of the program without tokens.
        place: Tile or buffer parameter for which it was made.
        credits: Signals at the start.
        is_certain: False where the two might never touch the same bytes, but nothing proves it.
    """

    token: int
    waits: int
    waited_for: int
    place: str
    credits: int
    is_certain: bool


@dataclass(frozen=True, slots=True)
class Barriers:
    """A program with tokens, and the reason for each of them."""

    program: Program
    barriers: tuple[Barrier, ...]


def insert_barriers(
    program: Program, *, kernels: Sequence[Kernel] = (), token_count: int = 65535
) -> Barriers:
    """The program in the explicit profile, with the tokens that it needs.

    Args:
        kernels: Kernels that launch it: which parameters may be the same memory.
        token_count: Tokens of the chip.

    Raises:
        Unsupported: the chip has too few tokens.
    """
    nesting = Nesting(program.instructions)
    accesses = Accesses(program, nesting, kernels)
    follower = Follower(accesses)
    _insert(follower)
    _prune(follower)
    groups = assign_tokens(follower, nesting, token_count)
    found = [
        Barrier(
            token,
            accesses.all[edge.why[0]].instruction,
            accesses.all[edge.why[1]].instruction,
            accesses.place_name(edge.why[1]),
            edge.credits,
            edge.is_certain,
        )
        for token, group in enumerate(groups)
        for edge in group
    ]
    return Barriers(write_tokens(program, groups), tuple(found))


def _insert(follower: Follower) -> None:
    """Adds edges until no race is left; some may be implied by later ones."""
    known: set[tuple[int, ...]] = set()

    def repair(race: Race) -> None:
        while True:
            edge, forward = _edge(follower.accesses, race)
            key = (edge.producer, edge.consumer, edge.after, edge.before, edge.credits)
            if key not in known:
                known.add(key)
                follower.add(edge)
            _believe(follower, edge, race.instruction, forward)
            still = open_accesses(follower.view, follower.accesses.needs[race.instruction])
            if still is None:
                return
            race = Race(race.instruction, *still)

    while True:
        count = len(follower.edges)
        if follower.follow(repair) is None:
            return
        if len(follower.edges) == count:
            text = f"a race is left in program {follower.accesses.program.name}"
            raise Internal(text, call="codegen.insert_barriers")


def _edge(accesses: Accesses, race: Race) -> tuple[Edge, bool]:
    """The edge for the last access before the racing instruction, else for the last one behind it.

    The second value says that the edge lies within one turn of its block.
    """
    here = race.instruction
    every = race.young | race.old
    before = every & ((1 << accesses.first[here]) - 1)
    forward = before != 0
    rival = (before or every).bit_length() - 1
    there = accesses.all[rival].instruction
    nesting = accesses.nesting
    block = nesting.common(here, there)
    start = 0
    if not forward:
        turn = accesses.turn(rival)
        young = race.young >> rival & 1
        counted = turn is not None and turn.block is block and not young
        start = turn.distance if counted and turn is not None else 1
    waits = next(_rivals(accesses, here, rival))
    edge = Edge(
        accesses.all[rival].engine,
        accesses.engine_of[here],
        nesting.span_in(block, there)[1],
        nesting.span_in(block, here)[0],
        start,
        block.depth,
        _is_certain(accesses, waits, rival),
        (waits, rival),
    )
    return edge, forward


def _rivals(accesses: Accesses, here: int, rival: int) -> Iterator[int]:
    """Accesses of an instruction that meet another one, those of the same place first."""
    own = range(accesses.first[here], accesses.first[here + 1])
    place = accesses.all[rival].place
    yield from sorted(own, key=lambda index: accesses.all[index].place != place)


def _is_certain(accesses: Accesses, one: int, other: int) -> bool:
    first, second = accesses.all[one], accesses.all[other]
    return first.place == second.place and first.is_exact and second.is_exact


def _believe(follower: Follower, edge: Edge, here: int, forward: bool) -> None:
    """Changes the view as if the edge had been there; the next walk finds out what is true."""
    accesses, view = follower.accesses, follower.view
    if forward:
        told = follower.seen[edge.after][edge.producer]
        later = (1 << accesses.first[here]) - (1 << accesses.first[edge.after + 1])
        for age in range(len(view)):
            view[age] &= told[age] | later
        return
    for age in range(len(view)):
        view[age] &= ~accesses.of_engine[edge.producer]


def _prune(follower: Follower) -> None:
    """Drops edges that the others imply, the innermost and the latest first."""
    follower.remember()
    doubtful = [index for index in range(len(follower.edges)) if not follower.is_needed(index)]
    if len(doubtful) * len(follower.instructions) > PRUNE_BUDGET:
        doubtful = doubtful[: PRUNE_BUDGET // len(follower.instructions)]
    doubtful.reverse()
    edges = [follower.edges[index] for index in doubtful]
    for edge in sorted(edges, key=lambda each: -each.depth):
        edge.is_active = False
        if follower.follow() is not None:
            edge.is_active = True
