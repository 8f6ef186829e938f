"""Says in microseconds whether a value fits the schema, without saying why.

A load must cost less than importing a whole JSON Schema library. This is the subset of JSON
Schema 2020-12 that our schema uses; where it says no, `explain` asks `jsonschema` for the reasons.
A test holds both against each other on generated inputs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from hal.hcd.schema import Schema, branches

CHECKED = frozenset(
    {
        *("type", "enum", "const", "minimum", "maximum", "exclusiveMinimum", "x-power-of-two"),
        *("minLength", "maxLength", "pattern", "minItems", "maxItems", "uniqueItems", "items"),
        *("contains", "required", "properties", "minProperties", "allOf"),
        "unevaluatedProperties",
    }
)
"""Keywords that are judged here; a test fails when the schema uses another."""

_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}


def accepts(schema: Schema, value: Any) -> bool:
    """Whether the value fits the schema."""
    kind = schema.get("type")
    if kind and not is_type(value, kind):
        return False
    if "enum" in schema and not any(same(value, choice) for choice in schema["enum"]):
        return False
    if "const" in schema and not same(value, schema["const"]):
        return False
    if isinstance(value, dict):
        return _accepts_object(schema, value)
    if isinstance(value, list):
        return _accepts_list(schema, value)
    if isinstance(value, str):
        return _accepts_text(schema, value)
    if isinstance(value, bool) or value is None:
        return True
    return _accepts_number(schema, value)


def is_type(value: Any, kind: str) -> bool:
    """JSON Schema's types; a boolean is not a number."""
    return isinstance(value, _TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))


def same(one: Any, other: Any) -> bool:
    """Equal in the sense of JSON: True is not 1."""
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


@lru_cache(maxsize=256)
def fits(pattern: str, value: str) -> bool:
    """Whether the text fits; `$` is the very end, as in JSON Schema and unlike in Python."""
    anchored = pattern[:-1] + r"\Z" if pattern.endswith("$") else pattern
    return re.search(anchored, value) is not None


def _accepts_text(schema: Schema, value: str) -> bool:
    return (
        schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value))
        and ("pattern" not in schema or fits(schema["pattern"], value))
    )  # fmt: skip


def _accepts_number(schema: Schema, value: float) -> bool:
    return (
        value >= schema.get("minimum", value)
        and value <= schema.get("maximum", value)
        and ("exclusiveMinimum" not in schema or value > schema["exclusiveMinimum"])
        and ("x-power-of-two" not in schema or is_power_of_two(value))
    )


def is_power_of_two(value: Any) -> bool:
    """Whether a positive integer has one bit."""
    return isinstance(value, int) and value > 0 and value & (value - 1) == 0


def _accepts_list(schema: Schema, value: list[Any]) -> bool:
    if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
        return False
    if "items" in schema and not all(accepts(schema["items"], item) for item in value):
        return False
    if "contains" in schema and not any(accepts(schema["contains"], item) for item in value):
        return False
    return not schema.get("uniqueItems") or is_unique(value)


def is_unique(value: list[Any]) -> bool:
    """Whether no item stands twice; items are scalars."""
    keys = [(isinstance(item, bool), repr(item)) for item in value]
    return len(set(keys)) == len(keys)


def _accepts_object(schema: Schema, value: dict[str, Any]) -> bool:
    if len(value) < schema.get("minProperties", 0):
        return False
    known: set[str] = set()
    for branch in branches(schema, value):
        if any(key not in value for key in branch.get("required", ())):
            return False
        for key, sub in branch.get("properties", {}).items():
            known.add(key)
            if key in value and not accepts(sub, value[key]):
                return False
    return schema.get("unevaluatedProperties") is not False or known.issuperset(value)
