"""No input makes a traceback, and the fast judge agrees with the JSON Schema library."""

from __future__ import annotations

import copy
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hal.errors import HcdError
from hal.hcd import from_flat, load, shipped
from hal.hcd.accept import accepts
from hal.hcd.explain import explain
from hal.hcd.model import check
from hal.hcd.resolve import find
from hal.hcd.scan import Mark, Node, decode, scan
from hal.hcd.schema import KINDS, schema

FUZZ = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
NAMES = sorted(name.partition("@")[0] for name in shipped())

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**12), 10**12),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=12),
    st.sampled_from(["chip", "system", "matrix", "cache", "f32", "near", "core", "1.0", "1.9"]),
)
junk = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.one_of(st.text(max_size=8), st.sampled_from(["id", "kind", "op", "count", "ends"])),
            inner,
            max_size=3,
        ),
    ),
    max_leaves=6,
)


@cache
def corpus(name: str) -> bytes:
    return find(name).read_bytes()


@cache
def data(name: str) -> dict[str, Any]:
    return load(name).data


def tree(value: Any) -> Node:
    mark = Mark("f", 1, 1)
    if isinstance(value, dict):
        return Node({key: tree(sub) for key, sub in value.items()}, mark, mark)
    if isinstance(value, list):
        return Node([tree(sub) for sub in value], mark)
    return Node(value, mark, mark)


def judge(root: Node) -> None:
    """Checks a tree; the only way to fail is an HcdError with problems that name a place."""
    try:
        hcd = check(root, file="f")
    except HcdError as error:
        assert error.problems
        assert all(":" in problem for problem in error.problems)
    else:
        assert from_flat(hcd.flat()).flat() == hcd.flat()


@FUZZ
@given(st.text(max_size=300))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        scan(text, "f")
    except HcdError as error:
        assert error.problems


@FUZZ
@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    try:
        scan(decode(raw, "f"), "f")
    except HcdError as error:
        assert error.problems


@FUZZ
@given(
    st.sampled_from(NAMES),
    st.lists(
        st.tuples(
            st.sampled_from(["flip", "cut", "double", "swap"]),
            st.floats(0, 1),
            st.integers(1, 40),
            st.sampled_from(list(b"\0\t\n:-[]{}&*!#'\"%@`,|>0aZ\xff")),
        ),
        min_size=1,
        max_size=4,
    ),
)
def test_mutated_file_is_read_or_refused(
    name: str, edits: list[tuple[str, float, int, int]]
) -> None:
    raw = bytearray(corpus(name))
    for what, where, length, byte in edits:
        at = int(where * max(len(raw) - 1, 0))
        if what == "flip":
            raw[at : at + 1] = bytes([byte])
        elif what == "cut":
            del raw[at : at + length]
        elif what == "double":
            raw[at:at] = raw[at : at + length]
        else:
            raw[at : at + 1] = raw[-at - 1 : len(raw) - at]
    folder = Path("hcd/chips")
    try:
        root = scan(decode(bytes(raw), str(folder / "mutated.yaml")), str(folder / "mutated.yaml"))
    except HcdError as error:
        assert error.problems
        return
    root.value.pop("extends", None)
    judge(root)


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    out = [path] if path else []
    items = value.items() if isinstance(value, dict) else []
    if isinstance(value, list):
        items = list(enumerate(value))
    for key, sub in items:
        out += paths(sub, (*path, key))
    return out


@FUZZ
@given(st.sampled_from(NAMES), st.data())
def test_mutated_tree_is_judged_and_both_judges_agree(name: str, draw: st.DataObject) -> None:
    value = copy.deepcopy(data(name))
    for _ in range(draw.draw(st.integers(1, 3))):
        places = paths(value)
        if not places:
            break
        path = places[draw.draw(st.integers(0, len(places) - 1))]
        owner = value
        for key in path[:-1]:
            owner = owner[key]
        action = draw.draw(st.sampled_from(["replace", "delete", "add", "copy"]))
        if action == "delete":
            del owner[path[-1]]
        elif action == "add" and isinstance(owner, dict):
            owner[draw.draw(st.text(max_size=6))] = draw.draw(junk)
        elif action == "copy" and isinstance(owner, list):
            owner.append(copy.deepcopy(owner[path[-1]]))
        else:
            owner[path[-1]] = draw.draw(junk)
    kind = value.get("kind")
    kind = kind if isinstance(kind, str) and kind in KINDS else "chip"
    root = tree(value)
    assert accepts(schema(kind), root.plain()) == (explain(schema(kind), root) == [])
    judge(root)


@FUZZ
@given(st.sampled_from(KINDS), junk)
def test_both_judges_agree_on_anything(kind: str, value: Any) -> None:
    if not isinstance(value, dict):
        value = {"kind": value}
    root = tree(value)
    assert accepts(schema(kind), value) == (explain(schema(kind), root) == [])


@FUZZ
@given(st.sampled_from(NAMES), st.floats(0, 1), st.integers(1, 30), st.text(max_size=10))
def test_mutated_flat_form_is_read_or_refused(
    name: str, where: float, length: int, text: str
) -> None:
    flat = load(name).flat().decode()
    at = int(where * len(flat))
    for changed in (flat[:at] + text + flat[at:], flat[:at] + text + flat[at + length :]):
        try:
            from_flat(changed)
        except HcdError as error:
            assert error.problems


@FUZZ
@given(st.one_of(st.text(max_size=20), st.dictionaries(st.text(max_size=20), junk, max_size=2)))
def test_any_overlay_is_taken_or_refused(overlay: Any) -> None:
    try:
        load("hal/cpu").overlay(overlay)
    except HcdError as error:
        assert error.problems


@FUZZ
@given(st.text(max_size=40))
def test_any_name_is_found_or_refused(name: str) -> None:
    try:
        load(name)
    except HcdError as error:
        assert str(error)


@pytest.mark.parametrize("depth", [10, 100, 900, 3000])
def test_deep_flat_value_is_refused(depth: int) -> None:
    text = f"hcd_version\t1.0\nmemory\t{'[' * depth}{']' * depth}\n"
    with pytest.raises(HcdError):
        from_flat(text)


def test_fuzzed_corpus_is_json_data() -> None:
    assert all(json.loads(json.dumps(data(name))) == data(name) for name in NAMES)
