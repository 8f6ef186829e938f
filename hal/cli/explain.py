"""The command `hal explain`: what compiling does with a kernel, stage by stage."""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING

import click

from hal.cli import kernel_file
from hal.errors import UsageError

if TYPE_CHECKING:
    from hal.codegen.explain import Explanation
    from hal.dtypes import DType
    from hal.hcd import Hcd
    from hal.ir import Program
    from hal.ir.nodes import Kernel, Schedule


@click.command()
@click.argument("file", metavar="KERNEL.hal")
@click.option("--chip", metavar="HCD", help="A description: name or file, as hal/cpu.")
@click.option("--device", metavar="DEVICE", help="In place of --chip: what a device here says.")
@click.option("--kernel", metavar="NAME", help="The kernel; needed when the file has several.")
@click.option("--size", "sizes", multiple=True, metavar="M=…,N=…", help="Values of params.")
@click.option("--without", multiple=True, metavar="NAME,…", help="Leave passes, strategies out.")
@click.option("--dtype", metavar="TYPE", help="Store f32 arrays as f16 or bf16.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for a program.")
def command(
    file: str,
    chip: str | None,
    device: str | None,
    kernel: str | None,
    sizes: tuple[str, ...],
    without: tuple[str, ...],
    dtype: str | None,
    as_json: bool,
) -> None:
    """Print a kernel text (docs/ir.md) after each pass, its groups, tiles, VIL, source and time.

    Sizes only steer the choices; without them no time is predicted. A FILE of - is the standard
    input.
    """
    from hal.codegen.explain import explain
    from hal.ir import parse

    source = kernel_file.read(file)
    program = parse(source, file)
    chosen = kernel_file.chosen(program, file, kernel)
    hcd = _hcd(chip, device)
    found = explain(
        chosen,
        hcd,
        sizes=_sizes(chosen, sizes),
        without=frozenset(part.strip() for text in without for part in text.split(",") if part),
        schedule=_advice(program, chosen, hcd.name),
        dtype=None if dtype is None else _dtype(dtype),
        source=source,
        name=file,
    )
    if as_json:
        click.echo(json.dumps(found.plain(), indent=1))
    else:
        _print(found)


def _hcd(chip: str | None, device: str | None) -> Hcd:
    """The description that is compiled for: a given one, or that of a device."""
    import hal
    from hal.hcd import load

    if (chip is None) == (device is None):
        raise UsageError(
            "hal explain wants one of --chip and --device",
            next_step="Give --chip HCD, as hal/cpu, or --device DEVICE, as cpu:0.",
        )
    if chip is not None:
        return load(chip)
    assert device is not None
    with hal.open(device) as opened:
        return opened.hcd


def _advice(program: Program, kernel: Kernel, chip: str) -> Schedule | None:
    """The schedule of the file for this kernel and chip; one for any chip comes last."""
    found = [item for item in program.schedules if item.kernel == kernel.name]
    found = [item for item in found if item.chip in ("", chip)]
    return max(found, key=lambda item: bool(item.chip), default=None)


def _sizes(kernel: Kernel, given: tuple[str, ...]) -> dict[str, int]:
    found: dict[str, int] = {}
    for item in filter(None, (part.strip() for text in given for part in text.split(","))):
        name, _, number = (part.strip() for part in item.partition("="))
        if not re.fullmatch(r"[0-9]+", number):
            raise UsageError(f"--size {item}", next_step="Write NAME=LENGTH, as M=1000.")
        if name not in kernel.params:
            have = ", ".join(kernel.params) or "none"
            raise UsageError(f"--size {item}: {kernel.name} has no param {name}; it has {have}")
        found[name] = int(number)
    return found


def _dtype(name: str) -> DType:
    from hal.ir.passes.adapt import STORAGE

    if name not in STORAGE:
        raise UsageError(f"--dtype {name}", next_step=f"Choose one of {', '.join(STORAGE)}.")
    return STORAGE[name]


def _print(found: Explanation) -> None:
    """Titles stand out on a terminal; a pipe gets plain text."""
    if not sys.stdout.isatty():
        click.echo(str(found), nl=False)
        return
    for title, text in found.sections():
        click.secho(f"== {title}", bold=True, fg="cyan")
        if text:
            click.echo(text.rstrip())
        click.echo()
