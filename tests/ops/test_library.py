"""The operator library: each text against a NumPy formula, in every size and type."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from hal import dtypes, ops
from hal.errors import InvalidValue, NotFound
from hal.ir import evaluate, parse, show, verify
from tests.ops.formulas import FORMULAS

LIBRARY = Path(ops.__file__).parent / "library"
EMPTY_MEANS = {"mse_loss"}  # the mean of nothing warns in NumPy


def values_of(sample: ops.Sample) -> dict[str, Any]:
    """All arguments for a formula; floats in float64, scalars as f32 holds them."""
    wide = {
        name: array.astype(np.float64) if array.dtype.kind in "fV" else array
        for name, array in sample.arrays.items()
    }
    scalars = {
        n: float(np.float32(x)) if isinstance(x, float) else x for n, x in sample.scalars.items()
    }
    return wide | sample.params | scalars


def results_of(expected: Any, names: list[str]) -> dict[str, Any]:
    """The results of a formula by name."""
    return expected if isinstance(expected, dict) else {names[0]: expected}


@pytest.mark.parametrize("size", ops.SIZES)
@pytest.mark.parametrize("name", ops.names())
def test_an_operator_equals_its_formula(name: str, size: str) -> None:
    if size == "empty" and name in EMPTY_MEANS:
        size = "edge"
    sample = ops.sample(name, size=size, seed=3)
    got = evaluate(ops.get(name), sample.arrays, sample.params, sample.scalars, rounded=False)
    with np.errstate(all="ignore"):
        expected = results_of(FORMULAS[name](values_of(sample)), list(got))
    assert sorted(got) == sorted(expected)
    for key, result in got.items():
        assert result.shape == np.shape(expected[key])
        if result.dtype == np.float64:
            assert_allclose(result, expected[key], rtol=1e-11, atol=1e-12)
        else:
            assert_array_equal(result, expected[key])


@pytest.mark.parametrize("name", ops.names())
def test_every_type_evaluates_and_prints_to_itself(name: str) -> None:
    for dtype in ops.operator(name).dtypes:
        kernel = ops.get(name, dtype)
        assert verify(kernel) == []
        assert parse(show(kernel)).kernel() == kernel
        sample = ops.sample(name, dtype, exact=True)
        results = evaluate(kernel, sample.arrays, sample.params, sample.scalars)
        for array in kernel.arrays_of("output", "inout"):
            assert results[array.name].dtype == array.dtype.numpy


def test_every_operator_has_a_formula_a_meaning_and_a_text() -> None:
    assert sorted(FORMULAS) == ops.names()
    for name in ops.names():
        found = ops.operator(name)
        assert found.meaning.endswith(".")
        assert found.text.strip()
        assert name in ops.names(found.domain)
    texts = {path.stem for path in LIBRARY.glob("*.hal")}
    generated = {name for name in ops.names() if ops.operator(name).attributes}
    assert texts == set(ops.names()) - generated


@pytest.mark.parametrize("path", sorted(LIBRARY.glob("*.hal")), ids=lambda path: path.stem)
def test_every_text_is_in_the_canonical_form(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    program = parse(text, path.name)
    assert show(program) == text
    assert [kernel.name for kernel in program.kernels] == [path.stem]


def test_the_mandatory_operators_are_there() -> None:
    wanted = """matmul batched_matmul conv1d conv2d depthwise_conv2d softmax log_softmax layernorm
    rmsnorm batchnorm gelu silu relu reduce_sum reduce_prod reduce_max reduce_min reduce_mean
    reduce_var reduce_any reduce_all transpose permute concat slice pad gather scatter_add embedding
    topk sort cumsum argmax argmin where cast dropout causal_attention cross_entropy sgd adamw rope
    max_pool2d avg_pool2d linear leaky_relu elu sigmoid tanh"""
    assert sorted(set(wanted.split()) - set(ops.names())) == []


def test_types_reach_arguments_and_leave_sums_wide() -> None:
    kernel = ops.get("softmax", "f16")
    assert {a.name: a.dtype.name for a in kernel.arrays} == {
        "X": "f16",
        "Y": "f16",
        "top": "f32",
        "total": "f32",
    }
    assert {a.dtype.name for a in ops.get("softmax", "f64").arrays} == {"f64"}
    moments = ops.get("adamw", "bf16")
    assert [(a.name, a.dtype.name) for a in moments.arrays if a.role == "inout"] == [
        ("W", "bf16"),
        ("m", "f32"),
        ("v", "f32"),
    ]


def test_params_are_fixed_as_attributes() -> None:
    kernel = ops.get("conv2d", stride=1, pad_width=0, G=1)
    assert kernel.params == ("B", "D", "F", "H", "W", "R", "S")
    shown = show(kernel)
    assert "f32[B, D, H, W] X" in shown
    assert "X[b, f // F * D + d, y + r, x + s] pad 0" in shown
    sample = ops.sample("conv2d", stride=1, pad_width=0, G=1, size="small")
    assert "stride" not in sample.params
    whole = ops.sample("conv2d", size=sample.params | {"stride": 1, "pad_width": 0, "G": 1})
    a = evaluate(kernel, sample.arrays, sample.params)["Y"]
    b = evaluate(ops.get("conv2d"), whole.arrays, whole.params)["Y"]
    assert_array_equal(a, b)


def test_params_in_values_keep_their_type_when_fixed() -> None:
    kernel = ops.get("slice", M=2, N=3, step=1, top=0, left=0)
    assert kernel.params == ("H", "W")
    fixed = ops.get("layernorm", N=4)
    x = ops.sample("layernorm", N=4)
    full = ops.sample("layernorm", size=x.params | {"N": 4})
    assert_array_equal(
        evaluate(fixed, x.arrays, x.params, x.scalars)["Y"],
        evaluate(ops.get("layernorm"), full.arrays, full.params, full.scalars)["Y"],
    )


@pytest.mark.parametrize(
    ("name", "attributes", "formula"),
    [
        ("cast", {"to": "i8", "saturate": True}, lambda v: np.trunc(v["X"]).astype(np.int8)),
        ("permute", {"order": (1, 0)}, lambda v: v["X"].T),
        ("concat_many", {"count": 2}, lambda v: np.vstack([v["X0"], v["X1"]])),
        ("reduce_axes", {"function": "max", "axes": (1,)}, lambda v: v["X"].max(1)),
        ("reduce_axes", {"rank": 2, "axes": ()}, lambda v: v["X"]),
    ],
)
def test_generated_operators_take_attributes(
    name: str, attributes: dict[str, Any], formula: Any
) -> None:
    sample = ops.sample(name, **attributes)
    got = evaluate(ops.get(name, **attributes), sample.arrays, sample.params)["Y"]
    assert_array_equal(got, formula(sample.arrays))


def test_samples_are_the_same_for_the_same_seed_and_stay_in_range() -> None:
    first, again = (ops.sample("gather", "f16", "large", seed=5) for _ in range(2))
    for name, array in first.arrays.items():
        assert_array_equal(array, again.arrays[name])
    other = ops.sample("gather", "f16", "large", seed=6).arrays["X"]
    assert (other != first.arrays["X"]).any()
    assert 0 <= first.arrays["t"].min() <= first.arrays["t"].max() < first.params["V"]
    exact = ops.sample("matmul", "f16", exact=True).arrays["A"]
    assert_array_equal(exact, np.round(exact))


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: ops.get("softmx"), NotFound, "Did you mean softmax"),
        (lambda: ops.get("softmax", "i32"), InvalidValue, "softmax has no type i32. It has: f32"),
        (lambda: ops.get("conv2d", strid=1), InvalidValue, "Did you mean stride?"),
        (lambda: ops.get("cast", to="f8"), InvalidValue, "there is no type f8"),
        (lambda: ops.get("permute", order=(0, 0)), InvalidValue, "is no order"),
        (lambda: ops.get("reduce_axes", axes=(3,)), InvalidValue, "of 3 dimensions"),
        (lambda: ops.get("reduce_axes", function="or"), InvalidValue, "no reduction or"),
        (lambda: ops.get("concat_many", count=0), InvalidValue, "0 parts"),
        (lambda: ops.sample("relu", size="huge"), InvalidValue, "there is no size huge"),
        (lambda: ops.sample("matmul", size={"M": 1}), InvalidValue, "the size lacks N, K"),
    ],
)
def test_what_the_library_lacks_is_said(call: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words.replace("(", r"\(").replace("?", r"\?")):
        call()


def test_every_type_name_is_known() -> None:
    named = {dtype for name in ops.names() for dtype in ops.operator(name).dtypes}
    assert named <= {dtype.name for dtype in dtypes.ALL}
