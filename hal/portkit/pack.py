"""A wheel of a built port: the library, its description and the entry point, and no Python code.

A wheel is a zip with three texts; it is written here as the specification of binary packages says,
so that what is shipped is the file that was checked and nothing needs to be installed for it. Two
runs over the same files give the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
import re
import shutil
import tempfile
import tomllib
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hal.errors import HcdError, UsageError
from hal.port.discovery import GROUP
from hal.portkit.build import build_folder
from hal.portkit.check import PortCheck, check, locate
from hal.portkit.library import ARCHITECTURES, host_architecture

__all__ = ["Package", "pack"]

_DATE = (1980, 1, 1, 0, 0, 0)
_VERSION = re.compile(r"\d+(\.\d+)*((a|b|rc)\d+)?(\.post\d+)?(\.dev\d+)?(\+[a-z0-9.]+)?")
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")


@dataclass
class Package:
    """What a port's package says of itself.

    Attributes:
        port: Name of the port, which users type.
        name: Name of the package, which pip installs.
        version: Its version.
        summary: One line.
        python: The Python that it asks for.
        needs: Other packages that it asks for.
    """

    port: str
    name: str
    version: str
    summary: str = ""
    python: str = ">=3.11"
    needs: list[str] = field(default_factory=lambda: ["hal-sdk"])


def pack(folder: Path, *, into: Path | None = None, version: str = "", toolchain: str = "") -> Path:
    """Write the wheel of the port that was built in a folder.

    Args:
        folder: The port's folder.
        into: Folder of the wheel; `dist` in the port's folder by default.
        version: Version of the package; by default the one in pyproject.toml.
        toolchain: Take the library that was built with this toolchain, not the folder's own.

    Returns:
        The wheel.

    Raises:
        UsageError: there is no library, no description or no version, or the library is not sound.
    """
    place = build_folder(folder, toolchain) if toolchain else folder
    library, hcd = locate(place)
    if hcd is None:
        raise UsageError(
            f"no description lies beside {library.name}, or more than one",
            call="port.pack",
            next_step=f"Put the chip's description into the folder, as {library.stem}.hcd.yaml.",
        )
    found = check(place)
    _refuse_unsound(found)
    package = _describe(folder, library, version)
    _refuse_needy(hcd)
    into = into or folder / "dist"
    into.mkdir(parents=True, exist_ok=True)
    tag = f"py3-none-linux_{found.architecture}"
    stem = f"{re.sub(r'[-_.]+', '_', package.name).lower()}-{package.version}"
    wheel = into / f"{stem}-{tag}.whl"
    inside = f"hal_port_{package.port}"
    files = {
        f"{inside}/{inside}.so": library.read_bytes(),
        f"{inside}/{hcd.name}": hcd.read_bytes(),
        f"{stem}.dist-info/METADATA": _metadata(package).encode(),
        f"{stem}.dist-info/WHEEL": (
            f"Wheel-Version: 1.0\nGenerator: hal port pack\nRoot-Is-Purelib: false\nTag: {tag}\n"
        ).encode(),
        f"{stem}.dist-info/entry_points.txt": (
            f"[{GROUP}]\n{package.port} = {inside}:{inside}.so\n"
        ).encode(),
    }
    _write(wheel, files, f"{stem}.dist-info/RECORD")
    return wheel


def _refuse_unsound(found: PortCheck) -> None:
    """Refuse a library that is wrong; one for another machine may be packed, unseen."""
    is_foreign = found.architecture != host_architecture()
    if found.architecture not in ARCHITECTURES.values():
        raise UsageError(
            f"{found.path} is for {found.architecture}, which has no platform tag",
            call="port.pack",
            next_step=f"Build it for one of {', '.join(sorted(ARCHITECTURES.values()))}.",
        )
    wrong = [
        finding.text
        for finding in found.findings
        if finding.state == "wrong" and not (is_foreign and finding.subject == "file")
    ]
    if wrong:
        raise UsageError(
            f"{found.path} is not sound: {' '.join(wrong)}",
            call="port.pack",
            next_step="See all of it with 'hal port check'.",
        )


def _refuse_needy(hcd: Path) -> None:
    """Refuse a description that needs files beside it: only itself is packed."""
    from hal.port.description import load_description

    with tempfile.TemporaryDirectory() as alone:
        shutil.copy(hcd, alone)
        try:
            load_description(Path(alone) / hcd.name)
        except HcdError as error:
            raise UsageError(
                f"{hcd.name} does not stand alone: {error}",
                call="port.pack",
                next_step="Extend shipped descriptions only ('hal hcd list').",
            ) from None


def _describe(folder: Path, library: Path, version: str) -> Package:
    """What pyproject.toml says of the package; without one, what follows from the library."""
    port = library.name.removesuffix(".so").removeprefix("hal_port_")
    source = folder / "pyproject.toml"
    project: dict[str, Any] = {}
    if source.is_file():
        try:
            project = tomllib.loads(source.read_text(encoding="utf-8")).get("project", {})
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise UsageError(f"{source}: {error}", call="port.pack") from None
    package = Package(
        port,
        str(project.get("name") or f"hal-port-{port}"),
        version or str(project.get("version") or ""),
        str(project.get("description") or f"HAL's port of {port}"),
        str(project.get("requires-python") or ">=3.11"),
        [str(need) for need in project.get("dependencies", ["hal-sdk"])],
    )
    if _VERSION.fullmatch(package.version) is None:
        raise UsageError(
            f"'{package.version}' is no version of a package",
            call="port.pack",
            next_step="Write it into pyproject.toml, or give --version 0.1.0.",
        )
    if _NAME.fullmatch(package.name) is None:
        raise UsageError(
            f"'{package.name}' cannot name a package",
            call="port.pack",
            next_step="Correct it in pyproject.toml.",
        )
    return package


def _metadata(package: Package) -> str:
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {package.name}",
        f"Version: {package.version}",
        f"Summary: {' '.join(package.summary.split())}",
        f"Requires-Python: {package.python}",
        *(f"Requires-Dist: {need}" for need in package.needs),
    ]
    return "\n".join(lines) + "\n"


def _write(wheel: Path, files: dict[str, bytes], record: str) -> None:
    """Write the zip with the record of its files at the end."""
    rows = []
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            _add(archive, name, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=")
            rows.append(f"{name},sha256={digest.decode()},{len(data)}")
        _add(archive, record, "\n".join([*rows, f"{record},,", ""]).encode())


def _add(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    info = zipfile.ZipInfo(name, _DATE)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = (0o755 if name.endswith(".so") else 0o644) << 16
    archive.writestr(info, data)
