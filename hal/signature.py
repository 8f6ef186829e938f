"""What a kernel takes, and the launch function that is made for it."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from hal.dtypes import DType

__all__ = ["SCALARS", "Parameter", "compile_launch", "pack_grid"]

SCALARS = {  # Argument kind of the ABI, and how the value is packed into 8 bytes.
    "i32": (2, "i4x"),
    "i64": (3, "q"),
    "f32": (4, "f4x"),
    "f64": (5, "d"),
}
_ARGUMENT_BYTES = 40
pack_grid = struct.Struct("<III").pack
"""The three lengths of a grid, as the ABI takes them."""


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel.

    Attributes:
        name: Its name.
        kind: `buffer`, `scalar` or `symbol` (a whole number that shapes the launch).
        dtype: Of the elements or of the scalar; i64 for a symbol.
        access: `read`, `write` or `inout` for a buffer, else empty.
    """

    name: str
    kind: str
    dtype: DType
    access: str = ""

    def __str__(self) -> str:
        words = {"buffer": f"{self.dtype} {self.access}", "scalar": f"scalar {self.dtype}"}
        return f"{self.name}: {words.get(self.kind, 'symbol')}"


@cache
def compile_launch(
    shape: tuple[tuple[bool, str], ...], takes_grid: bool
) -> tuple[Callable[..., bytes], Callable[..., Callable[..., None]]]:
    """The packer of a signature, and a maker of its launch function.

    Args:
        shape: Per parameter whether it is a buffer, and its dtype's name.
        takes_grid: Whether the kernel takes the caller's grid.

    A buffer is packed as the 40 bytes that it carries under the name of its dtype: an array of
    another dtype has nothing under that name, and a freed one has None; both end in the careful
    way. Code is generated because a loop over the signature would double the cost of a launch.
    """
    forms, words = ["<"], []
    for number, (is_buffer, dtype) in enumerate(shape):
        if is_buffer:
            forms.append(f"{_ARGUMENT_BYTES}s")
            words.append(f"a{number}._argument_{dtype}")
        else:
            kind, form = SCALARS[dtype]
            forms.append(f"II{form}24x")
            words.append(f"{kind}, 0, a{number}")
    packer = struct.Struct("".join(forms)).pack
    names = "".join(f"a{number}, " for number in range(len(shape))) or "()"
    packed = f"pack({', '.join(words)})"
    mine = ["stream.device is device"]
    mine += [f"a{n}.device is device" for n, (is_buffer, _) in enumerate(shape) if is_buffer]
    if takes_grid:
        test, enqueue = "grid is not None", "native.hal_python_launch_grid"
        tail = f"{packed}, {len(shape)}, pack_grid(*grid)"
    else:
        test, enqueue = "grid is None", "native.hal_python_launch"
        tail = f"{packed}, {len(shape)}"
    source = f"""
def make(kernel, native, carefully, refused):
    enqueue, device = {enqueue}, kernel.device
    def launch(stream, *arguments, grid=None):
        if {test}:
            try:
                {names}= arguments
                if {" and ".join(mine)}:
                    status = enqueue(kernel._plan, stream._fast, {tail})
                else:
                    status = None
            except errors:
                status = None
            if status == 0:
                return
            if status is not None:
                refused(kernel, stream, status)
        carefully(kernel, stream, arguments, grid)
    return launch
"""
    errors = (AttributeError, TypeError, ValueError, OverflowError, struct.error)
    scope: dict[str, Any] = {"pack": packer, "pack_grid": pack_grid, "errors": errors}
    exec(compile(source, "<launch of a signature>", "exec"), scope)
    return packer, scope["make"]
