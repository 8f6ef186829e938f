"""The commands `hal sim run` and `hal sim sweep`: whole models on a chip."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from hal.cli.output_file import OUTPUT_FILE
from hal.cli.sim_target import (
    CALIBRATION,
    CHIP,
    GUESS,
    OUT,
    SYSTEM,
    basis,
    print_table,
    timing_target,
)

if TYPE_CHECKING:
    from hal.hcd import Hcd

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


@click.command()
@click.argument("model")
@CHIP
@SYSTEM
@_SET
@click.option("--dtype", help="Element type instead of the model's own, such as bf16.")
@CALIBRATION
@GUESS
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

    target = timing_target(chip, system, calibrations, guess)
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
    print_table(
        ("operator", "op", "shape", "times", "us", "share", "Top/s", "GB/s", "bound by"), lines
    )
    click.echo(f"total {total * 1e3:,.3f} ms")
    shares = ", ".join(f"{name} {share:.0%}" for name, share in timing.utilisation().items())
    click.echo(f"utilisation: {shares}")
    spent = energy.joules(load(chip), timing)
    if spent:
        parts = ", ".join(f"{name} {value:.3g}" for name, value in spent.items())
        click.echo(f"energy: {sum(spent.values()):.3g} J ({parts})")
    click.echo(basis(target, timing.families))
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


@click.command()
@click.argument("model")
@CHIP
@click.option(
    "--set",
    "setting",
    required=True,
    metavar="PATH=A,B,C",
    help="A number of the description and its values, such as memory.hbm.bandwidth_bytes_per_s=…",
)
@SYSTEM
@_SET
@CALIBRATION
@GUESS
@OUT
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
    hcd, base = load(chip), timing_target(chip, system, calibrations, guess)
    what = models.load(model, changes=_changes(changes))
    times = []
    lines: list[tuple[str, ...]] = []
    for value in values:
        changed = Chip.of(_changed(hcd, path, value), allow_guesses=guess)
        timing = time_model(what, replace(base, chip=changed))
        times.append(timing.seconds * 1e3)
        use = ", ".join(f"{name} {share:.0%}" for name, share in timing.utilisation().items())
        lines.append((f"{value:g}", f"{times[-1]:.4f}", f"{times[-1] / times[0]:.3f}", use))
    print_table((path, "ms", "of the first", "utilisation"), lines)
    click.echo(basis(base, timing.families))
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
