"""The canonical flat form: one line `path<TAB>value` for each leaf, sorted by bytes.

Objects of a list are addressed by id (`memory.hbm.capacity_bytes`), lists of scalars are JSON,
booleans are true and false, texts stand bare with backslash, tab, newline and carriage return
escaped. C code reads only this form, and its SHA-256 names a chip.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from hal.errors import HcdError
from hal.hcd import schema as language
from hal.hcd.scan import Mark, Node, number, one_line
from hal.hcd.schema import Schema

_ESCAPES = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
_BACK = {"\\": "\\", "t": "\t", "n": "\n", "r": "\r"}


def text_of(value: Any) -> str:
    """One value as the flat form writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    if isinstance(value, str):
        return "".join(_ESCAPES.get(c, c) for c in value)
    return repr(value) if value is not None else ""


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Each leaf of plain data as (path, value); objects of a list by their id."""
    if isinstance(value, dict):
        for key, sub in value.items():
            yield from leaves(sub, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        for index, item in enumerate(value):
            name = item.get("id", index) if isinstance(item, dict) else index
            yield from leaves(item, f"{path}.{name}")
    else:
        yield path, value


def write(values: Mapping[str, Any]) -> bytes:
    """The canonical form of leaves by path."""
    lines = (f"{text_of(path)}\t{text_of(value)}\n".encode() for path, value in values.items())
    return b"".join(sorted(lines))


def parse_lines(text: str, file: str) -> dict[str, tuple[str, int]]:
    """Path to (value as written, line). Raises HcdError for a line without a tab."""
    found: dict[str, tuple[str, int]] = {}
    for index, line in enumerate(text.split("\n"), start=1):
        if not line:
            continue
        path, tab, value = line.partition("\t")
        if not tab or not path:
            raise HcdError("a line must be a path, a tab and a value", call=f"{file}:{index}:1")
        if path in found:
            raise HcdError(f"{one_line(path, 200)}: is there twice", call=f"{file}:{index}:1")
        found[path] = (value, index)
    return found


def value_of(schema: Schema, text: str) -> Any:
    """The value that a flat text stands for at a leaf of this schema."""
    if schema.get("type") == "array":
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return _unescape(text)  # The schema then says that a list is needed.
        if not isinstance(value, list) or any(isinstance(item, list | dict) for item in value):
            return _unescape(text)
        return value
    if schema.get("type") == "boolean":
        return {"true": True, "false": False}.get(text, _unescape(text))
    choices = schema.get("enum", [schema["const"]] if "const" in schema else [])
    numeric = schema.get("type") in ("integer", "number") or any(
        isinstance(choice, int) for choice in choices
    )
    if numeric:
        try:
            return number(text)
        except ValueError:
            return text
    return _unescape(text)


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    out, parts = [], iter(text)
    for char in parts:
        out.append(_BACK.get(next(parts, "\\"), "?") if char == "\\" else char)
    return "".join(out)


def build(lines: Mapping[str, tuple[str, int]], kind: str, file: str) -> Node:
    """The node tree of flat lines, guided by the schema; unknown paths are kept to be refused."""
    root = Node({}, Mark(file, 1, 1))
    for path, (text, line) in lines.items():
        _place(root, language.schema(kind), path.split("."), text, Mark(file, line, 1))
    return _as_lists(root, language.schema(kind))


def _place(node: Node, schema: Schema, keys: list[str], text: str, mark: Mark) -> None:
    """Puts one leaf into a tree in which lists of objects are still mappings from id."""
    in_list = False
    for depth, key in enumerate(keys):
        if language.is_object_list(schema) and not in_list:
            sub, in_list = schema["items"], True
        else:
            sub, in_list = language.child(schema, key) or {}, False
        schema = sub
        if depth == len(keys) - 1:
            node.value.setdefault(key, Node.of(value_of(schema, text), mark))
            return
        step = node.value.setdefault(key, Node({}, mark, mark))
        if not isinstance(step.value, dict):
            raise HcdError(f"{one_line('.'.join(keys), 200)}: ends and goes on", call=str(mark))
        node = step


def _as_lists(node: Node, schema: Schema) -> Node:
    if not isinstance(node.value, dict):
        return node
    if language.is_object_list(schema):
        items = []
        for key, item in node.value.items():
            item = _as_lists(item, schema["items"])
            if isinstance(item.value, dict):
                item.value.setdefault("id", Node(key, item.mark))
            items.append(item)
        return Node(items, node.mark, node.key_mark)
    entries = {
        key: _as_lists(sub, language.child(schema, key) or {}) for key, sub in node.value.items()
    }
    return Node(entries, node.mark, node.key_mark)
