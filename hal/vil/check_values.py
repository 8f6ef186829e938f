"""Validator: names, kinds, constants and expressions, wherever they stand."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from hal.vil.expressions import (
    I64_MAX,
    I64_MIN,
    MAX_CODE_BYTES,
    MAX_STACK,
    Binary,
    Const,
    Expr,
    Symbol,
    encode_postfix,
    stack_depth,
    symbols_of,
)
from hal.vil.problems import Problem
from hal.vil.tables import ACCESS

__all__ = ["constant_problem", "expression_problem", "kind_problem", "name_problems"]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_CONSTANT_NAMES = ("inf", "nan", "true", "false")
_SCALARS = ("f32", "f64", "i32", "i64")


def name_problems(where: str, what: str, names: Iterable[str]) -> Iterator[Problem]:
    seen: set[str] = set()
    for name in names:
        if not _NAME.fullmatch(name) or name in _CONSTANT_NAMES:
            yield Problem(where, f"{what}: {name!r} is not a name", "structure")
        if name in seen:
            yield Problem(where, f"{what}: two are called {name}", "structure")
        seen.add(name)


def expression_problem(expr: Expr, symbols: Iterable[str]) -> str:
    """Why an expression is not allowed, or an empty text."""
    unknown = symbols_of(expr) - frozenset(symbols)
    if unknown:
        return f"{', '.join(sorted(unknown))} is not a symbol here"
    if stack_depth(expr) > MAX_STACK:
        return f"an expression needs {stack_depth(expr)} stack entries; at most {MAX_STACK}"
    if any(not I64_MIN <= value <= I64_MAX for value in _constants(expr)):
        return "a constant does not fit 64 bits"
    index = dict.fromkeys(symbols, 0)
    size = len(encode_postfix(expr, index))
    if size > MAX_CODE_BYTES:
        return f"an expression of {size} bytes of code; at most {MAX_CODE_BYTES}"
    return ""


def _constants(expr: Expr) -> Iterator[int]:
    if isinstance(expr, Const):
        yield expr.value
    elif isinstance(expr, Binary):
        yield from _constants(expr.left)
        yield from _constants(expr.right)
    else:
        assert isinstance(expr, Symbol)


def kind_problem(kind: str, dtype: str | None, access: str) -> str:
    """Why a parameter or argument is not allowed, or an empty text."""
    if kind == "buffer":
        if dtype is None:
            return "a buffer needs an element type"
        return "" if access in ACCESS else f"access {access!r}; allowed: {' '.join(ACCESS)}"
    if kind == "scalar":
        return "" if dtype in _SCALARS and not access else f"a scalar is one of {_SCALARS}"
    if kind == "symbol":
        return "" if dtype is None and not access else "a symbol has neither dtype nor access"
    return f"kind {kind!r}; allowed: buffer scalar symbol"


def constant_problem(constant: Any, dtype: Any) -> str:
    """Why a constant does not suit an element type, or an empty text."""
    if dtype.kind in ("float", "float8"):
        return "" if isinstance(constant, int | float) else f"{constant!r} is not a number"
    if not isinstance(constant, int) or not dtype.minimum <= constant <= dtype.maximum:
        return f"{constant!r} does not fit {dtype}"
    return ""
