"""A program that runs all points of its grid in one instance, one after another."""

from __future__ import annotations

from dataclasses import replace

from hal.vil.expressions import Binary, Expr, Symbol, as_expr
from hal.vil.model import (
    Axis,
    Binding,
    Descriptor,
    Digit,
    Dimension,
    Instruction,
    Kernel,
    Launch,
    Param,
    Program,
    SReg,
    Term,
    TileRef,
    Value,
)

__all__ = ["as_one_instance"]

AXES = 3


def as_one_instance(
    program: Program, kernels: tuple[Kernel, ...]
) -> tuple[Program, tuple[Kernel, ...]]:
    """The program with a LOOP over its grid, and its launches with a grid of one instance.

    Program ids become registers, registers start as 0 in each turn, and tiles that may be read
    before they are written start empty. The grid's axes come as three more symbols. A launch whose
    grid is the caller's, and one that is a single instance already, stay as they are.
    """
    launches = [x for kernel in kernels for x in kernel.launches if x.program == program.name]
    if all(x.grid is None or all(axis == as_expr(1) for axis in x.grid) for x in launches):
        return program, kernels
    names = _free_names(program)
    changed = tuple(
        replace(
            kernel,
            launches=tuple(
                _one(launch) if launch.program == program.name else launch
                for launch in kernel.launches
            ),
        )
        for kernel in kernels
    )
    return _looped(program, names), changed


def _one(launch: Launch) -> Launch:
    grid = (*(launch.grid or ()), *[as_expr(1)] * AXES)[:AXES]
    extra = tuple(Binding(expression=axis) for axis in grid)
    return replace(launch, grid=(as_expr(1),), bindings=(*launch.bindings, *extra))


def _free_names(program: Program) -> list[str]:
    taken = {item.name for item in program.params} | {item.name for item in program.tiles}
    taken |= {item.name for item in program.descriptors}
    names: list[str] = []
    for axis in "xyz":
        name = f"grid_{axis}"
        while name in taken:
            name += "_"
        names.append(name)
    return names


def _looped(program: Program, names: list[str]) -> Program:
    symbols = [Symbol(name) for name in names]
    ids = [SReg(program.sreg_count + axis) for axis in range(AXES)]
    turn = SReg(program.sreg_count + AXES)
    total: Expr = Binary("*", Binary("*", symbols[0], symbols[1]), symbols[2])
    body = [_renamed(item, ids) for item in program.instructions]
    body = [_grid(item, symbols) for item in body]
    first = [
        _sreg("imod", ids[0], turn, symbols[0]),
        _sreg("idiv", ids[1], turn, symbols[0]),
        _sreg("idiv", ids[2], ids[1], symbols[1]),
        _sreg("imod", ids[1], ids[1], symbols[1]),
    ]
    counters = {item.x for item in program.instructions if item.op == "loop"}
    first += [
        _sreg("mov", SReg(index), as_expr(0))
        for index in range(AXES, program.sreg_count)
        if index not in counters
    ]
    for index in sorted(_read_first(program)):
        for stage in range(program.tiles[index].stages):
            first.append(_emptied(program, index, stage))
    loop = Instruction("loop", engine="scalar", x=turn.index, values=(total, None, None, None))
    return replace(
        program,
        params=(*program.params, *(Param(name, "symbol") for name in names)),
        descriptors=tuple(_moved(item, ids) for item in program.descriptors),
        instructions=(loop, *first, *body, Instruction("end", engine="scalar")),
        sreg_count=program.sreg_count + AXES + 1,
    )


def _sreg(function: str, target: SReg, *operands: Value) -> Instruction:
    values = (*operands, None, None, None, None)[:4]
    return Instruction(
        "sreg", function, "scalar", x=target.index, values=(values[0], values[1], values[2], None)
    )


def _emptied(program: Program, tile: int, stage: int) -> Instruction:
    """Makes the valid region of a tile 0 × 0."""
    is_float = program.tiles[tile].dtype.kind in ("float", "float8")
    zero = as_expr(0)
    reference = TileRef(tile, as_expr(stage) if program.tiles[tile].stages > 1 else None)
    constant = 0.0 if is_float else 0
    values = (zero, zero, None, None)
    return Instruction("fill", "", "vector", d=reference, constant=constant, values=values)


def _read_first(program: Program) -> set[int]:
    """Tiles whose first mention in the text does not write them as a whole, or is conditional."""
    seen: set[int] = set()
    found: set[int] = set()
    depth = 0
    for item in program.instructions:
        if item.op in ("loop", "if"):
            depth += 1
        elif item.op == "end":
            depth -= 1
        writes = {item.d.tile} if item.d and item.op != "store" else set()
        if item.op == "topk" and item.c:
            writes.add(item.c.tile)
        if item.op in ("mma", "topk") and "init" not in item.flags:
            writes = set()
        reads = {x.tile for x in (item.a, item.b, item.c, item.d) if x} - writes
        if item.op in ("un", "bin", "sel", "cast"):
            reads |= {x.tile for x in (item.a, item.b, item.c) if x}
        found |= reads - seen
        if depth:
            found |= writes - seen
        seen |= reads | writes
    staged = {index for index, tile in enumerate(program.tiles) if tile.stages > 1}
    empty = {index for index in found | staged if program.tiles[index].dtype.kind != "float8"}
    return empty & seen


def _id(value: Value | None, ids: list[SReg]) -> Value | None:
    return ids[value.index] if isinstance(value, SReg) and value.index < AXES else value


def _sure(value: Value, ids: list[SReg]) -> Value:
    return ids[value.index] if isinstance(value, SReg) and value.index < AXES else value


def _renamed(item: Instruction, ids: list[SReg]) -> Instruction:
    """Program ids of an instruction become registers."""

    def tile(reference: TileRef | None) -> TileRef | None:
        return reference and TileRef(reference.tile, _id(reference.stage, ids))

    v0, v1, v2, v3 = (_id(value, ids) for value in item.values)
    return replace(
        item,
        d=tile(item.d),
        a=tile(item.a),
        b=tile(item.b),
        c=tile(item.c),
        values=(v0, v1, v2, v3),
    )


def _grid(item: Instruction, symbols: list[Symbol]) -> Instruction:
    """`sreg grid` becomes the symbol of its axis."""
    if item.op != "sreg" or item.function != "grid" or item.x is None:
        return item
    return _sreg("mov", SReg(item.x), symbols[item.axis])


def _moved(item: Descriptor, ids: list[SReg]) -> Descriptor:
    """Program ids of a descriptor become registers."""

    def axis(old: Axis) -> Axis:
        digits = tuple(Digit(_id(d.size, ids), _sure(d.divisor, ids)) for d in old.digits)
        return Axis(_id(old.origin, ids), _id(old.limit, ids), digits)

    def term(old: Term) -> Term:
        index = old.index
        if old.source == "sreg" and index < AXES:
            index = ids[index].index
        return Term(old.source, index, _sure(old.coefficient, ids))

    def dimension(old: Dimension) -> Dimension:
        extent, stride, base = (_sure(v, ids) for v in (old.extent, old.stride, old.base))
        return Dimension(extent, stride, base, tuple(term(t) for t in old.terms))

    dimensions = tuple(dimension(d) for d in item.dimensions)
    return replace(item, dimensions=dimensions, row=axis(item.row), column=axis(item.column))
