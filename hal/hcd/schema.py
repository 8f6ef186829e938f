"""The schema of the language: hcd/schema/*.yaml, put together into one JSON Schema per kind.

The YAML fragments are the source. `compile_schema` replaces each `$ref` by what it names and the
result is kept in `schema.json` beside this module, because reading YAML at each load would cost
more than the load itself; `hal hcd docs --check` fails when the two differ.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from hal.errors import HcdError

KINDS = ("chip", "system", "profile")
COMPILED = Path(__file__).with_name("schema.json")
LEAF_KEYS = ("description", "x-unit", "x-consumer", "x-compare", "x-probe", "x-since")
MINOR = 0
"""Newest minor version of the language that this SDK knows; the major version is 1."""

Schema = Mapping[str, Any]


def compile_schema(folder: Path) -> dict[str, Any]:
    """Reads the fragments and returns one schema without references for each kind of file."""
    from hal.hcd.scan import read_text, scan

    fragments = {
        path.name: scan(read_text(path), path.name).plain() for path in folder.glob("*.yaml")
    }
    return {kind: _inline(fragments[f"{kind}.yaml"], f"{kind}.yaml", fragments) for kind in KINDS}


def _inline(value: Any, file: str, fragments: Mapping[str, Any]) -> Any:
    if isinstance(value, list):
        return [_inline(item, file, fragments) for item in value]
    if not isinstance(value, dict):
        return value
    out = {k: _inline(v, file, fragments) for k, v in value.items() if k not in ("$ref", "$defs")}
    if "$ref" not in value:
        return out
    name, _, pointer = value["$ref"].partition("#")
    target = fragments[name or file]
    for step in pointer.split("/")[1:]:
        target = target[step]
    return {**_inline(target, name or file, fragments), **out}


def compiled_text(folder: Path) -> str:
    """The text that `schema.json` must hold."""
    return json.dumps(compile_schema(folder), indent=1, ensure_ascii=False) + "\n"


@cache
def schema(kind: str) -> dict[str, Any]:
    """The JSON Schema 2020-12 of a kind of file: chip (also for a part), system or profile."""
    whole = json.loads(COMPILED.read_text(encoding="utf-8"))
    found: dict[str, Any] = whole[kind]
    return found


def variants(node: Schema) -> Iterator[tuple[str, tuple[Any, ...], Schema]]:
    """The tagged branches of an object: (tag, its values, what then holds)."""
    for branch in node.get("allOf", ()):
        for tag, test in branch["if"]["properties"].items():
            values = (test["const"],) if "const" in test else tuple(test["enum"])
            yield tag, values, branch["then"]


def branches(node: Schema, instance: Mapping[str, Any]) -> Iterator[Schema]:
    """The object's own schema and the branches that this instance selects by its tag."""
    yield node
    for tag, values, then in variants(node):
        if any(instance.get(tag) == value for value in values):
            yield then


def allowed(node: Schema, instance: Mapping[str, Any]) -> dict[str, Schema]:
    """The keys that this instance may have, with their schemas."""
    out: dict[str, Schema] = {}
    for branch in branches(node, instance):
        out.update(branch.get("properties", {}))
    return out


def child(node: Schema, key: str) -> Schema | None:
    """The schema of a key in whatever branch; None when there is no such key.

    Where branches disagree (the operations of a matrix and of a vector unit) the answer knows the
    keys of all of them: good to look leaves up, not to judge.
    """
    found: list[Schema] = []
    for branch in (node, *(then for _, _, then in variants(node))):
        sub = branch.get("properties", {}).get(key)
        if sub is not None and sub not in found:
            found.append(sub)
    if len(found) < 2 or not all(is_object_list(sub) for sub in found):
        return found[0] if found else None
    properties: dict[str, Schema] = {}
    for sub in reversed(found):
        properties.update(sub["items"]["properties"])
    return {**found[0], "items": {**found[0]["items"], "properties": properties}}


def is_object(node: Schema) -> bool:
    """Whether the schema describes a mapping with keys of its own (not free text like extra)."""
    return "properties" in node


def is_object_list(node: Schema) -> bool:
    """Whether the schema describes a list of objects, addressed by id."""
    return isinstance(node.get("items"), dict) and is_object(node["items"])


def leaf_at(kind: str, path: str) -> Schema:
    """The schema of the leaf at a path such as memory.hbm.capacity_bytes.

    Raises HcdError with the nearest key when the language has no such path.
    """
    node: Schema = schema(kind)
    rest = path.split(".")
    while rest:
        if is_object_list(node):
            node = node["items"]
            rest.pop(0)
            continue
        if not is_object(node):
            if node.get("type") == "object":
                return node
            break
        step = child(node, rest[0])
        if step is None:
            hint = nearest(rest[0], keys_of(node))
            raise HcdError(f"there is no path {path!r}: no key {rest[0]!r}{hint}", call="hcd")
        node = step
        rest.pop(0)
    if rest or is_object(node) or is_object_list(node):
        raise HcdError(f"the path {path!r} does not end at a value", call="hcd")
    return node


def keys_of(node: Schema) -> list[str]:
    """All keys of an object in all its branches."""
    keys = list(node.get("properties", {}))
    for _, _, then in variants(node):
        keys.extend(then.get("properties", {}))
    return keys


def nearest(word: object, choices: list[Any]) -> str:
    """` (did you mean x?)` for the closest choice, or nothing."""
    import difflib

    by_text = {str(choice): choice for choice in choices}
    near = difflib.get_close_matches(str(word)[:100], list(by_text), n=1, cutoff=0.6)
    return f" (did you mean {near[0]}?)" if near else ""


def leaves(kind: str) -> Iterator[tuple[str, Schema, str]]:
    """Every leaf: its path with `<id>` for an item, its schema, and the tag that selects it."""
    yield from _leaves(schema(kind), "", "")


def _leaves(node: Schema, path: str, when: str) -> Iterator[tuple[str, Schema, str]]:
    if is_object_list(node):
        yield from _leaves(node["items"], f"{path}.<id>", when)
    elif is_object(node) or "allOf" in node:
        for key, sub in node.get("properties", {}).items():
            yield from _leaves(sub, f"{path}.{key}".lstrip("."), when)
        for tag, values, then in variants(node):
            condition = f"{tag}: {' | '.join(str(v) for v in values)}"
            yield from _leaves(then, path, condition)
    else:
        yield path, node, when
