"""The verifier: what every kernel obeys, as a table of rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

from hal.ir import rules_access, rules_names, rules_types
from hal.ir.analysis import indices_of, inline_lets, reduced_indices
from hal.ir.errors import IrError, IrTextError
from hal.ir.nodes import Kernel, Schedule
from hal.ir.problems import Finding, Problem, Rule
from hal.ir.rules_names import near

__all__ = [
    "LENGTHS",
    "RULES",
    "Problem",
    "Rule",
    "check",
    "check_schedules",
    "verify",
    "verify_schedule",
]

_NAMES = (
    Rule(
        "HAL-IR-001",
        "Every name is a name, and no word of the language.",
        rules_names.find_bad_names,
    ),
    Rule("HAL-IR-002", "A name stands for one thing.", rules_names.find_double_names),
    Rule(
        "HAL-IR-003",
        "Arrays, params, scalars and lets are declared before their use.",
        rules_names.find_unknown_names,
    ),
    Rule(
        "HAL-IR-004",
        "Extents are whole-number expressions of params.",
        rules_names.find_bad_extents,
    ),
    Rule(
        "HAL-IR-005",
        "An access has one subscript for each dimension.",
        rules_names.find_bad_ranks,
    ),
    Rule(
        "HAL-IR-006",
        "Functions exist and have their number of operands.",
        rules_names.find_bad_functions,
    ),
    Rule(
        "HAL-IR-007",
        "Expressions, with lets put in place, stay within limits.",
        rules_names.find_large_expressions,
    ),
    Rule(
        "HAL-IR-008",
        "A scalar is f32 f64 i32 or i64; an array is input, output, inout or temp.",
        rules_names.find_bad_scalars,
    ),
)
"""The other rules look only at kernels that obey these."""

_MEANING = (
    Rule("HAL-IR-009", "Every index has an extent.", rules_access.find_unbounded),
    Rule("HAL-IR-010", "An index has one extent.", rules_access.find_doubly_bound),
    Rule(
        "HAL-IR-011",
        "Operands have one kind, and one that their function takes.",
        rules_types.find_mixed_kinds,
    ),
    Rule(
        "HAL-IR-012",
        "A stored value fits the kind and range of its array.",
        rules_types.find_bad_stores,
    ),
    Rule("HAL-IR-013", "A pad is a value of its array's type.", rules_types.find_bad_pads),
    Rule("HAL-IR-014", "An input is never written.", rules_access.find_written_inputs),
    Rule(
        "HAL-IR-015",
        "Outputs and temps are written before they are read.",
        rules_access.find_early_reads,
    ),
    Rule(
        "HAL-IR-016",
        "A statement reads an array that it writes only at the same subscripts.",
        rules_access.find_alias_reads,
    ),
    Rule(
        "HAL-IR-017",
        "Subscripts are affine in indices, with at most one loaded index.",
        rules_access.find_bad_subscripts,
    ),
    Rule(
        "HAL-IR-018",
        "Targets have distinct indices, or one loaded index.",
        rules_access.find_bad_targets,
    ),
    Rule(
        "HAL-IR-019",
        "An index only on the right needs a reduction.",
        rules_access.find_plain_sums,
    ),
    Rule(
        "HAL-IR-020",
        "Calls along an axis stand alone, in their own form.",
        rules_access.find_bad_named_calls,
    ),
)

RULES: tuple[Rule, ...] = _NAMES + _MEANING
"""Every rule for a kernel; schedules have HAL-IR-030 to 033 in `verify_schedule`."""

LENGTHS = frozenset({"HAL-IR-010"})
"""For `check(without=…)`: a kernel made in Python may know lengths that its extents do not show."""

_SPACES = ("near", "mma_a", "mma_b", "acc", "vec", "scalar")


def verify(kernel: Kernel) -> list[Problem]:
    """Everything that is wrong with a kernel, in the order of the rules."""
    return list(_verified(kernel))


@lru_cache(maxsize=512)
def _verified(kernel: Kernel) -> tuple[Problem, ...]:
    for rules in (_NAMES, _MEANING):
        found = [
            Problem(rule.id, item.text, item.span, item.next_step)
            for rule in rules
            for item in rule.find(kernel)
        ]
        if found:
            return tuple(found)
    return ()


def check(
    kernel: Kernel,
    *,
    source: str = "",
    name: str = "<text>",
    without: frozenset[str] = frozenset(),
) -> None:
    """Raise the first problem of a kernel, with its place when the text is given.

    Args:
        source: The text that the kernel came from.
        name: Name of that text.
        without: Ids of rules that do not count.

    Raises:
        IrError: IrTextError where there is a text.
    """
    problems = [item for item in _verified(kernel) if item.rule not in without]
    _raise(problems, kernel.name, source, name)


def verify_schedule(schedule: Schedule, kernels: Iterable[Kernel]) -> list[Problem]:
    """Everything that is wrong with a schedule, chips aside (HAL-IR-030 to 033)."""
    return [
        Problem(rule, item.text, item.span or schedule.span, item.next_step)
        for rule, item in _schedule_findings(schedule, {k.name: k for k in kernels})
    ]


def check_schedules(
    schedules: Iterable[Schedule],
    kernels: Iterable[Kernel],
    *,
    source: str = "",
    name: str = "<text>",
) -> None:
    """Raise the first problem of some schedules, as `check` does."""
    known = tuple(kernels)
    for schedule in schedules:
        _raise(verify_schedule(schedule, known), f"schedule {schedule.kernel}", source, name)


def _raise(problems: list[Problem], what: str, source: str, name: str) -> None:
    if not problems:
        return
    first = problems[0]
    if source and first.span is not None:
        step = f"{first.next_step} ({first.rule})".strip()
        raise IrTextError(first.text, file=name, span=first.span, source=source, next_step=step)
    raise IrError(f"{first.text} ({first.rule})", call=what, next_step=first.next_step)


def _schedule_findings(
    schedule: Schedule, kernels: dict[str, Kernel]
) -> Iterator[tuple[str, Finding]]:
    kernel = kernels.get(schedule.kernel)
    if kernel is None:
        step = near(schedule.kernel, kernels) or f"There are: {', '.join(kernels) or 'none'}."
        yield "HAL-IR-030", Finding(f"there is no kernel {schedule.kernel}", None, step)
        return
    inlined = inline_lets(kernel)
    indices = {
        name
        for statement in inlined.assigns
        for whole in (*statement.targets, statement.value)
        for name in indices_of(whole)
    }
    reduced = {name for statement in inlined.assigns for name in reduced_indices(statement)}
    for pair in (*schedule.tiles, *schedule.split):
        (name, length), at = pair, schedule.place(pair)
        if name not in indices:
            step = near(name, indices) or f"It has: {', '.join(sorted(indices))}."
            yield "HAL-IR-031", Finding(f"{kernel.name} has no index {name}", at, step)
        if length < 1:
            yield "HAL-IR-031", Finding(f"the length {length} of {name} is below 1", at)
    for part in schedule.split:
        if (name := part[0]) in indices - reduced:
            listed, at = ", ".join(sorted(reduced)) or "none", schedule.place(part)
            step = f"Reduced are: {listed}."
            yield "HAL-IR-032", Finding(f"{name} is not reduced, it cannot be split", at, step)
    arrays = {array.name for array in kernel.arrays}
    for home in schedule.spaces:
        (name, space), at = home, schedule.place(home)
        if name not in arrays:
            step = near(name, arrays) or f"It has: {', '.join(sorted(arrays))}."
            yield "HAL-IR-033", Finding(f"{kernel.name} has no array {name}", at, step)
        if space not in _SPACES:
            step = near(space, _SPACES) or f"There are: {', '.join(_SPACES)}."
            yield "HAL-IR-033", Finding(f"there is no space {space}", at, step)
