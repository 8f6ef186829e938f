"""One element: UN, BIN, SEL and CAST as expressions of a C-like language (docs/vil.md, 5.3, 5.4).

An element is held as it lies in memory: f16 and bf16 as u16 bits, 8-bit floats and bool as u8.
Names that begin with `hal_` are functions of `support`.
"""

from __future__ import annotations

import math
import struct

from hal import dtypes
from hal.codegen.dialect.language import Dialect
from hal.dtypes import DType

__all__ = ["binary", "bits_of", "cast", "constant", "integer", "narrow", "unary", "widen"]

_SMALL = ("f16", "bf16", "f8e4m3", "f8e5m2")
_NATIVE = ("floor", "ceil", "trunc", "round")
_COMPARE = {"lt": "<", "le": "<=", "eq": "==", "ne": "!="}
_WRAPPING = {"add": "+", "sub": "-", "mul": "*"}
_LOGIC = {"and": "&", "or": "|", "xor": "^"}
_UNSIGNED = {"i8": "u8", "u8": "u8", "i32": "u32", "i64": "u64"}


def integer(value: int) -> str:
    """An i64 literal that needs no suffix."""
    if value == -(2**63):
        return "(-9223372036854775807 - 1)"
    return f"({value})" if value < 0 else str(value)


def bits_of(value: float | int, dtype: DType) -> int:
    """The bits of a constant of a float type, rounded once."""
    import numpy as np

    from hal.vil.numerics import round_to

    rounded = round_to(np.asarray(value, np.float64), dtype)
    return int(rounded.reshape(1).view(f"u{dtype.bytes}")[0])


def constant(value: float | int, dtype: DType) -> str:
    """A constant as an element."""
    if dtype.name in _SMALL:
        return f"(({'u16' if dtype.bytes == 2 else 'u8'}){bits_of(value, dtype)})"
    if dtype.is_float:
        suffix = "f" if dtype.name == "f32" else ""
        number = float(value)
        if dtype.name == "f32":
            number = struct.unpack("<f", bits_of(value, dtype).to_bytes(4, "little"))[0]
        if math.isfinite(number):
            return f"({number!r}{suffix})" if number < 0 else f"{number!r}{suffix}"
        return f"hal_{dtype.name}_of_bits({bits_of(value, dtype):#x}u)"
    return f"(({'u8' if dtype.kind == 'bool' else dtype.name}){integer(int(value))})"


def widen(name: str, dtype: DType, *, wide: bool = False) -> str:
    """A float element as f32 (f64 stays; `wide`: as f64)."""
    if dtype.name in _SMALL:
        name = f"hal_f32_of_{dtype.name}({name})"
    return f"(f64){name}" if wide and dtype.name != "f64" else name


def narrow(text: str, dtype: DType, *, wide: bool = False) -> str:
    """An f32 (`wide`: f64) value rounded to a small float type; others are taken as they are."""
    if dtype.name not in _SMALL:
        return text
    if wide:
        text = f"hal_odd_f64({text})"
    last = ", 0" if dtype.kind == "float8" else ""
    return f"hal_{dtype.name}_of_f32({text}{last})"


def unary(language: Dialect, function: str, x: str, dtype: DType) -> str:
    """UN."""
    if function == "mov":
        return x
    if function == "not":
        return f"({x} ^ 1)" if dtype.kind == "bool" else f"(({dtype.name})~{x})"
    if dtype.is_int:
        return _integer_sign(function, x, dtype)
    if function in ("neg", "abs"):
        return _float_sign(function, x, dtype)
    item = language.instr("un", function, dtype, None, dtype)
    if item is not None:
        return f"({item.fill(a=x)})"
    inner = widen(x, dtype)
    if function == "isnan":
        return f"hal_isnan_{'f64' if dtype.name == 'f64' else 'f32'}({inner})"
    kind = dtype if dtype.name == "f64" else dtypes.f32
    item = language.instr("un", function, kind, None, kind)
    if item is not None:
        return narrow(f"({item.fill(a=inner)})", dtype)
    if function in language.math:
        return narrow(language.call(function, inner), dtype)
    one = constant(1, kind)
    if function == "rcp":
        return narrow(f"({one} / {inner})", dtype)
    if function == "rsqrt":
        return narrow(f"({one} / {language.call('sqrt', inner)})", dtype)
    return narrow(language.call(function, inner), dtype)


def _integer_sign(function: str, x: str, dtype: DType) -> str:
    kind = _UNSIGNED[dtype.name]
    negated = f"({dtype.name})(({kind})0 - ({kind}){x})"
    if function == "neg":
        return f"({negated})"
    return x if dtype.name == "u8" else f"({x} < 0 ? {negated} : {x})"


def _float_sign(function: str, x: str, dtype: DType) -> str:
    if dtype.name == "f64":
        mask = "^ 0x8000000000000000u" if function == "neg" else "& 0x7fffffffffffffffu"
    elif dtype.name == "f32":
        mask = "^ 0x80000000u" if function == "neg" else "& 0x7fffffffu"
    else:
        mask = "^ 0x8000" if function == "neg" else "& 0x7fff"
        return f"((u16)({x} {mask}))"
    return f"hal_{dtype.name}_of_bits(hal_bits_{dtype.name}({x}) {mask})"


def binary(language: Dialect, function: str, a: str, b: str, dtype: DType) -> str:
    """BIN; comparisons give 0 or 1."""
    item = language.instr("bin", function, dtype, dtype, dtype)
    if item is not None:
        return f"({item.fill(a=a, b=b)})"
    if dtype.kind == "bool" or dtype.is_int:
        return _integer_binary(function, a, b, dtype)
    wide = dtype.name == "bf16" and function == "mul" and language.has_f64
    a, b = widen(a, dtype, wide=wide), widen(b, dtype, wide=wide)
    if function in _COMPARE:
        return f"({a} {_COMPARE[function]} {b})"
    kind = "f64" if dtype.name == "f64" else "f32"
    if function in ("max", "min"):
        return narrow(f"hal_{function}_{kind}({a}, {b})", dtype)
    if function in _WRAPPING or function == "div":
        sign = _WRAPPING.get(function, "/")
        return narrow(f"({a} {sign} {b})", dtype, wide=wide)
    text = language.call(function, a, b)
    if function == "fmod":  # Some libraries give back a small divisor where nothing is left.
        text = f"hal_left_{kind}({text}, {a}, {b})"
    return narrow(text, dtype)


def _integer_binary(function: str, a: str, b: str, dtype: DType) -> str:
    if function in _COMPARE:
        return f"({a} {_COMPARE[function]} {b})"
    name = dtype.name
    if dtype.kind == "bool":
        return f"({a} {_LOGIC[function]} {b})"
    unsigned = _UNSIGNED[name]
    count = f"(({unsigned}){b} & {8 * dtype.bytes - 1})"
    if function in _LOGIC:
        return f"(({name})({a} {_LOGIC[function]} {b}))"
    if function in _WRAPPING:
        kind = "u64" if name == "i64" else "u32"
        return f"(({name})(({kind}){a} {_WRAPPING[function]} ({kind}){b}))"
    if function in ("max", "min"):
        return f"({a} {'>' if function == 'max' else '<'} {b} ? {a} : {b})"
    if function in ("idiv", "imod"):
        return f"(({name})hal_{function}({a}, {b}))"
    if function == "shl":
        return f"(({name})(({unsigned}){a} << {count}))"
    if function == "shr":
        return f"(({name})({a} >> {count}))"
    if function == "shru":
        return f"(({name})(({unsigned}){a} >> {count}))"
    if name == "i64":
        return f"hal_mulhi({a}, {b})"
    return f"(({name})(((i64){a} * (i64){b}) >> {8 * dtype.bytes}))"


def cast(language: Dialect, x: str, source: DType, target: DType, saturate: bool) -> str:
    """CAST."""
    if target.kind == "bool":
        return _truth(x, source)
    if source.is_int or source.kind == "bool":
        if target.kind in ("float", "float8"):
            return _float_of_integer(language, x, source, target, saturate)
        return _integer_of_integer(x, source, target, saturate)
    if target.is_int:
        inner = widen(x, source)
        kind = "f64" if source.name == "f64" else "f32"
        return f"hal_{target.name}_of_{kind}({inner})"
    return _float_of_float(x, source, target, saturate)


def _truth(x: str, source: DType) -> str:
    if source.name in ("f16", "bf16"):
        return f"(({x} & 0x7fff) != 0)"
    if source.kind == "float8":
        return f"(({x} & 0x7f) != 0)"
    return f"({x} != 0)"


def _integer_of_integer(x: str, source: DType, target: DType, saturate: bool) -> str:
    inside = target.minimum <= source.minimum and source.maximum <= target.maximum
    if saturate and not inside:
        low, high = integer(target.minimum), integer(int(target.maximum))
        return f"(({target.name})hal_clamp({x}, {low}, {high}))"
    return f"(({target.name}){x})"


def _float_of_integer(
    language: Dialect, x: str, source: DType, target: DType, saturate: bool
) -> str:
    if target.name in ("f32", "f64"):
        return f"(({target.name}){x})"
    exact = source.bytes == 1
    text = f"(f32){x}" if exact else f"hal_odd_i64({x})"
    return _small_of_f32(text, target, saturate)


def _small_of_f32(text: str, target: DType, saturate: bool) -> str:
    if target.kind == "float8":
        return f"hal_{target.name}_of_f32({text}, {int(saturate)})"
    rounded = f"hal_{target.name}_of_f32({text})"
    return f"hal_finite_{target.name}({rounded})" if saturate else rounded


def _float_of_float(x: str, source: DType, target: DType, saturate: bool) -> str:
    if source is target and not saturate:
        return x
    text = widen(x, source)
    if target.name in ("f32", "f64"):
        rounded = text if source is target else f"(({target.name}){text})"
        return f"hal_finite_{target.name}({rounded})" if saturate else rounded
    if source.name == "f64":
        text = f"hal_odd_f64({text})"
    return _small_of_f32(text, target, saturate)
