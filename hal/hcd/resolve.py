"""Finds a description by name, merges what it extends, checks it, and gives the resolved tree.

Merge rules of `extends`: mappings merge deep; lists of objects merge by id, and may be written as
a mapping from id to object; null deletes; any other value replaces. The result is checked again.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from hal.errors import HcdError
from hal.hcd import schema as language
from hal.hcd.scan import Node, Problem, one_line, raise_problems, read_text, scan
from hal.hcd.schema import Schema

MAX_CHAIN = 8  # Files that extend each other; more is a maze, not a family.
_NAME = re.compile(r"([a-z0-9][a-z0-9_.-]*/)?([a-z0-9][a-z0-9_.-]*)(@[^\s/@]+)?\Z")
_FIELD = re.compile(
    r"[\s{](vendor|product|revision|extends):[ \t]*[\"']?([^\"',}#\s]+)", re.ASCII
)  # The first of each in a file; enough to know a name without parsing all files


@cache
def shipped() -> Mapping[str, Path]:
    """Name `vendor/product@revision` of each description that comes with the SDK, and its file."""
    from hal import _paths

    heads: dict[Path, dict[str, str]] = {}
    for path in sorted((_paths.hcd_dir() / "chips").glob("*.yaml")):
        text = "\n" + path.read_text("utf-8")[:4000]
        heads[path] = {m[1]: m[2] for m in reversed(list(_FIELD.finditer(text)))}
    found: dict[str, Path] = {}
    for path, own in heads.items():
        head = dict(own)
        for _ in range(MAX_CHAIN):  # A child may leave its vendor or revision to its parent.
            parent = head.pop("extends", "").partition("@")[0]
            for other in heads.values():
                if parent and parent.partition("/")[2] == other.get("product"):
                    head = {**other, **head}
        if {"vendor", "product", "revision"} <= head.keys():
            found[f"{head['vendor']}/{head['product']}@{head['revision']}"] = path
    return found


def find(name: str | Path, *, beside: Path | None = None) -> Path:
    """The file behind a path or a name such as sim/npu-small; `beside` is the folder of a child.

    Raises HcdError that lists the nearest names when there is neither.
    """
    text = str(name)
    if "\0" in text or not text:
        raise HcdError(f"{one_line(text)!r} is no file and no name", call="hcd")
    path = Path(text) if beside is None else beside / text
    looks_like_file = text.endswith((".yaml", ".yml")) or text.startswith((".", "/"))
    match = _NAME.match(text)
    if match is not None and not looks_like_file:
        hits = [file for full, file in shipped().items() if _matches(text, match, full)]
        if len(hits) == 1:
            return hits[0]
    if looks_like_file or path.is_file() or path.is_dir():
        return path
    names = [full.partition("@")[0] for full in shipped()]
    raise HcdError(
        f"there is no file and no shipped description {one_line(text)!r}"
        f"{language.nearest(text, names)}",
        call="hcd",
        next_step="Shipped are " + ", ".join(sorted(names)) + ".",
    )


def _matches(text: str, match: re.Match[str], full: str) -> bool:
    """Whether the asked name (vendor and revision may be left out) is this shipped one."""
    without = full.partition("@")[0]
    have = full if match.group(3) else without
    return text == have or (match.group(1) is None and text == have.partition("/")[2])


def read(path: Path, problems: list[Problem]) -> Node:
    """The node tree of one file and of all that it extends, merged, without `extends`.

    Mistakes that leave the tree readable are added to `problems`; the others raise HcdError.
    """
    return _read(path, [], problems)


def _read(path: Path, chain: list[Path], problems: list[Problem]) -> Node:
    resolved = path.resolve() if path.exists() else path
    root = scan(read_text(path), shown(path), problems)
    wish = root.value.pop("extends", None)
    if wish is None:
        return root
    line = [*chain, resolved]
    parent = _parent(path, wish, line, problems)
    if kind_of(parent) == "chip":
        parent.value.pop("kind", None)  # A child of a part is no part.
    return _merge(parent, root, _schema_of(root, parent), "", problems)


def _parent(path: Path, wish: Node, line: list[Path], problems: list[Problem]) -> Node:
    """The tree of the file that `extends` names; `line` holds the files from the child down."""

    def refuse(text: str) -> None:
        raise_problems([*problems, Problem(wish.mark, "extends", text)], what=wish.mark.file)

    if not isinstance(wish.value, str):
        refuse("must be the name of a parent or a file")
    try:
        found = find(wish.value, beside=path.parent)
        file = found.resolve() if found.exists() else found
        if file in line:
            names = " -> ".join(one_line(step.name) for step in [*line, file])
            refuse(f"goes in a circle: {names}")
        if len(line) > MAX_CHAIN:
            refuse(f"more than {MAX_CHAIN} files extend each other; at most that")
        return _read(found, line, problems)
    except HcdError as error:
        if error.call:  # The parent could not be opened: say where it was asked for.
            refuse(str(error))
        raise


def shown(path: Path) -> str:
    """The path as messages show it: from the working directory down when it lies below."""
    with contextlib.suppress(ValueError, OSError):
        path = path.relative_to(Path.cwd())
    return one_line(path, 300)


def kind_of(root: Node) -> str:
    """chip (also for a part), system or profile; anything else is judged as a chip."""
    kind = root.value.get("kind")
    value = kind.value if kind is not None else None
    return value if isinstance(value, str) and value in language.KINDS else "chip"


def _schema_of(child: Node, parent: Node) -> Schema:
    return language.schema(kind_of(child) if "kind" in child.value else kind_of(parent))


def _merge(parent: Node, child: Node, schema: Schema, path: str, problems: list[Problem]) -> Node:
    """The child on top of the parent; the place of a merged mapping is the child's."""
    if isinstance(parent.value, dict) and isinstance(child.value, dict):
        entries = dict(parent.value)
        for key, node in child.value.items():
            sub = language.child(schema, key) or {}
            _put(entries, key, node, sub, f"{path}.{key}".lstrip("."), problems)
        return Node(entries, child.mark, child.key_mark)
    if language.is_object_list(schema) and isinstance(parent.value, list):
        changes = _by_id(child)
        if changes is not None:
            items = {str(_id(item)): item for item in parent.value}
            for key, node in changes.items():
                _put(items, key, node, schema["items"], f"{path}.{key}", problems)
            return Node(list(items.values()), child.mark, child.key_mark)
    return child


def _put(
    entries: dict[str, Node],
    key: str,
    node: Node,
    schema: Schema,
    path: str,
    problems: list[Problem],
) -> None:
    """Sets, merges or (for null) deletes one entry of the parent."""
    if node.value is None:
        if key not in entries:
            text = "null deletes what a parent has, but the parent has no such entry"
            problems.append(Problem(node.mark, path, text))
        entries.pop(key, None)
    elif key in entries:
        entries[key] = _merge(entries[key], node, schema, path, problems)
    else:
        entries[key] = node


def _id(item: Node) -> Any:
    name = item.value.get("id") if isinstance(item.value, dict) else None
    return name.value if name is not None else None


def _by_id(child: Node) -> dict[str, Node] | None:
    """The child's list of objects as id to object; None when its items have no ids to go by."""
    if isinstance(child.value, dict):
        out = {}
        for key, node in child.value.items():
            if isinstance(node.value, dict):
                named = {"id": Node(key, node.key_mark or node.mark, node.key_mark), **node.value}
                node = Node(named, node.mark, node.key_mark)
            out[key] = node
        return out
    if not isinstance(child.value, list):
        return None
    ids = [_id(item) for item in child.value]
    if any(not isinstance(name, str) for name in ids) or len(set(ids)) != len(ids):
        return None  # The check that follows says what is wrong with the ids.
    return dict(zip(ids, child.value, strict=True))
