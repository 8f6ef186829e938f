"""Where tokens stand, which are left out, and what happens when the chip has few."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest

from hal import dtypes
from hal.codegen.barriers import Barriers, insert_barriers
from hal.codegen.explicit import explicit
from hal.errors import Unsupported
from hal.vil import parse
from hal.vil.builder import Builder, ProgramBuilder
from hal.vil.expressions import ceil_div
from hal.vil.model import Program
from hal.vil.module import Module
from tests.codegen.explicit.port import Chip
from tests.codegen.explicit.programs import COLUMNS, ROWS, SAMPLES, TILE, in_place
from tests.sim_port.explicit import PIPELINE

F32 = dtypes.f32


def program_of(module: Module, count: int = 65535) -> Barriers:
    """The only program of a module with its tokens."""
    return insert_barriers(module.programs[0], kernels=module.kernels, token_count=count)


def steps(program: Program) -> list[str]:
    """The instructions in short: operations, tokens by their engines."""
    found = []
    for item in program.instructions:
        if item.op in ("signal", "wait") and item.x is not None:
            token = program.tokens[item.x]
            found.append(f"{item.op} {token.producer} {token.consumer}")
        elif item.op != "sreg":
            found.append(item.op)
    return found


def kinds(barriers: Barriers) -> list[tuple[str, str, int]]:
    """Producer, consumer and credits of each token."""
    tokens = barriers.program.tokens
    return sorted((token.producer, token.consumer, token.credits) for token in tokens)


def test_a_pipeline_gets_the_tokens_that_a_person_writes() -> None:
    by_hand = parse(PIPELINE).programs[0]
    bare = re.sub(r"\n +(signal|wait|token) .*", "", PIPELINE)
    found = program_of(parse(bare))
    assert kinds(found) == sorted((t.producer, t.consumer, t.credits) for t in by_hand.tokens)
    assert sorted(steps(found.program)) == sorted(steps(by_hand))


def straight(*, back: bool) -> Module:
    """Loads two tiles, adds them; with `back` stores the result and an operand."""
    b = Builder()
    p = b.program("main")
    x, y = p.buffer("X", F32, "read"), p.buffer("Y", F32, "write")
    first, second = p.tile("first", F32, *TILE), p.tile("second", F32, *TILE)
    p.load(first, p.matrix(x, *TILE))
    p.load(second, p.matrix(x, *TILE))
    p.bin("add", second, first, second)
    if back:
        p.store(p.matrix(y, *TILE), second)
        p.store(p.matrix(y, *TILE), first)
    b.kernel_of(p, bytes={"X": 1024, "Y": 1024})
    return b.module()


def test_one_token_orders_all_earlier_work_of_its_engine() -> None:
    """One wait for two loads; and the store of `first` needs no token of its own."""
    found = program_of(straight(back=True))
    assert steps(found.program) == [
        *("load", "load", "signal dma_in vector", "wait dma_in vector", "bin"),
        *("signal vector dma_out", "wait vector dma_out", "store", "store"),
    ]


def test_the_reason_of_each_token_is_kept() -> None:
    (reason,) = program_of(straight(back=False)).barriers
    assert (reason.place, reason.waited_for, reason.waits) == ("second", 1, 2)
    assert reason.is_certain


def test_a_block_that_moves_on_needs_no_order_between_store_and_load() -> None:
    moving, staying = program_of(in_place(moves=True)), program_of(in_place(moves=False))
    assert "Y" not in [each.place for each in moving.barriers]
    assert "Y" in [each.place for each in staying.barriers]


def two_names(alias: str | None) -> Module:
    """Loads of A behind stores to B, in a loop; the kernel's arguments may be one memory."""
    b = Builder()
    p = b.program("main")
    n = p.symbol("N")
    a, c = p.buffer("A", F32, "read"), p.buffer("B", F32, "write")
    t = p.tile("t", F32, *TILE, stages=2)
    with p.loop(n) as turn:
        p.load(t[turn], p.matrix(a, *TILE))
        p.store(p.matrix(c, *TILE), t[turn])
    k = b.kernel("main")
    k.symbol("N")
    k.buffer("A", F32, "read", 1024)
    k.buffer("B", F32, "write", 1024, alias=alias)
    k.launch(p, [1], [n, "A", "B"])
    return b.module()


def test_arguments_that_may_be_one_memory_are_one_place() -> None:
    """Apart, a load may run two turns ahead; as one memory it waits for the store before it."""
    apart, same = program_of(two_names(None)), program_of(two_names("A"))
    assert kinds(apart) == [("dma_in", "dma_out", 0), ("dma_out", "dma_in", 2)]
    assert kinds(same) == [("dma_in", "dma_out", 0), ("dma_out", "dma_in", 1)]


def guarded(p: ProgramBuilder, count: Any) -> None:
    """A tile that a loop may fill, stored behind it."""
    y, x = p.buffer("Y", F32, "write"), p.buffer("X", F32, "read")
    t, kept = p.tile("t", F32, *TILE), p.tile("kept", F32, *TILE)
    p.fill(kept, 0.0)
    with p.loop(count):
        p.load(t, p.matrix(x, *TILE))
        p.bin("add", kept, kept, t)
    p.store(p.matrix(y, *TILE), kept)


def test_a_token_inside_a_loop_that_may_not_run_orders_nothing_behind_it() -> None:
    """`kept` is stored behind the loop, which may have done nothing."""
    for count in (0, 1, 3):
        b = Builder()
        p = b.program("main")
        guarded(p, count)
        b.kernel_of(p, bytes={"X": 1024, "Y": 1024})
        assert "vector" in [t.producer for t in program_of(b.module()).program.tokens]


def test_credits_are_the_stages_only_where_the_stage_counts_every_turn() -> None:
    """The counter of an inner loop starts again, so stages by it give one credit."""
    b = Builder()
    p = b.program("main")
    n = p.symbol("N")
    x, y = p.buffer("X", F32, "read"), p.buffer("Y", F32, "write")
    t, r = p.tile("t", F32, *TILE, stages=2), p.tile("r", F32, *TILE)
    with p.loop(n), p.loop(n) as inner:
        p.load(t[inner], p.matrix(x, *TILE))
        p.un("neg", r, t[inner])
    p.store(p.matrix(y, *TILE), r)
    b.kernel_of(p, bytes={"X": 1024, "Y": 1024})
    assert ("vector", "dma_in", 1) in kinds(program_of(b.module()))


def test_few_tokens_are_shared_without_a_race(chip: Chip) -> None:
    """Down to the fewest that will do, values stay and nothing races."""
    sample = next(each for each in SAMPLES if each.name == "online_attention")
    flat = sample.build()
    data = copy.deepcopy(dict(chip.hcd.data))
    fewest = 0
    for count in range(8, 0, -1):
        data["kernels"]["vil"]["token_count"] = count
        try:
            turned = explicit(flat, data)
        except Unsupported:
            break
        fewest = count
        assert len(turned.programs[0].tokens) <= count
        assert not any(chip.races(turned, arguments) for arguments in sample.arguments())
    assert fewest in (4, 5)


def test_too_few_tokens_are_refused_with_both_numbers(chip: Chip) -> None:
    data = copy.deepcopy(dict(chip.hcd.data))
    data["kernels"]["vil"]["token_count"] = 2
    message = r"program main: \d+ tokens between engines are needed and the chip has 2\. Use fewer"
    with pytest.raises(Unsupported, match=message):
        explicit(SAMPLES[0].build(), data)


def test_long_programs_need_few_tokens() -> None:
    """Edges of one pair of engines share a token when they come in the same order."""
    b = Builder()
    p = b.program("main")
    n = p.symbol("N")
    x, y = p.buffer("X", F32, "read"), p.buffer("Y", F32, "write")
    tiles = [p.tile(f"t{number}", F32, *TILE) for number in range(12)]
    for turn in range(60):
        start = turn * COLUMNS
        source, target = tiles[turn % 12], tiles[(turn + 5) % 12]
        p.load(source, p.matrix(x, ROWS, n, column_origin=start))
        p.un("neg", target, source)
        p.store(p.matrix(y, ROWS, n, column_origin=start), target)
    b.kernel_of(p, bytes={"X": 4 * ROWS * n, "Y": 4 * ROWS * n}, grid=[ceil_div(n, n)])
    found = program_of(b.module(), 8)
    assert len(found.barriers) > 100
    assert len(found.program.tokens) <= 6
