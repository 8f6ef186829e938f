"""Where ports come from: packages that announce one, `HAL_PORT_PATH`, and explicit paths.

Nothing here opens a library. A `Candidate` says which file a name stands for, or why none does.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from hal import _paths
from hal.errors import UsageError

__all__ = [
    "BY_PATH",
    "DEFAULT_PORT",
    "GROUP",
    "PATH_ENV",
    "Candidate",
    "Spec",
    "all_candidates",
    "candidates",
    "descriptions",
    "namesakes",
    "next_step_here",
    "parse_spec",
]

DEFAULT_PORT = "sim"
"""The simulated chip: it forecasts, and it is certified when no port is named."""

GROUP = "hal.ports"
"""Entry-point group in which packages announce ports (docs/decisions/0001)."""

PATH_ENV = "HAL_PORT_PATH"
"""Environment variable: ports (.so files, or folders with one) separated by the path separator."""

BY_PATH = "path"
"""Source of a candidate that the caller named by its path."""

_PREFIX, _SUFFIX = "hal_port_", ".so"
_OWN_LIBRARIES = "hal._lib"
_PYTHON = "python"


@dataclass(frozen=True)
class Candidate:
    """A port that might be loaded.

    Attributes:
        name: Short name.
        source: Who names it: a package's entry point, the environment, or the caller.
        path: The shared object; None when `problem` says why there is none.
        hcd: The description that lies beside it, if exactly one does.
        problem: Why it cannot be loaded, as far as the file system tells; empty when it may.
        python_class: `FILE.py:CLASS` or `MODULE:CLASS` of a port in Python; empty for others.
    """

    name: str
    source: str
    path: Path | None = None
    hcd: Path | None = None
    problem: str = ""
    python_class: str = ""


@dataclass(frozen=True)
class Spec:
    """What a text such as `acme:chips/a1.hcd.yaml:2` asks for.

    Attributes:
        port: A port's name, the path of a .so file or of a folder, or a Python file or module.
        hcd: Description to load the port with: a file or a reference; empty for the port's own.
        index: Number of the device.
        has_index: False when the text names no device, so that 0 is meant.
        class_name: The class in a Python file or module; empty for other ports.
    """

    port: str
    hcd: str = ""
    index: int = 0
    has_index: bool = False
    class_name: str = ""

    @property
    def is_path(self) -> bool:
        """True when `port` is a file or a folder rather than a name."""
        return os.sep in self.port or self.port.endswith(_SUFFIX) or self.port in {".", ".."}

    @property
    def is_python(self) -> bool:
        """True when `port` is a Python file or module."""
        return bool(self.class_name) or self.port.endswith(".py")


def parse_spec(text: str) -> Spec:
    """Take `NAME[:HCD][:INDEX]` apart; a Python class is `FILE.py:CLASS` or `MODULE:CLASS`.

    Raises:
        UsageError: the text is not of that form.
    """
    if not isinstance(text, str):
        raise UsageError(
            f"{text!r} is no name of a device",
            call="hal.open",
            next_step="Write NAME or NAME:INDEX, for example 'acme:0'.",
        )
    rest, index, has_index = text, 0, False
    head, colon, tail = text.rpartition(":")
    if colon and tail.isascii() and tail.isdigit():
        rest, index, has_index = head, int(tail), True
    port, _, hcd = rest.partition(":")
    if not port or rest.endswith(":") or index > 2**32 - 1:
        raise UsageError(
            f"'{text}' does not name a device",
            call="hal.open",
            next_step="Write NAME, NAME:INDEX or NAME:HCD:INDEX, for example 'acme:0'.",
        )
    if port == _PYTHON and hcd:  # The word may stand before a class.
        port, _, hcd = hcd.partition(":")
    class_name, _, after = hcd.partition(":")
    if port.endswith(".py") or (text.startswith(f"{_PYTHON}:") and class_name):
        return Spec(port, after, index, has_index, class_name)
    if _is_module(port) and class_name.isidentifier() and not Path(class_name).exists():
        return Spec(port, after, index, has_index, class_name)
    return Spec(port, hcd, index, has_index)


def _is_module(name: str) -> bool:
    """Tell whether a name is a Python module's and no port's."""
    if not all(part.isidentifier() for part in name.split(".")):
        return False
    return _module_file(name) is not None and name not in {c.name for c in all_candidates()}


def _module_file(name: str) -> Path | None:
    """The file of a module: on Python's path, or below the current folder."""
    import importlib.util

    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        spec = None
    if spec is not None and spec.origin is not None and spec.origin.endswith(".py"):
        return Path(spec.origin)
    here = Path(*name.split(".")).with_suffix(".py")
    return here if here.is_file() else None


def port_name(path: Path) -> str:
    """The name that a file or folder stands for: `hal_port_acme.so` and `acme/` are `acme`."""
    stem = path.name.removesuffix(_SUFFIX)
    return stem.removeprefix(_PREFIX) or path.name


def candidates(spec: Spec) -> list[Candidate]:
    """Every place that offers the port, in order: the path itself, the environment, packages."""
    if spec.is_python:
        return [_of_class(spec)]
    if spec.is_path:
        return [_at_path(Path(spec.port).expanduser(), BY_PATH)]
    return [found for found in all_candidates() if found.name == spec.port]


def _of_class(spec: Spec) -> Candidate:
    """The port in C that serves Python classes, with a class to serve."""
    name, source = spec.class_name or spec.port, f"class in {spec.port}"
    file = Path(spec.port).expanduser() if spec.port.endswith(".py") else _module_file(spec.port)
    library = _paths.lib_dir() / f"{_PREFIX}{_PYTHON}{_SUFFIX}"
    problem = ""
    if file is None or not file.is_file():
        problem = f"{spec.port}: there is no such Python file or module"
    elif not spec.class_name.isidentifier():
        problem = f"{spec.port} holds a port in Python: name its class, as {spec.port}:CLASS"
    elif not library.is_file():
        problem = f"{library}: the port that serves Python classes is not built"
    if problem or file is None:
        return Candidate(name, source, None, None, problem)
    file = file.resolve()
    own = file.with_suffix(".hcd.yaml")
    hcd = own if own.is_file() else _one_hcd(library, library.parent)
    return Candidate(name, source, library, hcd, "", f"{file}:{name}")


def next_step_here(spec: Spec) -> str:
    """What to do when a port is not found and the folder of its source is at hand; else empty."""
    folder = Path(spec.port).expanduser()
    if not folder.is_dir():
        return ""
    libraries = sorted(folder.glob(f"*{_SUFFIX}")) or sorted(
        folder.glob(f"build*/**/{_PREFIX}*{_SUFFIX}")
    )
    if not libraries:
        is_source = (folder / "CMakeLists.txt").is_file()
        return f"Build it first: hal port build {spec.port}" if is_source else ""
    if len(libraries) > 1:
        return f"Name one of its libraries: {', '.join(map(str, libraries))}"
    return "" if spec.is_path else f"The folder {spec.port} has one: write ./{folder}"


def all_candidates() -> list[Candidate]:
    """Every port that the environment and the installed packages name."""
    return [*_from_environment(), *_from_packages()]


def namesakes(found: Iterable[Candidate]) -> dict[str, list[Path]]:
    """The names that stand for more than one library, and the libraries."""
    places: dict[str, list[Path]] = {}
    for one in found:
        if one.path is not None and one.path not in places.setdefault(one.name, []):
            places[one.name].append(one.path)
    return {name: paths for name, paths in places.items() if len(paths) > 1}


def _from_environment() -> Iterator[Candidate]:
    for part in os.environ.get(PATH_ENV, "").split(os.pathsep):
        if part:
            yield _at_path(Path(part).expanduser(), PATH_ENV)


def _at_path(path: Path, source: str) -> Candidate:
    """The port at a file, or in a folder that holds exactly one."""
    name = port_name(path if path.name else path.resolve())
    if path.is_dir():
        name = port_name(path.resolve())
        libraries = sorted(path.glob(f"*{_SUFFIX}"))
        if len(libraries) != 1:
            built = sorted(path.glob(f"build*/**/*{_SUFFIX}"))
            if not libraries and len(built) == 1:
                libraries = built
            else:
                found = ", ".join(lib.name for lib in libraries) or "none"
                problem = f"{path}: a port's folder holds one {_SUFFIX} file; found {found}"
                return Candidate(name, source, None, None, problem)
        return Candidate(
            port_name(libraries[0]), source, libraries[0].resolve(), _one_hcd(libraries[0], path)
        )
    if not path.exists():
        return Candidate(name, source, None, None, f"{path}: there is no such file or folder")
    return Candidate(name, source, path.resolve(), _one_hcd(path, path.parent))


def descriptions(folder: Path) -> list[Path]:
    """The descriptions that lie in a folder."""
    return sorted(folder.glob("*.hcd.yaml"))


def _one_hcd(library: Path, folder: Path) -> Path | None:
    """The description of a library: `STEM.hcd.yaml` beside it, or the only one in the folder."""
    own = library.with_suffix(".hcd.yaml")
    if own.is_file():
        return own
    near = descriptions(folder)
    only_library = len(list(library.parent.glob(f"*{_SUFFIX}"))) == 1
    return near[0] if len(near) == 1 and only_library else None


@cache
def _announced() -> tuple[tuple[str, str, str], ...]:
    """Name, value and distribution of each entry point. Read once: the scan costs milliseconds."""
    from importlib.metadata import entry_points

    return tuple(
        sorted(
            (entry.name, entry.value, entry.dist.name if entry.dist is not None else "?")
            for entry in entry_points(group=GROUP)
        )
    )


def _from_packages() -> Iterator[Candidate]:
    for name, value, package in _announced():
        source = f"package {package}"
        module, _, file = value.partition(":")
        module, file = module.strip(), file.strip()
        if not module or not file:
            problem = f"the entry point '{name} = {value}' is not PACKAGE:FILE"
            yield Candidate(name, source, None, None, problem)
            continue
        path = _package_file(module, file)
        if path is None:
            problem = f"it announces {value}, and that file does not exist"
            yield Candidate(name, source, None, None, problem)
        else:
            yield Candidate(name, source, path, _one_hcd(path, path.parent))


def _package_file(module: str, file: str) -> Path | None:
    """A file in a package's folder; the package itself is not imported."""
    if module == _OWN_LIBRARIES:
        path = _paths.lib_dir() / file
        return path if path.is_file() else None
    import importlib.util

    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return None
    folders = (spec.submodule_search_locations or []) if spec is not None else []
    return next((p for folder in folders if (p := Path(folder) / file).is_file()), None)
