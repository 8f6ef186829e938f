"""From a kernel of the tensor IR to a VIL module for one chip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import Any

from hal.codegen import choice_store, tier1
from hal.codegen.errors import CodegenError
from hal.codegen.groups import STRATEGIES, choose, lower_group
from hal.codegen.lowering import Lowering
from hal.codegen.target import Target
from hal.codegen.tuned import preferred
from hal.dtypes import DType
from hal.errors import HalError
from hal.hcd import Hcd
from hal.ir import Span, check, passes
from hal.ir.analysis import compute_dtype, inline_lets
from hal.ir.nodes import Array, Kernel, Schedule
from hal.ir.verify import LENGTHS
from hal.vil.module import Module
from hal.vil.validator import validate

__all__ = ["OPTIONAL", "Compiled", "Decision", "compile_kernel", "finished"]

OPTIONAL = frozenset(STRATEGIES[:-1])
"""Strategies that may be left out; the last one takes every statement."""


@dataclass(frozen=True)
class Decision:
    """How one group of statements runs.

    Attributes:
        strategy: Name of the strategy.
        statements: How many it took.
        choice: Its choice of tiles.
        seconds: Its estimate.
    """

    strategy: str
    statements: int
    choice: Any
    seconds: float


@dataclass(frozen=True)
class Compiled:
    """What compiling gives.

    Attributes:
        module: For `device.load`; its kernel is called `kernel_name`.
        kernel: The kernel after the passes.
        choices: One for each group of statements, in order.
        stages: (pass, kernel after it) for each pass that changed something.
        flat: The module before engines and spaces were chosen; `module` where none were.
        notes: Sentences about what was not done, and why.
    """

    module: Module
    kernel_name: str
    kernel: Kernel
    choices: tuple[Decision, ...] = ()
    stages: tuple[tuple[str, Kernel], ...] = ()
    flat: Module = field(default_factory=Module)
    notes: tuple[str, ...] = ()


def compile_kernel(
    kernel: Kernel,
    hcd: Hcd | Target | None = None,
    *,
    sizes: Mapping[str, int] | None = None,
    without: AbstractSet[str] = frozenset(),
    schedule: Schedule | None = None,
    dtype: DType | None = None,
    route: str = "auto",
    choices: Sequence[Any] | None = None,
    source: str = "",
    name: str = "",
    deterministic: bool = False,
) -> Compiled:
    """Makes the VIL module of a kernel; it serves every size.

    Args:
        hcd: The chip; None for vil-core, which every chip can run.
        sizes: Params that steer choices; they never change a result.
        without: Names of passes (hal.ir.passes.NAMES) and strategies (OPTIONAL) to leave out.
        schedule: Advice of the user; one for another chip or kernel is not looked at.
        dtype: Store f32 arrays as f16 or bf16 instead.
        route: `auto`; `flat` leaves engines and spaces to the chip.
        choices: For each group of statements a choice of its strategy, or None for the best of the
            ranking; without any, those that `hal tune` kept for the kernel, chip and sizes.
        source, name: The kernel's text and what it is called, for places in messages.
        deterministic: The same bits on every run, where programs would add in any order.

    Raises:
        IrError: the kernel breaks a rule of the IR.
        CodegenError: the chip cannot run it, or a part of the kernel has no lowering.
        InvalidValue: `without` has an unknown name, or `dtype` is another type.
    """
    known = frozenset() if source else LENGTHS
    check(kernel, source=source, name=name or kernel.name, without=known)
    try:
        target = _advised(Target.of(hcd), kernel, schedule)
        target = replace(target, deterministic=deterministic or target.deterministic)
        return _compiled(kernel, target, dict(sizes or {}), without, dtype, route, choices)
    except CodegenError as error:
        raise _placed(error, kernel, source, name) from None


def _compiled(
    kernel: Kernel,
    target: Target,
    sizes: dict[str, int],
    without: AbstractSet[str],
    dtype: DType | None,
    route: str,
    choices: Sequence[Any] | None,
) -> Compiled:
    steps = tuple(passes.stages(kernel, without=frozenset(without) - OPTIONAL, dtype=dtype))
    whole = inline_lets(steps[-1][1] if steps else kernel)
    _check_dtypes(whole, target)
    strategies = [item for item in STRATEGIES if item not in without or item not in OPTIONAL]
    lowering = Lowering(whole, target)
    chosen: list[Decision] = []
    rest = whole.assigns
    if choices is None and sizes:
        choices = choice_store.find(whole, target.sha256, sizes)
    while rest:
        started = lowering.started_arrays
        group, best = choose(whole, rest, target, sizes, started=started, strategies=strategies)
        rest = rest[len(group.match.statements) :]
        if choices and len(chosen) < len(choices):
            best = preferred(whole, target, group, best, started, choices[len(chosen)])
        lower_group(lowering, group, best)
        seconds = float(group.module.cost(group.match, best, target, sizes))
        chosen.append(Decision(group.strategy, len(group.match.statements), best, seconds))
    notes: list[str] = []
    flat, module = finished(lowering.module(), target, route, notes)
    return Compiled(module, whole.name, whole, tuple(chosen), steps, flat, tuple(notes))


def finished(
    lowered: Module, target: Target, route: str = "auto", notes: list[str] | None = None
) -> tuple[Module, Module]:
    """The module in the operations that the chip has, and that with spaces and engines chosen.

    Args:
        notes: Gets a sentence about each thing that was not done.

    Raises:
        CodegenError: the first breaks a rule.
    """
    flat = tier1.lower(lowered, target)
    problems = validate(flat, target.data or None)
    if problems:
        raise CodegenError(f"the programs break a rule: {problems[0].where}: {problems[0].text}")
    said: list[str] = [] if notes is None else notes
    return flat, _explicit(flat, target, said) if route != "flat" else flat


def _explicit(flat: Module, target: Target, notes: list[str]) -> Module:
    """The module with spaces and engines chosen, where the chip knows them and it is valid."""
    if not target.limits.explicit or find_spec("hal.codegen.explicit") is None:
        return flat
    from importlib import import_module

    try:
        explicit = import_module("hal.codegen.explicit")
        stages = (target.advice.stages if target.advice else None) or explicit.STAGES
        turned: Module = explicit.explicit_where_it_pays(flat, target.data, stages=stages)
    except HalError as error:
        notes.append(f"the chip runs the flat profile: {error}")
        return flat
    return flat if validate(turned, target.data) else turned


def _advised(target: Target, kernel: Kernel, schedule: Schedule | None) -> Target:
    """The target with the user's advice, once the chip can follow it."""
    if schedule is None or schedule.kernel != kernel.name:
        return target
    if schedule.chip and schedule.chip != target.name:
        return target
    for home in schedule.spaces:
        array, space = home
        if space not in target.limits.spaces:
            have = ", ".join(sorted(target.limits.spaces))
            raise CodegenError(
                f"the schedule puts {array} into {space}, which {target.name} lacks; it has {have}",
                span=schedule.place(home),
            )
    return replace(target, advice=schedule)


def _check_dtypes(kernel: Kernel, target: Target) -> None:
    """Every element type is one that the chip moves, and computes or converts."""
    for array in kernel.arrays:
        wide = compute_dtype(array.dtype)
        good = target.supports("load", "", array.dtype) and target.supports(
            "store", "", array.dtype
        )
        if wide != array.dtype:
            good = good and target.supports("cast", "", array.dtype, wide)
        elif array.dtype.kind in ("float", "int"):
            good = good and target.supports("bin", "add", array.dtype)
        if not good:
            raise _lacking(array, kernel, target)


def _lacking(array: Array, kernel: Kernel, target: Target) -> CodegenError:
    from hal import dtypes

    have = [d for d in dtypes.ALL if target.supports("load", "", d) and d.kind == array.dtype.kind]
    names = ", ".join(d.name for d in have) or "none of its kind"
    step = f"Declare {array.name} as one of them."
    if array.dtype == dtypes.f32 and any(d.bytes == 2 for d in have):
        step = "Let the arrays be stored in 16 bits: compile with dtype f16 or bf16."
    return CodegenError(
        f"{array.name} of {kernel.name} is {array.dtype}, which {target.name} lacks; "
        f"it has {names}",
        next_step=step,
        span=array.span,
    )


def _placed(error: CodegenError, kernel: Kernel, source: str, name: str) -> CodegenError:
    """The error with the user's place in front, and the line where the text is known."""
    from hal.ir.errors import pointed

    call = error.call or _place(name or kernel.name, error.span)
    if not source or error.span is None:
        return CodegenError(error.problem, call=call, next_step=error.next_step, span=error.span)
    text = error.problem
    if error.next_step:
        text = f"{text.rstrip('.')}. {error.next_step}"
    return CodegenError(f"{text}\n{pointed(source, error.span)}", call=call, span=error.span)


def _place(name: str, span: Span | None) -> str:
    return name if span is None else f"{name}:{span.line}:{span.column}"
