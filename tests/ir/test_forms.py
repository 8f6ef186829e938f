"""What any kernel and any text do: print and parse again, or be refused with a place."""

from __future__ import annotations

import sys

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hal.errors import HalError
from hal.ir import Kernel, check, parse, show, verify
from hal.ir.program import Program
from tests.ir.ir_strategies import WORDS, kernels, programs

EASY = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
RIGHT = """# about
kernel K {
  param M, N : int
  index d : 3
  scalar f32 s
  input: f32[M, N] X, i32[M] t
  output: f32[M, N] Y
  let u = X[i + d - 1, j // 2] pad -inf
  operation: Y[i, j] += where(j <= i, u * s, exp(X[t[i], j])) - f16(2.5, saturate)
}
schedule K for "chip" { tile i 4; stages 2 }
"""


@EASY
@given(kernels())
def test_a_printed_kernel_parses_to_itself(kernel: Kernel) -> None:
    text = show(kernel)
    assert parse(text, verify=False).kernels == (kernel,)


@EASY
@given(programs)
def test_printing_is_idempotent(program: Program) -> None:
    text = show(program)
    again = parse(text, verify=False)
    assert again == program
    assert show(again) == text


@EASY
@given(kernels())
def test_the_verifier_judges_every_kernel(kernel: Kernel) -> None:
    problems = verify(kernel)
    try:
        check(kernel)
    except HalError as error:
        assert problems[0].rule in str(error)
    else:
        assert problems == []


def outcome(text: str) -> None:
    """Parse; only the SDK's own error may come, and it has a place inside of the text."""
    try:
        parse(text, "k.hal")
    except HalError as error:
        file, line, column = error.call.split(":")
        assert file == "k.hal"
        assert 1 <= int(line) <= text.count("\n") + 1
        assert int(column) >= 1


@EASY
@given(st.lists(st.sampled_from(WORDS), max_size=60))
def test_word_soup_is_parsed_or_refused(words: list[str]) -> None:
    outcome(" ".join(words))
    outcome(RIGHT.replace("f16(2.5, saturate)", " ".join(words)))
    outcome(RIGHT.replace("let u", " ".join(words) + " let u"))


@EASY
@given(st.one_of(st.text(max_size=80), st.binary(max_size=80).map(lambda b: b.decode("latin-1"))))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    outcome(text)
    outcome(RIGHT.replace("X[t[i], j]", text))


@EASY
@given(st.integers(0, len(RIGHT)), st.integers(0, 20), st.sampled_from([*WORDS, "", "(((", "$"]))
def test_a_damaged_kernel_is_parsed_or_refused(start: int, length: int, word: str) -> None:
    outcome(RIGHT[:start] + word + RIGHT[start + length :])


def test_deep_text_needs_no_deep_stack() -> None:
    limit = sys.getrecursionlimit()
    for text in ("(" * 200_000, "not " * 200_000, "X[" * 200_000, "exp(" * 200_000, "-(" * 200_000):
        outcome(RIGHT.replace("X[t[i], j]", text))
    assert sys.getrecursionlimit() == limit
