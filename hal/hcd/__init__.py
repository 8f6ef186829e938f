"""Capability descriptions: read, check, resolve and compare what a chip says about itself.

`load("sim/npu-small")` or `load("my-chip.hcd.yaml")` gives an `Hcd`; a wrong file gives one
HcdError with every mistake and its place. See docs/hcd.md for the language.
"""

from hal.hcd.compare import Row, compare
from hal.hcd.model import Hcd, from_flat, load
from hal.hcd.resolve import find, shipped
from hal.hcd.units import unit_count

__all__ = ["Hcd", "Row", "compare", "find", "from_flat", "load", "shipped", "unit_count"]
