"""The build of a port's folder with CMake against the HAL that is installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from hal import _paths
from hal.errors import UsageError
from hal.portkit.check import PortCheck, check, locate

__all__ = ["Build", "build", "build_folder", "checked", "toolchain_file"]

_SANITIZERS = "-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer"
_NOISE = re.compile(
    r"\[\s*\d+[%/]|FAILED: |ninja: |g?make(\[\d+\])?: |-- |Consolidate |Scanning |: && |"
    r"/\S*(cc|gcc|clang|c\+\+|g\+\+|clang\+\+|nvcc)\S* |collect2: |Configuring incomplete"
)
_UNDEFINED = re.compile(r"undefined (?:reference to|symbol:) [`']?(\w+)'?")
_UNDEFINED_SHOWN = 8
_TOLD = re.compile(r"error|warning|undefined|CMake|No such file", re.I)


@dataclass
class Build:
    """How a build ended.

    Attributes:
        folder: The port's folder.
        is_good: Whether there is a library.
        step: `configure` or `compile`: the last one that ran.
        messages: What the tools said that a reader needs: errors and warnings with their lines.
        next_step: What to do about a failure that we know; else empty.
        library: The library; None when the build failed.
        is_sanitized: The library needs the sanitizer's own library to be loaded first.
        is_foreign: It was built with a toolchain that was asked for, so its code may not run here.
    """

    folder: Path
    is_good: bool = False
    step: str = "configure"
    messages: list[str] = field(default_factory=list)
    next_step: str = ""
    library: Path | None = None
    is_sanitized: bool = False
    is_foreign: bool = False


def toolchain_file(name: str) -> Path:
    """The file of a toolchain: one of ours by its name (`hal paths toolchains`), or a path.

    Raises:
        UsageError: there is no such file.
    """
    ours = _paths.toolchains_dir()
    for path in (ours / f"{name}.cmake", Path(name)):
        if path.is_file():
            return path.resolve()
    known = sorted(path.stem for path in ours.glob("*.cmake"))
    raise UsageError(
        f"there is no toolchain '{name}'",
        call="port.build",
        next_step=f"Name one of {', '.join(known)}, or a toolchain file of CMake.",
    )


def build_folder(folder: Path, toolchain: str) -> Path:
    """Where the build for a toolchain lies."""
    return folder / f"build-{toolchain_file(toolchain).stem}"


def build(
    folder: Path, *, debug: bool = False, sanitize: bool = False, toolchain: str = ""
) -> Build:
    """Configure and compile.

    Args:
        folder: The port's folder, which has a CMakeLists.txt.
        debug: No optimisation.
        sanitize: With AddressSanitizer and UndefinedBehaviorSanitizer.
        toolchain: Name or file of a toolchain, for another machine; empty for this one.

    Raises:
        UsageError: there is nothing to build here, or nothing to build it with.
    """
    if not (folder / "CMakeLists.txt").is_file():
        raise UsageError(
            f"{folder} has no CMakeLists.txt" if folder.is_dir() else f"{folder} is no folder",
            call="port.build",
            next_step="Name a port's folder, or start one: hal port new NAME",
        )
    cmake = _tool("cmake")
    if cmake is None:
        raise UsageError(
            "CMake is missing", call="port.build", next_step="Install it: pip install cmake ninja"
        )
    kind = "Debug" if debug or sanitize else "Release"
    place = folder / ("build" if kind == "Release" else f"build-{kind.lower()}")
    place = folder / "build-sanitize" if sanitize else place
    place = build_folder(folder, toolchain) if toolchain else place
    words = [cmake, "--no-warn-unused-cli", "-S", str(folder), "-B", str(place)]
    words.append(f"-DCMAKE_BUILD_TYPE={kind}")
    words.append(f"-Dhal_DIR={_paths.cmake_dir()}")
    if not (place / "CMakeCache.txt").is_file():
        words += _generator()
        if toolchain:
            words.append(f"-DCMAKE_TOOLCHAIN_FILE={toolchain_file(toolchain)}")
    if sanitize:
        words += [f"-DCMAKE_C_FLAGS={_SANITIZERS} -g", f"-DCMAKE_CXX_FLAGS={_SANITIZERS} -g"]
    made = Build(folder, is_sanitized=sanitize, is_foreign=bool(toolchain))
    for step, command in (("configure", words), ("compile", [cmake, "--build", str(place)])):
        made.step = step
        done = subprocess.run(command, capture_output=True, text=True, errors="replace")
        output = done.stdout + done.stderr
        made.messages += _plain(output, failed=done.returncode != 0)
        if done.returncode != 0:
            made.next_step = _next_step(output)
            return made
    inside = sorted(place.rglob("hal_port_*.so"))
    made.library = inside[0].resolve() if len(inside) == 1 else locate(folder)[0]
    made.is_good = True
    return made


def checked(made: Build) -> PortCheck:
    """Check what was built; a sanitized library is looked at with the sanitizer loaded first.

    That a library for another machine does not run here is no fault.
    """
    assert made.library is not None
    with _sanitizer_first(made.is_sanitized):
        found = check(made.library)
    for finding in found.findings:
        if made.is_foreign and finding.subject == "file" and finding.state == "wrong":
            finding.state = "later"  # as it was asked for
    return found


@contextmanager
def _sanitizer_first(wanted: bool) -> Iterator[None]:
    """Give the children of this process the sanitizer's library, and take it away again."""
    if not wanted:
        yield
        return
    compiler = os.environ.get("CC") or shutil.which("cc") or "gcc"
    done = subprocess.run(
        [compiler, "-print-file-name=libasan.so"], capture_output=True, text=True, check=False
    )
    given = {"LD_PRELOAD": done.stdout.strip(), "ASAN_OPTIONS": "detect_leaks=0"}
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


def _tool(name: str) -> str | None:
    """A program on the path, or beside this Python."""
    beside = Path(sysconfig.get_path("scripts")) / name
    return shutil.which(name) or (str(beside) if beside.is_file() else None)


def _generator() -> list[str]:
    """Ninja where make is missing and nothing else is wished."""
    if "CMAKE_GENERATOR" in os.environ or shutil.which("make"):
        return []
    ninja = _tool("ninja")
    return ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}"] if ninja else []


def _plain(output: str, *, failed: bool) -> list[str]:
    """What the tools said without their progress and command lines.

    Of a good step only warnings are kept, and of a bad one all from the first error or warning on.
    """
    lines = [line for line in output.splitlines() if not _NOISE.match(line.strip())]
    first = next((i for i, line in enumerate(lines) if _TOLD.search(line)), None)
    if first is None:
        return lines if failed else []
    if not failed and not any("warning" in line.lower() for line in lines):
        return []
    while first > 0 and lines[first - 1].rstrip().endswith(":"):
        first -= 1  # "port.c: In function 'f':"
    return _without_repetition([line.rstrip() for line in lines[first:]])


def _without_repetition(lines: list[str]) -> list[str]:
    """The first symbols that nobody supplies, and how many more there are."""
    kept, names = [], set()
    for line in lines:
        found = _UNDEFINED.search(line)
        if found:
            names.add(found[1])
        if len(names) <= _UNDEFINED_SHOWN or not (found or ": in function " in line):
            kept.append(line)
    if len(names) > _UNDEFINED_SHOWN:
        kept.append(f"and {len(names) - _UNDEFINED_SHOWN} more undefined names")
    return kept


def _next_step(output: str) -> str:
    """What to do about a failure whose cause is known; empty for all others."""
    names = set(_UNDEFINED.findall(output))
    if any(name.startswith(("kit_", "vil_")) for name in names):
        return (
            "kit_… and vil_… are the kit's: write KIT in hal_add_port, and look for the name in "
            "the headers in 'hal paths kit'."
        )
    if any(re.match(r"_?Py[A-Z_]|hal_", name) for name in names):
        return "A port imports no symbol of its host: it is plain C, and calls nothing of HAL."
    if names:
        return "Give the file or library that has it to hal_add_port: SOURCES or LIBRARIES."
    if "CMAKE_C_COMPILER could be found" in output:
        return (
            "Install a C compiler: apt-get install gcc, or without root pip install ziglang and "
            "set CC='python3 -m ziglang cc'."
        )
    if 'find a package configuration file provided by "hal"' in output:
        return "Run it in the environment in which HAL is installed."
    return ""
