"""Operators whose text depends on a choice: functions from attributes to a text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hal.errors import InvalidValue
from hal.ir.lexer import DTYPES

__all__ = ["GENERATED", "Generated"]

_INDICES = "ijklm"
_SIZES = "MNKLP"


def cast(*, to: str = "f16", saturate: bool = False) -> str:
    """Another type for each element, by the rules of CAST."""
    if to not in DTYPES:
        listed = " ".join(DTYPES)
        raise InvalidValue(f"there is no type {to}", call="ops.get", next_step=f"Use: {listed}.")
    flag = ", saturate" if saturate else ""
    return f"""kernel cast {{ param N : int  input: f32[N] X  output: {DTYPES[to]}[N] Y
    operation: Y[i] = {DTYPES[to]}(X[i]{flag}) }}"""


def permute(*, order: Sequence[int] = (2, 0, 1)) -> str:
    """Dimensions in another order: dimension d of the result is order[d] of the operand."""
    rank = len(order)
    if sorted(order) != list(range(rank)) or not 1 <= rank <= len(_INDICES):
        raise InvalidValue(f"{tuple(order)} is no order of 1 to 5 dimensions", call="ops.get")
    shape = ", ".join(_SIZES[:rank])
    turned = ", ".join(_SIZES[d] for d in order)
    return f"""kernel permute {{ param {shape} : int  input: f32[{shape}] X  output: f32[{turned}] Y
    operation: Y[{", ".join(_INDICES[d] for d in order)}] = X[{", ".join(_INDICES[:rank])}] }}"""


def concat_many(*, count: int = 3) -> str:
    """Several matrices, one below another."""
    if not 1 <= count <= 16:
        raise InvalidValue(f"{count} parts; 1 to 16 are allowed", call="ops.get")
    sizes = [f"M{part}" for part in range(count)]
    arrays = ", ".join(f"f32[{size}, N] X{part}" for part, size in enumerate(sizes))
    parts = ", ".join(f"X{part}[i, j]" for part in range(count))
    return f"""kernel concat_many {{ param {", ".join(sizes)}, N : int  input: {arrays}
    output: f32[{" + ".join(sizes)}, N] Y  operation: Y[i, j] = concat({parts}, i) }}"""


def reduce_axes(*, function: str = "add", rank: int = 3, axes: Sequence[int] = (0, 2)) -> str:
    """Sum, product, maximum or minimum over any axes."""
    symbols = {"add": "+=", "mul": "*=", "max": "max=", "min": "min="}
    if function not in symbols:
        listed = " ".join(symbols)
        what = f"there is no reduction {function}"
        raise InvalidValue(what, call="ops.get", next_step=f"Use one of: {listed}.")
    if not 1 <= rank <= len(_INDICES) or not set(axes) <= set(range(rank)):
        raise InvalidValue(f"axes {tuple(axes)} of {rank} dimensions", call="ops.get")
    kept = [d for d in range(rank) if d not in axes]
    shape = ", ".join(_SIZES[:rank])
    return f"""kernel reduce_axes {{ param {shape} : int  input: f32[{shape}] X
    output: f32[{", ".join(_SIZES[d] for d in kept)}] Y
    operation: Y[{", ".join(_INDICES[d] for d in kept)}] {symbols[function]}
    X[{", ".join(_INDICES[:rank])}] }}"""


@dataclass(frozen=True, slots=True)
class Generated:
    """A writer of texts, and what the table says of the others."""

    write: Callable[..., str]
    domain: str
    dtypes: tuple[str, ...]
    law: str = "exact"
    terms: str = "1"


_ALL = ("f32", "f16", "bf16", "f64", "i32", "i64")
GENERATED: dict[str, Generated] = {
    "cast": Generated(cast, "elementwise", (*_ALL, "i8", "u8", "bool", "f8e4m3", "f8e5m2")),
    "permute": Generated(permute, "shape", _ALL),
    "concat_many": Generated(concat_many, "shape", _ALL),
    "reduce_axes": Generated(reduce_axes, "reduction", _ALL, "dot", "M * N * K"),
}
"""Name -> writer. Every attribute has a default."""
