"""Reads YAML 1.2 text into a tree whose every node knows its file, line and column.

PyYAML parses; this module gives scalars the meaning of YAML 1.2 (`1e9` is a number, `12:30:45`
and `on` are text), refuses duplicate keys, and bounds size, depth and aliases so that no input
can exhaust the machine. All mistakes of a file are collected; only a syntax error ends the scan.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from hal.errors import HcdError
from hal.wording import counted

MAX_BYTES = 1 << 20  # A description of a chip is far below 1 MiB.
MAX_DEPTH = 24  # The schema needs 9 levels.
MAX_NODES = 50_000  # After aliases are expanded.

_INT = re.compile(r"[-+]?[0-9]+\Z")
_OCT = re.compile(r"0o[0-7]+\Z")
_HEX = re.compile(r"0x[0-9a-fA-F]+\Z")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
_NOT_FINITE = re.compile(r"([-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))\Z")
_CONSTANTS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


class Mark(NamedTuple):
    """A place in a file; line and column start at 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class Problem(NamedTuple):
    """One mistake: where it stands, the path of the value, and what is wrong and allowed."""

    mark: Mark
    path: str
    text: str

    def __str__(self) -> str:
        return (
            f"{self.mark}: {self.path}: {self.text}" if self.path else f"{self.mark}: {self.text}"
        )


class Node:
    """A value with its place. `value` is a dict or list of nodes, or a scalar."""

    __slots__ = ("key_mark", "mark", "value")

    def __init__(self, value: Any, mark: Mark, key_mark: Mark | None = None) -> None:
        self.value = value
        self.mark = mark
        self.key_mark = key_mark

    @classmethod
    def of(cls, value: Any, mark: Mark) -> Node:
        """A leaf (a scalar or a list of scalars) at one place."""
        if isinstance(value, list | tuple):
            return cls([cls(item, mark) for item in value], mark, mark)
        return cls(value, mark, mark)

    def plain(self) -> Any:
        """The value as ordinary dicts, lists and scalars."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value


def one_line(text: object, limit: int = 60) -> str:
    """Shows a value of a file inside a message: one line, control characters escaped, cut."""
    shown = "".join(c if c.isprintable() else repr(c)[1:-1] for c in str(text)[: limit + 1])
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def raise_problems(problems: list[Problem], *, what: str) -> None:
    """Raises one HcdError that holds all problems, or returns when there are none."""
    if not problems:
        return
    lines = [str(problem) for problem in problems]
    raise HcdError(
        f"{counted(len(lines), 'problem')} in {what}\n" + "\n".join(lines), problems=lines
    )


def read_text(path: str | Path) -> str:
    """Reads a file as UTF-8 text; every failure is one HcdError that names the file."""
    shown = one_line(path, 300)
    try:
        with Path(path).open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except IsADirectoryError:
        raise HcdError("is a directory, not a file", call=shown) from None
    except FileNotFoundError:
        raise HcdError("there is no such file", call=shown) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise HcdError(f"cannot be read: {one_line(reason, 200)}", call=shown) from None
    return decode(data, shown)


def decode(data: bytes, file: str) -> str:
    """Bytes of a file as text, without its byte-order mark."""
    first = Mark(file, 1, 1)
    if len(data) > MAX_BYTES:
        raise_problems(
            [Problem(first, "", f"is larger than {MAX_BYTES:,} bytes, the most that is read")],
            what=file,
        )
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise_problems([Problem(first, "", "is UTF-16; save it as UTF-8")], what=file)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        mark = _mark_of_byte(data, error.start, file)
        bad = data[error.start]
        raise_problems(
            [Problem(mark, "", f"byte 0x{bad:02x} is not UTF-8; save the file as UTF-8")], what=file
        )
        raise
    if "\0" in text:
        mark = _mark_of_byte(data, data.index(b"\0"), file)
        raise_problems([Problem(mark, "", "holds a NUL byte; a text file holds none")], what=file)
    return text


def _mark_of_byte(data: bytes, offset: int, file: str) -> Mark:
    before = data[:offset]
    return Mark(file, before.count(b"\n") + 1, offset - (before.rfind(b"\n") + 1) + 1)


def scan(text: str, file: str, problems: list[Problem] | None = None) -> Node:
    """Builds the node tree of one YAML document.

    Raises HcdError with every mistake found. With `problems`, mistakes that leave the tree
    readable (a key that is there twice, say) are added to that list instead.
    """
    scanner = _Scanner(file)
    root = scanner.run(text)
    if problems is not None and root is not None:
        problems += scanner.problems
    else:
        raise_problems(scanner.problems, what=file)
    if root is None or root.value is None:
        raise_problems([Problem(Mark(file, 1, 1), "", "is empty; a mapping is needed")], what=file)
    assert root is not None
    if not isinstance(root.value, dict):
        raise_problems([Problem(root.mark, "", "the file must be a mapping of keys")], what=file)
    return root


class _Scanner:
    """One pass over the parser's events; a recursion depth of at most MAX_DEPTH."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.problems: list[Problem] = []
        self.anchors: dict[str, tuple[Node, int]] = {}
        self.count = 0

    def run(self, text: str) -> Node | None:
        import yaml

        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        try:
            return self._document(iter(yaml.parse(text, Loader=loader)))
        except yaml.MarkedYAMLError as error:
            at = error.problem_mark or error.context_mark
            mark = Mark(self.file, at.line + 1, at.column + 1) if at else Mark(self.file, 1, 1)
            reason = error.problem or error.context or "cannot be parsed"
            if "nesting depth" in reason:  # The parser may look ahead further than this pass.
                self._refuse(mark, "", f"more than {MAX_DEPTH} levels; at most that")
            else:
                self._refuse(mark, "", f"is not YAML: {one_line(reason, 200)}")
        except yaml.reader.ReaderError as error:
            before = text[: error.position] if isinstance(error.position, int) else ""
            mark = Mark(self.file, before.count("\n") + 1, len(before) - before.rfind("\n"))
            self._refuse(mark, "", "holds a control character, which YAML does not allow")
        except yaml.YAMLError as error:
            self._refuse(Mark(self.file, 1, 1), "", f"is not YAML: {one_line(error, 200)}")
        except (RecursionError, MemoryError):
            self._refuse(Mark(self.file, 1, 1), "", "is nested too deeply to be read")
        return None

    def _refuse(self, mark: Mark, path: str, text: str) -> None:
        self.problems.append(Problem(mark, path, text))

    def _document(self, events: Iterator[Any]) -> Node | None:
        import yaml

        root: Node | None = None
        documents = 0
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    self._refuse(self._at(event), "", "a second document starts; one is allowed")
                    return None
            elif not isinstance(
                event, yaml.StreamStartEvent | yaml.StreamEndEvent | yaml.DocumentEndEvent
            ):
                root = self._node(event, events, (), 1)
                if root is None:
                    return None
        return root

    def _at(self, event: Any) -> Mark:
        return Mark(self.file, event.start_mark.line + 1, event.start_mark.column + 1)

    def _node(
        self, event: Any, events: Iterator[Any], path: tuple[str, ...], depth: int
    ) -> Node | None:
        """One node; None when the file must not be read further (a limit was passed)."""
        import yaml

        mark = self._at(event)
        self.count += 1
        if depth > MAX_DEPTH or self.count > MAX_NODES:
            limit = f"{MAX_DEPTH} levels" if depth > MAX_DEPTH else f"{MAX_NODES:,} values"
            self._refuse(mark, _dotted(path), f"more than {limit}, counting aliases; at most that")
            return None
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, mark, path)
        before = self.count
        self._refuse_tag(event, mark, path)
        node: Node | None
        if isinstance(event, yaml.ScalarEvent):
            node = Node(self._scalar(event, mark, path), mark)
        elif isinstance(event, yaml.SequenceStartEvent):
            node = self._sequence(events, mark, path, depth)
        else:
            node = self._mapping(events, mark, path, depth)
        if node is not None and event.anchor:
            self.anchors[event.anchor] = (node, self.count - before + 1)
        return node

    def _refuse_tag(self, event: Any, mark: Mark, path: tuple[str, ...]) -> None:
        if event.tag not in (None, "!", "tag:yaml.org,2002:str"):
            self._refuse(mark, _dotted(path), f"the tag {one_line(event.tag)} is not used here")

    def _alias(self, event: Any, mark: Mark, path: tuple[str, ...]) -> Node | None:
        found = self.anchors.get(event.anchor)
        if found is None:
            name = one_line(event.anchor)
            self._refuse(mark, _dotted(path), f"*{name} names no complete anchor before it")
            return Node("", mark)
        node, size = found
        self.count += size
        if self.count > MAX_NODES:
            self._refuse(mark, _dotted(path), f"aliases expand to more than {MAX_NODES:,} values")
            return None
        return Node(node.value, node.mark)

    def _sequence(
        self, events: Iterator[Any], mark: Mark, path: tuple[str, ...], depth: int
    ) -> Node | None:
        import yaml

        items: list[Node] = []
        for event in events:
            if isinstance(event, yaml.SequenceEndEvent):
                break
            item = self._node(event, events, (*path, str(len(items))), depth + 1)
            if item is None:
                return None
            items.append(item)
        return Node(items, mark)

    def _mapping(
        self, events: Iterator[Any], mark: Mark, path: tuple[str, ...], depth: int
    ) -> Node | None:
        import yaml

        entries: dict[str, Node] = {}
        for event in events:
            if isinstance(event, yaml.MappingEndEvent):
                break
            key_mark = self._at(event)
            if not isinstance(event, yaml.ScalarEvent):
                self._refuse(key_mark, _dotted(path), "a key must be one word, not a list or map")
                return None
            key = event.value
            value = self._node(next(events), events, (*path, key), depth + 1)
            if value is None:
                return None
            first = entries.get(key)
            if first is not None:
                was = first.key_mark.line if first.key_mark else 0
                text = f"the key is there twice; first at line {was}; keep one of them"
                self._refuse(key_mark, _dotted((*path, key)), text)
                continue
            entries[key] = Node(value.value, value.mark, key_mark)
        return Node(entries, mark)

    def _scalar(self, event: Any, mark: Mark, path: tuple[str, ...]) -> Any:
        text: str = event.value
        if not event.implicit[0]:  # quoted, a block, or tagged as text
            return text
        if text in _CONSTANTS:
            return _CONSTANTS[text]
        if text[0] not in "+-.0123456789":
            return text
        try:
            return number(text)
        except ValueError as error:
            self._refuse(mark, _dotted(path), f"{one_line(text)} {error}")
            return 0


def number(text: str) -> Any:
    """A plain scalar as YAML 1.2 reads it: an exact int, a float, or the text itself.

    A number without a fractional part becomes an int however it is written (`1e9`, `2.0`), so
    that the canonical form does not depend on the spelling. Raises ValueError (a reason to put
    behind the text) for numbers that are not finite or are absurdly long.
    """
    if _NOT_FINITE.match(text):
        raise ValueError("is not a finite number; write a number or leave the key out")
    integer = _INT.match(text) or _OCT.match(text) or _HEX.match(text)
    if not integer and not _FLOAT.match(text):
        return text
    if len(text) > 60:
        raise ValueError("is a number of more than 60 characters; write it shorter")
    if integer:
        return int(text, 0) if text[:2] in ("0o", "0x") else int(text)
    value = Decimal(text)
    if value and not -300 <= value.adjusted() <= 300:
        raise ValueError("is beyond 10^300 or below 10^-300")
    if value == value.to_integral_value():
        return int(value)
    return float(value)


def _dotted(path: tuple[str, ...]) -> str:
    return one_line(".".join(path), 200)
