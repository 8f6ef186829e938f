"""The text form to objects: the body of one program."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hal.vil.model import (
    Axis,
    Descriptor,
    Digit,
    Dimension,
    Instruction,
    Param,
    Program,
    Term,
    Tile,
    TileRef,
    Token,
    Value,
)
from hal.vil.tables import ENGINES, LAYOUTS, OPS, SPACES, SREG_FORMS, OpSpec
from hal.vil.text_reader import TextReader
from hal.vil.text_writer import default_engine, lowest_sreg_count

__all__ = ["read_program"]

U16, U32 = 0xFFFE, 0xFFFFFFFF
_TERMS = {"r0": ("row", 0), "r1": ("row", 1), "r2": ("row", 2)}
_TERMS |= {"c0": ("column", 0), "c1": ("column", 1), "c2": ("column", 2)}


def read_program(reader: TextReader, name: str) -> Program:
    """Takes a program behind its name."""
    return _ProgramText(reader, name).program()


class _ProgramText:
    def __init__(self, reader: TextReader, name: str) -> None:
        self.reader = reader
        self.name = name
        self.names: set[str] = set()
        self.params: list[Param] = []
        self.tiles: list[Tile] = []
        self.tokens: list[Token] = []
        self.descriptors: list[Descriptor] = []
        self.instructions: list[Instruction] = []

    def program(self) -> Program:
        reader = self.reader
        profile = reader.choice("a profile", ("flat", "explicit"))
        contract = deterministic = False
        sregs = 0
        while not reader.at("{"):
            flags = ("contract", "deterministic", "sregs")
            word = reader.choice("a flag of a program or `{`", flags)
            contract |= word == "contract"
            deterministic |= word == "deterministic"
            if word == "sregs":
                sregs = reader.integer("the SREG count", 3, 4096)
        start = reader.expect("{")
        reader.newline()
        reader.declare_symbols()
        parts = {
            "param": self._param,
            "tile": self._tile,
            "token": self._token,
            "desc": self._descriptor,
        }
        while not reader.take("}"):
            word = reader.choice("an operation or a declaration", (*parts, *OPS))
            if word in parts:
                parts[word]()
            else:
                self.instructions.append(self._instruction(OPS[word]))
            reader.newline()
        reader.newline()
        program = Program(
            self.name,
            profile,
            tuple(self.params),
            tuple(self.tiles),
            tuple(self.descriptors),
            tuple(self.tokens),
            tuple(self.instructions),
            sregs,
            contract,
            deterministic,
        )
        lowest = lowest_sreg_count(program)
        if sregs and sregs < lowest:
            reader.fail(f"sregs {sregs}, but %{lowest - 1} is used", allowed=str(lowest), at=start)
        return replace(program, sreg_count=sregs or lowest)

    # --- declarations --------------------------------------------------------------------------

    def _param(self) -> None:
        reader = self.reader
        name = reader.declare(self.names, "a parameter")
        reader.expect(":")
        self.params.append(Param(name, *reader.kind()))

    def _tile(self) -> None:
        reader = self.reader
        name = reader.declare(self.names, "a tile")
        reader.expect(":")
        dtype = reader.dtype()
        reader.expect("[")
        rows = reader.integer("rows", 1, 2**20)
        reader.expect(",")
        columns = reader.integer("columns", 1, 2**20)
        reader.expect("]")
        space = reader.choice("a space", SPACES)
        reader.expect("@")
        offset = reader.integer("the offset", 0, U32)
        stages = reader.integer("the stage count", 1, 64) if reader.take("stages") else 1
        layout, panel = "row", 0
        if reader.take("layout"):
            layout = reader.choice("a layout", LAYOUTS)
            if layout == "panel":
                reader.expect("(")
                panel = reader.integer("the rows of a panel", 1, 1024)
                reader.expect(")")
        self.tiles.append(Tile(name, dtype, rows, columns, space, offset, stages, layout, panel))

    def _token(self) -> None:
        reader = self.reader
        name = reader.declare(self.names, "a token")
        reader.expect(":")
        producer = reader.choice("an engine", ENGINES)
        reader.expect("->")
        consumer = reader.choice("an engine", ENGINES)
        reader.expect("credits")
        self.tokens.append(Token(name, producer, consumer, reader.integer("credits", 0, 0xFFFF)))

    def _descriptor(self) -> None:
        reader = self.reader
        name = reader.declare(self.names, "a descriptor")
        reader.expect("=")
        buffers = {item.name: item for item in self.params if item.kind == "buffer"}
        param: str | None = None
        if reader.word.text == "near" and "near" not in buffers:
            reader.next()
            dtype = reader.dtype()
        else:
            param = reader.known(buffers, "a buffer parameter")
            found = buffers[param].dtype
            assert found is not None
            dtype = found
        fill = reader.constant(dtype) if reader.take("fill") else 0
        if not dtype.is_int and dtype.kind != "bool":
            fill = float(fill)
        reader.expect("{")
        reader.newline()
        axes = {"row": Axis(), "column": Axis()}
        dimensions: list[Dimension] = []
        while not reader.at("}"):
            start = reader.word
            word = reader.choice("a line of a descriptor", ("row", "column", "dim"))
            if word != "dim":
                axes[word] = self._axis()
            elif len(dimensions) == 5:
                reader.fail("a sixth dimension", allowed="1 to 5 dimensions", at=start)
            else:
                dimensions.append(self._dimension())
            reader.newline()
        end = reader.expect("}")
        if not dimensions:
            reader.fail("the descriptor has no dimension", allowed="1 to 5 dimensions", at=end)
        dims = tuple(dimensions)
        item = Descriptor(name, param, dtype, dims, axes["row"], axes["column"], fill)
        self.descriptors.append(item)

    def _axis(self) -> Axis:
        reader = self.reader
        origin = reader.value() if reader.take("origin") else None
        limit = reader.value() if reader.take("limit") else None
        digits: list[Digit] = []
        if reader.take("digits"):
            start = reader.word
            while reader.take("("):
                size: Value | None = None
                if reader.at("_") and "_" not in reader.symbols:
                    reader.next()
                else:
                    size = reader.value()
                reader.expect(",")
                digits.append(Digit(size, reader.value()))
                reader.expect(")")
            if not 1 <= len(digits) <= 3:
                reader.fail(
                    f"{len(digits)} digits", allowed="1 to 3 times (size, divisor)", at=start
                )
        return Axis(origin, limit, tuple(digits))

    def _dimension(self) -> Dimension:
        reader = self.reader
        extent = reader.value()
        reader.expect("stride")
        stride = reader.value()
        reader.expect("base")
        base = reader.value()
        terms: list[Term] = []
        while reader.take(","):
            if reader.take("%"):
                source, index = "sreg", reader.integer("the number of an SREG", 0, 4095)
            else:
                source, index = _TERMS[reader.choice("a term", (*_TERMS, "%n")[:-1])]
            reader.expect("*")
            terms.append(Term(source, index, reader.value()))
        return Dimension(extent, stride, base, tuple(terms))

    # --- instructions --------------------------------------------------------------------------

    def _instruction(self, spec: OpSpec) -> Instruction:
        reader = self.reader
        fields: dict[str, Any] = {"op": spec.name, "line": reader.word.line}
        values: list[Value | None] = [None] * 4
        if spec.functions:
            reader.expect(".")
            fields["function"] = reader.choice(f"a function of {spec.name}", spec.functions)
        operands, attributes = spec.operands, spec.attributes
        if spec.name == "sreg":
            more, attributes = SREG_FORMS[fields["function"]]
            operands = operands + more
        for number, role in enumerate(operands):
            if number:
                reader.expect(",")
            self._operand(role, fields, values)
        self._attributes(spec, attributes, fields, values)
        fields["values"] = tuple(values)
        if spec.name == "topk":
            fields["axis"] = 1
        item = Instruction(**fields)
        if item.engine:
            return item
        blank = Program("", tokens=tuple(self.tokens))
        return replace(item, engine=default_engine(spec, item, blank))

    def _operand(self, role: str, fields: dict[str, Any], values: list[Value | None]) -> None:
        reader = self.reader
        if role in ("d", "a", "b", "c"):
            fields[role] = self._tile_ref()
        elif role.startswith("v"):
            values[int(role[1])] = reader.value()
        elif role == "sreg":
            reader.expect("%")
            fields["x"] = reader.integer("the number of an SREG", 0, 4095)
        elif role == "parameter" or (role == "constant" and self._is_parameter()):
            scalars = [item.name for item in self.params if item.kind == "scalar"]
            name = reader.known(scalars, "a scalar parameter")
            fields["parameter"] = [item.name for item in self.params].index(name)
        elif role == "constant":
            fields["constant"] = self._fill_constant(fields["d"])
        else:
            names = [item.name for item in self.descriptors]
            if role == "token":
                names = [item.name for item in self.tokens]
            fields["x"] = names.index(reader.known(names, f"a {role}"))

    def _is_parameter(self) -> bool:
        word = self.reader.word
        return word.kind == "name" and word.text not in ("inf", "nan", "true", "false")

    def _fill_constant(self, reference: TileRef) -> float | int:
        return self.reader.constant(self.tiles[reference.tile].dtype)

    def _tile_ref(self) -> TileRef:
        reader = self.reader
        names = [tile.name for tile in self.tiles]
        index = names.index(reader.known(names, "a tile"))
        stage: Value | None = None
        if reader.take("["):
            stage = reader.value()
            reader.expect("]")
        return TileRef(index, stage)

    def _attributes(
        self,
        spec: OpSpec,
        attributes: dict[str, str],
        fields: dict[str, Any],
        values: list[Value | None],
    ) -> None:
        reader = self.reader
        flags = {flag for flag in spec.flags if flag != "scalar"}
        seen: set[str] = set()
        found: set[str] = set()
        while reader.word.kind != "newline":
            if reader.take("@"):
                fields["engine"] = reader.choice("an engine", ENGINES)
                continue
            start = reader.word
            word = reader.choice(f"an attribute of {spec.name}", (*attributes, *sorted(flags)))
            if word in seen:
                reader.fail(f"`{word}` stands twice", allowed="each attribute once", at=start)
            seen.add(word)
            if word in flags:
                found.add(word)
                continue
            reader.expect("=")
            if attributes[word] != "axis":
                self._operand(attributes[word], fields, values)
            elif spec.name in ("red", "scan"):
                fields["axis"] = ("rows", "cols").index(reader.choice("an axis", ("rows", "cols")))
            else:
                fields["axis"] = reader.integer(word, 0, 4 if word == "dim" else 2)
        fields["flags"] = frozenset(found)
        missing = [name for name, role in attributes.items() if role == "axis" and name not in seen]
        if missing:
            reader.fail(f"{spec.name} needs {missing[0]}=", allowed=f"{missing[0]}=…")
