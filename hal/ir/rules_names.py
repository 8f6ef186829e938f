"""Rules about names, shapes and the size of a kernel. The others rely on them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches

from hal.ir.expressions import MAX_DEPTH
from hal.ir.lexer import NAME, RESERVED
from hal.ir.nodes import (
    ASSIGNMENTS,
    BINARY,
    NAMED_CALLS,
    UNARY,
    Access,
    Assign,
    Call,
    Const,
    Expr,
    Index,
    Kernel,
    Let,
    LetRef,
    NamedCall,
    ParamRef,
    ScalarRef,
    Span,
    children,
    walk,
)
from hal.ir.problems import Finding
from hal.wording import counted

__all__ = [
    "INTEGER_FUNCTIONS",
    "find_bad_extents",
    "find_bad_functions",
    "find_bad_names",
    "find_bad_ranks",
    "find_bad_scalars",
    "find_double_names",
    "find_large_expressions",
    "find_unknown_names",
    "span_of",
]

INTEGER_FUNCTIONS = frozenset("neg add sub mul idiv imod max min".split())
"""Functions of extents and of what stands in subscripts beside indices."""

MAX_PARTS = 20_000


def span_of(item: object) -> Span | None:
    """The place of an expression or declaration."""
    found = getattr(item, "span", None)
    return found if isinstance(found, Span) else None


def expressions(kernel: Kernel) -> Iterator[Expr]:
    """Every whole expression of the statements, targets too, lets as they are written."""
    for item in kernel.statements:
        if isinstance(item, Assign):
            yield from item.targets
        yield item.value


def parts(kernel: Kernel) -> Iterator[Expr]:
    """Every part of every expression."""
    for whole in expressions(kernel):
        yield from walk(whole)


def declared(kernel: Kernel) -> Iterator[tuple[str, str, Span | None]]:
    """(name, what it is, place) of all that a kernel declares."""
    for name in kernel.params:
        yield name, "a param", None
    for array in kernel.arrays:
        yield array.name, f"an {array.role}" if array.role[0] in "io" else "a temp", array.span
    for scalar in kernel.scalars:
        yield scalar.name, "a scalar", scalar.span
    for extent in kernel.extents:
        yield extent.name, "an index", extent.span
    for item in kernel.statements:
        if isinstance(item, Let):
            yield item.name, "a let", item.span


def near(name: str, known: Iterable[str]) -> str:
    """`Did you mean …?`, or nothing."""
    found = get_close_matches(name, sorted(known), n=1, cutoff=0.6)
    return f"Did you mean {found[0]}?" if found else ""


def find_bad_names(kernel: Kernel) -> Iterator[Finding]:
    """HAL-IR-001."""
    used = [(item.name, "an index", item.span) for item in parts(kernel) if isinstance(item, Index)]
    for name, what, span in [(kernel.name, "a kernel", kernel.span), *declared(kernel), *used]:
        if name in RESERVED and what != "a kernel":
            yield Finding(f"{name} is a word of the language, not {what}", span, "Rename it.")
        elif re.fullmatch(NAME, name) is None or len(name) > 63:
            rule = "A name is a letter or _, then letters, digits and _, at most 63."
            yield Finding(f"{name!r} cannot name {what}", span, rule)


def find_double_names(kernel: Kernel) -> Iterator[Finding]:
    """HAL-IR-002."""
    seen: dict[str, str] = {}
    for name, what, span in declared(kernel):
        if name in seen:
            yield Finding(f"{name} is {seen[name]} already", span, "Rename one of the two.")
        seen.setdefault(name, what)
    for item in parts(kernel):
        if isinstance(item, Index) and seen.get(item.name, "an index") != "an index":
            yield Finding(
                f"{item.name} is {seen[item.name]}, and an index here",
                item.span,
                "Rename one of the two, or write the let before its use.",
            )


def find_unknown_names(kernel: Kernel) -> Iterator[Finding]:
    """HAL-IR-003."""
    known: dict[type, set[str]] = {
        Access: {item.name for item in kernel.arrays},
        ParamRef: set(kernel.params),
        ScalarRef: {item.name for item in kernel.scalars},
        LetRef: set(),
    }
    what = {Access: "array", ParamRef: "param", ScalarRef: "scalar", LetRef: "let before this"}
    for statement in kernel.statements:
        wholes = [statement.value]
        wholes += list(statement.targets) if isinstance(statement, Assign) else []
        for item in (part for whole in wholes for part in walk(whole)):
            kind = type(item)
            if kind not in known:
                continue
            name = item.array if isinstance(item, Access) else getattr(item, "name", "")
            if name not in known[kind]:
                step = near(name, known[kind]) or "Declare it."
                yield Finding(f"there is no {what[kind]} called {name}", span_of(item), step)
        if isinstance(statement, Let):
            known[LetRef].add(statement.name)


def find_bad_extents(kernel: Kernel) -> Iterator[Finding]:
    """HAL-IR-004."""
    sizes = [(f"the shape of {a.name}", part, a.span) for a in kernel.arrays for part in a.shape]
    sizes += [(f"the extent of {e.name}", e.size, e.span) for e in kernel.extents]
    for what, size, span in sizes:
        for item in walk(size):
            if isinstance(item, ParamRef) and item.name not in kernel.params:
                step = near(item.name, kernel.params) or f"Declare it: param {item.name} : int."
                yield Finding(f"{item.name} in {what} is no param", item.span or span, step)
            elif not _is_whole(item):
                yield Finding(
                    f"{what} must be whole numbers and params with + - * // % max min",
                    span_of(item) or span,
                )
                break


def _is_whole(item: Expr) -> bool:
    if isinstance(item, Call):
        return item.function in INTEGER_FUNCTIONS
    if isinstance(item, Const):
        whole = type(item.value) is int and (item.dtype is None or item.dtype.is_int)
        return whole and abs(item.value) < 2**62
    return isinstance(item, ParamRef)


def find_bad_ranks(kernel: Kernel) -> Iterator[Finding]:
    """HAL-IR-005."""
    ranks = {array.name: len(array.shape) for array in kernel.arrays}
    for item in parts(kernel):
        if isinstance(item, Access) and len(item.indices) != ranks.get(item.array, -1):
            count = ranks.get(item.array, 0)
            yield Finding(
                f"{item.array} has {counted(count, 'dimension')}, "
                f"{counted(len(item.indices), 'subscript')} given",
                item.span,
                f"Write {item.array}[{', '.join('ijkl'[d % 4] for d in range(count))}].",
            )


def find_bad_functions(kernel: Kernel) -> Iterator[Finding]:
    """HAL-IR-006."""
    known = UNARY | BINARY | {"where", "philox"}
    for statement in kernel.statements:
        if isinstance(statement, Assign) and statement.assignment not in ASSIGNMENTS:
            listed = " ".join(ASSIGNMENTS)
            yield Finding(
                f"{statement.assignment!r} assigns nothing", statement.span, f"Use one of {listed}."
            )
    for item in parts(kernel):
        if isinstance(item, NamedCall) and item.function not in NAMED_CALLS:
            step = near(item.function, NAMED_CALLS) or "docs/ir.md lists them."
            yield Finding(f"there is no call {item.function}", item.span, step)
        if not isinstance(item, Call):
            continue
        name, count = item.function, len(item.operands)
        if name not in known:
            step = near(name, known) or "docs/ir.md lists the functions."
            yield Finding(f"there is no function {name}", item.span, step)
            continue
        wanted = 3 if name in ("where", "philox") else 2 if name in BINARY else 1
        if count != wanted:
            yield Finding(f"{name} takes {wanted} operands, found {count}", item.span)


def find_large_expressions(kernel: Kernel) -> Iterator[Finding]:
    """HAL-IR-007."""
    sizes: dict[str, tuple[int, int]] = {}
    total = 0
    for statement in kernel.statements:
        roots: list[Expr] = [statement.value]
        roots += list(statement.targets) if isinstance(statement, Assign) else []
        count, depth = map(max, zip(*(_measure(root, sizes) for root in roots), strict=True))
        if isinstance(statement, Let):
            sizes[statement.name] = (count, depth)
            continue
        total += count
        if depth > 2 * MAX_DEPTH or total > MAX_PARTS:
            what = f"{depth} levels deep" if depth > 2 * MAX_DEPTH else f"{total} parts"
            yield Finding(
                f"with its lets put in place this is {what}; the limits are {2 * MAX_DEPTH} levels "
                f"and {MAX_PARTS} parts",
                statement.span,
                "Give parts of it to temp arrays.",
            )
            return


def _measure(root: Expr, lets: dict[str, tuple[int, int]]) -> tuple[int, int]:
    """Parts and levels with the lets put in place, without recursion."""
    count, deepest, stack = 0, 0, [(root, 1)]
    while stack:
        item, depth = stack.pop()
        inner = lets.get(item.name, (1, 1)) if isinstance(item, LetRef) else (1, 1)
        count += inner[0]
        deepest = max(deepest, depth + inner[1] - 1)
        stack += [(child, depth + 1) for child in children(item)]
    return count, deepest


def find_bad_scalars(kernel: Kernel) -> Iterator[Finding]:
    """HAL-IR-008."""
    for item in kernel.scalars:
        if item.dtype.name not in ("f32", "f64", "i32", "i64"):
            step = "Use one of f32 f64 i32 i64, and convert it where it is used."
            yield Finding(f"the scalar {item.name} is {item.dtype}", item.span, step)
    roles = ("input", "output", "inout", "temp")
    for array in kernel.arrays:
        if array.role not in roles:
            yield Finding(f"{array.name} has the role {array.role!r}", array.span, f"Use {roles}.")
