"""What an open chip says about itself."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DeviceInfo", "MemoryStats"]


@dataclass(frozen=True)
class MemoryStats:
    """A device's memory in figures; in use and peak count this process.

    Attributes:
        total_bytes: Memory that buffers can use.
        in_use_bytes: Sum of live buffers, the pool's among them.
        peak_bytes: Highest in_use_bytes so far.
        free_bytes: Free for everybody; None where the port cannot know.
    """

    total_bytes: int
    in_use_bytes: int
    peak_bytes: int
    free_bytes: int | None


@dataclass(frozen=True)
class DeviceInfo:
    """What `hal info` shows.

    Attributes:
        name: As `acme:0`.
        title: What the device calls itself.
        port: The port's name, vendor, version, library, ABI, runtime and where kernels run.
        hcd: The description's name, file and SHA-256.
        memory: Figures.
        capabilities: For each function `native`, `emulated` or `none`.
    """

    name: str
    title: str
    port: dict[str, str]
    hcd: dict[str, str]
    memory: MemoryStats
    capabilities: dict[str, str]
