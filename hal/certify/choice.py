"""`--select`: which cases, as an expression over words.

    memory                   a part of the id, the file's name, or a rule id
    HAL-MEM-004              the cases that cite a rule
    tier1 and not negative   tier1 … tier3, negative, layer, loader, port
    "tier2/matmul*"          a pattern over the id

`and`, `or`, `not` and parentheses combine; words side by side mean `and`.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable

from hal.certify.supervisor import Collected
from hal.errors import UsageError

__all__ = ["selector"]

Test = Callable[[Collected], bool]
_TOKEN = re.compile(r"\s*([()]|[^\s()]+(?:\[[^\]]*\])?)")


def selector(expression: str) -> Test:
    """Return a test for cases.

    Raises:
        UsageError: the expression is not well formed.
    """
    tokens = _TOKEN.findall(expression)
    if not tokens:
        raise UsageError("--select is empty", call="hal-certify")
    test, rest = _either(tokens, expression)
    if rest:
        raise _wrong(expression, rest[0])
    return test


def _wrong(expression: str, token: str) -> UsageError:
    return UsageError(
        f"--select {expression!r}: unexpected {token!r}",
        call="hal-certify",
        next_step="Combine words with and, or, not and parentheses.",
    )


def _either(tokens: list[str], whole: str) -> tuple[Test, list[str]]:
    test, rest = _both(tokens, whole)
    while rest and rest[0] == "or":
        left = test
        right, rest = _both(rest[1:], whole)
        test = _any_of(left, right)
    return test, rest


def _both(tokens: list[str], whole: str) -> tuple[Test, list[str]]:
    test, rest = _one(tokens, whole)
    while rest and rest[0] not in ("or", ")"):
        left = test
        right, rest = _one(rest[1:] if rest[0] == "and" else rest, whole)
        test = _all_of(left, right)
    return test, rest


def _one(tokens: list[str], whole: str) -> tuple[Test, list[str]]:
    if not tokens or tokens[0] in ("and", "or", ")"):
        raise _wrong(whole, tokens[0] if tokens else "end")
    word, rest = tokens[0], tokens[1:]
    if word == "not":
        inner, rest = _one(rest, whole)
        return (lambda case: not inner(case)), rest
    if word == "(":
        inner, rest = _either(rest, whole)
        if not rest or rest[0] != ")":
            raise _wrong(whole, "end")
        return inner, rest[1:]
    return (lambda case: matches(case, word)), rest


def _any_of(left: Test, right: Test) -> Test:
    return lambda case: left(case) or right(case)


def _all_of(left: Test, right: Test) -> Test:
    return lambda case: left(case) and right(case)


def matches(case: Collected, word: str) -> bool:
    """Tell whether one word means a case."""
    if word in ("negative", "layer", "loader", "port"):
        return case.negative if word == "negative" else case.subject == word
    if word in (f"tier{case.tier}", case.group, case.id) or word in case.rules:
        return True
    if re.fullmatch(r"tier\d", word) or re.fullmatch(r"HAL-[A-Z]+-\d{3}", word):
        return False
    if "*" in word or "?" in word:
        pattern = re.sub(r"\[", "[[]", word)
        return fnmatch.fnmatchcase(case.id, pattern)
    return word in case.id
