"""Plans of several launches and their workspaces; what a launch may change and must not keep."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hal import dtypes
from hal.dtypes import DType
from hal.testing import case, close
from hal.testing.abi import KernelInfo, PortInfo
from hal.testing.compute import Lab, blank, is_bitwise_equal
from hal.testing.fixtures import Hcd
from hal.testing.images import as_loaded, preferred_format
from hal.testing.inputs import floats, small
from hal.vil import recipes
from hal.vil.builder import Builder, ProgramBuilder
from hal.vil.expressions import ceil_div
from hal.vil.module import Module

FLOATS = [dtypes.f32, dtypes.f16, dtypes.bf16, dtypes.f64]
LENGTHS = ["zero", "one", "tile-1", "tile+1", "prime"]


def named(item: Any) -> str | None:
    """Return the id of a parameter: a type's name."""
    return item.name if isinstance(item, DType) else None


# ---- plans ----


def row_program(
    b: Builder, name: str, dtype: DType, width: int, steps: Callable[[ProgramBuilder, Any], None]
) -> ProgramBuilder:
    """Return a program Y[0..n) from X[0..n), `width` elements an instance."""
    p = b.program(name)
    n = p.symbol("n")
    x, y = p.buffer("X", dtype, "read"), p.buffer("Y", dtype, "write")
    start = p.compute("mul", p.id(0), width)
    t = p.tile("t", dtype, 1, width)
    p.load(t, p.matrix(x, 1, n, column_origin=start))
    steps(p, t)
    p.store(p.matrix(y, 1, n, column_origin=start), t)
    return p


def two_pass_sum(dtype: DType, width: int) -> Module:
    """Return Y = Σ X[0..n): partial sums in a workspace, then their sum. Arguments: n, X, Y."""
    b = Builder()
    p = b.program("partial")
    n, x, w = p.symbol("n"), p.buffer("X", dtype, "read"), p.buffer("W", dtype, "write")
    t, one = p.tile("t", dtype, 1, width), p.tile("one", dtype, 1, 1)
    p.load(t, p.matrix(x, 1, n, column_origin=p.compute("mul", p.id(0), width)))
    p.red("add", one, t, axis=1)
    p.store(p.matrix(w, 1, p.grid_size(0), column_origin=p.id(0)), one)
    q = b.program("final")
    parts, v, y = q.symbol("parts"), q.buffer("W", dtype, "read"), q.buffer("Y", dtype, "write")
    u, sum_, total = (
        q.tile("u", dtype, 1, width),
        q.tile("s", dtype, 1, 1),
        q.tile("y", dtype, 1, 1),
    )
    q.fill(total, 0)
    with q.loop(ceil_div(parts, width)) as i:
        q.load(u, q.matrix(v, 1, parts, column_origin=q.compute("mul", i, width)))
        q.red("add", sum_, u, axis=1)
        q.bin("add", total, total, sum_)
    q.store(q.matrix(y, 1, 1), total)
    k = b.kernel("main")
    m = k.symbol("n")
    k.buffer("X", dtype, "read", dtype.bytes * m)
    k.buffer("Y", dtype, "write", dtype.bytes)
    count = ceil_div(m, width)
    k.workspace("W", dtype.bytes * count)
    k.launch(p, [count], [m, "X", "W"])
    k.launch(q, [1], [count, "W", "Y"])
    return b.module()


@case(rules=["HAL-VIL-034"], operator="plan")
@pytest.mark.parametrize("length", [*LENGTHS, "long"])
@pytest.mark.parametrize("dtype", [dtypes.f32, dtypes.i32, dtypes.f64, dtypes.i64], ids=named)
def test_a_second_launch_sees_the_workspace_of_the_first(
    lab: Lab, rng: np.random.Generator, dtype: DType, length: str
) -> None:
    width = lab.tile[1]
    count = 7001 if length == "long" else lab.length(length, width)
    x = small(rng, dtype, count, limit=100)
    got = lab.run(two_pass_sum(dtype, width), {"n": count, "X": x, "Y": blank(dtype, 1)})["Y"]
    wanted = np.array([x.astype(np.int64).sum()]).astype(dtype.numpy)
    close(got, wanted, law="dot", dtype=dtype.name, scale=0, terms=1)


@case(rules=["HAL-VIL-034"], operator="plan")
@pytest.mark.parametrize("launches", [1, 2, 3, 8, 15])
def test_a_chain_of_launches_swaps_two_workspaces(lab: Lab, launches: int) -> None:
    width = lab.tile[1]

    def step(p: ProgramBuilder, t: Any) -> None:
        three, one = p.tile("three", dtypes.i32, 1, 1), p.tile("one", dtypes.i32, 1, 1)
        p.fill(three, 3)
        p.fill(one, 1)
        p.bin("mul", t, t, three)
        p.bin("add", t, t, one)

    b = Builder()
    p = row_program(b, "step", dtypes.i32, width, step)
    k = b.kernel("main")
    n = k.symbol("n")
    k.buffer("X", dtypes.i32, "read", 4 * n)
    k.buffer("Y", dtypes.i32, "write", 4 * n)
    names = [k.workspace("even", 4 * n), k.workspace("odd", 4 * n + 1)]
    for number in range(launches):
        source = "X" if number == 0 else names[number % 2]
        target = "Y" if number == launches - 1 else names[(number + 1) % 2]
        k.launch(p, [ceil_div(n, width)], [n, source, target])
    count = 3 * width - 1  # no workspace ends at a multiple of 256 bytes
    x = np.arange(count, dtype=np.int32)
    wanted = x
    for _ in range(launches):
        wanted = wanted * np.int32(3) + np.int32(1)
    got = lab.run(b.module(), {"n": count, "X": x, "Y": blank(dtypes.i32, count)})["Y"]
    close(got, wanted, law="exact", dtype="i32")


@case(rules=["HAL-VIL-034"], operator="plan")
def test_a_workspace_holds_bytes_whatever_their_type(lab: Lab) -> None:
    width = lab.tile[1]
    b = Builder()
    p = row_program(b, "bits", dtypes.i32, width, lambda p, t: None)
    q = row_program(b, "floats", dtypes.f32, width, lambda q, t: q.un("neg", t, t))
    k = b.kernel("main")
    n = k.symbol("n")
    k.buffer("X", dtypes.i32, "read", 4 * n)
    k.buffer("Y", dtypes.f32, "write", 4 * n)
    k.workspace("nothing", n * 0)
    k.workspace("W", 4 * n)
    k.launch(p, [ceil_div(n, width)], [n, "X", "W"])
    k.launch(q, [ceil_div(n, width)], [n, "W", "Y"])
    values = np.linspace(-3, 3, 2 * width + 1).astype(np.float32)
    arguments = {"n": len(values), "X": values.view(np.int32), "Y": blank(dtypes.f32, len(values))}
    close(lab.run(b.module(), arguments)["Y"], -values.astype(np.float64), law="exact", dtype="f32")


@case(rules=["HAL-VIL-034", "HAL-VIL-039"], operator="plan")
def test_a_launch_with_an_empty_grid_does_nothing_within_a_plan(lab: Lab) -> None:
    width = lab.tile[1]
    b = Builder()
    p = row_program(b, "negate", dtypes.i32, width, lambda p, t: p.un("neg", t, t))
    q = row_program(b, "invert", dtypes.i32, width, lambda q, t: q.un("not", t, t))
    k = b.kernel("main")
    n, z = k.symbol("n"), k.symbol("z")
    k.buffer("X", dtypes.i32, "read", 4 * n)
    k.buffer("Y", dtypes.i32, "write", 4 * n)
    k.launch(p, [ceil_div(n, width)], [n, "X", "Y"])
    k.launch(q, [ceil_div(n, width), z], [n, "X", "Y"])
    x = np.arange(2 * width + 3, dtype=np.int32)
    for empty, wanted in ((0, -x), (1, ~x)):
        arguments = {"n": len(x), "z": empty, "X": x, "Y": blank(dtypes.i32, len(x))}
        close(lab.run(b.module(), arguments)["Y"], wanted, law="exact", dtype="i32")


@case(rules=["HAL-VIL-034", "HAL-VIL-007"], operator="softmax")
@pytest.mark.parametrize("dtype", [dtypes.f32, dtypes.f16, dtypes.bf16], ids=named)
def test_softmax_in_three_launches_survives_large_inputs(
    lab: Lab, rng: np.random.Generator, dtype: DType
) -> None:
    rows, width = lab.tile
    columns = 3 * width - 2
    x = (floats(rng, dtype, rows * columns).astype(np.float64) * 30 + 100).astype(dtype.numpy)
    x = x.reshape(rows, columns)
    module = recipes.softmax(dtype, tile=lab.tile)
    got = lab.run(module, {"N": columns, "X": x, "Y": blank(dtype, rows, columns)})["Y"]
    wide = x.astype(np.float64)
    ref = np.exp(wide - wide.max(axis=1, keepdims=True))
    ref /= ref.sum(axis=1, keepdims=True)
    close(got, ref, law="rows", dtype=dtype.name, scale=ref.max(axis=1, keepdims=True))


@case(rules=["HAL-VIL-034"], operator="plan")
@pytest.mark.parametrize("length", ["one", "prime"])
def test_a_plan_runs_through_the_loader_with_its_own_workspace(
    dev: Any, stream: Any, rng: np.random.Generator, length: str
) -> None:
    count = {"one": 1, "prime": 1009}[length]
    x = small(rng, dtypes.i32, count, limit=100)
    format_, image = as_loaded(bytes(two_pass_sum(dtypes.i32, 32)))
    kernel = dev.load(image, format_)["main"]
    source, target = dev.array(x), dev.array(np.zeros(1, np.int32))
    for _ in range(3):
        kernel.launch(stream, count, source, target)
        stream.synchronize()
        close(target.numpy(), np.array([x.sum()], np.int32), law="exact", dtype="i32")


# ---- inputs stay, results are new ----


def programs(lab: Lab, rng: np.random.Generator) -> dict[str, tuple[Module, Any, Any]]:
    """Return modules by name with makers of arguments and the exact result."""
    m, n, k = lab.side + 1, lab.side - 1, lab.side + 3
    f32, i32 = dtypes.f32, dtypes.i32

    def two(kind: DType) -> dict[str, Any]:
        x, y = small(rng, kind, m, n, limit=40), small(rng, kind, m, n, limit=40)
        return {"M": m, "N": n, "X0": x, "X1": y, "Y": blank(kind, m, n)}

    def one(kind: DType, *shape: int) -> dict[str, Any]:
        return {"M": m, "N": n, "X": small(rng, kind, m, n, limit=40), "Y": blank(kind, *shape)}

    def three() -> dict[str, Any]:
        a, b = small(rng, f32, m, k), small(rng, f32, k, n)
        return {"M": m, "N": n, "K": k, "A": a, "B": b, "C": blank(f32, m, n)}

    side = (lab.side, lab.side)
    return {
        "add": (
            recipes.elementwise("bin", "add", [i32, i32], i32, tile=lab.tile),
            lambda: two(i32),
            lambda g: {"Y": g["X0"] + g["X1"]},
        ),
        "sum": (
            recipes.reduction("add", f32, f32, axis=1, tile=lab.tile),
            lambda: one(f32, m, 1),
            lambda g: {"Y": g["X"].sum(axis=1, keepdims=True)},
        ),
        "transpose": (
            recipes.transpose(f32, tile=side),
            lambda: one(f32, n, m),
            lambda g: {"Y": g["X"].T},
        ),
        "matmul": (
            recipes.matmul(f32, f32, f32, tile=(*side, lab.side)),
            three,
            lambda g: {"C": g["A"] @ g["B"]},
        ),
    }


KINDS = ["add", "sum", "transpose", "matmul"]


@case(rules=["HAL-VIL-036", "HAL-VIL-035"], operator="repeat")
@pytest.mark.parametrize("kind", KINDS)
def test_new_data_in_the_same_buffers_gives_a_new_result(
    lab: Lab, rng: np.random.Generator, kind: str
) -> None:
    module, make, answer = programs(lab, rng)[kind]
    bound = lab.bind(module, make())
    for _ in range(3):
        given = make()
        for name, value in given.items():
            if isinstance(value, np.ndarray):
                bound.upload(name, value)
        bound.launch()
        got = bound.results()
        for name, wanted in answer(given).items():
            close(got[name], wanted, law="minmax" if kind != "add" else "exact")


@case(rules=["HAL-VIL-036"], operator="repeat")
@pytest.mark.parametrize("kind", KINDS)
def test_the_same_kernel_on_other_buffers_gives_their_result(
    lab: Lab, rng: np.random.Generator, kind: str
) -> None:
    module, make, answer = programs(lab, rng)[kind]
    all_given = [make() for _ in range(3)]
    bounds = [lab.bind(module, given) for given in all_given]
    stream = lab.rig.stream()
    for bound in bounds:
        bound.enqueue(stream)
    lab.rig.wait(stream)
    for bound, given in zip(bounds, all_given, strict=True):
        for name, wanted in answer(given).items():
            close(bound.results()[name], wanted, law="minmax" if kind != "add" else "exact")


@case(rules=["HAL-VIL-036"], operator="repeat")
@pytest.mark.parametrize("kind", KINDS)
def test_one_element_that_changes_changes_the_result(
    lab: Lab, rng: np.random.Generator, kind: str
) -> None:
    module, make, answer = programs(lab, rng)[kind]
    given = make()
    name = next(key for key in ("X0", "X", "A") if key in given)
    bound = lab.bind(module, given)
    bound.launch()
    given[name] = given[name].copy()
    given[name][-1, -1] += 3
    bound.upload(name, given[name])
    bound.launch()
    for result, wanted in answer(given).items():
        close(bound.results()[result], wanted, law="minmax" if kind != "add" else "exact")


@case(rules=["HAL-VIL-035"], operator="in place")
@pytest.mark.parametrize("dtype", [*FLOATS, dtypes.i8, dtypes.i32, dtypes.i64], ids=named)
def test_work_within_a_tile_does_not_reach_its_source(
    lab: Lab, rng: np.random.Generator, dtype: DType
) -> None:
    width, count = lab.tile[1], 3 * lab.tile[1] + 1
    b = Builder()
    p = row_program(b, "main", dtype, width, lambda p, t: [p.un("neg", t, t), p.un("abs", t, t)])
    size = count * dtype.bytes
    b.kernel_of(p, grid=[-(-count // width)], bytes={"X": size, "Y": size})
    x = small(rng, dtype, count, limit=50)
    got = lab.run(b.module(), {"n": count, "X": x, "Y": blank(dtype, count)})["Y"]
    close(got, np.abs(x), law="exact", dtype=dtype.name)


@case(rules=["HAL-VIL-036", "HAL-VIL-002"], operator="in place")
@pytest.mark.parametrize("dtype", [dtypes.f32, dtypes.i32, dtypes.i8, dtypes.f16], ids=named)
def test_an_inout_buffer_is_worked_on_in_place(
    lab: Lab, rng: np.random.Generator, dtype: DType
) -> None:
    rows, columns = lab.tile
    m, n = 2 * rows + 1, 2 * columns - 1
    module = recipes.doubled(dtype, tile=lab.tile)
    x = small(rng, dtype, m, n, limit=7)
    bound = lab.bind(module, {"M": m, "N": n, "Y": x})
    for power in (2, 4, 8):
        bound.launch()
        wanted = (x.astype(np.int64) * power).astype(dtype.numpy)
        close(bound.results()["Y"], wanted, law="minmax", dtype=dtype.name)


# ---- determinism, and where programs run ----


@case(rules=["HAL-VIL-037"], needs=["features.deterministic"], operator="repeat")
@pytest.mark.parametrize("kind", ["sum", "matmul", "scan", "two launches"])
def test_repeated_launches_give_the_same_bits(
    lab: Lab, rng: np.random.Generator, kind: str
) -> None:
    f32, side = dtypes.f32, lab.side
    m, n, k = 5, lab.tile[1], 509
    given: dict[str, Any]
    if kind == "sum":
        module = recipes.reduction("add", f32, f32, axis=1, tile=lab.tile)
        x = floats(rng, f32, m * k).reshape(m, k)
        given = {"M": m, "N": k, "X": x, "Y": blank(f32, m, 1)}
    elif kind == "matmul":
        module = recipes.matmul(f32, f32, f32, tile=(side, side, side))
        a, b = floats(rng, f32, m * k).reshape(m, k), floats(rng, f32, k * n).reshape(k, n)
        given = {"M": m, "N": n, "K": k, "A": a, "B": b, "C": blank(f32, m, n)}
    elif kind == "scan":
        module = recipes.scan("add", f32, f32, axis=1, tile=lab.tile)
        x = floats(rng, f32, lab.tile[0] * n).reshape(lab.tile[0], n)
        given = {"M": lab.tile[0], "N": n, "X": x, "Y": blank(f32, lab.tile[0], n)}
    else:
        module = two_pass_sum(f32, lab.tile[1])
        given = {"n": 7001, "X": floats(rng, f32, 7001), "Y": blank(f32, 1)}
    bound = lab.bind(module, given)
    bound.launch()
    (name, first), *_ = bound.results().items()
    for _ in range(7):
        bound.upload(name, given[name])
        bound.launch()
        assert is_bitwise_equal(bound.results()[name], first), "the bits changed between launches"


@case(rules=["HAL-VIL-037", "HAL-VIL-028"], operator="scatter add")
def test_a_deterministic_scatter_adds_rows_in_order(lab: Lab, rng: np.random.Generator) -> None:
    rows, columns = lab.tile
    module = recipes.scattered_in_order(dtypes.f32, tile=lab.tile)
    count = 9 * rows - 1
    x = floats(rng, dtypes.f32, count * columns).reshape(count, columns)
    places = rng.integers(-1, 4, count).astype(np.int32)
    target = floats(rng, dtypes.f32, 3 * columns).reshape(3, columns)
    got = lab.run(module, {"R": 3, "M": count, "X": x, "I": places, "Y": target})["Y"]
    wanted = target.copy()
    for place, row in zip(places, x, strict=True):
        if 0 <= place < 3:
            wanted[place] = wanted[place] + row
    close(got, wanted, law="exact", dtype="f32")


@case(rules=["HAL-VIL-038"])
@pytest.mark.parametrize("kind", KINDS)
def test_programs_run_where_the_hcd_says(
    lab: Lab, hcd: Hcd, rng: np.random.Generator, kind: str
) -> None:
    formats = hcd.below("kernels.formats")
    key = next(path for path, value in formats.items() if value == preferred_format())
    claimed = hcd.text(key.removesuffix(".format") + ".runs_on")
    raw = lab.rig.raw
    assert raw.info(PortInfo.RUNS_ON) == claimed
    module, _, _ = programs(lab, rng)[kind]
    kernel = lab.rig.kernel(lab.load(module), "main")
    if raw.has("module.kernel_info"):
        out = raw.out("int64_t")
        raw.ok("module.kernel_info", kernel, int(KernelInfo.RUNS_ON_HOST), out)
        assert int(out[0]) == int(claimed == "host")
