"""The kit's C code against the Python definition: the same images read, judged and computed."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import vil_interpreter
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from vil_interpreter import Interpreter
from vil_strategies import cases
from vil_words import array, same

import hal.hcd
import hal.vil
from hal import dtypes
from hal.dtypes import DType
from hal.vil import VilBinaryError, VilFault, VilRefused, recipes
from hal.vil.check_chip import Limits
from hal.vil.elementwise import COMPARISONS, binary_allows, unary_allows
from hal.vil.generate import Case, Choices, generate, random_array
from hal.vil.recipes import elementwise
from hal.vil.tables import OPS

CHIPS = [None, "hal/cpu", "sim/npu-small", "sim/npu-systolic"]
FLOATS = [dtypes.f16, dtypes.bf16, dtypes.f32, dtypes.f64]
NUMBERS = [*FLOATS, dtypes.i8, dtypes.u8, dtypes.i32, dtypes.i64]
SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


@pytest.fixture(scope="session")
def interpreter(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Interpreter:
    return vil_interpreter.build(root, tmp_path_factory.mktemp("vil"))


def outcome(case: Case) -> tuple[str, dict[str, Any]]:
    """Status and results by the definition."""
    try:
        return "OK", hal.vil.evaluate(case.module, case.kernel, case.arguments)
    except VilFault:
        return "EXECUTION_FAILED", {}
    except VilRefused:
        return "INVALID_VALUE", {}


def check(interpreter: Interpreter, case: Case) -> None:
    want_status, want = outcome(case)
    status, got = interpreter.run(case.module, case.kernel, case.arguments)
    assert status == want_status, interpreter.reason
    for name, values in want.items():
        assert same(got[name], values), (name, got[name], values)


@pytest.mark.parametrize("chip", CHIPS)
@settings(SETTINGS, max_examples=30)
@given(data=st.data())
def test_evaluator_and_interpreter_agree_on_generated_programs(
    interpreter: Interpreter, chip: str | None, data: Any
) -> None:
    hcd = hal.hcd.load(chip) if chip else None
    case = data.draw(cases(Limits.of(hcd)))
    flat = hcd.flat() if hcd else None
    assert interpreter.validate(hal.vil.encode(case.module), flat) == "OK", interpreter.reason
    check(interpreter, case)


@pytest.mark.parametrize("chip", CHIPS)
def test_evaluator_and_interpreter_agree_on_longer_programs(
    interpreter: Interpreter, chip: str | None
) -> None:
    limits = Limits.of(hal.hcd.load(chip) if chip else None)
    for seed in range(1000, 1040):
        check(interpreter, generate(Choices(seed), limits, steps=20))


@pytest.mark.parametrize("chip", [None, "sim/npu-small"])
def test_both_sides_accept_and_refuse_the_same_images(
    interpreter: Interpreter, chip: str | None
) -> None:
    hcd = hal.hcd.load(chip) if chip else None
    limits, flat = Limits.of(hcd), hcd.flat() if hcd else None
    verdicts = {"OK": 0, "INVALID_MODULE": 0}
    for seed in range(2000, 2030):
        choices = Choices(seed)
        image = hal.vil.encode(generate(choices, limits, exact=False, steps=6).module)
        for _ in range(40):
            changed = bytearray(image)
            for _ in range(choices.pick([1, 1, 1, 2])):
                place = choices.integer(0, len(image) - 1)
                bytes_ = [0, 1, 2, 3, 255, 128, changed[place] ^ 1, choices.integer(0, 255)]
                changed[place] = choices.pick(bytes_)
            verdict = interpreter.validate(bytes(changed), flat)
            assert verdict == judge(bytes(changed), hcd), (seed, interpreter.reason)
            verdicts[verdict] += 1
    assert min(verdicts.values()) > 100


def judge(image: bytes, hcd: Any) -> str:
    try:
        problems = hal.vil.validate(hal.vil.decode(image), hcd)
    except VilBinaryError:
        return "INVALID_MODULE"
    return "INVALID_MODULE" if problems else "OK"


def close(got: np.ndarray[Any, Any], want: np.ndarray[Any, Any], dtype: DType, ulps: float) -> bool:
    """Within some units in the last place of the type; specials are equal."""
    with np.errstate(all="ignore"):
        a, b = got.astype(np.float64), want.astype(np.float64)
        unit = 2.0 ** (1 - dtype.precision) * np.abs(b)
        near = np.abs(a - b) <= ulps * np.maximum(unit, 2.0**dtype.smallest_exponent)
        return bool((near | (a == b) | (np.isnan(a) & np.isnan(b))).all())


INEXACT = [(f, t) for t in FLOATS for f in OPS["un"].functions if unary_allows(f, t)]
INEXACT_BINARY = [(f, t) for t in FLOATS for f in ("div", "pow", "fmod")]


def inputs(dtype: DType, seed: int) -> np.ndarray[Any, Any]:
    return random_array(dtype, 300, seed).reshape(10, 30)


@pytest.mark.parametrize(("function", "dtype"), INEXACT, ids=[f"{f}-{t}" for f, t in INEXACT])
def test_un_agrees_within_two_units(interpreter: Interpreter, function: str, dtype: DType) -> None:
    target = dtypes.bool_ if function == "isnan" else dtype
    module = elementwise("un", function, [dtype], target)
    x = inputs(dtype, 21)
    arguments = {"M": 10, "N": 30, "X0": x, "Y": np.zeros(x.shape, target.numpy)}
    want = hal.vil.evaluate(module, "main", arguments)["Y"]
    status, got = interpreter.run(module, "main", arguments)
    assert status == "OK", interpreter.reason
    ulps = 2 if dtype is not dtypes.f64 else 4  # NumPy's own f64 functions err by an ulp or two
    assert close(got["Y"], want, dtype, ulps)


@pytest.mark.parametrize(
    ("function", "dtype"), INEXACT_BINARY, ids=[f"{f}-{t}" for f, t in INEXACT_BINARY]
)
def test_div_pow_and_fmod_agree_within_two_units(
    interpreter: Interpreter, function: str, dtype: DType
) -> None:
    module = elementwise("bin", function, [dtype, dtype], dtype)
    x, y = inputs(dtype, 22), inputs(dtype, 23)
    arguments = {"M": 10, "N": 30, "X0": x, "X1": y, "Y": np.zeros(x.shape, dtype.numpy)}
    want = hal.vil.evaluate(module, "main", arguments)["Y"]
    status, got = interpreter.run(module, "main", arguments)
    assert status == "OK", interpreter.reason
    assert close(got["Y"], want, dtype, 2)


EXACT = [
    (f, t)
    for t in [*NUMBERS, dtypes.bool_]
    for f in OPS["bin"].functions
    if binary_allows(f, t) and f not in ("div", "pow", "fmod")
]


@pytest.mark.parametrize(("function", "dtype"), EXACT, ids=[f"{f}-{t}" for f, t in EXACT])
def test_bin_agrees_exactly(interpreter: Interpreter, function: str, dtype: DType) -> None:
    target = dtypes.bool_ if function in COMPARISONS else dtype
    module = elementwise("bin", function, [dtype, dtype], target)
    x, y = inputs(dtype, 24), inputs(dtype, 25)
    arguments = {"M": 10, "N": 30, "X0": x, "X1": y, "Y": np.zeros(x.shape, target.numpy)}
    want = hal.vil.evaluate(module, "main", arguments)["Y"]
    status, got = interpreter.run(module, "main", arguments)
    assert status == "OK", interpreter.reason
    assert same(got["Y"], want)


@pytest.mark.parametrize("source", dtypes.ALL, ids=str)
@pytest.mark.parametrize("saturate", [False, True])
def test_casts_agree_exactly(interpreter: Interpreter, source: DType, saturate: bool) -> None:
    if source.bytes <= 2 and source.kind != "bool":
        codes = np.arange(256**source.bytes, dtype=np.uint16 if source.bytes == 2 else np.uint8)
        x = codes.view(source.numpy)[:: 1 if source.bytes == 1 else 37].reshape(1, -1)
    else:
        x = random_array(source, 4000, 26).reshape(1, -1)
    for target in dtypes.ALL:
        module = elementwise("cast", "", [source], target, saturate=saturate)
        y = np.zeros(x.shape, target.numpy)
        arguments = {"M": 1, "N": x.size, "X0": x, "Y": y}
        want = hal.vil.evaluate(module, "main", arguments)["Y"]
        status, got = interpreter.run(module, "main", arguments)
        assert status == "OK", interpreter.reason
        assert same(got["Y"], want), target


Make = Callable[[], tuple[hal.vil.Module, list[Any]]]


def small(dtype: DType, *shape: int) -> np.ndarray[Any, Any]:
    low = 0 if dtype is dtypes.u8 else -3
    return array(np.random.default_rng(27).integers(low, 4, shape), dtype)


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_float_sums_and_products_of_small_integers_agree(
    interpreter: Interpreter, dtype: DType
) -> None:
    out = {"f64": dtypes.f64, "i64": dtypes.i64}.get(dtype.name)
    total = out or (dtypes.f32 if dtype.is_float else dtypes.i32)
    x, a, b = small(dtype, 20, 70), small(dtype, 19, 33), small(dtype, 33, 21)
    cases_: list[tuple[hal.vil.Module, list[Any]]] = [
        (recipes.reduction("add", dtype, total, axis=0), [20, 70, x, np.zeros(70, total.numpy)]),
        (recipes.reduction("add", dtype, total, axis=1), [20, 70, x, np.zeros(20, total.numpy)]),
        (recipes.matmul(dtype, dtype, total), [19, 21, 33, a, b, np.zeros((19, 21), total.numpy)]),
        (recipes.transpose(dtype), [20, 70, x, np.zeros((70, 20), dtype.numpy)]),
    ]
    for module, values in cases_:
        names = [item.name for item in module.kernels[0].arguments]
        check(interpreter, Case(module, "main", dict(zip(names, values, strict=True)), True))


@pytest.mark.parametrize("left", [dtypes.f8e4m3, dtypes.f8e5m2], ids=str)
@pytest.mark.parametrize("right", [dtypes.f8e4m3, dtypes.f8e5m2], ids=str)
def test_products_of_8_bit_floats_agree(
    interpreter: Interpreter, left: DType, right: DType
) -> None:
    module = recipes.matmul(left, right, dtypes.f32)
    arguments: dict[str, Any] = {"M": 5, "N": 4, "K": 40}
    arguments |= {"A": small(left, 5, 40), "B": small(right, 40, 4)}
    arguments["C"] = np.zeros((5, 4), np.float32)
    check(interpreter, Case(module, "main", arguments, True))
    want = arguments["A"].astype(np.float64) @ arguments["B"].astype(np.float64)
    assert same(hal.vil.evaluate(module, "main", arguments)["C"], want)


def test_the_interpreter_refuses_bad_launches_as_the_page_says(interpreter: Interpreter) -> None:
    module = elementwise("un", "neg", [dtypes.f32], dtypes.f32)
    x = np.zeros(12, np.float32)
    good = {"M": 3, "N": 4, "X0": x, "Y": x}
    assert interpreter.run(module, "main", good)[0] == "OK"
    assert interpreter.run(module, "main", good | {"M": 4})[0] == "OUT_OF_RANGE"
    assert interpreter.run(module, "main", good | {"M": -1})[0] == "INVALID_VALUE"
    assert interpreter.run(module, "main", good | {"M": 2**62})[0] == "INVALID_VALUE"
    assert interpreter.run(module, "main", good | {"M": 0})[0] == "OK"


def test_the_interpreter_faults_where_the_evaluator_does(interpreter: Interpreter) -> None:
    module = elementwise("un", "neg", [dtypes.f32], dtypes.f32)
    text = hal.vil.print_module(module).replace("bytes 4 * M * N", "bytes 0")
    broken = hal.vil.parse(text)
    x = np.zeros(11, np.float32)
    arguments = {"M": 3, "N": 4, "X0": x, "Y": np.zeros(12, np.float32)}
    with pytest.raises(VilFault):
        hal.vil.evaluate(broken, "main", arguments)
    assert interpreter.run(broken, "main", arguments)[0] == "EXECUTION_FAILED"


def test_every_cut_of_an_image_is_refused(interpreter: Interpreter) -> None:
    image = hal.vil.encode(elementwise("un", "neg", [dtypes.f32], dtypes.f32))
    for size in range(0, len(image), 7):
        cut = bytearray(image[:size])
        if size >= 12:
            struct.pack_into("<I", cut, 8, size)
        assert interpreter.validate(bytes(cut)) == "INVALID_MODULE"


@pytest.mark.parametrize("dtype", [dtypes.f32, dtypes.f64], ids=str)
def test_a_product_is_rounded_before_it_is_added(interpreter: Interpreter, dtype: DType) -> None:
    """Without the flag `contract` nothing is fused: a fused result differs in these inputs."""
    b = hal.vil.Builder()
    p = b.program("main")
    buffers = [p.buffer(name, dtype, "read") for name in "xyz"]
    tiles = [p.tile(f"t{i}", dtype, 1, 64) for i in range(3)]
    for buffer, tile in zip(buffers, tiles, strict=True):
        p.load(tile, p.matrix(buffer, 1, 64))
    p.bin("mul", tiles[0], tiles[0], tiles[1])
    p.bin("add", tiles[0], tiles[0], tiles[2])
    p.store(p.matrix(p.buffer("out", dtype, "write"), 1, 64), tiles[0])
    b.kernel_of(p, bytes=dict.fromkeys(["x", "y", "z", "out"], 64 * dtype.bytes))
    source = np.random.default_rng(5)
    x, y = (source.standard_normal(64).astype(dtype.numpy) for _ in range(2))
    z = -(x * y)
    arguments = {"x": x, "y": y, "z": z, "out": np.ones(64, dtype.numpy)}
    case = Case(b.module(), "main", arguments, True)
    check(interpreter, case)
    assert same(hal.vil.evaluate(case.module, "main", arguments)["out"], np.zeros(64))
