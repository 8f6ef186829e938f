"""Every example of docs/ir.md parses, runs, and every table is what the code says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hal import ops
from hal.ir import IrTextError, parse, show
from hal.ir.expressions import FLAGS, MAX_DEPTH, MAX_NESTING, OPERATORS
from hal.ir.lexer import DTYPES
from hal.ir.nodes import BINARY, UNARY
from hal.ir.rules_names import MAX_PARTS
from hal.ir.verify import RULES

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "ir.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """The examples in one language; none is the IR."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.M | re.S)
    return [text for name, text in found if name == language]


@pytest.mark.parametrize("text", blocks(""), ids=lambda text: text.split()[1])
def test_an_example_parses_and_prints_to_itself(text: str) -> None:
    program = parse(text)
    assert parse(show(program)) == program
    assert program.kernels


def test_the_python_examples_run() -> None:
    names: dict[str, object] = {}
    for text in blocks("python"):
        exec(compile(text, "docs/ir.md", "exec"), names)


def test_the_error_that_is_shown_is_the_error() -> None:
    text = """kernel K {
  param M, N, K : int
  input: f32[M, K] A, f32[M, N] B
  output: f32[M, M] C

  operation: C[i, j] += A[i, k] * B[j, k]
}"""
    with pytest.raises(IrTextError) as caught:
        parse(text, "k.hal")
    assert blocks("text") == [f"{caught.value}\n"]


def test_the_table_of_rules_is_the_table_of_the_code() -> None:
    rows = re.findall(r"^\| (HAL-IR-\d+) \| (.*) \|$", PAGE, re.M)
    assert rows == [(rule.id, rule.law) for rule in RULES]


def test_the_grammar_names_every_type_function_and_operator() -> None:
    grammar = blocks("ebnf")[0]
    words = set(re.findall(r'"([^"]+)"', grammar))
    assert set(DTYPES) - words == set()
    assert set(OPERATORS) - words == set()
    said = set(re.findall(r"[a-z_0-9]+", PAGE))
    spelt = {"add", "sub", "mul", "div", "idiv", "imod", "neg", "lt", "le", "eq", "ne"}
    assert (UNARY | BINARY | set(FLAGS)) - spelt - said == set()
    assert {flag for flags in FLAGS.values() for flag in flags} - said == set()


def test_the_limits_are_those_of_the_code() -> None:
    line = next(line for line in PAGE.splitlines() if line.startswith("Limits:"))
    assert re.findall(r"[\d,]*\d", line) == [str(MAX_NESTING), str(MAX_DEPTH), f"{MAX_PARTS:,}"]


def test_the_table_of_operators_is_the_library() -> None:
    rows = re.findall(r"^\| ([a-z ]+) \| ([a-z_0-9 ]+) \|$", PAGE, re.M)
    table = {domain.replace(" ", "_"): names.split() for domain, names in rows}
    assert {d: ops.names(d) for d in ops.domains()} == {d: table.get(d) for d in ops.domains()}
