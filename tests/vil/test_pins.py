"""One test per point that the specification page pins down, beyond single operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from vil_words import array, run, same

import hal.vil
from hal import dtypes
from hal.dtypes import DType, bf16, bool_, f8e4m3, f16, f32, f64, i8, i32, i64, u8
from hal.vil import Builder, VilFault, VilRefused, ceil_div, parse
from hal.vil.builder import BufferHandle, ProgramBuilder
from hal.vil.expressions import Const, Symbol, as_expr, evaluate
from hal.vil.model import Axis, Digit, Dimension, Term
from hal.vil.module import Module
from hal.vil.recipes import elementwise, matmul, reduction

ONE = as_expr(1)
ZERO = as_expr(0)


def axis(length: int | None = None, *digits: tuple[int | None, int], origin: int = 0) -> Axis:
    """An axis with one plain digit unless digits (size, divisor) are given."""
    listed = digits or ((None, 1),)
    made = [Digit(None if size is None else as_expr(size), as_expr(d)) for size, d in listed]
    limit = None if length is None else as_expr(length)
    return Axis(as_expr(origin) if origin else None, limit, tuple(made))


def dim(extent: int, stride: int, base: int = 0, **terms: int) -> Dimension:
    """A dimension; terms are named r0, c1 … with their coefficients."""
    found = [
        Term("row" if name[0] == "r" else "column", int(name[1]), as_expr(factor))
        for name, factor in terms.items()
    ]
    return Dimension(as_expr(extent), as_expr(stride), as_expr(base), tuple(found))


def load(
    values: np.ndarray[Any, Any],
    shape: tuple[int, int],
    dims: Sequence[Dimension],
    row: Axis | None = None,
    column: Axis | None = None,
    fill: float = -1,
) -> np.ndarray[Any, Any]:
    """What LOAD gives; elements beyond the valid region read as 77."""
    dtype = dtypes.from_numpy(values.dtype)
    b = Builder()
    p = b.program("main")
    x, y = p.buffer("x", dtype, "read"), p.buffer("y", dtype, "write")
    t = p.tile("t", dtype, *shape)
    p.load(t, p.descriptor(x, dims, row=row or axis(), column=column or axis(), fill=fill))
    p.store(p.matrix(y, *shape), t)
    b.kernel_of(p, bytes={"x": 0, "y": 0})
    module = b.module()
    assert hal.vil.validate(module) == []
    out = np.full(shape, 77, values.dtype)
    return hal.vil.evaluate(module, "main", [values, out])["y"]


# --- descriptors ---


def test_load_fills_outside_and_strides_may_be_negative_or_zero() -> None:
    x = np.arange(12, dtype=np.int32)
    got = load(x, (2, 3), [dim(3, 4, r0=1, base=1), dim(4, 1, c0=2)])
    assert got.tolist() == [[4, 6, -1], [8, 10, -1]]
    back = load(x, (2, 3), [dim(3, 4, base=2, r0=-1), dim(4, 1, base=3, c0=-1)])
    assert back.tolist() == [[11, 10, 9], [7, 6, 5]]
    # a constant dimension moves the origin, so that another one may have a negative stride
    minus = load(x, (1, 3), [dim(2, 11, base=1), dim(12, -1, c0=1)])
    assert minus.tolist() == [[11, 10, 9]]
    same_row = load(x, (2, 2), [dim(9, 0, r0=1), dim(4, 1, c0=1)])
    assert same_row.tolist() == [[0, 1], [0, 1]]


def test_digits_flatten_im2col_rows() -> None:
    """Rows are output pixels (oy, ox), columns are taps (ky, kx): one descriptor is im2col."""
    image = np.arange(20, dtype=np.int32)  # 4 x 5
    dims = [dim(4, 5, base=-1, r0=1, c0=1), dim(5, 1, base=-1, r1=1, c1=1)]
    row, column = axis(20, (None, 5), (5, 1)), axis(9, (None, 3), (3, 1))
    got = load(image, (20, 9), dims, row, column, fill=0)
    padded = np.pad(image.reshape(4, 5), 1)
    want = [
        [padded[oy + ky, ox + kx] for ky in range(3) for kx in range(3)]
        for oy in range(4)
        for ox in range(5)
    ]
    assert got.tolist() == want


def test_origin_and_limit_cut_the_valid_region() -> None:
    x = np.arange(12, dtype=np.int32)
    got = load(x, (3, 4), [dim(3, 4, r0=1), dim(4, 1, c0=1)], axis(3, origin=2), axis(2, origin=0))
    assert got.tolist() == [[8, 9, 77, 77], [77] * 4, [77] * 4]
    none = load(x, (2, 2), [dim(3, 4, r0=1), dim(4, 1, c0=1)], axis(1, origin=5))
    assert none.tolist() == [[77, 77], [77, 77]]


@pytest.mark.parametrize(("size", "divisor", "want"), [(0, 1, 0), (3, 0, 0), (None, 0, 0)])
def test_digits_by_zero_are_zero(size: int | None, divisor: int, want: int) -> None:
    x = np.arange(5, dtype=np.int32)
    got = load(x, (1, 4), [dim(5, 1, c0=1)], column=axis(None, (size, divisor)))
    assert got.tolist() == [[want] * 4]


def test_negative_positions_use_floor_division() -> None:
    x = np.arange(8, dtype=np.int32)
    got = load(x, (1, 4), [dim(8, 1, base=4, c0=1)], column=axis(None, (None, 2), origin=-3))
    assert got.tolist() == [[2, 3, 3, 4]]
    rest = load(x, (1, 4), [dim(8, 1, c0=1)], column=axis(None, (3, 1), origin=-3))
    assert rest.tolist() == [[0, 1, 2, 0]]


def test_coordinates_that_overflow_are_outside_not_wrapped() -> None:
    x = np.arange(4, dtype=np.int32)
    huge = 2**62
    got = load(x, (1, 4), [dim(4, 1, base=0, c0=huge)])
    assert got.tolist() == [[0, -1, -1, -1]]  # 4 · 2^62 wraps to 0 in 64 bits
    top = load(x, (1, 2), [dim(4, 1, base=2**63 - 1, c0=1)])
    assert top.tolist() == [[-1, -1]]


def test_strides_beyond_two_to_the_31_address_small_buffers() -> None:
    """Large strides are legal as long as the touched elements exist."""
    x = np.arange(4, dtype=np.int32)
    got = load(x, (2, 2), [dim(1, 2**40, r0=1), dim(4, 1, c0=1)])
    assert got.tolist() == [[0, 1], [-1, -1]]


def test_an_inside_element_beyond_the_buffer_is_a_fault() -> None:
    x = np.arange(4, dtype=np.int32)
    with pytest.raises(VilFault, match="element 4 of x, which has 4"):
        load(x, (1, 5), [dim(9, 1, c0=1)])
    with pytest.raises(VilFault, match="element -1 of x"):
        load(x, (1, 2), [dim(2, -1, c0=1)])
    with pytest.raises(VilFault, match="overflows 64 bits"):
        load(x, (1, 3), [dim(9, 2**62, c0=1)])


def test_a_fault_names_program_instruction_and_instance() -> None:
    with pytest.raises(VilFault) as caught:
        load(np.arange(4, dtype=np.int32), (1, 5), [dim(9, 1, c0=1)])
    assert str(caught.value).startswith("program main: descriptor ")
    assert "(in `load t, x_0_map`, instance (0, 0, 0))" in str(caught.value)


# --- valid regions ---


def test_tiles_start_empty_and_operations_on_nothing_do_nothing() -> None:
    def body(p: ProgramBuilder, t: Any, r: Any) -> None:
        never = p.tile("never", i32, 4, 4)
        p.bin("add", r, never, t[0])

    got = run(body, [np.ones((4, 4), np.int32)], i32, (4, 4), initial=5)
    assert got.tolist() == [[5] * 4] * 4


def test_elementwise_results_are_valid_where_all_operands_are() -> None:
    def body(p: ProgramBuilder, t: Any, r: Any) -> None:
        a, b = p.tile("a", i32, 4, 4), p.tile("b", i32, 4, 1)
        p.fill(a, 1, rows=3, columns=2)
        p.fill(b, 1, rows=2)
        p.bin("add", r, a, b)

    got = run(body, [], i32, (4, 4), initial=5)
    assert got.tolist() == [[2, 2, 5, 5], [2, 2, 5, 5], [5] * 4, [5] * 4]


def test_an_empty_broadcast_operand_empties_the_result() -> None:
    def body(p: ProgramBuilder, t: Any, r: Any) -> None:
        a, b = p.tile("a", i32, 2, 2), p.tile("b", i32, 1, 1)
        p.fill(a, 1)
        p.fill(b, 1, rows=0)
        p.bin("add", r, a, b)

    assert run(body, [], i32, (2, 2), initial=5).tolist() == [[5, 5], [5, 5]]


def test_mma_masks_to_valid_and_narrows_its_accumulator() -> None:
    def body(p: ProgramBuilder, t: Any, r: Any) -> None:
        a, b = p.tile("a", i32, 3, 4), p.tile("b", i32, 4, 3)
        p.fill(a, 1, rows=2, columns=3)
        p.fill(b, 2, rows=4, columns=2)
        p.fill(r, 10)
        p.mma(r, a, b)

    got = run(body, [], i32, (3, 3), initial=5)
    assert got.tolist() == [[16, 16, 5], [16, 16, 5], [5, 5, 5]]


@pytest.mark.parametrize(
    ("function", "dtype", "want"),
    [
        ("add", f32, 0),
        ("mul", f32, 1),
        ("max", f32, -np.inf),
        ("min", f16, np.inf),
        ("max", i8, -128),
        ("min", u8, 255),
        ("max", i64, -(2**63)),
        ("and", i32, -1),
        ("and", u8, 255),
        ("and", bool_, True),
        ("or", i32, 0),
        ("or", bool_, False),
    ],
)
def test_red_over_nothing_gives_the_identity(function: str, dtype: DType, want: Any) -> None:
    def body(p: ProgramBuilder, t: Any, r: Any) -> None:
        a = p.tile("a", dtype, 2, 3)
        p.fill(a, 0, columns=0)
        p.red(function, r, a, axis=1)

    assert run(body, [], dtype, (2, 1)).tolist() == [[want], [want]]


def test_argmax_over_nothing_is_a_fault_only_where_a_result_exists() -> None:
    def body(rows: int) -> Any:
        def inner(p: ProgramBuilder, t: Any, r: Any) -> None:
            a = p.tile("a", f32, 2, 3)
            p.fill(a, 0, rows=rows, columns=0)
            p.red("argmax", r, a, axis=1)

        return inner

    with pytest.raises(VilFault, match=r"red\.argmax over no element"):
        run(body(2), [], i32, (2, 1))
    assert run(body(0), [], i32, (2, 1), initial=5).tolist() == [[5], [5]]


# --- integers, SREG, control ---


def sreg_result(function: str, *operands: int) -> int:
    """What an SREG function gives, seen through IOTA."""

    def body(p: ProgramBuilder, t: Any, r: Any) -> None:
        values = [p.compute("mov", value) for value in operands]
        p.iota(r, base=p.compute(function, *values))

    return int(run(body, [], i64, (1, 1)).item())


LOW, HIGH = -(2**63), 2**63 - 1


@pytest.mark.parametrize(
    ("function", "operands", "want"),
    [
        ("add", (HIGH, 1), LOW),
        ("sub", (LOW, 1), HIGH),
        ("mul", (2**62, 4), 0),
        ("idiv", (-7, 2), -4),
        ("idiv", (7, 0), 0),
        ("idiv", (LOW, -1), LOW),
        ("imod", (-7, 2), 1),
        ("imod", (7, -2), -1),
        ("imod", (7, 0), 0),
        ("imod", (LOW, -1), 0),
        ("shl", (1, 65), 2),
        ("shl", (1, -1), LOW),
        ("shr", (-8, 1), -4),
        ("shru", (-1, 63), 1),
        ("lt", (-1, 0), 1),
        ("le", (0, 0), 1),
        ("eq", (3, 4), 0),
        ("ne", (3, 4), 1),
        ("max", (-3, 4), 4),
        ("min", (-3, 4), -3),
        ("and", (12, 10), 8),
        ("or", (12, 10), 14),
        ("xor", (12, 10), 6),
        ("sel", (0, 1, 2), 2),
        ("sel", (-1, 1, 2), 1),
    ],
)
def test_sreg_functions_wrap_and_floor(function: str, operands: tuple[int, ...], want: int) -> None:
    assert sreg_result(function, *operands) == want


def test_sreg_reads_scalars_tiles_and_the_grid() -> None:
    text = """vil 1.0
kernel main {
  arg s: scalar i32
  arg x: i32 read bytes 4
  arg y: i64 write bytes 24
  launch p grid(1, 2) (s, x, y)
}
program p flat {
  param s: scalar i32
  param x: i32 read
  param y: i64 write
  tile t: i32[1, 1] near @0
  tile none: i32[1, 1] near @64
  tile o: i64[1, 1] near @128
  desc dx = x {
    row digits (_, 1)
    dim 1 stride 1 base 0
  }
  desc dy = y {
    dim 3 stride 1 base 0, %1 * 1
  }
  load t, dx
  sreg.arg %3, s
  sreg.tile %4, t
  sreg.tile %5, none
  sreg.grid %6 axis=1
  sreg.mul %4, %4, 100
  sreg.add %3, %3, %4
  sreg.mul %6, %6, 10000
  sreg.add %3, %3, %6
  sreg.add %3, %3, %5
  iota o base=%3
  store dy, o
}
"""
    module = parse(text)
    assert hal.vil.validate(module) == []
    arguments = [-7, np.array([42], np.int32), np.zeros(3, np.int64)]
    got = hal.vil.evaluate(module, "main", arguments)["y"]
    assert got.tolist() == [24193, 24193, 0]


def test_loops_read_their_count_once_and_leave_the_counter_at_it() -> None:
    def body(p: ProgramBuilder, t: Any, r: Any) -> None:
        count, total = p.compute("mov", 3), p.compute("mov", 0)
        with p.loop(count) as i:
            p.compute("mov", 100, to=count)
            p.compute("add", total, i, to=total)
        p.compute("mul", total, 10, to=total)
        p.iota(r, base=p.compute("add", total, i))

    assert run(body, [], i64, (1, 1)).item() == 33


@pytest.mark.parametrize("count", [0, -5])
def test_loops_of_no_iterations_do_nothing(count: int) -> None:
    def body(p: ProgramBuilder, t: Any, r: Any) -> None:
        p.iota(r, base=7)
        with p.loop(count) as i, p.loop(3):
            p.iota(r, base=9)
        with p.if_(p.compute("eq", i, 0)):
            p.bin("add", r, r, r)

    assert run(body, [], i64, (1, 1)).item() == 14


def test_nested_loops_run_inner_bodies_anew() -> None:
    def body(p: ProgramBuilder, t: Any, r: Any) -> None:
        total = p.compute("mov", 0)
        with p.loop(3) as i, p.loop(i) as j:
            p.compute("add", total, p.compute("mul", i, j), to=total)
        p.iota(r, base=total)

    assert run(body, [], i64, (1, 1)).item() == 0 + 1 * 0 + 2 * 0 + 2 * 1


def test_stages_are_separate_and_counted_modulo() -> None:
    def body(p: ProgramBuilder, t: Any, r: Any) -> None:
        s = p.tile("s", i64, 1, 1, stages=3)
        with p.loop(4) as i:
            p.iota(s[i], base=i)
        p.bin("add", r, s[-1], s[3])

    assert run(body, [], i64, (1, 1)).item() == 2 + 3


def test_expressions_are_checked() -> None:
    n = Symbol("n")
    assert evaluate(ceil_div(n, 64), {"n": 65}) == 2
    assert evaluate(ceil_div(n, 4), {"n": -5}) == -1
    assert evaluate(n % 4, {"n": -5}) == 3
    assert evaluate(Const(LOW) % -1, {}) == 0
    for broken in (Const(HIGH) + 1, Const(LOW) // -1, ceil_div(LOW, -1), n // 0, n % 0):
        with pytest.raises(VilRefused):
            evaluate(broken, {"n": 1})


def test_every_expression_is_computed_before_anything_runs() -> None:
    b = Builder()
    p = b.program("main")
    n, y = p.symbol("n"), p.buffer("y", i32, "write")
    t = p.tile("t", i32, 1, 1)
    p.fill(t, 1)
    with p.if_(0):
        p.iota(t, base=Const(5) // n)
    p.store(p.matrix(y, 1, 1), t)
    b.kernel_of(p, bytes={"y": 4})
    y_value = np.zeros(1, np.int32)
    with pytest.raises(VilRefused, match="division by zero"):
        hal.vil.evaluate(b.module(), "main", [0, y_value])
    assert hal.vil.evaluate(b.module(), "main", [1, y_value])["y"].tolist() == [1]


# --- plans, arguments, workspaces ---


def two_step_module() -> Module:
    """y = (x + x) + 1 through a workspace."""
    b = Builder()
    double, plus = b.program("double"), b.program("plus")
    for p, read, write in ((double, "x", "w"), (plus, "w", "y")):
        n = p.symbol("n")
        a, c = p.buffer(read, i32, "read"), p.buffer(write, i32, "write")
        t, one = p.tile("t", i32, 1, 8), p.tile("one", i32, 1, 1)
        start = p.compute("mul", p.id(0), 8)
        p.load(t, p.matrix(a, 1, n, column_origin=start))
        p.fill(one, 1)
        p.bin("add", t, t, t if p is double else one)
        p.store(p.matrix(c, 1, n, column_origin=start), t)
    k = b.kernel("main")
    n = k.symbol("n")
    k.buffer("x", i32, "read", 4 * n)
    k.buffer("y", i32, "write", 4 * n)
    k.workspace("w", 4 * n)
    k.launch(double, [ceil_div(n, 8)], [n, "x", "w"])
    k.launch(plus, [ceil_div(n, 8)], [n, "w", "y"])
    return b.module()


@pytest.mark.parametrize("n", [0, 1, 8, 9, 30])
def test_a_plan_runs_its_launches_in_order_through_a_workspace(n: int) -> None:
    module = two_step_module()
    assert hal.vil.validate(module) == []
    x = np.arange(n, dtype=np.int32)
    got = hal.vil.evaluate(module, "main", {"n": n, "x": x, "y": np.zeros(n, np.int32)})
    assert got["y"].tolist() == (2 * x + 1).tolist()
    assert x.tolist() == list(range(n))


def test_a_grid_axis_of_zero_runs_nothing() -> None:
    module = elementwise("un", "neg", [i32], i32)
    y = np.full(6, 3, np.int32)
    assert hal.vil.evaluate(module, "main", [0, 6, y, y + 0])["Y"].tolist() == y.tolist()


def test_the_callers_grid_counts_x_y_and_z() -> None:
    b = Builder()
    p = b.program("main")
    y = p.buffer("y", i32, "inout")
    t = p.tile("t", i32, 1, 1)
    place = Dimension(
        as_expr(24),
        ONE,
        ZERO,
        tuple(Term("sreg", k, as_expr(step)) for k, step in enumerate((1, 2, 6))),
    )
    p.iota(t, base=p.compute("add", p.compute("mul", p.id(2), 100), p.id(1)))
    p.store(p.descriptor(y, [place]), t)
    b.kernel_of(p, grid=None, bytes={"y": 96})
    module = b.module()
    assert hal.vil.validate(module) == []
    got = hal.vil.evaluate(module, "main", [np.full(24, -1, np.int32)], grid=(2, 3, 4))["y"]
    want = [100 * z + y for z in range(4) for y in range(3) for _ in range(2)]
    assert got.tolist() == want


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"n": None}, "takes"),
        ({"extra": 1}, "takes"),
        ({"x": np.zeros(3, np.float32)}, "argument x is float32; it must be i32"),
        ({"x": np.zeros(2, np.int32)}, "argument x has 8 bytes; 12 needed"),
        ({"n": -1}, "it may not be negative"),
    ],
)
def test_wrong_arguments_are_refused(change: dict[str, Any], words: str) -> None:
    arguments: dict[str, Any] = {"n": 3, "x": np.zeros(3, np.int32), "y": np.zeros(3, np.int32)}
    arguments = {k: v for k, v in (arguments | change).items() if v is not None}
    with pytest.raises(VilRefused, match=words):
        hal.vil.evaluate(two_step_module(), "main", arguments)


def test_arguments_are_disjoint_unless_an_exact_alias_is_marked() -> None:
    text = hal.vil.print_module(elementwise("un", "neg", [i32], i32))
    x = np.arange(12, dtype=np.int32)
    aliased = parse(
        text.replace(
            "arg Y: i32 write bytes 4 * M * N", "arg Y: i32 write bytes 4 * M * N alias X0"
        )
    )
    assert hal.vil.evaluate(aliased, "main", [3, 4, x, x])["Y"].tolist() == (-x).tolist()
    assert x.tolist() == list(range(12))
    with pytest.raises(VilRefused, match="overlap"):
        hal.vil.evaluate(parse(text), "main", [3, 4, x, x])
    with pytest.raises(VilRefused, match="overlap"):
        hal.vil.evaluate(aliased, "main", [1, 4, x[:4], x[2:6]])


def test_fill_takes_scalar_arguments_by_the_rules_of_cast() -> None:
    cases = [(f32, 2.75, i32, 2), (f64, 1e300, f32, np.inf), (i32, 300, u8, 44), (i64, -1, f16, -1)]
    for source, value, target, want in cases:

        def body(p: ProgramBuilder, t: Any, r: Any) -> None:
            from hal.vil.builder import ScalarHandle

            p.fill(r, ScalarHandle(0, "s", p.params[0].dtype or f32))

        got = run(body, [], target, (1, 1), scalars={"s": (source, value)})
        assert same(got, array([[want]], target)), (source, target)


# --- gather, scatter ---


def gathered(index: list[int], dtype: DType = i32) -> list[list[int]]:
    x = np.arange(12, dtype=np.int32).reshape(3, 4)

    def body(p: ProgramBuilder, t: Any, r: Any) -> None:
        x_buffer = BufferHandle("in1", i32)
        map_ = p.descriptor(x_buffer, [dim(3, 4), dim(4, 1, c0=1)], column=axis(), fill=-1)
        p.gather(r, map_, t[0], dim=0)

    rows = len(index)
    got = run(body, [np.array(index).reshape(-1, 1).astype(dtype.numpy), x], i32, (rows, 4))
    return [row[:2] for row in got.tolist()]


@pytest.mark.parametrize("dtype", [i32, i64], ids=str)
def test_gather_takes_rows_by_index_and_fills_outside(dtype: DType) -> None:
    assert gathered([2, 0, 3, -1, 1], dtype) == [[8, 9], [0, 1], [-1, -1], [-1, -1], [4, 5]]


def test_gather_index_never_wraps() -> None:
    assert gathered([2**63 - 1, -(2**63)], i64) == [[-1, -1], [-1, -1]]


def scattered(
    function: str, index: list[int], values: Any, dtype: DType, start: float = 0, **options: Any
) -> np.ndarray[Any, Any]:
    b = Builder()
    p = b.program("main", deterministic=bool(options.pop("deterministic", False)))
    rows = len(index)
    x, i = p.buffer("x", dtype, "read"), p.buffer("i", i32, "read")
    y = p.buffer("y", dtype, "inout")
    t, j = p.tile("t", dtype, rows, 2), p.tile("j", i32, rows, 1)
    p.load(t, p.matrix(x, rows, 2))
    p.load(j, p.matrix(i, rows, 1))
    map_ = p.descriptor(y, [dim(4, 2), dim(2, 1, c0=1)], column=axis())
    p.scatter(function, map_, t, j, dim=0)
    b.kernel_of(p, bytes={"x": 0, "i": 0, "y": 0}, **options)
    module = b.module()
    assert hal.vil.validate(module) == [] or module.programs[0].deterministic
    data = array(values, dtype).reshape(rows, 2)
    out = array(np.full((4, 2), start), dtype)
    return hal.vil.evaluate(module, "main", [data, np.array(index, np.int32), out])["y"]


def test_scatter_set_drops_outside_and_keeps_whole_rows() -> None:
    got = scattered("set", [3, -1, 4, 0], np.arange(8), i32)
    assert got.tolist() == [[6, 7], [0, 0], [0, 0], [0, 1]]
    twice = scattered("set", [1, 1], [1, 2, 3, 4], i32)[1].tolist()
    assert twice in ([1, 2], [3, 4])


@pytest.mark.parametrize("dtype", [f32, f64, i32, i64], ids=str)
def test_scatter_combines_duplicates(dtype: DType) -> None:
    values = [1, 2, 3, 4, 5, 6]
    assert scattered("add", [1, 1, 9], values, dtype, 10)[1].tolist() == [14, 16]
    assert scattered("max", [2, 2, 2], values, dtype, 4)[2].tolist() == [5, 6]
    assert scattered("min", [2, 2, 2], values, dtype, 4)[2].tolist() == [1, 2]


def test_scatter_max_propagates_nan_and_add_wraps() -> None:
    got = scattered("max", [0, 0], [np.nan, 1, 2, 2], f32)[0]
    assert np.isnan(got).tolist() == [True, False]
    top = np.array([2**31 - 1, 1, 1, 1], np.int64)
    assert scattered("add", [0, 0], top, i32)[0].tolist() == [-(2**31), 2]


def test_scatter_of_all_instances_adds_up() -> None:
    assert scattered("add", [2], [1, 1], i32, grid=[5])[2].tolist() == [5, 5]


# --- top-k, random numbers ---


def topk(values: list[list[float]], size: int, *, smallest: bool = False, base: int = 0) -> Any:
    b = Builder()
    p = b.program("main")
    tile = array(values, f32)
    x = p.buffer("x", f32, "read")
    v, i = p.buffer("v", f32, "write"), p.buffer("i", i32, "write")
    t = p.tile("t", f32, *tile.shape)
    best, where = (
        p.tile("best", f32, tile.shape[0], size),
        p.tile("where", i32, tile.shape[0], size),
    )
    p.load(t, p.matrix(x, *tile.shape))
    p.topk(best, where, t, base=base, init=True, smallest=smallest)
    shape = (tile.shape[0], size)
    p.store(p.matrix(v, *shape), best)
    p.store(p.matrix(i, *shape), where)
    b.kernel_of(p, bytes={"x": 0, "v": 0, "i": 0})
    out = [tile, np.full(shape, 77, np.float32), np.full(shape, 77, np.int32)]
    got = hal.vil.evaluate(b.module(), "main", out)
    return got["v"].tolist(), got["i"].tolist()


def test_topk_orders_by_value_then_index_and_ranks_nan_highest() -> None:
    row = [1.0, np.nan, 5.0, -0.0, 5.0, np.inf, 0.0]
    values, index = topk([row], 7)
    assert index == [[1, 5, 2, 4, 0, 3, 6]]
    assert np.isnan(values[0][0])
    assert topk([row], 7, smallest=True)[1] == [[3, 6, 0, 2, 4, 5, 1]]
    assert topk([row], 2, base=10)[1] == [[11, 15]]


def test_topk_lists_may_be_shorter_than_their_tile() -> None:
    assert topk([[1.0, 2.0]], 4) == ([[2.0, 1.0, 77.0, 77.0]], [[1, 0, 77, 77]])


def test_topk_merges_tiles_into_the_running_list() -> None:
    source = np.random.default_rng(3)
    data = source.integers(0, 9, (2, 12)).astype(np.float32)

    def body(p: ProgramBuilder, t: Any, r: Any) -> None:
        best = p.tile("best", f32, 2, 5)
        for turn in range(3):
            part = p.tile(f"part{turn}", f32, 2, 4)
            buffer = BufferHandle("in0", f32)
            p.load(part, p.matrix(buffer, 2, 12, column_origin=4 * turn))
            p.topk(best, r, part, base=4 * turn, init=turn == 0)

    got = run(body, [data], i32, (2, 5))
    want = [sorted(range(12), key=lambda j, row=row: (-row[j], j))[:5] for row in data]
    assert got.tolist() == want


def philox_reference(key: tuple[int, int], counter: tuple[int, int, int, int]) -> list[int]:
    """Philox4x32-10 in plain Python."""
    words, (k0, k1) = list(counter), key
    for number in range(10):
        if number:
            k0, k1 = (k0 + 0x9E3779B9) % 2**32, (k1 + 0xBB67AE85) % 2**32
        first, second = words[0] * 0xD2511F53, words[2] * 0xCD9E8D57
        words = [
            (second >> 32) ^ words[1] ^ k0,
            second % 2**32,
            (first >> 32) ^ words[3] ^ k1,
            first % 2**32,
        ]
    return words


def test_the_philox_reference_meets_published_vectors() -> None:
    """The known-answer test of the paper's reference code (kat_vectors, philox4x32 10)."""
    assert philox_reference((0, 0), (0, 0, 0, 0)) == [
        0x6627E8D5,
        0xE169C58D,
        0xBC57AC4C,
        0x9B00DBD8,
    ]
    ones = 0xFFFFFFFF
    assert philox_reference((ones, ones), (ones,) * 4) == [
        0x408F276D,
        0x41C83B0E,
        0xA20BC7C6,
        0x6D5451FD,
    ]


def rng(function: str, dtype: DType, shape: tuple[int, int], **values: int) -> Any:
    return run(lambda p, t, r: p.rng(function, r, **values), [], dtype, shape)


def test_rng_is_philox_of_the_logical_index() -> None:
    seed, offset = 0x0123456789ABCDEF, 0xFEDCBA9876543210 - 2**64
    got = rng("raw", i32, (2, 7), base=5, pitch=100, seed=seed, offset=offset).view(np.uint32)
    key = (seed % 2**32, seed >> 32)
    high = (offset % 2**32, (offset % 2**64) >> 32)
    want = [
        [philox_reference(key, (e // 4 % 2**32, e // 4 >> 32, *high))[e % 4] for e in row]
        for row in [range(5, 12), range(105, 112)]
    ]
    assert got.tolist() == want
    uniform = rng("uniform", f32, (2, 7), base=5, pitch=100, seed=seed, offset=offset)
    assert uniform.tolist() == [[(word >> 8) * 2.0**-24 for word in row] for row in want]
    assert uniform.max() < 1


def test_rng_does_not_depend_on_tiling() -> None:
    whole = rng("raw", i32, (4, 8), pitch=8, seed=9)
    part = rng("raw", i32, (2, 3), base=2 * 8 + 5, pitch=8, seed=9)
    assert part.tolist() == whole[2:, 5:].tolist()


def test_rng_index_wraps_at_64_bits() -> None:
    got = rng("raw", i32, (1, 4), base=-2, seed=1)
    assert got[0, 2:].tolist() == rng("raw", i32, (1, 2), base=0, seed=1)[0].tolist()


# --- near descriptors, layouts, order ---


def test_near_loads_read_windows_of_a_tile() -> None:
    """One halo load, nine shifted near reads: a 3 x 3 box sum."""
    image = np.random.default_rng(1).integers(0, 9, (6, 7)).astype(np.int32)

    def body(p: ProgramBuilder, t: Any, r: Any) -> None:
        shifted = p.tile("shifted", i32, 4, 5)
        p.fill(r, 0)
        for y in range(3):
            for x in range(3):
                window = p.matrix(i32, 6, 7, row_origin=y, column_origin=x)
                p.load(shifted, window, near=t[0])
                p.bin("add", r, r, shifted)

    got = run(body, [image], i32, (4, 5))
    want = sum(image[y : y + 4, x : x + 5] for y in range(3) for x in range(3))
    assert got.tolist() == want.tolist()


def test_near_reads_outside_the_valid_region_fill_and_writes_drop() -> None:
    def body(p: ProgramBuilder, t: Any, r: Any) -> None:
        small, two = p.tile("small", i32, 3, 3), p.tile("two", i32, 3, 3)
        p.fill(small, 1, rows=2, columns=2)
        p.fill(two, 2)
        p.store(p.matrix(i32, 3, 3, row_origin=1, column_origin=1), two, near=small)
        p.load(r, p.matrix(i32, 9, 9, row_stride=3, fill=-1, limited=False), near=small)

    got = run(body, [], i32, (3, 3))
    assert got.tolist() == [[1, 1, -1], [1, 2, -1], [-1, -1, -1]]


@pytest.mark.parametrize("layout", ["row", "col"])
def test_layout_never_changes_values(layout: str) -> None:
    a = np.arange(12, dtype=np.int32).reshape(3, 4)

    def body(p: ProgramBuilder, t: Any, r: Any) -> None:
        other = p.tile("other", i32, 3, 4, layout=layout)
        p.copy(other, t[0])
        p.load(r, p.matrix(i32, 12, 1, row_stride=1, column_stride=1), near=other)

    assert run(body, [a], i32, (12, 1)).ravel().tolist() == list(range(12))


@pytest.mark.parametrize("seed", range(3))
def test_results_do_not_depend_on_the_order_of_instances(seed: int) -> None:
    a = np.random.default_rng(4).standard_normal((33, 20)).astype(np.float32)
    b = np.random.default_rng(5).standard_normal((20, 40)).astype(np.float32)
    arguments = [33, 40, 20, a, b, np.zeros((33, 40), np.float32)]
    module = matmul(f32, f32, f32)
    want = hal.vil.evaluate(module, "main", arguments)["C"]
    got = hal.vil.evaluate(module, "main", arguments, shuffle_seed=seed)["C"]
    assert got.tobytes() == want.tobytes()


# --- the reference of the tolerance law ---


def test_reference_mode_rounds_nothing() -> None:
    a = array(np.random.default_rng(6).standard_normal((5, 70)), bf16)
    b = array(np.random.default_rng(7).standard_normal((70, 6)), bf16)
    module = matmul(bf16, bf16, f32, target=bf16)
    arguments = [5, 6, 70, a, b, array(np.zeros((5, 6)), bf16)]
    got = hal.vil.evaluate(module, "main", arguments, reference=True)["C"]
    want = a.astype(np.float64) @ b.astype(np.float64)
    assert got.dtype == np.float64
    assert np.abs(got - want).max() < 1e-13


def test_sums_obey_the_tolerance_law_against_the_reference() -> None:
    x = np.random.default_rng(8).standard_normal((3, 200)).astype(np.float32)
    module = reduction("add", f32, f32, axis=1)
    arguments = [3, 200, x, np.zeros(3, np.float32)]
    got = hal.vil.evaluate(module, "main", arguments)["Y"].astype(np.float64)
    ref = hal.vil.evaluate(module, "main", arguments, reference=True)["Y"]
    scale = hal.vil.evaluate(module, "main", [3, 200, abs(x), arguments[3]], reference=True)["Y"]
    bound = (4 + 2 * 200**0.5) * 2.0**-24 * scale + 0.5 * np.spacing(np.abs(ref).astype(np.float32))
    assert (np.abs(got - ref) <= bound).all()
    assert (np.abs(got - ref) > 0).any()


def test_8_bit_floats_load_store_and_cast() -> None:
    a = np.arange(256, dtype=np.uint8).view(f8e4m3.numpy).reshape(4, 64)

    def body(p: ProgramBuilder, t: Any, r: Any) -> None:
        p.load(r, p.matrix(BufferHandle("in0", f8e4m3), 4, 64))

    assert run(body, [a], f8e4m3, (4, 64)).tobytes() == a.tobytes()
