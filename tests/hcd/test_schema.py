"""The schema says of each leaf what it means, who reads it and how it is compared."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from hal.errors import HcdError
from hal.hcd import schema as language
from hal.hcd.accept import CHECKED
from hal.hcd.reference import reference

CONSUMERS = {"query", "codegen", "tiling", "sim"}
RULES = {"exact", "at_least", "at_most", "superset", "within:0.15", "implies", "info"}
UNIT_ENDS = (
    "_bytes_per_cycle", "_bytes_per_s", "_bytes", "_hz", "_ns", "_cycles", "_w", "_bits", "_pj",
)  # fmt: skip

LEAVES = [(k, *leaf) for k in language.KINDS for leaf in language.leaves(k)]


@pytest.mark.parametrize("kind", language.KINDS)
def test_schema_is_valid_json_schema_2020_12(kind: str) -> None:
    jsonschema.Draft202012Validator.check_schema(language.schema(kind))


def test_every_leaf_carries_its_annotations() -> None:
    bare = [
        f"{kind} {path}: {key}"
        for kind, path, leaf, _ in LEAVES
        for key in language.LEAF_KEYS
        if key not in leaf
    ]
    assert bare == []
    assert len(LEAVES) > 250


def test_every_leaf_has_a_consumer_and_a_known_rule() -> None:
    for kind, path, leaf, _ in LEAVES:
        assert leaf["x-consumer"], f"{kind} {path}"
        assert set(leaf["x-consumer"]) <= CONSUMERS, f"{kind} {path}"
        assert leaf["x-compare"] in RULES, f"{kind} {path}"
        assert leaf["x-since"] == "1.0", f"{kind} {path}"
        assert leaf["description"].strip(), f"{kind} {path}"


def test_unit_of_a_key_is_the_unit_of_its_leaf() -> None:
    for kind, path, leaf, _ in LEAVES:
        key = path.rpartition(".")[2]
        for end in UNIT_ENDS:
            if key.endswith(end) and not key.startswith(("source", "launch_suggest")):
                assert leaf["x-unit"] == end[1:], f"{kind} {path}"
                break


def test_every_number_has_bounds_and_their_reason() -> None:
    for kind, path, leaf, _ in LEAVES:
        if leaf.get("type") in ("integer", "number"):
            low = "minimum" in leaf or "exclusiveMinimum" in leaf
            assert low and "maximum" in leaf, f"{kind} {path}"
            assert leaf.get("x-why"), f"{kind} {path}"


def test_every_pattern_has_a_reason() -> None:
    for kind, path, leaf, _ in LEAVES:
        if "pattern" in leaf:
            assert leaf.get("x-why"), f"{kind} {path}"


def nodes(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for key, sub in value.items():
            if key not in ("default", "enum", "const"):
                yield from nodes(sub)
    elif isinstance(value, list):
        for sub in value:
            yield from nodes(sub)


def schemas(value: Any) -> Iterator[dict[str, Any]]:
    """Every schema inside a schema; `properties` maps names, not keywords."""
    yield value
    for sub in value.get("properties", {}).values():
        yield from schemas(sub)
    if isinstance(value.get("items"), dict):
        yield from schemas(value["items"])
    for branch in value.get("allOf", ()):
        yield from schemas(branch["then"])


@pytest.mark.parametrize("kind", language.KINDS)
def test_no_object_lets_unknown_keys_pass(kind: str) -> None:
    root = language.schema(kind)
    branches = {id(b["then"]) for s in schemas(root) for b in s.get("allOf", ())}
    for part in schemas(root):
        if "properties" in part and id(part) not in branches:
            assert part.get("unevaluatedProperties") is False, part.get("description")


@pytest.mark.parametrize("kind", language.KINDS)
def test_unions_are_tagged(kind: str) -> None:
    for part in nodes(language.schema(kind)):
        assert not {"anyOf", "oneOf", "$ref"} & part.keys()
        for branch in part.get("allOf", ()):
            (tag,) = branch["if"]["properties"]
            assert branch["if"]["required"] == [tag]


@pytest.mark.parametrize("kind", language.KINDS)
def test_fast_judge_knows_every_keyword_in_use(kind: str) -> None:
    told = {"description", "title", "default", "$schema"}
    for part in schemas(language.schema(kind)):
        used = {key for key in part if not key.startswith("x-") or key == "x-power-of-two"}
        assert used - told <= CHECKED


def test_compiled_schema_is_what_the_fragments_say(root: Path) -> None:
    text = language.COMPILED.read_text(encoding="utf-8")
    assert text == language.compiled_text(root / "hcd" / "schema")


def test_reference_page_is_what_the_schema_says(root: Path) -> None:
    assert (root / "docs" / "hcd-reference.md").read_text(encoding="utf-8") == reference()


def test_fragments_keep_the_length_limit(root: Path) -> None:
    for file in (root / "hcd" / "schema").glob("*.yaml"):
        assert len(file.read_text(encoding="utf-8").splitlines()) <= 800, file.name


def test_leaf_is_found_by_path() -> None:
    assert language.leaf_at("chip", "memory.hbm.capacity_bytes")["x-unit"] == "bytes"
    assert language.leaf_at("chip", "compute.x.operations.y.lanes_per_cycle")["type"] == "number"


def test_unknown_path_names_the_nearest_key() -> None:
    with pytest.raises(HcdError, match="did you mean capacity_bytes"):
        language.leaf_at("chip", "memory.hbm.capacity_byte")
    with pytest.raises(HcdError, match="does not end at a value"):
        language.leaf_at("chip", "memory.hbm")
