"""What compiling does with a kernel, stage by stage: `print(hal.explain(kernel, hcd))`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import Any

from hal.codegen.compiling import OPTIONAL, Compiled, compile_kernel
from hal.codegen.groups import STRATEGIES, Group, choose
from hal.codegen.target import Target
from hal.dtypes import DType
from hal.errors import HalError
from hal.hcd import Hcd
from hal.hcd import load as load_hcd
from hal.ir import show
from hal.ir.nodes import Kernel, Schedule
from hal.ir.passes import PASSES
from hal.ir.show import show_statement
from hal.vil import encode, print_module
from hal.vil.expressions import evaluate as value_of
from hal.vil.module import Module

__all__ = ["Explanation", "Forecast", "GroupView", "Stage", "explain"]

SHOWN_ALTERNATIVES = 8


@dataclass(frozen=True, slots=True)
class Stage:
    """The kernel after a pass.

    Attributes:
        name: The pass; `written` for the kernel as it came.
        about: What the pass does, in one line.
        text: The kernel in its text form.
    """

    name: str
    about: str
    text: str


@dataclass(frozen=True, slots=True)
class GroupView:
    """Statements that run together.

    Attributes:
        strategy: Its name.
        about: What it does, in one line.
        passed_over: Strategies that were asked before and do not know the statement.
        statements: The statements as text.
        choice: Tiles and the rest of the choice.
        seconds: Estimate of the closed form.
        alternatives: (choice, seconds) of the next best.
    """

    strategy: str
    about: str
    passed_over: tuple[str, ...]
    statements: tuple[str, ...]
    choice: str
    seconds: float
    alternatives: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class Forecast:
    """What the simulated chip's list schedule says of the whole kernel.

    Attributes:
        seconds: From the launch to its end; None where it cannot be told.
        bound: What the time stands at; without a time, why there is none.
    """

    seconds: float | None
    bound: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """All stages of one kernel on one chip; `str()` of it is the text for people.

    Attributes:
        kernel, chip: Names.
        sizes: Params that steered the choices.
        stages: The kernel as written, then after each pass that changed it.
        groups: Statements that run together, in order.
        vil: The module in the text form of VIL.
        barriers: Tokens of the programs, as `program: producer -> consumer, credits`.
        forecast: Time by the simulated chip.
        source: The module in the chip's own language; empty where its description has no dialect.
        route: (route, why): how the chip gets to run it.
        notes: Sentences about what was not done, and why.
    """

    kernel: str
    chip: str
    sizes: dict[str, int]
    stages: tuple[Stage, ...]
    groups: tuple[GroupView, ...]
    vil: str
    barriers: tuple[str, ...]
    forecast: Forecast
    source: str
    route: tuple[str, str]
    notes: tuple[str, ...]

    def plain(self) -> dict[str, Any]:
        """The explanation as JSON values."""
        return asdict(self)

    def sections(self) -> list[tuple[str, str]]:
        """(title, text) of each part, in order."""
        sizes = ", ".join(f"{name}={size}" for name, size in self.sizes.items()) or "any size"
        found = [(f"{self.kernel} for {self.chip}, {sizes}", "")]
        for stage in self.stages:
            title = f"after {stage.name}: {stage.about}" if stage.about else "as written"
            found.append((title, stage.text))
        for number, group in enumerate(self.groups, 1):
            found.append((f"group {number}: {group.strategy}", _group_text(group)))
        found.append(("VIL", self.vil))
        if self.barriers:
            found.append(("barriers", "\n".join(self.barriers)))
        if self.source:
            found.append(("source", self.source))
        found.append(("route", f"{self.route[0]}: {self.route[1]}"))
        found.append(("predicted time", _time_text(self)))
        if self.notes:
            found.append(("notes", "\n".join(self.notes)))
        return found

    def __str__(self) -> str:
        parts = []
        for title, text in self.sections():
            parts.append(f"== {title}\n{text.rstrip()}".rstrip())
        return "\n\n".join(parts) + "\n"


def explain(
    kernel: Kernel,
    hcd: Hcd | str | None = None,
    *,
    sizes: Mapping[str, int] | None = None,
    without: AbstractSet[str] = frozenset(),
    schedule: Schedule | None = None,
    dtype: DType | None = None,
    source: str = "",
    name: str = "",
) -> Explanation:
    """Compiles a kernel and says what was done, and why.

    Args:
        hcd: The chip's description, or its name or file; None for vil-core.
        sizes, without, schedule, dtype, source, name: As for `hal.codegen.compile`.

    Raises:
        CodegenError, InvalidValue, HcdError: as `hal.codegen.compile` and `hal.hcd.load`.
    """
    chip = load_hcd(hcd) if isinstance(hcd, str) else hcd
    known = dict(sizes or {})
    made = compile_kernel(
        kernel,
        chip,
        sizes=known,
        without=without,
        schedule=schedule,
        dtype=dtype,
        source=source,
        name=name,
    )
    about = {item.name: item.summary for item in reversed(PASSES)}
    about["adapt"] = f"f32 arrays are stored as {dtype}"
    stages = [Stage("written", "", show(kernel))]
    stages += [Stage(name, about[name], show(after)) for name, after in made.stages]
    target = Target.of(chip)
    return Explanation(
        made.kernel_name,
        target.name,
        known,
        tuple(stages),
        _groups(made, target, known, without),
        print_module(made.module),
        _barriers(made.module),
        _forecast(made, kernel, chip, known),
        _source(made, chip),
        _route(made, chip, _library(kernel, chip, known)),
        made.notes,
    )


# ---- Groups ----


def _groups(
    made: Compiled, target: Target, sizes: Mapping[str, int], without: AbstractSet[str]
) -> tuple[GroupView, ...]:
    """Each decision with what was not chosen. The groups are found again: they are not kept."""
    found = []
    rest = made.kernel.assigns
    allowed = [name for name in STRATEGIES if name not in without or name not in OPTIONAL]
    started: set[str] = set()
    for decision in made.choices:
        statements = rest[: decision.statements]
        group, _ = choose(made.kernel, rest, target, sizes, started=started, strategies=allowed)
        others = [item for item in group.choices if item != decision.choice]
        others = others[:SHOWN_ALTERNATIVES]
        before = allowed[: allowed.index(decision.strategy)]
        found.append(
            GroupView(
                decision.strategy,
                _summary(group),
                tuple(before),
                tuple(show_statement(item) for item in statements),
                str(decision.choice),
                decision.seconds,
                tuple((str(c), _seconds(group, c, target, sizes)) for c in others),
            )
        )
        started |= {target.array for item in statements for target in item.targets}
        rest = rest[decision.statements :]
    return tuple(found)


def _summary(group: Group) -> str:
    """The first sentence of the strategy's module."""
    text = import_module(f"hal.codegen.{group.strategy}").__doc__ or ""
    return text.split("\n\n")[0].replace("\n", " ").strip()


def _seconds(group: Group, choice: Any, target: Target, sizes: Mapping[str, int]) -> float:
    return float(group.module.cost(group.match, choice, target, sizes))


def _group_text(group: GroupView) -> str:
    lines = [*group.statements, "", group.about]
    if group.passed_over:
        lines.append(f"asked before, without a match: {', '.join(group.passed_over)}")
    lines.append(f"chosen   {_microseconds(group.seconds)}  {group.choice}")
    lines += [f"also     {_microseconds(seconds)}  {text}" for text, seconds in group.alternatives]
    return "\n".join(lines)


def _microseconds(seconds: float) -> str:
    return f"{seconds * 1e6:10,.1f} us"


# ---- Programs ----


def _barriers(module: Module) -> tuple[str, ...]:
    return tuple(
        f"{program.name}: {token.producer} -> {token.consumer}, credits {token.credits}"
        for program in module.programs
        for token in program.tokens
    )


def _source(made: Compiled, chip: Hcd | None) -> str:
    """The module in the chip's language; why not, where the dialect cannot say it."""
    if chip is None or chip.get("kernels.dialect") is None:
        return ""
    from hal.codegen.dialect import render

    try:
        return render(made.flat if made.flat.programs else made.module, chip)
    except HalError as error:
        return f"not rendered: {error}"


def _library(kernel: Kernel, chip: Hcd | None, sizes: Mapping[str, int]) -> str:
    """What a device does with the kernel whose own library offers matmul; empty: it cannot."""
    from hal.codegen.library import forecast, found
    from hal.codegen.target import Target

    if chip is None or found(kernel) is None or any(p not in sizes for p in kernel.params):
        return ""
    theirs, ours = forecast(kernel, Target.of(chip), sizes)
    better = "the library" if theirs < ours else "the generated kernel"
    return (
        f"; where the device's library offers matmul, {better} is taken: library "
        f"{theirs * 1e6:,.0f} us, generated {ours * 1e6:,.0f} us predicted"
    )


def _route(made: Compiled, chip: Hcd | None, library: str) -> tuple[str, str]:
    """How a device of the chip gets the module: `source` or `interpreter`, and why."""
    from hal.codegen.dialect.route import ordered

    if chip is None:
        return "interpreter", "no chip was named; every chip takes vil.v1"
    seconds = sum(choice.seconds for choice in made.choices)
    wanted, why = ordered(made.flat, chip, seconds=seconds)
    first = "source" if wanted[0].startswith("source.") else "interpreter"
    return first, f"{why}{library}"


# ---- Time ----


def _forecast(
    made: Compiled, kernel: Kernel, chip: Hcd | None, sizes: Mapping[str, int]
) -> Forecast:
    """The list schedule of the simulated chip, where all sizes are known."""
    missing = [name for name in kernel.params if name not in sizes]
    if chip is None:
        return Forecast(None, "no chip was named")
    if missing:
        return Forecast(None, f"the size of {', '.join(missing)} is not known")
    from hal.forecast import Forecaster

    try:
        arguments = _arguments(made.module, made.kernel_name, kernel, sizes)
        with Forecaster(chip) as simulated:
            image = encode(made.module)
            found = simulated.kernel(image, made.kernel_name).forecast(arguments)
    except HalError as error:
        return Forecast(None, str(error))
    return Forecast(found.time_ns * 1e-9, found.bound_name)


def _arguments(
    module: Module, name: str, kernel: Kernel, sizes: Mapping[str, int]
) -> Sequence[float]:
    """Bytes of buffers, ones for scalars, sizes for params, then the bytes of the workspace."""
    plan = next(item for item in module.kernels if item.name == name)
    symbols = {item.name: sizes[item.name] for item in plan.arguments if item.kind == "symbol"}
    values: list[float] = []
    for item in plan.arguments:
        if item.kind == "symbol":
            values.append(symbols[item.name])
        elif item.required_bytes is None:
            values.append(1)
        else:
            values.append(value_of(item.required_bytes, symbols))
    if plan.workspaces:
        parts = [value_of(item.bytes, symbols) for item in plan.workspaces]
        values.append(sum(-(-part // 256) * 256 for part in parts))
    return values


def _time_text(found: Explanation) -> str:
    closed = sum(group.seconds for group in found.groups)
    lines = [f"closed form, all groups:  {_microseconds(closed)}"]
    if found.forecast.seconds is None:
        lines.append(f"list schedule:            none, {found.forecast.bound}")
    else:
        time = _microseconds(found.forecast.seconds)
        lines.append(f"list schedule:            {time}, bound by {found.forecast.bound}")
    return "\n".join(lines)
