"""Words of the text form, each with line and column."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hal.vil.errors import VilTextError

__all__ = ["Word", "words_of"]

_WORD = re.compile(
    r"(?P<space>[ \t\r]+|\#[^\n]*)"
    r"|(?P<newline>\n)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<float>[0-9]+(?:\.[0-9]*(?:[eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+))"
    r"|(?P<int>[0-9]+)"
    r"|(?P<mark>->|[-+*/%(){}\[\],:=@.])"
)


@dataclass(frozen=True, slots=True)
class Word:
    """One word: kind is `name`, `int`, `float`, `mark`, `newline` or `end`."""

    kind: str
    text: str
    line: int
    column: int

    def shown(self) -> str:
        """How a message names the word."""
        if self.kind == "newline":
            return "the end of the line"
        return "the end of the text" if self.kind == "end" else f"`{self.text[:40]}`"


def words_of(text: str, file: str) -> list[Word]:
    """All words, with an `end` behind the last; raises VilTextError for a foreign character."""
    words: list[Word] = []
    line, line_start, position = 1, 0, 0
    while position < len(text):
        match = _WORD.match(text, position)
        column = position - line_start + 1
        if match is None:
            source = text.split("\n")[line - 1]
            raise VilTextError(
                f"the character {text[position]!r} belongs to no word",
                file=file,
                line=line,
                column=column,
                source=source,
            )
        kind = match.lastgroup or ""
        if kind != "space":
            words.append(Word(kind, match.group(), line, column))
        position = match.end()
        if kind == "newline":
            line, line_start = line + 1, position
    words.append(Word("newline", "\n", line, position - line_start + 1))
    words.append(Word("end", "", line, position - line_start + 1))
    return words
