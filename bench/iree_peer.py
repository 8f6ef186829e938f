"""IREE as a peer: a kernel as MLIR, compiled for this processor, called with resident arrays."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

SOFTMAX = """
func.func @run(%x: tensor<{n}x{n}xf32>) -> tensor<{n}x{n}xf32> {{
  %e = tensor.empty() : tensor<{n}x{n}xf32>
  %y = linalg.softmax dimension(1) ins(%x : tensor<{n}x{n}xf32>)
       outs(%e : tensor<{n}x{n}xf32>) -> tensor<{n}x{n}xf32>
  return %y : tensor<{n}x{n}xf32>
}}"""

CHAIN = """
func.func @run(%x: tensor<{n}x{n}xf32>) -> tensor<{n}x{n}xf32> {{
  %one = arith.constant 1.0 : f32
  %two = arith.constant 2.0 : f32
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<{n}x{n}xf32>
  %y = linalg.generic {{indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]}}
       ins(%x : tensor<{n}x{n}xf32>) outs(%e : tensor<{n}x{n}xf32>) {{
  ^bb0(%a: f32, %o: f32):
    %b = arith.mulf %a, %two : f32
    %c = arith.addf %b, %one : f32
    %d = arith.maximumf %c, %zero : f32
    linalg.yield %d : f32
  }} -> tensor<{n}x{n}xf32>
  return %y : tensor<{n}x{n}xf32>
}}"""

LAYERNORM = """
func.func @run(%x: tensor<{n}x{n}xf32>) -> tensor<{n}x{n}xf32> {{
  %zero = arith.constant 0.0 : f32
  %count = arith.constant {n}.0 : f32
  %epsilon = arith.constant 1.0e-5 : f32
  %er = tensor.empty() : tensor<{n}xf32>
  %z = linalg.fill ins(%zero : f32) outs(%er : tensor<{n}xf32>) -> tensor<{n}xf32>
  %sum = linalg.generic
       {{indexing_maps = [#same, #row], iterator_types = ["parallel", "reduction"]}}
       ins(%x : tensor<{n}x{n}xf32>) outs(%z : tensor<{n}xf32>) {{
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %o : f32
    linalg.yield %s : f32
  }} -> tensor<{n}xf32>
  %squares = linalg.generic
       {{indexing_maps = [#same, #row, #row], iterator_types = ["parallel", "reduction"]}}
       ins(%x, %sum : tensor<{n}x{n}xf32>, tensor<{n}xf32>) outs(%z : tensor<{n}xf32>) {{
  ^bb0(%a: f32, %t: f32, %o: f32):
    %m = arith.divf %t, %count : f32
    %d = arith.subf %a, %m : f32
    %q = arith.mulf %d, %d : f32
    %s = arith.addf %q, %o : f32
    linalg.yield %s : f32
  }} -> tensor<{n}xf32>
  %e = tensor.empty() : tensor<{n}x{n}xf32>
  %y = linalg.generic
       {{indexing_maps = [#same, #row, #row, #same], iterator_types = ["parallel", "parallel"]}}
       ins(%x, %sum, %squares : tensor<{n}x{n}xf32>, tensor<{n}xf32>, tensor<{n}xf32>)
       outs(%e : tensor<{n}x{n}xf32>) {{
  ^bb0(%a: f32, %t: f32, %q: f32, %o: f32):
    %m = arith.divf %t, %count : f32
    %d = arith.subf %a, %m : f32
    %v = arith.divf %q, %count : f32
    %w = arith.addf %v, %epsilon : f32
    %r = math.rsqrt %w : f32
    %s = arith.mulf %d, %r : f32
    linalg.yield %s : f32
  }} -> tensor<{n}x{n}xf32>
  return %y : tensor<{n}x{n}xf32>
}}"""

ATTENTION = """
#q = affine_map<(b, m, n, k, l) -> (b, m, k)>
#k = affine_map<(b, m, n, k, l) -> (b, l, k)>
#v = affine_map<(b, m, n, k, l) -> (b, l, n)>
#s = affine_map<(b, m, n, k, l) -> ()>
#o = affine_map<(b, m, n, k, l) -> (b, m, n)>
func.func @run(%q: tensor<1x{h}x{l}x{w}xf32>, %k: tensor<1x{h}x{l}x{w}xf32>,
               %v: tensor<1x{h}x{l}x{w}xf32>) -> tensor<1x{h}x{l}x{w}xf32> {{
  %scale = arith.constant {scale} : f32
  %a = tensor.collapse_shape %q [[0, 1], [2], [3]]
       : tensor<1x{h}x{l}x{w}xf32> into tensor<{h}x{l}x{w}xf32>
  %b = tensor.collapse_shape %k [[0, 1], [2], [3]]
       : tensor<1x{h}x{l}x{w}xf32> into tensor<{h}x{l}x{w}xf32>
  %c = tensor.collapse_shape %v [[0, 1], [2], [3]]
       : tensor<1x{h}x{l}x{w}xf32> into tensor<{h}x{l}x{w}xf32>
  %e = tensor.empty() : tensor<{h}x{l}x{w}xf32>
  %y = iree_linalg_ext.attention <{{indexing_maps = [#q, #k, #v, #s, #o]}}>
       ins(%a, %b, %c, %scale : tensor<{h}x{l}x{w}xf32>, tensor<{h}x{l}x{w}xf32>,
           tensor<{h}x{l}x{w}xf32>, f32) outs(%e : tensor<{h}x{l}x{w}xf32>) {{
  ^bb0(%score: f32):
    iree_linalg_ext.yield %score : f32
  }} -> tensor<{h}x{l}x{w}xf32>
  %o = tensor.expand_shape %y [[0, 1], [2], [3]] output_shape [1, {h}, {l}, {w}]
       : tensor<{h}x{l}x{w}xf32> into tensor<1x{h}x{l}x{w}xf32>
  return %o : tensor<1x{h}x{l}x{w}xf32>
}}"""

MAPS = """
#same = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
"""
TEXTS = {
    "relu(2x+1)": CHAIN,
    "softmax": SOFTMAX,
    "layernorm": LAYERNORM,
}


def text(name: str, shape: tuple[int, ...]) -> str:
    """A kernel of the subject as MLIR for arrays of this shape."""
    if name == "attention":
        _, heads, length, width = shape
        return ATTENTION.format(h=heads, l=length, w=width, scale=repr(width**-0.5))
    return MAPS + TEXTS[name].format(n=shape[0])


@cache
def config(threads: int) -> Any:
    """IREE's configuration with so many worker threads.

    The count is a flag of the process that a driver reads when it is made; `get_driver` would hand
    out the first one again, with its threads.
    """
    runtime: Any = importlib.import_module("iree.runtime")
    binding: Any = importlib.import_module("iree.runtime._binding")
    runtime.flags.parse_flags(f"--task_topology_group_count={threads}")
    driver = binding.create_hal_driver("local-task")
    return runtime.Config(device=driver.create_device_by_uri("local-task"))


def iree_call(
    name: str, threads: int, arrays: tuple[np.ndarray[Any, Any], ...]
) -> Callable[[], Any]:
    """A call that runs the kernel with so many threads on IREE's CPU device and waits for it.

    The arguments lie on the device and the result, which the call returns, stays there.
    """
    compiler: Any = importlib.import_module("iree.compiler")
    runtime: Any = importlib.import_module("iree.runtime")
    image = compiler.compile_str(
        text(name, arrays[0].shape),
        target_backends=["llvm-cpu"],
        extra_args=["--iree-llvmcpu-target-cpu=host", "--iree-opt-level=O3"],
    )
    place = config(threads)
    module = runtime.VmModule.copy_buffer(place.vm_instance, image)
    context = runtime.SystemContext(vm_modules=[module], config=place)
    function = context.modules[module.name]["run"]
    given = [runtime.asdevicearray(place.device, array) for array in arrays]
    return lambda: function(*given)
