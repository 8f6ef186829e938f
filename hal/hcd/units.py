"""What follows from the units of a description."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["unit_count"]


def unit_count(data: Mapping[str, Any], unit: str) -> int:
    """How many of a unit the chip has: its count times that of its parents; 1 for an unknown one.

    Args:
        data: A description as nested data (`Hcd.data`).
    """
    units = {item["id"]: item for item in data.get("units", [])}
    total, seen = 1, set()
    while unit in units and unit not in seen:
        seen.add(unit)
        total *= int(units[unit].get("count", 1))
        unit = units[unit].get("parent", "")
    return total
