"""Sources in C, compiled, against the definition of VIL."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hosted import FLAGS, Compiler
from vil_words import array, same

import hal.hcd
import hal.vil
from hal import dtypes
from hal.codegen.dialect import render
from hal.dtypes import DType
from hal.errors import HcdError
from hal.vil import Module, VilFault, VilRefused, recipes
from hal.vil.check_chip import Limits
from hal.vil.elementwise import COMPARISONS, binary_allows, unary_allows
from hal.vil.generate import Case, Choices, generate, random_array
from hal.vil.recipes import elementwise
from hal.vil.tables import OPS

FLOATS = [dtypes.f16, dtypes.bf16, dtypes.f32, dtypes.f64]
NUMBERS = [*FLOATS, dtypes.i8, dtypes.u8, dtypes.i32, dtypes.i64]
SEEDS_PER_TEST = 6


def outcome(case: Case) -> tuple[str, dict[str, Any]]:
    """Status and results by the definition."""
    try:
        return "OK", hal.vil.evaluate(case.module, case.kernel, case.arguments)
    except VilFault:
        return "EXECUTION_FAILED", {}
    except VilRefused:
        return "INVALID_VALUE", {}


def check(compiler: Compiler, hcd: hal.hcd.Hcd, case: Case) -> None:
    check_with(compiler.run, hcd, case)


def check_with(run: Callable[..., Any], hcd: hal.hcd.Hcd, case: Case) -> None:
    """Runs a case by `run(module, kernel, arguments, hcd)` and holds it against the definition."""
    want_status, want = outcome(case)
    status, got = run(case.module, case.kernel, case.arguments, hcd)
    assert status == want_status
    for name, values in want.items():
        assert same(got[name], values), (name, got[name], values)


@pytest.mark.parametrize("first", range(0, 36, SEEDS_PER_TEST))
def test_generated_programs_agree_with_the_evaluator(
    compiler: Compiler, cpu: hal.hcd.Hcd, first: int
) -> None:
    for seed in range(3000 + first, 3000 + first + SEEDS_PER_TEST):
        check(compiler, cpu, generate(Choices(seed), Limits.of(cpu), steps=16))


def joined(modules: list[Module]) -> Module:
    """One module of many, so that a test compiles once; kernel and program n are called kn, pn."""
    text = ["vil 1.0"]
    for number, module in enumerate(modules):
        lines = hal.vil.print_module(module).splitlines()[1:]
        for line in lines:
            line = line.replace("kernel main {", f"kernel k{number} {{")
            line = line.replace("launch main ", f"launch p{number} ")
            text.append(line.replace("program main ", f"program p{number} "))
    return hal.vil.parse("\n".join(text))


def inputs(dtype: DType, seed: int) -> np.ndarray[Any, Any]:
    return random_array(dtype, 300, seed).reshape(10, 30)


@pytest.mark.parametrize("dtype", [*NUMBERS, dtypes.bool_], ids=str)
def test_binary_functions_agree_bit_for_bit(
    compiler: Compiler, cpu: hal.hcd.Hcd, dtype: DType
) -> None:
    functions = [f for f in OPS["bin"].functions if binary_allows(f, dtype)]
    functions = [f for f in functions if f not in ("div", "pow", "fmod")]
    targets = [dtypes.bool_ if f in COMPARISONS else dtype for f in functions]
    modules = [
        elementwise("bin", f, [dtype, dtype], target)
        for f, target in zip(functions, targets, strict=True)
    ]
    module = joined(modules)
    x, y = inputs(dtype, 24), inputs(dtype, 25)
    for number, target in enumerate(targets):
        arguments = {"M": 10, "N": 30, "X0": x, "X1": y, "Y": np.zeros(x.shape, target.numpy)}
        check(compiler, cpu, Case(module, f"k{number}", arguments, True))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_elementary_functions_agree_within_two_units(
    compiler: Compiler, cpu: hal.hcd.Hcd, dtype: DType
) -> None:
    unary = [f for f in OPS["un"].functions if unary_allows(f, dtype)]
    modules = [
        elementwise("un", f, [dtype], dtypes.bool_ if f == "isnan" else dtype) for f in unary
    ]
    binary = ["div", "pow", "fmod"]
    modules += [elementwise("bin", f, [dtype, dtype], dtype) for f in binary]
    module = joined(modules)
    x, y = inputs(dtype, 21), inputs(dtype, 23)
    for number, function in enumerate([*unary, *binary]):
        target = dtypes.bool_ if function == "isnan" else dtype
        arguments = {"M": 10, "N": 30, "X0": x, "Y": np.zeros(x.shape, target.numpy)}
        if function in binary:
            arguments["X1"] = y
        want = hal.vil.evaluate(module, f"k{number}", arguments)["Y"]
        status, got = compiler.run(module, f"k{number}", arguments, cpu)
        assert status == "OK"
        assert close(got["Y"], want, dtype, 2 if dtype is not dtypes.f64 else 4), function


def close(got: np.ndarray[Any, Any], want: np.ndarray[Any, Any], dtype: DType, ulps: float) -> bool:
    """Within some units in the last place of the type; specials are equal."""
    with np.errstate(all="ignore"):
        a, b = got.astype(np.float64), want.astype(np.float64)
        unit = 2.0 ** (1 - dtype.precision) * np.abs(b)
        near = np.abs(a - b) <= ulps * np.maximum(unit, 2.0**dtype.smallest_exponent)
        return bool((near | (a == b) | (np.isnan(a) & np.isnan(b))).all())


@pytest.mark.parametrize("source", dtypes.ALL, ids=str)
def test_casts_agree_bit_for_bit(compiler: Compiler, cpu: hal.hcd.Hcd, source: DType) -> None:
    if source.bytes <= 2 and source.kind != "bool":
        codes = np.arange(256**source.bytes, dtype=np.uint16 if source.bytes == 2 else np.uint8)
        x = codes.view(source.numpy)[:: 1 if source.bytes == 1 else 37].reshape(1, -1)
    else:
        x = random_array(source, 4000, 26).reshape(1, -1)
    kinds = [(target, saturate) for target in dtypes.ALL for saturate in (False, True)]
    module = joined(
        [elementwise("cast", "", [source], target, saturate=flag) for target, flag in kinds]
    )
    for number, (target, _) in enumerate(kinds):
        arguments = {"M": 1, "N": x.size, "X0": x, "Y": np.zeros(x.shape, target.numpy)}
        check(compiler, cpu, Case(module, f"k{number}", arguments, True))


def small(dtype: DType, *shape: int) -> np.ndarray[Any, Any]:
    low = 0 if dtype is dtypes.u8 else -3
    return array(np.random.default_rng(27).integers(low, 4, shape), dtype)


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_sums_products_and_turned_tiles_of_small_integers_agree(
    compiler: Compiler, cpu: hal.hcd.Hcd, dtype: DType
) -> None:
    out = {"f64": dtypes.f64, "i64": dtypes.i64}.get(dtype.name)
    total = out or (dtypes.f32 if dtype.is_float else dtypes.i32)
    x, a, b = small(dtype, 20, 70), small(dtype, 19, 33), small(dtype, 33, 21)
    made: list[tuple[Module, list[Any]]] = [
        (recipes.reduction("add", dtype, total, axis=0), [20, 70, x, np.zeros(70, total.numpy)]),
        (recipes.reduction("add", dtype, total, axis=1), [20, 70, x, np.zeros(20, total.numpy)]),
        (recipes.matmul(dtype, dtype, total), [19, 21, 33, a, b, np.zeros((19, 21), total.numpy)]),
        (recipes.transpose(dtype), [20, 70, x, np.zeros((70, 20), dtype.numpy)]),
    ]
    module = joined([each for each, _ in made])
    for number, (_, values) in enumerate(made):
        names = [item.name for item in module.kernels[number].arguments]
        arguments = dict(zip(names, values, strict=True))
        check(compiler, cpu, Case(module, f"k{number}", arguments, True))


@pytest.mark.parametrize("dtype", [dtypes.f32, dtypes.f64, dtypes.bf16], ids=str)
def test_a_library_that_gives_the_divisor_back_leaves_nothing(tmp_path: Path, dtype: DType) -> None:
    file = tmp_path / "careless.hcd.yaml"
    file.write_text(
        'hcd_version: "1.0"\nextends: hal/cpu\nkernels: {dialect: {math: {fmod: careless_fmod}}}\n',
        encoding="utf-8",
    )
    careless = "-Dcareless_fmod(a,b)=(fmod(a,b)==0?(b):fmod(a,b))"
    compiler, chip = Compiler(tmp_path, *FLAGS, careless), hal.hcd.load(file)
    module = elementwise("bin", "fmod", [dtype, dtype], dtype)
    x = np.array([[6, -6, 7, 3e-39, -3e-39, 0, 5, np.inf]]).astype(dtype.numpy)
    y = np.array([[3, 3, 3, 3e-39, 3e-39, -2, np.inf, 2]]).astype(dtype.numpy)
    arguments = {"M": 1, "N": 8, "X0": x, "X1": y, "Y": np.zeros_like(x)}
    check(compiler, chip, Case(module, "main", arguments, True))


def test_an_element_beyond_its_buffer_is_a_fault(compiler: Compiler, cpu: hal.hcd.Hcd) -> None:
    text = hal.vil.print_module(elementwise("un", "neg", [dtypes.f32], dtypes.f32))
    broken = hal.vil.parse(text.replace("bytes 4 * M * N", "bytes 0"))
    x = np.zeros(11, np.float32)
    arguments = {"M": 3, "N": 4, "X0": x, "Y": np.zeros(12, np.float32)}
    assert compiler.run(broken, "main", arguments, cpu)[0] == "EXECUTION_FAILED"


def streaming(dtype: DType, columns: int) -> Module:
    """a · b + c in tiles of 8 rows whose results go past the caches."""
    text = hal.vil.print_module(recipes.multiply_add(dtype)).replace("a\n}", "a stream\n}")
    for old, new in (("[8, 64]", f"[8, {columns}]"), ("N, 64)", f"N, {columns})")):
        text = text.replace(old, new)
    text = text.replace("%0, 64", f"%0, {columns}")
    for number, at in ((1, f"@{8 * 64 * dtype.bytes}"), (2, f"@{16 * 64 * dtype.bytes}")):
        text = text.replace(at, f"@{8 * columns * dtype.bytes * number}")
    return hal.vil.parse(text)


@pytest.mark.parametrize("dtype", [dtypes.f64, dtypes.f32, dtypes.bf16, dtypes.u8])
@pytest.mark.parametrize("flags", [FLAGS, ("-O3", "-std=gnu11", "-fwrapv")])
def test_stores_past_the_caches_write_what_others_do(
    tmp_path: Path, cpu: hal.hcd.Hcd, dtype: DType, flags: tuple[str, ...]
) -> None:
    """Short rows and long ones; odd lengths make rows begin anywhere in a line."""
    compiler, columns = Compiler(tmp_path, *flags), 640
    module = streaming(dtype, columns)
    assert "hal_stream(&p_Y" in render(module, cpu)
    for rows, length in ((1, 1), (9, 63), (3, 1000), (2, 1280), (5, 2049)):
        size = rows * length
        arguments: dict[str, Any] = {"M": rows, "N": length, "Y": array(np.zeros(size), dtype)}
        arguments |= {name: small(dtype, size) for name in "ABC"}
        check(compiler, cpu, Case(module, "main", arguments, exact=True))


def test_a_chain_of_elementwise_operations_is_one_loop_without_memory(cpu: hal.hcd.Hcd) -> None:
    source = render(recipes.multiply_add(dtypes.f32), cpu)
    assert "hal_program_main_bytes = 0;" in source


def test_a_chip_without_a_dialect_says_so() -> None:
    with pytest.raises(HcdError, match=r"declares no kernels\.dialect"):
        render(recipes.multiply_add(dtypes.f32), hal.hcd.load("sim/npu-small"))


def test_no_name_in_a_long_text_is_a_type(compiler: Compiler, cpu: hal.hcd.Hcd) -> None:
    steps = "un.neg x, x\n  red.add y, x axis=cols\n  bin.add x, x, y\n  " * 24
    text = f"""vil 1.0
kernel chain {{
  arg a: f32 read bytes 64
  arg out: f32 write bytes 64
  launch chain grid(1) (a, out)
}}
program chain flat {{
  param a: f32 read
  param out: f32 write
  tile x: f32[1, 16] near @0
  tile y: f32[1, 1] near @64
  desc from_a = a {{
    column limit 16 digits (_, 1)
    dim 16 stride 1 base 0, c0 * 1
  }}
  desc to_out = out {{
    column limit 16 digits (_, 1)
    dim 16 stride 1 base 0, c0 * 1
  }}
  load x, from_a
  {steps}store to_out, x
}}
"""
    compiler.load(render(hal.vil.parse(text), cpu))
