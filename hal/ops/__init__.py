"""The operator library: each operator as a text of the tensor IR, with types and samples.

    kernel = hal.ops.get("conv2d", dtype="f16", stride=2, pad_width=1, G=1)
    sample = hal.ops.sample("conv2d", "f16", "small")

The texts are `library/NAME.hal`; `library/operators.yaml` says the rest. Operators whose shape is a
choice (a permutation, a number of parts) are written by `hal.ops.generated`.
"""

from __future__ import annotations

from hal.ops.samples import SIZES, Sample, sample
from hal.ops.table import Operator, domains, get, names, operator

__all__ = ["SIZES", "Operator", "Sample", "domains", "get", "names", "operator", "sample"]
