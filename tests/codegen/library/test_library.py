"""The library route: what it takes, what it leaves, and that its numbers are right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hal
from hal.codegen import library
from hal.codegen.errors import CodegenError
from hal.codegen.execute import loaded
from hal.dtypes import f32, f64
from hal.ir import evaluate, parse
from hal.ir.nodes import Kernel

HEAD = "kernel P { param B, M, N, K : int\n"
FORMS = {
    "plain": ("f32[M, K] a, f32[K, N] b", "f32[M, N] c", "c[i, j] += a[i, k] * b[k, j]"),
    "turned": ("f32[K, M] a, f32[N, K] b", "f32[M, N] c", "c[i, j] += a[k, i] * b[j, k]"),
    "swapped": ("f32[M, K] a, f32[K, N] b", "f32[M, N] c", "c[i, j] += b[k, j] * a[i, k]"),
    "wide": ("f64[M, K] a, f64[K, N] b", "f64[M, N] c", "c[i, j] += a[i, k] * b[k, j]"),
    "batch": ("f32[B, M, K] a, f32[B, N, K] b", "f32[B, M, N] c",
              "c[e, i, j] += a[e, i, k] * b[e, j, k]"),
}  # fmt: skip
OTHERS = {
    "a bias": ("f32[M, K] a, f32[K, N] b, f32[N] d", "f32[M, N] c",
               "c[i, j] += a[i, k] * b[k, j]\n operation: c[i, j] = c[i, j] + d[j]"),
    "a maximum": ("f32[M, K] a, f32[K, N] b", "f32[M, N] c", "c[i, j] max= a[i, k] * b[k, j]"),
    "a sum of sums": ("f32[M, K, B] a, f32[K, B, N] b", "f32[M, N] c",
                      "c[i, j] += a[i, k, e] * b[k, e, j]"),
    "two types": ("f16[M, K] a, f16[K, N] b", "f32[M, N] c", "c[i, j] += a[i, k] * b[k, j]"),
}  # fmt: skip


def kernel_of(form: tuple[str, str, str]) -> Kernel:
    text = f"{HEAD} input: {form[0]}\n output: {form[1]}\n operation: {form[2]} }}"
    return parse(text, verify=False).kernels[0]


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_product_in_any_order_of_its_axes_is_found(form: tuple[str, str, str]) -> None:
    found = library.found(kernel_of(form))
    assert found is not None
    assert (found.left[0], found.right[0], found.out[0]) == ("a", "b", "c")


@pytest.mark.parametrize("form", OTHERS.values(), ids=OTHERS)
def test_anything_else_is_left_to_the_generated_route(form: tuple[str, str, str]) -> None:
    assert library.found(kernel_of(form)) is None


@pytest.fixture(scope="module")
def device() -> Any:
    with hal.open("cpu") as opened:
        yield opened


@pytest.mark.parametrize("sizes", [(2, 5, 7, 3), (1, 1, 1, 1), (3, 64, 0, 9), (2, 33, 130, 65)])
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_the_library_gives_the_numbers_of_the_definition(
    device: Any, form: tuple[str, str, str], sizes: tuple[int, ...]
) -> None:
    kernel = kernel_of(form)
    params = dict(zip(("B", "M", "N", "K"), sizes, strict=True))
    rng = np.random.default_rng(3)
    arrays = {}
    for array in kernel.arrays_of("input"):
        shape = [params[extent.name] for extent in array.shape]  # type: ignore[attr-defined]
        arrays[array.name] = rng.integers(-4, 5, shape).astype(array.dtype.numpy)
    wanted = evaluate(kernel, arrays, params)["c"]
    out, stream = device.empty(wanted.shape, wanted.dtype), device.stream()
    dtype = kernel.arrays[0].dtype
    if dtype not in device.library.operators.get("matmul", ()):
        with pytest.raises(CodegenError, match="the library route does not do"):
            loaded(device, kernel, sizes=params, route="library")
        return
    run = loaded(device, kernel, sizes=params, route="library")
    given = [device.array(array) for array in arrays.values()]
    run.launch(stream, *given, out, *(params[name] for name in kernel.params))
    np.testing.assert_array_equal(out.numpy(stream=stream), wanted)


def test_what_is_on_offer_is_listed_with_its_types(device: Any) -> None:
    for name, types in device.library.operators.items():
        assert name == "matmul"
        assert f32 in types <= frozenset({f32, f64})


def test_a_kernel_that_no_operator_does_is_refused_by_name(device: Any) -> None:
    kernel = kernel_of(OTHERS["a maximum"])
    with pytest.raises(CodegenError, match="the library route does not do"):
        loaded(device, kernel, route="library")


def test_a_small_product_is_not_worth_a_call(device: Any) -> None:
    from hal.codegen.target import Target

    kernel, target = kernel_of(FORMS["plain"]), Target.of(device.hcd)
    theirs, ours = library.forecast(kernel, target, {"B": 1, "M": 4, "N": 4, "K": 4})
    assert theirs > ours
