"""Validator: the fields, types and shapes of each instruction (docs/vil.md, section 5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from hal import dtypes
from hal.dtypes import DType
from hal.vil.check_values import constant_problem
from hal.vil.elementwise import COMPARISONS, binary_allows, unary_allows
from hal.vil.expressions import Const
from hal.vil.model import Descriptor, Instruction, Param, Program, Tile, TileRef
from hal.vil.problems import Problem
from hal.vil.reductions import reduce_result
from hal.vil.tables import ENGINES, OPS, SREG_FORMS, OpSpec
from hal.vil.text_writer import forms, show_instruction

__all__ = ["instruction_problems", "place_of"]

_TILES = ("d", "a", "b", "c")
_IN_PLACE = ("un", "bin", "sel")
_INDEX = (dtypes.i32, dtypes.i64)


def place_of(program: Program, number: int) -> str:
    """How messages name an instruction."""
    item = program.instructions[number]
    line = f"line {item.line}" if item.line else f"instruction {number}"
    try:
        shown = f" `{show_instruction(program, item)}`"
    except (KeyError, IndexError, AttributeError, TypeError):
        shown = ""
    return f"program {program.name}, {line}{shown}"


def instruction_problems(program: Program) -> Iterator[Problem]:
    """Problems of single instructions; later rules are skipped once the fields are wrong."""
    for number, item in enumerate(program.instructions):
        place = ""
        for rule, check in (("structure", _fields), ("types", _types)):
            found = list(check(program, item))
            if found:
                place = place or place_of(program, number)
                yield from (Problem(place, text, rule, item.line) for text in found)
                break


def _fields(program: Program, item: Instruction) -> Iterator[str]:
    """Each field that the operation uses is there and in range; no other is set."""
    spec = OPS.get(item.op)
    if spec is None:
        yield f"operation {item.op!r}; allowed: {' '.join(OPS)}"
        return
    if spec.functions and item.function not in spec.functions:
        yield f"function {item.function!r}; {item.op} has {' '.join(spec.functions)}"
        return
    if not spec.functions and item.function:
        yield f"{item.op} has no function"
    operands, attributes = forms(item)
    needed = set(operands)
    optional = {role for role in attributes.values() if role != "axis"}
    yield from _tile_fields(program, item, needed, optional)
    yield from _index_fields(program, item, needed)
    for index in range(4):
        role = f"v{index}"
        if item.values[index] is None and role in needed:
            yield f"{role} is missing"
        if item.values[index] is not None and role not in needed | optional:
            yield f"{item.op} has no {role}"
    unknown = item.flags - (set(spec.flags) - {"scalar"})
    if unknown:
        yield f"{item.op} has no flag {' '.join(sorted(unknown))}"
    yield from _axis(program, item)
    yield from _engine(program, item, spec)


def _tile_fields(
    program: Program, item: Instruction, needed: set[str], optional: set[str]
) -> Iterator[str]:
    for role in _TILES:
        reference: TileRef | None = getattr(item, role)
        if reference is None:
            if role in needed:
                yield f"tile {role} is missing"
        elif role not in needed | optional:
            yield f"{item.op} has no tile {role}"
        elif not 0 <= reference.tile < len(program.tiles):
            yield f"tile {role}: {reference.tile} of {len(program.tiles)}"


def _index_fields(program: Program, item: Instruction, needed: set[str]) -> Iterator[str]:
    counts = {
        "descriptor": len(program.descriptors),
        "token": len(program.tokens),
        "sreg": program.sreg_count,
    }
    roles = [role for role in counts if role in needed]
    if roles:
        role = roles[0]
        if item.x is None or not 0 <= item.x < counts[role]:
            yield f"{role} {item.x} of {counts[role]}"
        elif role == "sreg" and item.x < 3:
            yield f"%{item.x} holds a program id and is read-only"
    elif item.x is not None:
        yield f"{item.op} has no x"
    if "constant" in needed and (item.constant is None) == (item.parameter is None):
        yield "fill takes either a constant or a scalar parameter"
    if "constant" not in needed and item.constant is not None:
        yield f"{item.op} has no constant"
    if "parameter" in needed and item.parameter is None:
        yield "the scalar parameter is missing"
    if item.parameter is not None:
        if not needed & {"constant", "parameter"}:
            yield f"{item.op} has no parameter"
        elif not 0 <= item.parameter < len(program.params):
            yield f"parameter {item.parameter} of {len(program.params)}"
        elif program.params[item.parameter].kind != "scalar":
            yield f"{program.params[item.parameter].name} is not a scalar parameter"


def _axis(program: Program, item: Instruction) -> Iterator[str]:
    if item.op in ("red", "scan"):
        allowed = 2
    elif item.op == "topk":
        if item.axis != 1:
            yield f"axis {item.axis}; 1 for topk"
        return
    elif item.op in ("gather", "scatter"):
        known = item.x is not None and 0 <= item.x < len(program.descriptors)
        allowed = len(program.descriptors[item.x].dimensions) if known and item.x is not None else 5
    elif item.op == "sreg" and item.function == "grid":
        allowed = 3
    else:
        allowed = 1
    if not 0 <= item.axis < allowed:
        yield f"axis or dim {item.axis}; below {allowed}"


def _engine(program: Program, item: Instruction, spec: OpSpec) -> Iterator[str]:
    allowed = spec.engines
    if item.op in ("signal", "wait"):
        if item.x is None or not 0 <= item.x < len(program.tokens):
            return
        token = program.tokens[item.x]
        allowed = (token.producer if item.op == "signal" else token.consumer,)
    elif (item.op == "load" and item.a) or (item.op == "store" and item.d):
        allowed = ("vector",)
    if item.engine not in ENGINES or item.engine not in allowed:
        yield f"engine {item.engine!r}; {item.op} runs on {' or '.join(allowed)}"


# --- types and shapes --------------------------------------------------------------------------


def _types(program: Program, item: Instruction) -> Iterator[str]:
    tiles = {
        role: program.tiles[reference.tile]
        for role in _TILES
        if (reference := getattr(item, role)) is not None
    }
    check = _CHECKS.get(item.op)
    if check is not None:
        yield from check(program, item, tiles)
    spec = OPS[item.op]
    if item.op in _IN_PLACE:
        return
    for result in spec.results:
        target = getattr(item, result)
        if target is None:
            continue
        for role in _TILES:
            other = getattr(item, role)
            if role != result and other is not None and other.tile == target.tile:
                yield f"{result} and {role} are the same tile, which {item.op} does not allow"


Tiles = dict[str, Tile]
Check = Callable[[Program, Instruction, Tiles], Iterator[str]]


def _moves(dtype: DType) -> bool:
    return dtype.kind != "float8"


def _shape(tile: Tile) -> str:
    return f"{tile.rows} x {tile.columns}"


def _descriptor(program: Program, item: Instruction) -> Descriptor:
    assert item.x is not None
    return program.descriptors[item.x]


def _param(program: Program, descriptor: Descriptor) -> Param:
    return next(param for param in program.params if param.name == descriptor.param)


def _global(
    program: Program, item: Instruction, tile: Tile, access: tuple[str, ...]
) -> Iterator[str]:
    descriptor = _descriptor(program, item)
    if descriptor.dtype != tile.dtype:
        yield f"tile {tile.name} is {tile.dtype}, descriptor {descriptor.name} {descriptor.dtype}"
    if descriptor.param is None:
        yield f"descriptor {descriptor.name} addresses near tiles; name one with near="
        return
    known = [param for param in program.params if param.name == descriptor.param]
    if known and known[0].access not in access:
        name = f"buffer {descriptor.param}"
        yield f"{name} is {known[0].access}; {item.op} needs {' or '.join(access)}"


def _near(program: Program, item: Instruction, tile: Tile, near: Tile) -> Iterator[str]:
    descriptor = _descriptor(program, item)
    if descriptor.param is not None:
        yield f"descriptor {descriptor.name} addresses buffer {descriptor.param}, not a near tile"
    if near.space != "near":
        yield f"tile {near.name} is in {near.space}; near= needs the space near"
    for each in (tile, near):
        if descriptor.dtype != each.dtype:
            yield f"tile {each.name} is {each.dtype}, descriptor {descriptor.name} is not"


def _load(program: Program, item: Instruction, tiles: Tiles) -> Iterator[str]:
    if item.a is not None:
        yield from _near(program, item, tiles["d"], tiles["a"])
    else:
        yield from _global(program, item, tiles["d"], ("read", "inout"))


def _store(program: Program, item: Instruction, tiles: Tiles) -> Iterator[str]:
    if item.d is not None:
        yield from _near(program, item, tiles["a"], tiles["d"])
    else:
        yield from _global(program, item, tiles["a"], ("write", "inout"))
    yield from _ignored_axes(program, item, tiles["a"], ("row", "column"))


def _ignored_axes(
    program: Program, item: Instruction, tile: Tile, names: tuple[str, ...]
) -> Iterator[str]:
    """A store whose address does not depend on a tile axis would overlap itself."""
    descriptor = _descriptor(program, item)
    terms = [term for dimension in descriptor.dimensions for term in dimension.terms]
    for name in names:
        axis = descriptor.row if name == "row" else descriptor.column
        length = tile.rows if name == "row" else tile.columns
        single = isinstance(axis.limit, Const) and axis.limit.value <= 1 and axis.origin is None
        used = any(t.source == name and t.coefficient != Const(0) for t in terms)
        if length > 1 and not single and not used:
            yield f"descriptor {descriptor.name} ignores the {name}s of {tile.name}: they overlap"


def _fill(program: Program, item: Instruction, tiles: Tiles) -> Iterator[str]:
    dtype = tiles["d"].dtype
    if not _moves(dtype):
        yield f"fill of {dtype}; allowed: float, int and bool types"
    elif item.constant is not None:
        text = constant_problem(item.constant, dtype)
        if text:
            yield text
    elif dtype.kind == "bool":
        yield "a scalar parameter cannot fill a bool tile"


def _iota(program: Program, item: Instruction, tiles: Tiles) -> Iterator[str]:
    if tiles["d"].dtype not in _INDEX:
        yield f"iota into {tiles['d'].dtype}; allowed: i32 i64"


def _broadcast(item: Instruction, tiles: Tiles) -> Iterator[str]:
    target = tiles["d"]
    for role, tile in tiles.items():
        rows, columns = tile.rows in (1, target.rows), tile.columns in (1, target.columns)
        if role != "d" and not (rows and columns):
            yield f"{role} is {_shape(tile)}, which does not broadcast to {_shape(target)}"


def _unary(program: Program, item: Instruction, tiles: Tiles) -> Iterator[str]:
    source, target = tiles["a"].dtype, tiles["d"].dtype
    if not unary_allows(item.function, source):
        yield f"un.{item.function} of {source} does not exist"
    wanted = dtypes.bool_ if item.function == "isnan" else source
    if target != wanted:
        yield f"d is {target}; un.{item.function} of {source} gives {wanted}"
    yield from _broadcast(item, tiles)


def _binary(program: Program, item: Instruction, tiles: Tiles) -> Iterator[str]:
    left, right, target = (tiles[role].dtype for role in ("a", "b", "d"))
    if left != right:
        yield f"a is {left} and b is {right}; they must be one type"
    if not binary_allows(item.function, left):
        yield f"bin.{item.function} of {left} does not exist"
    wanted = dtypes.bool_ if item.function in COMPARISONS else left
    if target != wanted:
        yield f"d is {target}; bin.{item.function} of {left} gives {wanted}"
    yield from _broadcast(item, tiles)


def _select(program: Program, item: Instruction, tiles: Tiles) -> Iterator[str]:
    if tiles["a"].dtype != dtypes.bool_:
        yield f"a is {tiles['a'].dtype}; sel chooses by bool"
    kinds = {tiles[role].dtype.name for role in ("d", "b", "c")}
    if len(kinds) > 1 or not _moves(tiles["d"].dtype):
        yield f"b, c and d are {' '.join(sorted(kinds))}; one float, int or bool type"
    yield from _broadcast(item, tiles)


def _cast(program: Program, item: Instruction, tiles: Tiles) -> Iterator[str]:
    yield from _broadcast(item, tiles)


def _reduced(item: Instruction, source: Tile) -> tuple[int, int]:
    if item.op == "scan":
        return source.rows, source.columns
    return (1, source.columns) if item.axis == 0 else (source.rows, 1)


def _reduce(program: Program, item: Instruction, tiles: Tiles) -> Iterator[str]:
    source, target = tiles["a"], tiles["d"]
    if not reduce_result(item.function, source.dtype, target.dtype):
        yield f"{item.op}.{item.function} from {source.dtype} to {target.dtype} does not exist"
    if item.values[0] is not None and item.function not in ("argmax", "argmin"):
        yield "base belongs to argmax and argmin alone"
    wanted = _reduced(item, source)
    if (target.rows, target.columns) != wanted:
        yield f"d is {_shape(target)}; it must be {wanted[0]} x {wanted[1]}"


def _mma_result(a: DType, b: DType) -> DType | None:
    small = ("i8", "u8")
    if a.kind == "float8" and b.kind == "float8":
        return dtypes.f32
    if a.name in small and b.name in small:
        return dtypes.i32
    if a != b:
        return None
    table = {"f16": dtypes.f32, "bf16": dtypes.f32}
    return table.get(a.name, a if a.is_float or a.is_int else None)


def _mma(program: Program, item: Instruction, tiles: Tiles) -> Iterator[str]:
    a, b, d = tiles["a"], tiles["b"], tiles["d"]
    wanted = _mma_result(a.dtype, b.dtype)
    if wanted is None:
        yield f"mma of {a.dtype} and {b.dtype} does not exist"
    elif d.dtype != wanted:
        yield f"d is {d.dtype}; mma of {a.dtype} and {b.dtype} gives {wanted}"
    if (d.rows, d.columns) != (a.rows, b.columns) or a.columns != b.rows:
        yield f"shapes {_shape(a)} times {_shape(b)} do not give {_shape(d)}"


def _same_move(program: Program, item: Instruction, tiles: Tiles) -> Iterator[str]:
    a, d = tiles["a"], tiles["d"]
    if a.dtype != d.dtype or not _moves(a.dtype):
        yield f"a is {a.dtype} and d {d.dtype}; one float, int or bool type"
    wanted = (a.columns, a.rows) if item.op == "trn" else (a.rows, a.columns)
    if (d.rows, d.columns) != wanted:
        yield f"d is {_shape(d)}; it must be {wanted[0]} x {wanted[1]}"


def _index_tile(index: Tile, rows: int) -> Iterator[str]:
    if index.dtype not in _INDEX:
        yield f"the index tile is {index.dtype}; allowed: i32 i64"
    if (index.rows, index.columns) != (rows, 1):
        yield f"the index tile is {_shape(index)}; it must be {rows} x 1"


def _gather(program: Program, item: Instruction, tiles: Tiles) -> Iterator[str]:
    if not _moves(tiles["d"].dtype):
        yield f"gather of {tiles['d'].dtype}; allowed: float, int and bool types"
    yield from _global(program, item, tiles["d"], ("read", "inout"))
    yield from _index_tile(tiles["a"], tiles["d"].rows)


def _scatter(program: Program, item: Instruction, tiles: Tiles) -> Iterator[str]:
    values = tiles["a"]
    if not _moves(values.dtype):
        yield f"scatter of {values.dtype}; allowed: float, int and bool types"
    if item.function == "set":
        yield from _global(program, item, values, ("write", "inout"))
    else:
        if values.dtype.name not in ("f32", "f64", "i32", "i64"):
            yield f"scatter.{item.function} of {values.dtype}; allowed: f32 f64 i32 i64"
        yield from _global(program, item, values, ("inout",))
    yield from _index_tile(tiles["b"], values.rows)
    yield from _ignored_axes(program, item, values, ("column",))


def _topk(program: Program, item: Instruction, tiles: Tiles) -> Iterator[str]:
    values, index, tile = tiles["d"], tiles["c"], tiles["a"]
    if values.dtype != tile.dtype or not (tile.dtype.is_float or tile.dtype.is_int):
        yield f"values {values.dtype} and tile {tile.dtype}; one float or int type"
    if index.dtype not in _INDEX:
        yield f"the indices are {index.dtype}; allowed: i32 i64"
    if (values.rows, values.columns) != (index.rows, index.columns) or values.rows != tile.rows:
        shapes = f"values {_shape(values)}, indices {_shape(index)}, tile {_shape(tile)}"
        yield f"{shapes}; values and indices are alike and all have the same rows"


def _rng(program: Program, item: Instruction, tiles: Tiles) -> Iterator[str]:
    wanted = dtypes.i32 if item.function == "raw" else dtypes.f32
    if tiles["d"].dtype != wanted:
        yield f"d is {tiles['d'].dtype}; rng.{item.function} gives {wanted}"


def _sreg(program: Program, item: Instruction, tiles: Tiles) -> Iterator[str]:
    if item.function not in SREG_FORMS:
        return
    if item.function == "tile":
        tile = tiles["a"]
        if tile.dtype not in _INDEX or (tile.rows, tile.columns) != (1, 1):
            yield f"tile {tile.name} is {tile.dtype} {_shape(tile)}; an i32 or i64 tile of 1 x 1"
    elif item.function == "arg" and item.parameter is not None:
        dtype = program.params[item.parameter].dtype
        if dtype not in _INDEX:
            yield f"parameter is {dtype}; allowed: i32 i64"


_CHECKS: dict[str, Check] = {
    "load": _load,
    "store": _store,
    "fill": _fill,
    "iota": _iota,
    "un": _unary,
    "bin": _binary,
    "sel": _select,
    "cast": _cast,
    "red": _reduce,
    "scan": _reduce,
    "mma": _mma,
    "trn": _same_move,
    "copy": _same_move,
    "gather": _gather,
    "scatter": _scatter,
    "topk": _topk,
    "rng": _rng,
    "sreg": _sreg,
}
