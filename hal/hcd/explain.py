"""Turns a refusal of the schema into problems that a person can act on, all at once.

`jsonschema` finds the mistakes; this module gives each its place in the file, its path, the value
that is wrong, what is allowed, and a suggestion for a word that is nearly right.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from hal.hcd.accept import fits, is_power_of_two
from hal.hcd.scan import Node, Problem, one_line
from hal.hcd.schema import Schema, allowed, is_object, keys_of, nearest, variants

_SCALE = {
    "": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12,
    "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40,
}  # fmt: skip
_QUANTITY = re.compile(
    r"\s*([0-9][0-9_,]*(?:\.[0-9]+)?)\s*(|[kmgt]i?)(b|byte|bytes|hz|b/s|hz|)\s*\Z", re.IGNORECASE
)
_KINDS = {
    "object": "a mapping of keys",
    "array": "a list",
    "string": "text",
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
}


def explain(schema: Schema, root: Node) -> list[Problem]:
    """Every mistake of the tree against the schema, sorted by place."""
    found: set[Problem] = set()
    for error in _validator_class()(schema).iter_errors(root.plain()):
        for problem in _problems(error, root):
            found.add(problem)
    return sorted(found)


@cache
def _validator_class() -> Any:
    """Draft 2020-12 with our own keyword and with `$` as the very end of a text."""
    import jsonschema

    def power_of_two(validator: Any, wanted: Any, value: Any, schema: Any) -> Iterator[Any]:
        if validator.is_type(value, "integer") and not is_power_of_two(value):
            yield jsonschema.ValidationError("not a power of two")

    def pattern(validator: Any, wanted: str, value: Any, schema: Any) -> Iterator[Any]:
        if isinstance(value, str) and not fits(wanted, value):
            yield jsonschema.ValidationError("does not fit")

    base = jsonschema.Draft202012Validator
    checker = base.TYPE_CHECKER.redefine(
        "integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool)
    )
    return jsonschema.validators.extend(  # type: ignore[no-untyped-call]
        base, {"x-power-of-two": power_of_two, "pattern": pattern}, type_checker=checker
    )


def place(root: Node, steps: list[Any]) -> tuple[Node, str]:
    """The node at a path of keys and indexes, and the path in words (ids in place of indexes)."""
    node, words = root, []
    for step in steps:
        node = node.value[step]
        words.append(_id_of(node, step) if isinstance(step, int) else str(step))
    return node, one_line(".".join(words), 200)


def _id_of(node: Node, index: int) -> str:
    name = node.value.get("id") if isinstance(node.value, dict) else None
    return name.value if name is not None and isinstance(name.value, str) else str(index)


def _problems(error: Any, root: Node) -> Iterator[Problem]:
    steps = list(error.absolute_path)
    node, path = place(root, steps)
    schema: Schema = error.schema
    if error.validator == "unevaluatedProperties":
        yield from _unknown_keys(schema, node, path)
    elif error.validator == "required":
        yield from _missing_keys(error, node, path)
    else:
        maker = _TEXTS.get(error.validator)
        text = maker(schema, node.value) if maker else one_line(error.message, 200)
        yield Problem(node.mark, path, text)


def _missing_keys(error: Any, node: Node, path: str) -> Iterator[Problem]:
    known = allowed(error.schema, node.plain())
    for key in error.validator_value:
        if key not in node.value:
            sub = known.get(key) or error.schema.get("properties", {}).get(key, {})
            about = sub.get("description", "").strip()
            text = f"the key {key} is missing" + (f": {about}" if about else "")
            yield Problem(node.mark, path, text.rstrip("."))


def _unknown_keys(schema: Schema, node: Node, path: str) -> Iterator[Problem]:
    instance = node.plain()
    known = allowed(schema, instance)
    selected = {tag for tag, values, _ in variants(schema) if instance.get(tag) in values}
    tags = {tag for tag, _, _ in variants(schema)}
    for key, value in node.value.items():
        if key in known:
            continue
        others = [
            f"{tag} {' or '.join(map(str, values))}"
            for tag, values, then in variants(schema)
            if key in then.get("properties", {})
        ]
        if others and not tags & selected:
            continue  # The tag itself is wrong, which has its own problem.
        mark = value.key_mark or value.mark
        where = f"{path}.{one_line(key)}".lstrip(".")
        if others:
            text = f"the key is only for {' or '.join(others)}; here {_tag_text(tags, instance)}"
        else:
            absent = [other for other in known if other not in instance]
            hint = nearest(key, absent) or nearest(key, list(known))
            text = f"there is no such key; allowed are {_list(list(known))}{hint}"
        yield Problem(mark, where, text)


def _tag_text(tags: set[str], instance: Mapping[str, Any]) -> str:
    return " and ".join(f"{tag} is {one_line(instance.get(tag))}" for tag in sorted(tags))


def _list(words: list[Any], limit: int = 16) -> str:
    shown = [str(word) for word in words]
    more = f" and {len(shown) - limit} more" if len(shown) > limit else ""
    return ", ".join(shown[:limit]) + more


def show(value: Any) -> str:
    """A value inside a message, with the kind of thing it is."""
    if value is None:
        return "nothing (null)"
    if isinstance(value, bool):
        return f"the boolean {str(value).lower()}"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, str):
        return f"the text '{one_line(value)}'"
    return f"the number {one_line(value)}"


def _why(schema: Schema) -> str:
    return f"; {schema['x-why']}" if "x-why" in schema else ""


def _unit(schema: Schema) -> str:
    unit = schema.get("x-unit")
    return f" in {unit}" if unit else ""


def _type(schema: Schema, value: Any) -> str:
    wanted = schema["type"]
    text = f"is {show(value)}; {_KINDS[wanted]}{_unit(schema)} is needed"
    if wanted in ("integer", "number") and isinstance(value, str):
        amount = quantity(value)
        text += f" (did you mean {amount}?)" if amount is not None else ""
    if wanted == "boolean" and isinstance(value, str):
        word = value.lower()
        meant = "true" if word in ("on", "yes", "y") else "false" if word in ("off", "no") else ""
        text += f" (did you mean {meant}?)" if meant else ""
    if wanted == "string" and not isinstance(value, dict | list) and value is not None:
        text += ", so put it in quotes"
    if wanted == "array" and is_object(schema.get("items", {})):
        text += f", each item with {', '.join(schema['items'].get('required', ()))}"
    if wanted == "object" and is_object(schema):
        text += f" with {_list(keys_of(schema))}"
    return text


def quantity(text: str) -> int | None:
    """The base-unit number behind text such as `80 GiB`, or None."""
    match = _QUANTITY.match(text[:40])
    if match is None:
        return None
    factor = _SCALE[match.group(2).lower()]
    value = float(match.group(1).replace(",", "").replace("_", "")) * factor
    return int(value) if value.is_integer() else None


def _enum(schema: Schema, value: Any) -> str:
    choices = schema["enum"]
    return f"is {show(value)}; allowed are {_list(choices)}{nearest(value, choices)}"


def _bound(word: str, key: str) -> Callable[[Schema, Any], str]:
    def text(schema: Schema, value: Any) -> str:
        return f"is {one_line(value)}, but must be {word} {schema[key]:,}{_why(schema)}"

    return text


def _size(word: str, key: str, what: str) -> Callable[[Schema, Any], str]:
    def text(schema: Schema, value: Any) -> str:
        return f"has {len(value)} {what}, but must have {word} {schema[key]}{_why(schema)}"

    return text


def _twice(schema: Schema, value: list[Node]) -> str:
    shown = [one_line(item.plain()) for item in value]
    double = sorted({item for item in shown if shown.count(item) > 1})
    return f"names {', '.join(double)} twice; each may stand once"


_TEXTS: dict[str, Callable[[Schema, Any], str]] = {
    "type": _type,
    "enum": _enum,
    "const": lambda s, v: f"is {show(v)}; allowed is {s['const']}{_why(s)}",
    "minimum": _bound("at least", "minimum"),
    "maximum": _bound("at most", "maximum"),
    "exclusiveMinimum": _bound("more than", "exclusiveMinimum"),
    "minLength": _size("at least", "minLength", "characters"),
    "maxLength": _size("at most", "maxLength", "characters"),
    "pattern": lambda s, v: f"is {show(v)}, which does not fit{_why(s)}",
    "minItems": _size("at least", "minItems", "items"),
    "maxItems": _size("at most", "maxItems", "items"),
    "minProperties": _size("at least", "minProperties", "keys"),
    "uniqueItems": _twice,
    "contains": lambda s, v: f"lacks {s['contains'].get('const')}{_why(s)}",
    "x-power-of-two": lambda s, v: f"is {one_line(v)}, which is no power of two{_why(s)}",
}
