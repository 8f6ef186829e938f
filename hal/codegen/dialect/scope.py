"""Text under construction, and what is known of registers and valid regions at each place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from hal.codegen.dialect.elements import integer
from hal.codegen.dialect.language import Dialect
from hal.vil.expressions import Binary, Const, Expr, Symbol
from hal.vil.model import Program, SReg, TileRef, Value

__all__ = ["Scope"]

_OPERATORS = {"+": "+", "-": "-", "*": "*"}
_FUNCTIONS = {
    "/": "hal_idiv",
    "%": "hal_imod",
    "ceildiv": "hal_ceildiv",
    "min": "hal_least",
    "max": "hal_most",
}


class Scope:
    """Writes the body of one program.

    Valid regions are pairs of names: an integer literal, or a constant of the source. Two regions
    with the same names are the same; that is what decides which operations share a loop.

    Attributes:
        held: Tiles that are in memory at some time.
        streams: Some STORE goes past the caches.
    """

    def __init__(self, language: Dialect, program: Program) -> None:
        self.language = language
        self.program = program
        self.lines: list[str] = []
        self.level = 1
        self.expressions: dict[Expr, str] = {}
        self.held: set[int] = set()
        self.streams = False
        self._count = 0
        self._known: list[dict[str, str]] = [{}]
        self._bounds: dict[str, int] = {}
        self._versions: dict[int, int] = {}
        self._regions: dict[int, tuple[str, str]] = {}

    # --- text --------------------------------------------------------------------------------

    def add(self, *lines: str) -> None:
        """Adds statements at the current indent."""
        self.lines += ["  " * self.level + line for line in lines]

    @contextmanager
    def block(self, head: str, tail: str = "}") -> Iterator[None]:
        """`head {` … `}` one level deeper."""
        self.add(head + " {")
        self.level += 1
        yield
        self.level -= 1
        self.add(tail)

    def fresh(self, stem: str) -> str:
        """A name that nothing has yet."""
        self._count += 1
        return f"{stem}{self._count}"

    # --- values ------------------------------------------------------------------------------

    def expression(self, expr: Expr) -> str:
        """An expression over the symbols: a literal or a constant made at the start."""
        if isinstance(expr, Const):
            return integer(expr.value)
        if isinstance(expr, Symbol):
            return f"k_{expr.name}"
        if expr not in self.expressions:
            self.expressions[expr] = f"v{len(self.expressions)}"
        return self.expressions[expr]

    @staticmethod
    def written(expr: Expr) -> str:
        """The arithmetic of an expression."""
        if isinstance(expr, Const):
            return integer(expr.value)
        if isinstance(expr, Symbol):
            return f"k_{expr.name}"
        assert isinstance(expr, Binary)
        left, right = Scope.written(expr.left), Scope.written(expr.right)
        if expr.operation in _OPERATORS:
            return f"({left} {_OPERATORS[expr.operation]} {right})"
        return f"{_FUNCTIONS[expr.operation]}({left}, {right})"

    def now(self, value: Value | None, absent: int = 0) -> str:
        """A value at this place of the program, in a name that stays right further on."""
        if value is None:
            return integer(absent)
        if isinstance(value, Expr):
            return self.expression(value)
        version = self._versions.get(value.index, 0)
        return self.keep("i64", f"s{value.index}", f"s{value.index}@{version}")

    def keep(self, kind: str, text: str, key: str | None = None) -> str:
        """A constant with this value; equal keys give one name."""
        key = key or f"{kind} {text}"
        for known in self._known:
            if key in known:
                return known[key]
        name = self.fresh("e")
        self.add(f"const {kind} {name} = {text};")
        self._known[-1][key] = name
        return name

    def set_register(self, register: SReg | int) -> None:
        """A register gets a new value."""
        index = register.index if isinstance(register, SReg) else register
        self._count += 1
        self._versions[index] = self._count

    @staticmethod
    def number(name: str) -> int | None:
        """The integer of a literal."""
        text = name.strip("()")
        return int(text) if text.lstrip("-").isdigit() else None

    # --- valid regions -----------------------------------------------------------------------

    def extent(self, text: str, bound: int, key: str | None = None) -> str:
        """A length in [0, bound] as a name."""
        name = self.keep("i64", text, key)
        self._bounds.setdefault(name, bound)
        return name

    def bound(self, name: str) -> int:
        """The most that an extent can be."""
        number = self.number(name)
        return self._bounds[name] if number is None else number

    def count(self, limit: Value | None, origin: str, length: int) -> str:
        """Positions of a descriptor's axis that take part."""
        if limit is None:
            return str(length)
        return self.extent(f"hal_count({self.now(limit)}, {origin}, {length})", length)

    def least(self, *extents: str) -> str:
        """The smallest of some extents."""
        unique = list(dict.fromkeys(extents))
        found = [name for name in unique if self.number(name) is None]
        numbers = [n for n in map(self.number, unique) if n is not None]
        if numbers and all(self.bound(name) > min(numbers) for name in found):
            found.append(str(min(numbers)))
        result = found[0]
        for name in found[1:]:
            first, second = sorted((result, name))
            bound = min(self.bound(result), self.bound(name))
            result = self.extent(f"hal_least({first}, {second})", bound)
        return result

    def region(self, reference: TileRef) -> tuple[str, str]:
        """Valid rows and columns of a tile's stage now."""
        tile = self.program.tiles[reference.tile]
        if tile.stages > 1:
            at = self.stage(reference)
            names = (f"r{reference.tile}[{at}]", f"c{reference.tile}[{at}]")
            version = self._versions.get(-1 - reference.tile, 0)
            keys = [f"{name}@{version}" for name in names]
            rows = self.extent(names[0], tile.rows, keys[0])
            return rows, self.extent(names[1], tile.columns, keys[1])
        found = self._regions.get(reference.tile)
        if found is None:
            version = self._versions.get(-1 - reference.tile, 0)
            keys = [f"{axis}{reference.tile}@{version}" for axis in "rc"]
            rows = self.extent(f"r{reference.tile}", tile.rows, keys[0])
            found = rows, self.extent(f"c{reference.tile}", tile.columns, keys[1])
        return found

    def set_region(self, reference: TileRef, rows: str, columns: str) -> None:
        """A tile gets a new valid region."""
        index = reference.tile
        at = ""
        if self.program.tiles[index].stages > 1:
            at = f"[{self.stage(reference)}]"
        self.set_register(-1 - index)
        self.add(f"r{index}{at} = (i32){rows}; c{index}{at} = (i32){columns};")
        if not at:
            self._regions[index] = rows, columns

    def elementwise(self, result: TileRef, operands: Iterable[TileRef]) -> tuple[str, str]:
        """Valid region of an elementwise result (docs/vil.md, section 1.5)."""
        target = self.program.tiles[result.tile]
        rows, columns = [str(target.rows)], [str(target.columns)]
        for operand in operands:
            tile = self.program.tiles[operand.tile]
            valid = self.region(operand)
            pairs = ((rows, valid[0], tile.rows, target.rows),)
            for extents, name, length, whole in (
                *pairs,
                (columns, valid[1], tile.columns, target.columns),
            ):
                if length == whole:
                    extents.append(name)
                elif name != "1":
                    extents.append(self.extent(f"({name} ? {whole} : 0)", whole))
        return self.least(*rows), self.least(*columns)

    def stage(self, reference: TileRef) -> str:
        """The stage that a reference selects."""
        stages = self.program.tiles[reference.tile].stages
        if reference.stage is None:
            return "0"
        value = self.now(reference.stage)
        number = self.number(value)
        if number is not None:
            return str(number % stages)
        return self.keep("i64", f"hal_imod({value}, {stages})")

    # --- blocks of the program -----------------------------------------------------------------

    @contextmanager
    def body(self, head: str, tiles: set[int], registers: set[int]) -> Iterator[None]:
        """The body of a LOOP or IF: what it writes is unknown at its start and behind it."""
        self._forget(tiles, registers)
        with self.block(head):
            self._known.append({})
            yield
            self._known.pop()
        self._forget(tiles, registers)

    def _forget(self, tiles: set[int], registers: set[int]) -> None:
        for tile in tiles:
            self._regions.pop(tile, None)
            self.set_register(-1 - tile)
        for register in registers:
            self.set_register(register)

    # --- tiles -------------------------------------------------------------------------------

    def pointer(self, reference: TileRef) -> str:
        """The first element of a tile's stage; the tile gets memory (hal.codegen.dialect.arena)."""
        index = reference.tile
        tile = self.program.tiles[index]
        self.held.add(index)
        if tile.stages == 1:
            return f"t{index}"
        at = self.stage(reference)
        return f"(t{index} + {at} * {tile.rows * tile.columns})"
