"""Objects to the binary form (docs/vil.md, section 4)."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

from hal.dtypes import DType
from hal.vil.errors import VilError
from hal.vil.expressions import Expr, encode_postfix
from hal.vil.features import feature_bits, required_features
from hal.vil.model import (
    Axis,
    Descriptor,
    Instruction,
    Kernel,
    Launch,
    Parts,
    Program,
    SReg,
    Value,
)
from hal.vil.tables import ACCESS, ENGINES, FUNCTIONS, KINDS, LAYOUTS, OPS, PROFILES, SPACES

__all__ = ["constant_bits", "encode", "encode_envelope", "encode_signature"]

NONE16, NONE32 = 0xFFFF, 0xFFFFFFFF
HEADER_BYTES = 48


def encode(module: Parts) -> bytes:
    """The `HVIL` image of a module. The module is taken as valid: call `validate` first.

    Raises:
        VilError: something does not fit the form, as a name that nothing declares.
    """
    try:
        sections = [_program_section(program) for program in module.programs]
        signature = encode_signature(module.kernels, [item.name for item in module.programs])
    except (struct.error, KeyError, ValueError, IndexError, AttributeError) as error:
        raise VilError(
            f"the module does not fit the binary form: {error}",
            call="vil.encode",
            next_step="Run hal.vil.validate on it and mend what it lists.",
        ) from None
    table_at = HEADER_BYTES + len(signature)
    place = table_at + 8 * len(sections)
    table = bytearray()
    for section in sections:
        table += struct.pack("<II", place, len(section))
        place += len(section)
    head = struct.pack(
        "<4sHHIIII", b"HVIL", 1, 0, place, HEADER_BYTES, HEADER_BYTES, len(signature)
    )
    tail = struct.pack(
        "<QIIQ",
        feature_bits(required_features(module)),
        table_at if sections else 0,
        len(sections),
        0,
    )
    return b"".join([head, tail, signature, bytes(table), *sections])


def encode_envelope(kernels: Iterable[Kernel], format_name: str, payload: bytes) -> bytes:
    """The `HIMG` image: a signature, the name of a format and what the chip's loader gets."""
    signature = encode_signature(kernels, None)
    name = format_name.encode()
    format_at = HEADER_BYTES + len(signature)
    payload_at = format_at + len(_padded(name))
    body = signature + _padded(name) + _padded(payload)
    total = HEADER_BYTES + len(body)
    head = struct.pack(
        "<4sHHIIII", b"HIMG", 1, 0, total, HEADER_BYTES, HEADER_BYTES, len(signature)
    )
    tail = struct.pack("<IIIIQ", format_at, len(name), payload_at, len(payload), 0)
    return head + tail + body


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 8)


class _Pool:
    """Strings, expressions and values of one section."""

    def __init__(self) -> None:
        self.strings = bytearray()
        self.code = bytearray()
        self.expressions = bytearray()
        self._string_at: dict[str, int] = {}
        self._expression_at: dict[bytes, int] = {}

    def string(self, text: str) -> int:
        place = self._string_at.get(text)
        if place is None:
            place = self._string_at[text] = len(self.strings)
            self.strings += text.encode() + b"\0"
        return place

    def expression(self, expr: Expr | None, symbols: Mapping[str, int], owner: int = 0) -> int:
        if expr is None:
            return NONE32
        code = encode_postfix(expr, symbols)
        key = bytes((owner & 0xFF, owner >> 8 & 0xFF)) + code
        index = self._expression_at.get(key)
        if index is None:
            index = self._expression_at[key] = len(self._expression_at)
            self.expressions += struct.pack("<II", len(self.code), len(code))
            self.code += code
        return index


def _assemble(header: bytes, tables: list[tuple[bytes, int]]) -> bytes:
    """Lays tables (bytes, count) behind a header; the section's size goes to offset 4."""
    place = len(header) + 8 * len(tables)
    directory, body = bytearray(), bytearray()
    for data, count in tables:
        directory += struct.pack("<II", place if count else 0, count)
        padded = _padded(data)
        body += padded
        place += len(padded)
    section = bytearray(header + directory + body)
    struct.pack_into("<I", section, 4, len(section))
    return bytes(section)


def encode_signature(kernels: Iterable[Kernel], programs: list[str] | None) -> bytes:
    """The `HSIG` section; `programs` gives program indices, None for other formats."""
    writer = _SignatureWriter(programs)
    for number, kernel in enumerate(kernels):
        writer.kernel(number, kernel)
    return writer.section()


class _SignatureWriter:
    """Collects the tables of one signature section."""

    def __init__(self, programs: list[str] | None) -> None:
        self.programs = programs
        self.pool = _Pool()
        self.kernels, self.arguments, self.workspaces = bytearray(), bytearray(), bytearray()
        self.launches, self.bindings = bytearray(), bytearray()
        self.counts = [0, 0, 0, 0, 0]  # kernels, arguments, workspaces, launches, bindings
        self.number = 0
        self.symbols: dict[str, int] = {}

    def _expression(self, expr: Expr | None) -> int:
        return self.pool.expression(expr, self.symbols, self.number)

    def kernel(self, number: int, kernel: Kernel) -> None:
        """Adds a kernel with everything that belongs to it."""
        pool, counts = self.pool, self.counts
        self.number = number
        self.symbols = {a.name: i for i, a in enumerate(kernel.arguments) if a.kind == "symbol"}
        self.kernels += struct.pack(
            "<8I",
            pool.string(kernel.name),
            *(counts[1], len(kernel.arguments)),
            *(counts[2], len(kernel.workspaces)),
            *(counts[3], len(kernel.launches)),
            0,
        )
        position = {argument.name: i for i, argument in enumerate(kernel.arguments)}
        for argument in kernel.arguments:
            self.arguments += struct.pack(
                "<IBBBBIIQ",
                pool.string(argument.name),
                KINDS[argument.kind],
                argument.dtype.number if argument.dtype else 8,
                ACCESS[argument.access] if argument.access else 0,
                0,
                self._expression(argument.required_bytes),
                NONE32 if argument.alias is None else position[argument.alias],
                0,
            )
        place = {workspace.name: i for i, workspace in enumerate(kernel.workspaces)}
        for workspace in kernel.workspaces:
            size = self._expression(workspace.bytes)
            self.workspaces += struct.pack("<II", pool.string(workspace.name), size)
        for launch in kernel.launches:
            self._launch(launch, position, place)
        counts[0] += 1
        counts[1] += len(kernel.arguments)
        counts[2] += len(kernel.workspaces)
        counts[3] += len(kernel.launches)

    def _launch(self, launch: Launch, position: dict[str, int], place: dict[str, int]) -> None:
        grid = [self._expression(axis) for axis in launch.grid or ()]
        if launch.grid is not None and not 1 <= len(grid) <= 3:
            raise KeyError(f"launch of {launch.program}: a grid has one to three axes")
        block = [self._expression(axis) for axis in launch.block or ()]
        self.launches += struct.pack(
            "<12I",
            self.pool.string(launch.program),
            NONE32 if self.programs is None else self.programs.index(launch.program),
            *(grid + [NONE32] * 3)[:3],
            *(self.counts[4], len(launch.bindings)),
            *(block + [NONE32] * 3)[:3],
            self._expression(launch.scratch),
            0,
        )
        self.counts[4] += len(launch.bindings)
        for binding in launch.bindings:
            if binding.argument is not None:
                kind, index = 1, position[binding.argument]
            elif binding.workspace is not None:
                kind, index = 2, place[binding.workspace]
            else:
                kind, index = 3, self._expression(binding.expression)
            self.bindings += struct.pack("<B3xI", kind, index)

    def section(self) -> bytes:
        """The finished section."""
        pool = self.pool
        header = struct.pack("<4sIHHI", b"HSIG", 0, 1, 0, 0)
        tables = [self.kernels, self.arguments, self.workspaces, self.launches, self.bindings]
        tables += [pool.expressions, pool.code, pool.strings]
        counts = [*self.counts, len(pool.expressions) // 8, len(pool.code), len(pool.strings)]
        return _assemble(header, list(zip(map(bytes, tables), counts, strict=True)))


def constant_bits(constant: float | int, dtype: DType) -> int:
    """The u64 of a constant: bits of an f64 for float types, else the i64."""
    if dtype.kind in ("float", "float8"):
        bits: int = struct.unpack("<Q", struct.pack("<d", constant))[0]
        return bits if constant == constant else 0x7FF8000000000000
    return int(constant) & 0xFFFFFFFFFFFFFFFF


class _ProgramWriter:
    """Collects the tables of one program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.pool = _Pool()
        params = program.params
        self.symbols = {item.name: i for i, item in enumerate(params) if item.kind == "symbol"}
        self.param_index = {item.name: i for i, item in enumerate(params)}
        self.terms = bytearray()
        self.constants: dict[int, int] = {}

    def value(self, value: Value | None) -> int:
        if value is None:
            return NONE16
        if isinstance(value, SReg):
            return 0x8000 | value.index
        index = self.pool.expression(value, self.symbols)
        if index >= 0x7FFF:
            raise VilError(f"program {self.program.name}: more than 32766 expressions")
        return index

    def constant(self, constant: float | int, dtype: DType) -> int:
        bits = constant_bits(constant, dtype)
        return self.constants.setdefault(bits, len(self.constants))

    def axis(self, axis: Axis) -> bytes:
        numbers = [self.value(axis.origin), self.value(axis.limit)]
        for digit in axis.digits:
            numbers += [self.value(digit.size), self.value(digit.divisor)]
        return struct.pack("<8H", *(numbers + [NONE16] * 6)[:8])

    def descriptor(self, item: Descriptor) -> bytes:
        first = len(self.terms) // 8
        dims = [NONE16] * 15
        count = 0
        for number, dimension in enumerate(item.dimensions):
            triple = (dimension.extent, dimension.stride, dimension.base)
            dims[3 * number : 3 * number + 3] = [self.value(value) for value in triple]
            for term in dimension.terms:
                kind = {"sreg": 0, "row": 1, "column": 2}[term.source]
                coefficient = self.value(term.coefficient)
                self.terms += struct.pack("<BBHHH", number, kind, term.index, coefficient, 0)
                count += 1
        head = struct.pack(
            "<IHBBIHBBQ",
            self.pool.string(item.name),
            NONE16 if item.param is None else self.param_index[item.param],
            item.dtype.number,
            len(item.dimensions),
            first,
            count,
            len(item.row.digits),
            len(item.column.digits),
            constant_bits(item.fill, item.dtype),
        )
        return head + struct.pack("<16H", *dims, 0) + self.axis(item.row) + self.axis(item.column)

    def instruction(self, item: Instruction) -> bytes:
        spec = OPS[item.op]
        x = NONE16 if item.x is None else item.x
        numbers = [self.value(value) for value in item.values]
        flags = sum(1 << spec.flags[flag] for flag in item.flags)
        if item.op == "fill":
            if item.parameter is not None:
                x, flags = item.parameter, flags | 1
            elif item.constant is not None and item.d is not None:
                x = self.constant(item.constant, self.program.tiles[item.d.tile].dtype)
        elif item.op == "sreg" and item.parameter is not None:
            numbers[0] = item.parameter
        operands: list[int] = []
        for reference in (item.d, item.a, item.b, item.c):
            if reference is None:
                operands += [NONE16, NONE16]
            else:
                operands += [reference.tile, self.value(reference.stage)]
        function = FUNCTIONS[item.function] if item.function else 0
        engine = ENGINES[item.engine]
        return struct.pack(
            "<BBBBHH12H", spec.number, function, engine, item.axis, flags, x, *operands, *numbers
        )


def _program_section(program: Program) -> bytes:
    writer = _ProgramWriter(program)
    pool = writer.pool
    name = pool.string(program.name)
    params, tiles, tokens = bytearray(), bytearray(), bytearray()
    for item in program.params:
        number = item.dtype.number if item.dtype else 8
        access = ACCESS[item.access] if item.access else 0
        params += struct.pack("<IBBBB", pool.string(item.name), KINDS[item.kind], number, access, 0)
    for tile in program.tiles:
        tiles += struct.pack(
            "<IBBBBIIIHHQ",
            pool.string(tile.name),
            *(tile.dtype.number, SPACES[tile.space], LAYOUTS[tile.layout], 0),
            *(tile.rows, tile.columns, tile.offset, tile.stages, tile.panel, 0),
        )
    descriptors = b"".join([writer.descriptor(item) for item in program.descriptors])
    for token in program.tokens:
        engines = ENGINES[token.producer], ENGINES[token.consumer]
        tokens += struct.pack("<IBBH", pool.string(token.name), *engines, token.credits)
    instructions = b"".join([writer.instruction(item) for item in program.instructions])
    constants = struct.pack(f"<{len(writer.constants)}Q", *writer.constants)
    flags = program.contract | program.deterministic << 1
    profile = PROFILES[program.profile]
    header = struct.pack("<4sIIBBH", b"HPRG", 0, name, profile, flags, program.sreg_count)
    tables = [
        (bytes(params), len(program.params)),
        (bytes(tiles), len(program.tiles)),
        (descriptors, len(program.descriptors)),
        (bytes(writer.terms), len(writer.terms) // 8),
        (bytes(tokens), len(program.tokens)),
        (constants, len(writer.constants)),
        (bytes(pool.expressions), len(pool.expressions) // 8),
        (bytes(pool.code), len(pool.code)),
        (bytes(pool.strings), len(pool.strings)),
        (instructions, len(program.instructions)),
    ]
    return _assemble(header, tables)
