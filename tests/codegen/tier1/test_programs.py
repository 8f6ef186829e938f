"""What the lowering table does to a program around the rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tier1_chips import EVERY, TIER1

import hal.vil
from hal import dtypes
from hal.codegen.tier1 import TABLE, lower
from hal.codegen.tier1_serial import as_one_instance
from hal.errors import HalError
from hal.vil import Builder, Module, recipes
from hal.vil.expressions import as_expr
from hal.vil.tables import OPS

BARE = EVERY["bare"]


def test_the_table_has_a_row_for_each_later_operation_but_the_tokens() -> None:
    later = {name for name, row in OPS.items() if row.tier > 1} - {"signal", "wait"}
    assert set(TABLE) == later | {"load near", "store near"}


def test_a_row_uses_what_it_says() -> None:
    assert {word for row in TABLE.values() for word in row.uses.split()} <= TIER1


def test_a_program_without_later_operations_stays_as_it_is() -> None:
    module = recipes.transpose(dtypes.f32)
    assert lower(module, BARE) == module


def test_an_operation_that_the_chip_has_stays() -> None:
    class Scans:
        features: frozenset[str] = frozenset()

        def supports(self, op: str, function: str = "", *types: dtypes.DType) -> bool:
            return op in TIER1 or (op == "scan" and types == (dtypes.f32,))

    kept = recipes.scan("add", dtypes.f32, dtypes.f32, axis=1)
    assert lower(kept, Scans()) == kept
    other = lower(recipes.scan("add", dtypes.i32, dtypes.i32, axis=1), Scans())
    assert "scan" not in {item.op for item in other.programs[0].instructions}


def test_an_explicit_program_is_refused() -> None:
    module = recipes.copied(dtypes.f32, copies=1)
    explicit = Module(module.kernels, (replace(module.programs[0], profile="explicit"),))
    with pytest.raises(HalError, match="explicit and the chip has no copy"):
        lower(explicit, BARE)


def test_flags_that_the_chip_does_not_grant_go_where_nothing_needs_them() -> None:
    module = recipes.scattered_in_order(dtypes.f32)
    contracted = Module(module.kernels, (replace(module.programs[0], contract=True),))
    (program,) = lower(contracted, BARE).programs
    assert (program.contract, program.deterministic) == (False, False)


def test_inside_four_loops_a_row_is_written_out() -> None:
    b = Builder()
    p = b.program("main")
    x, y = p.buffer("X", dtypes.i32, "read"), p.buffer("Y", dtypes.i32, "write")
    t, total = p.tile("t", dtypes.i32, 2, 4), p.tile("total", dtypes.i32, 2, 4)
    p.load(t, p.matrix(x, 2, 4))
    with p.loop(1), p.loop(2), p.loop(1), p.loop(1):
        p.scan("add", total, t, axis=1)
        p.un("mov", t, total)
    p.store(p.matrix(y, 2, 4), t)
    b.kernel_of(p, bytes={"X": 32, "Y": 32})
    module = b.module()
    found = lower(module, BARE)
    assert hal.vil.validate(found) == []
    given = {"X": np.arange(8, dtype=np.int32), "Y": np.zeros(8, np.int32)}
    want = np.cumsum(np.cumsum(given["X"].reshape(2, 4), 1), 1).ravel()
    assert hal.vil.evaluate(found, "main", given)["Y"].tolist() == want.tolist()


def counted_on_a_grid() -> Module:
    """Each instance adds 1 to a register and reads a tile, both of which must start fresh."""
    b = Builder()
    p = b.program("main")
    y = p.buffer("Y", dtypes.i64, "write")
    kept, number = p.tile("kept", dtypes.i32, 1, 1), p.tile("number", dtypes.i64, 1, 1)
    register = p.new_sreg()
    p.compute("add", register, 1, to=register)
    before = p.read_tile(kept)
    place = p.compute("add", p.compute("mul", p.id(2), p.grid_size(1)), p.id(1))
    place = p.compute("add", p.compute("mul", place, p.grid_size(0)), p.id(0))
    ids = p.compute("add", p.compute("mul", p.id(1), 100), p.compute("mul", p.id(2), 1000))
    total = p.compute("add", p.compute("mul", register, 10), p.compute("add", before, ids))
    p.iota(number, base=p.compute("add", total, p.id(0)))
    p.store(p.matrix(y, 1, 24, column_origin=place), number)
    p.fill(kept, 7)
    b.kernel_of(p, grid=[2, 3, 4], bytes={"Y": 192})
    return b.module()


def test_one_instance_starts_each_turn_with_fresh_registers_and_tiles() -> None:
    module = counted_on_a_grid()
    program, kernels = as_one_instance(module.programs[0], module.kernels)
    found = Module(kernels, (program,))
    assert hal.vil.validate(found) == []
    given = {"Y": np.zeros(24, np.int64)}
    want = hal.vil.evaluate(module, "main", given)["Y"]
    assert want.tolist() == [
        10 + x + 100 * y + 1000 * z for z in range(4) for y in range(3) for x in range(2)
    ]
    assert hal.vil.evaluate(found, "main", given)["Y"].tolist() == want.tolist()
    assert kernels[0].launches[0].grid == (as_expr(1),)


def test_one_instance_of_an_empty_grid_runs_nothing() -> None:
    module = recipes.scattered("add", dtypes.f32, dtypes.i32)
    found = lower(module, BARE)
    given = {
        "R": 2,
        "N": 0,
        "M": 3,
        "X": np.zeros(0, np.float32),
        "I": np.zeros(3, np.int32),
        "Y": np.zeros(0, np.float32),
    }
    assert hal.vil.evaluate(found, "main", given)["Y"].size == 0
