"""Checks of kernels: the VIL machine is complete, consistent, and never below vil-core."""

from __future__ import annotations

from collections.abc import Iterator

from hal.hcd.checker import Checker, at, items, text, value, words
from hal.hcd.scan import Node, one_line
from hal.hcd.schema import nearest


def _words(text: str) -> list[str]:
    return text.split()


_FLOAT_UN = _words(
    "mov neg abs exp exp2 log log2 sqrt rsqrt rcp sin cos tanh erf floor ceil trunc round isnan"
)
_FLOAT_BIN = _words("add sub mul div max min pow fmod lt le eq ne")
_INT_BIN = _words("add sub mul max min idiv imod and or xor shl shr shru mulhi lt le eq ne")
_RED = _words("add mul max min argmax argmin")

FUNCTIONS: dict[str, frozenset[str]] = {
    "un": frozenset([*_FLOAT_UN, "not"]),
    "bin": frozenset([*_FLOAT_BIN, *_INT_BIN]),
    "red": frozenset([*_RED, "and", "or"]),
    "scan": frozenset(_words("add mul max min")),
    "scatter": frozenset(_words("set add max min")),
}
"""Functions that each operation with functions may name."""

CONTROL = frozenset(_words("loop if sreg signal wait lib mark"))
"""Operations without tiles; their rows hold neither types nor spaces nor layouts."""

ARITHMETIC = frozenset(_words("un bin red scan fma"))
"""Operations that compute; mma is apart, since types may exist for it alone (feature fp8_mma)."""

MIN_NEAR_BYTES = 65536
"""Four tiles of 64 x 64 elements of 4 bytes: what the programs of vil-core keep on chip."""

_MMA_KEYS = ("spaces_a", "spaces_b", "layouts_a", "layouts_b")


def core_needs() -> Iterator[tuple[str, str, str, str]]:
    """Each (operation, function, dtype, result dtype) that every chip must run; "" for none."""
    for op in ("load", "store", "fill", "sel", "trn"):
        yield op, "", "f32", ""
        yield op, "", "i32", ""
    yield "iota", "", "i32", ""
    yield "mma", "", "f32", ""
    yield "mma", "", "i32", ""
    for name in ("and", "or", "xor"):
        yield "bin", name, "bool", ""
    yield "un", "not", "bool", ""
    yield "cast", "", "f32", "i32"
    yield "cast", "", "i32", "f32"
    for name in _FLOAT_UN:
        yield "un", name, "f32", ""
    for name in ("mov", "neg", "abs", "not"):
        yield "un", name, "i32", ""
    for name in _FLOAT_BIN:
        yield "bin", name, "f32", ""
    for name in _INT_BIN:
        yield "bin", name, "i32", ""
    for name in _RED:
        yield "red", name, "f32", ""
    for name in (*_RED, "and", "or"):
        yield "red", name, "i32", ""
    for op in ("loop", "if", "sreg"):
        yield op, "", "", ""


def check(checker: Checker) -> None:
    """All rules of the section kernels."""
    kernels = at(checker.root, "kernels")
    if kernels is None:
        return
    _formats(checker, kernels)
    vil = at(kernels, "vil")
    if vil is not None and isinstance(vil.value, dict):
        _machine(checker, vil)
        _spaces(checker, vil)
        _rows(checker, vil)
        _types(checker, vil)
        _core(checker, vil)


def _formats(checker: Checker, kernels: Node) -> None:
    formats = items(kernels, "formats")
    names = [name for name, _ in formats]
    order = words(kernels, "order")
    for node in order:
        if node.value not in names:
            hint = nearest(node.value, list(names))
            what = f"'{one_line(node.value)}' is no entry of formats; {', '.join(names)}{hint}"
            checker.refuse(node, "kernels.order", what)
    missing = [name for name in names if name not in [node.value for node in order]]
    found = at(kernels, "order")
    if missing and found is not None:
        checker.refuse(found, "kernels.order", f"leaves out {', '.join(missing)} of formats")
    dialect = text(kernels, "dialect", "id")
    for name, row in formats:
        kind, _, word = text(row, "format").partition(".")
        if kind == "source" and word != dialect:
            what = f"needs kernels.dialect with id {word}"
            checker.refuse(row, f"kernels.formats.{name}.format", what)


def _machine(checker: Checker, vil: Node) -> None:
    units = [name for name, _ in items(checker.root, "units")]
    engines = [name for name, _ in items(vil, "engines")]
    for name, engine in items(vil, "engines"):
        path = f"kernels.vil.engines.{name}"
        checker.reference(engine, path, "unit", units, "entry of units")
    absent = [n for n in ("dma_in", "dma_out", "vector", "matrix", "scalar") if n not in engines]
    node = at(vil, "engines")
    if absent and node is not None:
        checker.refuse(node, "kernels.vil.engines", f"lacks {', '.join(absent)}")
    for granule, most in (("granule_rows", "max_rows"), ("granule_columns", "max_columns")):
        step, limit, found = value(vil, granule), value(vil, most), at(vil, most)
        if isinstance(step, int) and isinstance(limit, int) and found and step > 0 and limit % step:
            what = f"is {limit}, no multiple of {granule} {step}"
            checker.refuse(found, f"kernels.vil.{most}", what)
    layouts = [node.value for node in words(vil, "layouts")]
    if ("panel" in layouts) != (at(vil, "panel_rows") is not None):
        what = "the layout panel and the key panel_rows go together"
        checker.refuse(at(vil, "layouts") or vil, "kernels.vil.layouts", what)


def _spaces(checker: Checker, vil: Node) -> None:
    memories = dict(items(checker.root, "memory"))
    spaces = dict(items(vil, "spaces"))
    node = at(vil, "spaces") or vil
    for name in ("global", "near"):
        if spaces and name not in spaces:
            checker.refuse(node, "kernels.vil.spaces", f"lacks {name}, which every chip has")
    for name, space in spaces.items():
        path = f"kernels.vil.spaces.{name}"
        checker.reference(space, path, "memory", list(memories), "entry of memory")
        memory = memories.get(text(space, "memory"))
        size, whole = value(space, "capacity_bytes"), value(memory, "capacity_bytes")
        bounded = name != "near" or not _is_rendered(checker)
        if bounded and isinstance(size, int) and isinstance(whole, int) and size > whole:
            what = f"is {size:,}, above the {whole:,} bytes of memory {text(space, 'memory')}"
            checker.refuse(at(space, "capacity_bytes") or space, f"{path}.capacity_bytes", what)
        most = size if isinstance(size, int) else whole
        if name == "near" and isinstance(most, int) and most < MIN_NEAR_BYTES:
            what = f"holds {most:,} bytes; vil-core needs {MIN_NEAR_BYTES:,} (4 tiles of 64 x 64)"
            checker.refuse(space, path, what)


def _is_rendered(checker: Checker) -> bool:
    """True when programs are always written for groups: tiles beyond near lie in global memory."""
    kernels = at(checker.root, "kernels")
    kinds = [text(row, "format").partition(".")[0] for _, row in items(kernels, "formats")]
    entry = text(kernels, "dialect", "entry") or "group"
    return bool(kinds) and set(kinds) == {"source"} and entry == "group"


def _rows(checker: Checker, vil: Node) -> None:
    """Each row of `ops` names only what exists and only keys that its operation has."""
    spaces = [name for name, _ in items(vil, "spaces")]
    layouts = [node.value for node in words(vil, "layouts")]
    stored = [name for name, _ in items(checker.root, "dtypes")]
    for name, row in items(vil, "ops"):
        path, op = f"kernels.vil.ops.{name}", text(row, "op")
        wanted = {"op", "id"}
        if op not in CONTROL:
            wanted |= {"dtypes", "spaces_in", "spaces_out", "layouts_in", "layouts_out"}
            if at(row, "dtypes") is None:
                checker.refuse(row, path, "the key dtypes is missing; it names the element types")
        if op in FUNCTIONS:
            wanted.add("functions")
        if op == "cast":
            wanted.add("dtypes_to")
        if op == "mma":
            wanted = (wanted | set(_MMA_KEYS)) - {"spaces_in", "layouts_in"}
        for key, node in row.value.items():
            if op and key not in wanted:
                checker.refuse(node, f"{path}.{key}", f"the operation {op} has no {key}")
        for node in words(row, "functions"):
            if op in FUNCTIONS and node.value not in FUNCTIONS[op]:
                what = f"{one_line(node.value)} is no function of {op}"
                checker.refuse(node, f"{path}.functions", what)
        for key, known, what in (
            *((k, spaces, "an entry of kernels.vil.spaces") for k in _keys("spaces")),
            *((k, layouts, "in kernels.vil.layouts") for k in _keys("layouts")),
            *((k, stored, "an entry of dtypes") for k in ("dtypes", "dtypes_to")),
        ):
            for node in words(row, key):
                if node.value not in known:
                    checker.refuse(node, f"{path}.{key}", f"{one_line(node.value)} is not {what}")


def _types(checker: Checker, vil: Node) -> None:
    """Rows agree with `dtypes`: what is computed on has arithmetic, what is loaded is stored."""
    dtypes = dict(items(checker.root, "dtypes"))
    for name, row in items(vil, "ops"):
        op, moves = text(row, "op"), [node.value for node in words(row, "functions")] == ["mov"]
        for key in ("dtypes", "dtypes_to"):
            for node in words(row, key):
                entry = dtypes.get(node.value)
                lacks = ""
                if op in ("load", "store") and value(entry, "storage") is False:
                    lacks = "storage: false"
                elif op == "cast" and value(entry, "convert") is False:
                    lacks = "convert: false"
                elif op in ARITHMETIC and not moves and text(entry, "compute") == "none":
                    lacks = "compute: none"
                if lacks:
                    what = f"{node.value} says {lacks} in dtypes, so {op} cannot take it"
                    checker.refuse(node, f"kernels.vil.ops.{name}.{key}", what)


def _keys(stem: str) -> list[str]:
    return [f"{stem}_{end}" for end in ("in", "out", "a", "b")]


def _core(checker: Checker, vil: Node) -> None:
    """Every chip runs every tier-1 operation in f32 and i32, with bool masks."""
    have: set[tuple[str, str, str, str]] = set()
    for _, row in items(vil, "ops"):
        op = text(row, "op")
        functions = [node.value for node in words(row, "functions")] or FUNCTIONS.get(op, [""])
        if op not in FUNCTIONS:
            functions = [""]
        types = [node.value for node in words(row, "dtypes")] or [""]
        results = [node.value for node in words(row, "dtypes_to")] if op == "cast" else [""]
        if op == "cast" and at(row, "dtypes_to") is None:
            results = ["f32", "i32"]
        have |= {(op, f, t, r) for f in functions for t in types for r in results}
    missing = [need for need in core_needs() if need not in have]
    node = at(vil, "ops")
    if missing and node is not None:
        shown = ", ".join(" ".join(word for word in need if word) for need in missing[:6])
        more = f" and {len(missing) - 6} more" if len(missing) > 6 else ""
        checker.refuse(node, "kernels.vil.ops", f"is below vil-core: lacks {shown}{more}")
    profile = at(vil, "profile")
    ops = {text(row, "op") for _, row in items(vil, "ops")}
    tokens = at(vil, "token_count")
    if profile is not None and profile.value == "explicit":
        gone = [op for op in ("copy", "signal", "wait") if op not in ops]
        if gone and node is not None:
            what = f"lacks {', '.join(gone)}, which the explicit profile needs"
            checker.refuse(node, "kernels.vil.ops", what)
        if tokens is not None and tokens.value == 0:
            what = "is 0, but the explicit profile orders engines by tokens; at least 1"
            checker.refuse(tokens, "kernels.vil.token_count", what)
