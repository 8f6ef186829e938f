"""C and C++ as far as counting needs it: lines of code, and the things at the top level of a file.

Counts are those of `cloc`: a line counts when something stands on it that is no comment. No macro
is expanded and nothing is included, so a file is read as it is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["SUFFIXES", "Item", "code_lines", "items"]

SUFFIXES = {".c", ".h", ".cc", ".cpp", ".cxx", ".hh", ".hpp", ".cu", ".cuh"}
"""Files that count as C, C++ or a dialect of them."""

_TOKEN = re.compile(
    r'//(?:\\\n|[^\n])*|/\*.*?(?:\*/|\Z)|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'',
    re.S,
)
_ATTRIBUTE = re.compile(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)")
_NAME_OF_FUNCTION = re.compile(r"(\w+)\s*\(")
_DIRECTIVE = re.compile(r"[ \t]*#(?:\\\n|[^\n])*")


@dataclass(frozen=True)
class Item:
    """One thing at the top level of a file.

    Attributes:
        kind: `function`, `prototype`, `value` (a declaration with an initialiser), `directive`
            or `other`.
        name: Of a function or a prototype; empty for the rest.
        text: Its code without comments and without the inside of strings.
        first: Its first line, counted from 1.
        last: Its last line.
    """

    kind: str
    name: str
    text: str
    first: int
    last: int


def _blank(text: str) -> str:
    """As many spaces, with the line ends kept."""
    return re.sub(r"[^\n]", " ", text)


def without_comments(text: str) -> str:
    """The text with each comment made blank; lines and columns stay."""
    return _TOKEN.sub(lambda m: _blank(m[0]) if m[0].startswith(("//", "/*")) else m[0], text)


def code_lines(text: str) -> set[int]:
    """The numbers of the lines, from 1, that hold code."""
    lines = without_comments(text).split("\n")
    return {number for number, line in enumerate(lines, 1) if line.strip()}


def read(path: Path) -> str:
    """A source file's text; bytes that are no UTF-8 are replaced."""
    return path.read_text(encoding="utf-8", errors="replace")


def items(text: str) -> Iterator[Item]:
    """Yield the things at the top level, in order. Namespaces and `extern "C"` are looked into."""
    bare = _TOKEN.sub(lambda m: _blank(m[0]), text)
    position, start, depth = 0, 0, 0
    while position < len(bare):
        line_begins = position == 0 or bare[position - 1] == "\n"
        directive = _DIRECTIVE.match(bare, position) if line_begins else None
        if directive and depth == 0 and not bare[start:position].strip():
            yield _item("directive", bare, position, directive.end())
            start = position = directive.end()
            continue
        sign = bare[position]
        position += 1
        if sign == "{":
            if depth == 0 and _is_transparent(bare[start : position - 1]):
                start = position
            else:
                depth += 1
        elif sign == "}":
            if depth == 0:
                start = position
                continue
            depth -= 1
            if depth == 0 and _is_function(bare[start:position]):
                yield _item("function", bare, start, position)
                start = position
        elif sign == ";" and depth == 0:
            yield _item(_kind(bare[start:position]), bare, start, position)
            start = position


def _is_transparent(head: str) -> bool:
    words = re.sub(r"\s+", " ", head).strip()
    return re.fullmatch(r"extern|(inline )?namespace( [\w:]+)?", words) is not None


def _is_function(text: str) -> bool:
    head = _ATTRIBUTE.sub("", text.partition("{")[0])
    return "(" in head and "=" not in head


def _kind(text: str) -> str:
    head = _ATTRIBUTE.sub("", text.partition("{")[0])
    if "=" in head:
        return "value"
    is_type = re.match(r"\s*(typedef|struct|union|enum)\b[^(]*(\{|$)|\s*typedef\b", head)
    return "prototype" if "(" in head and not is_type else "other"


def _item(kind: str, bare: str, start: int, end: int) -> Item:
    text = bare[start:end]
    start += len(text) - len(text.lstrip())
    name = ""
    if kind in {"function", "prototype"}:
        found = _NAME_OF_FUNCTION.search(_ATTRIBUTE.sub("", text.partition("{")[0]))
        name = found[1] if found else ""
    return Item(kind, name, text, bare.count("\n", 0, start) + 1, bare.count("\n", 0, end - 1) + 1)
