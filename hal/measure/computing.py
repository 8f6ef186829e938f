"""Vector operations, matrix products, and the operators of the device's own library."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from hal import dtypes
from hal.errors import HalError
from hal.library import Operand
from hal.measure.chip import unit_rate_hz
from hal.measure.figures import Figure, Spread
from hal.measure.programs import program
from hal.measure.stopwatch import Enqueue, Stopwatch, reason

if TYPE_CHECKING:
    from hal.stream import Stream

__all__ = ["library", "products", "vectors"]

CHAIN = """kernel chain {{
  param N : int
  input: {dtype}[N] A, {dtype}[N] B
  output: {dtype}[N] C
  operation: C[i] = {value}
}}
"""
LINKS = {"add": "B[i] - {}", "div": "B[i] / {}", "exp": "exp(B[i] - {})", "mul": "B[i] * {}"}
"""One step of a chain, by the class of its work; what stays in bounds from 0.5 on."""
FEW, MANY = 16, 64
"""Steps of the two chains whose difference is measured."""

PRODUCT = """kernel product {{
  param M, N, K : int
  input: {dtype}[M,K] A, {dtype}[K,N] B
  output: {out}[M,N] C
  operation: C[i,j] += A[i,k] * B[k,j]
}}
"""
OUTPUTS = {"f32": "f32", "f64": "f64", "f16": "f16", "bf16": "bf16", "i8": "i32", "i32": "i32"}
"""Types of operands that products are measured for, and what they give."""


def vectors(watch: Stopwatch, count: int, types: Sequence[str]) -> Iterator[Figure]:
    """Elements a cycle of each row of vector work that a generated kernel can be made of."""
    for unit in watch.device.hcd.get("compute", []):
        if unit["kind"] == "vector":
            for row in unit["operations"]:
                work = next((name for name in LINKS if name in row["classes"]), None)
                if work is not None and row["dtype"] in types:
                    yield _vector(watch, unit, row, work, count)


def _vector(
    watch: Stopwatch, unit: dict[str, Any], row: dict[str, Any], work: str, count: int
) -> Figure:
    path = f"compute.{unit['id']}.operations.{row['id']}.lanes_per_cycle"
    what = f"{work} {row['dtype']}"
    cycles = unit_rate_hz(watch.device.hcd, unit["unit"]) * unit.get("count", 1)
    try:
        spread = _chain_rate(watch, row["dtype"], work, count)
    except HalError as error:
        return Figure(what, "elements/cycle", None, note=reason(error))
    each = Spread(tuple(value / cycles for value in spread.values), spread.rounds)
    note = f"chains of {FEW} and {MANY} over {count:,} elements, all {unit['unit']} together"
    return Figure(
        what,
        "elements/cycle",
        each,
        (path,),
        is_floor=True,
        declared=row["lanes_per_cycle"],
        note=note,
    )


def _chain_rate(watch: Stopwatch, dtype: str, work: str, count: int) -> Spread:
    """Elements a second of one step; `exp` without the subtraction that keeps it in bounds."""
    import numpy as np

    device = watch.device
    one = np.full(count, 0.5 if dtype[0] in "fb" else 1)
    arrays = [device.array(one, dtype) for _ in range(3)]

    def of(steps: int, link: str) -> Any:
        value = "A[i]"
        for _ in range(steps):
            value = link.format(value)
        run = program(device, CHAIN.format(dtype=dtype, value=value), {"N": count})
        return lambda stream: run(stream, *arrays, N=count)

    less = of(MANY, LINKS["add"]) if work == "exp" else of(FEW, LINKS[work])
    steps = MANY if work == "exp" else MANY - FEW
    return watch.growth(less, of(MANY, LINKS[work]), float(count * steps))


def products(watch: Stopwatch, lengths: Sequence[int], types: Sequence[str]) -> Iterator[Figure]:
    """The best generated product of each type, and what its inner loop reaches a cycle."""
    told: set[str] = set()
    for unit in watch.device.hcd.get("compute", []):
        if unit["kind"] != "matrix":
            continue
        for row in unit["operations"]:
            dtype = row["a"]
            if dtype != row["b"] or dtype not in types or dtype not in OUTPUTS or dtype in told:
                continue
            told.add(dtype)
            yield from _product(watch, unit, row, lengths)


def _product(
    watch: Stopwatch, unit: dict[str, Any], row: dict[str, Any], lengths: Sequence[int]
) -> Iterator[Figure]:
    dtype, hcd = row["a"], watch.device.hcd
    try:
        best = _best_product(watch, dtype, lengths)
    except HalError as error:
        yield Figure(f"product {dtype}", "FLOP/s", None, note=reason(error))
        return
    path = f"claims.matmul.{dtype}"
    note = f"generated, best length of {', '.join(map(str, lengths))}"
    yield Figure(
        f"product {dtype}",
        "FLOP/s",
        best,
        low_paths=(f"{path}.flops_per_s",),
        declared=hcd.get(f"{path}.flops_per_s"),
        note=f"{note}; the claim is the least",
        extra={f"{path}.dtype": dtype},
    )
    cycles = unit_rate_hz(hcd, unit["unit"]) * unit.get("count", 1)
    yield Figure(
        f"product {dtype}, of each unit",
        "multiply-adds/cycle",
        Spread(tuple(value / 2 / cycles for value in best.values), best.rounds),
        (f"compute.{unit['id']}.operations.{row['id']}.macs_per_cycle",),
        is_floor=True,
        declared=row["macs_per_cycle"],
        note=note,
    )


def _best_product(watch: Stopwatch, dtype: str, lengths: Sequence[int]) -> Spread:
    """FLOP/s of the best square product."""
    best = Spread((), 1)
    text = PRODUCT.format(dtype=dtype, out=OUTPUTS[dtype])
    for length in lengths:
        sizes = {"M": length, "N": length, "K": length}
        run = program(watch.device, text, sizes)
        types = (dtype, dtype, OUTPUTS[dtype])
        arrays = [_small(watch, (length, length), kind) for kind in types]
        enqueue = partial(_enqueue, run, arrays, sizes)
        best = better(best, _rate(watch, enqueue, length))
    return best


def _enqueue(
    run: Callable[..., None], arrays: Sequence[Any], sizes: dict[str, int], stream: Stream
) -> None:
    run(stream, *arrays, **sizes)


def _rate(watch: Stopwatch, enqueue: Enqueue, length: int) -> Spread:
    """FLOP/s of a square product."""
    times = watch.time_ns(enqueue)
    return Spread(tuple(2e9 * length**3 / time for time in times.values), times.rounds)


def better(one: Spread, other: Spread) -> Spread:
    """The one with the greater median; an unsound one loses."""
    if not other.is_sound:
        return one
    return one if one.is_sound and one.middle >= other.middle else other


def _small(watch: Stopwatch, shape: tuple[int, ...], dtype: str) -> Any:
    """An array of small whole numbers."""
    import numpy as np

    values = np.random.default_rng(0).integers(0, 3, shape)
    return watch.device.array(values, dtype)


def library(watch: Stopwatch, lengths: Sequence[int]) -> Iterator[Figure]:
    """The library's own product of each type that it takes."""
    device, hcd = watch.device, watch.device.hcd
    offered = device.library.operators.get("matmul", frozenset())
    for dtype in sorted(offered & {dtypes.f32, dtypes.f64, dtypes.f16, dtypes.bf16}, key=str):
        best = Spread((), 1)
        for length in lengths:
            arrays = [_small(watch, (length, length), dtype.name) for _ in range(3)]
            a, b, c = (Operand(x, dtype, (length, length), (length, 1)) for x in arrays)

            def run(stream: Any, a: Any = a, b: Any = b, c: Any = c) -> None:
                device.library.run(stream, "matmul", [a, b], [c])

            best = better(best, _rate(watch, run, length))
        row = "library.matmul"
        path = f"{row}.rates.{dtype.name}.flops_per_s"
        yield Figure(
            f"product {dtype.name} by the library",
            "FLOP/s",
            best,
            (path,),
            declared=hcd.get(path),
            note=f"operator matmul, best length of {', '.join(map(str, lengths))}",
            extra={
                f"{row}.operator": "matmul",
                f"{row}.dtypes": sorted(item.name for item in offered),
                f"{row}.rates.{dtype.name}.dtype": dtype.name,
            },
        )
