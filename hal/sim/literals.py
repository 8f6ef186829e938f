"""Every number of the timing code that neither a description nor a calibration gives.

One counted table: name, value, unit and source of each. `LITERALS.name` is the value;
`TABLE` is what documentation and tests read. A number of a formula's own mathematics (the 2 of
"multiply and add") is not a literal.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Literal:
    """One fixed number of the timing code."""

    name: str
    value: float
    unit: str
    source: str


_OWN = "our own fit to gemm_bf16.csv (A100 and H100), then fixed"
TABLE = (
    Literal("k_step_bytes", 128, "bytes", "one 128-byte line of an operand row a step (cuBLAS and "
            "CUTLASS kernels take K in steps of 64 16-bit elements)"),
    Literal("tile_least", 16, "elements", "smallest side of a tile: one matrix instruction"),
    Literal("tile_area_least", 1024, "elements", "smallest tile of the libraries seen (16 x 64)"),
    Literal("tile_side_most", 1024, "elements", "longest side of a tile that is tried"),
    Literal("tile_port_bytes", 64, "bytes a cycle", "port of a core for which the constant `tile` "
            "is stated; a wider one writes results sooner"),
    Literal("result_bytes_least", 2, "bytes", "products of 8-bit types give 16-bit or wider "
            "results in libraries (cuBLAS, hipBLASLt)"),
    Literal("programs_per_core_most", 4, "programs", "tiles of one core that overlap: " + _OWN),
    Literal("weight_copies", 5, "copies", "aiconfigurator collect_gemm.py cycles through up to 5 "
            "weights, so that small ones are not found in the cache"),
    Literal("cache_ramp", 0.35, "share of the cache", "working sets between the usable share and "
            "this much more miss partly: " + _OWN),
    Literal("bandwidth_cores", 0.85, "share of the cores", "cores that together fill the DRAM "
            "bus: " + _OWN),
    Literal("split_launch", 0.95, "launches", "a product split along K runs a second kernel that "
            "adds the parts: plateau of 5.6 us against 2.6 us of H100 rows"),
    Literal("pipeline_steps", 4, "steps", "steps until a software pipeline is full (3 to 5 stages "
            "in CUTLASS)"),
    Literal("droop_s", 5e-3, "s", "time constant of the power limit's clock: " + _OWN),
    Literal("unaligned_exponent", 0.25, "power", "rows that start off a 16-byte boundary need "
            "narrower loads (NVIDIA matrix multiplication guide); size from V100 rows with "
            "K = 1530 of deepbench_gemm.csv"),
    Literal("wide_instruction", 4096, "sums", "between 16 x 8 of a warp (A100) and 64 x 256 of "
            "four warps, which runs asynchronously (H100), or a 128 x 128 array"),
    Literal("plain_per_function", 4, "operations", "an elementary function costs as much as four "
            "plain operations where a description is silent (quarter-rate special units)"),
    Literal("row_kept_share", 0.075, "share of near memory", "a row of at most this stays near "
            "the core for the next pass: layer norm of 4096 to 32768 columns on A100"),
    Literal("vector_cache_ramp", 0.5, "share of the cache", "as cache_ramp, for a streaming "
            "kernel: our own fit to vector_operators.csv"),
    Literal("core_fill_elements", 2048, "elements", "elements that a core needs to run at full "
            "rate: 2,048 threads of a core (A100)"),
    Literal("rows_per_core", 1, "rows", "rows of a sum that a core works on before latency hides"),
    Literal("row_elements", 4096, "elements", "a row of this length pays the whole row latency"),
    Literal("own_copy", 0.4, "bytes", "copying the own part on the chip costs this much of "
            "sending it: all_gather of 2, 4 and 8 A100 in collectives.csv"),
    Literal("tree_hop", 2.5, "hops", "a level of a tree: two children, then memory; rings win "
            "among 8 chips and trees above (NCCL)"),
    Literal("pair_bytes", 32768, "bytes", "part size at which half of an all-to-all's set-up is "
            "paid: H100 rows of collectives.csv"),
    Literal("peer_us", 0.1, "us", "a flag of one more peer: direct all-reduce rows"),
    Literal("launch_guess_ns", 3000, "ns", "aiconfigurator a100_sxm.yaml, h100_sxm.yaml (not "
            "official); a guess for a chip that does not say"),
    Literal("load_guess_bytes", 64, "bytes a cycle", "width of a core's port to the L2 of recent "
            "GPUs; a guess for a chip that does not say"),
    Literal("scratch_cache_bytes", 1048576, "bytes", "a scratchpad of at least this size holds "
            "whole operand panels as a cache would"),
    Literal("accumulator_least_bytes", 65536, "bytes", "a chip that declares neither registers "
            "nor accumulators: one 128 x 128 tile of f32"),
)  # fmt: skip


class _Literals:
    """Attribute access to the values of TABLE; an unknown name is an AttributeError."""

    def __init__(self) -> None:
        self._values = {row.name: row.value for row in TABLE}

    def __getattr__(self, name: str) -> float:
        try:
            return self.__dict__["_values"][name]  # type: ignore[no-any-return]
        except KeyError:
            raise AttributeError(name) from None


LITERALS = _Literals()
