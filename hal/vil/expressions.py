"""Integer expressions over symbols: objects, checked evaluation, infix and postfix forms."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Union

from hal.vil.errors import VilError, VilRefused

__all__ = [
    "CODES",
    "I64_MAX",
    "I64_MIN",
    "Binary",
    "Const",
    "Expr",
    "ExprLike",
    "Symbol",
    "as_expr",
    "ceil_div",
    "decode_postfix",
    "encode_postfix",
    "evaluate",
    "floor_div",
    "maximum",
    "minimum",
    "show",
    "stack_depth",
    "symbols_of",
]

I64_MIN, I64_MAX = -(2**63), 2**63 - 1
MAX_STACK = 16
MAX_CODE_BYTES = 512
CODES = {
    "const": 1,
    "symbol": 2,
    "+": 3,
    "-": 4,
    "*": 5,
    "/": 6,
    "%": 7,
    "ceildiv": 8,
    "min": 9,
    "max": 10,
}
_NAMES = {number: name for name, number in CODES.items()}
_PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2, "%": 2}

ExprLike = Union["Expr", int]


class Expr:
    """Root of the three kinds; Python's arithmetic operators build bigger expressions."""

    __slots__ = ()

    def __add__(self, other: ExprLike) -> Expr:
        return Binary("+", self, as_expr(other))

    def __radd__(self, other: ExprLike) -> Expr:
        return Binary("+", as_expr(other), self)

    def __sub__(self, other: ExprLike) -> Expr:
        return Binary("-", self, as_expr(other))

    def __rsub__(self, other: ExprLike) -> Expr:
        return Binary("-", as_expr(other), self)

    def __mul__(self, other: ExprLike) -> Expr:
        return Binary("*", self, as_expr(other))

    def __rmul__(self, other: ExprLike) -> Expr:
        return Binary("*", as_expr(other), self)

    def __floordiv__(self, other: ExprLike) -> Expr:
        return Binary("/", self, as_expr(other))

    def __mod__(self, other: ExprLike) -> Expr:
        return Binary("%", self, as_expr(other))


@dataclass(frozen=True, slots=True)
class Const(Expr):
    """A literal i64."""

    value: int


@dataclass(frozen=True, slots=True)
class Symbol(Expr):
    """A symbol argument of a kernel, or symbol parameter of a program, by name."""

    name: str


@dataclass(frozen=True, slots=True)
class Binary(Expr):
    """`left operation right`; the operation is a key of CODES."""

    operation: str
    left: Expr
    right: Expr


def as_expr(value: ExprLike) -> Expr:
    """An int becomes a constant; an expression stays."""
    if isinstance(value, Expr):
        return value
    return Const(int(value))


def ceil_div(left: ExprLike, right: ExprLike) -> Expr:
    """left / right, rounded up."""
    return Binary("ceildiv", as_expr(left), as_expr(right))


def floor_div(left: ExprLike, right: ExprLike) -> Expr:
    """left / right, rounded down."""
    return Binary("/", as_expr(left), as_expr(right))


def minimum(left: ExprLike, right: ExprLike) -> Expr:
    """The smaller of two."""
    return Binary("min", as_expr(left), as_expr(right))


def maximum(left: ExprLike, right: ExprLike) -> Expr:
    """The larger of two."""
    return Binary("max", as_expr(left), as_expr(right))


_COMPUTE: dict[str, Callable[[int, int], int]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "/": lambda left, right: left // right,
    "%": lambda left, right: left % right,
    "ceildiv": lambda left, right: -(-left // right),
    "min": min,
    "max": max,
}


def evaluate(expr: Expr, symbols: Mapping[str, int]) -> int:
    """The value, in checked i64 arithmetic.

    Raises:
        VilRefused: overflow, or a division by zero.
    """
    if isinstance(expr, Const):
        return _checked(expr.value, expr)
    if isinstance(expr, Symbol):
        return symbols[expr.name]
    assert isinstance(expr, Binary)
    left, right = evaluate(expr.left, symbols), evaluate(expr.right, symbols)
    if right == 0 and expr.operation in ("/", "%", "ceildiv"):
        raise VilRefused(f"division by zero in the expression {show(expr)}")
    return _checked(_COMPUTE[expr.operation](left, right), expr)


def _checked(value: int, expr: Expr) -> int:
    if not I64_MIN <= value <= I64_MAX:
        raise VilRefused(f"the expression {show(expr)} overflows 64 bits")
    return value


def symbols_of(expr: Expr) -> frozenset[str]:
    """Names of the symbols in an expression."""
    if isinstance(expr, Symbol):
        return frozenset((expr.name,))
    if isinstance(expr, Binary):
        return symbols_of(expr.left) | symbols_of(expr.right)
    return frozenset()


def stack_depth(expr: Expr) -> int:
    """Stack that the postfix code needs."""
    if isinstance(expr, Binary):
        return max(stack_depth(expr.left), 1 + stack_depth(expr.right))
    return 1


def show(expr: Expr, outer: int = 0, right_side: bool = False) -> str:
    """Infix text with as few parentheses as its grammar allows."""
    if isinstance(expr, Const):
        return str(expr.value)
    if isinstance(expr, Symbol):
        return expr.name
    assert isinstance(expr, Binary)
    precedence = _PRECEDENCE.get(expr.operation)
    if precedence is None:
        return f"{expr.operation}({show(expr.left)}, {show(expr.right)})"
    left = show(expr.left, precedence)
    right = show(expr.right, precedence, True)
    text = f"{left} {expr.operation} {right}"
    needs = precedence < outer or (precedence == outer and right_side)
    return f"({text})" if needs else text


def encode_postfix(expr: Expr, symbol_index: Mapping[str, int]) -> bytes:
    """Postfix code (docs/vil.md, section 4.2)."""
    if isinstance(expr, Const):
        return struct.pack("<Bq", CODES["const"], expr.value)
    if isinstance(expr, Symbol):
        return struct.pack("<BH", CODES["symbol"], symbol_index[expr.name])
    assert isinstance(expr, Binary)
    left = encode_postfix(expr.left, symbol_index)
    return left + encode_postfix(expr.right, symbol_index) + bytes((CODES[expr.operation],))


def decode_postfix(code: bytes, symbol_names: Sequence[str | None]) -> Expr:
    """The expression of a postfix code.

    Args:
        code: Bytes of one expression.
        symbol_names: Name per argument or parameter index; None where that is no symbol.

    Raises:
        VilError: the code is malformed; the message says where.
    """
    if len(code) > MAX_CODE_BYTES:
        raise VilError(f"expression code of {len(code)} bytes; at most {MAX_CODE_BYTES}")
    stack: list[Expr] = []
    position = 0
    while position < len(code):
        start, name = position, _NAMES.get(code[position])
        position += 1
        if name == "const":
            if position + 8 > len(code):
                raise VilError(f"expression byte {start}: a constant of 8 bytes is cut short")
            stack.append(Const(struct.unpack_from("<q", code, position)[0]))
            position += 8
        elif name == "symbol":
            if position + 2 > len(code):
                raise VilError(f"expression byte {start}: a symbol index of 2 bytes is cut short")
            index = struct.unpack_from("<H", code, position)[0]
            position += 2
            symbol = symbol_names[index] if index < len(symbol_names) else None
            if symbol is None:
                raise VilError(f"expression byte {start}: {index} is not the index of a symbol")
            stack.append(Symbol(symbol))
        elif name is None:
            raise VilError(f"expression byte {start}: code {code[start]}; allowed 1 to 10")
        else:
            if len(stack) < 2:
                raise VilError(f"expression byte {start}: {name} needs two operands")
            right = stack.pop()
            stack.append(Binary(name, stack.pop(), right))
        if len(stack) > MAX_STACK:
            raise VilError(f"expression byte {start}: the stack is deeper than {MAX_STACK}")
    if len(stack) != 1:
        raise VilError(f"expression leaves {len(stack)} values on the stack; exactly 1 is right")
    return stack[0]
