"""Kernels of the tensor IR on the generated route, ready to be enqueued."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hal.device import Device
    from hal.stream import Stream

__all__ = ["program"]


def program(device: Device, text: str, sizes: Mapping[str, int]) -> Callable[..., None]:
    """Compile a kernel for a device; the result enqueues it: `run(stream, *arrays, N=…)`.

    Raises:
        IrError, CodegenError: the device cannot run it.
    """
    from hal import ir
    from hal.codegen.compiling import compile_kernel
    from hal.codegen.dialect.route import load

    kernel = ir.parse(text).kernels[0]
    compiled = compile_kernel(kernel, device.hcd, sizes=sizes)
    seconds = sum(choice.seconds for choice in compiled.choices)
    module = load(compiled.module, device, "auto", seconds=seconds)
    launched = module[kernel.name]
    order = kernel.params

    def run(stream: Stream, *arrays: Any, **params: int) -> None:
        launched.launch(stream, *arrays, *(params[name] for name in order))

    return run
