"""From a kernel of the tensor IR to a VIL module for one chip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hal.codegen import choice_store
from hal.codegen.groups import choose, lower_group
from hal.codegen.lowering import Lowering
from hal.codegen.target import Target
from hal.codegen.tuned import preferred
from hal.hcd import Hcd
from hal.ir.analysis import inline_lets
from hal.ir.nodes import Kernel, Schedule
from hal.vil.module import Module

__all__ = ["Compiled", "Decision", "compile_kernel"]


@dataclass(frozen=True)
class Decision:
    """How one group of statements runs."""

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
        choices: One for each group, in order.
    """

    module: Module
    kernel_name: str
    kernel: Kernel
    choices: tuple[Decision, ...] = ()


def compile_kernel(
    kernel: Kernel,
    hcd: Hcd | Target | None = None,
    *,
    sizes: Mapping[str, int] | None = None,
    without: frozenset[str] = frozenset(),
    schedule: Schedule | None = None,
    route: str = "auto",
    choices: Sequence[Any] | None = None,
) -> Compiled:
    """Makes the VIL module of a kernel; it serves every size.

    Args:
        hcd: The chip; None for vil-core, which every chip can run.
        sizes: Params that steer choices; they never change a result.
        without: Names of passes that are left out.
        schedule: Advice of the user.
        route: `auto`; `flat` leaves engines and spaces to the chip.
        choices: For each group of statements a choice of its strategy, or None for the best of the
            ranking; without any, those that `hal tune` kept for the kernel, chip and sizes.

    Raises:
        CodegenError: the chip cannot run it, or a part of the kernel has no lowering.
    """
    target = Target.of(hcd)
    known = dict(sizes or {})
    whole = inline_lets(kernel)
    lowering = Lowering(whole, target)
    chosen: list[Decision] = []
    rest = whole.assigns
    wanted = choices
    if wanted is None and known:
        wanted = choice_store.find(whole, target.sha256, known)
    while rest:
        group, best = choose(whole, rest, target, known, started=lowering.started_arrays)
        rest = rest[len(group.match.statements) :]
        if wanted and len(chosen) < len(wanted):
            started, asked = lowering.started_arrays, wanted[len(chosen)]
            best = preferred(whole, target, group, best, started, asked)
        lower_group(lowering, group, best)
        seconds = float(group.module.cost(group.match, best, target, known))
        chosen.append(Decision(group.strategy, len(group.match.statements), best, seconds))
    return Compiled(lowering.module(), whole.name, whole, tuple(chosen))
