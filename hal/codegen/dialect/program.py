"""One program as a function of a dialect: its instructions in order, in as few loops as can be."""

from __future__ import annotations

from contextlib import ExitStack

from hal.codegen.dialect import whole
from hal.codegen.dialect.access import Access
from hal.codegen.dialect.arena import Arena, arrange
from hal.codegen.dialect.elements import cast, constant
from hal.codegen.dialect.flow import Flow
from hal.codegen.dialect.folds import Fold
from hal.codegen.dialect.group import Group, Member
from hal.codegen.dialect.language import Dialect
from hal.codegen.dialect.loop import Loop
from hal.codegen.dialect.scope import Scope
from hal.vil.model import Instruction, Program, TileRef
from hal.vil.text_writer import show_instruction

__all__ = ["Body", "write_body"]

NOTHING = 2  # Fault: argmax over no element.
_POINTWISE = (
    *("load", "store", "fill", "iota", "un", "bin", "sel", "cast", "copy", "rng", "gather"),
    "scatter",
)
_SREG = {
    "add": "hal_add",
    "sub": "hal_sub",
    "mul": "hal_mul",
    "max": "hal_most",
    "min": "hal_least",
    "idiv": "hal_idiv",
    "imod": "hal_imod",
    "shl": "hal_shl",
    "shr": "hal_shr",
    "shru": "hal_shru",
}
_SREG_SIGNS = {"and": "&", "or": "|", "xor": "^", "lt": "<", "le": "<=", "eq": "==", "ne": "!="}


class Body:
    """The statements of a program and what they need.

    Attributes:
        scope: Text, expressions, the tiles that need memory.
        arena: Where those tiles lie.
    """

    arena: Arena

    def __init__(self, language: Dialect, program: Program, classes: dict[str, str]) -> None:
        self.language = language
        self.program = program
        self.classes = classes
        self.flow = Flow(program)
        self.scope = Scope(language, program)
        self.group: Group | None = None
        self.first = self.last = 0
        self.sections: list[tuple[int, int]] = []

    def write(self) -> None:
        """Writes every instruction."""
        with ExitStack() as blocks:
            stack = [blocks]
            for position, item in enumerate(self.program.instructions):
                self._instruction(position, item, stack)
        self._flush()
        self.arena = arrange(self.language, self.program, self.flow, self.sections, self.scope.held)

    def _instruction(self, position: int, item: Instruction, stack: list[ExitStack]) -> None:
        if item.op in ("loop", "if"):
            self._flush()
            self._comment(item)
            block = ExitStack()
            tiles, registers = self.flow.written_in(position)
            block.enter_context(self.scope.body(self._head(item), tiles, registers))
            stack.append(block)
        elif item.op == "end":
            self._flush()
            stack.pop().close()
        elif item.op == "sreg":
            self._register(item)
            self.sections.append((position, position))
        elif item.op in _POINTWISE or (item.op == "red" and item.axis == 1 and _is_fold(item)):
            self._pointwise(position, item)
        else:
            self._flush()
            self._comment(item)
            self._whole(position, item)
            self.sections.append((position, position))

    def _comment(self, item: Instruction) -> None:
        line = f" (line {item.line})" if item.line else ""
        self.scope.add(f"// {show_instruction(self.program, item)}{line}")

    # --- control and registers ------------------------------------------------------------------

    def _head(self, item: Instruction) -> str:
        value = self.scope.now(item.values[0])
        if item.op == "if":
            return f"if ({value})"
        return f"for (s{item.x} = 0; s{item.x} < {value}; ++s{item.x})"

    def _register(self, item: Instruction) -> None:
        scope, function = self.scope, item.function
        v0, v1, v2 = (scope.now(item.values[k]) for k in range(3))
        if function == "mov":
            text = v0
        elif function == "sel":
            text = f"{v0} ? {v1} : {v2}"
        elif function == "arg":
            assert item.parameter is not None
            text = f"(i64)p_{self.program.params[item.parameter].name}"
        elif function == "grid":
            text = f"g{item.axis}"
        elif function == "tile":
            text = self._tile_value(item)
        elif function in _SREG_SIGNS:
            text = f"{v0} {_SREG_SIGNS[function]} {v1}"
        else:
            text = f"{_SREG[function]}({v0}, {v1})"
        assert item.x is not None
        scope.set_register(item.x)
        scope.add(f"s{item.x} = {text};")
        if function == "tile" and self.language.is_group:
            scope.add(f"{self.language.barrier};")

    def _tile_value(self, item: Instruction) -> str:
        assert item.a is not None
        if self.group is not None and item.a.tile in self.group.current | dict.fromkeys(
            self.group.folded
        ):
            self._flush()
        rows, columns = self.scope.region(item.a)
        return f"{rows} && {columns} ? (i64){self.scope.pointer(item.a)}[0] : 0"

    # --- loops over elements --------------------------------------------------------------------

    def _flush(self) -> None:
        group, self.group = self.group, None
        if group is not None:
            Loop(group).write(self.flow.live_after[self.last])
            self.sections.append((self.first, self.last))

    def _pointwise(self, position: int, item: Instruction) -> None:
        scope = self.scope
        if self._must_flush(item):
            self._flush()
        member = Member(item, position)
        scope_values = [scope.now(value) for value in item.values]
        member.values = (scope_values[0], scope_values[1], scope_values[2], scope_values[3])
        shape, buffer = self._shape(item), ""
        if item.op in ("load", "gather", "store", "scatter"):
            buffer = self._attach(member, shape)
        if item.op == "fill":
            member.fill = self._fill(item)
        region = self._region(member)
        group = self.group
        if group is not None and not group.takes(item, shape, region):
            group = None
        if group is not None and buffer and member.access is not None:
            write = item.op in ("store", "scatter")
            if not group.may_touch(buffer, member.access, write=write):
                group = None
        if group is None:
            self._flush()
            self.group = group = Group(scope, shape, region)
            self.first = position
        self._comment(item)
        self._operands(group, member)
        if item.op == "red":
            self._fold(member)
        group.join(member, buffer)
        self.last = position
        if item.op not in ("store", "scatter") and item.d is not None:
            if item.op == "red":
                scope.set_region(item.d, region[0], "1")
            else:
                scope.set_region(item.d, *region)
        if item.op == "scatter" or (item.op == "store" and item.d is not None):
            self._flush()

    def _must_flush(self, item: Instruction) -> bool:
        """True when the operation cannot share a loop with what is pending, whatever its shape."""
        group = self.group
        if group is None:
            return False
        pending = set(group.current) | group.folded
        if item.op == "scatter":
            return True
        if item.op == "gather":
            assert item.a is not None
            return item.a.tile in pending or self._stage_hazard(item, pending)
        if item.op == "load" and item.a is not None:
            return item.a.tile in pending
        if item.op in ("store", "red") and item.d is not None:
            touched = item.d.tile in pending | group.touched
            return touched or self._stage_hazard(item, pending)
        return self._stage_hazard(item, pending)

    def _stage_hazard(self, item: Instruction, pending: set[int]) -> bool:
        """Tiles of several stages are always in memory: reading one behind its write waits."""
        tiles = self.program.tiles
        for reference in (item.a, item.b, item.c, item.d):
            if reference is not None and tiles[reference.tile].stages > 1:
                group = self.group
                if reference.tile in pending or (group and reference.tile in group.touched):
                    return True
        return False

    def _shape(self, item: Instruction) -> tuple[int, int]:
        reference = item.a if item.op in ("store", "scatter", "red") else item.d
        assert reference is not None
        tile = self.program.tiles[reference.tile]
        return tile.rows, tile.columns

    def _attach(self, member: Member, shape: tuple[int, int]) -> str:
        """The descriptor of a move; gives the class of its buffer."""
        item, scope = member.item, self.scope
        assert item.x is not None
        descriptor = self.program.descriptors[item.x]
        dimension = item.axis if item.op in ("gather", "scatter") else -1
        member.fill = scope.keep(
            self.language.stored(descriptor.dtype), constant(descriptor.fill, descriptor.dtype)
        )
        if descriptor.param is None:
            near = item.a if item.op == "load" else item.d
            assert near is not None
            tile = self.program.tiles[near.tile]
            member.near = (*scope.region(near), tile.columns)
            member.data = scope.pointer(near)
            member.access = Access(
                scope, descriptor, shape, str(tile.rows * tile.columns), faults=False
            )
            return f"near {near.tile}"
        member.data = f"p_{descriptor.param}"
        member.access = Access(
            scope,
            descriptor,
            shape,
            f"n_{descriptor.param}",
            faults=True,
            dimension=dimension,
        )
        return self.classes[descriptor.param]

    def _fill(self, item: Instruction) -> str:
        assert item.d is not None
        target = self.program.tiles[item.d.tile].dtype
        kind = self.language.stored(target)
        if item.parameter is None:
            assert item.constant is not None
            return self.scope.keep(kind, constant(item.constant, target))
        param = self.program.params[item.parameter]
        assert param.dtype is not None
        text = cast(self.language, f"p_{param.name}", param.dtype, target, False)
        return self.scope.keep(kind, text)

    def _region(self, member: Member) -> tuple[str, str]:
        """Valid region of the result, or what a store covers."""
        item, scope = member.item, self.scope
        access = member.access
        if item.op == "red":
            assert item.a is not None
            return scope.region(item.a)
        if access is not None:
            rows, columns = [access.rows], [access.columns]
            if item.op in ("store", "scatter"):
                assert item.a is not None
                have = scope.region(item.a)
                rows.append(have[0])
                columns.append(have[1])
            index = {"gather": item.a, "scatter": item.b}.get(item.op)
            if index is not None:
                valid = scope.region(index)
                rows.append(valid[0])
                if valid[1] != "1":
                    rows.append(scope.extent(f"({valid[1]} ? {self._shape(item)[0]} : 0)", 1 << 20))
            return scope.least(*rows), scope.least(*columns)
        assert item.d is not None
        tile = self.program.tiles[item.d.tile]
        if item.op == "copy":
            assert item.a is not None
            return scope.region(item.a)
        if item.op in ("iota", "rng"):
            return str(tile.rows), str(tile.columns)
        if item.op == "fill":
            lengths = (tile.rows, tile.columns)
            found = [
                str(length)
                if item.values[k] is None
                else scope.extent(f"hal_clamp({member.values[k]}, 0, {length})", length)
                for k, length in enumerate(lengths)
            ]
            return found[0], found[1]
        operands = [each for each in (item.a, item.b, item.c) if each is not None]
        return scope.elementwise(item.d, operands)

    def _operands(self, group: Group, member: Member) -> None:
        item, scope = member.item, self.scope
        for role in ("a", "b", "c"):
            reference: TileRef | None = getattr(item, role)
            if reference is None or (role == "a" and item.op == "load"):
                continue
            variable = group.current.get(reference.tile)
            stages = self.program.tiles[reference.tile].stages
            is_held = variable is not None and stages == 1
            member.pointers[role] = f"={variable}" if is_held else scope.pointer(reference)
        if item.d is not None and item.op != "store":
            is_in_memory = self.program.tiles[item.d.tile].stages > 1 or item.op == "red"
            member.pointers["d"] = scope.pointer(item.d) if is_in_memory else f"t{item.d.tile}"

    def _fold(self, member: Member) -> None:
        item = member.item
        assert item.a is not None and item.d is not None
        tiles = self.program.tiles
        source, target = tiles[item.a.tile].dtype, tiles[item.d.tile].dtype
        name = self.scope.fresh("fold")
        member.fold = Fold(self.language, item.function, source, target, name)

    # --- whole tiles ----------------------------------------------------------------------------

    def _whole(self, position: int, item: Instruction) -> None:
        scope = self.scope
        assert item.d is not None and item.a is not None
        region = scope.region(item.a)
        if item.op == "mma":
            rows, columns = whole.multiply(scope, item)
            scope.set_region(item.d, rows, columns)
        elif item.op == "trn":
            whole.transpose(scope, item)
            scope.set_region(item.d, region[1], region[0])
        elif item.op == "scan":
            whole.scan(scope, item)
            scope.set_region(item.d, *region)
        elif item.op == "topk":
            assert item.c is not None
            rows, columns = whole.top(scope, item, scope.now(item.values[0]))
            scope.set_region(item.d, rows, columns)
            scope.set_region(item.c, rows, columns)
        else:
            if _is_fold(item):
                whole.fold_rows(scope, item)
            else:
                whole.fold_arg(scope, item, scope.now(item.values[0]), self._nothing(position))
            shape = ("1", region[1]) if item.axis == 0 else (region[0], "1")
            scope.set_region(item.d, *shape)

    def _nothing(self, position: int) -> str:
        code = position * 256 + NOTHING
        if self.language.is_group:
            return f"{{ hal_state[0] = {code} + 1; return; }}"
        return f"return {code} + 1;"


def _is_fold(item: Instruction) -> bool:
    return item.function not in ("argmax", "argmin")


def write_body(language: Dialect, program: Program, classes: dict[str, str]) -> Body:
    """The statements of a program."""
    body = Body(language, program, classes)
    body.write()
    return body
