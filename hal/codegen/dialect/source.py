"""A module as one source text: types, support functions, one function per program."""

from __future__ import annotations

from hal.codegen.dialect.arena import Block
from hal.codegen.dialect.far import FAR, with_far_memory
from hal.codegen.dialect.flow import buffer_classes
from hal.codegen.dialect.language import Dialect
from hal.codegen.dialect.loop import stop_together
from hal.codegen.dialect.program import Body, write_body
from hal.codegen.dialect.support import needed
from hal.dtypes import f64
from hal.errors import HcdError
from hal.hcd import Hcd
from hal.vil.model import Param, Program
from hal.vil.module import Module

__all__ = ["entry_name", "render", "written"]

_TYPES = ("u8", "u16", "u32", "u64", "i8", "i32", "i64", "f32", "f64")
_BOUND = "typedef struct { u8 *data; u64 bytes; u64 scalar; } hal_bound;"


def entry_name(program: Program) -> str:
    """Name of a program's function in the source."""
    return f"hal_program_{program.name}"


def render(module: Module, hcd: Hcd) -> str:
    """The source of a module's programs in the chip's own language; see `written`."""
    return written(module, hcd)[1]


def written(module: Module, hcd: Hcd) -> tuple[Module, str]:
    """The source of a module's programs in the chip's own language, and the plan it goes with.

    Args:
        module: A valid module of flat programs.
        hcd: A chip with `kernels.dialect`.

    Returns:
        The module, in which programs whose tiles do not fit near memory get a workspace for the
        rest; and the text.

    Raises:
        HcdError: the dialect lacks a word that a program needs, a program is explicit, or its tiles
            do not fit and its plan does not say how many instances run.
    """
    language = Dialect.of(hcd)
    bodies = [_body(language, module, program) for program in module.programs]
    far = {body.program.name: body.arena.far_bytes for body in bodies if body.arena.far}
    plan = with_far_memory(module, far, language) if far else module
    write = _group if language.is_group else _range
    body = "\n".join(
        write(language, program, each, len(set(each.classes.values())) == len(each.classes))
        for program, each in zip(plan.programs, bodies, strict=True)
    )
    head = [
        f"// {language.language}; written from VIL. The instructions stand in comments.",
        language.prologue.rstrip(),
        *_typedefs(language),
    ]
    if not language.is_group:
        head += [_BOUND, "static u32 hal_word;"]
    return plan, "\n".join([*head, needed(language, body), body]) + "\n"


def _typedefs(language: Dialect) -> list[str]:
    return [f"typedef {language.types[name]} {name};" for name in _TYPES if name in language.types]


def _body(language: Dialect, module: Module, program: Program) -> Body:
    if program.profile != "flat":
        raise HcdError(
            f"program {program.name} is explicit; sources are written from flat programs",
            call=language.source,
        )
    uses_f64 = any(tile.dtype is f64 for tile in program.tiles)
    if uses_f64 and not language.has_f64:
        raise HcdError(
            f"program {program.name} uses f64, which kernels.dialect.types does not have",
            call=language.source,
        )
    return write_body(language, program, buffer_classes(module, program))


def _values(body: Body) -> list[str]:
    """Constants that every instance shares."""
    return [
        f"const i64 {name} = {body.scope.written(expr)};"
        for expr, name in body.scope.expressions.items()
    ]


def _state(program: Program) -> list[str]:
    """Registers and valid regions at the start of an instance."""
    lines = [f"i64 s{n} = 0;" for n in range(3, program.sreg_count)]
    for index, tile in enumerate(program.tiles):
        if tile.stages == 1:
            lines.append(f"i32 r{index} = 0, c{index} = 0;")
        else:
            lines.append(f"i32 r{index}[{tile.stages}] = {{0}}, c{index}[{tile.stages}] = {{0}};")
    return lines


def _pointer_type(language: Dialect, param: Param) -> str:
    assert param.dtype is not None
    const = "const " if param.access == "read" else ""
    return f"{language.space('global')}{const}{language.stored(param.dtype)} *"


def _scalar(param: Param, number: int) -> str:
    assert param.dtype is not None
    name, bits = param.dtype.name, f"bound[{number}].scalar"
    if param.dtype.is_int:
        return f"const {name} p_{param.name} = ({name}){bits};"
    size = "32" if name == "f32" else "64"
    return f"const {name} p_{param.name} = hal_{name}_of_bits((u{size}){bits});"


def _range(language: Dialect, program: Program, body: Body, alone: bool) -> str:
    """A function that runs instances first … first + count − 1 on the calling thread."""
    name = entry_name(program)
    restrict = f"{language.no_alias} " if alone and language.no_alias else ""
    lines: list[str] = []
    for number, param in enumerate(program.params):
        if param.kind == "symbol":
            lines.append(f"const i64 k_{param.name} = (i64)bound[{number}].scalar;")
        elif param.kind == "scalar":
            lines.append(_scalar(param, number))
        else:
            assert param.dtype is not None
            kind = _pointer_type(language, param)
            lines.append(f"{kind}{restrict}p_{param.name} = ({kind})bound[{number}].data;")
            size = f"(i64)(bound[{number}].bytes / {param.dtype.bytes})"
            lines.append(f"const i64 n_{param.name} = {size};")
    lines += [f"const i64 g{axis} = (i64)grid[{axis}];" for axis in range(3)]
    lines += _values(body)
    lines += _pointers(language, program, "", "tile_memory", body.arena.near)
    text = [
        f"{language.kernel} const u64 {name}_bytes = {body.arena.near_bytes};",
        f"{language.kernel} i64 {name}(const hal_bound *bound, const u64 *grid,",
        "    u64 first, u64 count, u8 *tile_memory) {",
        *("  " + line for line in lines),
        "  for (u64 instance = first; instance < first + count; ++instance) {",
        "    const i64 s0 = (i64)instance % g0, s1 = (i64)instance / g0 % g1;",
        "    const i64 s2 = (i64)instance / g0 / g1;",
        *("    " + line for line in _state(program)),
        *("  " + line for line in body.scope.lines),
        "  }",
        *([f"  {language.stream_end}"] if body.scope.streams else []),
        "  return 0;",
        "}",
    ]
    return "\n".join(text)


def _pointers(
    language: Dialect, program: Program, space: str, base: str, blocks: list[Block]
) -> list[str]:
    """A pointer for each tile of some blocks of bytes."""
    lines: list[str] = []
    for block in blocks:
        kind = f"{space}{language.stored(program.tiles[block.tile].dtype)}"
        at = f"({kind} *)({base} + {block.offset})"
        lines += [f"{kind} *t{tile} = {at};" for tile in block.tiles]
    return lines


def _tiles(language: Dialect, program: Program, body: Body) -> list[str]:
    """The tiles in the near memory of a group."""
    space, lines = language.space("near"), []
    if language.near_block:
        found = _pointers(language, program, space, "hal_tiles", body.arena.near)
        return [f"{language.near_block};", *found] if found else []
    for block in body.arena.near:
        dtype = program.tiles[block.tile].dtype
        kind = f"{space}{language.stored(dtype)}"
        lines.append(f"{kind} t{block.tile}[{block.bytes // dtype.bytes}];")
        lines += [f"{kind} *t{tile} = t{block.tile};" for tile in block.tiles[1:]]
    return lines


def _group(language: Dialect, program: Program, body: Body, alone: bool) -> str:
    """A kernel that runs one instance with the lanes of a group."""
    restrict = f"{language.no_alias} " if alone and language.no_alias else ""
    space = language.space("global")
    formals: list[str] = []
    lines: list[str] = []
    for param in program.params:
        if param.kind == "symbol":
            formals.append(f"i64 k_{param.name}")
        elif param.kind == "scalar":
            assert param.dtype is not None
            formals.append(f"{param.dtype.name} p_{param.name}")
        else:
            assert param.dtype is not None
            kind = _pointer_type(language, param)
            formals += [f"{space}u8 *b_{param.name}", f"i64 o_{param.name}", f"i64 n_{param.name}"]
            start = f"({kind})(b_{param.name} + o_{param.name})"
            lines.append(f"{kind}{restrict}p_{param.name} = {start};")
    formals += ["i64 g0", "i64 g1", "i64 g2", f"{space}i32 *hal_state"]
    lines += _tiles(language, program, body)
    ids = language.ids
    names = ("program_x", "program_y", "program_z")
    lines += [f"const i64 s{axis} = (i64){ids[name]};" for axis, name in enumerate(names)]
    if body.arena.far:
        start = f"p_{FAR} + ((s2 * g1 + s1) * g0 + s0) * {body.arena.far_bytes}"
        lines.append(f"{space}u8 *hal_far_tiles = {start};")
        lines += _pointers(language, program, space, "hal_far_tiles", body.arena.far)
    lines += [
        f"{language.space('near')}i32 hal_bad;",
        f"if ({ids['lane']} == 0) hal_bad = hal_state[0];",
        f"{language.barrier};",
        stop_together(language),  # A kernel before this one met a fault.
    ]
    lines += [*_values(body), *_state(program)]
    name = entry_name(program)
    text = [
        *([f"enum {{ {name}_bytes = {body.arena.near_bytes} }};"] if language.near_block else []),
        f"{language.kernel} void {name}({', '.join(formals)}) {{",
        *("  " + line for line in lines),
        *body.scope.lines,
        "}",
    ]
    return "\n".join(text)
