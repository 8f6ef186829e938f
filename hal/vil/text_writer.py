"""Objects to the text form; `parse(show(module)) == module`."""

from __future__ import annotations

from collections.abc import Iterator

from hal.vil.expressions import Const, Expr, show
from hal.vil.model import (
    Argument,
    Axis,
    Binding,
    Descriptor,
    Instruction,
    Kernel,
    Launch,
    Program,
    SReg,
    Term,
    Tile,
    TileRef,
    Value,
)
from hal.vil.module import Module
from hal.vil.tables import OPS, SREG_FORMS, OpSpec

__all__ = ["default_engine", "lowest_sreg_count", "print_module", "show_instruction", "show_value"]


def print_module(module: Module) -> str:
    """The whole text, one statement a line, two spaces a level."""
    lines = ["vil 1.0"]
    for kernel in module.kernels:
        lines += ["", *_kernel(kernel)]
    for program in module.programs:
        lines += ["", *_program(program)]
    return "\n".join(lines) + "\n"


def show_value(value: Value) -> str:
    """`%3` or an infix expression."""
    return f"%{value.index}" if isinstance(value, SReg) else show(value)


def _list(expressions: tuple[Expr, ...]) -> str:
    return ", ".join(show(item) for item in expressions)


def _kernel(kernel: Kernel) -> Iterator[str]:
    yield f"kernel {kernel.name} {{"
    for argument in kernel.arguments:
        yield f"  arg {_argument(argument)}"
    for workspace in kernel.workspaces:
        yield f"  workspace {workspace.name} bytes {show(workspace.bytes)}"
    for launch in kernel.launches:
        yield f"  launch {_launch(launch)}"
    yield "}"


def _argument(item: Argument) -> str:
    if item.kind == "symbol":
        return f"{item.name}: symbol"
    if item.kind == "scalar":
        return f"{item.name}: scalar {item.dtype}"
    size = show(item.required_bytes or Const(0))
    alias = f" alias {item.alias}" if item.alias is not None else ""
    return f"{item.name}: {item.dtype} {item.access} bytes {size}{alias}"


def _binding(item: Binding) -> str:
    if item.expression is not None:
        return show(item.expression)
    return item.argument or item.workspace or ""


def _launch(item: Launch) -> str:
    grid = "grid caller" if item.grid is None else f"grid({_list(item.grid)})"
    text = f"{item.program} {grid} ({', '.join(_binding(each) for each in item.bindings)})"
    if item.block is not None:
        text += f" block({_list(item.block)})"
    if item.scratch is not None:
        text += f" scratch {show(item.scratch)}"
    return text


def _program(program: Program) -> Iterator[str]:
    head = f"program {program.name} {program.profile}"
    head += " contract" * program.contract + " deterministic" * program.deterministic
    if program.sreg_count != lowest_sreg_count(program):
        head += f" sregs {program.sreg_count}"
    yield head + " {"
    for param in program.params:
        kind = {"symbol": "symbol", "scalar": f"scalar {param.dtype}"}.get(param.kind)
        yield f"  param {param.name}: {kind or f'{param.dtype} {param.access}'}"
    for tile in program.tiles:
        yield f"  tile {_tile(tile)}"
    for token in program.tokens:
        engines = f"{token.producer} -> {token.consumer}"
        yield f"  token {token.name}: {engines} credits {token.credits}"
    for descriptor in program.descriptors:
        yield from _descriptor(descriptor)
    depth = 1
    for item in program.instructions:
        depth -= item.op == "end"
        yield "  " * max(depth, 1) + show_instruction(program, item)
        depth += item.op in ("loop", "if")
    yield "}"


def _tile(tile: Tile) -> str:
    text = f"{tile.name}: {tile.dtype}[{tile.rows}, {tile.columns}] {tile.space} @{tile.offset}"
    if tile.stages != 1:
        text += f" stages {tile.stages}"
    if tile.layout == "panel":
        text += f" layout panel({tile.panel})"
    elif tile.layout != "row":
        text += f" layout {tile.layout}"
    return text


def _descriptor(item: Descriptor) -> Iterator[str]:
    source = f"near {item.dtype}" if item.param is None else item.param
    fill = f" fill {_constant(item.fill)}" if repr(item.fill) not in ("0", "0.0") else ""
    yield f"  desc {item.name} = {source}{fill} {{"
    for name, axis in (("row", item.row), ("column", item.column)):
        if axis != Axis():
            yield f"    {name}{_axis(axis)}"
    for dimension in item.dimensions:
        triple = (dimension.extent, dimension.stride, dimension.base)
        extent, stride, base = map(show_value, triple)
        terms = "".join(f", {_term(term)}" for term in dimension.terms)
        yield f"    dim {extent} stride {stride} base {base}{terms}"
    yield "  }"


def _axis(axis: Axis) -> str:
    text = f" origin {show_value(axis.origin)}" if axis.origin is not None else ""
    text += f" limit {show_value(axis.limit)}" if axis.limit is not None else ""
    if axis.digits:
        text += " digits"
    for digit in axis.digits:
        size = "_" if digit.size is None else show_value(digit.size)
        text += f" ({size}, {show_value(digit.divisor)})"
    return text


def _term(term: Term) -> str:
    prefix = {"sreg": "%", "row": "r", "column": "c"}[term.source]
    return f"{prefix}{term.index} * {show_value(term.coefficient)}"


def _constant(constant: float | int) -> str:
    return repr(constant)


def _tile_ref(program: Program, reference: TileRef) -> str:
    name = program.tiles[reference.tile].name
    return name if reference.stage is None else f"{name}[{show_value(reference.stage)}]"


def _operand(program: Program, item: Instruction, role: str) -> str | None:
    if role in ("d", "a", "b", "c"):
        reference: TileRef | None = getattr(item, role)
        return None if reference is None else _tile_ref(program, reference)
    if role.startswith("v"):
        value = item.values[int(role[1])]
        return None if value is None else show_value(value)
    if role == "constant" and item.parameter is None:
        return None if item.constant is None else _constant(item.constant)
    if role in ("constant", "parameter"):
        return None if item.parameter is None else program.params[item.parameter].name
    if item.x is None:
        return None
    if role == "sreg":
        return f"%{item.x}"
    table = program.descriptors if role == "descriptor" else program.tokens
    return table[item.x].name


def forms(item: Instruction) -> tuple[tuple[str, ...], dict[str, str]]:
    """Operand roles and attributes of an instruction, SREG's functions included."""
    spec = OPS[item.op]
    if item.op != "sreg":
        return spec.operands, spec.attributes
    operands, attributes = SREG_FORMS.get(item.function, ((), {}))
    return spec.operands + operands, attributes


def default_engine(spec: OpSpec, item: Instruction, program: Program) -> str:
    """The engine that an instruction has when none is written."""
    if item.op in ("signal", "wait") and item.x is not None and item.x < len(program.tokens):
        token = program.tokens[item.x]
        return token.producer if item.op == "signal" else token.consumer
    if (item.op == "load" and item.a) or (item.op == "store" and item.d):
        return "vector"
    return spec.engines[0] if spec.engines else "scalar"


def show_instruction(program: Program, item: Instruction) -> str:
    """One instruction as text, without indentation."""
    spec = OPS[item.op]
    operands, attributes = forms(item)
    head = f"{item.op}.{item.function}" if item.function else item.op
    shown = [text for role in operands if (text := _operand(program, item, role)) is not None]
    text = f"{head} {', '.join(shown)}" if shown else head
    for name, role in attributes.items():
        if role != "axis":
            value = _operand(program, item, role)
            text += f" {name}={value}" if value is not None else ""
        elif item.op in ("red", "scan"):
            text += f" axis={('rows', 'cols')[item.axis & 1]}"
        else:
            text += f" {name}={item.axis}"
    text += "".join(f" {flag}" for flag in sorted(item.flags))
    if item.engine and item.engine != default_engine(spec, item, program):
        text += f" @{item.engine}"
    return text


def lowest_sreg_count(program: Program) -> int:
    """Highest SREG in use plus one, at least 3."""
    highest = 2
    for item in program.instructions:
        if OPS[item.op].operands[:1] == ("sreg",) and item.x is not None:
            highest = max(highest, item.x)
        for reference in (item.d, item.a, item.b, item.c):
            if reference is not None and isinstance(reference.stage, SReg):
                highest = max(highest, reference.stage.index)
        for value in item.values:
            if isinstance(value, SReg):
                highest = max(highest, value.index)
    for descriptor in program.descriptors:
        for value in descriptor_values(descriptor):
            if isinstance(value, SReg):
                highest = max(highest, value.index)
    return highest + 1


def descriptor_values(descriptor: Descriptor) -> Iterator[Value]:
    """Every value of a descriptor; an SREG term counts as a value."""
    for axis in (descriptor.row, descriptor.column):
        for value in (axis.origin, axis.limit):
            if value is not None:
                yield value
        for digit in axis.digits:
            yield digit.divisor
            if digit.size is not None:
                yield digit.size
    for dimension in descriptor.dimensions:
        yield from (dimension.extent, dimension.stride, dimension.base)
        for term in dimension.terms:
            yield term.coefficient
            if term.source == "sreg":
                yield SReg(term.index)
