"""A program of VIL that is written anew: what the rows of the lowering table work with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from hal import dtypes
from hal.dtypes import DType
from hal.vil.builder import DescriptorHandle, ProgramBuilder, TileHandle, ValueLike
from hal.vil.expressions import Const
from hal.vil.model import Axis, Descriptor, Instruction, Program, SReg, TileRef

__all__ = ["MAX_LOOPS", "Chip", "Rewriter", "limits_of"]

MAX_LOOPS = 4
"""LOOPs nest so deep (docs/vil.md, section 5.1); a deeper one is written out."""
_FOLDED: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "min": min,
    "max": max,
}


class Chip(Protocol):
    """What the table asks of a chip; `hal.codegen.target.Target` is one."""

    @property
    def features(self) -> frozenset[str]: ...

    def supports(self, op: str, function: str = "", *types: DType) -> bool: ...


def limits_of(dtype: DType) -> tuple[float | int, float | int]:
    """Identity of max and of min: −inf and inf, or the ends of an integer type."""
    if dtype.kind == "float":
        return float("-inf"), float("inf")
    return int(dtype.minimum), int(dtype.maximum)


class Rewriter(ProgramBuilder):
    """A program under construction that starts with the declarations of another.

    Masks are bool tiles that only AND, OR, XOR, NOT and SEL touch; they are reduced as i32, so that
    a chip needs no more than vil-core for them. Constants and positions are filled once, in front
    of everything.

    Attributes:
        chip: What may be used.
        depth: LOOPs around the place where the next instruction goes.
    """

    def __init__(self, program: Program, chip: Chip) -> None:
        super().__init__(program.name, program.profile, program.contract, program.deterministic)
        self.chip = chip
        self.depth = 0
        self.params = list(program.params)
        self._descriptors = list(program.descriptors)
        self._tokens = list(program.tokens)
        for tile in program.tiles:
            self.tile(
                tile.name,
                tile.dtype,
                tile.rows,
                tile.columns,
                space=tile.space,
                stages=tile.stages,
                layout=tile.layout,
                panel=tile.panel,
                offset=tile.offset,
            )
        self._sregs = program.sreg_count
        self._first: list[Instruction] = []
        self._made: dict[tuple[object, ...], TileHandle] = {}
        self._spare: list[SReg] = []
        self._taken: list[SReg] = []

    # --- parts of the program ------------------------------------------------------------------

    def handle(self, reference: TileRef | None) -> TileHandle:
        """The tile of an operand."""
        assert reference is not None
        return TileHandle(reference.tile, self._tiles[reference.tile], reference.stage)

    def described(self, item: Instruction) -> Descriptor:
        """The descriptor of an instruction."""
        assert item.x is not None
        return self._descriptors[item.x]

    def describe(self, descriptor: Descriptor) -> DescriptorHandle:
        """Adds a descriptor, or finds an equal one; its name becomes a free one."""
        for index, known in enumerate(self._descriptors):
            same = (known.param, known.dtype, known.dimensions, known.row, known.column)
            if same == (
                descriptor.param,
                descriptor.dtype,
                descriptor.dimensions,
                descriptor.row,
                descriptor.column,
            ) and repr(known.fill) == repr(descriptor.fill):
                return DescriptorHandle(index)
        stem = descriptor.param or "near"
        name = f"{stem[:48]}_{len(self._descriptors)}_part"
        self._descriptors.append(
            Descriptor(
                name,
                descriptor.param,
                descriptor.dtype,
                descriptor.dimensions,
                descriptor.row,
                descriptor.column,
                descriptor.fill,
            )
        )
        return DescriptorHandle(len(self._descriptors) - 1)

    def keep(self, item: Instruction) -> None:
        """Adds an instruction as it is."""
        self._instructions.append(item)

    def scratch(self, role: str, dtype: DType, rows: int, columns: int) -> TileHandle:
        """A tile of the table's own; the same role, type and shape share one."""
        key = (role, dtype, rows, columns)
        if key not in self._made:
            self._made[key] = self.tile(f"low_{len(self._tiles)}", dtype, rows, columns)
        return self._made[key]

    def like(self, role: str, a: TileHandle, dtype: DType | None = None) -> TileHandle:
        """A scratch tile of the shape of another."""
        return self.scratch(role, dtype or a.tile.dtype, a.tile.rows, a.tile.columns)

    def _in_front(
        self, key: tuple[object, ...], tile: TileHandle, write: Callable[[], None]
    ) -> None:
        if key in self._made:
            return
        self._made[key] = tile
        body, self._instructions = self._instructions, self._first
        write()
        self._first, self._instructions = self._instructions, body

    def constant(self, dtype: DType, value: float | int) -> TileHandle:
        """A 1 × 1 tile that holds a constant for the whole program."""
        role = f"constant {value!r}"
        tile = self.scratch(role, dtype, 1, 1)
        self._in_front(("filled", role, dtype), tile, lambda: self.fill(tile, value))
        return tile

    def positions(self, axis: int, dtype: DType, length: int) -> TileHandle:
        """0, 1, 2 … down the rows (axis 0) or along the columns (axis 1), for the whole program."""
        rows, columns = (length, 1) if axis == 0 else (1, length)
        role = f"positions {axis}"
        tile = self.scratch(role, dtype, rows, columns)
        step = {"row": 1} if axis == 0 else {"column": 1}
        self._in_front((role, dtype, length), tile, lambda: self.iota(tile, **step))
        return tile

    # --- registers -----------------------------------------------------------------------------

    def new_sreg(self) -> SReg:
        """A register for the instruction that is being lowered; later ones use it again."""
        register = self._spare.pop() if self._spare else super().new_sreg()
        self._taken.append(register)
        return register

    def own_sreg(self) -> SReg:
        """A register that nothing else uses."""
        return super().new_sreg()

    def release(self) -> None:
        """Ends an instruction: its registers are free again."""
        self._spare += reversed(self._taken)
        self._taken = []

    def count(self, function: str, a: ValueLike, b: ValueLike) -> ValueLike:
        """add, sub, mul, min or max of two values; constants are computed here."""
        left, right = (item.value if isinstance(item, Const) else item for item in (a, b))
        if isinstance(left, int) and isinstance(right, int):
            return _FOLDED[function](left, right)
        if function == "add" and (left == 0 or right == 0):
            return right if left == 0 else left
        if function == "mul" and 1 in (left, right):
            return right if left == 1 else left
        if function == "sub" and right == 0:
            return left
        return self.compute(function, left, right)

    def axis_count(self, axis: Axis, length: int) -> ValueLike:
        """Valid positions of a tile axis: clamp(limit − origin, 0, length)."""
        if axis.limit is None:
            return length
        left = self.count("sub", axis.limit, 0 if axis.origin is None else axis.origin)
        return self.count("max", self.count("min", left, length), 0)

    # --- idioms --------------------------------------------------------------------------------

    def repeat(self, count: int, body: Callable[[ValueLike], None]) -> None:
        """Runs `body` for 0 … count − 1: a LOOP, or written out where LOOPs nest no deeper."""
        if count == 1 or self.depth == MAX_LOOPS:
            for turn in range(count):
                body(turn)
            return
        self.depth += 1
        with self.loop(count) as counter:
            body(counter)
        self.depth -= 1

    def repeat_while(self, count: ValueLike, body: Callable[[ValueLike], None]) -> None:
        """As `repeat` for a count that is known at run time only."""
        self.depth += 1
        with self.loop(count) as turn:
            body(turn)
        self.depth -= 1

    def constant_mask(self) -> TileHandle:
        """Mask, 1 × 1: true."""
        return self.constant(dtypes.bool_, 1)

    def equal_to(self, position: TileHandle, value: ValueLike, role: str = "is") -> TileHandle:
        """Mask: a tile of positions equals a value (of the positions' type, or outside of it)."""
        wanted = self.scratch(f"{role} value", position.tile.dtype, 1, 1)
        mask = self.like(role, position, dtypes.bool_)
        self.iota(wanted, base=value)
        self.bin("eq", mask, position, wanted)
        return mask

    def always(self, role: str, a: TileHandle) -> TileHandle:
        """Mask: true wherever `a` is valid, and valid there."""
        mask, other = self.like(role, a, dtypes.bool_), self.like("not itself", a, dtypes.bool_)
        self.bin("eq", mask, a, a)
        if a.tile.dtype == dtypes.bool_ or not a.tile.dtype.is_float:
            return mask
        self.bin("ne", other, a, a)
        self.bin("or", mask, mask, other)
        return mask

    def any_of(self, role: str, mask: TileHandle) -> TileHandle:
        """Mask, one column: some valid element of the row is true."""
        rows = mask.tile.rows
        number = self.like("as number", mask, dtypes.i32)
        most = self.scratch("most", dtypes.i32, rows, 1)
        found = self.scratch(role, dtypes.bool_, rows, 1)
        self.sel(number, mask, self.constant(dtypes.i32, 1), self.constant(dtypes.i32, 0))
        self.red("or", most, number, axis=1)
        self.bin("ne", found, most, self.constant(dtypes.i32, 0))
        return found

    def pick(self, role: str, mask: TileHandle, a: TileHandle, *, axis: int) -> TileHandle:
        """The element of `a` along an axis where the mask is true: its bits, NaN and −0 too.

        Where the mask is never true: the least value of the type; bool: false.
        """
        shape = (1, a.tile.columns) if axis == 0 else (a.tile.rows, 1)
        if a.tile.dtype == dtypes.bool_:
            number = self.like("bool as number", a, dtypes.i32)
            self.sel(number, a, self.constant(dtypes.i32, 1), self.constant(dtypes.i32, 0))
            least = self.pick(f"{role} number", mask, number, axis=axis)
            found = self.scratch(role, dtypes.bool_, *shape)
            self.bin("lt", found, self.constant(dtypes.i32, 0), least)
            return found
        kept = self.like("picked", a)
        found = self.scratch(role, a.tile.dtype, *shape)
        self.sel(kept, mask, a, self.constant(a.tile.dtype, limits_of(a.tile.dtype)[0]))
        self.red("max", found, kept, axis=axis)
        return found

    def finished(self) -> Program:
        """The program, its constants in front."""
        self._instructions = self._first + self._instructions
        return self.build()
