"""The expressions of the text form, read by precedence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from difflib import get_close_matches
from typing import NoReturn

from hal.ir.errors import IrTextError
from hal.ir.lexer import DTYPES, RESERVED, Word, words_of
from hal.ir.nodes import (
    BINARY,
    NAMED_CALLS,
    UNARY,
    Access,
    Call,
    Cast,
    Const,
    Expr,
    Index,
    NamedCall,
    Span,
    children,
)

__all__ = [
    "FLAGS",
    "INSTEAD",
    "MAX_DEPTH",
    "OPERATORS",
    "UNARY_BINDS",
    "ExpressionReader",
    "depth_of",
]

OPERATORS: dict[str, tuple[int, str]] = {
    "or": (1, "or"),
    "xor": (2, "xor"),
    "and": (3, "and"),
    "<": (5, "lt"),
    "<=": (5, "le"),
    ">": (5, "lt"),  # a > b is b < a
    ">=": (5, "le"),
    "==": (5, "eq"),
    "!=": (5, "ne"),
    "+": (6, "add"),
    "-": (6, "sub"),
    "*": (7, "mul"),
    "/": (7, "div"),
    "//": (7, "idiv"),
    "%": (7, "imod"),
}
"""Operator -> how tightly it binds, its function. `not` binds as 4, the unary minus as 8."""
UNARY_BINDS = {"not": 4, "neg": 8}
_COMPARISON = 5

FLAGS: dict[str, frozenset[str]] = {
    "scan_add": frozenset({"exclusive", "reverse"}),
    "scan_mul": frozenset({"exclusive", "reverse"}),
    "scan_max": frozenset({"exclusive", "reverse"}),
    "scan_min": frozenset({"exclusive", "reverse"}),
    "argmax": frozenset(),
    "argmin": frozenset(),
    "topk": frozenset({"smallest"}),
    "sort": frozenset({"descending"}),
    "concat": frozenset(),
}
"""Flags that a named call may have."""

MAX_NESTING = 60
MAX_DEPTH = 120
_MAX_INT_DIGITS = 19
_SUM = "A sum is a statement: C[i] += X[i, k]."
INSTEAD = {
    "sum": _SUM,
    "mean": _SUM,
    "prod": "A product is a statement: C[i] *= X[i, k].",
    "softmax": "hal.ops has its text: three statements with temps.",
    "sigmoid": "Write 1 / (1 + exp(-x)).",
    "relu": "Write max(x, 0).",
    "if": "Write where(condition, a, b).",
    "else": "Write where(condition, a, b).",
    "for": "Indices run by themselves; write one statement.",
}
"""What to write for words of other languages."""
_FUNCTIONS = (*UNARY, *BINARY, *NAMED_CALLS, *DTYPES, "where", "philox")


def depth_of(expr: Expr) -> int:
    """Levels of an expression, a leaf is 1; without recursion."""
    deepest, stack = 0, [(expr, 1)]
    while stack:
        item, depth = stack.pop()
        deepest = max(deepest, depth)
        stack += [(child, depth + 1) for child in children(item)]
    return deepest


class ExpressionReader:
    """A recursive-descent reader; every method leaves the position behind what it read."""

    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = file
        self.words, self.comments = words_of(text, file)
        self.position = 0
        self._nesting = 0

    # --- words -------------------------------------------------------------------------------

    @property
    def word(self) -> Word:
        """The next word."""
        return self.words[self.position]

    def next(self) -> Word:
        """Takes the next word."""
        word = self.word
        if word.kind != "end":
            self.position += 1
        return word

    def at(self, text: str) -> bool:
        """True when the next word is this one."""
        return self.word.text == text and self.word.kind not in ("string", "end")

    def take(self, text: str) -> bool:
        """Takes the next word if it is this one."""
        if self.at(text):
            self.position += 1
            return True
        return False

    def expect(self, text: str) -> Word:
        """Takes this word or fails."""
        if not self.at(text):
            self.fail(f"expected `{text}`, found {self.word.shown()}")
        return self.next()

    def name_word(self, what: str) -> Word:
        """Takes a name that is free to use."""
        word = self.word
        if word.kind != "name":
            self.fail(f"expected {what}, found {word.shown()}")
        if word.text in RESERVED:
            self.fail(
                f"expected {what}, found {word.shown()}, a word of the language",
                next_step="Choose another name.",
            )
        return self.next()

    def span_from(self, start: Word) -> Span:
        """From a word to the last one taken, as far as they share a line."""
        last = self.words[max(self.position - 1, 0)].span
        end = last.end if last.line == start.span.line else start.span.end
        return Span(start.span.line, start.span.column, end)

    def fail(self, problem: str, *, at: Word | None = None, next_step: str = "") -> NoReturn:
        """Raises at a word, the next one by default."""
        self.fail_at((at or self.word).span, problem, next_step=next_step)

    def fail_at(self, span: Span | None, problem: str, *, next_step: str = "") -> NoReturn:
        """Raises at a place."""
        place = span or Span(1, 1, 2)
        raise IrTextError(
            problem, file=self.file, span=place, source=self.text, next_step=next_step
        )

    def fail_word(self, expected: str, known: Sequence[str]) -> NoReturn:
        """Raises at a word that is not what may stand there, with the nearest that may."""
        near = get_close_matches(self.word.text[:40], known, n=1, cutoff=0.6)
        hint = f"Did you mean `{near[0]}`?" if near and near[0] != self.word.text else ""
        self.fail(f"expected {expected}, found {self.word.shown()}", next_step=hint)

    # --- expressions -------------------------------------------------------------------------

    def expression(self, *, named: bool = False) -> Expr:
        """A whole expression; `named` allows a named call alone."""
        start = self.word
        if start.text in NAMED_CALLS and self.words[self.position + 1].text == "(":
            if not named:
                self.fail(
                    f"{start.text} stands alone on the right of a statement",
                    next_step="Put its result into a temp array first.",
                )
            found: Expr = self.named_call(self.next())
            if self.word.text in OPERATORS:
                self.fail(
                    f"{start.text} stands alone on the right of a statement",
                    next_step="Put its result into a temp array first.",
                )
        else:
            found = self.binary(0)
        if depth_of(found) > MAX_DEPTH:
            self.fail(
                f"the expression is more than {MAX_DEPTH} levels deep",
                at=start,
                next_step="Give parts of it to temp arrays.",
            )
        return found

    def binary(self, least: int) -> Expr:
        """Operators that bind at least as tightly as `least`, from the left."""
        if self._nesting >= MAX_NESTING:
            self.fail(
                f"more than {MAX_NESTING} levels of parentheses",
                next_step="Give parts of it a name by `let`.",
            )
        self._nesting += 1
        start = self.word
        left = self.unary()
        while self.word.kind in ("name", "mark") and self.word.text in OPERATORS:
            operator = self.word
            binds, function = OPERATORS[operator.text]
            if binds < least:
                break
            self.next()
            right = self.binary(binds + 1)
            pair = (right, left) if operator.text in (">", ">=") else (left, right)
            left = Call(function, pair, span=self.span_from(start))
            following = OPERATORS.get(self.word.text)
            if binds == _COMPARISON and following and following[0] == _COMPARISON:
                self.fail("comparisons do not chain", next_step="Write `a < b and b < c`.")
        self._nesting -= 1
        return left

    def unary(self) -> Expr:
        """not, minus, or an atom; a minus before a number belongs to the number."""
        start = self.word
        if self.take("not"):
            operand = self.binary(UNARY_BINDS["not"])
            return Call("not", (operand,), span=self.span_from(start))
        if self.at("-"):
            if self.is_number(self.words[self.position + 1]):
                value = self.literal()
                return Const(value, span=self.span_from(start))
            self.next()
            operand = self.binary(UNARY_BINDS["neg"])
            return Call("neg", (operand,), span=self.span_from(start))
        return self.atom()

    def is_number(self, word: Word) -> bool:
        """True for a word that starts a literal with a sign."""
        return word.kind in ("int", "float") or (
            word.kind == "name" and word.text in ("inf", "nan")
        )

    def literal(self) -> int | float | bool:
        """[-] number, inf, nan, true or false."""
        sign = -1 if self.take("-") else 1
        word = self.word
        if word.kind == "int":
            digits = word.text.lstrip("0") or "0"
            value = int(digits) if len(digits) <= _MAX_INT_DIGITS else 2**64
            if not -(2**63) <= sign * value < 2**63:
                self.fail("the number does not fit 64 bits")
            self.next()
            return sign * value
        if word.kind == "float":
            number = float(word.text)
            if math.isinf(number):
                self.fail("the number is too large for 64 bits", next_step="Write `inf`.")
            self.next()
            return sign * number
        if word.text in ("inf", "nan"):
            self.next()
            return math.nan if word.text == "nan" else sign * math.inf
        if sign == -1 or word.text not in ("true", "false"):
            self.fail(f"expected a number, found {word.shown()}")
        return self.next().text == "true"

    def atom(self) -> Expr:
        """A literal, a name, an access, a call, or an expression in parentheses."""
        word = self.word
        if self.is_number(word) or word.text in ("true", "false"):
            value = self.literal()
            return Const(value, span=self.span_from(word))
        if self.take("("):
            found = self.binary(0)
            self.expect(")")
            return found
        if word.kind != "name":
            power = word.text == "*" and self.words[self.position - 1].text == "*"
            step = "A power is pow(a, b)." if power else ""
            self.fail(f"expected a value, found {word.shown()}", next_step=step)
        following = self.words[self.position + 1].text
        if following == "(":
            return self.call(self.next())
        if following == "[":
            return self.access(self.name_word("an array"))
        return Index(self.name_word("a value").text, span=word.span)

    def items(self, closing: str) -> tuple[Expr, ...]:
        """Expressions separated by commas, up to the closing mark; may be none."""
        found: list[Expr] = []
        if self.take(closing):
            return ()
        while True:
            found.append(self.binary(0))
            if self.take(closing):
                return tuple(found)
            if not self.take(","):
                self.fail(f"expected `,` or `{closing}`, found {self.word.shown()}")

    def access(self, word: Word) -> Access:
        """What stands behind an array's name."""
        self.expect("[")
        indices = self.items("]")
        pad = self.literal() if self.take("pad") else None
        return Access(word.text, indices, pad, span=self.span_from(word))

    def call(self, word: Word) -> Expr:
        """What stands behind a function's name."""
        name = word.text
        if name in NAMED_CALLS:
            self.fail(
                f"{name} stands alone on the right of a statement",
                at=word,
                next_step="Put its result into a temp array first.",
            )
        if name in DTYPES:
            return self.cast(word)
        count = 3 if name in ("where", "philox") else 2 if name in BINARY else 1
        if count == 1 and name not in UNARY:
            near = get_close_matches(name[:40], _FUNCTIONS, n=1, cutoff=0.6)
            step = f"Did you mean `{near[0]}`?" if near else f"An array is {name[:40]}[i, j]."
            step = INSTEAD.get(name, step)
            self.fail(f"there is no function {name[:40]}", at=word, next_step=step)
        self.expect("(")
        operands = self.items(")")
        if len(operands) != count:
            self.fail(f"{name} takes {count} operands, found {len(operands)}", at=word)
        return Call(name, operands, span=self.span_from(word))

    def cast(self, word: Word) -> Expr:
        """dtype(value [, saturate]); of a bare literal: a literal of that type."""
        dtype = DTYPES[word.text]
        self.expect("(")
        bare = not self.at("(")
        operand = self.binary(0)
        saturate = False
        if self.take(","):
            if not self.take("saturate"):
                self.fail(f"expected `saturate`, found {self.word.shown()}")
            saturate = True
        self.expect(")")
        span = self.span_from(word)
        if bare and not saturate and isinstance(operand, Const) and operand.dtype is None:
            return Const(operand.value, dtype, span=span)
        return Cast(dtype, operand, saturate, span=span)

    def named_call(self, word: Word) -> NamedCall:
        """name(value {, value}, axis {, flag})"""
        self.expect("(")
        parts: list[Expr] = []
        flags: set[str] = set()
        known = FLAGS[word.text]
        while not self.take(")"):
            if len(parts) > 1 and self.word.text in known:
                if self.word.text in flags:
                    self.fail(f"the flag {self.word.text} stands twice")
                flags.add(self.next().text)
            else:
                parts.append(self.binary(0))
            if not self.at(")"):
                self.expect(",")
        axis = parts.pop() if parts else None
        if not isinstance(axis, Index) or not parts:
            what = " or a flag: " + ", ".join(sorted(known)) if known else ""
            self.fail(
                f"{word.text} needs the index that it runs along{what}",
                at=word,
                next_step=f"Write {word.text}(X[i, j], j).",
            )
        if len(parts) > 1 and word.text != "concat":
            self.fail(f"{word.text} takes 1 value, found {len(parts)}", at=word)
        return NamedCall(
            word.text, tuple(parts), axis.name, frozenset(flags), span=self.span_from(word)
        )
