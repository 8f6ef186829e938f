"""Exact simplification of one expression: constants, identities, order of operands.

Every rule keeps the value bit for bit under IEEE rules (NaN payloads are free): x · 1 goes, float
x + 0 stays because of −0, constants are combined only where the result is exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from hal import dtypes
from hal.ir.analysis import compute_dtype, dtype_of
from hal.ir.nodes import Access, Call, Cast, Const, Expr, Index, Kernel, ParamRef, ScalarRef
from hal.ir.passes.sums import simplify_sum

__all__ = ["COMMUTATIVE", "simplify"]

COMMUTATIVE = frozenset("add mul max min and or xor eq ne".split())
_IDEMPOTENT = frozenset("max min and or".split())
_EXACT_INTEGERS = 2**31


def simplify(kernel: Kernel, expr: Expr) -> Expr:
    """The simplest equal form of one node whose operands are simple already."""
    if isinstance(expr, Cast):
        return _cast(kernel, expr)
    if not isinstance(expr, Call):
        return expr
    if expr.function in COMMUTATIVE:
        expr = replace(expr, operands=tuple(sorted(expr.operands, key=_order)))
    found = _constant(expr) or _identity(kernel, expr) or _strength(kernel, expr)
    if found is not None:
        return found
    return simplify_sum(expr)


def _order(expr: Expr) -> tuple[int, str]:
    """Arrays and calls first, then scalars, then numbers; equal ranks by content."""
    ranks: dict[type[Expr], int] = {Index: 1, ParamRef: 2, ScalarRef: 3, Const: 4}
    return ranks.get(type(expr), 0), repr(expr)


def _number(expr: Expr) -> int | float | bool | None:
    """The value of a constant that may be combined: its type does not round it further."""
    if not isinstance(expr, Const):
        return None
    return expr.value if expr.dtype in (None, dtypes.f64, dtypes.i32, dtypes.i64) else None


def _constant(expr: Call) -> Const | None:
    """A call on constants as one constant, where that is exact."""
    values = [_number(operand) for operand in expr.operands]
    if not values or any(value is None for value in values):
        return None
    kinds = {operand.dtype for operand in expr.operands if isinstance(operand, Const)}
    if len(kinds) != 1:
        return None
    numbers = [value for value in values if value is not None]
    result: int | float | bool | None = None
    if all(isinstance(value, bool) for value in numbers):
        result = _booleans(expr.function, [bool(value) for value in numbers])
    elif any(isinstance(value, bool) for value in numbers):
        return None
    elif all(isinstance(value, int) for value in numbers):
        result = _integers(expr.function, [int(value) for value in numbers])
    else:
        result = _floats(expr.function, [float(value) for value in numbers])
    if result is None:
        return None
    return Const(result, None if isinstance(result, bool) else next(iter(kinds)), span=expr.span)


def _booleans(function: str, values: list[bool]) -> bool | None:
    table: dict[str, Callable[..., bool]] = {
        "not": lambda a: not a,
        "and": lambda a, b: a and b,
        "or": lambda a, b: a or b,
        "xor": lambda a, b: a != b,
    }
    return table[function](*values) if function in table else None


def _integers(function: str, values: list[int]) -> int | bool | None:
    table: dict[str, Callable[..., int | bool]] = {
        "neg": lambda a: -a,
        "add": lambda a, b: a + b,
        "sub": lambda a, b: a - b,
        "mul": lambda a, b: a * b,
        "idiv": lambda a, b: a // b if b else 0,
        "imod": lambda a, b: a % b if b else 0,
        "max": max,
        "min": min,
        "lt": lambda a, b: a < b,
        "le": lambda a, b: a <= b,
        "eq": lambda a, b: a == b,
        "ne": lambda a, b: a != b,
    }
    if function not in table or any(abs(value) >= _EXACT_INTEGERS for value in values):
        return None
    if function == "neg" and not values[0]:  # a float's -0, when the type is one
        return None
    result = table[function](*values)
    return result if abs(result) < _EXACT_INTEGERS else None


def _floats(function: str, values: list[float]) -> float | bool | None:
    """The result in f64 when no rounding takes part in it."""
    if not all(math.isfinite(value) for value in values):
        return None
    parts = [Fraction(value) for value in values]
    exact: Fraction | None = None
    if function == "neg":
        return -values[0]
    if function == "abs":
        return abs(values[0])
    if function in ("add", "sub", "mul") or (function == "div" and parts[1]):
        a, b = parts
        exact = {"add": a + b, "sub": a - b, "mul": a * b}.get(function)
        exact = a / b if exact is None else exact
    elif function in ("rcp", "sqrt", "rsqrt") and parts[0] > 0:
        root = parts[0] if function == "rcp" else Fraction(math.sqrt(values[0]))
        if function != "rcp" and root * root != parts[0]:
            return None
        exact = root if function == "sqrt" else 1 / root
    if exact is None or exact == 0:  # the sign of a zero is left to the chip
        return None
    try:
        result = float(exact)
    except OverflowError:
        return None
    return result if Fraction(result) == exact else None


def _is(expr: Expr, value: float) -> bool:
    return isinstance(expr, Const) and not isinstance(expr.value, bool) and expr.value == value


def _identity(kernel: Kernel, expr: Call) -> Expr | None:
    """The operand that a call gives back unchanged, None where it changes something."""
    match expr.function, expr.operands:
        case "mul", (x, one) if _is(one, 1):
            return _same_type(kernel, expr, x)
        case "div", (x, one) if _is(one, 1):
            return _same_type(kernel, expr, x)
        case "pow", (x, one) if _is(one, 1):
            return _same_type(kernel, expr, x)
        case "sub", (x, zero) if _is(zero, 0) and math.copysign(1, _value(zero)) > 0:
            return _same_type(kernel, expr, x)
        case "add", (x, zero) if _is(zero, 0) and _is_integer(kernel, x):
            return _same_type(kernel, expr, x)
        case "neg" | "not", (Call(function=inner, operands=(x,)),) if inner == expr.function:
            return x
        case "where", (Const(value=condition), yes, no):
            return _same_type(kernel, expr, yes if condition else no)
        case "where", (_, yes, no) if yes == no:
            return yes
        case function, (x, y) if function in _IDEMPOTENT and x == y:
            return x
        case "and", (x, Const(value=True)):
            return x
        case "or", (x, Const(value=False)):
            return x
    return None


def _value(expr: Expr) -> float:
    assert isinstance(expr, Const)
    return float(expr.value)


def _same_type(kernel: Kernel, whole: Expr, part: Expr) -> Expr | None:
    try:
        return part if dtype_of(kernel, whole) == dtype_of(kernel, part) else None
    except (TypeError, KeyError):  # not well-typed: for the verifier to say
        return None


def _is_integer(kernel: Kernel, expr: Expr) -> bool:
    dtype = dtype_of(kernel, expr)
    return dtype is not None and dtype.is_int


def _strength(kernel: Kernel, expr: Call) -> Expr | None:
    """A cheaper call with the same result: a division by a power of two, a square."""
    match expr.function, expr.operands:
        case "div", (x, Const(value=value) as divisor) if _is_power_of_two(value):
            return Call("mul", (x, replace(divisor, value=1 / float(value))), span=expr.span)
        case "pow", (x, two) if _is(two, 2):
            return Call("mul", (x, x), span=expr.span)
    return None


def _is_power_of_two(value: float) -> bool:
    """True where value and 1 / value are exact in every type that divides (f16 the smallest)."""
    if isinstance(value, bool) or not math.isfinite(value) or value == 0:
        return False
    fraction, exponent = math.frexp(abs(float(value)))
    return fraction == 0.5 and -13 <= exponent - 1 <= 13


def _cast(kernel: Kernel, expr: Cast) -> Expr:
    """The operand, where the conversion changes nothing."""
    inner = dtype_of(kernel, expr.operand)
    if inner != expr.dtype or (expr.saturate and expr.dtype.kind in ("float", "float8")):
        return expr
    exact = compute_dtype(expr.dtype) == expr.dtype
    leaf = isinstance(expr.operand, Access | ScalarRef | Cast)
    return expr.operand if exact or leaf else expr
