"""The class behind a port in Python: found, and held against what the port will call.

`FILE.py:CLASS` names it, or `MODULE:CLASS`. What is missing or has other parameters is told at
once, in the order in which to write it.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from pathlib import Path
from typing import Any

from hal.errors import PortLoadError
from hal.wording import counted

__all__ = ["load_class", "where"]

METHODS = {
    "alloc": ("device", "length", "alignment"),
    "free": ("memory",),
    "write": ("memory", "offset", "data"),
    "read": ("memory", "offset", "length"),
    "start": (),
    "stop": (),
    "device_count": (),
    "device_name": ("device",),
    "memory_bytes": ("device",),
    "copy": ("target", "target_offset", "source", "source_offset", "length"),
    "fill": ("memory", "offset", "length", "pattern"),
    "view": ("memory",),
}
"""Methods and their parameters behind self, in the order in which to write them."""

BASE = "PythonPort"


def load_class(text: str) -> type[Any]:
    """Import the class that `FILE.py:CLASS` or `MODULE:CLASS` names.

    Raises:
        PortLoadError: it does not import, is no port, or lacks methods; `reasons` has each fault.
    """
    place, _, name = text.rpartition(":")
    is_file = place.endswith(".py")
    try:
        module = _from_file(Path(place)) if is_file else importlib.import_module(place)
    except (Exception, SystemExit) as error:
        raise _refusal(text, [f"its module does not import: {where(error)}"]) from error
    found = getattr(module, name, None)
    if found is None:
        ports = [key for key, value in vars(module).items() if _is_port(value)]
        raise _refusal(text, [f"there is no class {name}; ports are {', '.join(ports) or 'none'}"])
    if not _is_port(found):
        raise _refusal(text, [f"{name} is no subclass of hal.testing.{BASE}"])
    problems = _problems(found)
    if problems:
        raise _refusal(text, problems)
    port: type[Any] = found
    return port


def _is_port(value: object) -> bool:
    """Whether it is a class below the base; the base itself, which stands above here, is none."""
    return inspect.isclass(value) and any(
        base.__name__ == BASE and base.__module__ == "hal.testing.python_port"
        for base in value.__mro__[1:]
    )


def _problems(cls: type[Any]) -> list[str]:
    missing = set(getattr(cls, "__abstractmethods__", ()))
    lacking = [name for name in METHODS if name in missing]
    problems = []
    if lacking:
        heads = ", ".join(f"{name}({', '.join(('self', *METHODS[name]))})" for name in lacking)
        problems.append(
            f"it lacks {counted(len(lacking), 'method')}; write, in this order: {heads}"
        )
    for name, parameters in METHODS.items():
        if name in missing:
            continue
        method = getattr(cls, name, None)
        if not callable(method):
            problems.append(f"{name} is no method but {method!r}")
            continue
        signature = inspect.signature(method)
        try:
            signature.bind(*("self", *parameters))
        except TypeError:
            wanted = ", ".join(("self", *parameters))
            problems.append(f"{name}{signature} cannot be called as {name}({wanted})")
    return problems


def _from_file(path: Path) -> Any:
    """Import a file once a process; its folder comes last on the path, for what lies beside it."""
    name = f"hal_python_port_{path.stem}_{abs(hash(str(path))):x}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    folder = str(path.parent)
    if folder not in sys.path:
        sys.path.append(folder)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def where(error: BaseException) -> str:
    """An exception in one line: what it is, and the last line of its traceback in the port's file.

    Frames of the SDK and of the standard library are left out where another one is there.
    """
    import traceback

    text = str(error).strip().splitlines()
    said = f"{type(error).__name__}: {text[0]}" if text else type(error).__name__
    if isinstance(error, SyntaxError):
        return f"{said.partition(' (')[0]} ({Path(error.filename or '?').name}:{error.lineno})"
    frames = traceback.extract_tb(error.__traceback__)
    own = str(Path(__file__).resolve().parents[1])
    outside = [f for f in frames if not f.filename.startswith((own, "<frozen"))]
    if not outside:
        return said
    return f"{said} ({Path(outside[-1].filename).name}:{outside[-1].lineno})"


def _refusal(text: str, reasons: list[str]) -> PortLoadError:
    name = text.rpartition(":")[2]
    return PortLoadError(
        f"{name} is not a port yet: {'; '.join(reasons)}",
        call=text,
        next_step="docs/python-port.md has a whole port of four methods.",
        reasons=reasons,
    )
