"""Rules about the types of values."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from hal import dtypes
from hal.dtypes import DType
from hal.ir.analysis import compute_dtype, inline_lets, promote
from hal.ir.nodes import (
    Access,
    Assign,
    Call,
    Cast,
    Const,
    Expr,
    Index,
    Kernel,
    NamedCall,
    ParamRef,
    ScalarRef,
    Span,
    walk,
)
from hal.ir.problems import Finding
from hal.ir.rules_names import span_of

__all__ = ["Type", "find_bad_pads", "find_bad_stores", "find_mixed_kinds", "type_of"]

_FLOAT = frozenset(
    "exp exp2 log log2 sqrt rsqrt rcp sin cos tanh erf floor ceil trunc round isnan".split()
    + "div pow fmod".split()
)
_INT = frozenset("idiv imod shl shr shru mulhi".split())
_INT_BOOL = frozenset("and or xor not".split())
_ANY = frozenset({"eq", "ne"})
_BOOLEAN = frozenset("lt le eq ne isnan".split())
_INSTEAD = {"div": "Use // for whole numbers, or convert: f32(x).", "not": "Compare: x == 0."}


@dataclass(frozen=True, slots=True)
class Type:
    """Type of a value; without a dtype a literal, whose kind is then `int` or `float`."""

    kind: str
    dtype: DType | None = None

    def __str__(self) -> str:
        return str(self.dtype or ("a fraction" if self.kind == "float" else "a whole number"))


class Mixed(Exception):
    """An expression that has no type."""

    def __init__(self, text: str, span: Span | None, next_step: str = "") -> None:
        super().__init__(text)
        self.finding = Finding(text, span, next_step)


def type_of(kernel: Kernel, expr: Expr) -> Type:
    """Type of an expression without lets; raises Mixed with the innermost place."""
    match expr:
        case Const(value=value, dtype=None):
            if isinstance(value, bool):
                return Type("bool", dtypes.bool_)
            return Type("int" if isinstance(value, int) else "float")
        case Const(dtype=dtype) | Cast(dtype=dtype):
            assert dtype is not None
            if isinstance(expr, Cast):
                type_of(kernel, expr.operand)
            else:
                _fits(expr, dtype)
            return Type(dtype.kind, dtype)
        case Index() | ParamRef():
            return Type("int", dtypes.i64)
        case ScalarRef(name=name):
            dtype = {item.name: item.dtype for item in kernel.scalars}[name]
            return Type(dtype.kind, dtype)
        case Access(array=name, indices=indices):
            for part in indices:
                found = type_of(kernel, part)
                if found.kind != "int" or found.dtype in (dtypes.i8, dtypes.u8):
                    raise Mixed(f"a subscript of {name} is {found}", span_of(part), "Use i32(x).")
            dtype = kernel.array(name).dtype
            return Type(dtype.kind, dtype)
        case Call():
            return _call(kernel, expr)
        case NamedCall(operands=operands):
            return _meet(
                [type_of(kernel, operand) for operand in operands], list(operands), span_of(expr)
            )
    raise TypeError(f"not an expression: {expr!r}")


def _call(kernel: Kernel, call: Call) -> Type:
    types = [type_of(kernel, operand) for operand in call.operands]
    operands = list(call.operands)
    name = call.function
    if name == "where":
        if types[0].kind != "bool":
            raise Mixed(f"where needs a bool first, not {types[0]}", span_of(operands[0]))
        types, operands = types[1:], operands[1:]
    elif name == "philox":
        for kind, operand in zip(types, operands, strict=True):
            if kind.kind != "int":
                raise Mixed(f"philox takes whole numbers, not {kind}", span_of(operand))
        return Type("float", dtypes.f32)
    for kind, operand in zip(types, operands, strict=True):
        if kind.kind not in _kinds(name):
            literal = kind.dtype is None and kind.kind == "int" and name in _FLOAT
            if not literal:
                allowed = " or ".join(_kinds(name))
                step = _INSTEAD.get(name, f"{name} takes {allowed}; convert: {_hint(name)}(x).")
                raise Mixed(f"{name} does not take {kind}", span_of(operand), step)
    met = _meet(types, operands, span_of(call))
    return Type("bool", dtypes.bool_) if name in _BOOLEAN else met


def _kinds(name: str) -> tuple[str, ...]:
    if name in _FLOAT:
        return ("float",)
    if name in _INT:
        return ("int",)
    if name in _INT_BOOL:
        return ("int", "bool")
    return ("float", "int", "bool") if name in (*_ANY, "where") else ("float", "int")


def _hint(name: str) -> str:
    return "i32" if name in _INT or name in _INT_BOOL else "f32"


def _meet(types: list[Type], operands: list[Expr], span: Span | None) -> Type:
    found = types[0]
    for other in types[1:]:
        if found.dtype is not None and other.dtype is not None:
            try:
                dtype = promote(found.dtype, other.dtype)
            except TypeError:
                step = (
                    "Convert one of them, as f32(i)." if "int" in (found.kind, other.kind) else ""
                )
                raise Mixed(f"{found} and {other} have no common type", span, step) from None
            assert dtype is not None
            found = Type(dtype.kind, dtype)
        elif found.dtype is None and other.dtype is None:
            found = other if other.kind == "float" else found
        else:
            typed, literal = (found, other) if found.dtype is not None else (other, found)
            if typed.kind != literal.kind and (typed.kind, literal.kind) != ("float", "int"):
                step = f"Write {typed} values, or convert the other side, as f32(i)."
                raise Mixed(f"{literal} does not fit {typed}", span, step)
            found = typed
    if found.dtype is not None and found.dtype.is_int:
        for operand in operands:
            if isinstance(operand, Const) and operand.dtype is None:
                _fits(operand, compute_dtype(found.dtype))
    return found


def _fits(literal: Const, dtype: DType) -> None:
    """Raises Mixed for a literal that the type cannot hold."""
    if not dtype.is_int:
        return
    value = literal.value
    if isinstance(value, float) or not dtype.minimum <= value <= dtype.maximum:
        raise Mixed(
            f"{value} does not fit {dtype}",
            literal.span,
            f"It holds whole numbers from {dtype.minimum} to {dtype.maximum}.",
        )


def find_mixed_kinds(kernel: Kernel) -> Iterator[Finding]:
    """HAL-IR-011."""
    for statement in inline_lets(kernel).assigns:
        for whole in (*statement.targets, statement.value):
            try:
                type_of(kernel, whole)
            except Mixed as error:
                yield error.finding
                break


def find_bad_stores(kernel: Kernel) -> Iterator[Finding]:
    """HAL-IR-012."""
    for statement in inline_lets(kernel).assigns:
        target = kernel.array(statement.target.array)
        span = span_of(statement.value) or statement.span
        if statement.is_reduction and target.dtype.kind == "bool":
            step = "Reduce i32(x) into an i32 temp by max= or min=, then store bool(t)."
            yield Finding(f"{target.name} is bool, it cannot be reduced into", span, step)
            continue
        for operand in _stored(statement):
            try:
                found = type_of(kernel, operand)
            except Mixed:
                return
            if not _storable(found, target.dtype) or not _holds(operand, target.dtype):
                yield Finding(
                    f"{target.name} is {target.dtype}, the value is {found}",
                    span_of(operand) or span,
                    f"Convert it: {target.dtype}(…).",
                )


def _stored(statement: Assign) -> tuple[Expr, ...]:
    """What goes into the first target with its own type."""
    value = statement.value
    if not isinstance(value, NamedCall):
        return (value,)
    return () if value.function in ("argmax", "argmin") else value.operands


def _storable(found: Type, target: DType) -> bool:
    if target.kind in ("float", "float8"):
        return found.kind in ("float", "float8") or (found.kind == "int" and found.dtype is None)
    if found.kind != target.kind:
        return False
    value = found.dtype
    return value is None or (value.minimum >= target.minimum and value.maximum <= target.maximum)


def _holds(value: Expr, target: DType) -> bool:
    """False for a literal that the target cannot hold."""
    if not isinstance(value, Const) or not target.is_int:
        return True
    return not math.isnan(value.value) and target.minimum <= value.value <= target.maximum


def find_bad_pads(kernel: Kernel) -> Iterator[Finding]:
    """HAL-IR-013."""
    for statement in inline_lets(kernel).assigns:
        for item in (
            part for whole in (*statement.targets, statement.value) for part in walk(whole)
        ):
            if not isinstance(item, Access) or item.pad is None:
                continue
            dtype, pad = kernel.array(item.array).dtype, item.pad
            if dtype.kind == "bool":
                good = isinstance(pad, bool)
            elif dtype.is_int:
                good = type(pad) is int and dtype.minimum <= pad <= dtype.maximum
            else:
                good = not isinstance(pad, bool)
            if not good:
                step = "Use false or true." if dtype.kind == "bool" else f"Use a value of {dtype}."
                yield Finding(f"{item.array} is {dtype}, the pad is {pad}", item.span, step)
