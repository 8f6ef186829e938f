"""What a description says about the parts that are measured."""

from __future__ import annotations

from hal.hcd import Hcd, unit_count

__all__ = [
    "host_memory",
    "largest_cache_bytes",
    "memory_bytes_per_s",
    "unit_rate_hz",
]


def unit_rate_hz(hcd: Hcd, unit: str) -> float:
    """Cycles a second of all instances of a unit on the chip together."""
    clock = hcd.get(f"units.{unit}.clock")
    return float(hcd.get(f"clocks.{clock}.sustained_hz", 0)) * unit_count(hcd.data, unit)


def memory_bytes_per_s(hcd: Hcd, memory: str) -> float | None:
    """Bandwidth of one instance of a memory, by time or by the clock of its scope."""
    rate = hcd.get(f"memory.{memory}.bandwidth_bytes_per_s")
    if rate is not None:
        return float(rate)
    each = hcd.get(f"memory.{memory}.bandwidth_bytes_per_cycle")
    clock = hcd.get(f"units.{hcd.get(f'memory.{memory}.scope')}.clock")
    hertz = hcd.get(f"clocks.{clock}.sustained_hz")
    return None if each is None or hertz is None else float(each) * float(hertz)


def largest_cache_bytes(hcd: Hcd) -> int:
    """Capacity of the largest cache; 0 where there is none."""
    caches = [item for item in hcd.get("memory", []) if item.get("kind") == "cache"]
    return max((int(item["capacity_bytes"]) for item in caches), default=0)


def host_memory(hcd: Hcd) -> str | None:
    """The id of the host's memory, where the description has one."""
    for item in hcd.get("memory", []):
        if item.get("kind") == "host":
            return str(item["id"])
    return None
