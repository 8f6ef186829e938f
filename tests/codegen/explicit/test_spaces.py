"""Spaces, layouts, COPY, offsets and stages of explicit programs."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hal import dtypes
from hal.codegen.explicit import explicit, explicit_where_it_pays
from hal.errors import HalError, OutOfMemory, Unsupported
from hal.hcd import load
from hal.vil import recipes
from hal.vil.builder import Builder
from hal.vil.evaluator import evaluate
from hal.vil.expressions import ceil_div
from hal.vil.model import Program
from hal.vil.module import Module
from hal.vil.validator import validate
from tests.codegen.explicit.port import Chip
from tests.codegen.explicit.programs import SAMPLES, SIDE, TILE, attention, pipeline

F32 = dtypes.f32
SMALL, SYSTOLIC = "sim/npu-small", "sim/npu-systolic"
Data = dict[str, Any]


def turned(module: Module, chip: str | Data = SMALL, **options: Any) -> Program:
    """The explicit form of a module with one program; it passes the validator."""
    description = load(chip) if isinstance(chip, str) else chip
    found = explicit(module, description, **options)
    assert validate(found, description) == []
    return found.programs[0]


def changed(chip: str, change: Callable[[Data], None]) -> Data:
    """A chip's data after a change of its `kernels.vil`."""
    data: Data = copy.deepcopy(dict(load(chip).data))
    change(data["kernels"]["vil"])
    return data


def row(vil: Data, name: str) -> Data:
    """One row of the operation table."""
    found: Data = next(each for each in vil["ops"] if each["id"] == name)
    return found


def spaces(program: Program) -> dict[str, str]:
    """Tile to space."""
    return {tile.name: tile.space for tile in program.tiles}


def copies(program: Program) -> list[tuple[str, str, str, int]]:
    """Each COPY: from, to, engine, and how many loops it stands in."""
    found, depth = [], 0
    for item in program.instructions:
        depth += (item.op == "loop") - (item.op == "end")
        if item.op == "copy" and item.a is not None and item.d is not None:
            ends = (program.tiles[item.a.tile].name, program.tiles[item.d.tile].name)
            found.append((*ends, item.engine, depth))
    return found


# ---- spaces ----


def test_operands_of_a_product_are_loaded_where_the_matrix_engine_reads() -> None:
    program = turned(recipes.matmul(F32, F32, F32, tile=(SIDE, SIDE, SIDE)))
    assert spaces(program) == {"a": "mma_a", "b": "mma_b", "c": "acc"}
    assert copies(program) == []


def test_a_space_that_the_chip_lacks_becomes_one_that_it_has() -> None:
    module = recipes.matmul(F32, F32, F32, tile=(SIDE,) * 3, spaces=("mma_a", "mma_b", "acc"))
    assert spaces(turned(module, SYSTOLIC)) == {"a": "near", "b": "near", "c": "acc"}


def test_a_tile_that_nothing_uses_lies_where_the_chip_has_room() -> None:
    module = pipeline()
    program = module.programs[0]
    unused = replace(program.tiles[0], name="unused", space="vec")
    module = replace(module, programs=(replace(program, tiles=(*program.tiles, unused)),))
    assert spaces(turned(module, SYSTOLIC))["unused"] == "near"


def weighted(*, inside: bool) -> Module:
    """C = (−A) · B by blocks of K; the negated A is made inside the loop, or once before it."""
    b = Builder()
    p = b.program("main")
    k = p.symbol("K")
    left, right = p.buffer("A", F32, "read"), p.buffer("B", F32, "read")
    to = p.buffer("C", F32, "write")
    a, w, c, opposite = (p.tile(name, F32, SIDE, SIDE) for name in ("a", "b", "c", "negated"))

    def make() -> None:
        p.load(a, p.matrix(left, SIDE, SIDE))
        p.un("neg", opposite, a)

    if not inside:
        make()
    p.fill(c, 0.0)
    with p.loop(ceil_div(k, SIDE)) as step:
        if inside:
            make()
        p.load(w, p.matrix(right, k, SIDE, row_origin=p.compute("mul", step, SIDE)))
        p.mma(c, opposite, w)
    p.store(p.matrix(to, SIDE, SIDE), c)
    size = 4 * SIDE * SIDE
    b.kernel_of(p, bytes={"A": size, "B": 4 * SIDE * k, "C": size})
    return b.module()


def test_a_computed_operand_is_copied_by_the_engine_of_the_path() -> None:
    program = turned(weighted(inside=True))
    assert copies(program) == [("negated", "negated_mma_a", "dma_in", 1)]


def test_an_operand_that_stays_is_copied_once_before_the_loop() -> None:
    program = turned(weighted(inside=False))
    assert copies(program) == [("negated_near", "negated", "dma_in", 0)]


def accumulated() -> Module:
    """C += A · B, and the sum is scaled by a vector operation between the products."""
    b = Builder()
    p = b.program("main")
    n = p.symbol("N")
    left, right = p.buffer("A", F32, "read"), p.buffer("B", F32, "read")
    to = p.buffer("C", F32, "write")
    a, w, c = (p.tile(name, F32, SIDE, SIDE) for name in "abc")
    p.load(a, p.matrix(left, SIDE, SIDE))
    p.fill(c, 0.0)
    with p.loop(n):
        p.load(w, p.matrix(right, SIDE, SIDE))
        p.bin("max", c, c, c)
        p.un("abs", c, c)
        p.mma(c, a, w)
    p.store(p.matrix(to, SIDE, SIDE), c)
    size = 4 * SIDE * SIDE
    b.kernel_of(p, bytes={"A": size, "B": size, "C": size})
    return b.module()


def test_a_sum_that_two_engines_change_moves_there_and_back(chip: Chip) -> None:
    module = accumulated()
    program = turned(module, chip.name)
    assert [each[:2] for each in copies(program)] == [("c", "c_acc"), ("c_acc", "c")]
    source = np.random.default_rng(3)
    arrays = {name: source.integers(-2, 3, (SIDE, SIDE)).astype(np.float32) for name in "ABC"}
    found = chip.run(explicit(module, chip.hcd), {"N": 3, **arrays})
    assert np.array_equal(found["C"], evaluate(module, "main", {"N": 3, **arrays})["C"])


def chained() -> Module:
    """D = (A · B) · C, where the first product is an operand of the second."""
    b = Builder()
    p = b.program("main")
    buffers = [p.buffer(name, F32, "write" if name == "D" else "read") for name in "ABCD"]
    tiles = [p.tile(name, F32, SIDE, SIDE) for name in ("a", "b", "first", "c", "d")]
    for buffer, tile in zip(buffers, (tiles[0], tiles[1], tiles[3]), strict=False):
        p.load(tile, p.matrix(buffer, SIDE, SIDE))
    p.mma(tiles[2], tiles[0], tiles[1], init=True)
    p.mma(tiles[4], tiles[2], tiles[3], init=True)
    p.store(p.matrix(buffers[3], SIDE, SIDE), tiles[4])
    b.kernel_of(p, bytes=dict.fromkeys("ABCD", 4 * SIDE * SIDE))
    return b.module()


def test_a_tile_without_a_direct_path_goes_through_near(chip: Chip) -> None:
    program = turned(chained(), chip.name)
    ways = {"sim/npu-small": ["vector", "dma_in"], "sim/npu-systolic": ["vector"]}
    assert [engine for _, _, engine, _ in copies(program)] == ways[chip.name]
    source = np.random.default_rng(4)
    arrays = {name: source.integers(-2, 3, (SIDE, SIDE)).astype(np.float32) for name in "ABCD"}
    found = chip.run(explicit(chained(), chip.hcd), arrays)
    assert np.array_equal(found["D"], arrays["A"] @ arrays["B"] @ arrays["C"])


def test_every_sample_fits_a_chip_whose_operand_spaces_have_no_path_between() -> None:
    chip = load("huawei/ascend-910b1")
    for sample in SAMPLES:
        assert validate(explicit(sample.build(), chip), chip) == []


def test_a_type_that_no_copy_moves_is_refused() -> None:
    """The loaded tile of 8-bit floats would have to be in near for STORE and in mma_a for MMA."""

    def only_near(vil: Data) -> None:
        row(vil, "load")["spaces_out"] = ["near"]
        row(vil, "mma")["dtypes"] = ["f8e4m3", "f32", "i32"]
        vil["features"] = [*vil["features"], "fp8_mma"]

    f8 = dtypes.f8e4m3
    module = recipes.matmul(f8, f8, F32, tile=(SIDE, SIDE, SIDE))
    with pytest.raises(Unsupported, match=r"tile a of f8e4m3 must be in near and in mma_a, and no"):
        turned(module, changed(SMALL, only_near))


# ---- layouts ----


def test_layouts_are_those_that_the_rows_allow() -> None:
    def packed(vil: Data) -> None:
        row(vil, "mma").update(layouts_a=["mma_a"], layouts_b=["mma_b", "col"])

    program = turned(recipes.matmul(F32, F32, F32, tile=(SIDE,) * 3), changed(SMALL, packed))
    assert {tile.name: tile.layout for tile in program.tiles} == {
        "a": "mma_a",
        "b": "col",
        "c": "row",
    }


def test_a_tile_with_two_layouts_is_two_tiles() -> None:
    """One operand of MMA is also stored, and STORE takes rows only."""

    def packed(vil: Data) -> None:
        row(vil, "mma")["layouts_a"] = ["col"]
        row(vil, "un_sign")["layouts_out"] = ["row"]

    program = turned(weighted(inside=True), changed(SYSTOLIC, packed))
    assert {tile.name: tile.layout for tile in program.tiles} == {
        "a": "row",
        "b": "row",
        "c": "row",
        "negated": "row",
        "negated_near": "col",
    }
    assert [each[:2] for each in copies(program)] == [("negated", "negated_near")]


# ---- offsets and stages ----


def test_tiles_of_one_turn_get_two_stages_and_others_one() -> None:
    program = turned(attention(), SYSTOLIC)
    stages = {tile.name: tile.stages for tile in program.tiles}
    names = ("key", "value", "scores_acc", "query", "total")
    assert [stages[name] for name in names] == [2, 2, 2, 1, 1]


@pytest.mark.parametrize(("capacity", "stages"), [(4096, [2, 2]), (3072, [1, 2]), (2048, [1, 1])])
def test_a_small_space_takes_stages_away(capacity: int, stages: list[int]) -> None:
    """Two tiles of 1024 bytes; the first of the largest goes first."""

    def small(vil: Data) -> None:
        vil["spaces"][1]["capacity_bytes"] = capacity

    program = turned(pipeline(), changed(SMALL, small))
    assert [tile.stages for tile in program.tiles] == stages


def test_tiles_share_bytes_only_when_they_must(chip: Chip) -> None:
    sample = next(each for each in SAMPLES if each.name == "copies")
    module = sample.build()
    roomy = turned(module, chip.name)
    assert sorted(tile.offset for tile in roomy.tiles) == [0, 1024, 2048]

    def small(vil: Data) -> None:
        next(each for each in vil["spaces"] if each["id"] == "near")["capacity_bytes"] = 2048

    tight = explicit(module, changed(chip.name, small))
    assert sorted(tile.offset for tile in tight.programs[0].tiles) == [0, 0, 1024]
    for arguments in sample.arguments():
        assert not chip.races(tight, arguments)


def test_what_does_not_fit_is_refused_with_what_would() -> None:
    def small(vil: Data) -> None:
        vil["spaces"][1]["capacity_bytes"] = 1500

    message = r"program main: the tiles in near need 2,048 bytes and 1,500 fit \(t 1,024, r 1,024\)"
    with pytest.raises(OutOfMemory, match=message):
        turned(pipeline(), changed(SMALL, small))


def test_stages_count_on_over_the_turns_of_outer_loops() -> None:
    sample = next(each for each in SAMPLES if each.name == "columns_of_a_product")
    program = turned(sample.build())
    adds = [item for item in program.instructions if (item.op, item.function) == ("sreg", "add")]
    assert len(adds) == 1
    assert program.sreg_count == sample.build().programs[0].sreg_count + 1


def test_a_program_without_turns_stays_flat_where_only_gain_counts() -> None:
    chip = load(SMALL)
    for name, profile in (("elementwise", "flat"), ("product", "explicit")):
        module = next(each for each in SAMPLES if each.name == name).build()
        found = explicit_where_it_pays(module, chip)
        assert [program.profile for program in found.programs] == [profile]


def test_nothing_is_refused_where_only_gain_counts() -> None:
    module = pipeline()
    assert explicit_where_it_pays(module, load("nvidia/a100-sxm-80gb")) is module

    def small(vil: Data) -> None:
        vil["spaces"][1]["capacity_bytes"] = 1500

    assert explicit_where_it_pays(module, changed(SMALL, small)) == module


def test_a_program_that_is_explicit_already_stays() -> None:
    module = explicit(pipeline(), load(SMALL))
    assert explicit(module, load(SMALL)) == module


def test_tile_limits_of_the_chip_are_the_reason_given() -> None:
    module = recipes.elementwise("un", "neg", [F32], F32, tile=TILE)
    few = changed(SMALL, lambda vil: vil.update(max_tiles=1))
    with pytest.raises(HalError, match=r"2 tiles; the chip has at most 1"):
        turned(module, few)
