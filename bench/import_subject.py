"""Start of Python with a package imported, and of the commands, each in a process of its own."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import time
from collections.abc import Iterator

import click

from bench.measure import Contender, Figure, Sample

PEERS = ("numpy", "onnxruntime", "tinygrad", "iree.runtime", "jax", "torch")


def start(*words: str) -> Sample:
    """Make a sample: milliseconds from the start of a process to its end."""

    def sample() -> float:
        begin = time.perf_counter()
        done = subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
        seconds = time.perf_counter() - begin
        if done.returncode != 0:
            last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
            raise click.ClickException(f"{words[-1]!r} failed: {''.join(last)}")
        return seconds * 1e3

    return sample


def python(code: str) -> Sample:
    """Make a sample: a Python process that runs the code."""
    return start(sys.executable, "-c", code)


def installed(module: str) -> bool:
    """Tell whether a module can be found, without importing it."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def figures() -> Iterator[Figure]:
    """The package, then the two commands."""
    limit = Contender("python -c pass", python("pass"))
    here = [name for name in PEERS if installed(name)]
    absent = [name for name in PEERS if name not in here]
    peers = [Contender(f"import {name}", python(f"import {name}")) for name in here]
    yield Figure(
        "import hal, then a device's names",
        "ms",
        Contender("import hal", python("import hal; hal.open, hal.ports")),
        peers,
        limit,
        absent,
        goal="at most numpy + 40 ms",
    )
    for command, module in (("hal", "hal.cli"), ("hal-certify", "hal.certify.cli")):
        code = f"import sys; sys.argv = [{command!r}, '--help']; from {module} import main; main()"
        yield Figure(
            f"{command} --help",
            "ms",
            Contender(command, python(code)),
            [Contender("click --help", python(CLICK))],
            limit,
            goal="at most 60 ms",
        )


CLICK = "import sys, click; sys.argv = ['x', '--help']; click.command()(lambda: None)()"
