"""What the file of a shared library says of itself, read without loading it."""

from __future__ import annotations

import platform
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hal.errors import UsageError

__all__ = ["ARCHITECTURES", "Library", "host_architecture", "read_library"]

ARCHITECTURES = {
    ("EM_X86_64", 64): "x86_64",
    ("EM_386", 32): "i686",
    ("EM_AARCH64", 64): "aarch64",
    ("EM_ARM", 32): "armv7l",
    ("EM_RISCV", 64): "riscv64",
    ("EM_PPC64", 64): "ppc64le",
    ("EM_S390", 64): "s390x",
    ("EM_LOONGARCH", 64): "loongarch64",
}
"""The name that Python's platform tags have for a machine and a word size."""

_SAME = {"amd64": "x86_64", "arm64": "aarch64", "i386": "i686"}
_OUTSIDE = {"STB_GLOBAL", "STB_WEAK", "STB_LOOS"}


@dataclass
class Library:
    """A shared library as its file describes it.

    Attributes:
        path: The file.
        architecture: As in a platform tag, `x86_64`; `?` with the file's own word when unknown.
        is_shared: False for an executable or an object file.
        exported: Names that others can use.
        undefined: Names that others must supply; a weak one, which may be absent, is not here.
        needed: Libraries that the file asks the system for.
        search_paths: Its own folders to look for them.
    """

    path: Path
    architecture: str
    is_shared: bool
    exported: list[str] = field(default_factory=list)
    undefined: list[str] = field(default_factory=list)
    needed: list[str] = field(default_factory=list)
    search_paths: list[str] = field(default_factory=list)


def host_architecture() -> str:
    """This machine's architecture, as in a platform tag."""
    name = platform.machine().lower()
    return _SAME.get(name, name)


def read_library(path: Path) -> Library:
    """Read a library's tables.

    Raises:
        UsageError: the file is no ELF file, or a damaged one.
    """
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    try:
        with path.open("rb") as file:
            return _read(path, ELFFile(file))
    except (ELFError, ValueError, KeyError, IndexError, AttributeError, TypeError) as error:
        with path.open("rb") as file:
            is_elf = file.read(4) == b"\x7fELF"
        said = f"is a damaged ELF file ({error})" if is_elf else "is no ELF file"
        raise UsageError(
            f"{path} {said}",
            call="port.check",
            next_step="Name the shared library that the build made, hal_port_NAME.so.",
        ) from None


def _read(path: Path, elf: Any) -> Library:
    machine, bits = str(elf["e_machine"]), int(elf.elfclass)
    architecture = ARCHITECTURES.get((machine, bits), f"? ({machine}, {bits} bits)")
    library = Library(path, architecture, str(elf["e_type"]) == "ET_DYN")
    symbols = elf.get_section_by_name(".dynsym")
    for symbol in symbols.iter_symbols() if symbols is not None else ():
        bind = symbol["st_info"]["bind"]
        if bind not in _OUTSIDE or not symbol.name:
            continue
        if symbol["st_shndx"] != "SHN_UNDEF":
            library.exported.append(symbol.name)
        elif bind != "STB_WEAK":
            library.undefined.append(symbol.name)
    dynamic = elf.get_section_by_name(".dynamic")
    for tag in dynamic.iter_tags() if dynamic is not None else ():
        if tag.entry.d_tag == "DT_NEEDED":
            library.needed.append(tag.needed)
        elif tag.entry.d_tag in {"DT_RUNPATH", "DT_RPATH"}:
            library.search_paths += str(getattr(tag, "runpath", getattr(tag, "rpath", ""))).split(
                ":"
            )
    return library
