"""Programs in the chip's own profile: spaces, engines and tokens where the chip is explicit.

On a chip whose profile is flat the same programs run without tokens: values never depend on it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hal import dtypes
from hal.dtypes import DType
from hal.testing import case, close
from hal.testing.compute import LENGTHS, Lab, blank, is_bitwise_equal
from hal.testing.inputs import small
from hal.vil import recipes
from hal.vil.builder import Builder, ProgramBuilder, TokenHandle
from hal.vil.expressions import as_expr, ceil_div
from hal.vil.model import Dimension

FLOATS = [dtypes.f32, dtypes.f16, dtypes.bf16, dtypes.f64]
NUMBERS = [*FLOATS, dtypes.i8, dtypes.u8, dtypes.i32, dtypes.i64]
MATRICES = {
    "f32": (dtypes.f32, dtypes.f32),
    "f16": (dtypes.f16, dtypes.f32),
    "bf16": (dtypes.bf16, dtypes.f32),
    "f64": (dtypes.f64, dtypes.f64),
    "i8": (dtypes.i8, dtypes.i32),
    "i32": (dtypes.i32, dtypes.i32),
}
RULES = ["HAL-VIL-032"]


def named(item: Any) -> str | None:
    """Return the id of a parameter: a type's name."""
    return item.name if isinstance(item, DType) else None


# ---- one operation of each kind, token by token ----


@case(rules=RULES, operator="elementwise")
@pytest.mark.parametrize("function", ["add", "sub", "mul", "max"])
@pytest.mark.parametrize("dtype", NUMBERS, ids=named)
def test_two_operands(lab: Lab, rng: np.random.Generator, dtype: DType, function: str) -> None:
    m, n = 2 * lab.tile[0] + 1, 2 * lab.tile[1] - 1
    a, b = (small(rng, dtype, m, n, limit=5) for _ in range(2))
    module = lab.own(recipes.elementwise("bin", function, [dtype, dtype], dtype, tile=lab.tile))
    arguments = {"M": m, "N": n, "X0": a, "X1": b, "Y": blank(dtype, m, n)}
    got = lab.run(module, arguments)["Y"]
    merge: Any = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "max": np.maximum}
    wanted = merge[function](a.astype(np.int64), b.astype(np.int64)).astype(dtype.numpy)
    close(got, wanted, law="minmax", dtype=dtype.name)


@case(rules=RULES, operator="cast")
@pytest.mark.parametrize("target", NUMBERS, ids=named)
def test_cast(lab: Lab, rng: np.random.Generator, target: DType) -> None:
    m, n = lab.tile[0] + 1, lab.tile[1] + 1
    x = small(rng, dtypes.i32, m, n, limit=90)
    if target is dtypes.u8:
        x = np.abs(x)
    module = lab.own(recipes.elementwise("cast", "", [dtypes.i32], target, tile=lab.tile))
    got = lab.run(module, {"M": m, "N": n, "X0": x, "Y": blank(target, m, n)})["Y"]
    close(got, x.astype(target.numpy), law="exact", dtype=target.name)


@case(rules=[*RULES, "HAL-VIL-019"], operator="red")
@pytest.mark.parametrize("axis", [0, 1], ids=["rows", "columns"])
@pytest.mark.parametrize("function", ["add", "max", "min", "argmax"])
def test_reduction(lab: Lab, rng: np.random.Generator, function: str, axis: int) -> None:
    is_place = function == "argmax"
    shape = lab.tile if is_place else (3 * lab.tile[0] - 1, 3 * lab.tile[1] - 1)
    x = small(rng, dtypes.i32, *shape, limit=99)
    module = lab.own(recipes.reduction(function, dtypes.i32, dtypes.i32, axis=axis, tile=lab.tile))
    m, n = shape
    target = blank(dtypes.i32, *((1, n) if axis == 0 else (m, 1)))
    got = lab.run(module, {"M": m, "N": n, "X": x, "Y": target})["Y"]
    merge: Any = {"add": np.sum, "max": np.max, "min": np.min, "argmax": np.argmax}[function]
    wanted = merge(x, axis=axis, keepdims=True).astype(np.int32)
    close(got, wanted, law="exact", dtype="i32")


@case(rules=[*RULES, "HAL-VIL-021"], operator="scan")
@pytest.mark.parametrize("axis", [0, 1], ids=["rows", "columns"])
def test_scan(lab: Lab, rng: np.random.Generator, axis: int) -> None:
    x = small(rng, dtypes.i32, *lab.tile, limit=99)
    module = lab.own(recipes.scan("add", dtypes.i32, dtypes.i32, axis=axis, tile=lab.tile))
    m, n = lab.tile
    got = lab.run(module, {"M": m, "N": n, "X": x, "Y": blank(dtypes.i32, m, n)})["Y"]
    close(got, np.cumsum(x, axis=axis).astype(np.int32), law="exact", dtype="i32")


@case(rules=[*RULES, "HAL-VIL-026"], operator="trn copy")
@pytest.mark.parametrize("dtype", [*NUMBERS, dtypes.bool_], ids=named)
def test_transpose_and_copy(lab: Lab, rng: np.random.Generator, dtype: DType) -> None:
    side = lab.side
    m, n = side + 1, 2 * side - 1
    x = small(rng, dtype, m, n, limit=99)
    arguments = {"M": m, "N": n, "X": x, "Y": blank(dtype, n, m)}
    module = lab.own(recipes.transpose(dtype, tile=(side, side)))
    assert is_bitwise_equal(lab.run(module, arguments)["Y"], np.ascontiguousarray(x.T))
    module = lab.own(recipes.copied(dtype, tile=lab.tile))
    got = lab.run(module, {**arguments, "Y": blank(dtype, m, n)})["Y"]
    assert is_bitwise_equal(got, x)


@case(rules=[*RULES, "HAL-VIL-027"], operator="gather")
@pytest.mark.parametrize("dtype", [dtypes.f32, dtypes.i8, dtypes.i64, dtypes.f16], ids=named)
def test_gather(lab: Lab, rng: np.random.Generator, dtype: DType) -> None:
    count, width = 3 * lab.tile[0] - 1, lab.tile[1] + 3
    x = small(rng, dtype, 9, width, limit=90)
    places = rng.integers(-2, 11, count).astype(np.int32)
    module = lab.own(recipes.gathered(dtype, dtypes.i32, tile=lab.tile))
    arguments = {"R": 9, "N": width, "M": count, "X": x, "I": places}
    got = lab.run(module, {**arguments, "Y": blank(dtype, count, width)})["Y"]
    inside = (places >= 0) & (places < 9)
    wanted = np.where(inside[:, None], x[np.where(inside, places, 0)], dtype.numpy.type(1))
    assert is_bitwise_equal(got, wanted.astype(dtype.numpy))


@case(rules=[*RULES, "HAL-VIL-028"], operator="scatter")
@pytest.mark.parametrize("function", ["set", "add", "max", "min"])
def test_scatter(lab: Lab, rng: np.random.Generator, function: str) -> None:
    count, width = 3 * lab.tile[0] - 1, lab.tile[1] + 3
    x, y = small(rng, dtypes.i32, count, width), small(rng, dtypes.i32, 60, width)
    places = rng.permutation(60)[:count] if function == "set" else rng.integers(-1, 61, count)
    module = lab.own(recipes.scattered(function, dtypes.i32, dtypes.i32, tile=lab.tile))
    arguments = {"R": 60, "N": width, "M": count, "X": x, "I": places.astype(np.int32), "Y": y}
    got = lab.run(module, arguments)["Y"]
    wanted = y.copy()
    for place, row in zip(places, x, strict=True):
        if 0 <= place < 60:
            merge: Any = {"add": np.add, "max": np.maximum, "min": np.minimum}.get(function)
            wanted[place] = row if merge is None else merge(wanted[place], row)
    close(got, wanted, law="exact", dtype="i32")


@case(rules=[*RULES, "HAL-VIL-029"], operator="topk")
def test_topk(lab: Lab, rng: np.random.Generator) -> None:
    rows, columns = lab.tile
    x = rng.permutation(rows * 3 * columns).reshape(rows, 3 * columns).astype(np.int32)
    module = lab.own(recipes.top_entries(dtypes.i32, dtypes.i32, tile=lab.tile))
    targets = {name: blank(dtypes.i32, rows, columns) for name in "VI"}
    got = lab.run(module, {"N": 3 * columns, "X": x, **targets})
    order = np.argsort(-x, axis=1)[:, :columns]
    close(got["I"], order.astype(np.int32), law="exact", dtype="i32")
    close(got["V"], np.take_along_axis(x, order, axis=1), law="exact", dtype="i32")


@case(rules=[*RULES, "HAL-VIL-022"], operator="mma")
@pytest.mark.parametrize("shape", ["one", "tile-1", "tile", "tile+1", "prime"])
@pytest.mark.parametrize("types", list(MATRICES))
def test_matmul_through_the_chips_operand_spaces(
    lab: Lab, rng: np.random.Generator, types: str, shape: str
) -> None:
    kind, to = MATRICES[types]
    m, n, k = lab.length(shape, lab.side), lab.side + 1, lab.length(shape, lab.side) + 2
    spaces = tuple(lab.space("mma", end) for end in ("a", "b", "out"))
    tile = (lab.side, lab.side, lab.side)
    module = lab.own(recipes.matmul(kind, kind, to, tile=tile, spaces=spaces))  # type: ignore[arg-type]
    a, b = small(rng, kind, m, k), small(rng, kind, k, n)
    arguments = {"M": m, "N": n, "K": k, "A": a, "B": b, "C": blank(to, m, n)}
    got = lab.run(module, arguments)["C"]
    wanted = (a.astype(np.int64) @ b.astype(np.int64)).astype(to.numpy)
    close(got, wanted, law="dot", dtype=to.name, scale=0, terms=1)


@case(rules=[*RULES, "HAL-VIL-034"], operator="softmax")
def test_a_plan_of_several_launches(lab: Lab, rng: np.random.Generator) -> None:
    rows, width = lab.tile
    x = (rng.standard_normal((rows, 3 * width - 2)) * 9).astype(np.float32)
    module = lab.own(recipes.softmax(dtypes.f32, tile=lab.tile))
    arguments = {"N": x.shape[1], "X": x, "Y": blank(dtypes.f32, *x.shape)}
    ref = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    ref /= ref.sum(axis=1, keepdims=True)
    scale = ref.max(axis=1, keepdims=True)
    close(lab.run(module, arguments)["Y"], ref, law="rows", dtype="f32", scale=scale)


# ---- engines that work ahead of each other ----


class Engines:
    """A program whose tokens vanish on a flat chip."""

    def __init__(self, lab: Lab) -> None:
        self.is_explicit = lab.limits.explicit
        self.builder = Builder()
        profile = "explicit" if self.is_explicit else "flat"
        self.program: ProgramBuilder = self.builder.program("main", profile=profile)

    def token(self, name: str, producer: str, consumer: str, credits: int = 0) -> Any:  # noqa: A002
        """Add a token between two engines."""
        return self.program.token(name, producer, consumer, credits) if self.is_explicit else None

    def signal(self, *tokens: TokenHandle | None) -> None:
        """Add one to tokens when their producer is so far."""
        for token in tokens:
            if token is not None:
                self.program.signal(token)

    def wait(self, *tokens: TokenHandle | None) -> None:
        """Hold a token's consumer."""
        for token in tokens:
            if token is not None:
                self.program.wait(token)


def pipeline(lab: Lab, dtype: DType, stages: int) -> Any:
    """Return Y = −X, rows of tiles in a pipeline of loads, work and stores. Arguments: N, X, Y."""
    rows, columns = lab.tile
    e = Engines(lab)
    p = e.program
    n = p.symbol("N")
    x, y = p.buffer("X", dtype, "read"), p.buffer("Y", dtype, "write")
    source = p.tile("source", dtype, rows, columns, stages=stages)
    result = p.tile("result", dtype, rows, columns, stages=stages)
    loaded = e.token("loaded", "dma_in", "vector")
    used = e.token("used", "vector", "dma_in", stages)
    done = e.token("done", "vector", "dma_out")
    stored = e.token("stored", "dma_out", "vector", stages)
    with p.loop(ceil_div(n, columns)) as i:
        start = p.compute("mul", i, columns)
        e.wait(used)
        p.load(source[i], p.matrix(x, rows, n, column_origin=start))
        e.signal(loaded)
        e.wait(loaded, stored)
        p.un("neg", result[i], source[i])
        e.signal(used, done)
        e.wait(done)
        p.store(p.matrix(y, rows, n, column_origin=start), result[i])
        e.signal(stored)
    size = dtype.bytes * rows * n
    e.builder.kernel_of(p, bytes={"X": size, "Y": size})
    return e.builder.module()


@case(rules=[*RULES, "HAL-VIL-002"], operator="pipeline")
@pytest.mark.parametrize("stages", [1, 2, 3])
@pytest.mark.parametrize("length", [*LENGTHS, "long"])
def test_a_pipeline_of_three_engines(
    lab: Lab, rng: np.random.Generator, length: str, stages: int
) -> None:
    n = 20 * lab.tile[1] - 1 if length == "long" else lab.length(length, lab.tile[1])
    x = small(rng, dtypes.i32, lab.tile[0], n, limit=999)
    module = pipeline(lab, dtypes.i32, stages)
    got = lab.run(module, {"N": n, "X": x, "Y": blank(dtypes.i32, lab.tile[0], n)})["Y"]
    close(got, -x, law="exact", dtype="i32")


def buffered_matmul(lab: Lab, kind: DType, to: DType, stages: int) -> Any:
    """Return C = A · B of one tile, loads ahead of the matrix engine. Arguments: K, A, B, C."""
    side = lab.side
    e = Engines(lab)
    p = e.program
    k = p.symbol("K")
    buffers = p.buffer("A", kind, "read"), p.buffer("B", kind, "read")
    out = p.buffer("C", to, "write")
    a = p.tile("a", kind, side, side, stages=stages, space=lab.space("mma", "a"))
    b = p.tile("b", kind, side, side, stages=stages, space=lab.space("mma", "b"))
    c = p.tile("c", to, side, side, space=lab.space("mma", "out"))
    cleared = e.token("cleared", "vector", "matrix")
    full = e.token("full", "dma_in", "matrix")
    empty = e.token("empty", "matrix", "dma_in", stages)
    summed = e.token("summed", "matrix", "dma_out")
    p.fill(c, 0)
    e.signal(cleared)
    e.wait(cleared)
    with p.loop(ceil_div(k, side)) as i:
        start = p.compute("mul", i, side)
        e.wait(empty)
        p.load(a[i], p.matrix(buffers[0], side, k, column_origin=start))
        p.load(b[i], p.matrix(buffers[1], k, side, row_origin=start))
        e.signal(full)
        e.wait(full)
        p.mma(c, a[i], b[i])
        e.signal(empty)
    e.signal(summed)
    e.wait(summed)
    p.store(p.matrix(out, side, side), c)
    size = kind.bytes * side * k
    e.builder.kernel_of(p, bytes={"A": size, "B": size, "C": to.bytes * side * side})
    return e.builder.module()


@case(rules=[*RULES, "HAL-VIL-022"], operator="pipeline")
@pytest.mark.parametrize("stages", [1, 2, 4])
@pytest.mark.parametrize("types", list(MATRICES))
def test_loads_run_ahead_of_the_matrix_engine(
    lab: Lab, rng: np.random.Generator, types: str, stages: int
) -> None:
    kind, to = MATRICES[types]
    module, side = buffered_matmul(lab, kind, to, stages), lab.side
    for k in (0, 1, side, 7 * side + 3):
        a, b = small(rng, kind, side, k), small(rng, kind, k, side)
        got = lab.run(module, {"K": k, "A": a, "B": b, "C": blank(to, side, side)})["C"]
        wanted = (a.astype(np.int64) @ b.astype(np.int64)).astype(to.numpy)
        close(got, wanted, law="dot", dtype=to.name, scale=0, terms=1)


@case(rules=RULES, operator="tokens")
@pytest.mark.parametrize("credits", [0, 1, 5])
def test_a_token_counts(lab: Lab, credits: int) -> None:  # noqa: A002
    rows, columns = lab.tile
    e = Engines(lab)
    p = e.program
    y = p.buffer("Y", dtypes.i32, "write")
    t = p.tile("t", dtypes.i32, rows, columns)
    token = e.token("token", "vector", "dma_out", credits)
    p.iota(t, base=0, row=columns, column=1)
    for _ in range(4):
        p.bin("add", t, t, t)
        e.signal(token)
    for _ in range(4 + credits):
        e.wait(token)
    p.store(p.matrix(y, rows, columns), t)
    e.builder.kernel_of(p, bytes={"Y": 4 * rows * columns})
    got = lab.run(e.builder.module(), {"Y": blank(dtypes.i32, rows, columns)})["Y"]
    wanted = 16 * np.arange(rows * columns, dtype=np.int32).reshape(rows, columns)
    close(got, wanted, law="exact", dtype="i32")


@case(rules=[*RULES, "HAL-VIL-002"], operator="tokens")
def test_a_load_sees_an_earlier_store_of_its_instance(lab: Lab, rng: np.random.Generator) -> None:
    rows, columns = lab.tile
    e = Engines(lab)
    p = e.program
    y = p.buffer("Y", dtypes.i32, "inout")
    t = p.tile("t", dtypes.i32, rows, columns)
    loaded = e.token("loaded", "dma_in", "vector")
    worked = e.token("worked", "vector", "dma_out")
    stored = e.token("stored", "dma_out", "dma_in", 1)
    place = p.matrix(y, rows, columns)
    with p.loop(6):
        e.wait(stored)
        p.load(t, place)
        e.signal(loaded)
        e.wait(loaded)
        p.bin("add", t, t, t)
        e.signal(worked)
        e.wait(worked)
        p.store(place, t)
        e.signal(stored)
    e.builder.kernel_of(p, bytes={"Y": 4 * rows * columns})
    x = small(rng, dtypes.i32, rows, columns, limit=9)
    got = lab.run(e.builder.module(), {"Y": x})["Y"]
    close(got, 64 * x, law="exact", dtype="i32")


@case(rules=[*RULES, "HAL-VIL-031"], operator="tokens")
@pytest.mark.parametrize("dtype", [dtypes.i32, dtypes.i64], ids=named)
def test_the_scalar_engine_reads_a_tile_behind_its_token(lab: Lab, dtype: DType) -> None:
    e = Engines(lab)
    p = e.program
    x, y = p.buffer("X", dtype, "read"), p.buffer("Y", dtypes.i32, "write")
    t, out = p.tile("t", dtype, 1, 1), p.tile("out", dtypes.i32, 1, 1)
    loaded = e.token("loaded", "dma_in", "scalar")
    read = e.token("read", "scalar", "dma_in", 1)
    written = e.token("written", "vector", "dma_out")
    stored = e.token("stored", "dma_out", "vector", 1)
    total = p.compute("mov", 0)
    one = as_expr(1)
    with p.loop(11) as i:
        e.wait(read)
        p.load(t, p.descriptor(x, [Dimension(as_expr(11), one, i)]))
        e.signal(loaded)
        e.wait(loaded)
        found = p.read_tile(t)
        e.signal(read)
        p.compute("add", p.compute("mul", total, 3), found, to=total)
        e.wait(stored)
        p.iota(out, base=total)
        e.signal(written)
        e.wait(written)
        p.store(p.descriptor(y, [Dimension(as_expr(11), one, i)]), out)
        e.signal(stored)
    e.builder.kernel_of(p, bytes={"X": 11 * dtype.bytes, "Y": 44})
    values = np.array([5, -3, 8, 0, 1, 2, -9, 4, 4, 7, 6], dtype.numpy)
    wanted, running = [], 0
    for value in values.tolist():
        running = running * 3 + value
        wanted.append(running)
    got = lab.run(e.builder.module(), {"X": values, "Y": blank(dtypes.i32, 11)})["Y"]
    close(got, np.array(wanted, np.int32), law="exact", dtype="i32")


# ---- spaces ----


def doubled_in(space: str, lab: Lab, dtype: DType) -> Any:
    """Return a module Y = X + X whose tiles lie in a space."""
    rows, columns = lab.tile
    b = Builder()
    p = b.program("main")
    x, y = p.buffer("X", dtype, "read"), p.buffer("Y", dtype, "write")
    t = p.tile("t", dtype, rows, columns, space=space)
    u = p.tile("u", dtype, rows, columns, space=space)
    p.load(t, p.matrix(x, rows, columns))
    p.bin("add", u, t, t)
    p.store(p.matrix(y, rows, columns), u)
    size = dtype.bytes * rows * columns
    b.kernel_of(p, bytes={"X": size, "Y": size})
    return b.module()


@case(rules=[*RULES, "HAL-VIL-026"], operator="spaces")
@pytest.mark.parametrize("space", ["near", "vec"])
@pytest.mark.parametrize("dtype", NUMBERS, ids=named)
def test_work_in_a_space_of_the_vector_engine(
    lab: Lab, rng: np.random.Generator, dtype: DType, space: str
) -> None:
    x = small(rng, dtype, *lab.tile, limit=50)
    module = lab.own(doubled_in(space, lab, dtype))
    got = lab.run(module, {"X": x, "Y": blank(dtype, *lab.tile)})["Y"]
    close(got, x + x, law="minmax", dtype=dtype.name)


@case(rules=[*RULES, "HAL-VIL-005"], operator="spaces")
@pytest.mark.parametrize("space", ["mma_a", "mma_b", "acc", "vec", "scalar"])
def test_a_flat_program_may_name_any_space(lab: Lab, rng: np.random.Generator, space: str) -> None:
    b = Builder()
    p = b.program("main")
    x, y = p.buffer("X", dtypes.i32, "read"), p.buffer("Y", dtypes.i32, "write")
    t = p.tile("t", dtypes.i32, 1, lab.tile[1], space=space)
    one = p.tile("one", dtypes.i32, 1, 1)
    p.load(t, p.matrix(x, 1, lab.tile[1]))
    p.fill(one, 1)
    p.bin("add", t, t, one)
    p.store(p.matrix(y, 1, lab.tile[1]), t)
    size = 4 * lab.tile[1]
    b.kernel_of(p, bytes={"X": size, "Y": size})
    given = small(rng, dtypes.i32, 1, lab.tile[1])
    got = lab.run(b.module(), {"X": given, "Y": blank(dtypes.i32, 1, lab.tile[1])})["Y"]
    close(got, given + 1, law="exact", dtype="i32")
