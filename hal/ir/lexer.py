"""Words of the text form, each with its place."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hal import dtypes
from hal.dtypes import DType
from hal.ir.errors import IrTextError
from hal.ir.nodes import BINARY, NAMED_CALLS, UNARY, Span

__all__ = ["DTYPES", "NAME", "RESERVED", "Comment", "Word", "words_of"]

DTYPES: dict[str, DType] = {dtype.name: dtype for dtype in dtypes.ALL}
DTYPES |= {"float": dtypes.f32, "int": dtypes.i32}
"""Element types by their names in a text; `float` and `int` are the 32-bit ones."""

_KEYWORDS = "kernel schedule param index scalar input output inout temp let operation"
RESERVED = frozenset(f"{_KEYWORDS} pad where philox inf nan true false".split())
RESERVED |= UNARY | BINARY | NAMED_CALLS | DTYPES.keys()
"""Words that cannot name an array, index, param, scalar or let; a kernel they can."""

NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_WORD = re.compile(
    r"(?P<space>[ \t\r\n]+)"
    r"|(?P<comment>\#[^\n]*)"
    r"|(?P<assign>(?:max|min)=(?!=)|[-+*/%]=(?!=))"
    rf"|(?P<name>{NAME})"
    r"|(?P<float>[0-9]+(?:\.[0-9]*(?:[eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+)|\.[0-9]+(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<int>[0-9]+)"
    r'|(?P<string>"[^"\n]*")'
    r"|(?P<mark>//|<=|>=|==|!=|[-+*/%<>=(){}\[\],:;])"
)


@dataclass(frozen=True, slots=True)
class Word:
    """One word: kind is `name`, `int`, `float`, `string`, `assign`, `mark` or `end`."""

    kind: str
    text: str
    span: Span

    def shown(self) -> str:
        """How a message names the word."""
        return "the end of the text" if self.kind == "end" else f"`{self.text[:40]}`"


@dataclass(frozen=True, slots=True)
class Comment:
    """`# text`; `alone` when nothing else stands on its line."""

    line: int
    text: str
    alone: bool


def words_of(text: str, file: str) -> tuple[list[Word], list[Comment]]:
    """All words, with an `end` behind the last; raises IrTextError for a foreign character."""
    words: list[Word] = []
    comments: list[Comment] = []
    line, line_start, position = 1, 0, 0
    while position < len(text):
        match = _WORD.match(text, position)
        column = position - line_start + 1
        if match is None:
            problem = f"the character {text[position]!r} belongs to no word"
            if text[position] == '"':
                problem = "the string has no closing quote on its line"
            span = Span(line, column, column + 1)
            raise IrTextError(problem, file=file, span=span, source=text)
        kind, found = match.lastgroup or "", match.group()
        position = match.end()
        if kind == "comment":
            alone = not words or words[-1].span.line != line
            comments.append(Comment(line, found.rstrip(), alone))
        elif kind != "space":
            words.append(Word(kind, found, Span(line, column, column + len(found))))
        elif "\n" in found:
            line += found.count("\n")
            line_start = match.start() + found.rindex("\n") + 1
    column = position - line_start + 1
    words.append(Word("end", "", Span(line, column, column + 1)))
    return words, comments
