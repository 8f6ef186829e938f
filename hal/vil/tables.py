"""Every enumeration and the operation table of VIL 1.0 (docs/vil.md, section 2).

Text reader, text writer, binary reader, binary writer and validator all work from here.
"""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = [
    "ACCESS",
    "ENGINES",
    "FEATURES",
    "FUNCTIONS",
    "KINDS",
    "LAYOUTS",
    "OPS",
    "OPS_BY_NUMBER",
    "PROFILES",
    "SPACES",
    "SREG_FORMS",
    "OpSpec",
    "names_by_number",
]

ACCESS = {"read": 1, "write": 2, "inout": 3}
KINDS = {"buffer": 1, "scalar": 2, "symbol": 3}
SPACES = {"near": 1, "mma_a": 2, "mma_b": 3, "acc": 4, "vec": 5, "scalar": 6}
LAYOUTS = {"row": 1, "col": 2, "panel": 3, "mma_a": 4, "mma_b": 5, "acc": 6}
ENGINES = {"dma_in": 1, "dma_out": 2, "vector": 3, "matrix": 4, "scalar": 5}
PROFILES = {"flat": 0, "explicit": 1}

_FUNCTIONS = """
mov neg abs exp exp2 log log2 sqrt rsqrt rcp sin cos tanh erf floor ceil trunc round not isnan
add sub mul div max min pow fmod idiv imod and or xor shl shr shru mulhi lt le eq ne
argmax argmin set raw uniform arg tile grid sel
"""
_UN, _BIN, _OTHER = (line.split() for line in _FUNCTIONS.strip().splitlines())
FUNCTIONS = {name: number for number, name in enumerate([*_UN, *_BIN, *_OTHER], start=1)}

_FEATURES = """
explicit gather copy scan topk rng near_descriptors f16 bf16 f64 f8 i8 i64 fp8_mma
sreg_from_tile contraction deterministic_scatter
"""
FEATURES = {name: bit for bit, name in enumerate(_FEATURES.split())}


def names_by_number(table: dict[str, int]) -> dict[int, str]:
    """The table the other way round."""
    return {number: name for name, number in table.items()}


@dataclass(frozen=True, slots=True)
class OpSpec:
    """One operation.

    Attributes:
        number: Opcode.
        name: Text name.
        operands: Roles of the text operands in order: `d a b c` tiles; `descriptor sreg token`
            (the x field); `constant` (constant or scalar parameter); `parameter`; `v0` to `v3`.
        attributes: Text attribute name to role; a role of `axis` is the axis field.
        flags: Flag name to bit.
        functions: Allowed functions; empty for none.
        engines: Allowed engines, the default first; empty for SIGNAL and WAIT.
        tier: Lowest tier that has the operation.
        results: Roles of the tiles that are written.
    """

    number: int
    name: str
    operands: tuple[str, ...] = ()
    attributes: dict[str, str] = field(default_factory=dict)
    flags: dict[str, int] = field(default_factory=dict)
    functions: tuple[str, ...] = ()
    engines: tuple[str, ...] = ("vector",)
    tier: int = 1
    results: tuple[str, ...] = ("d",)


_ANY_MOVE = ("vector", "dma_in", "dma_out")
_SREG_BINARY = [name for name in _BIN if name not in ("div", "pow", "fmod", "mulhi")]

# Operands of the functions of SREG after the register itself, and their attributes.
SREG_FORMS: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "mov": (("v0",), {}),
    **{name: (("v0", "v1"), {}) for name in _SREG_BINARY},
    "sel": (("v0", "v1", "v2"), {}),
    "arg": (("parameter",), {}),
    "tile": (("a",), {}),
    "grid": ((), {"axis": "axis"}),
}

_SPECS = (
    OpSpec(1, "load", ("d", "descriptor"), {"near": "a"}, engines=("dma_in",)),
    OpSpec(
        2,
        "store",
        ("descriptor", "a"),
        {"near": "d"},
        {"stream": 0},
        engines=("dma_out",),
        results=("d",),
    ),
    OpSpec(
        3,
        "fill",
        ("d", "constant"),
        {"rows": "v0", "cols": "v1"},
        {"scalar": 0},
        engines=("vector", "dma_in"),
    ),
    OpSpec(4, "iota", ("d",), {"base": "v0", "row": "v1", "col": "v2"}),
    OpSpec(5, "un", ("d", "a"), functions=tuple(_UN)),
    OpSpec(6, "bin", ("d", "a", "b"), functions=tuple(_BIN)),
    OpSpec(7, "sel", ("d", "a", "b", "c")),
    OpSpec(8, "cast", ("d", "a"), flags={"saturate": 0}),
    OpSpec(
        9,
        "red",
        ("d", "a"),
        {"axis": "axis", "base": "v0"},
        functions=("add", "mul", "max", "min", "and", "or", "argmax", "argmin"),
    ),
    OpSpec(10, "mma", ("d", "a", "b"), flags={"init": 0}, engines=("matrix",)),
    OpSpec(11, "trn", ("d", "a"), engines=_ANY_MOVE),
    OpSpec(12, "loop", ("sreg", "v0"), engines=("scalar",), results=()),
    OpSpec(13, "end", (), engines=("scalar",), results=()),
    OpSpec(14, "if", ("v0",), engines=("scalar",), results=()),
    OpSpec(15, "sreg", ("sreg",), functions=tuple(SREG_FORMS), engines=("scalar",), results=()),
    OpSpec(16, "gather", ("d", "descriptor", "a"), {"dim": "axis"}, engines=("dma_in",), tier=2),
    OpSpec(
        17,
        "scatter",
        ("descriptor", "a", "b"),
        {"dim": "axis"},
        functions=("set", "add", "max", "min"),
        engines=("dma_out",),
        tier=2,
        results=(),
    ),
    OpSpec(18, "copy", ("d", "a"), engines=(*_ANY_MOVE, "matrix"), tier=2),
    OpSpec(
        19,
        "scan",
        ("d", "a"),
        {"axis": "axis"},
        {"exclusive": 0, "reverse": 1},
        functions=("add", "mul", "max", "min"),
        tier=2,
    ),
    OpSpec(
        20,
        "topk",
        ("d", "c", "a"),
        {"base": "v0"},
        {"init": 0, "smallest": 1},
        tier=2,
        results=("d", "c"),
    ),
    OpSpec(
        21,
        "rng",
        ("d",),
        {"base": "v0", "pitch": "v1", "seed": "v2", "offset": "v3"},
        functions=("raw", "uniform"),
        tier=2,
    ),
    OpSpec(22, "signal", ("token",), engines=(), tier=2, results=()),
    OpSpec(23, "wait", ("token",), engines=(), tier=2, results=()),
)
OPS: dict[str, OpSpec] = {spec.name: spec for spec in _SPECS}
OPS_BY_NUMBER: dict[int, OpSpec] = {spec.number: spec for spec in _SPECS}
