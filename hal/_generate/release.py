"""Releases of the ABI that are kept: `tests/compatibility/releases/MAJOR.MINOR/`.

A kept release is its header, its layout, a small port in one file, and the example vendor with the
kit that it was built on, so that ports of that release can be compiled for ever. What the registry
says today may add to it and may move nothing.
"""

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

from hal._generate.registry import RegistryError

RELEASES = Path("tests/compatibility/releases")
KEPT = {
    "hal/hal.h": Path("include/hal/hal.h"),
    "layout.json": Path("tests/golden/layout.json"),
    "port.c": Path("tests/native/ports/fake.c"),
}
"""What is kept of a release as it is, and where it stands before."""

EXAMPLE = "example.tar.xz"
"""The sources of a port on the kit, packed."""

_PACKED = (
    "docs/examples/*/*.c",
    "docs/examples/*/*.yaml",
    "docs/examples/*/runtime/*.[ch]",
    "vendors/kit/*.[ch]",
)
SUMS = "SHA256SUMS"


def sums(folder: Path) -> str:
    """The text of SHA256SUMS for a kept release, as sha256sum prints it."""
    rows = [
        (hashlib.sha256((folder / name).read_bytes()).hexdigest(), name)
        for name in (*KEPT, EXAMPLE)
    ]
    return "".join(f"{digest}  {name}\n" for digest, name in sorted(rows, key=lambda row: row[1]))


def freeze(root: Path, abi: dict[str, int]) -> Path:
    """Keep the generated files of the checkout as the release of ABI `abi`; return its folder.

    Raises:
        RegistryError: that release is kept already.
    """
    folder = root / RELEASES / f"{abi['major']}.{abi['minor']}"
    if folder.exists():
        raise RegistryError(
            f"{folder} is kept already and never changes; raise abi.minor in common.yaml"
        )
    for name, source in KEPT.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes((root / source).read_bytes())
    pack_example(root, folder / EXAMPLE)
    (folder / SUMS).write_text(sums(folder), encoding="utf-8")
    return folder


def pack_example(root: Path, target: Path) -> None:
    """Pack the example vendor and the kit; the same files give the same bytes."""
    with tarfile.open(target, "w:xz") as archive:
        for path in sorted(path for pattern in _PACKED for path in root.glob(pattern)):
            data = path.read_bytes()
            entry = tarfile.TarInfo(path.relative_to(root).as_posix())
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))


def check_releases(root: Path, layout: dict[str, Any]) -> list[str]:
    """What `layout` breaks of the kept releases of its major; empty when it only adds."""
    found = []
    for path in sorted((root / RELEASES).glob("*/layout.json")):
        kept = json.loads(path.read_text(encoding="utf-8"))
        if kept["abi"]["major"] == layout["abi"]["major"]:
            found += [f"ABI {path.parent.name}: {problem}" for problem in broken(kept, layout)]
    return found


def broken(kept: dict[str, Any], layout: dict[str, Any]) -> list[str]:
    """How `layout` differs from the kept one otherwise than by additions in a newer minor."""
    if kept == layout:
        return []
    if layout["abi"]["minor"] <= kept["abi"]["minor"]:
        return ["it was released, and the registry differs from it; raise abi.minor"]
    found = [
        f"{name} was {value} and is {layout['constants'].get(name, 'gone')}"
        for name, value in kept["constants"].items()
        if layout["constants"].get(name) != value
    ]
    for name, struct in kept["structs"].items():
        found += _broken_struct(name, struct, layout["structs"].get(name))
    return found


def _broken_struct(name: str, kept: dict[str, Any], now: dict[str, Any] | None) -> list[str]:
    """What moved in one struct or table."""
    if now is None:
        return [f"{name} is gone"]
    if "size" not in kept["fields"]:
        return [] if kept == now else [f"{name} has no size of its own, so it cannot change"]
    found = [
        f"{name}.{field} moved from {place} to {now['fields'].get(field, 'nowhere')}"
        for field, place in kept["fields"].items()
        if now["fields"].get(field) != place
    ]
    for field, place in now["fields"].items():
        if field not in kept["fields"] and place["offset"] < kept["size"]:
            found.append(
                f"{name}.{field} lies at {place['offset']}, inside the {kept['size']} bytes that "
                "the release already fills"
            )
    return found
