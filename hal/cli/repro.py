"""`hal repro`: run one certification case again, alone, in the foreground."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from typing import Any

import click


@click.command("repro")
@click.argument("case_id", metavar="CASE-ID")
@click.argument("port", required=False, default="")
@click.option("--hcd", default="", metavar="FILE", help="The chip's HCD: a file or shipped name.")
@click.option("--device", type=int, metavar="I", help="Which device of the port [0].")
@click.option("--seed", type=int, default=0, metavar="N", help="The run's seed [0].")
@click.option("--nonce", default="", metavar="HEX", help="The run's nonce.")
@click.option("--trace", is_flag=True, help="Print each call into the port and its status.")
@click.option("--gdb", is_flag=True, help="Run it under gdb.")
def command(case_id: str, port: str, **wishes: Any) -> int:
    """Run one certification case again, with the inputs that it had.

    CASE-ID is the id of a result, as tier1/memory.py::test_alloc_refuses_size_zero. Nothing is
    captured and no time limit ends it. Exit status: 0 passed or legally skipped, 1 failed,
    2 wrong usage.
    """
    words = [sys.executable, "-m", "hal.certify.foreground", _order(case_id, port, wishes)]
    if wishes["gdb"]:
        _run_gdb(words)
    code = subprocess.run(words, check=False).returncode
    if code not in (0, 2):
        _say_what_next(code, case_id, port, wishes)
    return 1 if code < 0 else code


def _order(case_id: str, port: str, wishes: dict[str, Any]) -> str:
    """Return what the foreground process is told; a look at the port gives the HCD."""
    from hal.certify.run import Options, look, session_of
    from hal.certify.suite import suite_folder
    from hal.errors import UsageError

    suite = suite_folder()
    path = suite / case_id.partition("::")[0]
    if not path.is_file() or "::" not in case_id:
        raise UsageError(
            f"there is no case {case_id!r}",
            call="hal repro",
            next_step="hal-certify --list prints all ids.",
        )
    options = Options(
        port=port,
        hcd=wishes["hcd"],
        device=wishes["device"],
        seed=wishes["seed"],
        nonce=wishes["nonce"],
    )
    target, found, flat, _ = look(options)
    if found.problem:
        click.echo(f"note: the first look at the port fails: {found.problem}", err=True)
    order = {
        "case": case_id,
        "suite": str(suite),
        "seed": options.seed,
        "nonce": options.nonce,
        "trace": wishes["trace"],
        "session": session_of(options, target, flat),
    }
    return json.dumps(order)


def _run_gdb(words: list[str]) -> None:
    """Replace this process by gdb; returns never."""
    from hal.errors import UsageError

    gdb = shutil.which("gdb")
    if gdb is None:
        raise UsageError("gdb is not installed", call="hal repro --gdb")
    os.execv(gdb, [gdb, "--args", *words])


def _say_what_next(code: int, case_id: str, port: str, wishes: dict[str, Any]) -> None:
    """Say how it ended and how to look closer."""
    if code < 0:
        known = -code in set(signal.Signals)
        name = signal.Signals(-code).name if known else f"signal {-code}"
        click.echo(f"\nCRASH {case_id}: the process died of {name}")
    words = ["hal", "repro", case_id, *([port] if port else [])]
    for option in ("hcd", "device", "seed", "nonce"):
        if wishes[option]:
            words += [f"--{option}", str(wishes[option])]
    line = shlex.join(words)
    click.echo(f"each call:   {line} --trace\ndebugger:    {line} --gdb")
