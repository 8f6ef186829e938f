"""The strategy of attention: one program for each block of query rows, which walks the keys.

    for each block of keys:
        scores = queries · keysᵀ;  weights = exp(f(scores) − the largest so far)
        what was summed so far is scaled down where the largest grew
        total += weights;  output += weights · values
    output / total

Scores and weights live only in tiles. The output's row must fit a tile and there must be a key;
for other sizes the module holds the statements' own programs, which then get the grid.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from hal import dtypes
from hal.codegen import conditions, symbolic
from hal.codegen.attention_match import Attention, find_attention
from hal.codegen.causal import Causal, find_causal
from hal.codegen.choice import Choice, rank
from hal.codegen.errors import Unsuited
from hal.codegen.lowering import Lowering
from hal.codegen.scope import Scope
from hal.codegen.target import Target
from hal.dtypes import DType
from hal.ir.analysis import value_of
from hal.ir.nodes import Access, Assign, Expr, Kernel
from hal.ir.passes.rewriting import cost as operations_of
from hal.vil.builder import TileHandle
from hal.vil.expressions import Const
from hal.vil.expressions import Expr as VilExpr
from hal.vil.model import Value

__all__ = ["NAME", "Match", "candidates", "cost", "lower", "match"]

NAME = "attention"
USUAL = {"inner": 128, "wide": 128, "column": 1024, "rows": 1024, "batch": 16}
INSTRUCTION_S = 5e-8
SUMS = 24
"""Depth of a product whose multiply-adds take as long as its sums to load and store."""
PACKED = 6
"""Simple operations that turning and packing one element of keys or values takes."""
FOLDED = 1024
"""Simple operations that a row of a block takes besides those on its elements: the numbers that its
reductions leave and what is computed with them."""


@dataclass(frozen=True, slots=True)
class Match:
    """Statements that this strategy takes."""

    kernel: Kernel
    found: Attention

    @property
    def statements(self) -> tuple[Assign, ...]:
        """The statements as they stand in the kernel."""
        return self.found.originals

    @property
    def count(self) -> int:
        """How many statements are taken."""
        return len(self.found.originals)


def match(
    kernel: Kernel, statements: Sequence[Assign], target: Target, *, continues: bool = False
) -> Match | None:
    """Attention at the head of the statements (lets inlined)."""
    found = find_attention(kernel, statements)
    if found is None or found.output.target.array in {a.name for a in kernel.arrays_of("inout")}:
        return None
    products = (found.scores, found.output)
    if any(not target.supports("mma", "", p.left_dtype, p.right_dtype) for p in products):
        return None
    return Match(kernel, found)


def _sizes(match: Match, sizes: Mapping[str, int]) -> dict[str, int]:
    """Lengths of the five axes; usual ones where a param is not known."""
    found = match.found
    axes = {
        "inner": found.inner,
        "wide": found.wide,
        "column": (found.column,),
        "rows": found.rows,
        "batch": found.batch,
    }
    lengths = {}
    for axis, names in axes.items():
        try:
            lengths[axis] = prod(max(value_of(found.extents[n], sizes), 0) for n in names)
        except KeyError:
            lengths[axis] = USUAL[axis]
    return lengths


def candidates(match: Match, target: Target, sizes: Mapping[str, int]) -> list[Choice]:
    """Blocks of queries and keys that fit the chip, the best first."""
    lengths = _sizes(match, sizes)
    inner = _widest(target, lengths["inner"])
    wide = target.rounded_columns(max(lengths["wide"], 1))
    if inner is None or lengths["wide"] > wide:
        return []
    choices = []
    for rows in (16, 32, 64, 128, 256, 512):
        for column in (16, 32, 64, 128, 256, 512):
            shape = (target.rounded_rows(rows), _widest(target, column))
            if shape[1] is None or shape[0] > 2 * max(lengths["rows"], 8):
                continue
            tiles = {"rows": shape[0], "column": shape[1], "inner": inner, "wide": wide}
            choice = Choice(NAME, tuple(tiles.items()))
            if choice not in choices and _fits(target, choice):
                choices.append(choice)
    ranked = rank(choices, lambda choice: cost(match, choice, target, sizes))
    return [item.choice for item in ranked]


def _widest(target: Target, length: int) -> int | None:
    """A length that is legal for rows and for columns of tiles; None when there is none."""
    step = max(target.limits.granule_rows, target.limits.granule_columns)
    found = -(-max(length, 1) // step) * step
    if found % target.limits.granule_rows or found % target.limits.granule_columns:
        return None
    return found if found <= min(target.limits.max_rows, target.limits.max_columns) else None


def _tile_bytes(choice: Choice) -> int:
    """Of the tiles that live at once, counted in 4-byte elements."""
    rows, column = choice.length("rows"), choice.length("column")
    inner, wide = choice.length("inner"), choice.length("wide")
    return 4 * (3 * rows * column + rows * (inner + 2 * wide) + column * (inner + wide))


def _fits(target: Target, choice: Choice) -> bool:
    rows, column = choice.length("rows"), choice.length("column")
    largest = 4 * max(rows, column) * max(column, choice.length("inner"), choice.length("wide"))
    room = target.near_bytes * 7 // 8
    return _tile_bytes(choice) <= room and largest <= target.limits.max_tile_bytes


def cost(match: Match, choice: Choice, target: Target, sizes: Mapping[str, int]) -> float:
    """Predicted seconds: products, elementwise work on scores, transfers, dispatch."""
    found, lengths = match.found, _sizes(match, sizes)
    rows, column = choice.length("rows"), choice.length("column")
    blocks = lengths["batch"] * -(-lengths["rows"] // rows)
    steps = -(-lengths["column"] // column)
    used = -(-blocks // target.workers) * target.workers  # the last round may leave workers idle
    if find_causal(found.score, found.rows, found.column) is not None:
        seen = 0.5 + 0.5 * (rows + column) / max(lengths["column"], 1)
        steps = max(1, round(steps * min(1.0, seen)))
    scores = used * rows * steps * column
    types = [(p.left_dtype, p.right_dtype) for p in (found.scores, found.output)]
    rates = [target.macs_per_s(*pair) for pair in types]
    lanes = target.elements_per_s("add", dtypes.f32) or 1e9
    inner, wide = choice.length("inner"), choice.length("wide")
    # A product loads and stores its sums once for each turn of its inner axis.
    macs = scores * inner * (1 + SUMS / inner) / (rates[0] or lanes / 2)
    macs += scores * wide * (1 + SUMS / column) / (rates[1] or lanes / 2)
    work = scores * (operations_of(found.score) + 16 + FOLDED / column) / lanes
    rescaled = 3 * used * rows * steps * wide / lanes
    transfer = PACKED * used * steps * column * (inner + wide) / lanes
    slow = 1 + 0.1 * max(0.0, _tile_bytes(choice) / target.cache_bytes - 1)
    issue = used * steps * (24 + operations_of(found.score)) * INSTRUCTION_S / target.workers
    return target.launch_s + slow * (macs + work + rescaled + transfer) + issue


# ---- Lowering ----


def lower(lowering: Lowering, match: Match, choice: Choice) -> None:
    """Adds the program, and those of the statements for sizes that it does not take.

    Raises:
        Unsuited: the choice does not fit the chip or the subscripts.
    """
    found = match.found
    extents = {name: symbolic.from_ir(size) for name, size in found.extents.items()}
    rooms = [
        conditions.room(_length(extents, found.inner), choice.length("inner")),
        conditions.room(_length(extents, found.wide), choice.length("wide")),
        extents[found.column],
    ]
    with lowering.only_when(conditions.positive(*rooms)):
        program = _Program(lowering, found, choice, extents)
        program.write()
        lowering.launch(program.scope)
    with lowering.only_when(conditions.not_all_positive(*rooms)):
        _statements_alone(lowering, match)
    for statement in found.originals:
        lowering.started(statement)


def _length(extents: Mapping[str, VilExpr], names: Sequence[str]) -> VilExpr:
    return symbolic.product(extents[name] for name in names)


def _statements_alone(lowering: Lowering, match: Match) -> None:
    """The statements by the other strategies."""
    from hal.codegen.errors import CodegenError
    from hal.codegen.groups import STRATEGIES, choose, lower_group

    rest: Sequence[Assign] = match.found.originals
    others = [name for name in STRATEGIES if name != NAME]
    while rest:
        try:
            group, choice = choose(
                match.kernel,
                rest,
                lowering.target,
                {},
                started=lowering.started_arrays,
                strategies=others,
            )
        except CodegenError as error:
            raise Unsuited(str(error)) from None
        lower_group(lowering, group, choice)
        rest = rest[len(group.match.statements) :]


@dataclass
class _Program:
    """The program under construction: its tiles have one row for each query of the block."""

    lowering: Lowering
    found: Attention
    choice: Choice
    extents: dict[str, VilExpr]
    scope: Scope = field(init=False)

    def __post_init__(self) -> None:
        self.scope = self.lowering.program("attention", extents=self.extents)
        self.height = self.choice.length("rows")
        self.width = self.choice.length("column")
        self.kind = self.found.scores.total_dtype  # of scores, weights and sums

    def write(self) -> None:
        """All instructions."""
        scope, found = self.scope, self.found
        sizes = [self.extents[name] for name in found.batch]
        blocks = symbolic.ceil_ratio(_length(self.extents, found.rows), self.height)
        with scope.grid(symbolic.product(sizes), blocks) as (number, block):
            for name, place in zip(
                found.batch, scope.split(number, sizes or [Const(1)]), strict=False
            ):
                scope.fix(name, place)
            self.first_row = scope.compute("mul", block, self.height)
            self.queries = self._queries()
            self._start()
            self._walk()
            self._finish()

    def _queries(self) -> TileHandle:
        self._rows()
        self.scope.columns(*self.found.inner, length=self.choice.length("inner"))
        return self._side(
            self.found.queries, self._query_dtype, (self.height, self.choice.length("inner"))
        )

    @property
    def _query_dtype(self) -> DType:
        return self.found.scores.left_dtype

    def _rows(self) -> None:
        self.scope.rows(*self.found.rows, length=self.height, origin=self.first_row)

    def _side(self, value: Expr, dtype: DType, shape: tuple[int, int]) -> TileHandle:
        """An operand of MMA as a tile of its dtype and whole shape."""
        scope = self.scope
        stored = None
        if isinstance(value, Access):
            stored = scope.lowering.array(value.array).dtype
        tile = scope.load(value) if stored == dtype and isinstance(value, Access) else None
        tile = tile or scope.value(value)
        wide = scope.convert(tile, dtype)
        if wide.index != tile.index:
            scope.release(tile)
        whole = scope.spread(wide, *shape)
        if whole.index != wide.index:
            scope.release(wide)
        return whole

    def _start(self) -> None:
        scope, p = self.scope, self.scope.p
        self.top = scope.tile(self.kind, self.height, 1)
        self.total = scope.tile(self.kind, self.height, 1)
        self.sum = scope.tile(self.kind, self.height, self.choice.length("wide"))
        p.fill(self.top, float("-inf"))
        p.fill(self.total, 0)
        p.fill(self.sum, 0)

    # ---- The walk over the keys ----

    def _walk(self) -> None:
        """All blocks of keys; those beyond a causal mask are left out, those before it unmasked."""
        scope, found = self.scope, self.found
        count = symbolic.ceil_ratio(self.extents[found.column], self.width)
        causal = find_causal(found.score, found.rows, found.column)
        if causal is None:
            with scope.loop(count) as step:
                self._block(scope.compute("mul", step, self.width), found.score)
            return
        free, end = self._limits(causal, count)
        with scope.loop(free) as step:
            self._block(scope.compute("mul", step, self.width), causal.inside)
        with scope.loop(scope.compute("sub", end, free)) as turn:
            step = scope.compute("add", turn, free)
            self._block(scope.compute("mul", step, self.width), found.score)

    def _limits(self, causal: Causal, count: VilExpr) -> tuple[Value, Value]:
        """Blocks of keys that every row of the program sees whole, and those that some row sees.

        Row i sees the keys j < i + shift.
        """
        scope = self.scope
        shift = symbolic.from_ir(causal.shift)
        seen = scope.compute("add", self.first_row, shift)
        free = scope.compute("idiv", scope.compute("max", seen, 0), self.width)
        most = scope.compute("add", seen, self.height - 1 + self.width - 1)
        end = scope.compute("idiv", scope.compute("max", most, 0), self.width)
        end = scope.compute("min", end, count)
        return scope.compute("min", free, end), end

    def _block(self, origin: Value, score: Expr) -> None:
        scope, p = self.scope, self.scope.p
        weights, shrink = self._weights(self._scores(origin, score))
        part = scope.tile(self.kind, self.height, 1)
        p.red("add", part, weights, axis=1)
        p.bin("mul", self.total, self.total, shrink)
        p.bin("add", self.total, self.total, part)
        p.bin("mul", self.sum, self.sum, shrink)
        scope.release(part)
        scope.release(shrink)
        kind = self.found.output.left_dtype
        factors = scope.convert(weights, kind)
        if factors.index != weights.index:
            scope.release(weights)
        scope.rows(self.found.column, length=self.width, origin=origin)
        scope.columns(*self.found.wide, length=self.choice.length("wide"))
        shape = (self.width, self.choice.length("wide"))
        values = self._side(self.found.values, kind, shape)
        p.mma(self.sum, factors, values)
        scope.release(values)
        scope.release(factors)

    def _scores(self, origin: Value, score: Expr) -> TileHandle:
        """f of a block of queries · keysᵀ."""
        scope, found = self.scope, self.found
        inner = self.choice.length("inner")
        scope.rows(*found.inner, length=inner)
        scope.columns(found.column, length=self.width, origin=origin)
        keys = self._side(found.keys, self._query_dtype, (inner, self.width))
        raw = scope.tile(self.kind, self.height, self.width)
        scope.p.mma(raw, self.queries, keys, init=True)
        scope.release(keys)
        if score == found.raw:
            return raw
        self._rows()
        scope.bindings[found.raw] = raw
        tile = scope.value(score, want=self.kind)
        del scope.bindings[found.raw]
        scope.release(raw)
        return tile

    def _weights(self, scores: TileHandle) -> tuple[TileHandle, TileHandle]:
        """exp(scores − the largest so far), and what older sums shrink by.

        While all scores of a row are −inf, 0 is subtracted instead, so that exp gives 0, not NaN.
        """
        scope, p = self.scope, self.scope.p
        part, shift, shrink = (scope.tile(self.kind, self.height, 1) for _ in range(3))
        none = scope.tile(dtypes.bool_, self.height, 1)
        p.red("max", part, scores, axis=1)
        p.bin("max", part, part, self.top)
        p.bin("eq", none, part, scope.constant(float("-inf"), self.kind))
        p.sel(shift, none, scope.constant(0.0, self.kind), part)
        p.bin("sub", shrink, self.top, shift)
        p.un("exp", shrink, shrink)
        p.un("mov", self.top, part)
        p.bin("sub", scores, scores, shift)
        p.un("exp", scores, scores)
        for tile in (part, shift, none):
            scope.release(tile)
        return scores, shrink

    # ---- The end ----

    def _unseen(self) -> None:
        """Rows whose scores are all −inf: exp(−inf − −inf) is NaN by the kernel's meaning."""
        scope, p = self.scope, self.scope.p
        none = scope.tile(dtypes.bool_, self.height, 1)
        p.bin("eq", none, self.top, scope.constant(float("-inf"), self.kind))
        unseen = scope.tile(self.kind, self.height, 1)
        p.sel(unseen, none, scope.constant(float("nan"), self.kind), scope.constant(0.0, self.kind))
        p.bin("add", self.total, self.total, unseen)
        p.bin("add", self.sum, self.sum, unseen)
        scope.release(none)
        scope.release(unseen)

    def _finish(self) -> None:
        scope, found, p = self.scope, self.found, self.scope.p
        self._unseen()
        self._rows()
        scope.columns(length=1)
        scope.bindings[found.top.target] = self.top
        scope.bindings[found.total.target] = self.total
        for statement in (found.top, found.total, *found.ends):
            self._row_result(statement)
        scope.columns(*found.wide, length=self.choice.length("wide"))
        for function, parts in (("mul", found.output.factors), ("div", found.output.divisors)):
            for part in parts:
                bound = scope.bindings.get(part)
                tile = bound or scope.value(part, want=self.kind)
                p.bin(function, self.sum, self.sum, scope.convert(tile, self.kind))
        self._results()
        scope.bindings.clear()

    def _results(self) -> None:
        """The output, and what follows from it element by element."""
        scope, found = self.scope, self.found
        if found.stores:
            scope.store(found.output.target, self.sum)
        self._bind(found.output.target, self.sum)
        for statement in found.epilogue:
            dtype = scope.lowering.array(statement.target.array).dtype
            tile = scope.value(statement.value, want=dtype)
            tile = scope.spread(tile, self.height, self.choice.length("wide"))
            scope.store(statement.target, tile)
            self._bind(statement.target, tile)

    def _bind(self, target: Access, tile: TileHandle) -> None:
        """From here on `target` is in this tile, rounded to its array's dtype."""
        dtype = self.scope.lowering.array(target.array).dtype
        self.scope.bindings[target] = self.scope.convert(tile, dtype)

    def _row_result(self, statement: Assign) -> None:
        """A result of one element a row: bound, and stored where it is kept."""
        scope, target = self.scope, statement.target
        dtype = scope.lowering.array(target.array).dtype
        if target not in scope.bindings:
            tile = scope.convert(scope.value(statement.value, want=dtype), dtype)
            scope.bindings[target] = scope.spread(tile, self.height, 1)
        if target.array in self.found.kept:
            scope.store(target, scope.bindings[target])
