"""The required-feature bits of a module (docs/vil.md, section 2)."""

from __future__ import annotations

from collections.abc import Iterator

from hal.vil.model import Parts, Program
from hal.vil.tables import FEATURES

__all__ = ["feature_bits", "feature_names", "required_features"]

_BY_OP = {"gather": "gather", "scatter": "gather"} | {
    name: name for name in ("copy", "scan", "topk", "rng")
}
_BY_DTYPE = {
    "f16": "f16",
    "bf16": "bf16",
    "f64": "f64",
    "f8e4m3": "f8",
    "f8e5m2": "f8",
    "i8": "i8",
    "u8": "i8",
    "i64": "i64",
}


def _of_program(program: Program) -> Iterator[str]:
    if program.profile == "explicit":
        yield "explicit"
    if program.contract:
        yield "contraction"
    if program.deterministic:
        yield "deterministic_scatter"
    for tile in program.tiles:
        if tile.dtype.name in _BY_DTYPE:
            yield _BY_DTYPE[tile.dtype.name]
    for instruction in program.instructions:
        op = instruction.op
        if op in _BY_OP:
            yield _BY_OP[op]
        elif (op == "load" and instruction.a) or (op == "store" and instruction.d):
            yield "near_descriptors"
        elif op == "sreg" and instruction.function == "tile":
            yield "sreg_from_tile"
        elif op == "mma" and instruction.a is not None:
            index = instruction.a.tile
            if index < len(program.tiles) and program.tiles[index].dtype.kind == "float8":
                yield "fp8_mma"


def required_features(module: Parts) -> frozenset[str]:
    """Names of the features that the module's content needs."""
    return frozenset(name for program in module.programs for name in _of_program(program))


def feature_bits(names: frozenset[str]) -> int:
    """The u64 of the image header."""
    return sum(1 << FEATURES[name] for name in names)


def feature_names(bits: int) -> frozenset[str]:
    """Names of the set bits; raises KeyError for an unknown bit."""
    by_bit = {bit: name for name, bit in FEATURES.items()}
    return frozenset(by_bit[bit] for bit in range(64) if bits >> bit & 1)
