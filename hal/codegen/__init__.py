"""Code generation: kernels of the tensor IR become VIL modules for a chip.

compiled = hal.codegen.compile(kernel, hcd, sizes={"M": 1000})
module = device.load(compiled.module)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

_HOME = {
    "CodegenError": ("errors", "CodegenError"),
    "Compiled": ("compiling", "Compiled"),
    "Executable": ("execute", "Executable"),
    "Lowering": ("lowering", "Lowering"),
    "Scope": ("scope", "Scope"),
    "Target": ("target", "Target"),
    "compile": ("compiling", "compile_kernel"),
    "loaded": ("execute", "loaded"),
}
__all__ = ["CodegenError", "Compiled", "Executable", "Lowering", "Scope", "Target"]
__all__ += ["compile", "loaded"]


def __getattr__(name: str) -> Any:
    """Loads the module behind a public name when it is first used."""
    if name not in _HOME:
        raise AttributeError(f"hal.codegen has no {name}")
    from importlib import import_module

    module, attribute = _HOME[name]
    value = getattr(import_module(f"hal.codegen.{module}"), attribute)
    globals()[name] = value
    return value


if TYPE_CHECKING:
    from hal.codegen.compiling import Compiled
    from hal.codegen.compiling import compile_kernel as compile  # noqa: A004
    from hal.codegen.errors import CodegenError
    from hal.codegen.execute import Executable, loaded
    from hal.codegen.lowering import Lowering
    from hal.codegen.scope import Scope
    from hal.codegen.target import Target
