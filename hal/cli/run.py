"""The command `hal run`: a kernel text on a device, held against its meaning."""

from __future__ import annotations

import json
import sys
import time
from statistics import median
from typing import TYPE_CHECKING, Any

import click

from hal.cli import kernel_file
from hal.errors import UsageError

if TYPE_CHECKING:
    from hal.device import Device
    from hal.ir.nodes import Kernel, Schedule

MOST_ELEMENTS = 2**30
ROUNDS = 9


@click.command()
@click.argument("file", metavar="KERNEL.hal")
@click.option("--device", required=True, metavar="DEVICE", help="Where to run; see hal devices.")
@click.option("--kernel", metavar="NAME", help="The kernel; needed when the file has several.")
@click.option("--size", "sizes", multiple=True, metavar="M=…,N=…", help="Values of the params.")
@click.option("--scalar", "scalars", multiple=True, metavar="NAME=…", help="Scalar inputs.")
@click.option("--seed", default=0, show_default=True, help="Seed of the inputs.")
@click.option("--check", is_flag=True, help="Compare with the evaluator under the tolerance law.")
@click.option("--without", multiple=True, metavar="PASS", help="Leave a pass or strategy out.")
@click.option("--dtype", metavar="TYPE", help="Store f32 arrays as f16 or bf16.")
@click.option("--time", "timed", is_flag=True, help=f"Run {ROUNDS} times more and print times.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for a program.")
def command(
    file: str,
    device: str,
    kernel: str | None,
    sizes: tuple[str, ...],
    scalars: tuple[str, ...],
    seed: int,
    check: bool,
    without: tuple[str, ...],
    dtype: str | None,
    timed: bool,
    as_json: bool,
) -> None:
    """Compile a kernel text (docs/ir.md) for a device and run it on made-up inputs.

    Whole-number inputs are small; arrays that index stay inside of what they index. A FILE of - is
    the standard input. Exit code 1: a result is over its bound. 2: the input is wrong.
    """
    import hal

    source = kernel_file.read(file)
    chosen, schedules = _kernel(source, file, kernel, dtype)
    params = _params(chosen, sizes)
    numbers = _scalars(chosen, scalars)
    with hal.open(device) as opened:
        report = _run(
            opened, chosen, schedules, params, numbers, seed, _names(without), source, file, timed
        )
        if check:
            _judge(report, opened, chosen, params, numbers)
    _say(report, as_json)
    sys.exit(0 if report["ok"] else 1)


# ---- What was asked for ----


def _kernel(
    source: str, file: str, name: str | None, dtype: str | None
) -> tuple[Kernel, tuple[Schedule, ...]]:
    from hal import dtypes
    from hal.ir import parse
    from hal.ir.passes.adapt import STORAGE, adapt_dtype

    program = parse(source, file)
    found = kernel_file.chosen(program, file, name)
    if dtype is not None:
        if dtype not in STORAGE:
            raise UsageError(f"--dtype {dtype}: one of {', '.join(STORAGE)}")
        found = adapt_dtype(found, dtypes.by_name(dtype))
    return found, tuple(item for item in program.schedules if item.kernel == found.name)


def _pairs(given: tuple[str, ...], option: str, known: list[str], what: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in given:
        for item in filter(None, (part.strip() for part in text.split(","))):
            name, equals, value = item.partition("=")
            if not equals:
                raise UsageError(f"{option} {item}", next_step="Write NAME=VALUE.")
            if name not in known:
                have = f"it has {', '.join(known)}" if known else "it has none"
                raise UsageError(f"{option} {item}: the kernel has no {what} {name}; {have}")
            found[name] = value
    return found


def _params(kernel: Kernel, given: tuple[str, ...]) -> dict[str, int]:
    texts = _pairs(given, "--size", list(kernel.params), "param")
    missing = [name for name in kernel.params if name not in texts]
    if missing:
        raise UsageError(
            f"the kernel {kernel.name} needs a value for {', '.join(missing)}",
            next_step=f"Give --size {','.join(f'{name}=…' for name in missing)}.",
        )
    found = {}
    for name in kernel.params:
        try:
            found[name] = int(texts[name])
        except ValueError:
            raise UsageError(f"--size {name}={texts[name]}: it must be a whole number") from None
        if not 0 <= found[name] < 2**63:
            raise UsageError(f"--size {name}={found[name]}: a size is 0 or more")
    return found


def _scalars(kernel: Kernel, given: tuple[str, ...]) -> dict[str, float | int]:
    texts = _pairs(given, "--scalar", [item.name for item in kernel.scalars], "scalar")
    found: dict[str, float | int] = {}
    for item in kernel.scalars:
        text = texts.get(item.name, "3" if item.dtype.is_int else "0.5")
        try:
            found[item.name] = int(text) if item.dtype.is_int else float(text)
        except ValueError:
            kind = "a whole number" if item.dtype.is_int else "a number"
            raise UsageError(f"--scalar {item.name}={text}: it must be {kind}") from None
        if item.dtype.is_int and not item.dtype.minimum <= found[item.name] <= item.dtype.maximum:
            raise UsageError(f"--scalar {item.name}={text}: it does not fit {item.dtype}")
    return found


def _names(given: tuple[str, ...]) -> frozenset[str]:
    from hal.codegen.compiling import OPTIONAL
    from hal.ir.passes import NAMES

    names = frozenset(part.strip() for text in given for part in text.split(",") if part.strip())
    for name in sorted(names - set(NAMES) - OPTIONAL):
        known = ", ".join([*NAMES, *sorted(OPTIONAL)])
        raise UsageError(f"--without {name}: there is no such pass", next_step=f"Known: {known}.")
    return names


# ---- The run ----


def inputs(kernel: Kernel, params: dict[str, int], seed: int) -> dict[str, Any]:
    """Inputs and inouts made from a seed: normal floats, small integers, indices in range."""
    import numpy as np

    from hal.ir.analysis import value_of

    rng = np.random.default_rng(seed)
    ends = _index_ends(kernel, params)
    found = {}
    for array in kernel.arrays_of("input", "inout", "output"):
        shape = tuple(max(0, value_of(size, params)) for size in array.shape)
        count = 1
        for length in shape:
            count *= length
        if count > MOST_ELEMENTS:
            raise UsageError(f"{array.name} has {count} elements; at most {MOST_ELEMENTS} here")
        if array.role == "output":
            continue
        if array.dtype.kind == "bool":
            values: Any = rng.integers(0, 2, shape)
        elif array.dtype.is_int:
            low = 0 if array.dtype.minimum == 0 or array.name in ends else -4
            values = rng.integers(low, max(low + 1, ends.get(array.name, 5)), shape)
        else:
            values = rng.standard_normal(shape, dtype=np.float32)
        found[array.name] = values.astype(array.dtype.numpy)
    return found


def _index_ends(kernel: Kernel, params: dict[str, int]) -> dict[str, int]:
    """Arrays that stand in subscripts -> the least length that they index."""
    from hal.ir.analysis import inline_lets, value_of
    from hal.ir.nodes import Access, walk

    found: dict[str, int] = {}
    for statement in inline_lets(kernel).assigns:
        for root in (*statement.targets, statement.value):
            for access in (item for item in walk(root) if isinstance(item, Access)):
                shape = kernel.array(access.array).shape
                for subscript, size in zip(access.indices, shape, strict=False):
                    for inner in walk(subscript):
                        if isinstance(inner, Access):
                            end = value_of(size, params)
                            found[inner.array] = min(found.get(inner.array, end), end)
    return found


def _run(
    device: Device,
    kernel: Kernel,
    schedules: tuple[Schedule, ...],
    params: dict[str, int],
    scalars: dict[str, float | int],
    seed: int,
    without: frozenset[str],
    source: str,
    file: str,
    timed: bool,
) -> dict[str, Any]:
    """Compiles, runs and reads back. `results` and `inputs` are NumPy arrays."""
    from hal.codegen.execute import Executable
    from hal.ir.analysis import value_of

    given = inputs(kernel, params, seed)
    run = Executable(device, kernel, without=without, schedules=schedules, source=source, name=file)
    arrays = {name: device.array(values) for name, values in given.items()}
    for array in kernel.arrays_of("output"):
        shape = tuple(max(0, value_of(size, params)) for size in array.shape)
        arrays[array.name] = device.empty(shape, array.dtype)
    order = [item.name for item in kernel.arrays_of("input", "inout", "output")]
    arguments: list[Any] = [arrays[name] for name in order]
    arguments += [scalars[item.name] for item in kernel.scalars]
    stream = device.stream()
    start = time.perf_counter()
    run(stream, *arguments, **params)
    first = time.perf_counter() - start
    stream.synchronize()
    names = [item.name for item in kernel.arrays_of("inout", "output")]
    results = {name: arrays[name].numpy() for name in names}
    times = _times(run, stream, arguments, params) if timed else []
    return {
        "kernel": kernel.name,
        "device": device.name,
        "chip": device.hcd.name,
        "sizes": params,
        "ok": True,
        "compile_ms": first * 1e3,
        "time_ms": {"min": min(times), "median": median(times)} if times else None,
        "arrays": [],
        "inputs": given,
        "results": results,
    }


def _times(run: Any, stream: Any, arguments: list[Any], params: dict[str, int]) -> list[float]:
    """Milliseconds of each round, with the wait for its end."""
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        run(stream, *arguments, **params)
        stream.synchronize()
        times.append((time.perf_counter() - start) * 1e3)
    return times


def _judge(
    report: dict[str, Any],
    device: Device,
    kernel: Kernel,
    params: dict[str, int],
    scalars: dict[str, float | int],
) -> None:
    """Adds error and bound of each result."""
    import numpy as np

    from hal.hcd import flat
    from hal.testing.kernels import expected
    from hal.testing.tolerance import Numerics, compare

    numerics = Numerics.of({path: flat.text_of(value) for path, value in device.hcd.items()})
    wanted = expected(kernel, report["inputs"], params, scalars)
    for name, item in wanted.items():
        got = report["results"][name]
        dtype = kernel.array(name).dtype
        found = compare(
            got, item.values, law="kernel", dtype=dtype.name, scale=item.bound, numerics=numerics
        )
        bad = int(np.sum(~found.good))
        with np.errstate(all="ignore"):
            badness = np.where(found.good, 0, np.inf) + found.error / np.maximum(found.bound, 1e-45)
        worst = int(np.argmax(badness)) if got.size else None
        report["arrays"].append(
            {
                "name": name,
                "dtype": dtype.name,
                "shape": list(got.shape),
                "ok": not bad,
                "wrong": bad,
                "error": float(found.error.flat[worst]) if worst is not None else 0.0,
                "bound": float(found.bound.flat[worst]) if worst is not None else 0.0,
                "ratio": found.ratio,
            }
        )
        report["ok"] = report["ok"] and not bad


# ---- The answer ----


def _say(report: dict[str, Any], as_json: bool) -> None:
    if as_json:
        shown = {key: value for key, value in report.items() if key not in ("inputs", "results")}
        click.echo(json.dumps(shown, indent=1, ensure_ascii=False, default=str))
        return
    sizes = ", ".join(f"{name} = {value}" for name, value in report["sizes"].items())
    head = f"{report['kernel']} on {report['device']} ({report['chip']})"
    click.echo(f"{head}: {sizes}" if sizes else head)
    for item in report["arrays"]:
        shape = ",".join(str(length) for length in item["shape"])
        verdict = "ok" if item["ok"] else f"{item['wrong']} elements are over the bound"
        click.echo(
            f"  {item['name']}: {item['dtype']}[{shape}] error {item['error']:.3g}, "
            f"bound {item['bound']:.3g} ({item['ratio']:.3g} of it): {verdict}"
        )
    if not report["arrays"]:
        for name, values in report["results"].items():
            some = " ".join(str(value) for value in values.reshape(-1)[:6])
            click.echo(f"  {name}: {some}{' …' if values.size > 6 else ''}")
    taken = report["compile_ms"]
    rounded = f"{taken:,.0f}" if taken >= 100 else f"{taken:.3g}"
    click.echo(f"  compiled and enqueued in {rounded} ms")
    times = report["time_ms"]
    if times is not None:
        click.echo(f"  {times['min']:.4g} ms at best, median {times['median']:.4g} ms")


__all__ = ["command", "inputs"]
