"""Writes the reference page of the language from its schema."""

from __future__ import annotations

from collections.abc import Iterator

from hal.hcd import schema as language
from hal.hcd.schema import Schema

_HEAD = """# HCD reference

Every key of a Hardware Capability Description, made from the schema by `hal hcd docs`; do not edit.
The guide is [hcd.md](hcd.md). `<id>` stands for the id of an item of a list.

Rules: how certification compares what is declared with what is reported. `exact`: equal.
`at_least`, `at_most`: the reported value is not below, not above. `superset`: every declared word
is reported. `within:0.15`: 15 % apart at most. `implies`: what is declared is reported; more is a
warning. `info`: not compared. **bold** keys are required. † marks a number that an entry of
`provenance` must cover.
"""


def reference() -> str:
    """The whole page as Markdown."""
    parts = [_HEAD]
    for kind in language.KINDS:
        title = {"chip": "A chip", "system": "A system", "profile": "A profile"}[kind]
        parts.append(f"\n## {title}\n")
        root = language.schema(kind)
        plain = [key for key, sub in root["properties"].items() if not _is_section(sub)]
        parts.append(_table("", {k: root["properties"][k] for k in plain}, root["required"]))
        for key, sub in root["properties"].items():
            if _is_section(sub):
                needed = "required" if key in root["required"] else "optional"
                parts.append(f"\n### {key} ({needed})\n\n{sub['description'].strip()}\n")
                parts.extend(_section(key, sub))
    return "\n".join(part.rstrip("\n") for part in parts) + "\n"


def _is_section(sub: Schema) -> bool:
    return language.is_object(sub) or language.is_object_list(sub)


def _section(path: str, node: Schema) -> Iterator[str]:
    """Tables of an object: its own leaves, each branch of its tag, then the objects inside."""
    if language.is_object_list(node):
        path, node = f"{path}.<id>", node["items"]
    yield "\n" + _table(path, node.get("properties", {}), node.get("required", ()))
    yield from _inner(path, node)
    for tag, values, then in language.variants(node):
        yield f"\nWhere `{tag}` is {' or '.join(f'`{value}`' for value in values)}:\n"
        yield _table(path, then.get("properties", {}), then.get("required", ()))
        yield from _inner(path, then)


def _inner(path: str, node: Schema) -> Iterator[str]:
    for key, sub in node.get("properties", {}).items():
        if _is_section(sub):
            yield f"\n`{path}.{key}`: {sub.get('description', '').strip()}\n"
            yield from _section(f"{path}.{key}", sub)


def _table(path: str, leaves: dict[str, Schema], required: list[str]) -> str:
    rows = [
        f"| {_key(path, key, sub, required)} | {_type(sub)} | {sub['x-unit'] or ''} | "
        f"{sub['x-compare']} | {_about(sub)} | {', '.join(sub['x-consumer'])} |"
        for key, sub in leaves.items()
        if not _is_section(sub)
    ]
    if not rows:
        return ""
    head = "| key | value | unit | rule | meaning | read by |\n|---|---|---|---|---|---|\n"
    return head + "\n".join(rows) + "\n"


def _key(path: str, key: str, sub: Schema, required: list[str]) -> str:
    name = f"**{key}**" if key in required else key
    return name + (" †" if sub.get("x-measured") else "")


def _type(sub: Schema) -> str:
    if "const" in sub:
        return f"`{sub['const']}`"
    if "enum" in sub:
        return " \\| ".join(str(choice) for choice in sub["enum"])
    if sub["type"] == "array":
        size = f" of {sub['maxItems']}" if sub.get("maxItems") == sub.get("minItems", 0) else ""
        return f"list{size}: {_type(sub['items'])}"
    words = {"string": "text", "boolean": "true \\| false", "integer": "whole number"}
    return words.get(sub["type"], str(sub["type"])) + _range(sub)


def _range(sub: Schema) -> str:
    if sub["type"] not in ("integer", "number"):
        return ""
    low = f"≥ {sub['minimum']:,}" if "minimum" in sub else ""
    low = f"> {sub['exclusiveMinimum']:,}" if "exclusiveMinimum" in sub else low
    high = f"≤ {sub['maximum']:,}" if "maximum" in sub else ""
    return f" {low}{', ' if low and high else ''}{high}".rstrip()


def _about(sub: Schema) -> str:
    text: str = sub["description"].strip().replace("|", "\\|").replace("<", "&lt;")
    if sub.get("default") is not None:
        text += f" Default {str(sub['default']).lower()}."
    if sub.get("x-probe"):
        text += f" Probe `{sub['x-probe']}`."
    return text
