"""Validator: what one chip can run, read from the keys `kernels.vil.*` of its HCD."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hal.vil.check_instructions import place_of
from hal.vil.errors import VilError
from hal.vil.features import required_features
from hal.vil.model import Instruction, Program, Tile
from hal.vil.module import Module
from hal.vil.problems import Problem
from hal.vil.tables import OPS

if TYPE_CHECKING:
    from hal.hcd import Hcd

__all__ = ["Limits", "chip_problems", "operand_ends", "typed_role"]

_CHIP_FEATURES = (
    "near_descriptors",
    "fp8_mma",
    "sreg_from_tile",
    "contraction",
    "deterministic_scatter",
)
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Limits:
    """The facts of `kernels.vil` that the validator uses; the defaults are `vil-core`."""

    explicit: bool = False
    granule_rows: int = 1
    granule_columns: int = 1
    max_rows: int = 64
    max_columns: int = 64
    max_tile_bytes: int = 32768
    max_tiles: int = 64
    max_instructions: int = 4096
    registers: int = 64
    grid_bits: int = 31
    token_count: int = 0
    features: frozenset[str] = frozenset(("near_descriptors", "sreg_from_tile"))
    layouts: frozenset[str] = frozenset(("row", "col"))
    panel_rows: frozenset[int] = frozenset()
    spaces: dict[str, tuple[int, int]] = field(default_factory=lambda: {"near": (1 << 20, 1)})
    rows: dict[str, list[Row]] | None = None

    @staticmethod
    def of(hcd: Hcd | dict[str, Any] | None) -> Limits:
        """The limits of a chip: an Hcd, its plain data, or None for `vil-core`.

        Raises:
            VilError: the description has no `kernels.vil`.
        """
        if hcd is None:
            return Limits()
        data: dict[str, Any] = hcd if isinstance(hcd, dict) else hcd.data
        vil = data.get("kernels", {}).get("vil")
        if not vil:
            raise VilError(
                "the chip's description has no section kernels.vil",
                call="vil.validate",
                next_step="Only chips that load vil.v1 can run VIL.",
            )
        memories = {item["id"]: item for item in data.get("memory", [])}
        spaces: dict[str, tuple[int, int]] = {}
        for item in vil["spaces"]:
            whole = memories.get(item["memory"], {}).get("capacity_bytes", 2**62)
            size = item.get("capacity_bytes", whole)
            spaces[item["id"]] = (int(size), int(item.get("alignment_bytes", 1)))
        rows: dict[str, list[Row]] = {}
        for row in vil["ops"]:
            rows.setdefault(row["op"], []).append(row)
        return Limits(
            vil["profile"] == "explicit",
            vil["granule_rows"],
            vil["granule_columns"],
            vil["max_rows"],
            vil["max_columns"],
            vil["max_tile_bytes"],
            vil["max_tiles"],
            vil.get("max_instructions", 2**31),
            vil["registers_per_program"],
            vil["grid_bits"],
            vil["token_count"],
            frozenset(vil.get("features", ())),
            frozenset(vil["layouts"]),
            frozenset(vil.get("panel_rows", ())),
            spaces,
            rows,
        )


def chip_problems(program: Program, limits: Limits) -> Iterator[Problem]:
    """Every rule of a sound program that the chip does not meet."""
    where = f"program {program.name}"
    if program.profile == "explicit" and not limits.explicit:
        yield Problem(where, "an explicit program; the chip runs flat ones alone", "chip")
    for count, most, what in (
        (len(program.tiles), limits.max_tiles, "tiles"),
        (len(program.instructions), limits.max_instructions, "instructions"),
        (program.sreg_count, limits.registers, "SREGs"),
        (len(program.tokens), limits.token_count, "tokens"),
    ):
        if count > most:
            yield Problem(where, f"{count} {what}; the chip has at most {most}", "chip")
    needed = required_features(Module(programs=(program,))) & set(_CHIP_FEATURES)
    for name in sorted(needed - limits.features):
        yield Problem(where, f"needs the feature {name}, which the chip lacks", "chip")
    for tile in program.tiles:
        for text in _tile_problems(program, tile, limits):
            yield Problem(f"{where}, tile {tile.name}", text, "chip")
    for number, item in enumerate(program.instructions):
        text = _row_problem(program, item, limits)
        if text:
            yield Problem(place_of(program, number), text, "chip", item.line)


def _tile_problems(program: Program, tile: Tile, limits: Limits) -> Iterator[str]:
    for length, granule, most, what in (
        (tile.rows, limits.granule_rows, limits.max_rows, "rows"),
        (tile.columns, limits.granule_columns, limits.max_columns, "columns"),
    ):
        if length != 1 and length % granule:
            yield f"{length} {what}; the chip takes 1 or a multiple of {granule}"
        if length > most:
            yield f"{length} {what}; the chip takes at most {most}"
    if tile.bytes > limits.max_tile_bytes:
        yield f"{tile.bytes} bytes; the chip takes at most {limits.max_tile_bytes}"
    if tile.layout not in limits.layouts:
        yield f"layout {tile.layout}; the chip knows {' '.join(sorted(limits.layouts))}"
    elif tile.layout == "panel" and tile.panel not in limits.panel_rows:
        yield f"panel({tile.panel}); the chip knows {sorted(limits.panel_rows)}"
    place = tile.space
    if place not in limits.spaces:
        if program.profile == "explicit":
            yield f"space {place}; the chip has {' '.join(limits.spaces)}"
            return
        place = "near"
    capacity, alignment = limits.spaces.get(place, (2**62, 1))
    if tile.offset + tile.total_bytes > capacity:
        end = tile.offset + tile.total_bytes
        yield f"ends at byte {end} of {place}, which has {capacity}"
    if tile.offset % alignment:
        yield f"offset {tile.offset}; {place} is aligned to {alignment}"


def operand_ends(item: Instruction) -> tuple[list[str], list[str]]:
    """Tile roles that count as inputs and outputs of a row of `ops`."""
    table = {
        "load": (["a"], ["d"]),
        "store": (["a"], ["d"]),
        "fill": ([], ["d"]),
        "iota": ([], ["d"]),
        "rng": ([], ["d"]),
        "mma": ([], ["d"]),
        "scatter": (["a", "b"], []),
        "topk": (["a"], ["d", "c"]),
        "sreg": ([], []),
    }
    return table.get(item.op, (["a", "b", "c"], ["d"]))


def typed_role(op: str) -> str:
    """The tile whose type a row's `dtypes` names."""
    return {"load": "d", "fill": "d", "iota": "d", "rng": "d", "gather": "d", "sel": "b"}.get(
        op, "a"
    )


def _row_problem(program: Program, item: Instruction, limits: Limits) -> str:
    """Why no row of `ops` allows an instruction, or an empty text."""
    if item.op == "end":
        return ""
    if limits.rows is None:
        return _core_problem(program, item)
    rows = limits.rows.get(item.op, [])
    if not rows:
        return f"the chip has no {item.op}"
    reasons: list[str] = []
    for row in rows:
        text = _against(program, item, row)
        if not text:
            return ""
        reasons.append(text)
    named = [text for text in reasons if not text.startswith("function")]
    return (named or reasons)[0]


def _core_problem(program: Program, item: Instruction) -> str:
    if item.op in ("signal", "wait"):
        return f"vil-core has no {item.op}"
    a = item.a
    if item.op == "mma" and a is not None and program.tiles[a.tile].dtype.kind == "float8":
        return "vil-core has no mma of 8-bit floats"
    return ""


def _against(program: Program, item: Instruction, row: Row) -> str:
    tiles = {
        role: program.tiles[reference.tile]
        for role in ("d", "a", "b", "c")
        if (reference := getattr(item, role)) is not None
    }
    name = row["id"]
    if OPS[item.op].functions and "functions" in row and item.function not in row["functions"]:
        return f"function {item.function} is not in the chip's rows of {item.op}"
    if item.op in ("loop", "if", "sreg", "signal", "wait"):
        return ""
    roles = ["a", "b"] if item.op == "mma" else [typed_role(item.op)]
    for role in roles:
        if "dtypes" in row and tiles[role].dtype.name not in row["dtypes"]:
            return f"{tiles[role].dtype} is not among the chip's types of {item.op} (row {name})"
    if item.op == "cast" and "dtypes_to" in row and tiles["d"].dtype.name not in row["dtypes_to"]:
        return f"{tiles['d'].dtype} is not among the chip's results of cast (row {name})"
    inputs, outputs = operand_ends(item)
    groups = [("in", inputs), ("out", outputs)]
    if item.op == "mma":
        groups = [("a", ["a"]), ("b", ["b"]), ("out", ["d"])]
    for end, members in groups:
        for tile in (tiles[role] for role in members if role in tiles):
            text = _placed(program, tile, row, end)
            if text:
                return text
    return ""


def _placed(program: Program, tile: Tile, row: Row, end: str) -> str:
    spaces, layouts = row.get(f"spaces_{end}"), row.get(f"layouts_{end}")
    if program.profile != "explicit":
        return ""
    if spaces is not None and tile.space not in spaces:
        return f"tile {tile.name} is in {tile.space}; row {row['id']} takes {' '.join(spaces)}"
    if layouts is not None and tile.layout not in layouts:
        return f"tile {tile.name} has layout {tile.layout}; the row takes {' '.join(layouts)}"
    return ""
