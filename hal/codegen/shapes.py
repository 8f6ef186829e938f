"""Plans of a pointwise program: which index lies on which axis, and how large tiles are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from hal.codegen import symbolic
from hal.codegen.errors import CodegenError
from hal.codegen.target import Target
from hal.dtypes import DType
from hal.errors import HalError
from hal.ir.analysis import affine, compute_dtype, index_extents, indices_of, reduced_indices
from hal.ir.nodes import Access, Assign, Call, Cast, Const, Expr, Index, Kernel, children, walk
from hal.vil.expressions import Expr as VilExpr
from hal.vil.expressions import evaluate, symbols_of

__all__ = ["Plan", "plans", "size_of", "statement_bytes"]

DEFAULT_SIZE = 1024
TILE_BYTES = 32768
STREAM_FACTOR = 4


@dataclass(frozen=True, slots=True)
class Plan:
    """One way to run a statement.

    Attributes:
        fixed: Kept indices that the grid walks.
        loops: Reduced indices that a loop walks.
        rows, columns: Indices on the tile axes, outermost first.
        height, width: Rows and columns of the tiles.
        folded: `columns` lie on both axes, row by row.
        stream: Stores are not worth a place in the caches.
        parts: Programs that share the turns of the loop; their sums are added by a launch more.
        seconds: Estimate.
    """

    fixed: tuple[str, ...]
    loops: tuple[str, ...]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    height: int
    width: int
    folded: bool = False
    stream: bool = False
    parts: int = 1
    seconds: float = 0.0

    @property
    def whole(self) -> Plan:
        """The plan with one program for all turns."""
        return replace(self, parts=1)

    def __str__(self) -> str:
        parts = [f"{self.height} x {self.width} tiles"]
        if self.folded:
            parts.append(f"{','.join(self.columns)} folded")
        else:
            parts.append(f"rows {','.join(self.rows) or '-'}")
            parts.append(f"columns {','.join(self.columns) or '-'}")
        if self.fixed:
            parts.append(f"grid {','.join(self.fixed)}")
        if self.loops:
            parts.append(f"loop {','.join(self.loops)}")
        if self.parts > 1:
            parts.append(f"in {self.parts} parts")
        return ", ".join(parts)


def size_of(expr: VilExpr, sizes: Mapping[str, int]) -> int:
    """A count for choices: unknown params count as 1024."""
    values = {name: sizes.get(name, DEFAULT_SIZE) for name in symbols_of(expr)}
    try:
        return max(0, evaluate(expr, values))
    except HalError:
        return DEFAULT_SIZE


class _Study:
    """What a statement looks like to the choice of axes."""

    def __init__(self, kernel: Kernel, statement: Assign, target: Target) -> None:
        self.kernel = kernel
        self.statement = statement
        self.target = target
        found = index_extents(kernel, statement)
        self.extents = {name: symbolic.from_ir(size) for name, size in found.items()}
        self.reduced = reduced_indices(statement)
        self.kept = indices_of(statement.target)
        reads = [item for item in walk(statement.value) if isinstance(item, Access)]
        self.accesses = [statement.target, *dict.fromkeys(reads)]
        self.alone: set[str] = set()  # may not share an axis
        self.no_column: set[str] = set()
        self.philox: list[Expr] = []
        self._look(statement.value)

    def _look(self, expr: Expr) -> None:
        match expr:
            case Access():
                for subscript in expr.indices:
                    self._look_at_subscript(subscript)
            case Index(name=name):
                self.alone.add(name)
            case Call(function="philox", operands=(_, _, element)):
                self.philox.append(element)
            case _:
                for child in children(expr):
                    self._look(child)

    def _look_at_subscript(self, subscript: Expr) -> None:
        for item in walk(subscript):
            if isinstance(item, Access):
                self.no_column.update(indices_of(item))
                self.alone.update(indices_of(item))
            elif isinstance(item, Call) and item.function in ("idiv", "imod"):
                self.alone.update(indices_of(item))

    def length(self, names: Sequence[str], sizes: Mapping[str, int]) -> int:
        """Product of extents."""
        return size_of(symbolic.product(self.extents[name] for name in names), sizes)

    def last_index(self, access: Access) -> str | None:
        """The index along which an access is contiguous, if any."""
        if not access.indices:
            return None
        found = affine(access.indices[-1])
        if found is None:
            return None
        for term, coefficient in found.terms:
            if isinstance(term, Index) and coefficient == Const(1):
                return term.name
        return None

    def column_indices(self) -> list[str]:
        """Indices that may be columns, the best first."""
        score: dict[str, float] = {}
        for access in self.accesses:
            name = self.last_index(access)
            if name is not None:
                weight = 1.5 if access is self.statement.target else 1.0
                score[name] = score.get(name, 0.0) + weight
        names = [name for name in score if name not in self.no_column]
        for element in self.philox:
            names = [n for n in names if self._has_unit(element, n)] or [
                n for n in indices_of(element) if self._has_unit(element, n)
            ]
        return sorted(names, key=lambda name: -score.get(name, 0.0))

    @staticmethod
    def _has_unit(expr: Expr, name: str) -> bool:
        found = affine(expr)
        return found is not None and (Index(name), Const(1)) in found.terms

    def group(self, start: str) -> tuple[str, ...]:
        """`start` and the indices outside of it that are one run of memory in every access."""
        names = [start]
        peers = self.reduced if start in self.reduced else self.kept
        grown = start not in self.alone
        while grown:
            grown = False
            for name in peers:
                if name in names or name in self.alone:
                    continue
                if self._flattens((name, *names)):
                    names.insert(0, name)
                    grown = True
                    break
        return tuple(names)

    def _flattens(self, names: tuple[str, ...]) -> bool:
        for access in self.accesses:
            if set(names).isdisjoint(indices_of(access)):
                continue
            if not self._is_run(access, names):
                return False
        return all(self._runs_in(element, names) for element in self.philox)

    def _is_run(self, access: Access, names: tuple[str, ...]) -> bool:
        plain = [item.name if isinstance(item, Index) else None for item in access.indices]
        if names[0] not in plain:
            return False
        begin = plain.index(names[0])
        if tuple(plain[begin : begin + len(names)]) != names:
            return False
        others = [*access.indices[:begin], *access.indices[begin + len(names) :]]
        if any(not set(names).isdisjoint(indices_of(item)) for item in others):
            return False
        shape = self.kernel.array(access.array).shape[begin : begin + len(names)]
        sizes = [symbolic.from_ir(size) for size in shape]
        return all(
            symbolic.equal(self.extents[name], size)
            for name, size in zip(names, sizes, strict=True)
        )

    def _runs_in(self, element: Expr, names: tuple[str, ...]) -> bool:
        found = affine(element)
        if found is None:
            return False
        by = {term.name: c for term, c in found.terms if isinstance(term, Index)}
        if not set(names) & set(by):
            return True
        if not set(names) <= set(by):
            return False
        expected: VilExpr = symbolic.from_ir(by[names[-1]])
        for name in reversed(names):
            if not symbolic.equal(symbolic.from_ir(by[name]), expected):
                return False
            expected = symbolic.times(expected, self.extents[name])
        return True


def plans(
    kernel: Kernel, statement: Assign, target: Target, sizes: Mapping[str, int]
) -> list[Plan]:
    """Every plan worth a look, the cheapest first; the last one always works."""
    study = _Study(kernel, statement, target)
    found: list[Plan] = []
    for column in [*study.column_indices()[:3], None]:
        columns = study.group(column) if column is not None else ()
        for rows in _row_choices(study, columns):
            found += _sized(study, columns, rows, sizes)
    found.sort(key=lambda plan: plan.seconds)
    last = _sized(study, (), (), sizes)
    return [*dict.fromkeys([*_advised(study, sizes), *found[:15], *last])]


def _advised(study: _Study, sizes: Mapping[str, int]) -> Iterator[Plan]:
    """The plan that the user's schedule asks for, if it names indices of the statement.

    Raises:
        CodegenError: such a tile does not fit the chip; the message says what does.
    """
    advice = study.target.advice
    given = {name: n for name, n in advice.tiles if name in study.extents} if advice else {}
    if not given:
        return
    columns = [name for name in study.column_indices() if name in given][:1]
    rows = [name for name in reversed((*study.kept, *study.reduced)) if name in given]
    rows = [name for name in rows if name not in columns][:1]
    limits = study.target.limits
    width = _fitting(study, columns, given, limits.granule_columns, limits.max_columns, "columns")
    height = _fitting(study, rows, given, limits.granule_rows, limits.max_rows, "rows")
    widest = max(compute_dtype(d).bytes for d in _dtypes(study))
    most = min(limits.max_tile_bytes, study.target.near_bytes // 2)
    if height * width * widest > most:
        step = f"With {width} columns at most {max(1, most // widest // width)} rows fit."
        raise _misfit(study, f"a tile of {height * width * widest} bytes", f"{most} bytes", step)
    used = {*columns, *rows}
    fixed = tuple(name for name in study.kept if name not in used)
    loops = tuple(name for name in study.reduced if name not in used)
    stream = _streams(study, sizes)
    plan = Plan(fixed, loops, tuple(rows), tuple(columns), height, width, stream=stream)
    yield _costed(study, plan, sizes)


def _fitting(
    study: _Study, names: list[str], given: Mapping[str, int], granule: int, most: int, what: str
) -> int:
    """The advised length of an axis, rounded up to the chip's granule."""
    length = given[names[0]] if names else 1
    if length > most:
        raise _misfit(study, f"a tile of {length} {what} ({names[0]})", f"{most} {what}", "")
    return length if length <= 1 else min(-(-length // granule) * granule, most)


def _misfit(study: _Study, asked: str, most: str, step: str) -> CodegenError:
    advice = study.target.advice
    text = f"the schedule asks for {asked}; {study.target.name} takes at most {most}"
    return CodegenError(text, next_step=step, span=advice.span if advice else None)


def _row_choices(study: _Study, columns: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    rest = [name for name in (*study.kept, *study.reduced) if name not in columns]
    for name in reversed(rest):
        yield tuple(item for item in study.group(name) if item not in columns)
    yield ()


def _sized(
    study: _Study, columns: tuple[str, ...], rows: tuple[str, ...], sizes: Mapping[str, int]
) -> Iterator[Plan]:
    target, limits = study.target, study.target.limits
    elements = _elements(study, sizes)
    total = study.length(columns, sizes)
    used = set(rows) | set(columns)
    fixed = tuple(name for name in study.kept if name not in used)
    loops = tuple(name for name in study.reduced if name not in used)
    width = target.rounded_columns(min(total, elements)) if columns else 1
    fold = bool(columns) and not rows and not loops and columns[0] in study.kept
    fold = fold and not study.reduced and total > width and not study.no_column
    if fold and len(columns) == 1 and columns[0] in study.alone:
        fold = False
    if fold:
        height = target.rounded_rows(-(-min(elements, total) // width))
    elif rows:
        room = max(1, elements // width)
        height = target.rounded_rows(min(study.length(rows, sizes), room))
    else:
        height = 1
    while height > limits.granule_rows and height * width > elements:
        height = max(limits.granule_rows, height // 2 // limits.granule_rows * limits.granule_rows)
    plan = Plan(fixed, loops, rows, columns, height, width, fold, _streams(study, sizes))
    yield _costed(study, plan, sizes)


def _elements(study: _Study, sizes: Mapping[str, int]) -> int:
    """Elements of a tile: what keeps the working set close, and leaves work for every core."""
    target = study.target
    widest = max(compute_dtype(d).bytes for d in _dtypes(study))
    live = 2 + len(study.accesses)
    room = min(TILE_BYTES, target.limits.max_tile_bytes, target.near_bytes // (2 * live))
    elements = max(64, room // widest)
    whole = study.length((*study.kept, *study.reduced), sizes)
    if sizes and target.workers > 1:
        share = whole // (2 * target.workers)
        elements = max(min(elements, share), min(elements, 1024))
    return elements


def _dtypes(study: _Study) -> list[DType]:
    found = [study.kernel.array(access.array).dtype for access in study.accesses]
    casts = [item.dtype for item in walk(study.statement.value) if isinstance(item, Cast)]
    return [*found, *casts]


def _streams(study: _Study, sizes: Mapping[str, int]) -> bool:
    """True for a large target that the statement does not read."""
    target = study.statement.target
    if not sizes or any(access.array == target.array for access in study.accesses[1:]):
        return False
    array = study.kernel.array(target.array)
    count = size_of(symbolic.product(symbolic.from_ir(size) for size in array.shape), sizes)
    return count * array.dtype.bytes >= STREAM_FACTOR * study.target.cache_bytes


LEAST_TURNS = 8
"""Turns for each core that are worth a launch more."""
PARTS_PER_WORKER = 2
INSTRUCTION_S = 6e-8
"""What an instruction costs beside its elements, on any chip."""
SHORT_ROW = 8
"""Elements that the start of a tile's row costs."""
FAR_FACTOR = 8.0
"""How much dearer an element is that does not lie beside its neighbour of the tile's row."""


def _costed(study: _Study, plan: Plan, sizes: Mapping[str, int]) -> Plan:
    def blocks(names: tuple[str, ...], length: int) -> int:
        return -(-study.length(names, sizes) // length)

    programs, turns = study.length(plan.fixed, sizes), study.length(plan.loops, sizes)
    if plan.folded:
        programs *= blocks(plan.columns, plan.height * plan.width)
    else:
        for names, length in ((plan.rows, plan.height), (plan.columns, plan.width)):
            if set(names).isdisjoint(study.reduced):
                programs *= blocks(names, length)
            else:
                turns *= blocks(names, length)
    workers = study.target.workers
    covered = all(isinstance(item, Index) for item in study.statement.target.indices)
    if study.reduced and covered and programs < workers and turns >= LEAST_TURNS * workers:
        plan = replace(plan, parts=PARTS_PER_WORKER * -(-workers // max(1, programs)))
        programs *= plan.parts
        turns = -(-turns // plan.parts)
    operations = sum(1 for _ in walk(study.statement.value)) + 2
    area = plan.height * (plan.width + SHORT_ROW)
    moved = 0.0
    for access in study.accesses:
        uses = set(indices_of(access))
        size = study.kernel.array(access.array).dtype.bytes
        deep = 1 if not uses.isdisjoint(plan.rows) or plan.folded else 0
        wide = 0 if uses.isdisjoint(plan.columns) else 1
        count = (plan.height if deep else 1) * (plan.width if wide else 1)
        last = study.last_index(access)
        near = last is None or last in plan.columns or count == 1
        moved += count * size * (1.0 if near else FAR_FACTOR)
    speed = max(1e8, study.target.bandwidth_bytes_per_s / study.target.workers)
    seconds = turns * (operations * (INSTRUCTION_S + area * 1e-10) + moved / speed)
    if plan.parts > 1:
        seconds += study.target.launch_s
    return replace(plan, seconds=seconds * -(-programs // workers))


def statement_bytes(kernel: Kernel, statement: Assign, sizes: Mapping[str, int]) -> float:
    """Bytes of the arrays that a statement touches, each once."""
    reads = [item for item in walk(statement.value) if isinstance(item, Access)]
    names = dict.fromkeys(access.array for access in (*statement.targets, *reads))
    total = 0.0
    for name in names:
        array = kernel.array(name)
        shape = symbolic.product(symbolic.from_ir(size) for size in array.shape)
        total += size_of(shape, sizes) * array.dtype.bytes
    return total
