"""The description of one chip, system or profile as a Python object: resolved and checked."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from hal.errors import HcdError
from hal.hcd import flat, resolve
from hal.hcd import schema as language
from hal.hcd.accept import accepts
from hal.hcd.cross import OVERLAY, cross_check, pattern
from hal.hcd.scan import Mark, Node, Problem, one_line, raise_problems
from hal.hcd.schema import Schema

_MISSING = object()


class Hcd:
    """A checked description. Read values by path: `hcd["memory.hbm.capacity_bytes"]`.

    A path that ends at an object gives a dict, one that ends at a list of objects a list of dicts.
    Objects are immutable by convention: what a path gives is a copy where it could be changed.
    Thread-safe after it was made.

    Attributes:
        kind: chip, part, system or profile.
        name: `vendor/product` (a profile: its name).
        file: Where it was read from, or "<flat>".
        warnings: Sentences about what was read but not understood (a newer minor version).
    """

    def __init__(self, root: Node, *, file: str, warnings: tuple[str, ...] = ()) -> None:
        self._root = root
        self._data: dict[str, Any] = root.plain()
        self._leaves = dict(flat.leaves(self._data))
        self.file = file
        self.warnings = warnings
        self.kind: str = self._data.get("kind", "chip")
        identity = self._data.get("identity", {})
        self.name: str = (
            f"{identity.get('vendor', '?')}/{identity.get('product', '?')}"
            if self.kind != "profile"
            else self._data["profile"]
        )

    def __repr__(self) -> str:
        return f"<Hcd {self.name} {self.sha256[:12]}>"

    def __getitem__(self, path: str) -> Any:
        """The value at a path. Raises HcdError that names the nearest path."""
        found = self.get(path, _MISSING)
        if found is _MISSING:
            hint = language.nearest(path, list(self._leaves))
            raise HcdError(f"declares nothing under {path!r}{hint}", call=self.name)
        return found

    def get(self, path: str, default: Any = None) -> Any:
        """The value at a path, or the default when the description does not declare it."""
        found = self._leaves.get(path, _MISSING)
        if found is not _MISSING:
            return list(found) if isinstance(found, list) else found
        node = _walk(self._root, path)
        return node.plain() if node is not None else default

    def __contains__(self, path: object) -> bool:
        return isinstance(path, str) and self.get(path, _MISSING) is not _MISSING

    def items(self) -> Iterator[tuple[str, Any]]:
        """Every leaf as (path, value), sorted by path."""
        return iter(sorted(self._leaves.items()))

    def ids(self, path: str) -> list[str]:
        """The ids of a list of objects, in the order of the file; empty when it is absent."""
        found = self.get(path, [])
        return [item["id"] for item in found if isinstance(item, dict) and "id" in item]

    @property
    def data(self) -> dict[str, Any]:
        """The whole description as plain dicts and lists (a copy)."""
        copy: dict[str, Any] = self._root.plain()
        return copy

    def flat(self) -> bytes:
        """The canonical form: sorted lines `path<TAB>value`, UTF-8."""
        return self._flat

    @cached_property
    def _flat(self) -> bytes:
        return flat.write(self._leaves)

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of the canonical form in hex: the identity of what is declared."""
        return hashlib.sha256(self._flat).hexdigest()

    def origin(self, path: str) -> str:
        """`file:line:col` of a value, through `extends` and overlays."""
        node = _walk(self._root, path)
        if node is None:
            raise HcdError(f"declares nothing under {path!r}", call=self.name)
        return str(node.mark)

    def provenance(self, path: str) -> str:
        """datasheet, measured or estimated: where the number at a path comes from; "" if untold.

        The longest `covers` pattern that matches decides; of equal ones the first id.
        """
        best = (-1, "")
        entries = sorted(self.get("provenance", []), key=lambda entry: str(entry["id"]))
        for entry in entries:
            for glob in entry["covers"]:
                if len(glob) > best[0] and pattern(glob).match(path):
                    best = (len(glob), entry["source"])
        return best[1]

    def overlay(self, values: Mapping[str, Any] | str) -> Hcd:
        """A copy with some leaves replaced, checked again; for values read at run time.

        Args:
            values: path to value, or the same as flat text (`path<TAB>value` lines).

        Raises:
            HcdError: a path is unknown, or the result is wrong.
        """
        if isinstance(values, str):
            lines = flat.parse_lines(values, OVERLAY)
            kind = self._schema_kind
            values = {
                path: flat.value_of(language.leaf_at(kind, path), text)
                for path, (text, _) in lines.items()
            }
        tree = _copy(self._root)
        for path, value in values.items():
            language.leaf_at(self._schema_kind, path)
            _set(tree, language.schema(self._schema_kind), path.split("."), value)
        return check(tree, file=self.file)

    @property
    def _schema_kind(self) -> str:
        return "chip" if self.kind == "part" else self.kind


def load(path_or_name: str | Path) -> Hcd:
    """Reads, merges and checks a description.

    Args:
        path_or_name: A file, or the name of a shipped description: `sim/npu-small`, with or
            without `@revision`; the vendor may be left out where the product is unique.

    Raises:
        HcdError: with every mistake of the file, each as `file:line:col: path: text`.
    """
    path = resolve.find(path_or_name)
    problems: list[Problem] = []
    root = resolve.read(path, problems)
    return check(root, file=resolve.shown(path), problems=problems)


def from_flat(data: bytes | str) -> Hcd:
    """Reads the canonical flat form back; the result's `flat()` is the same bytes."""
    if isinstance(data, bytes):
        try:
            data = data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise HcdError(f"byte {error.start} is not UTF-8", call="<flat>") from None
    lines = flat.parse_lines(data, "<flat>")
    kind = lines.get("kind", ("chip", 1))[0]
    root = flat.build(lines, kind if kind in language.KINDS else "chip", "<flat>")
    return check(root, file="<flat>")


def check(root: Node, *, file: str, problems: Sequence[Problem] = ()) -> Hcd:
    """Judges a resolved tree: schema, cross-checks, defaults.

    Raises HcdError with all mistakes, those that reading it already found (`problems`) with them.
    """
    kind = resolve.kind_of(root)
    schema = language.schema(kind)
    warnings = _newer_minor(root, schema)
    found = list(problems)
    if not accepts(schema, root.plain()):
        from hal.hcd.explain import explain

        told = explain(schema, root)
        part = root.value.get("kind")
        if part is not None and part.value == "part":
            told = [problem for problem in told if not _forgiven(problem)]
        found += told
    found += cross_check(root, kind)
    found.sort(key=lambda problem: (problem.mark.file != root.mark.file, *problem))
    raise_problems(list(dict.fromkeys(found)), what=one_line(file, 300))
    _fill_defaults(root, schema)
    return Hcd(root, file=file, warnings=warnings)


def _forgiven(problem: Problem) -> bool:
    """A part may leave keys to its children, but never the id of an item of a list."""
    text = problem.text
    return text.startswith("the key ") and " is missing" in text and text[8:11] != "id "


def _newer_minor(root: Node, schema: Schema) -> tuple[str, ...]:
    """Takes unknown keys out of a file of a newer minor version and says which."""
    version = root.value.get("hcd_version")
    text = version.value if version is not None and isinstance(version.value, str) else ""
    major, _, minor = text.partition(".")
    if (
        major != "1"
        or not minor.isascii()
        or not minor.isdigit()
        or int(minor[:9]) <= language.MINOR
    ):
        return ()
    dropped: list[str] = []
    _drop_unknown(root, schema, "", dropped)
    shown = f"; not understood and left out: {', '.join(dropped)}" if dropped else ""
    known = f"1.{language.MINOR}"
    return (f"{version.mark}: written for version {text}, this SDK knows {known}{shown}",)


def _drop_unknown(node: Node, schema: Schema, path: str, dropped: list[str]) -> None:
    if language.is_object_list(schema) and isinstance(node.value, list):
        for item in node.value:
            _drop_unknown(item, schema["items"], path, dropped)
    elif language.is_object(schema) and isinstance(node.value, dict):
        for key in list(node.value):
            sub = language.child(schema, key)
            where = f"{path}.{key}".lstrip(".")
            if sub is None:
                dropped.append(one_line(where))
                del node.value[key]
            else:
                _drop_unknown(node.value[key], sub, where, dropped)


def _fill_defaults(node: Node, schema: Schema) -> None:
    """Writes the schema's defaults for absent leaves, so that every reader sees the same."""
    if language.is_object_list(schema) and isinstance(node.value, list):
        for item in node.value:
            _fill_defaults(item, schema["items"])
    elif language.is_object(schema) and isinstance(node.value, dict):
        for key, sub in language.allowed(schema, node.plain()).items():
            if key in node.value:
                _fill_defaults(node.value[key], sub)
            elif "default" in sub:
                node.value[key] = Node.of(sub["default"], node.mark)


def _walk(root: Node, path: str) -> Node | None:
    """The node at a path; a key may hold dots itself, as those of a profile's `requires` do."""
    if isinstance(root.value, dict):
        if path in root.value:
            found: Node = root.value[path]
            return found
        hits = [key for key in root.value if path.startswith(f"{key}.")]
        key = max(hits, key=len, default=None)
        return _walk(root.value[key], path[len(key) + 1 :]) if key is not None else None
    if isinstance(root.value, list):
        name, _, rest = path.partition(".")
        for item in root.value:
            own = item.value.get("id") if isinstance(item.value, dict) else None
            if own is not None and own.value == name:
                return _walk(item, rest) if rest else item
    return None


def _copy(node: Node) -> Node:
    value = node.value
    if isinstance(value, dict):
        value = {key: _copy(sub) for key, sub in value.items()}
    elif isinstance(value, list):
        value = [_copy(sub) for sub in value]
    return Node(value, node.mark, node.key_mark)


def _set(node: Node, schema: Schema, keys: list[str], value: Any) -> None:
    """Sets one leaf of a tree, making the objects on the way."""
    mark = Mark(OVERLAY, 1, 1)
    key, rest = keys[0], keys[1:]
    if language.is_object_list(schema):
        found = _walk(node, key)
        if found is None:
            found = Node({"id": Node(key, mark)}, mark)
            node.value.append(found)
        _set(found, schema["items"], rest, value)
        return
    sub = language.child(schema, key) or {}
    if not rest:
        node.value[key] = Node.of(value, mark)
        return
    if key not in node.value:
        node.value[key] = Node([] if language.is_object_list(sub) else {}, mark, mark)
    _set(node.value[key], sub, rest, value)
