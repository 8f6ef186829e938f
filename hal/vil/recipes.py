"""Whole modules for the programs that tests and the conformance suite need most.

Each has one kernel `main`. Matrices are row-major; M, N, K are symbols; the program masks edges,
so every size from 0 works with every tile.
"""

from __future__ import annotations

from hal.vil.recipes_folding import reduction, reduction_of_tile, scan, top_entries
from hal.vil.recipes_moving import copied, gathered, scattered, scattered_in_order, transpose
from hal.vil.recipes_plans import softmax
from hal.vil.recipes_pointwise import doubled, elementwise, multiply_add
from hal.vil.recipes_products import convolution, matmul, matmul_into, matmul_of_parts

__all__ = [
    "convolution",
    "copied",
    "doubled",
    "elementwise",
    "gathered",
    "matmul",
    "matmul_into",
    "matmul_of_parts",
    "multiply_add",
    "reduction",
    "reduction_of_tile",
    "scan",
    "scattered",
    "scattered_in_order",
    "softmax",
    "top_entries",
    "transpose",
]
