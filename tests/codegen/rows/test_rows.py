"""The row-wise strategy: rows in one tile and rows that are walked give the kernel's numbers."""

from __future__ import annotations

import pytest
from row_programs import ALL, SOFTMAX, check, kernel_of, lowering_of

from hal.codegen import rows
from hal.codegen.choice import Choice
from hal.codegen.target import Target
from hal.hcd import load
from hal.ir import Kernel
from hal.vil.module import Module

CHIPS = {name: Target.of(load(name)) for name in ("cpu", "sim/npu-small")}
SCALARS = {"LayerNorm": {"eps": 0.001}}


def lowered(text: str, target: Target, height: int, width: int) -> tuple[Kernel, Module]:
    kernel = kernel_of(text)
    match = rows.match(kernel, kernel.assigns, target)
    assert match is not None
    assert match.count == len(kernel.assigns)
    lowering = lowering_of(kernel, target)
    rows.lower(lowering, match, Choice("rows", (("rows", height), ("columns", width))))
    return kernel, lowering.module()


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("rows_columns", [(5, 7), (1, 1), (3, 16), (9, 33)])
def test_rows_that_fit_and_rows_that_do_not(name: str, rows_columns: tuple[int, int]) -> None:
    target = CHIPS["cpu"]
    kernel, module = lowered(ALL[name], target, 2, 16)
    m, n = rows_columns
    params = {p: {"M": m, "N": n, "B": 2, "C": 3}[p] for p in kernel.params}
    check(module, kernel, target, params, SCALARS.get(name, {}))


@pytest.mark.parametrize("name", sorted(set(ALL) - {"CrossEntropy"}))  # argmax of nothing: an error
@pytest.mark.parametrize("rows_columns", [(0, 7), (3, 0), (0, 0)])
def test_nothing_to_do(name: str, rows_columns: tuple[int, int]) -> None:
    target = CHIPS["cpu"]
    kernel, module = lowered(ALL[name], target, 2, 16)
    m, n = rows_columns
    params = {p: {"M": m, "N": n, "B": 2, "C": 3}[p] for p in kernel.params}
    check(module, kernel, target, params, SCALARS.get(name, {}))


@pytest.mark.parametrize(
    "name", sorted(set(ALL) - {"RmsNorm"})
)  # no f16 on that chip's vector unit
def test_candidates_fit_a_chip_with_small_tiles(name: str) -> None:
    target = CHIPS["sim/npu-small"]
    kernel = kernel_of(ALL[name])
    match = rows.match(kernel, kernel.assigns, target)
    assert match is not None
    choices = rows.candidates(match, target, {"M": 100, "N": 100})
    seconds = [rows.cost(match, choice, target, {"M": 100, "N": 100}) for choice in choices]
    assert seconds == sorted(seconds)
    assert [c.length("columns") % target.limits.granule_columns for c in choices] == [0] * len(
        choices
    )


def test_the_program_holds_its_temps_in_tiles() -> None:
    _, module = lowered(SOFTMAX, CHIPS["cpu"], 4, 64)
    (plan,) = module.kernels
    assert [launch.program for launch in plan.launches] == ["Softmax_rows", "Softmax_walk"]
    assert [param.name for param in module.programs[0].params if param.kind == "buffer"] == [
        "X",
        "Y",
    ]


def test_a_row_is_loaded_once_when_it_fits() -> None:
    _, module = lowered(SOFTMAX, CHIPS["cpu"], 4, 64)
    counts = [sum(i.op == "load" for i in program.instructions) for program in module.programs]
    assert counts == [1, 3]


@pytest.mark.parametrize(
    "text",
    [
        # a product of matrices has no rows of its own
        """kernel T { param M, N, K : int
           input: f32[M,K] A, f32[K,N] B  output: f32[M,N] C, f32[M,N] Y
           operation: C[i,j] += A[i,k] * B[k,j]
           operation: Y[i,j] = max(C[i,j], 0) }""",
        # the second statement reads other rows
        """kernel T { param M : int  input: f32[M,M] X  output: f32[M] s, f32[M,M] Y
           operation: s[i] += X[i,j]
           operation: Y[i,j] = X[i,j] * s[j] }""",
        # a statement that overwrites what an earlier walk loads
        """kernel T { param M, N : int  inout: f32[M,N] X  output: f32[M] s
           operation: s[i] += X[i,j]
           operation: X[i,j] = X[i,j] / s[i] }""",
        # sums down the columns of memory
        """kernel T { param M, N : int  input: f32[M,N] X  output: f32[N] s, f32[M,N] Y
           operation: s[j] += X[i,j]
           operation: Y[i,j] = X[i,j] * s[j] }""",
        # one statement alone
        """kernel T { param M, N : int  input: f32[M,N] X  output: f32[M] s
           operation: s[i] += X[i,j] }""",
    ],
)
def test_what_is_no_group_is_left_to_others(text: str) -> None:
    kernel = kernel_of(text)
    assert rows.match(kernel, kernel.assigns, CHIPS["cpu"]) is None
