"""The search: every choice is forecast, the first few are measured, the best is kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hal import ir
from hal.codegen import choice_store
from hal.codegen.compiling import compile_kernel, finished
from hal.codegen.errors import CodegenError, Unsuited
from hal.codegen.groups import Group, choose, lower_group
from hal.codegen.lowering import Lowering
from hal.codegen.target import Target
from hal.codegen.tuned import all_candidates, plain
from hal.device import Device
from hal.errors import UsageError
from hal.hcd import Hcd
from hal.ir.nodes import Kernel
from hal.tune.forecasts import Forecasts
from hal.tune.measuring import Bench, least_seconds
from hal.vil import Module

__all__ = ["MEASURED", "Candidate", "Tuning", "shortlist", "tune"]

MEASURED = 8
"""Choices of a group that are measured."""

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Candidate:
    """One choice for one group of statements.

    Attributes:
        group: Number of the group, from 0.
        choice: The strategy's choice.
        forecast_s: Seconds of the whole kernel by the list schedule; None: no forecast.
        measured_s: Seconds on the device; None: not measured.
        on_one_core: By the forecast one core does all of it.
    """

    group: int
    strategy: str
    choice: Any
    forecast_s: float | None
    measured_s: float | None = None
    on_one_core: bool = False
    module: Module | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class Tuning:
    """What tuning found.

    Attributes:
        candidates: Of all groups, by group and rank.
        best: The choice of each group, in order.
        default_s, best_s: Seconds of the kernel before and after, measured or else forecast.
        measured: The times are of a device.
        seconds: How long tuning took.
        path: Where the choices were kept; None: nowhere.
    """

    candidates: tuple[Candidate, ...]
    best: tuple[Any, ...]
    default_s: float
    best_s: float
    measured: bool
    seconds: float
    path: Path | None


def tune(
    kernel: Kernel | str,
    device: Device | None = None,
    *,
    hcd: Hcd | None = None,
    sizes: Mapping[str, int],
    budget_s: float = 30.0,
    measured: int = MEASURED,
    keep: bool = True,
    progress: Progress = lambda what, done, total: None,
) -> Tuning:
    """Finds the choice of tiles for each group of a kernel's statements.

    Args:
        kernel: A kernel, or the text of one.
        device: Where the best choices are measured; without one the forecast decides.
        hcd: The chip; the device's own by default.
        sizes: Every param.
        budget_s: Seconds for the whole; half of it at most for forecasts.
        measured: Choices of a group that are measured; 0: none, the forecast decides.
        keep: Write the result where `compile` finds it.
        progress: Told (what is done, steps done, steps in all).

    Raises:
        UsageError: neither a device nor a chip, or a param without a size.
        CodegenError: the chip cannot run the kernel.
    """
    begin = time.monotonic()
    if isinstance(kernel, str):
        kernel = ir.parse(kernel).kernels[0]
    chip = hcd or (device.hcd if device is not None else None)
    if chip is None:
        raise UsageError("tuning needs a chip", next_step="Give a device, or hcd=.")
    missing = [name for name in kernel.params if name not in sizes]
    if missing:
        raise UsageError(f"no size for {', '.join(missing)}", next_step="Give every param.")
    whole = compile_kernel(kernel, chip, sizes=sizes, choices=()).kernel  # After the passes.
    search = _Search(whole, device, chip, dict(sizes), progress)
    search.run(begin, budget_s, measured)
    path = None
    if keep:
        chosen = [
            plain(group.strategy, choice)
            for group, choice in zip(search.groups, search.best, strict=True)
        ]
        path = choice_store.keep(search.kernel, chip.sha256, sizes, chosen)
    return Tuning(
        tuple(search.found),
        tuple(search.best),
        search.default_s,
        search.best_s,
        device is not None,
        time.monotonic() - begin,
        path,
    )


def shortlist(ranked: Sequence[Candidate], most: int) -> list[Candidate]:
    """What is measured of choices in the order of their forecasts.

    The first ones; the last of them gives its place to the first that needs one core alone where
    none does: descriptions do not say what it costs to wake further cores, nor whether they are
    free.
    """
    first = list(ranked[:most])
    if most < 2 or any(item.on_one_core for item in first):
        return first
    alone = next((item for item in ranked[most:] if item.on_one_core), None)
    return first if alone is None else [*first[:-1], alone]


class _Search:
    """One kernel on one chip at one set of sizes."""

    def __init__(
        self,
        kernel: Kernel,
        device: Device | None,
        hcd: Hcd,
        sizes: dict[str, int],
        progress: Progress,
    ) -> None:
        self.kernel = kernel
        self.device = device
        self.hcd = hcd
        self.target = Target.of(hcd)
        self.sizes = sizes
        self.progress = progress
        self.groups: list[Group] = []
        self.best: list[Any] = []
        self.found: list[Candidate] = []
        self.default_s = 0.0
        self.best_s = 0.0
        for group, choice in _groups(kernel, self.target, sizes):
            self.groups.append(group)
            self.best.append(choice)

    def run(self, begin: float, budget_s: float, most: int) -> None:
        """Groups one after another; each keeps the best of those before it."""
        open_groups = [n for n, group in enumerate(self.groups) if self._choices(group)]
        share = budget_s / max(1, len(open_groups))
        first: float | None = None
        for place, number in enumerate(open_groups):
            start = begin + place * share
            ranked = self._forecast(number, start + share / 2)
            if self.device is not None:
                ranked = self._measure(number, ranked, start + share, most)
            self.found += ranked
            before, after = _time(ranked, self.best[number]), ranked[0]
            first = before if first is None else first
            self.best[number] = after.choice
            self.best_s = after.measured_s or after.forecast_s or 0.0
        self.default_s = first or 0.0

    def _choices(self, group: Group) -> list[Any]:
        return list(all_candidates(group, self.target, self.sizes))

    def _module(self, number: int, choice: Any) -> Module | None:
        """The kernel with one choice put in; None where it does not fit the chip."""
        wanted = [*self.best[:number], choice, *self.best[number + 1 :]]
        lowering = Lowering(self.kernel, self.target)
        try:
            for group, one in zip(self.groups, wanted, strict=True):
                lower_group(lowering, group, one)
            return finished(lowering.module(), self.target)[1]
        except (CodegenError, Unsuited):
            return None

    def _forecast(self, number: int, until: float) -> list[Candidate]:
        """Every choice of a group by its forecast, the least first.

        After `until` the remaining ones, which the closed form ranked last, are left out.
        """
        group = self.groups[number]
        choices = self._choices(group)
        if self.best[number] in choices:  # What would be taken anyway is always among them.
            choices.remove(self.best[number])
        choices.insert(0, self.best[number])
        ranked: list[Candidate] = []
        with Forecasts(self.hcd) as forecasts:
            for done, choice in enumerate(choices):
                if done and time.monotonic() > until:
                    break
                self.progress(f"forecasts of group {number + 1}", done, len(choices))
                module = self._module(number, choice)
                if module is None:
                    continue
                found = forecasts.of(module, self.sizes)
                seconds = None if found is None else found.time_ns * 1e-9
                one = found is not None and found.cores_used <= 1
                ranked.append(Candidate(number, group.strategy, choice, seconds, None, one, module))
            self.progress(f"forecasts of group {number + 1}", len(choices), len(choices))
        if not ranked:
            raise CodegenError(f"no choice of group {number + 1} fits {self.target.name}")
        return sorted(ranked, key=lambda item: item.forecast_s or float("inf"))

    def _measure(
        self, number: int, ranked: list[Candidate], until: float, most: int
    ) -> list[Candidate]:
        """The first `most` and the default, measured, the fastest first; then the others."""
        assert self.device is not None
        if most < 1:
            return ranked
        first = shortlist(ranked, most)
        default = next((item for item in ranked if item.choice == self.best[number]), None)
        if default is not None and default not in first:
            first = [*first[: most - 1], default]
        bench = Bench(self.device, self.kernel, self.sizes)
        launches = []
        for item in first:
            assert item.module is not None
            launches.append(bench.launcher(item.module))
        done = [0]
        total = 8 * len(launches)

        def step() -> None:
            done[0] += 1
            self.progress(f"measurements of group {number + 1}", min(done[0], total), total)

        times = least_seconds(launches, until=until, step=step)
        timed = [replace(item, measured_s=taken) for item, taken in zip(first, times, strict=True)]
        rest = [item for item in ranked if item not in first]
        return [*sorted(timed, key=lambda item: item.measured_s or 0.0), *rest]


def _groups(
    kernel: Kernel, target: Target, sizes: Mapping[str, int]
) -> Iterator[tuple[Group, Any]]:
    """The groups of a kernel and the choice that compiling takes for each."""
    rest = kernel.assigns
    started: set[str] = set()
    while rest:
        group, choice = choose(kernel, rest, target, sizes, started=started)
        yield group, choice
        taken = group.match.statements
        started |= {access.array for statement in taken for access in statement.targets}
        rest = rest[len(taken) :]


def _time(ranked: list[Candidate], choice: Any) -> float:
    for item in ranked:
        if item.choice == choice:
            return item.measured_s or item.forecast_s or 0.0
    return 0.0
