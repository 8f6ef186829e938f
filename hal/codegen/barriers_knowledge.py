"""What each engine knows to be over, at each place of a program, on whatever path it came there.

The static twin of the race check of the simulated chip (happens-before clocks). A **view** lists
the accesses whose executions may still be at work as far as its owner knows: one mask for each age,
in turns of the access's block (age 0: this turn). Engines own views; a SIGNAL puts a copy of its
engine's view on the token, and a WAIT takes it off and keeps what both views leave open. Credits
are views of the program's start, when nothing is at work. Everything that runs later joins all
views but its own engine's, since engines are in order.

Where paths meet, what any of them leaves open stays open; LOOPs are followed until nothing grows.
So a program in which `follow` finds no race has none, for all counts, branches and sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from hal.codegen.barriers_accesses import Accesses, Needs
from hal.vil.expressions import Const
from hal.vil.model import Instruction
from hal.vil.tables import ENGINES

__all__ = ["Edge", "Follower", "Race", "View", "open_accesses"]

View = list[int]


@dataclass(slots=True, eq=False)
class Edge:
    """A token to be: SIGNAL behind one instruction, WAIT before another.

    Attributes:
        producer, consumer: Engine numbers.
        after, before: Indices of the instructions (END of a body as a whole, LOOP or IF alike).
        credits: Signals at the start; 0 for an edge within one turn.
        depth: Loops around both.
        is_certain: Both ends touch the same bytes whenever they run.
        why: Access that waits and access that it waits for.
        is_active: False for one that others imply.
    """

    producer: int
    consumer: int
    after: int
    before: int
    credits: int
    depth: int
    is_certain: bool
    why: tuple[int, int]
    is_active: bool = True


@dataclass(frozen=True, slots=True)
class Race:
    """An instruction, and accesses that may still be at work: of this turn, and of older ones."""

    instruction: int
    young: int
    old: int


class _State:
    """All views at one place of the program."""

    __slots__ = ("engines", "queues")

    def __init__(self, engines: list[View], queues: dict[int, list[View]]) -> None:
        self.engines = engines
        self.queues = queues

    def copy(self) -> _State:
        queues = {key: [view[:] for view in queue] for key, queue in self.queues.items()}
        return _State([view[:] for view in self.engines], queues)

    def views(self) -> Iterator[View]:
        yield from self.engines
        for queue in self.queues.values():
            yield from queue

    def take(self, edge: int) -> View | None:
        """The oldest view on a token; None when there is none."""
        queue = self.queues.get(edge)
        if queue is None:
            return None
        if len(queue) == 1:
            del self.queues[edge]
        return queue.pop(0)

    def join(self, other: _State) -> bool:
        """Opens what the other leaves open; True when that changes something."""
        grown = False
        pairs = [(self.engines, other.engines)]
        pairs += [(queue, other.queues[edge]) for edge, queue in self.queues.items()]
        for ours, theirs in pairs:
            for mine, its in zip(ours, theirs, strict=True):
                for age, mask in enumerate(its):
                    if mask & ~mine[age]:
                        mine[age] |= mask
                        grown = True
        return grown


class Follower:
    """Follows a program with a set of edges.

    Attributes:
        view: While a repair runs: the view of the engine that is about to start.
        seen: With a repair: all engines' views just behind an instruction.
    """

    def __init__(self, accesses: Accesses) -> None:
        self.accesses = accesses
        self.instructions = accesses.program.instructions
        self.ages = accesses.distance + 1
        self.edges: list[Edge] = []
        self.after: dict[int, list[int]] = {}
        self.before: dict[int, list[int]] = {}
        self.view: View = []
        self.seen: dict[int, list[View]] = {}
        self._kept: dict[int, _State] = {}
        self._keeps = False

    def add(self, edge: Edge) -> None:
        """Takes an edge into account from now on."""
        number = len(self.edges)
        self.edges.append(edge)
        self.after.setdefault(edge.after, []).append(number)
        self.before.setdefault(edge.before, []).append(number)

    def follow(self, repair: Callable[[Race], None] | None = None) -> Race | None:
        """The first race; None when there is none.

        Args:
            repair: Called for each race, and may add edges and change `view`; then the rest of the
                program is looked at as if they had been there.
        """
        heads: dict[int, _State] = {}
        while True:
            grown, first = self._pass(heads, repair)
            if first is not None or not grown:
                return first

    def remember(self) -> None:
        """Keeps the state before each WAIT, for `is_needed`; the edges have no race."""
        self._keeps = True
        self.follow()
        self._keeps = False

    def is_needed(self, index: int) -> bool:
        """True when there is a race without an edge on the straight path from its WAIT to its use.

        False decides nothing: other paths may need it. Edges that were dropped since `remember`
        only leave more open than its states say, so that True stays true.
        """
        edge = self.edges[index]
        state = self._kept[edge.before].copy()
        last = self.accesses.all[edge.why[0]].instruction
        known = len(self.edges)
        edge.is_active = False
        needed = False
        for number in range(edge.before, last + 1):
            self._wait(state, number, known)
            if self.accesses.engine_of[number] >= 0:
                needed = self._run(state, number, None) is not None
            elif self.instructions[number].op == "end":
                self._grow_older(state, number)
            if needed:
                break
            self._signal(state, number, known)
        edge.is_active = True
        return needed

    def _start(self) -> _State:
        queues: dict[int, list[View]] = {}
        for number, edge in enumerate(self.edges):
            if edge.is_active and edge.credits:
                queues[number] = [[0] * self.ages for _ in range(edge.credits)]
        return _State([[0] * self.ages for _ in ENGINES], queues)

    def _pass(
        self, heads: dict[int, _State], repair: Callable[[Race], None] | None
    ) -> tuple[bool, Race | None]:
        """One walk over the program; True when a LOOP must be followed again."""
        state, grown, first = self._start(), False, None
        branches: list[_State] = []
        known = len(self.edges)
        for number, item in enumerate(self.instructions):
            self._wait(state, number, known)
            if item.op == "loop":
                head = heads.setdefault(number, state)
                head.join(state)
                state = head.copy()
            elif item.op == "if":
                branches.append(state.copy())
            elif item.op == "end":
                self._grow_older(state, number)
                start = self.accesses.nesting.starts[number]
                opened = self.instructions[start]
                if opened.op == "loop":
                    grown |= heads[start].join(state)
                    if not _runs(opened):
                        state = heads[start].copy()
                else:
                    state.join(branches.pop())
                if repair is not None:
                    self.seen[number] = [view[:] for view in state.engines]
            elif self.accesses.engine_of[number] >= 0:
                race = self._run(state, number, repair)
                first = first or race
                if first is not None and repair is None:
                    return grown, first
            self._signal(state, number, known)
        return grown, first

    def _run(
        self, state: _State, number: int, repair: Callable[[Race], None] | None
    ) -> Race | None:
        engine = self.accesses.engine_of[number]
        view = state.engines[engine]
        race = open_accesses(view, self.accesses.needs[number])
        if race is not None and repair is not None:
            self.view = view
            repair(Race(number, *race))
        bits = self.accesses.bits[number]
        for other in state.views():
            if other is not view:
                other[0] |= bits
        if repair is not None:
            self.seen[number] = [each[:] for each in state.engines]
        return None if race is None else Race(number, *race)

    def _grow_older(self, state: _State, end: int) -> None:
        """A turn of the block is over."""
        for distance, mask in self.accesses.ages.get(end, ()):
            for view in state.views():
                if distance == 0:
                    view[0] &= ~mask  # Never met again.
                    continue
                for age in range(distance, 0, -1):
                    older = view[age - 1] & mask
                    view[age] = (view[age] | older) if age == distance else (
                        view[age] & ~mask | older
                    )  # fmt: skip
                view[0] &= ~mask

    def _take(self, state: _State, index: int) -> None:
        told = state.take(index)
        assert told is not None, "a WAIT before its SIGNAL"
        view = state.engines[self.edges[index].consumer]
        for age, mask in enumerate(told):
            view[age] &= mask

    def _wait(self, state: _State, number: int, known: int) -> None:
        waits = self.before.get(number, ())
        if waits and self._keeps:
            self._kept[number] = state.copy()
        for index in waits:
            edge = self.edges[index]
            if edge.is_active and index < known:
                self._take(state, index)

    def _signal(self, state: _State, number: int, known: int) -> None:
        for index in self.after.get(number, ()):
            edge = self.edges[index]
            if edge.is_active and index < known:
                state.queues.setdefault(index, []).append(state.engines[edge.producer][:])


def _runs(loop: Instruction) -> bool:
    """True when the body of a LOOP runs at least once, whatever the arguments."""
    count = loop.values[0]
    return isinstance(count, Const) and count.value > 0


def open_accesses(view: Sequence[int], needs: Needs | None) -> tuple[int, int] | None:
    """Accesses of this turn and of older ones that must be over and may not be."""
    if needs is None:
        return None
    young = view[0] & needs.always
    old = 0
    for mask in view[1:]:
        old |= mask & needs.always
    for distance, mask in needs.turns.items():
        young |= view[0] & mask
        if distance:
            old |= view[distance] & mask
    return (young, old) if young | old else None
