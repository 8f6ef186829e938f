"""`validate`: the only judge of what a port must run (docs/vil.md, section 6)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from hal.vil.check_chip import Limits, chip_problems
from hal.vil.check_control import control_problems, overlap_problems, token_problems
from hal.vil.check_instructions import instruction_problems
from hal.vil.check_kernels import kernel_problems
from hal.vil.check_values import constant_problem, expression_problem, kind_problem, name_problems
from hal.vil.expressions import Expr
from hal.vil.model import Descriptor, Program, SReg, Tile, Value
from hal.vil.module import Module
from hal.vil.problems import Problem
from hal.vil.tables import ENGINES, LAYOUTS, PROFILES, SPACES
from hal.vil.text_writer import descriptor_values

if TYPE_CHECKING:
    from hal.hcd import Hcd

__all__ = ["validate"]


def validate(module: Module | Program, hcd: Hcd | dict[str, Any] | None = None) -> list[Problem]:
    """Every broken rule of a module or of one program; an empty list means that ports must run it.

    Args:
        module: What to judge.
        hcd: The chip; None stands for the limits of `vil-core`.
    """
    limits = Limits.of(hcd)
    if isinstance(module, Program):
        return list(_program_problems(module, limits))
    problems: list[Problem] = []
    for kind, names in (
        ("kernel", [item.name for item in module.kernels]),
        ("program", [item.name for item in module.programs]),
    ):
        problems += name_problems("module", f"{kind}s", names)
    sound = True
    for program in module.programs:
        found = list(_program_problems(program, limits))
        sound = sound and not found
        problems += found
    for kernel in module.kernels:
        problems += kernel_problems(kernel, module, limits)
    return problems


def _program_problems(program: Program, limits: Limits) -> Iterator[Problem]:
    where = f"program {program.name}"
    structure = list(_table_problems(program, where))
    yield from structure
    instructions = list(instruction_problems(program))
    yield from instructions
    values = list(_value_problems(program, where))
    yield from values
    if structure or instructions or values:
        return
    control = list(control_problems(program))
    yield from control
    if not control:
        yield from overlap_problems(program)
        yield from token_problems(program)
    yield from chip_problems(program, limits)


def _table_problems(program: Program, where: str) -> Iterator[Problem]:
    names = [item.name for item in program.params]
    names += [item.name for item in program.tiles]
    names += [item.name for item in program.tokens]
    names += [item.name for item in program.descriptors]
    yield from name_problems(where, "names", names)
    yield from name_problems("module", "program", [program.name])
    if program.profile not in PROFILES:
        yield Problem(where, f"profile {program.profile}; allowed: flat explicit", "structure")
    if not 3 <= program.sreg_count <= 4096:
        text = f"sreg_count is {program.sreg_count}; allowed 3 to 4096"
        yield Problem(where, text, "structure")
    for param in program.params:
        text = kind_problem(param.kind, param.dtype.name if param.dtype else None, param.access)
        if text:
            yield Problem(f"{where}, param {param.name}", text, "structure")
    for tile in program.tiles:
        for text in _tile_problems(tile):
            yield Problem(f"{where}, tile {tile.name}", text, "structure")
    for token in program.tokens:
        place = f"{where}, token {token.name}"
        if token.producer not in ENGINES or token.consumer not in ENGINES:
            yield Problem(place, f"engines are {' '.join(ENGINES)}", "structure")
        elif token.producer == token.consumer:
            yield Problem(place, "producer and consumer are the same engine", "structure")
        if not 0 <= token.credits <= 0xFFFF:
            yield Problem(place, f"credits {token.credits}; allowed 0 to 65535", "structure")
    for descriptor in program.descriptors:
        for text in _descriptor_problems(program, descriptor):
            yield Problem(f"{where}, desc {descriptor.name}", text, "structure")


def _tile_problems(tile: Tile) -> Iterator[str]:
    if not 1 <= tile.rows <= 2**20 or not 1 <= tile.columns <= 2**20:
        yield f"{tile.rows} x {tile.columns}; rows and columns are 1 to 2^20"
    if not 1 <= tile.stages <= 64:
        yield f"{tile.stages} stages; allowed 1 to 64"
    if tile.space not in SPACES:
        yield f"space {tile.space!r}; allowed: {' '.join(SPACES)}"
    if tile.layout not in LAYOUTS:
        yield f"layout {tile.layout!r}; allowed: {' '.join(LAYOUTS)}"
    if not (1 <= tile.panel <= 1024 if tile.layout == "panel" else tile.panel == 0):
        yield f"panel {tile.panel} with layout {tile.layout}; panel(m) has m of 1 to 1024"
    if tile.offset < 0 or tile.offset + tile.total_bytes > 2**32:
        yield f"bytes {tile.offset} to {tile.offset + tile.total_bytes}; at most 2^32"


def _descriptor_problems(program: Program, item: Descriptor) -> Iterator[str]:
    if item.param is not None:
        found = [param for param in program.params if param.name == item.param]
        if not found or found[0].kind != "buffer":
            yield f"{item.param} is not a buffer parameter"
        elif found[0].dtype != item.dtype:
            yield f"dtype {item.dtype}, but {item.param} holds {found[0].dtype}"
    if not 1 <= len(item.dimensions) <= 5:
        yield f"{len(item.dimensions)} dimensions; allowed 1 to 5"
    for name, axis in (("row", item.row), ("column", item.column)):
        if len(axis.digits) > 3:
            yield f"{len(axis.digits)} digits of the {name} axis; at most 3"
    counts = {"row": len(item.row.digits), "column": len(item.column.digits)}
    for dimension in item.dimensions:
        for term in dimension.terms:
            if term.source not in ("sreg", "row", "column"):
                yield f"a term of {term.source!r}; allowed: sreg row column"
            elif term.source != "sreg" and not 0 <= term.index < counts[term.source]:
                yield f"{term.source} digit {term.index} of {counts[term.source]}"
    text = constant_problem(item.fill, item.dtype)
    if text:
        yield f"fill {text}"


def _value_problems(program: Program, where: str) -> Iterator[Problem]:
    """SREG numbers and expressions everywhere."""
    symbols = [param.name for param in program.params if param.kind == "symbol"]
    seen: set[Value] = set()

    def judge(values: Iterable[Value | None], place: str, line: int) -> Iterator[Problem]:
        for value in values:
            if value is None or value in seen:
                continue
            text = ""
            if isinstance(value, SReg):
                if not 0 <= value.index < program.sreg_count:
                    text = f"%{value.index} of {program.sreg_count} SREGs"
            elif isinstance(value, Expr):
                text = expression_problem(value, symbols)
            else:
                text = f"{value!r} is neither an SREG nor an expression"
            if text:
                yield Problem(place, text, "structure", line)
            else:
                seen.add(value)

    for descriptor in program.descriptors:
        place = f"{where}, desc {descriptor.name}"
        yield from judge(descriptor_values(descriptor), place, 0)
    for number, item in enumerate(program.instructions):
        stages = [ref.stage for ref in (item.d, item.a, item.b, item.c) if ref is not None]
        place = f"{where}, instruction {number}"
        yield from judge([*stages, *item.values], place, item.line)
