"""Each instruction template of each shipped chip, compiled, against its meaning.

The cases are made from the descriptions: a new template, in whatever chip, is tested here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hosted import Compiler

import hal.hcd
from hal import dtypes, ir
from hal.codegen.dialect import Dialect, Instr
from hal.dtypes import DType
from hal.hcd import Hcd
from hal.testing.tolerance import close
from hal.vil import Module, recipes
from hal.vil.recipes import elementwise

CHIPS = [hal.hcd.load(name) for name in hal.hcd.shipped() if "system" not in name]
DIALECTS = [chip for chip in CHIPS if chip.kind == "chip" and "kernels.dialect" in chip]
HOSTED = [chip for chip in DIALECTS if not Dialect.of(chip).is_group]
CASES = [(chip, item) for chip in HOSTED for item in Dialect.of(chip).instructions]
LAWS = {"exp": "exp", "exp2": "exp", "log": "log", "log2": "log", "sin": "sin", "cos": "cos"}
LAWS |= {name: name for name in ("tanh", "erf", "sqrt", "rsqrt", "pow", "div")}


def types_of(item: Instr) -> tuple[DType, DType, DType]:
    """Types of a, b and the result."""
    a = dtypes.by_name(item.a or "f32")
    b = dtypes.by_name(item.b or a.name)
    return a, b, dtypes.by_name(item.acc or a.name)


def meant(item: Instr, arrays: dict[str, Any]) -> np.ndarray[Any, Any]:
    """The meaning of a template, computed by the tensor IR."""
    a, b, acc = types_of(item)
    shapes = {"a": "[M,K]", "b": "[K,N]", "acc": "[M,N]"}
    if item.op != "mma":
        shapes = dict.fromkeys(shapes, "[M,N]")
    inputs = [f"{a}{shapes['a']} a"]
    if "b" in arrays:
        inputs.append(f"{b}{shapes['b']} b")
    params = "M, N, K" if item.op == "mma" else "M, N"
    text = (
        f"kernel meaning {{\n  param {params} : int\n  input: {', '.join(inputs)}\n"
        f"  output: {acc}{shapes['acc']} acc\n  operation: {item.meaning}\n}}\n"
    )
    kernel = ir.parse(text).kernels[0]
    sizes = dict(zip("MN", arrays["acc"].shape, strict=True))
    if item.op == "mma":
        sizes["K"] = arrays["a"].shape[1]
    return ir.evaluate(kernel, arrays, sizes, {})["acc"]


def program(item: Instr) -> Module:
    """A module whose one operation the template replaces."""
    a, b, acc = types_of(item)
    if item.op == "mma":
        m, n, _ = item.shape
        return recipes.matmul(a, b, acc, tile=(2 * m + 1, 2 * n + 3, 40))
    operands = [a] if item.op == "un" else [a, b]
    return elementwise(item.op, item.function, operands, acc)


@pytest.mark.parametrize(("chip", "item"), CASES, ids=[f"{c.name}-{i.id}" for c, i in CASES])
def test_a_template_computes_its_meaning(compiler: Compiler, chip: Hcd, item: Instr) -> None:
    a, b, acc = types_of(item)
    source = np.random.default_rng(8)
    m, n, k = (37, 81, 53) if item.op == "mma" else (7, 300, 0)
    shape = {"a": (m, k), "b": (k, n)} if item.op == "mma" else {"a": (m, n), "b": (m, n)}
    arrays = {
        "a": (source.standard_normal(shape["a"]) * (1 if k else 25)).astype(a.numpy),
        "b": source.standard_normal(shape["b"]).astype(b.numpy),
        "acc": np.zeros((m, n), acc.numpy),
    }
    if item.op == "un":
        arrays.pop("b")
    module = program(item)
    named = {"M": m, "N": n}
    if item.op == "mma":
        named |= {"K": k, "A": arrays["a"], "B": arrays["b"], "C": arrays["acc"]}
    else:
        named |= {"X0": arrays["a"], "Y": arrays["acc"]}
        named |= {"X1": arrays["b"]} if item.op == "bin" else {}
    status, got = compiler.run(module, "main", named, chip)
    assert status == "OK"
    found = next(iter(got.values()))
    want = np.asarray(meant(item, arrays), np.float64)
    if item.op == "mma":
        scale = np.abs(arrays["a"].astype(np.float64)) @ np.abs(arrays["b"].astype(np.float64))
        assert close(found, want, law="dot", dtype=acc.name, terms=k, scale=scale)
    else:
        law = LAWS.get(item.function, "exact")
        assert close(found, want, law=law, dtype=acc.name)


def test_the_cpu_has_templates_to_test() -> None:
    assert {item.id for _, item in CASES} >= {"mma_f32", "exp_f32"}
