"""The lowering table: every later operation of VIL in the fifteen of tier 1.

`lower(module, chip)` rewrites what the chip's description does not grant; docs/lowering-table.md
says how each row works. A strategy of code generation therefore writes SCAN, TOPK, GATHER … and
asks about support only where another plan is faster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from hal.codegen import tier1_folding, tier1_moving, tier1_near, tier1_random
from hal.codegen.tier1_regions import Key, Regions
from hal.codegen.tier1_rewriter import Chip, Rewriter
from hal.codegen.tier1_serial import as_one_instance
from hal.dtypes import DType
from hal.vil.errors import VilError
from hal.vil.model import Instruction, Kernel, Program
from hal.vil.module import Module

__all__ = ["TABLE", "Row", "is_missing", "lower"]

Write = Callable[[Rewriter, Instruction, Regions], None]


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table.

    Attributes:
        name: The operation; `load near` and `store near` for near descriptors.
        uses: Operations of tier 1 that stand in for it.
        write: Adds them to a program.
        regions: Operand letters whose valid columns must be known as numbers.
        serial: The program must run as one instance, because the operation is atomic.
    """

    name: str
    uses: str
    write: Write
    regions: str = ""
    serial: bool = False


def _topk(p: Rewriter, item: Instruction, regions: Regions) -> None:
    tier1_folding.topk(p, item, regions.new(item, 1))


def _plain(write: Callable[[Rewriter, Instruction], None]) -> Write:
    return lambda p, item, regions: write(p, item)


TABLE = {
    row.name: row
    for row in (
        Row("copy", "un", _plain(tier1_moving.copy)),
        Row("gather", "load iota bin red sel sreg loop", _plain(tier1_moving.gather)),
        Row(
            "scatter",
            "load store iota bin red sel sreg loop",
            _plain(tier1_moving.scatter),
            serial=True,
        ),
        Row("scan", "un cast iota bin sel red loop", _plain(tier1_folding.scan)),
        Row("topk", "fill iota bin un sel red loop", _topk, regions="dca"),
        Row("rng", "fill iota bin un sel cast sreg loop", _plain(tier1_random.rng)),
        Row("load near", "fill cast iota bin sel red sreg loop", _plain(tier1_near.load)),
        Row("store near", "fill cast iota bin sel red sreg loop", _plain(tier1_near.store)),
    )
}
"""Name of a row -> how the operation is said with the operations of tier 1."""


def _row_of(item: Instruction) -> str:
    if (item.op == "load" and item.a) or (item.op == "store" and item.d):
        return f"{item.op} near"
    return item.op


def _types(program: Program, item: Instruction) -> tuple[DType, ...]:
    """The tile types that a chip's row of the operation names."""
    tile = item.a if item.op in ("copy", "scatter", "scan", "topk") else item.d
    return () if tile is None else (program.tiles[tile.tile].dtype,)


def is_missing(program: Program, item: Instruction, chip: Chip) -> bool:
    """True where the table has a row for an instruction and the chip does not grant it."""
    name = _row_of(item)
    if name not in TABLE:
        return False
    if name.endswith(" near"):
        return "near_descriptors" not in chip.features
    return not chip.supports(item.op, item.function, *_types(program, item))


def lower(module: Module, chip: Chip) -> Module:
    """The module with every instruction that the chip lacks said by the table.

    Results are those of the module (docs/vil.md), bit for bit but for NaN payloads and the sign of
    a sum that is zero; sums obey the tolerance law as before. A SCATTER that the chip lacks makes
    its program run as one instance. Programs that need nothing stay as they are; so do flags that
    promise nothing any more (`deterministic` without SCATTER) and `contract` where it is not
    granted.

    Raises:
        VilError: an explicit program lacks something (lower it before spaces are chosen).
    """
    programs: list[Program] = []
    kernels = module.kernels
    for program in module.programs:
        missing = [item for item in program.instructions if is_missing(program, item, chip)]
        if missing and program.profile == "explicit":
            raise VilError(
                f"program {program.name} is explicit and the chip has no {_row_of(missing[0])}",
                call="codegen.tier1",
                next_step="Lower the flat program first; spaces and tokens come after.",
            )
        rows = [TABLE[_row_of(item)] for item in missing]
        if any(row.serial for row in rows) and not _is_owner(program, missing):
            program, kernels = as_one_instance(program, kernels)
        if missing:
            kernels, program = _readable(kernels, program, missing, chip)
            program = _rewritten(program, chip)
        programs.append(_flags(program, chip))
    return Module(kernels, tuple(programs))


def _is_owner(program: Program, missing: list[Instruction]) -> bool:
    """True where only one instance adds to an element by the program's own promise."""
    functions = {item.function for item in missing if item.op == "scatter"}
    return program.deterministic and functions == {"add"}


def _flags(program: Program, chip: Chip) -> Program:
    scatters = any(item.op == "scatter" for item in program.instructions)
    keeps = scatters or "deterministic_scatter" in chip.features
    return replace(
        program,
        contract=program.contract and "contraction" in chip.features,
        deterministic=program.deterministic and keeps,
    )


def _wanted(program: Program, chip: Chip) -> Iterator[Key]:
    for item in program.instructions:
        if not is_missing(program, item, chip):
            continue
        for letter in TABLE[_row_of(item)].regions:
            reference = getattr(item, letter)
            if letter == "a" or "init" not in item.flags:
                yield reference.tile, 1


def _rewritten(program: Program, chip: Chip) -> Program:
    p = Rewriter(program, chip)
    regions = Regions(p, program, tuple(_wanted(program, chip)))
    blocks: list[str] = []
    for item in program.instructions:
        if item.op in ("loop", "if"):
            blocks.append(item.op)
            p.depth += item.op == "loop"
        elif item.op == "end":
            p.depth -= blocks.pop() == "loop"
        if is_missing(program, item, chip):
            TABLE[_row_of(item)].write(p, item, regions)
        else:
            p.keep(item)
        regions.update(item)
        p.release()
    return p.finished()


def _readable(
    kernels: tuple[Kernel, ...], program: Program, missing: list[Instruction], chip: Chip
) -> tuple[tuple[Kernel, ...], Program]:
    """Without registers from tiles a SCATTER set reads its buffer: `write` becomes `inout`."""
    if "sreg_from_tile" in chip.features:
        return kernels, program
    names = {
        program.descriptors[item.x].param
        for item in missing
        if item.op == "scatter" and item.x is not None
    }
    params = tuple(
        replace(param, access="inout") if param.name in names else param for param in program.params
    )
    opened = replace(program, params=params)
    changed = []
    for kernel in kernels:
        arguments = {
            binding.argument
            for launch in kernel.launches
            if launch.program == program.name
            for param, binding in zip(params, launch.bindings, strict=True)
            if param.name in names
        }
        changed.append(
            replace(
                kernel,
                arguments=tuple(
                    replace(item, access="inout") if item.name in arguments else item
                    for item in kernel.arguments
                ),
            )
        )
    return tuple(changed), opened
