"""A descriptor as code: where the elements of a tile lie (docs/vil.md, section 1.4).

Along a row of the tile the place of the elements is walked in *segments*: as many columns as keep
every digit on a straight line and every coordinate on one side of its extents. In a segment the
offset is `o + n · step`, and one flag says whether all of it is inside. The parts that no register
changes are computed where the instruction stands, those of the row once a row.

Where a product could leave 58 bits (`big`), segments are single elements whose places
`hal_locate` computes step by step with the checks of the specification.
"""

from __future__ import annotations

from hal.codegen.dialect.scope import Scope
from hal.vil.model import Descriptor, Digit, Dimension, SReg

__all__ = ["Access"]

_MOST_TERMS = 8
_SMALL = 2**28


class Access:
    """The places of one LOAD, STORE, GATHER or SCATTER.

    Attributes:
        rows, columns: Names of the axis counts.
        step: Text of the column step; "1" where that is certain.
        place: Equal for two accesses that have the same elements at the same tile positions.
        is_dense: Certain that no two tile elements have one place.
    """

    def __init__(
        self,
        scope: Scope,
        descriptor: Descriptor,
        shape: tuple[int, int],
        elements: str,
        *,
        faults: bool,
        dimension: int = -1,
    ) -> None:
        self.scope = scope
        self.descriptor = descriptor
        self.elements = elements
        self.faults = faults
        self.dimension = dimension
        self.name = scope.fresh("a")
        self.origins = (
            scope.now(descriptor.row.origin),
            scope.now(descriptor.column.origin),
        )
        self.rows = scope.count(descriptor.row.limit, self.origins[0], shape[0])
        self.columns = scope.count(descriptor.column.limit, self.origins[1], shape[1])
        self._digits = {
            "row": [self._digit(digit) for digit in descriptor.row.digits],
            "column": [self._digit(digit) for digit in descriptor.column.digits],
        }
        self._dims = [self._dimension(item) for item in descriptor.dimensions]
        self.step = self._static_step()
        self.place = (*self.origins, str(self._digits), str(self._dims), dimension)
        self.is_dense = self._dense()
        self.big = self._guard(shape)
        self.is_shared = False

    def share(self, first: Access) -> None:
        """Uses the places of an access in the same loop that has the same."""
        if first is self or self.dimension >= 0 or first.faults != self.faults:
            return
        self.is_shared = True
        self.name = first.name
        self.step = first.step

    def _digit(self, digit: Digit) -> tuple[str | None, str]:
        size = None if digit.size is None else self.scope.now(digit.size)
        return size, self.scope.now(digit.divisor)

    def _dimension(self, item: Dimension) -> tuple[str, str, str, tuple[tuple[str, str, str], ...]]:
        now = self.scope.now
        terms = tuple(
            (
                term.source,
                now(SReg(term.index)) if term.source == "sreg" else str(term.index),
                now(term.coefficient),
            )
            for term in item.terms
        )
        return now(item.extent), now(item.stride), now(item.base), terms

    # --- what is known beforehand --------------------------------------------------------------

    def _static_step(self) -> str:
        found = []
        for _, stride, _, terms in self._dims:
            found += [
                (self._digits["column"][int(source)], factor, stride)
                for kind, source, factor in terms
                if kind == "column"
            ]
        if not found:
            return "0"
        if found == [((None, "1"), "1", "1")]:
            return "1"
        return f"{self.name}_step"

    def _dense(self) -> bool:
        """One linear row digit and one linear column digit in a row-major pair of dimensions."""
        lines = {"row": [], "column": []}  # type: dict[str, list[int]]
        for number, (_, _, _, terms) in enumerate(self._dims):
            for kind, source, factor in terms:
                if kind != "sreg":
                    if self._digits[kind][int(source)] != (None, "1") or factor != "1":
                        return False
                    lines[kind].append(number)
        if len(lines["row"]) > 1 or len(lines["column"]) != 1 or self.dimension >= 0:
            return False
        extent, stride, _, _ = self._dims[lines["column"][0]]
        if stride != "1":
            return False
        if not lines["row"]:
            return True
        row = lines["row"][0]
        return row != lines["column"][0] and self._dims[row][1] == extent

    def _guard(self, shape: tuple[int, int]) -> str:
        """An expression that is not 0 where some step of the arithmetic could overflow."""
        scope = self.scope
        tests: list[str] = []

        def far(name: str) -> None:
            number = scope.number(name)
            if number is None:
                tests.append(f"hal_far({name})")
            elif abs(number) > _SMALL:
                tests.append("1")

        def wide(left: str, right: str) -> None:
            numbers = [scope.number(left), scope.number(right)]
            if 0 in numbers:
                return
            if 1 in numbers and None in numbers:
                far(left if numbers[0] is None else right)
            elif None in numbers or any(abs(n or 0) > _SMALL for n in numbers):
                tests.append(f"hal_wide({left}, {right})")

        for origin in self.origins:
            far(origin)
        reach = {"row": self._reach(0, shape[0]), "column": self._reach(1, shape[1])}
        for extent, stride, base, terms in self._dims:
            far(base)
            far(extent)
            wide(extent, stride)
            if len(terms) > _MOST_TERMS:
                tests.append("1")
            for kind, source, factor in terms:
                wide(factor, source if kind == "sreg" else reach[kind])
        text = " | ".join(dict.fromkeys(tests))
        return scope.keep("i64", text) if text else ""

    def _reach(self, axis: int, length: int) -> str:
        """A bound of the magnitude of the axis's positions and digits."""
        kind = ("row", "column")[axis]
        number = self.scope.number(self.origins[axis])
        text = str(abs(number) + length) if number is not None else ""
        if not text:
            text = f"(hal_size({self.origins[axis]}) + {length})"
        for size, _ in self._digits[kind]:
            if size is not None:
                text = f"hal_most({text}, hal_size({size}))"
        if self.scope.number(text) is None:
            return self.scope.keep("i64", text)
        return text

    # --- code ----------------------------------------------------------------------------------

    def at_row(self, row: str, index: str = "0") -> list[str]:
        """Statements at the start of tile row `row`; `index` is GATHER's and SCATTER's."""
        name = self.name
        lines = [f"const i64 {name}_p = {self._plus(self.origins[0], row)};"]
        if self.dimension >= 0:
            lines.append(f"const i64 {name}_i = {index};")
        for number, digit in enumerate(self._digits["row"]):
            lines.append(f"const i64 {name}_r{number} = {self._digit_text(digit, f'{name}_p')};")
        inside: list[str] = []
        offset: list[str] = []
        for number, (extent, stride, base, terms) in enumerate(self._dims):
            parts = [base] if base != "0" else []
            moves = False
            for kind, source, factor in terms:
                moves = moves or kind == "column"
                if kind != "column":
                    left = source if kind == "sreg" else f"{name}_r{source}"
                    parts.append(self._times(left, factor))
            if number == self.dimension:
                parts.append(f"{name}_i")
            text = " + ".join(parts) or "0"
            lines.append(f"const i64 {name}_x{number} = {text};")
            if not moves:
                inside.append(f"({name}_x{number} >= 0) & ({name}_x{number} < {extent})")
                offset.append(self._times(f"{name}_x{number}", stride))
        if self.dimension >= 0:
            inside.append(f"({name}_i < 0x4000000000000000) & ({name}_i > -0x4000000000000000)")
        lines.append(f"const i32 {name}_in = {' & '.join(inside) or '1'};")
        lines.append(f"const i64 {name}_at = {' + '.join(offset) or '0'};")
        return lines

    def at_segment(self, column: str, row: str) -> list[str]:
        """Statements that set `NAME_on`, `NAME_o` and the step, and shorten `run`."""
        name = self.name
        lines = [f"i32 {name}_on = {name}_in;", f"i64 {name}_o = {name}_at;"]
        if self.step.startswith("a"):
            lines.append(f"i64 {self.step} = 0;")
        usual = self._segment(column)
        if not self.big:
            return lines + usual
        if self.big == "1":
            return lines + self._careful(column, row)
        packed = self._careful(column, row)
        careful = [f"if ({self.big}) {{", *(f"  {line}" for line in packed), "} else {"]
        return lines + careful + [f"  {line}" for line in usual] + ["}"]

    def _segment(self, column: str) -> list[str]:
        name = self.name
        lines: list[str] = []
        used = {
            int(source)
            for _, _, _, terms in self._dims
            for kind, source, _ in terms
            if kind == "column"
        }
        if used:
            lines.append(f"const i64 {name}_q = {self._plus(self.origins[1], column)};")
        for number in sorted(used):
            size, divisor = self._digits["column"][number]
            text = self._digit_text((size, divisor), f"{name}_q")
            lines.append(f"const i64 {name}_c{number} = {text};")
            if (size, divisor) != (None, "1"):
                bound = "0" if size is None else size
                if size is not None:  # A size of 0 gives the digit 0, one of none no modulus.
                    lines.append(f"run = {size} ? run : 1;")
                lines.append(f"run = hal_run({name}_q, {bound}, {divisor}, run);")
        for number, (extent, stride, _, terms) in enumerate(self._dims):
            moving = [(int(s), factor) for kind, s, factor in terms if kind == "column"]
            if not moving:
                continue
            values = [self._times(f"{name}_c{digit}", factor) for digit, factor in moving]
            slopes = [self._times(self._slope(digit), factor) for digit, factor in moving]
            at, slope = f"{name}_y{number}", " + ".join(slopes)
            lines.append(f"const i64 {at} = {name}_x{number} + {' + '.join(values)};")
            lines.append(f"run = hal_span({at}, {slope}, {extent}, run);")
            lines.append(f"{name}_on &= ({at} >= 0) & ({at} < {extent});")
            lines.append(f"{name}_o += {self._times(at, stride)};")
            if self.step.startswith("a"):
                lines.append(f"{self.step} += {self._times(f'({slope})', stride)};")
        return lines

    def _slope(self, digit: int) -> str:
        size, divisor = self._digits["column"][digit]
        number = self.scope.number(divisor)
        if number is not None:
            straight = number == 1
            if not straight:
                return "0"
            return "1" if size is None else f"(i64)({size} > 0)"
        return f"(i64)({divisor} == 1{'' if size is None else f' && {size} > 0'})"

    def check(self) -> str:
        """The condition, behind all segments' statements, of a fault."""
        name = self.name
        last = f"{name}_o"
        if self.step != "0":
            last = f"({name}_o + {self._times(self.step, '(run - 1)')})"
        low = f"((u64){name}_o >= (u64){self.elements})"
        if last == f"{name}_o":
            return f"{name}_on & {low}"
        return f"{name}_on & ({low} | ((u64){last} >= (u64){self.elements}))"

    def element(self, number: str) -> str:
        """Offset of element `number` of a segment."""
        if self.step == "0":
            return f"{self.name}_o"
        return f"{self.name}_o + {self._times(number, self.step)}"

    def _careful(self, column: str, row: str) -> list[str]:
        name = self.name
        values: list[str] = []
        for axis, kind in ((0, "row"), (1, "column")):
            digits = self._digits[kind]
            values += [self.origins[axis], str(len(digits))]
            for size, divisor in digits:
                values += [size or "0", divisor, str(int(size is not None))]
        values.append(str(len(self._dims)))
        for extent, stride, base, terms in self._dims:
            values += [extent, stride, base, str(len(terms))]
            for kind, source, factor in terms:
                values += [{"sreg": "0", "row": "1", "column": "2"}[kind], source, factor]
        index = f"{name}_i" if self.dimension >= 0 else "0"
        lines = [
            f"const i64 {name}_d[] = {{{', '.join(values)}}};",
            f"{name}_o = hal_locate({name}_d, {row}, {column}, {self.dimension}, {index});",
            f"{name}_on = {name}_o >= 0;",
            "run = 1;",
        ]
        if self.faults:
            lines.append(f"bad |= {name}_o == -2;")
        return lines

    @staticmethod
    def _digit_text(digit: tuple[str | None, str], position: str) -> str:
        size, divisor = digit
        if divisor == "1":
            return position if size is None else f"hal_imod({position}, {size})"
        if size is None:
            return f"hal_idiv({position}, {divisor})"
        return f"hal_digit({position}, {size}, {divisor})"

    @staticmethod
    def _plus(left: str, right: str) -> str:
        return right if left == "0" else f"{left} + {right}"

    @staticmethod
    def _times(left: str, right: str) -> str:
        if "1" in (left, right):
            return right if left == "1" else left
        if "0" in (left, right):
            return "0"
        return f"{left} * {right}"
