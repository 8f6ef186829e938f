"""Operations on whole tiles: RED over rows, argmax, SCAN, TOPK, TRN and MMA.

Each writes loops of its own over tiles in memory. `Whole` names the operands: `d`, `a`, `b`, `c`
are pointers, `rows` and `columns` the lengths that count.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hal.codegen.dialect.elements import constant, narrow, widen
from hal.codegen.dialect.folds import Fold, identity
from hal.codegen.dialect.scope import Scope
from hal.dtypes import DType, f32, f64
from hal.vil.model import Instruction, TileRef

__all__ = ["fold_arg", "fold_rows", "multiply", "scan", "top", "transpose"]

_TERMS = 256  # Columns of a and rows of b at a time: a panel of b stays in the first cache.
_BLOCK_STEPS = 16  # Steps of a template whose rows of a stay in the second.


def _dtype(scope: Scope, reference: TileRef | None) -> DType:
    assert reference is not None
    return scope.program.tiles[reference.tile].dtype


def _columns(scope: Scope, reference: TileRef | None) -> int:
    assert reference is not None
    return scope.program.tiles[reference.tile].columns


def _pointer(scope: Scope, reference: TileRef | None) -> str:
    assert reference is not None
    return scope.pointer(reference)


@contextmanager
def _spread(scope: Scope, count: str, name: str = "i") -> Iterator[None]:
    """A loop whose turns are independent: the lanes of an instance share them."""
    if scope.language.is_group:
        ids = scope.language.ids
        head = f"for (i64 {name} = {ids['lane']}; {name} < {count}; {name} += {ids['lanes']})"
        with scope.block(head):
            yield
        scope.add(f"{scope.language.barrier};")
        return
    with scope.block(f"for (i64 {name} = 0; {name} < {count}; ++{name})"):
        yield


def fold_rows(scope: Scope, item: Instruction) -> None:
    """RED over rows, but argmax and argmin."""
    assert item.a is not None
    source, target = _dtype(scope, item.a), _dtype(scope, item.d)
    a, d = _pointer(scope, item.a), _pointer(scope, item.d)
    rows, columns = scope.region(item.a)
    width = _columns(scope, item.a)
    fold = Fold(scope.language, item.function, source, target, "total")
    block = 1 if scope.language.is_group else 64
    if block == 1:
        with _spread(scope, columns, "j"):
            scope.add(*fold.begin())
            with scope.block(f"for (i64 i = 0; i < {rows}; ++i)"):
                scope.add(*fold.step(f"{a}[i * {width} + j]"))
            scope.add(f"{d}[j] = {fold.end()};")
        return
    kinds = [line.split(" = ") for line in fold.begin()]
    with scope.block(f"for (i64 j = 0; j < {columns}; j += {block})"):
        scope.add(f"const i64 n = {columns} - j < {block} ? {columns} - j : {block};")
        for kind, start in kinds:
            scope.add(f"{kind}[{block}];")
            name = kind.split()[-1]
            scope.add(f"for (i64 l = 0; l < n; ++l) {name}[l] = {start}")
        with (
            scope.block(f"for (i64 i = 0; i < {rows}; ++i)"),
            scope.block("for (i64 l = 0; l < n; ++l)"),
        ):
            for line in fold.step(f"{a}[i * {width} + j + l]"):
                scope.add(_per_lane(line))
        scope.add(f"for (i64 l = 0; l < n; ++l) {d}[j + l] = {_per_lane(fold.end())};")


def _per_lane(line: str) -> str:
    """The accumulators of a fold as arrays of one element a column."""
    import re

    return re.sub(r"\btotal(_nan)?\b(?!\[)", lambda found: f"{found[0]}[l]", line)


def fold_arg(scope: Scope, item: Instruction, base: str, fault: str) -> None:
    """RED argmax and argmin: lowest index of the best, or of the first NaN."""
    assert item.a is not None
    source, target = _dtype(scope, item.a), _dtype(scope, item.d)
    a, d = _pointer(scope, item.a), _pointer(scope, item.d)
    rows, columns = scope.region(item.a)
    width = _columns(scope, item.a)
    count, length = (columns, rows) if item.axis == 0 else (rows, columns)
    at = f"k * {width} + i" if item.axis == 0 else f"i * {width} + k"
    sign = ">" if item.function == "argmax" else "<"
    scope.add(f"if ({count} > 0 && {length} == 0) {fault}")
    kind = _compared(source)
    with _spread(scope, f"({length} ? {count} : 0)"):
        scope.add(f"i64 best = 0, k = 0; {kind} kept = {_wide(f'{a}[{at}]', source)};")
        with scope.block(f"for (k = 1; k < {length} && kept == kept; ++k)"):
            scope.add(f"const {kind} x = {_wide(f'{a}[{at}]', source)};")
            scope.add(f"if (x {sign} kept || x != x) {{ kept = x; best = k; }}")
        scope.add(f"{d}[i] = ({target.name})hal_add({base}, best);")


def _compared(dtype: DType) -> str:
    return ("f64" if dtype is f64 else "f32") if dtype.is_float else "i64"


def _wide(text: str, dtype: DType) -> str:
    return widen(text, dtype) if dtype.is_float else text


def scan(scope: Scope, item: Instruction) -> None:
    """SCAN."""
    assert item.a is not None
    source, target = _dtype(scope, item.a), _dtype(scope, item.d)
    a, d = _pointer(scope, item.a), _pointer(scope, item.d)
    rows, columns = scope.region(item.a)
    width = _columns(scope, item.a)
    count, length = (columns, rows) if item.axis == 0 else (rows, columns)
    kind = (f64 if source is f64 else f32) if source.is_float else target
    start = identity(item.function, source, kind)
    name = kind.name if kind.is_float else "i64"
    with _spread(scope, count):
        scope.add(f"{name} total = {start};")
        is_long_sum = kind.is_float and item.function == "add"
        if is_long_sum:
            scope.add(f"{name} lost = 0;")
        with scope.block(f"for (i64 n = 0; n < {length}; ++n)"):
            step = f"{length} - 1 - n" if "reverse" in item.flags else "n"
            at = f"k * {width} + i" if item.axis == 0 else f"i * {width} + k"
            scope.add(f"const i64 k = {step};")
            scope.add(f"const {name} x = {_wide(f'{a}[{at}]', source)};")
            value = narrow("total", target) if kind.is_float else f"({target.name})total"
            if "exclusive" in item.flags:
                scope.add(f"{d}[{at}] = {value};")
            scope.add(
                *(_summed(name) if is_long_sum else [f"total = {_joined(item.function, kind)};"])
            )
            if "exclusive" not in item.flags:
                scope.add(f"{d}[{at}] = {value};")


def _summed(name: str) -> list[str]:
    """`total` plus `x` with what the last sums lost, so that a long scan is as near as a short one.

    Source: W. Kahan, "Further remarks on reducing truncation errors", CACM 8(1), 1965.
    """
    return [
        f"const {name} more = x - lost, next = total + more;",
        "lost = (next - total) - more;",
        "if (!(lost - lost == 0)) lost = 0;",  # Behind an infinity nothing is lost.
        "total = next;",
    ]


def _joined(function: str, kind: DType) -> str:
    """`total` and `x` combined."""
    if kind.is_float:
        if function in ("max", "min"):
            return f"hal_{function}_{kind.name}(total, x)"
        return f"total {'+' if function == 'add' else '*'} x"
    names = {"add": "hal_add", "mul": "hal_mul", "max": "hal_most", "min": "hal_least"}
    return f"{names[function]}(total, x)"


def top(scope: Scope, item: Instruction, base: str) -> tuple[str, str]:
    """TOPK; gives rows and columns of the result."""
    assert item.a is not None and item.d is not None and item.c is not None
    source, index = _dtype(scope, item.a), _dtype(scope, item.c)
    a, d, c = (_pointer(scope, reference) for reference in (item.a, item.d, item.c))
    size, width = _columns(scope, item.d), _columns(scope, item.a)
    rows, columns = scope.region(item.a)
    length = "0"
    if "init" not in item.flags:
        values, places = scope.region(item.d), scope.region(item.c)
        length = scope.least(values[1], places[1])
        rows = scope.least(values[0], places[0], rows)
    after = scope.extent(f"hal_least({length} + {columns}, {size})", size)
    kind = scope.language.stored(source)
    sign = "<" if "smallest" in item.flags else ">"
    with _spread(scope, rows):
        scope.add(f"i64 have = {length};")
        with scope.block(f"for (i64 j = 0; j < {columns}; ++j)"):
            scope.add(
                f"const {kind} x = {a}[i * {width} + j];",
                f"const i64 place = ({index.name})hal_add({base}, j);",
                "i64 at = have;",
            )
            old = f"{d}[i * {size} + at - 1]"
            better = _is_better("x", old, f"place < {c}[i * {size} + at - 1]", source, sign)
            with scope.block(f"while (at > 0 && {better})"):
                scope.add(
                    f"if (at < {size}) {{ {d}[i * {size} + at] = {old};"
                    f" {c}[i * {size} + at] = {c}[i * {size} + at - 1]; }}",
                    "--at;",
                )
            scope.add(
                f"if (at < {size}) {{ {d}[i * {size} + at] = x;"
                f" {c}[i * {size} + at] = ({index.name})place; }}",
                f"if (have < {size}) ++have;",
            )
    return rows, after


def _is_better(x: str, old: str, first: str, dtype: DType, sign: str) -> str:
    """x stands before `old`: NaN is above all numbers; equal ones by index."""
    a, b = _wide(x, dtype), _wide(old, dtype)
    if not dtype.is_float:
        return f"({a} {sign} {b} || ({a} == {b} && {first}))"
    nan_a, nan_b = f"({a} != {a})", f"({b} != {b})"
    both = f"({a} == {b} || ({nan_a} && {nan_b}))"
    above = f"{nan_a} && !{nan_b}" if sign == ">" else f"{nan_b} && !{nan_a}"
    return f"({a} {sign} {b} || ({above}) || ({both} && {first}))"


def transpose(scope: Scope, item: Instruction) -> None:
    """TRN."""
    assert item.a is not None
    a, d = _pointer(scope, item.a), _pointer(scope, item.d)
    rows, columns = scope.region(item.a)
    width, height = _columns(scope, item.a), _columns(scope, item.d)
    with _spread(scope, columns, "j"), scope.block(f"for (i64 i = 0; i < {rows}; ++i)"):
        scope.add(f"{d}[j * {height} + i] = {a}[i * {width} + j];")


def multiply(scope: Scope, item: Instruction) -> tuple[str, str]:
    """MMA; gives rows and columns of the result."""
    assert item.a is not None and item.b is not None and item.d is not None
    left, right = scope.region(item.a), scope.region(item.b)
    inner = scope.least(left[1], right[0])
    rows, columns = left[0], right[1]
    init = "init" in item.flags
    if not init:
        have = scope.region(item.d)
        rows, columns = scope.least(have[0], rows), scope.least(have[1], columns)
    _Product(scope, item, (rows, columns, inner), init).write()
    return rows, columns


def _part(name: str, left: str, most: int) -> str:
    """What is left, or the most that is taken at a time."""
    return f"const i64 {name} = {left} < {most} ? {left} : {most};"


class _Product:
    """The loops of one MMA."""

    def __init__(
        self, scope: Scope, item: Instruction, lengths: tuple[str, str, str], init: bool
    ) -> None:
        self.scope = scope
        self.rows, self.columns, self.inner = lengths
        self.init = init
        self.types = (_dtype(scope, item.a), _dtype(scope, item.b), _dtype(scope, item.d))
        self.pointers = [_pointer(scope, each) for each in (item.a, item.b, item.d)]
        self.widths = [_columns(scope, each) for each in (item.a, item.b, item.d)]
        self.instr = scope.language.instr("mma", "", *self.types)
        if scope.language.is_group:
            self.instr = None

    def write(self) -> None:
        """The template where it fits, plain loops around it."""
        scope = self.scope
        if self.instr is None:
            if scope.language.is_group:
                scope.lines.append("#ifdef HAL_ONE_LANE")
                self._plain("0", self.rows, "0", self.columns)
                scope.lines.append("#else")
                self._lanes()
                scope.lines.append("#endif")
            else:
                self._plain("0", self.rows, "0", self.columns)
            return
        m, n, _ = self.instr.shape
        whole_rows = scope.extent(f"{self.rows} / {m} * {m}", 1 << 20)
        whole_columns = scope.extent(f"{self.columns} / {n} * {n}", 1 << 20)
        self._panels(whole_rows, whole_columns)
        self._plain("0", whole_rows, whole_columns, self.columns)
        self._plain(whole_rows, self.rows, "0", self.columns)

    def _panels(self, rows: str, columns: str) -> None:
        """The template over its whole steps, on parts of a and b that are copied side by side."""
        scope = self.scope
        assert self.instr is not None
        m, n, _ = self.instr.shape
        a, b, d = self.pointers
        wide_a, wide_b, wide_d = self.widths
        kinds = [scope.language.stored(dtype) for dtype in self.types]
        block, panel = scope.fresh("block"), scope.fresh("panel")
        high = _BLOCK_STEPS * m
        scope.add(f"{kinds[0]} {block}[{high * _TERMS}];", f"{kinds[1]} {panel}[{_TERMS * n}];")
        with scope.block(f"for (i64 k = 0; k == 0 || k < {self.inner}; k += {_TERMS})"):
            scope.add(_part("part", f"{self.inner} - k", _TERMS))
            with scope.block(f"for (i64 top = 0; top < {rows}; top += {high})"):
                scope.add(_part("height", f"{rows} - top", high))
                source = f"{a}[(top + i) * {wide_a} + k + p]"
                self._copy("i", "height", "p", "part", f"{block}[i * {_TERMS} + p]", source)
                with scope.block(f"for (i64 j = 0; j < {columns}; j += {n})"):
                    source = f"{b}[(k + p) * {wide_b} + j + l]"
                    self._copy("p", "part", "l", str(n), f"{panel}[p * {n} + l]", source)
                    with scope.block(f"for (i64 i = 0; i < height; i += {m})"):
                        text = self.instr.fill(
                            a=f"({block} + i * {_TERMS})",
                            b=panel,
                            acc=f"({d} + (top + i) * {wide_d} + j)",
                            lda=_TERMS,
                            ldb=n,
                            ldacc=wide_d,
                            k="part",
                            init="k == 0" if self.init else "0",
                        )
                        scope.add(*text.strip().splitlines())

    def _copy(self, i: str, rows: str, j: str, columns: str, target: str, source: str) -> None:
        """A copy of a part of a tile."""
        with self.scope.block(f"for (i64 {i} = 0; {i} < {rows}; ++{i})"):
            if self.scope.language.independent:
                self.scope.lines.append(self.scope.language.independent)
            head = f"for (i64 {j} = 0; {j} < {columns}; ++{j})"
            self.scope.add(f"{head} {target} = {source};")

    def _sum(self, left: str, right: str, total: str) -> str:
        """`total` plus a product of two widened elements."""
        target = self.types[2]
        if target.is_float:
            if "fma" in self.scope.language.math:
                return self.scope.language.call("fma", left, right, total)
            return f"{total} + {left} * {right}"
        kind = "u64" if target.bytes == 8 else "u32"
        signed = "i64" if target.bytes == 8 else "i32"
        text = f"({kind}){total} + ({kind})({signed}){left} * ({kind})({signed}){right}"
        return f"({target.name})({text})"

    def _element(self, side: int, text: str) -> str:
        """An element of a (0) or b (1), widened."""
        dtype = self.types[side]
        return text if dtype.is_int else widen(text, dtype)

    def _plain(self, top: str, bottom: str, first: str, last: str) -> None:
        """Rows [top, bottom) × columns [first, last): a row of `b` at a time."""
        scope = self.scope
        a, b, d = self.pointers
        wide_a, wide_b, wide_d = self.widths
        kind = self.types[0].name if self.types[0].is_int else self.types[2].name
        with scope.block(f"for (i64 i = {top}; i < {bottom}; ++i)"):
            if self.init:
                zero = constant(0, self.types[2])
                scope.add(f"for (i64 j = {first}; j < {last}; ++j) {d}[i * {wide_d} + j] = {zero};")
            with scope.block(f"for (i64 k = 0; k < {self.inner}; ++k)"):
                x = self._element(0, f"{a}[i * {wide_a} + k]")
                scope.add(f"const {kind} x = {x};")
                if scope.language.independent:
                    scope.lines.append(scope.language.independent)
                total = f"{d}[i * {wide_d} + j]"
                value = self._sum("x", self._element(1, f"{b}[k * {wide_b} + j]"), total)
                scope.add(f"for (i64 j = {first}; j < {last}; ++j) {total} = {value};")

    def _lanes(self) -> None:
        """One result element a turn."""
        scope = self.scope
        a, b, d = self.pointers
        wide_a, wide_b, wide_d = self.widths
        target = self.types[2]
        with _spread(scope, f"{self.rows} * {self.columns}", "w"):
            start = constant(0, target) if self.init else f"{d}[i * {wide_d} + j]"
            scope.add(f"const i64 i = w / {self.columns}, j = w % {self.columns};")
            scope.add(f"{target.name} total = {start};")
            x = self._element(0, f"{a}[i * {wide_a} + k]")
            y = self._element(1, f"{b}[k * {wide_b} + j]")
            value = self._sum(x, y, "total")
            scope.add(f"for (i64 k = 0; k < {self.inner}; ++k) total = {value};")
            scope.add(f"{d}[i * {wide_d} + j] = total;")
