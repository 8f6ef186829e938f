"""Memory of tiles in sources: shared where no section needs both, global where near has no room."""

from __future__ import annotations

import itertools
import re

import pytest

import hal.hcd
from hal import dtypes, ops
from hal.codegen.compiling import compile_kernel
from hal.codegen.dialect.source import written
from hal.errors import HcdError
from hal.vil import Builder, Module, recipes
from hal.vil.expressions import evaluate
from hal.vil.validator import validate

CUDA_BLOCK = 232448
ATTENTION = ["attention", "causal_attention", "grouped_attention"]


def cuda(near_bytes: int) -> hal.hcd.Hcd:
    """A device whose blocks have so much shared memory."""
    room = max(65536, near_bytes)
    values = {"memory.shared.capacity_bytes": near_bytes}
    return hal.hcd.load("hal/cuda").overlay(
        values | {"kernels.vil.spaces.near.capacity_bytes": room}
    )


def near_bytes(source: str) -> int:
    """The most near memory that a kernel of a source asks for."""
    return max(map(int, re.findall(r"_bytes = (\d+) };", source)))


def chain(count: int, *, grid: tuple[int, ...] | None = (1,)) -> Module:
    """`count` transposes of a 64 x 64 tile of f32, one after the other, into tiles of their own."""
    builder = Builder()
    p = builder.program("main")
    x, y = p.buffer("X", dtypes.f32, "read"), p.buffer("Y", dtypes.f32, "write")
    tiles = [p.tile(f"t{number}", dtypes.f32, 64, 64) for number in range(count + 1)]
    p.load(tiles[0], p.matrix(x, 64, 64))
    for source, target in itertools.pairwise(tiles):
        p.trn(target, source)
    p.store(p.matrix(y, 64, 64), tiles[-1])
    builder.kernel_of(p, grid=grid, bytes={"X": 16384, "Y": 16384})
    return builder.module()


def test_tiles_that_no_section_needs_together_share_memory() -> None:
    _, source = written(chain(9), cuda(CUDA_BLOCK))
    assert near_bytes(source) == 2 * 16384


def test_tiles_of_different_types_share_nothing() -> None:
    chip = cuda(CUDA_BLOCK)
    half, single = (
        near_bytes(written(recipes.transpose(kind), chip)[1]) for kind in (dtypes.f16, dtypes.f32)
    )
    assert (half, single) == (2 * 1024, 2 * 2048)
    text = written(joined_types(), chip)[1]
    assert near_bytes(text) == 2 * 16384 + 2 * 8192


def joined_types() -> Module:
    """A tile that is transposed as f32, converted, and transposed as f16."""
    builder = Builder()
    p = builder.program("main")
    x, y = p.buffer("X", dtypes.f32, "read"), p.buffer("Y", dtypes.f16, "write")
    a, b = (p.tile(name, dtypes.f32, 64, 64) for name in "ab")
    c, d = (p.tile(name, dtypes.f16, 64, 64) for name in "cd")
    p.load(a, p.matrix(x, 64, 64))
    p.trn(b, a)
    p.cast(c, b)
    p.trn(d, c)
    p.store(p.matrix(y, 64, 64), d)
    builder.kernel_of(p, bytes={"X": 16384, "Y": 8192})
    return builder.module()


def test_what_near_memory_has_no_room_for_is_a_workspace_for_each_instance() -> None:
    chip = cuda(20000)
    plan, source = written(chain(3, grid=(5, 3)), chip)
    assert (near_bytes(source), validate(plan, chip.data)) == (16384, [])
    spaces = [evaluate(space.bytes, {}) for space in plan.kernels[0].workspaces]
    assert (spaces, plan.programs[0].params[-1].name) == ([5 * 3 * 16384], "hal_far")


def test_the_operands_of_a_product_are_near_before_its_result() -> None:
    chip = cuda(2 * 16384 + 64)
    module = recipes.matmul(dtypes.f32, dtypes.f32, dtypes.f32, tile=(64, 64, 64))
    _, source = written(module, chip)
    far = [line for line in source.splitlines() if "(hal_far_tiles" in line]
    near = [line for line in source.splitlines() if "(hal_tiles" in line]
    names = [tile.name for tile in module.programs[0].tiles]
    found = [names[int(line.split("*t")[1].split(" ")[0])] for line in [*near, *far]]
    assert (found[:2], found[2:]) == (["a", "b"], ["c"])


def test_a_grid_of_the_caller_and_no_room_is_an_error_that_says_what_fits() -> None:
    with pytest.raises(HcdError, match="need 16384 bytes more than the 19936 of near memory"):
        written(chain(3, grid=None), cuda(20000))


@pytest.mark.parametrize("name", ATTENTION)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_attention_fits_a_block(name: str, dtype: str) -> None:
    chip = cuda(CUDA_BLOCK)
    sizes = ops.sample(name, dtype, "small", seed=1).params
    module = compile_kernel(ops.get(name, dtype), chip, sizes=sizes).module
    plan, source = written(module, chip)
    assert (near_bytes(source) <= CUDA_BLOCK - 64, plan is module) == (True, True)


@pytest.mark.parametrize("room", [8192, 16384, 32768, 49152])
@pytest.mark.parametrize("name", ["matmul", "attention", "softmax", "layernorm", "sort"])
def test_compiled_kernels_fit_devices_with_little_near_memory(name: str, room: int) -> None:
    chip = cuda(room)
    plan, source = written(compile_kernel(ops.get(name), chip).module, chip)
    assert near_bytes(source) <= room - 64
    assert validate(plan, chip.data) == []
