"""Programs whose tiles are no multiple of the chip's granules."""

from __future__ import annotations

import numpy as np
import pytest

from hal import dtypes
from hal.codegen.explicit import explicit
from hal.errors import Unsupported
from hal.vil import recipes
from hal.vil.builder import Builder
from hal.vil.evaluator import evaluate
from hal.vil.generate import Choices, generate
from hal.vil.module import Module
from tests.codegen.explicit.port import Chip

F32, I32 = dtypes.f32, dtypes.i32
ODD = (5, 9)


def held_against_flat(chip: Chip, module: Module, arguments: dict[str, object]) -> Module:
    """The explicit form, after it computed what the flat form computes."""
    turned = explicit(module, chip.hcd)
    wanted = evaluate(module, "main", arguments)
    for found in (evaluate(turned, "main", arguments), chip.run(turned, arguments)):
        for name, array in wanted.items():
            given, expected = found[name].astype(np.float64), array.astype(np.float64)
            assert np.array_equal(given, expected, equal_nan=True), name
    return turned


def test_a_product_of_odd_tiles_keeps_its_value(chip: Chip) -> None:
    """Rows, columns and depth grow alike, whatever the chip's granules are."""
    source = np.random.default_rng(5)
    a, b = (source.integers(-3, 4, shape).astype(np.float32) for shape in ((7, 31), (31, 9)))
    module = recipes.matmul(F32, F32, F32, tile=(5, 6, 10))
    arguments = {"M": 7, "N": 9, "K": 31, "A": a, "B": b, "C": np.zeros((7, 9), np.float32)}
    turned = held_against_flat(chip, module, arguments)
    limits = chip.hcd.data["kernels"]["vil"]
    for tile in turned.programs[0].tiles:
        assert (tile.rows % limits["granule_rows"], tile.columns % limits["granule_columns"]) == (
            0,
            0,
        )


def counted(kind: str) -> Module:
    """Y = sums of the columns of a tile that fills itself: counted, broadcast or filled."""
    b = Builder()
    p = b.program("main")
    y = p.buffer("Y", I32, "write")
    t, total = p.tile("t", I32, *ODD), p.tile("total", I32, 1, ODD[1])
    if kind == "iota":
        p.iota(t, base=3, row=2, column=1)
    elif kind == "fill":
        p.fill(t, 3)
    elif kind == "fill by register":
        p.fill(t, 3, rows=p.compute("add", p.id(0), 4))
    else:
        one, line = p.tile("one", I32, 1, 1), p.tile("line", I32, 1, ODD[1])
        p.fill(one, 7)
        p.iota(line, column=1)
        p.bin("add", t, one, line)
    p.red("add", total, t, axis=0)
    p.store(p.matrix(y, 1, ODD[1]), total)
    b.kernel_of(p, bytes={"Y": 4 * ODD[1]})
    return b.module()


@pytest.mark.parametrize("kind", ["iota", "fill", "fill by register", "broadcast"])
def test_what_fills_a_tile_stops_where_the_tile_ended(chip: Chip, kind: str) -> None:
    held_against_flat(chip, counted(kind), {"Y": np.zeros(ODD[1], np.int32)})


def test_a_load_without_a_limit_stops_where_the_tile_ended(chip: Chip) -> None:
    """What lies outside the matrix is filled with 2, and each filled element counts."""
    b = Builder()
    p = b.program("main")
    x, y = p.buffer("X", I32, "read"), p.buffer("Y", I32, "write")
    t, total = p.tile("t", I32, *ODD), p.tile("total", I32, 1, ODD[1])
    shift = p.compute("mul", p.id(0), 3)
    p.load(t, p.matrix(x, 4, 6, row_origin=shift, limited=False, fill=2))
    p.red("add", total, t, axis=0)
    p.store(p.matrix(y, 2, ODD[1], row_origin=p.id(0)), total)
    b.kernel_of(p, grid=[2], bytes={"X": 96, "Y": 8 * ODD[1]})
    source = np.arange(24, dtype=np.int32)
    held_against_flat(chip, b.module(), {"X": source, "Y": np.zeros(2 * ODD[1], np.int32)})


def test_an_operation_that_counts_its_tile_is_refused(chip: Chip) -> None:
    with pytest.raises(Unsupported, match=r"granules, and topk keeps as many .*\. Choose tile"):
        explicit(recipes.top_entries(F32, I32, tile=ODD), chip.hcd)


def test_random_programs_of_any_tile_size_keep_their_values_or_are_refused(chip: Chip) -> None:
    turned = 0
    for seed in range(12):
        case = generate(Choices(seed), None, steps=10)
        try:
            held_against_flat(chip, case.module, case.arguments)
        except Unsupported as error:
            assert "granules" in str(error)
            continue
        turned += 1
    assert turned >= 3
