"""A first Python binding of a vendor's C header, by ctypesgen, and whether it can be trusted.

ctypesgen ends with status 0 whatever it met: a header that does not exist gives an empty binding.
So the compiler judges the header first, ctypesgen's own complaints are read, and the result is
imported in a process of its own and counted.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hal.errors import UsageError
from hal.portkit.worksheet import Row, worksheet
from hal.wording import counted

__all__ = ["Binding", "bind"]

_CPP_WORDS = re.compile(r"^\s*(class|namespace|template|using|public:|private:)\b", re.M)
_COMPLAINT = re.compile(r"^ERROR: (?P<text>(?P<file>[^:\s]+):\d+: .*)$", re.M)
_FATAL = re.compile(r"^.*\berror: .*$", re.M)
_LIMIT_S = 120.0
_PLAIN = {**os.environ, "LC_ALL": "C"}

_IMPORT = """
import importlib.util, json, sys
spec = importlib.util.spec_from_file_location("binding", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
print(json.dumps([name for name in json.loads(sys.argv[2]) if hasattr(module, name)]))
"""


@dataclass
class Binding:
    """What was made of a header.

    Attributes:
        path: The Python file.
        declared: Functions of the header, in its order.
        bound: Those that the library has; empty when no library was named.
        complaints: What ctypesgen could not read, as `file:line: text`.
        rows: Which functions of the ABI they may serve, by their names alone.
    """

    path: Path
    declared: list[str]
    bound: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)


def bind(
    header: Path, *, into: Path | None = None, include: Sequence[Path] = (), library: str = ""
) -> Binding:
    """Write a ctypes binding of a header.

    Args:
        header: The vendor's header, in C.
        into: The file to write; `STEM_binding.py` in the current folder by default.
        include: Folders with headers that it includes.
        library: What has the functions: a name as for the linker (`OpenCL`), or a file.

    Raises:
        UsageError: the header cannot be read as C, has no functions, or its binding does not
            import. Nothing is written then.
    """
    if not header.is_file():
        raise _refusal(f"{header}: there is no such file", "Name the vendor's C header.")
    into = into or Path(f"{re.sub(r'[^0-9A-Za-z_]', '_', header.stem)}_binding.py")
    if into.suffix != ".py":
        raise _refusal(f"{into} is no Python file", f"Write -o {into.with_suffix('.py')}.")
    _compile(header, include)
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / into.name
        complaints = _generate(header, made, include, library)
        text = made.read_text(encoding="utf-8") if made.is_file() else ""
        declared = _functions(text)
        if not declared:
            first = f": {complaints[0]}" if complaints else ""
            raise _refusal(f"{header} declares no function{first}", "Name the header that does.")
        bound = _import(made, declared, library)
    try:
        into.write_text(text, encoding="utf-8")
    except OSError as error:
        raise _refusal(
            f"{into} cannot be written: {error.strerror}", "Name another with -o."
        ) from None
    return Binding(into, declared, bound, complaints, worksheet(declared))


def _compile(header: Path, include: Sequence[Path]) -> None:
    """Let the C compiler judge the header; its first error is the reason."""
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise _refusal("no C compiler is here", "Install one, for example gcc.")
    words = [*compiler.split(), "-x", "c", "-fsyntax-only", *_folders(include), str(header)]
    done = subprocess.run(
        words, capture_output=True, text=True, errors="replace", env=_PLAIN, check=False
    )
    if done.returncode == 0:
        return
    found = _FATAL.search(done.stderr)
    said = found[0] if found else done.stderr.strip() or f"{compiler} ends with {done.returncode}"
    missing = re.search(r"error: (\S+): No such file", said)
    if missing:
        step = f"Name the folder that has {missing[1]} with -I."
    elif _CPP_WORDS.search(header.read_text(encoding="utf-8", errors="replace")):
        step = 'It looks like C++: bind its C interface, or write one behind extern "C".'
    else:
        step = "Correct it, or name the header of which it is a part."
    raise _refusal(f"{header} is not read as C: {said}", step)


def _folders(include: Sequence[Path]) -> list[str]:
    return [f"-I{folder}" for folder in include]


def _generate(header: Path, made: Path, include: Sequence[Path], library: str) -> list[str]:
    """Run ctypesgen; return its complaints about the vendor's own headers."""
    start = "import sys; from ctypesgen.main import main; sys.argv[0] = 'ctypesgen'; main()"
    compiler = os.environ.get("CC") or shutil.which("cc") or "gcc"
    words = [sys.executable, "-c", start, f"--cpp={compiler} -E", "-o", str(made)]
    words += _folders(include)
    if library:
        place = Path(library)
        words.append(f"-l{place.resolve() if place.is_file() else library}")
    try:
        done = subprocess.run(
            [*words, str(header.resolve())],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LIMIT_S,
            env=_PLAIN,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _refusal(
            f"ctypesgen reads {header} for more than {_LIMIT_S:.0f} s", "Bind a smaller header."
        ) from None
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:]
        raise _refusal(f"ctypesgen failed on {header}: {''.join(last)}", "Bind a smaller header.")
    own = [header.resolve().parent, *(folder.resolve() for folder in include)]
    return [
        found["text"]
        for found in _COMPLAINT.finditer(done.stderr)
        if any(Path(found["file"]).is_relative_to(folder) for folder in own)
    ]


def _functions(text: str) -> list[str]:
    """Names of the functions that a binding looks for in its libraries."""
    names = []
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "get"
            and len(node.args) == 2
            and isinstance(node.args[0], ast.Constant)
            and isinstance(node.args[0].value, str)
        ):
            names.append((node.lineno, node.args[0].value))
    return list(dict.fromkeys(name for _, name in sorted(names)))


def _import(made: Path, declared: list[str], library: str) -> list[str]:
    """Import the binding in a process of its own; return the functions that are really there."""
    done = subprocess.run(
        [sys.executable, "-c", _IMPORT, str(made), json.dumps(declared)],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode == 0:
        found: list[str] = json.loads(done.stdout.splitlines()[-1])
        if library and not found:
            raise _refusal(
                f"the library {library} has none of the {counted(len(declared), 'function')}",
                "Name the library that has them.",
            )
        return found
    said = (done.stderr.strip().splitlines() or [f"it ends with status {done.returncode}"])[-1]
    if library and re.search(r"Could not load|cannot open shared|invalid ELF", said):
        step = "Install it, or give the path of the file."
        raise _refusal(f"the library {library} does not load: {said}", step)
    raise _refusal(f"the binding does not import: {said}", "Bind a smaller header.")


def _refusal(problem: str, next_step: str) -> UsageError:
    return UsageError(problem, call="port.bind", next_step=next_step)
