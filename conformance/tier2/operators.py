"""The operator library, compiled for the chip: every operator in every type that it has."""

from __future__ import annotations

import numpy as np
import pytest

from hal import ops
from hal.testing import case
from hal.testing.compute import Lab
from hal.testing.kernels import close_kernel, expected
from hal.testing.tolerance import Numerics

USES = [(name, dtype) for name in ops.names() for dtype in ops.operator(name).dtypes]
SIZES = ["small", "edge", "empty"]
LARGE = ["matmul", "conv2d", "softmax", "layernorm", "reduce_sum", "causal_attention", "transpose"]
LARGE += ["cumsum", "argmax", "topk", "embedding", "scatter_add", "adamw", "dropout"]


@case(rules=["HAL-VIL-041"], operator="library")
@pytest.mark.parametrize(("name", "dtype"), USES, ids=[f"{n}-{d}" for n, d in USES])
def test_operator_gives_the_numbers_of_its_definition(
    lab: Lab, rng: np.random.Generator, numerics: Numerics, name: str, dtype: str
) -> None:
    kernel = ops.get(name, dtype)
    seed = int(rng.integers(2**31))
    is_exact = ops.operator(name).law == "exact"
    for size in SIZES:
        sample = ops.sample(name, dtype, size, seed=seed, exact=is_exact)
        given = (kernel, sample.arrays, sample.params, sample.scalars)
        results = lab.compute(*given)
        close_kernel(results, expected(*given), kernel, numerics=numerics, operator=name)


@case(rules=["HAL-VIL-041"], operator="library")
@pytest.mark.parametrize("name", LARGE)
def test_operator_is_right_when_it_takes_many_tiles(
    lab: Lab, rng: np.random.Generator, numerics: Numerics, name: str
) -> None:
    kernel = ops.get(name)
    sample = ops.sample(name, size="large", seed=int(rng.integers(2**31)))
    given = (kernel, sample.arrays, sample.params, sample.scalars)
    results = lab.compute(*given)
    close_kernel(results, expected(*given), kernel, numerics=numerics, operator=name)
