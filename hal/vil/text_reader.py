"""The text form to objects: kernels, programs and their tables (docs/vil.md, section 3)."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable
from typing import NoReturn

from hal import dtypes
from hal.dtypes import DType
from hal.vil.errors import VilTextError
from hal.vil.expressions import I64_MAX, I64_MIN, MAX_STACK, Binary, Const, Expr, Symbol
from hal.vil.expressions import stack_depth as depth_of
from hal.vil.lexer import Word, words_of
from hal.vil.model import (
    SReg,
    Value,
)

__all__ = ["TextReader"]

_DTYPES = tuple(dtype.name for dtype in dtypes.ALL)
_SCALARS = ("f32", "f64", "i32", "i64")
_CONSTANT_NAMES = ("inf", "nan", "true", "false")
_MAX_NESTING = 60


class TextReader:
    """A recursive-descent reader; every method leaves the position behind what it read."""

    def __init__(self, text: str, file: str) -> None:
        self.file = file
        self.lines = text.split("\n")
        self.words = words_of(text, file)
        self.position = 0
        self.symbols: set[str] = set()
        self._nesting = 0

    # --- words -------------------------------------------------------------------------------

    @property
    def word(self) -> Word:
        """The next word."""
        return self.words[self.position]

    def fail(self, problem: str, *, allowed: str = "", at: Word | None = None) -> NoReturn:
        """Raises at a word, the next one by default."""
        word = at or self.word
        source = self.lines[word.line - 1] if word.line <= len(self.lines) else ""
        raise VilTextError(
            problem,
            file=self.file,
            line=word.line,
            column=word.column,
            source=source,
            allowed=allowed,
        )

    def next(self) -> Word:
        """Takes the next word."""
        word = self.word
        if word.kind != "end":
            self.position += 1
        return word

    def at(self, text: str) -> bool:
        """True when the next word is this name or mark."""
        return self.word.text == text and self.word.kind in ("name", "mark")

    def take(self, text: str) -> bool:
        """Takes the next word if it is this one."""
        if self.at(text):
            self.position += 1
            return True
        return False

    def expect(self, text: str) -> Word:
        """Takes this word or fails."""
        if not self.at(text):
            self.fail(f"found {self.word.shown()}", allowed=f"`{text}`")
        return self.next()

    def newline(self) -> None:
        """Takes the end of a statement and the blank lines behind it."""
        if self.word.kind != "newline":
            self.fail(
                f"found {self.word.shown()} behind a statement", allowed="the end of the line"
            )
        self.blank_lines()

    def blank_lines(self) -> None:
        """Skips empty lines."""
        while self.word.kind == "newline":
            self.position += 1

    def name(self, what: str) -> str:
        """Takes a name of at most 63 bytes."""
        word = self.word
        if word.kind != "name":
            self.fail(f"found {word.shown()}", allowed=what)
        if len(word.text) > 63:
            self.fail(f"a name of {len(word.text)} bytes", allowed="at most 63")
        if word.text in _CONSTANT_NAMES:
            self.fail(f"`{word.text}` is a constant", allowed=what)
        return self.next().text

    def choice(self, what: str, allowed: Iterable[str]) -> str:
        """Takes one of a closed list of words; suggests the nearest."""
        names = list(allowed)
        if self.word.kind != "name" or self.word.text not in names:
            near = difflib.get_close_matches(self.word.text, names, 1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            self.fail(f"{self.word.shown()} is not {what}{hint}", allowed=" ".join(names))
        return self.next().text

    def integer(self, what: str, low: int, high: int) -> int:
        """Takes an integer in [low, high]."""
        word = self.word
        if word.kind != "int":
            self.fail(f"found {word.shown()}", allowed=f"{what}, an integer")
        if len(word.text) > 20 or not low <= int(word.text) <= high:
            self.fail(f"{what} is {word.text[:24]}", allowed=f"{low} to {high}")
        return int(self.next().text)

    def declare(self, names: set[str], what: str) -> str:
        """Takes a new name of a scope."""
        word = self.word
        name = self.name(f"the name of {what}")
        if name in names:
            self.fail(f"`{name}` is already declared here", allowed="a new name", at=word)
        names.add(name)
        return name

    def known(self, names: Iterable[str], what: str) -> str:
        """Takes a name that is declared."""
        word = self.word
        name = self.name(f"the name of {what}")
        listed = list(names)
        if name not in listed:
            near = difflib.get_close_matches(name, listed, 1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            allowed = " ".join(listed[:12]) or f"there is no {what}"
            self.fail(f"`{name}` is not {what}{hint}", allowed=allowed, at=word)
        return name

    def dtype(self, allowed: Iterable[str] = _DTYPES) -> DType:
        """Takes an element type."""
        return dtypes.by_name(self.choice("an element type", allowed))

    # --- expressions and values ----------------------------------------------------------------

    def expression(self) -> Expr:
        """Takes an expression over the scope's symbols."""
        start = self.word
        self._nesting += 1
        if self._nesting > _MAX_NESTING:
            self.fail("the expression is nested too deeply", allowed=f"{_MAX_NESTING} levels")
        expr = self._product()
        while self.at("+") or self.at("-"):
            operation = self.next().text
            expr = self._binary(operation, expr, self._product(), start)
        self._nesting -= 1
        return expr

    def _binary(self, operation: str, left: Expr, right: Expr, start: Word) -> Expr:
        expr = Binary(operation, left, right)
        if depth_of(expr) > MAX_STACK:
            self.fail("the expression needs too much stack", allowed=f"{MAX_STACK}", at=start)
        if _size_of(expr) > 512:
            self.fail("the expression is too long", allowed="512 bytes of code", at=start)
        return expr

    def _product(self) -> Expr:
        start = self.word
        expr = self._atom()
        while self.at("*") or self.at("/") or self.at("%"):
            operation = self.next().text
            expr = self._binary(operation, expr, self._atom(), start)
        return expr

    def _atom(self) -> Expr:
        word = self.word
        if word.kind == "int" or self.at("-"):
            return Const(self.signed("a 64-bit integer"))
        if self.take("("):
            expr = self.expression()
            self.expect(")")
            return expr
        if word.kind != "name":
            self.fail(
                f"found {word.shown()}",
                allowed="an integer, a symbol, ( … ), ceildiv( … ), min( … ) or max( … )",
            )
        if word.text in ("ceildiv", "min", "max") and self.words[self.position + 1].text == "(":
            self.next()
            self.expect("(")
            left = self.expression()
            self.expect(",")
            right = self.expression()
            self.expect(")")
            return self._binary(word.text, left, right, word)
        return Symbol(self.known(sorted(self.symbols), "a symbol"))

    def signed(self, what: str) -> int:
        """Takes an integer with an optional minus sign, within i64."""
        start = self.word
        negative = self.take("-")
        word = self.word
        if word.kind != "int":
            self.fail(f"found {word.shown()}", allowed=what)
        number = int(word.text) if len(word.text) <= 20 else I64_MAX + 2
        number = -number if negative else number
        if not I64_MIN <= number <= I64_MAX:
            self.fail("the integer does not fit 64 bits", allowed=what, at=start)
        self.next()
        return number

    def value(self) -> Value:
        """Takes `%n` or an expression."""
        if self.take("%"):
            return SReg(self.integer("the number of an SREG", 0, 4095))
        return self.expression()

    def constant(self, dtype: DType) -> float | int:
        """Takes a constant of an element type."""
        start = self.word
        negative = self.take("-")
        word = self.next()
        floats = dtype.kind in ("float", "float8")
        if floats and word.text in ("inf", "nan"):
            number: float | int = math.nan if word.text == "nan" else math.inf
        elif floats and word.kind in ("int", "float"):
            number = float(word.text)
        elif dtype.kind == "bool" and word.text in ("true", "false"):
            number = int(word.text == "true")
        elif not floats and word.kind == "int" and len(word.text) <= 20:
            number = int(word.text)
        else:
            kind = "a number, inf or nan" if floats else "an integer"
            self.fail(f"found {word.shown()}", allowed=f"{kind} for {dtype}", at=word)
        number = -number if negative and number == number else number
        if not floats and not dtype.minimum <= number <= dtype.maximum:
            allowed = f"{dtype.minimum} to {dtype.maximum}"
            self.fail(f"{number} does not fit {dtype}", allowed=allowed, at=start)
        return number

    def separated(self, close: str, read: Callable[[], None]) -> None:
        """Takes a comma-separated list up to a closing mark; the opening one is already taken."""
        if self.take(close):
            return
        while True:
            read()
            if self.take(close):
                return
            if not self.take(","):
                self.fail(f"found {self.word.shown()}", allowed=f"`,` or `{close}`")

    def expressions(self, most: int, what: str) -> tuple[Expr, ...]:
        """Takes `( expr, … )` with at most `most` entries."""
        start = self.word
        found: list[Expr] = []
        self.expect("(")
        self.separated(")", lambda: found.append(self.expression()))
        if len(found) > most:
            self.fail(f"{what} has {len(found)} entries", allowed=f"at most {most}", at=start)
        return tuple(found)

    # --- what kernels and programs share ----------------------------------------------------

    def declare_symbols(self) -> None:
        """Finds the block's symbols ahead, so that their order does not matter."""
        words = self.words
        for index in range(self.position, len(words) - 3):
            if words[index].text == "}" and words[index - 1].kind == "newline":
                return
            head, name, colon, kind = words[index : index + 4]
            if head.text in ("arg", "param") and (colon.text, kind.text) == (":", "symbol"):
                self.symbols.add(name.text)

    def kind(self) -> tuple[str, DType | None, str]:
        """Takes `symbol`, `scalar DTYPE` or `DTYPE ACCESS`."""
        if self.take("symbol"):
            return "symbol", None, ""
        if self.take("scalar"):
            return "scalar", self.dtype(_SCALARS), ""
        if self.word.text not in _DTYPES:
            self.choice("a kind", ("symbol", "scalar", *_DTYPES))
        dtype = self.dtype()
        return "buffer", dtype, self.choice("an access", ("read", "write", "inout"))


def _size_of(expr: Expr) -> int:
    if isinstance(expr, Binary):
        return 1 + _size_of(expr.left) + _size_of(expr.right)
    return 9 if isinstance(expr, Const) else 3
