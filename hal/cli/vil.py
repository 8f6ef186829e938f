"""The command `hal vil`: assemble, print, check and run VIL modules."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hal.errors import HalError, UsageError

if TYPE_CHECKING:
    from hal.vil import Module
    from hal.vil.model import Argument, Kernel

_FILE = "A FILE is VIL text or a binary image; which one is seen from its first bytes."
_CHIP = click.option(
    "--chip",
    metavar="HCD",
    help="Judge for this chip: a file or a shipped name such as sim/npu-small. "
    "Without it the limits are those of vil-core, which every chip meets.",
)


@click.group(epilog=_FILE)
def command() -> None:
    """Assemble, print, check and run VIL programs (docs/vil.md)."""


def _module(name: str) -> Module:
    """The module of a text or binary file; `-` reads the standard input."""
    from hal.vil import decode, parse

    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read it: {error.strerror}", call=name) from None
    if data[:4] == b"HVIL":
        try:
            return decode(data)
        except HalError as error:
            raise _named(error, name) from None
    if data[:4] == b"HIMG":
        raise UsageError(
            "an envelope of another format, not VIL", call=name, next_step="Use `hal vil print`."
        )
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise UsageError(
            f"neither a VIL image nor UTF-8 text (byte {error.start})", call=name
        ) from None
    return parse(text, file=name)


def _named(error: HalError, file: str) -> HalError:
    """The error again, with the file's name in front."""
    from hal.vil import VilError

    return VilError(f"{error.call}: {error.problem}", call=file)


def _judge(module: Module, chip: str | None) -> list[Any]:
    from hal.vil import validate

    if chip is None:
        return list(validate(module))
    from hal.hcd import load

    return list(validate(module, load(chip)))


@command.command(epilog=_FILE)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@_CHIP
@click.option("--json", "as_json", is_flag=True, help="Print JSON for a program.")
def check(files: tuple[str, ...], chip: str | None, as_json: bool) -> None:
    """Say everything that is wrong with each FILE.

    Exit code 0: all are right. 2: at least one is wrong.
    """
    results: list[dict[str, Any]] = []
    for name in files:
        try:
            module = _module(name)
            problems = _judge(module, chip)
        except HalError as error:
            results.append({"file": name, "ok": False, "problems": [str(error)]})
            _say(as_json, str(error), True)
            continue
        lines = [_line(name, problem) for problem in problems]
        results.append({"file": name, "ok": not lines, "problems": lines})
        for line in lines:
            _say(as_json, line, True)
        if not lines:
            what = f"{len(module.kernels)} kernels, {len(module.programs)} programs"
            _say(as_json, f"{name}: ok for {chip or 'vil-core'} ({what})", False)
    if as_json:
        click.echo(json.dumps(results, indent=1, ensure_ascii=False))
    sys.exit(0 if all(result["ok"] for result in results) else 2)


def _say(as_json: bool, text: str, wrong: bool) -> None:
    if not as_json:
        click.echo(text, err=wrong)


def _line(file: str, problem: Any) -> str:
    place = f"{file}:{problem.line}" if problem.line else file
    return f"{place}: {problem.where}: {problem.text}"


@command.command("print", epilog=_FILE)
@click.argument("file")
def print_(file: str) -> None:
    """Print FILE as text, in the canonical form."""
    from hal.vil import print_module

    if file != "-" and Path(file).is_file():
        with Path(file).open("rb") as stream:
            if stream.read(4) == b"HIMG":
                _print_envelope(file)
                return
    click.echo(print_module(_module(file)), nl=False)


def _print_envelope(file: str) -> None:
    from hal.vil import Module, decode_envelope, print_module

    try:
        envelope = decode_envelope(Path(file).read_bytes())
    except HalError as error:
        raise _named(error, file) from None
    click.echo(f"# envelope of {envelope.format}, {len(envelope.payload)} bytes of payload")
    click.echo(print_module(Module(kernels=envelope.kernels)), nl=False)


@command.command(epilog=_FILE)
@click.argument("file")
@click.option("-o", "--out", metavar="IMAGE", help="Where to write; FILE with .hvil by default.")
@_CHIP
def asm(file: str, out: str | None, chip: str | None) -> None:
    """Write FILE as a binary image, once it is valid."""
    from hal.vil import encode

    module = _module(file)
    problems = _judge(module, chip)
    if problems:
        for problem in problems:
            click.echo(_line(file, problem), err=True)
        sys.exit(2)
    image = encode(module)
    if out is None and file == "-":
        raise UsageError("the standard input has no name", next_step="Name the image with -o.")
    target = Path(out) if out is not None else Path(file).with_suffix(".hvil")
    try:
        target.write_bytes(image)
    except OSError as error:
        raise UsageError(f"cannot write it: {error.strerror}", call=str(target)) from None
    click.echo(f"{target}: {len(image)} bytes")


@command.command(epilog=_FILE)
@click.argument("file")
@click.argument("arguments", nargs=-1, metavar="[NAME=VALUE]...")
@click.option("--kernel", metavar="NAME", help="The kernel; needed when FILE has several.")
@click.option("--grid", metavar="X,Y,Z", default="1,1,1", help="Grid of `grid caller` launches.")
@click.option("--seed", type=int, default=0, help="Seed of buffers that are not given.")
@click.option("--out", metavar="DIR", help="Write each result there as NAME.npy.")
def run(
    file: str,
    arguments: tuple[str, ...],
    kernel: str | None,
    grid: str,
    seed: int,
    out: str | None,
) -> None:
    """Run a kernel of FILE with the evaluator, the definition of VIL.

    NAME=VALUE gives a scalar or symbol, NAME=FILE.npy a buffer. A buffer that is read and not given
    holds small whole numbers; one that is only written starts as zeros.
    """
    import numpy as np

    from hal.vil import evaluate

    module = _module(file)
    problems = [problem for problem in _judge(module, None) if problem.rule != "chip"]
    if problems:
        for problem in problems:
            click.echo(_line(file, problem), err=True)
        sys.exit(2)
    chosen = _kernel(module, kernel, file)
    given = _pairs(arguments, chosen)
    values = _values(chosen, given, seed)
    results = evaluate(module, chosen.name, values, grid=_grid(grid))
    for name, result in results.items():
        flat = result.reshape(-1)
        shown = " ".join(str(item) for item in flat[:8])
        more = " …" if flat.size > 8 else ""
        click.echo(f"{name}: {result.dtype} × {flat.size}: {shown}{more}")
        if out is not None:
            folder = Path(out)
            folder.mkdir(parents=True, exist_ok=True)
            np.save(folder / f"{name}.npy", result)


def _kernel(module: Module, name: str | None, file: str) -> Kernel:
    names = [item.name for item in module.kernels]
    if name is None and len(names) != 1:
        raise UsageError(f"holds {len(names)} kernels", call=file, next_step=f"Choose: {names}.")
    if name is not None and name not in names:
        raise UsageError(f"has no kernel {name}", call=file, next_step=f"It has: {names}.")
    return module.kernel(name or names[0])


def _grid(text: str) -> tuple[int, ...]:
    try:
        axes = tuple(int(part) for part in text.split(","))
    except ValueError:
        axes = ()
    if not 1 <= len(axes) <= 3 or min(axes) < 0:
        raise UsageError(f"--grid {text}: one to three counts, as 4,2,1")
    return axes


def _pairs(arguments: tuple[str, ...], kernel: Kernel) -> dict[str, str]:
    pairs: dict[str, str] = {}
    names = [item.name for item in kernel.arguments]
    for text in arguments:
        name, equals, value = text.partition("=")
        if not equals or name not in names:
            raise UsageError(f"{text}: give NAME=VALUE; {kernel.name} takes {', '.join(names)}")
        pairs[name] = value
    return pairs


def _values(kernel: Kernel, given: dict[str, str], seed: int) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for item in kernel.arguments:
        if item.kind == "buffer":
            continue
        if item.name not in given:
            what = "symbol" if item.kind == "symbol" else f"{item.dtype} scalar"
            raise UsageError(f"{item.name} is missing", next_step=f"Give {item.name}=… ({what}).")
        whole = item.dtype is None or item.dtype.is_int
        try:
            values[item.name] = int(given[item.name]) if whole else float(given[item.name])
        except ValueError:
            kind = "a whole number" if whole else "a number"
            raise UsageError(f"{item.name}={given[item.name]}: it must be {kind}") from None
    symbols = {item.name: values[item.name] for item in kernel.arguments if item.kind == "symbol"}
    for number, item in enumerate(kernel.arguments):
        if item.kind == "buffer":
            values[item.name] = _buffer(item, given.get(item.name), symbols, seed + number)
    return values


def _buffer(item: Argument, file: str | None, symbols: dict[str, int], seed: int) -> Any:
    import numpy as np

    from hal.vil.expressions import evaluate

    assert item.dtype is not None
    if file is not None:
        try:
            array = np.load(file, allow_pickle=False)
        except (OSError, ValueError) as error:
            raise UsageError(f"{item.name}={file}: cannot load it: {error}") from None
        if array.dtype.kind == "V" and array.dtype.itemsize == item.dtype.bytes:
            array = array.view(item.dtype.numpy)
        return array
    size = evaluate(item.required_bytes, symbols) if item.required_bytes is not None else 0
    count = -(-max(size, 0) // item.dtype.bytes)
    if count > 2**28:
        raise UsageError(f"{item.name} needs {size} bytes, too many to make up; give a file")
    if item.access == "write":
        return np.zeros(count, item.dtype.numpy)
    low = 0 if item.dtype.minimum == 0 and not item.dtype.kind.startswith("float") else -4
    high = 2 if item.dtype.kind == "bool" else 5
    return np.random.default_rng(seed).integers(low, high, count).astype(item.dtype.numpy)
