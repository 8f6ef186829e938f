"""The strategy of matrix products: MMA over tiles, with what follows computed on the sums.

    for each block of the result (one program):
        for each step along the inner axis: load both sides, MMA
        scale, add what was there, the statements that follow, store

Rows, columns and inner may be several indices each; descriptors take them apart again, so that a
convolution, a transposed operand or a batch needs no copy. With `split` the inner axis is shared by
several programs, whose sums a second launch adds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from hal.codegen import product_epilogue, symbolic
from hal.codegen.choice import MAX_RANKED, Choice
from hal.codegen.lowering import Lowering
from hal.codegen.product_epilogue import Epilogue
from hal.codegen.product_machine import Machine
from hal.codegen.product_match import Product, find
from hal.codegen.product_tiles import Grid, Problem, advised, best, seconds
from hal.codegen.scope import Scope
from hal.codegen.target import Target
from hal.dtypes import DType
from hal.ir.nodes import Access, Array, Assign, Cast, Const, Expr, Index, Kernel
from hal.vil.builder import TileHandle
from hal.vil.expressions import Expr as VilExpr
from hal.vil.model import Value

__all__ = ["NAME", "Match", "all_candidates", "candidates", "cost", "lower", "match"]

NAME = "product"
PART = "part of the sum"


HONOURS_ADVICE = True
"""The first candidate is what the user's schedule asks for, where it names an index."""


@dataclass(frozen=True, slots=True)
class Match:
    """A product and what joins it.

    Attributes:
        statements: Those that this strategy takes, as they stand in the kernel.
        accumulates: The product goes on from what its target holds.
    """

    kernel: Kernel
    product: Product
    epilogue: Epilogue
    statements: tuple[Assign, ...]
    accumulates: bool


def match(kernel: Kernel, statements: Sequence[Assign], target: Target) -> Match | None:
    """The product at the head of the statements (lets inlined), with what can join it."""
    product = find(kernel, statements[0])
    if product is None:
        return None
    types = (product.left_dtype, product.right_dtype)
    if not target.supports("mma", "", *types) or not target.supports("load", "", *types[:1]):
        return None
    epilogue = product_epilogue.find(kernel, product, statements[1:])
    taken = tuple(statements[: 1 + len(epilogue.statements)])
    return Match(kernel, product, epilogue, taken, _continues(kernel, statements))


def _continues(kernel: Kernel, statements: Sequence[Assign]) -> bool:
    name = statements[0].target.array
    before = kernel.assigns[: len(kernel.assigns) - len(statements)]
    written = {target.array for statement in before for target in statement.targets}
    return kernel.array(name).role == "inout" or name in written


def candidates(
    found: Match, target: Target, sizes: Mapping[str, int], *, most: int = MAX_RANKED
) -> list[Choice]:
    """The `most` choices that the closed form ranks first, the best first; −1: all."""
    machine, problem = _figures(found, target, sizes)
    ranked = best(found.product, machine, problem, most=most, temps=_temps(found))
    choices = [item.choice for item in ranked]
    if target.advice is None or not choices:
        return choices
    wanted = advised(found.product, target.advice, choices[0], machine.limits)
    return [wanted, *(choice for choice in choices if choice != wanted)]


def all_candidates(found: Match, target: Target, sizes: Mapping[str, int]) -> list[Choice]:
    """Every choice that the chip's limits allow, in the order of the closed form."""
    return candidates(found, target, sizes, most=-1)


def cost(found: Match, choice: Choice, target: Target, sizes: Mapping[str, int]) -> float:
    """Predicted seconds."""
    machine, problem = _figures(found, target, sizes)
    return float(seconds(machine, problem, Grid.of([choice]))[0])


def _figures(found: Match, target: Target, sizes: Mapping[str, int]) -> tuple[Machine, Problem]:
    problem = Problem.of(
        found.kernel,
        found.product,
        sizes,
        extra_ops=product_epilogue.operations_of(found.epilogue, found.product),
        accumulates=found.accumulates,
    )
    return Machine.of_target(target), problem


def _temps(found: Match) -> int:
    """Tiles like the block that live beside it at most."""
    several = 2 if found.epilogue.statements else 0
    return several + (1 if found.accumulates else 0)


def lower(lowering: Lowering, found: Match, choice: Choice) -> None:
    """Adds the launches of a match under a choice.

    Raises:
        Unsuited: the choice does not fit the chip or the subscripts.
    """
    product = found.product
    continues = lowering.continues(product.statement)
    extents = lowering.extents(product.statement)
    if not continues and not lowering.covers(product.target, extents):
        lowering.initialise(product.statement)
        continues = True
    found = replace(found, accumulates=continues)
    if choice.split > 1:
        _lower_split(lowering, found, choice)
    else:
        scope = lowering.program("product", product.statement)
        with _blocks(scope, product, choice):
            steps = _step_count(scope, product, choice)
            total = _sum(scope, found, choice, 0, steps)
            _finish(scope, found, choice, total)
        lowering.launch(scope)
    lowering.started(product.statement)
    for statement in found.epilogue.statements:
        lowering.started(statement)


@contextmanager
def _blocks(scope: Scope, product: Product, choice: Choice, parts: int = 1) -> Iterator[Value]:
    """One program for each block of the result and part of the sum; gives the part."""
    rows, columns = choice.length("rows"), choice.length("columns")
    across = symbolic.ceil_ratio(_length(scope, product.columns), columns)
    down = symbolic.ceil_ratio(_length(scope, product.rows), rows)
    outer = symbolic.product([*(scope.extents[name] for name in product.batch), parts])
    last = (across, down) if choice.order == "rows" else (down, across)
    with scope.grid(outer, *last) as (number, second, third):
        row, column = (third, second) if choice.order == "rows" else (second, third)
        sizes = [scope.extents[name] for name in product.batch]
        digits = scope.split(number, [*sizes, symbolic.product([parts])])
        for name, digit in zip(product.batch, digits, strict=False):
            scope.fix(name, digit)
        _place_block(
            scope,
            product,
            choice,
            scope.compute("mul", row, rows),
            scope.compute("mul", column, columns),
        )
        yield digits[-1]


def _place_block(scope: Scope, product: Product, choice: Choice, row: Value, column: Value) -> None:
    """Rows and columns of tiles are those of the block."""
    scope.rows(*product.rows, length=choice.length("rows"), origin=row)
    scope.columns(*product.columns, length=choice.length("columns"), origin=column)


def _length(scope: Scope, names: Sequence[str]) -> VilExpr:
    return symbolic.product(scope.extents[name] for name in names)


def _step_count(scope: Scope, product: Product, choice: Choice) -> VilExpr:
    return symbolic.ceil_ratio(_length(scope, product.inner), choice.length("inner"))


def _sum(
    scope: Scope, found: Match, choice: Choice, first: Value | int, steps: Value
) -> TileHandle:
    """The block's sum over `steps` steps from step `first` on."""
    product = found.product
    rows, columns = choice.length("rows"), choice.length("columns")
    total = scope.tile(product.total_dtype, rows, columns, space="acc")
    origins = scope.axes_of_tile["row"].origin, scope.axes_of_tile["column"].origin
    peels = not product.folded and not scope.target.limits.explicit and first == 0
    if peels:
        _multiply(scope, product, choice, total, 0, origins, init=True)
        steps = scope.compute("sub", steps, 1)
    else:
        scope.p.fill(total, 0)
    with _folded(scope, product.folded), scope.loop(steps) as turn:
        step = scope.compute("add", turn, 1) if peels else scope.compute("add", turn, first)
        start = scope.compute("mul", step, choice.length("inner"))
        _multiply(scope, product, choice, total, start, origins)
    _place_block(scope, product, choice, *origins)
    return total


@contextmanager
def _folded(scope: Scope, names: Sequence[str]) -> Iterator[None]:
    """A loop for each inner index that has no place on the axis."""
    if not names:
        yield
        return
    with scope.loop(scope.extents[names[0]]) as value:
        scope.fix(names[0], value)
        with _folded(scope, names[1:]):
            yield


def _multiply(
    scope: Scope,
    product: Product,
    choice: Choice,
    total: TileHandle,
    start: Value | int,
    origins: tuple[Value, Value],
    *,
    init: bool = False,
) -> None:
    """One step: loads both sides and multiplies."""
    depth = choice.length("inner")
    rows, columns = choice.length("rows"), choice.length("columns")
    scope.rows(*product.rows, length=rows, origin=origins[0])
    scope.columns(*product.inner, length=depth, origin=start)
    left = _side(scope, product.left, product.left_dtype, (rows, depth), "mma_a")
    scope.rows(*product.inner, length=depth, origin=start)
    scope.columns(*product.columns, length=columns, origin=origins[1])
    right = _side(scope, product.right, product.right_dtype, (depth, columns), "mma_b")
    scope.p.mma(total, left, right, init=init)
    scope.release(left)
    scope.release(right)


def _side(
    scope: Scope, value: Expr, dtype: DType, shape: tuple[int, int], space: str
) -> TileHandle:
    """One operand of MMA as a tile of its dtype and whole shape."""
    read = value
    while isinstance(read, Cast):
        read = read.operand
    if isinstance(read, Access) and _narrows_nothing(scope, value, dtype):
        stored = scope.lowering.array(read.array).dtype
        if stored == dtype:
            tile = scope.load(read, space=space)
        else:
            loaded = scope.load(read)
            tile = scope.tile(dtype, loaded.tile.rows, loaded.tile.columns, space=space)
            scope.convert(loaded, dtype, to=tile)
            scope.release(loaded)
    else:
        tile = scope.value(value)
        if tile.tile.dtype != dtype:
            other = scope.convert(tile, dtype)
            scope.release(tile)
            tile = other
    whole = scope.spread(tile, *shape)
    if whole is not tile:
        scope.release(tile)
    return whole


def _narrows_nothing(scope: Scope, value: Expr, dtype: DType) -> bool:
    """The array below the casts can be multiplied in `dtype` without what the casts do."""
    from hal.codegen.product_match import keeps_values

    between: list[DType] = []
    while isinstance(value, Cast):
        between.append(value.dtype)
        value = value.operand
    if not isinstance(value, Access):
        return False
    stored = scope.lowering.array(value.array).dtype
    return all(keeps_values(stored, one) for one in (*between, dtype))


def _finish(scope: Scope, found: Match, choice: Choice, total: TileHandle) -> None:
    """Scales the sum, adds what the target holds, computes what follows, stores."""
    product, epilogue = found.product, found.epilogue
    for function, parts in (("mul", product.factors), ("div", product.divisors)):
        for part in parts:
            factor = scope.value(part, want=product.total_dtype)
            scope.p.bin(function, total, total, scope.convert(factor, total.tile.dtype))
    if found.accumulates:
        before = scope.load(product.target)
        scope.p.bin("add", total, total, scope.convert(before, total.tile.dtype))
    result = _stored(scope, total, product.target)
    if epilogue.stores:
        scope.store(product.target, result)
    scope.bindings[product.target] = result
    for statement in epilogue.statements:
        dtype = scope.lowering.array(statement.target.array).dtype
        value = scope.value(statement.value, want=dtype)
        value = scope.spread(value, choice.length("rows"), choice.length("columns"))
        kept = _stored(scope, value, statement.target)
        scope.store(statement.target, kept)
        scope.bindings[statement.target] = kept


def _stored(scope: Scope, tile: TileHandle, target: Access) -> TileHandle:
    """The tile in the dtype of the array that it is stored to."""
    return scope.convert(tile, scope.lowering.array(target.array).dtype)


# ---- The inner axis in parts ----


def _lower_split(lowering: Lowering, found: Match, choice: Choice) -> None:
    """A launch whose programs each sum a part, into a workspace, and one that adds the parts."""
    product = found.product
    array = lowering.array(product.target.array)
    names = [*product.batch, *product.rows, *product.columns]
    sizes = tuple(product.extents[name] for name in names)
    shape = (Const(choice.split), *sizes)
    space = lowering.temp("parts", Array("parts", product.total_dtype, shape, "temp"))
    place = Access(space.name, (Index(PART), *(Index(name) for name in names)))
    extra = {PART: symbolic.product([choice.split])}
    del array
    scope = lowering.program("product_parts", product.statement, extents=extra)
    with _blocks(scope, product, choice, choice.split) as part:
        scope.fix(PART, part)
        steps = _step_count(scope, product, choice)
        share = symbolic.ceil_ratio(steps, choice.split)
        first = scope.compute("mul", part, share)
        left = scope.compute("sub", steps, first)
        count = scope.compute("min", share, scope.compute("max", left, 0))
        total = _sum(scope, found, choice, first, count)
        scope.store(place, total)
    lowering.launch(scope)
    scope = lowering.program("product_sum", product.statement, extents=extra)
    with _blocks(scope, product, choice):
        scope.fix(PART, 0)
        total = scope.load(place)
        with scope.loop(choice.split - 1) as turn:
            scope.fix(PART, scope.compute("add", turn, 1))
            other = scope.load(place)
            scope.p.bin("add", total, total, other)
            scope.release(other)
        _finish(scope, found, choice, total)
    lowering.launch(scope)
