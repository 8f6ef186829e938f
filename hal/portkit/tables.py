"""The tables of a port held against the ABI's layout, in a process of its own.

`python -m hal.portkit.tables FILE` is the child: it loads the library, starts nothing, and prints
what it found as JSON in its last line. A library that crashes ends the child alone.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["TableLook", "look_at_tables"]

SECONDS = 20.0
"""How long loading a library may take."""

ROOM_BYTES = 512
"""How much larger than today's a table of a later HAL may be."""


@dataclass
class TableLook:
    """What a port's root and tables are.

    Attributes:
        problem: Why nothing could be read; empty when it was.
        odd: A sentence for each thing that contradicts the layout.
        abi: Version that the port speaks, as `1.0`.
        name: The port's own name.
        entries: How many entries the tables have.
    """

    problem: str = ""
    odd: list[str] = field(default_factory=list)
    abi: str = ""
    name: str = ""
    entries: int = 0


def look_at_tables(library: Path) -> TableLook:
    """Read a library's tables in a child. Never raises for what the library does."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "hal.portkit.tables", str(library)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return TableLook(f"loading it takes more than {SECONDS:.0f} s")
    if done.returncode < 0:
        number = -done.returncode
        name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
        return TableLook(f"reading its tables ends the process with {name}")
    try:
        return TableLook(**json.loads(done.stdout.splitlines()[-1]))
    except (IndexError, ValueError, TypeError):
        said = done.stderr.strip().splitlines()
        return TableLook(said[-1] if said else f"loading it ends with status {done.returncode}")


def _look(path: str) -> TableLook:
    """Load the library here and read its root."""
    from hal.testing.abi import ABI_MAJOR, INTERFACES
    from hal.testing.raw import PortRefused, open_target
    from hal.testing.session import Target

    try:
        raw = open_target(Target(path, path), init=False)
    except PortRefused as refused:
        return TableLook(refused.reason)
    root, ffi = raw.root, raw.ffi
    found = TableLook(abi=f"{root.abi_major}.{root.abi_minor}")
    if root.name != ffi.NULL:
        found.name = ffi.string(root.name, 200).decode("utf-8", "replace")
    if root.abi_major != ABI_MAJOR:
        found.odd.append(f"the root says ABI {found.abi}; this HAL speaks {ABI_MAJOR}")
    found.odd += _odd_size("hal_port_root", root.size, ffi)
    code = _code_ranges()
    for interface in INTERFACES:
        table = raw.table(interface)
        if table is None:
            continue
        kind = f"hal_{interface}_table"
        odd = _odd_size(kind, table.size, ffi)
        found.odd += odd
        if odd:
            continue  # its entries are where nothing of ours is
        for verb, _ in ffi.typeof(kind).fields[1:]:
            entry = raw.entry(f"{interface}.{verb}")
            if entry is None:
                continue
            found.entries += 1
            address = int(ffi.cast("uintptr_t", entry))
            if code and not any(low <= address < high for low, high in code):
                found.odd.append(f"{kind}.{verb} points to {address:#x}, where no code is")
    return found


def _odd_size(kind: str, size: int, ffi: Any) -> list[str]:
    """Say so when a struct's size is none; the loader refuses what cannot be one at all."""
    full = ffi.sizeof(kind)
    if size > full + ROOM_BYTES:
        return [f"{kind}.size is {size}, far beyond the {full} of this HAL: it is no size"]
    return []


def _code_ranges() -> list[tuple[int, int]]:
    """The address ranges of this process that hold code; empty where the system does not tell."""
    maps = Path("/proc/self/maps")
    if not maps.is_file():
        return []
    ranges = []
    for line in maps.read_text(encoding="utf-8").splitlines():
        span, access = line.split()[:2]
        if "x" in access:
            low, _, high = span.partition("-")
            ranges.append((int(low, 16), int(high, 16)))
    return ranges


def main() -> None:
    """The child."""
    print("\n" + json.dumps(asdict(_look(sys.argv[1]))), flush=True)


if __name__ == "__main__":
    main()
