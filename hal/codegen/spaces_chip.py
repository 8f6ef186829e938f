"""What a chip's description says about spaces: which operand may lie where, and what moves it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hal.vil.check_chip import Limits, operand_ends, typed_role
from hal.vil.model import Instruction, Program, Tile
from hal.vil.tables import OPS, SPACES

if TYPE_CHECKING:
    from hal.hcd import Hcd

__all__ = ["Chip", "Wanted"]

_COPY_ENGINES = OPS["copy"].engines


@dataclass(frozen=True, slots=True)
class Wanted:
    """Where an operand may lie; None is anywhere."""

    spaces: frozenset[str] | None = None
    layouts: frozenset[str] | None = None

    def takes(self, space: str, layout: str) -> bool:
        """True for a tile that the operation can use as it is."""
        in_space = self.spaces is None or space in self.spaces
        return in_space and (self.layouts is None or layout in self.layouts)


@dataclass(frozen=True, slots=True)
class Chip:
    """The limits, and which engine moves tiles between two spaces."""

    limits: Limits
    movers: dict[tuple[str, str], str]

    @staticmethod
    def of(hcd: Hcd | dict[str, Any]) -> Chip:
        """Reads a description; raises VilError when it has no `kernels.vil`."""
        limits = Limits.of(hcd)
        data: dict[str, Any] = hcd if isinstance(hcd, dict) else hcd.data
        vil = data["kernels"]["vil"]
        engines: dict[str, str] = {}
        for item in vil.get("engines", []):
            engines.setdefault(item["unit"], item["id"])
        paths = {
            (item["from"], item["to"]): engines.get(item.get("engine", ""), "")
            for item in data.get("paths", [])
        }
        memory = {item["id"]: item["memory"] for item in vil["spaces"]}
        movers = {
            (one, other): paths[memory[one], memory[other]]
            for one in memory
            for other in memory
            if (memory[one], memory[other]) in paths and one != other
        }
        return Chip(limits, movers)

    @property
    def spaces(self) -> list[str]:
        """Spaces that hold tiles, near first."""
        return [name for name in SPACES if name in self.limits.spaces]

    def mover(self, source: str, target: str) -> str:
        """The engine of a COPY: that of the path between the two memories, else the vector one."""
        engine = self.movers.get((source, target), "vector")
        return engine if engine in _COPY_ENGINES else "vector"

    def route(self, source: str, target: str) -> list[str]:
        """Spaces that a tile passes on its way, both ends included; through near where paths go."""
        direct = (source, target) in self.movers or source == target
        if direct or "near" in (source, target):
            return [source, target]
        both = (source, "near") in self.movers and ("near", target) in self.movers
        return [source, "near", target] if both else [source, target]

    def wants(self, program: Program, item: Instruction) -> dict[str, Wanted]:
        """For each tile role of an instruction where the operand may lie.

        Of several rows that allow operation, function and types, the first one counts.
        """
        row = next(self._rows(program, item), {})
        found: dict[str, Wanted] = {}
        inputs, outputs = operand_ends(item)
        for role in ("a", "b", "c", "d"):
            if getattr(item, role) is None:
                continue
            end = "in" if role in inputs else "out" if role in outputs else ""
            if item.op == "mma":
                end = "out" if role == "d" else role
            spaces, layouts = row.get(f"spaces_{end}"), row.get(f"layouts_{end}")
            is_near = (item.op == "load" and role == "a") or (item.op == "store" and role == "d")
            if is_near:
                spaces = ["near"]
            found[role] = Wanted(
                None if spaces is None else frozenset(spaces),
                None if layouts is None else frozenset(layouts),
            )
        return found

    def _rows(self, program: Program, item: Instruction) -> Iterator[dict[str, Any]]:
        types = {
            role: program.tiles[reference.tile].dtype.name
            for role in ("a", "b", "c", "d")
            if (reference := getattr(item, role)) is not None
        }
        roles = ["a", "b"] if item.op == "mma" else [typed_role(item.op)]
        for row in (self.limits.rows or {}).get(item.op, []):
            if OPS[item.op].functions and item.function not in row.get(
                "functions", [item.function]
            ):
                continue
            if any(role in types and types[role] not in row.get("dtypes", [types[role]])
                   for role in roles):  # fmt: skip
                continue
            if item.op == "cast" and types["d"] not in row.get("dtypes_to", [types["d"]]):
                continue
            yield row

    def layout(self, tile: Tile, wanted: list[Wanted], space: str) -> str:
        """The layout of a tile in a space: its own where all users take it, else one they take."""
        here = [each for each in wanted if each.spaces is None or space in each.spaces]
        users = [each.layouts for each in here if each.layouts is not None]
        own = tile.layout if tile.layout in self.limits.layouts else "row"
        order = [own, "row", *sorted(self.limits.layouts - {own, "row", "panel"})]
        counts = [sum(layout in each for each in users) for layout in order]
        return order[counts.index(max(counts))]
