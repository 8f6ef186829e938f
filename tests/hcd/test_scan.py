"""Reading YAML 1.2 with positions: scalars, duplicate keys, limits, and broken files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hal.errors import HcdError
from hal.hcd.scan import MAX_BYTES, Problem, read_text, scan


def plain(text: str) -> Any:
    return scan(text, "f").plain()


def refusal(text: str) -> str:
    with pytest.raises(HcdError) as caught:
        scan(text, "f")
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e9", 10**9),
        ("1.5e3", 1500),
        ("2.0", 2),
        ("0.25", 0.25),
        ("-7", -7),
        ("007", 7),
        ("0x10", 16),
        ("0o17", 15),
        ("12:30:45", "12:30:45"),
        ("on", "on"),
        ("yes", "yes"),
        ("2026-12-01", "2026-12-01"),
        ("1_000", "1_000"),
        ("true", True),
        ("False", False),
        ("~", None),
        ('"1"', "1"),
        ("'true'", "true"),
        ("!!str 5", "5"),
        ("9007199254740993", 9007199254740993),
    ],
)
def test_scalar_has_its_yaml_1_2_meaning(text: str, value: object) -> None:
    assert plain(f"a: {text}") == {"a": value}
    assert type(plain(f"a: {text}")["a"]) is type(value)


def test_every_node_knows_its_place() -> None:
    root = scan("a: 1\nb:\n  - x: 2\n  - y: 3\n", "f")
    assert str(root.value["b"].value[1].value["y"].mark) == "f:4:8"
    assert str(root.value["b"].value[1].value["y"].key_mark) == "f:4:5"


def test_key_that_stands_twice_is_refused_with_both_lines() -> None:
    assert "f:3:1: a: the key is there twice; first at line 1" in refusal("a: 1\nb: 2\na: 3\n")


def test_alias_repeats_its_anchor() -> None:
    assert plain("a: &x [1, 2]\nb: *x\n") == {"a": [1, 2], "b": [1, 2]}


def test_alias_bomb_is_refused_before_it_grows() -> None:
    lines = ["a0: &a0 [1, 2, 3, 4, 5, 6, 7, 8, 9]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)]
    assert "aliases expand to more than 50,000 values" in refusal("\n".join(lines))


def test_anchor_inside_itself_is_refused() -> None:
    assert "*x names no complete anchor before it" in refusal("a: &x [*x]")


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "is empty"),
        ("# nothing\n", "is empty"),
        ("- 1\n", "must be a mapping"),
        ("a: [1", "is not YAML"),
        ("a: 1\n---\nb: 2\n", "f:2:1: a second document starts"),
        ("? [a]\n: 1\n", "a key must be one word"),
        ("a: " + "[" * 30 + "]" * 30, "more than 24 levels"),
        ("a: " + "[" * 5000, "more than 24 levels"),
        ("a: .nan\n", "f:1:4: a: .nan is not a finite number"),
        ("a: -.inf\n", "is not a finite number"),
        ("a: 1e999\n", "beyond 10^300"),
        ("a: " + "9" * 80 + "\n", "more than 60 characters"),
        ("a: !!python/object:os.system x\n", "the tag"),
        ("a: \x01\n", "f:1:4: holds a control character"),
        ("a: %\n", "is not YAML"),
    ],
)
def test_broken_text_gives_one_clear_error(text: str, part: str) -> None:
    assert part in refusal(text)


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (b"a: 1\nb: \xff\n", ":2:4: byte 0xff is not UTF-8"),
        (b"\xff\xfea\x00", "is UTF-16"),
        (b"a: 1\nb: \x00\n", ":2:4: holds a NUL byte"),
        (b"#" * (MAX_BYTES + 1), "is larger than 1,048,576 bytes"),
    ],
)
def test_file_of_wrong_bytes_is_refused(tmp_path: Path, data: bytes, part: str) -> None:
    file = tmp_path / "x.yaml"
    file.write_bytes(data)
    with pytest.raises(HcdError, match=part):
        read_text(file)


def test_byte_order_mark_is_skipped(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_bytes(b"\xef\xbb\xbfa: 1\n")
    assert read_text(file) == "a: 1\n"


def test_missing_file_and_directory_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(HcdError, match="there is no such file"):
        read_text(tmp_path / "none.yaml")
    with pytest.raises(HcdError, match="is a directory, not a file"):
        read_text(tmp_path)
    with pytest.raises(HcdError, match="cannot be read"):
        read_text("a\0b")


def test_mistakes_that_leave_the_tree_readable_are_collected() -> None:
    problems: list[Problem] = []
    root = scan("a: 1\na: 2\nb: .nan\n", "f", problems)
    assert root.plain() == {"a": 1, "b": 0}
    assert [problem.path for problem in problems] == ["a", "b"]
