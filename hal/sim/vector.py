"""Time of a library's vector operators (softmax, layer norm, activations, add), in closed form.

    launch + rows + max(memory, work) + overlap * min(memory, work)

`memory` is passes x bytes over the DRAM's bandwidth for what the cache does not hold from the call
before, and over the cache's for the rest. `work` is the roof of the lanes: exponentials and sums
along a row cost many plain operations an element. `rows` is the latency of a sum along a row that
no other row hides.

Sources: roofline: Williams, Waterman, Patterson 2009; passes of softmax: Milakov and Gimelshein
2018; work per element: OPERATORS, fitted to the measured rows named there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hal.sim.chip import DTYPE_BYTES, Chip
from hal.sim.literals import LITERALS as LIT

if TYPE_CHECKING:
    from hal.sim.calibration import Constants

Array = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class Operator:
    """What one operator does to each element of its result.

    Attributes:
        reads: Elements read from memory.
        writes: Elements written.
        work: Plain operations of the f32 lanes, an exponential or a step of a sum counted as many.
        reduces: It sums along a row, so that a lone row has a latency.
        rereads: Most times that a row is read again when it does not stay near the core.
        source: Where `work` comes from.
    """

    reads: float
    writes: float
    work: float
    reduces: bool
    source: str
    rereads: float = 0.0


_EAGER = "fit to operators_pytorch_eager.csv"
_VIDUR = "fit to vector_operators.csv"
OPERATORS: dict[str, Operator] = {
    "add": Operator(2, 1, 4, False, "count of its operations"),
    "mul": Operator(2, 1, 4, False, "count of its operations"),
    "copy": Operator(1, 1, 2, False, "count of its operations"),
    "relu": Operator(1, 1, 3, False, "count of its operations"),
    "gelu": Operator(1, 1, 16, False, _EAGER),
    "silu": Operator(1, 1, 14, False, "as gelu: one exponential, one division"),
    "sigmoid": Operator(1, 1, 12, False, "as gelu: one exponential, one division"),
    "tanh": Operator(1, 1, 14, False, "as gelu"),
    "exp": Operator(1, 1, 8, False, "one exponential"),
    "silu_mul": Operator(2, 1, 50, False, _VIDUR + " (a kernel with narrow loads)"),
    "softmax": Operator(1, 1, 38, True, _EAGER),
    "layernorm": Operator(1, 1, 7, True, _EAGER, rereads=2),
    "rmsnorm": Operator(1, 1, 50, True, _VIDUR + " (a kernel with narrow loads)"),
    "sum": Operator(1, 0, 6, True, "count of its operations"),
    "gather": Operator(1, 1, 4, False, "count of its operations"),
}
ALIASES = {
    "layer_norm": "layernorm", "input_layernorm": "rmsnorm", "post_attention_layernorm": "rmsnorm",
    "rms_norm": "rmsnorm", "mlp_act": "silu_mul", "swiglu": "silu_mul", "embedding": "gather",
    "elementwise": "add", "residual": "add",
}  # fmt: skip


def operator(name: str) -> Operator | None:
    """The operator of a name or alias, or None."""
    return OPERATORS.get(ALIASES.get(name, name))


def predict_s(
    chip: Chip, constants: Constants, name: str, m: Array, n: Array, *, dtype: str = "f16"
) -> Array:
    """Seconds of each operator on m rows of n elements, without framework overhead.

    Args:
        chip: The chip.
        constants: The constants of the family `vector`.
        name: A key of OPERATORS, or an alias.
        m, n: Rows and elements of a row of the result; at least 1.
        dtype: Element type in memory; sums are f32.
    """
    what = operator(name)
    assert what is not None, name
    element = DTYPE_BYTES[dtype]
    count = m * n
    read = what.reads * element * count
    written = what.writes * element * count
    if what.rereads:
        kept = LIT.row_kept_share * chip.near_bytes
        read = read * (1 + np.clip(n * element / kept - 1, 0, what.rereads))
    usable = constants["cache"] * chip.cache_bytes
    ramp = LIT.vector_cache_ramp * chip.cache_bytes + 1.0
    miss = np.clip(((what.reads + what.writes) * element * count - usable) / ramp, 0, 1)
    total = read + written
    busy = np.minimum(1, m * n / (chip.core_count * LIT.core_fill_elements))
    memory = total * (
        miss / (chip.dram_bytes_per_s * constants["dram"])
        + (1 - miss) / (chip.cache_bytes_per_s * constants["cache_rate"])
    ) / busy**0.5  # fmt: skip
    work = count * what.work / (chip.lane_rate() * constants["lanes"])
    rounds = np.ceil(m / (chip.core_count * LIT.rows_per_core))
    alone = constants["row"] / chip.clock_hz * np.minimum(1, n / LIT.row_elements)
    row = np.where(rounds <= 1, alone, 0.0) if what.reduces else 0.0
    slow, fast = np.maximum(memory, work), np.minimum(memory, work)
    seconds: Array = constants["launch"] * chip.launch_s + row + slow + constants["overlap"] * fast
    return seconds
