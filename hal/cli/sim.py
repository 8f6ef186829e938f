"""The command `hal sim`: times without hardware, calibration, and how far both can be trusted."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hal.cli.output_file import OUTPUT_FILE
from hal.wording import counted

if TYPE_CHECKING:
    from hal.hcd import Hcd
    from hal.sim.chip import Chip
    from hal.sim.predict import Target

_CHIP = click.option(
    "--chip", required=True, metavar="HCD", help="A description: a file, or a shipped name."
)
_SYSTEM = click.option("--system", metavar="HCD", help="A description of kind system: its links.")
_CALIBRATION = click.option(
    "--calibration",
    "calibrations",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A file of constants; may be given more than once. Default: those that suit the chip.",
)
_GUESS = click.option("--guess", is_flag=True, help="Go on with guesses for missing keys.")
_HARNESS = click.option(
    "--harness",
    type=click.Choice(["none", "pytorch-eager"]),
    default="none",
    show_default=True,
    help="Whose host time to add to each operator.",
)
_OUT = click.option("--out", type=OUTPUT_FILE, help="Write to FILE.")


@click.group()
def command() -> None:
    """Say how long operators and models take on a chip, from its description alone."""


def _chip(name: str, guess: bool) -> Chip:
    """Load a description and read what timing needs; warn about guesses."""
    from hal.hcd import load
    from hal.sim.chip import Chip

    hcd = load(name)
    for warning in hcd.warnings:
        click.echo(f"warning: {warning}", err=True)
    chip = Chip.of(hcd, allow_guesses=guess)
    for missing in chip.guesses:
        click.echo(
            f"warning: {missing.key} is missing; guess {missing.value:g} ({missing.feeds})",
            err=True,
        )
    return chip


def _target(chip: Chip, calibrations: tuple[Path, ...]) -> Target:
    from hal.sim import calibration
    from hal.sim.predict import Target

    given = [block for path in calibrations for block in calibration.read(path)]
    return Target.of(chip, given)


def _timing_target(
    chip: str, system: str | None, calibrations: tuple[Path, ...], guess: bool
) -> Target:
    from dataclasses import replace

    from hal.hcd import load
    from hal.sim.chip import Link

    target = _target(_chip(chip, guess), calibrations)
    if system is None:
        return target
    return replace(target, link=Link.of_system(load(system)))


def _basis(target: Target, families: set[str]) -> str:
    """One line that says what the numbers rest on."""
    chip = target.chip
    return (
        f"closed form; {chip.estimated_share:.0%} of {len(chip.inputs) + len(chip.guesses)} inputs "
        f"from {chip.name} are estimated; {'; '.join(target.describe(families))}"
    )


@command.command()
@click.argument("csv", type=click.Path(path_type=Path))
@_CHIP
@_SYSTEM
@_CALIBRATION
@_HARNESS
@_GUESS
@_OUT
def predict(
    csv: Path,
    chip: str,
    system: str | None,
    calibrations: tuple[Path, ...],
    harness: str,
    guess: bool,
    out: Path | None,
) -> None:
    """Add a column predicted_us to the operators of CSV.

    Columns: op (matmul where absent), dtype, M, N, K; or op, n_devices, bytes.
    """
    from hal.sim import tables
    from hal.sim.predict import plan

    table = tables.read(csv)
    target = _timing_target(chip, system, calibrations, guess)
    work = plan(table, harness=harness)
    times = work.predict_us(target)
    text = tables.write(out, table, {"predicted_us": [f"{value:.4f}" for value in times]})
    if out is None:
        click.echo(text, nl=False)
    click.echo(f"{counted(len(times), 'row')}; {_basis(target, work.families)}", err=True)


@command.command()
@click.argument("measured", type=click.Path(path_type=Path))
@_CHIP
@click.option("--device", help="Only rows with this value in the column device.")
@click.option("--op", help="Only rows with this value in the column op.")
@click.option("--library", help="Only rows with this value in the column library.")
@click.option(
    "--split", type=click.Choice(["random", "even", "block"]), default="random", show_default=True
)
@click.option("--share", type=click.FloatRange(0.01, 1), default=0.3, show_default=True,
              help="Share of the rows to fit (random split).")  # fmt: skip
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--source", default="", help="Where the times come from, for the record.")
@_HARNESS
@_GUESS
@_OUT
def calibrate(
    measured: Path,
    chip: str,
    device: str | None,
    op: str | None,
    library: str | None,
    split: str,
    share: float,
    seed: int,
    source: str,
    harness: str,
    guess: bool,
    out: Path | None,
) -> None:
    """Fit at most ten constants to MEASURED (a CSV with times) and report both parts."""
    from hal.sim import calibration, tables
    from hal.sim.calibrate import Split, only
    from hal.sim.calibrate import calibrate as run

    table = tables.read(measured)
    for column, value in (("device", device), ("op", op), ("library", library)):
        if value is not None:
            table = only(table, column, value)
    found = run(
        _chip(chip, guess),
        table,
        Split(split, share, seed=seed),
        source=source,
        harness=harness,
    )
    for constant in calibration.specification(found.constants.family):
        click.echo(f"{constant.name:12} {found.constants[constant.name]:10.4g} {constant.unit}")
    for name, part in (("fitted", found.fitted), ("unseen", found.unseen)):
        click.echo(
            f"{name:7} {part.count:6} rows: mean error {part.mape:.1%}, median {part.median:.1%}, "
            f"90th percentile {part.p90:.1%}, worst {part.worst:.0%}, "
            f"rank correlation {part.spearman:.4f}"
        )
    if out is not None:
        calibration.write(out, found.constants, found.record)
        click.echo(f"wrote {out}", err=True)
    if found.fitted.mape > 1:
        sys.exit(1)


@command.command()
@click.option("--json", "json_file", type=OUTPUT_FILE, help="Write rows to FILE.")
@click.option("--plot", type=OUTPUT_FILE, help="Draw predicted against measured.")
def validate(json_file: Path | None, plot: Path | None) -> None:
    """Compare predictions with the measured times that come with the SDK.

    Exit code 1 when a bar of the design is missed.
    """
    import json
    from dataclasses import asdict

    from hal.sim import plots, tables
    from hal.sim.validate import validate as run

    report = run()
    if json_file is not None:
        rows = [{**asdict(row), "met": row.met} for row in report.rows]
        tables.save(json_file, json.dumps(rows, indent=1) + "\n")
    if plot is not None:
        plots.predicted(report.points, plot)
    head = ("device", "operator", "split", "part", "rows", "mean", "median", "p90", "worst",
            "rank", "LLMCompass", "bar")  # fmt: skip
    lines = []
    for row in report.rows:
        peer = "" if row.peer_mape is None else f"{row.peer_mape:.1%}"
        if row.same_rows_mape is not None:
            peer += f" (ours {row.same_rows_mape:.1%})"
        verdict = "" if row.bar is None else f"{row.bar:.1%} {'met' if row.met else 'MISSED'}"
        lines.append(
            (row.device, row.operator, row.split, row.part, str(row.count), f"{row.mape:.1%}",
             f"{row.median:.1%}", f"{row.p90:.1%}", f"{row.worst:.0%}", f"{row.spearman:.3f}",
             peer, verdict)
        )  # fmt: skip
    _table(head, lines)
    for line in report.basis:
        click.echo(line)
    if any(row.met is False for row in report.rows):
        sys.exit(1)


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """Print a table with aligned columns; numbers to the right."""
    widths = [max(len(cell) for cell in column) for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        cells = [
            cell.rjust(width) if cell[:1].isdigit() or cell[:1] == "-" else cell.ljust(width)
            for cell, width in zip(row, widths, strict=True)
        ]
        click.echo("  ".join(cells).rstrip())


_SET = click.option(
    "--model-set",
    "changes",
    multiple=True,
    metavar="KEY=VALUE",
    help="Replace an integer of the model, such as batch=16.",
)
_PLOT = click.option("--plot", type=OUTPUT_FILE, help="Draw a picture to FILE.")


def _changes(pairs: tuple[str, ...]) -> dict[str, int]:
    """Read KEY=VALUE options with integer values."""
    found = {}
    for pair in pairs:
        key, _, text = pair.partition("=")
        try:
            found[key.strip()] = int(text)
        except ValueError:
            raise click.UsageError(f"--model-set {pair!r} must be KEY=INTEGER") from None
    return found


@command.command()
@click.argument("model")
@_CHIP
@_SYSTEM
@_SET
@click.option("--dtype", help="Element type instead of the model's own, such as bf16.")
@_CALIBRATION
@_GUESS
@click.option("--json", "json_file", type=OUTPUT_FILE, help="Write rows to FILE.")
@click.option("--trace", type=OUTPUT_FILE, help="Write a Chrome trace to FILE.")
@_PLOT
def run(
    model: str,
    chip: str,
    system: str | None,
    changes: tuple[str, ...],
    dtype: str | None,
    calibrations: tuple[Path, ...],
    guess: bool,
    json_file: Path | None,
    trace: Path | None,
    plot: Path | None,
) -> None:
    """Time MODEL (a file, or a shipped name such as gpt3-layer) without running its numbers.

    Prints a table per operator, totals and utilisation; --plot draws the roofline.
    """
    import json
    from dataclasses import asdict, replace

    from hal.hcd import load
    from hal.sim import energy, plots, tables, timeline
    from hal.sim import model as models
    from hal.sim.run import time_model

    target = _timing_target(chip, system, calibrations, guess)
    what = models.load(model, changes=_changes(changes))
    timing = time_model(what if dtype is None else replace(what, dtype=dtype), target)
    total = timing.seconds
    lines = []
    for row in timing.rows:
        step = row.step
        shape = f"{step.bytes:,.0f} B" if step.bytes else f"{step.m:,.0f} x {step.n:,.0f}"
        shape += f" x {step.k:,.0f}" if step.k else ""
        shape += f", batch {step.batch:,.0f}" if step.batch > 1 else ""
        lines.append(
            (step.name, step.op, shape, str(step.count), f"{row.seconds * 1e6:,.1f}",
             f"{row.seconds / total:.1%}", f"{row.flops / row.seconds / 1e12:,.1f}",
             f"{row.bytes / row.seconds / 1e9:,.0f}", row.bound)
        )  # fmt: skip
    _table(("operator", "op", "shape", "times", "us", "share", "Top/s", "GB/s", "bound by"), lines)
    click.echo(f"total {total * 1e3:,.3f} ms")
    shares = ", ".join(f"{name} {share:.0%}" for name, share in timing.utilisation().items())
    click.echo(f"utilisation: {shares}")
    spent = energy.joules(load(chip), timing)
    if spent:
        parts = ", ".join(f"{name} {value:.3g}" for name, value in spent.items())
        click.echo(f"energy: {sum(spent.values()):.3g} J ({parts})")
    click.echo(_basis(target, timing.families))
    if json_file is not None:
        rows = [{**asdict(row.step), **asdict(row), "step": row.step.name} for row in timing.rows]
        text = {"model": timing.model.name, "chip": target.chip.name, "seconds": total,
                "utilisation": timing.utilisation(), "plane": "closed form",
                "estimated_share": target.chip.estimated_share, "energy_j": spent,
                "rows": rows}  # fmt: skip
        tables.save(json_file, json.dumps(text, indent=1) + "\n")
    if trace is not None:
        tables.save(trace, json.dumps(timeline.chrome(timing)) + "\n")
    if plot is not None:
        plots.roofline(timing, plot)


@command.command()
@click.argument("model")
@_CHIP
@click.option(
    "--set",
    "setting",
    required=True,
    metavar="PATH=A,B,C",
    help="A number of the description and its values, such as memory.hbm.bandwidth_bytes_per_s=…",
)
@_SYSTEM
@_SET
@_CALIBRATION
@_GUESS
@_OUT
@_PLOT
def sweep(
    model: str,
    chip: str,
    setting: str,
    system: str | None,
    changes: tuple[str, ...],
    calibrations: tuple[Path, ...],
    guess: bool,
    out: Path | None,
    plot: Path | None,
) -> None:
    """Time MODEL on a chip with one number of its description changed: a table and a plot."""
    from dataclasses import replace

    from hal.hcd import load
    from hal.sim import model as models
    from hal.sim import plots, tables
    from hal.sim.chip import Chip
    from hal.sim.run import time_model

    path, values = _setting(setting)
    hcd, base = load(chip), _timing_target(chip, system, calibrations, guess)
    what = models.load(model, changes=_changes(changes))
    times = []
    lines: list[tuple[str, ...]] = []
    for value in values:
        changed = Chip.of(_changed(hcd, path, value), allow_guesses=guess)
        timing = time_model(what, replace(base, chip=changed))
        times.append(timing.seconds * 1e3)
        use = ", ".join(f"{name} {share:.0%}" for name, share in timing.utilisation().items())
        lines.append((f"{value:g}", f"{times[-1]:.4f}", f"{times[-1] / times[0]:.3f}", use))
    _table((path, "ms", "of the first", "utilisation"), lines)
    click.echo(_basis(base, timing.families))
    if out is not None:
        rows = "\n".join(",".join(line[:3]) for line in lines)
        tables.save(out, f"{path},ms,ratio\n{rows}\n")
    if plot is not None:
        plots.sweep(path, values, times, f"{what.name} on {base.chip.name}", plot)


def _changed(hcd: Hcd, path: str, value: float) -> Hcd:
    """The description with another value; a path that leads nowhere is told as such."""
    from hal.errors import HcdError, UsageError
    from hal.hcd.schema import nearest

    owner = path.rpartition(".")[0]
    try:
        return hcd.overlay({path: value})
    except HcdError:
        if hcd.get(owner) is not None:
            raise
        hint = nearest(path, [name for name, _ in hcd.items()])
        raise UsageError(
            f"{hcd.name} has nothing under '{owner}'{hint}",
            call=f"--set {path}",
            next_step=f"'hal hcd resolve {hcd.file}' lists every path.",
        ) from None


def _setting(text: str) -> tuple[str, list[float]]:
    """Read PATH=A,B,C; whole numbers stay integers, as descriptions want them."""
    path, _, rest = text.partition("=")
    values: list[float] = []
    for word in rest.split(","):
        try:
            number = float(word)
        except ValueError:
            raise click.UsageError(f"--set {text!r} must be PATH=NUMBER,NUMBER,…") from None
        values.append(int(number) if number.is_integer() else number)
    return path.strip(), values
