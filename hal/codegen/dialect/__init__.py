"""VIL as source text of a chip's own language, by the HCD's section `kernels.dialect`."""

from hal.codegen.dialect.image import image
from hal.codegen.dialect.language import Dialect, Instr
from hal.codegen.dialect.route import load
from hal.codegen.dialect.source import entry_name, render

__all__ = ["Dialect", "Instr", "entry_name", "image", "load", "render"]
