"""The laws of the source tree: floors, sizes, names, and what is generated.

A module of `hal` may import only from its own floor and the floors it stands on. A new module
needs a row in FLOORS: choose its floor before its code.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import networkx
import pytest

ROOT = Path(__file__).resolve().parent.parent

FLOORS = {
    1: {"_generated", "_paths", "command", "errors", "dtypes", "_generate", "wording"},
    2: {"hcd", "_native"},
    3: {"port", "chip", "memory", "event", "signature", "launch", "graph", "stream", "array"}
    | {"module", "profile", "collective", "device", "loading", "library"},
    4: {"ir", "vil", "ops", "sim"},
    5: {"forecast", "dsl", "codegen", "tune", "trace", "testing", "parallel", "measure"},
    6: {"certify", "convert", "migrate", "portkit", "cli"},
}
FLOOR = {module: floor for floor, modules in FLOORS.items() for module in modules}
STANDS_ON = {floor: set(range(1, floor + 1)) for floor in FLOORS} | {4: {1, 2, 4}}
FACADE_FLOOR = 3  # what `import hal` gives: devices, memory, streams

CODE_FOLDERS = ("hal", "include", "vendors", "sim", "conformance", "tests", "bench", "examples")
FORBIDDEN_NAMES = {"utils", "util", "common", "helpers", "helper", "misc", "manager", "managers"}
GENERATED = {"include/hal/hal.h", "include/hal/calls.h", "hal/native/calls.h"}
HARD_LINES = 800
FUNCTION_LINES = 60


def files(*suffixes: str, folders: tuple[str, ...] = CODE_FOLDERS) -> list[Path]:
    """Return the files of the tree with one of the suffixes, generated ones included."""
    found = (path for folder in folders for path in (ROOT / folder).rglob("*"))
    hidden = {"__pycache__", "_lib", "_data"}
    return sorted(
        p for p in found if p.suffix in suffixes and not hidden & set(p.relative_to(ROOT).parts)
    )


def is_generated(path: Path) -> bool:
    """Tell whether `python -m hal._generate` writes this file."""
    name = path.relative_to(ROOT).as_posix()
    prefixes = ("hal/_generated/", "hal/native/layers/", "vendors/template/", "tests/golden/")
    prefixes += ("tests/compatibility/releases/",)  # kept as they were
    return name.startswith(prefixes) or name in GENERATED


def handwritten(*suffixes: str) -> list[Path]:
    """Return the files that a person writes."""
    return [path for path in files(*suffixes) if not is_generated(path)]


def shown(path: Path, line: int | None = None) -> str:
    """Name a file, and perhaps a line, as a reader would type it."""
    return path.relative_to(ROOT).as_posix() + (f":{line}" if line else "")


def package_of(path: Path) -> list[str]:
    """Return the dotted package that relative imports in this file start from."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return list(parts[:-1])


def hal_imports(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line, module below hal) for each import of hal in a file, wherever it stands.

    The empty module stands for the facade `hal` itself.
    """
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            package = package_of(path)
            base = package[: len(package) - node.level + 1] if node.level else []
            dotted = ".".join([*base, *([node.module] if node.module else [])])
            names = [dotted] if dotted != "hal" else [f"hal.{a.name}" for a in node.names]
        else:
            continue
        for name in names:
            parts = name.split(".")
            if parts[0] != "hal":
                continue
            below = parts[1] if len(parts) > 1 else ""
            is_module = (ROOT / "hal" / below).is_dir() or (ROOT / f"hal/{below}.py").is_file()
            yield node.lineno, below if is_module or below in FLOOR else ""


def modules_of_hal() -> dict[str, Path]:
    """Return the files of hal by their dotted names."""
    found = {}
    for path in files(".py", folders=("hal",)):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts).removesuffix(".__init__")] = path
    return found


def imported_files(path: Path, modules: dict[str, Path]) -> Iterator[str]:
    """Yield the modules that a file imports, wherever and for whatever, types among it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom):
            package = package_of(path)
            base = package[: len(package) - node.level + 1] if node.level else []
            dotted = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                inner = f"{dotted}.{alias.name}"
                if inner in modules or dotted in modules:
                    yield inner if inner in modules else dotted


def python_of_hal() -> list[tuple[Path, str]]:
    """Return (file, module below hal) for all of hal but the facade and the build scripts."""
    found = []
    for path in files(".py", folders=("hal",)):
        parts = path.relative_to(ROOT / "hal").parts
        if parts[0] not in {"__init__.py", "native"}:
            found.append((path, parts[0].removesuffix(".py")))
    return found


def test_every_module_of_hal_has_a_floor() -> None:
    without = sorted({module for _, module in python_of_hal() if module not in FLOOR})
    assert without == []


def test_a_module_imports_only_from_floors_that_it_stands_on() -> None:
    wrong = []
    for path, module in python_of_hal():
        floor = FLOOR.get(module, 6)
        for line, imported in hal_imports(path):
            below = FLOOR.get(imported, FACADE_FLOOR)
            if imported == "" and "__version__" in path.read_text(encoding="utf-8"):
                continue
            if below not in STANDS_ON[floor]:
                wrong.append(f"{shown(path, line)}: floor {floor} imports {imported or 'hal'}")
    assert wrong == []


def test_what_compiles_and_tunes_needs_nothing_of_the_tools_for_tests() -> None:
    product = FLOORS[5] - {"testing"}
    users = [
        shown(path, line)
        for path, module in python_of_hal()
        if module in product
        for line, imported in hal_imports(path)
        if imported == "testing"
    ]
    assert users == []


def test_no_modules_of_hal_import_each_other_in_a_circle() -> None:
    modules = modules_of_hal()
    arrows = networkx.DiGraph(
        (name, imported)
        for name, path in modules.items()
        for imported in imported_files(path, modules)
        if imported != name
    )
    rings = [ring for ring in networkx.strongly_connected_components(arrows) if len(ring) > 1]
    tied = [f"{one} -> {other}" for ring in rings for one, other in arrows.subgraph(ring).edges]
    assert sorted(tied) == []


def test_every_package_that_is_imported_is_declared_and_locked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    lines = [*project["dependencies"], *(line for extra in extras for line in extra)]
    names = {re.split(r"[>=\[]", line)[0].lower() for line in lines}
    locked = (ROOT / "requirements.lock").read_text(encoding="utf-8").lower().splitlines()
    known = {"pyyaml": "yaml", "pyelftools": "elftools"}
    known |= {"scikit-build-core": "scikit_build_core"}
    declared = {known.get(name, name) for name in names & {line.split("==")[0] for line in locked}}
    own = {path.stem for path in files(".py")} | {"hal", "tests", "bench", "_pytest"}
    wrong = set()
    for path in files(".py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                imported = [node.module]
            else:
                continue
            tops = {name.split(".")[0] for name in imported} - declared - own
            tops -= sys.stdlib_module_names
            wrong |= {f"{shown(path, node.lineno)}: {top}" for top in tops}
    assert sorted(wrong) == []


def test_only_the_build_script_imports_cffi() -> None:
    users = [
        shown(path)
        for path in files(".py", folders=("hal", "conformance"))
        if re.search(r"^\s*(import|from) cffi\b", path.read_text(encoding="utf-8"), re.M)
    ]
    assert users == ["hal/native/build_ffi.py"]


def test_conformance_imports_only_public_names_and_testing() -> None:
    wrong = []
    for path in files(".py", folders=("conformance",)):
        for line, module in hal_imports(path):
            if module.startswith("_"):
                wrong.append(f"{shown(path, line)}: hal.{module}")
    assert wrong == []


def test_no_handwritten_file_is_longer_than_the_hard_limit() -> None:
    lengths = {
        shown(path): len(path.read_text(encoding="utf-8").splitlines())
        for path in handwritten(".py", ".c", ".h")
    }
    assert {name: count for name, count in lengths.items() if count > HARD_LINES} == {}


def python_functions(path: Path) -> Iterator[tuple[str, int, int]]:
    """Yield (name, line, length without the docstring) of each function in a Python file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            first = node.body[0]
            if ast.get_docstring(node) is not None:
                length -= (first.end_lineno or first.lineno) - first.lineno + 1
            yield node.name, node.lineno, length


def c_functions(path: Path) -> Iterator[tuple[str, int, int]]:
    """Yield (name, line, length) of each function in a C file formatted by clang-format."""
    start, head = 0, ""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if start and line.startswith("}"):
            yield head.split("(")[0].split()[-1].lstrip("*"), start, number - start + 1
            start, head = 0, ""
        elif not start:
            code = line.split("//")[0].rstrip()
            head = "" if not code or code.startswith("#") else f"{head} {code}"
            if code.endswith("{"):
                opens = "(" in head and "=" not in head and "extern" not in head
                start, head = (number, head) if opens else (0, "")
            elif code.endswith((";", "}", "*/")):
                head = ""


def test_no_function_is_longer_than_the_limit() -> None:
    wrong = [
        f"{shown(path, line)}: {name} has {length} lines"
        for path in handwritten(".py", ".c")
        for name, line, length in (python_functions if path.suffix == ".py" else c_functions)(path)
        if length >= FUNCTION_LINES
    ]
    assert wrong == []


def test_no_module_has_a_name_that_says_nothing() -> None:
    named = [shown(p) for p in handwritten(".py", ".c", ".h") if p.stem in FORBIDDEN_NAMES]
    assert named == []


def test_python_packages_exist_only_in_hal() -> None:
    folders = ("include", "hcd", "vendors", "sim", "conformance", "docs")
    assert [p for folder in folders for p in (ROOT / folder).rglob("__init__.py")] == []


def port_names() -> set[str]:
    """Return the names of the ports: folders that make a shared library of their own."""
    folders = {p.parent.name for p in (ROOT / "vendors").glob("*/CMakeLists.txt")}
    return (folders - {"kit", "template"}) | {"sim"}


def names_a_port(text: str, ports: set[str]) -> bool:
    """Tell whether a string selects a port: its name, a device of it, or its library."""
    return any(
        re.fullmatch(rf"{port}|{port}:.*|(.*/)?hal_port_{port}(\.so)?", text) for port in ports
    )


def strings(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line, value) of the string literals in a Python or C file."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.lineno, node.value
    else:
        for number, line in enumerate(text.splitlines(), 1):
            yield from ((number, value) for value in re.findall(r'"([^"]*)"', line))


# The simulator is also a tool of ours: its command, and the folder that holds its measurements.
NAMES_OF_THE_SIMULATOR = {"hal/cli/__init__.py", "hal/_paths.py"}


def test_no_code_outside_a_port_names_it_but_for_one_default() -> None:
    ports = port_names()
    not_ports = {"hal/_paths.py", "hal/cli/__init__.py"}  # a folder and a command, both called sim
    places = [
        shown(path, line)
        for path in files(".py", ".c", ".h", folders=("hal", "conformance"))
        if shown(path) not in not_ports
        for line, value in strings(path)
        if names_a_port(value, ports)
        and not (value == "sim" and path.relative_to(ROOT).as_posix() in NAMES_OF_THE_SIMULATOR)
    ]
    assert len(places) <= 1, places


def test_ports_include_only_the_header_and_the_kit() -> None:
    wrong = []
    for path in files(".c", ".h", folders=("vendors", "sim")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            found = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            if found is None or found[1] == "hal/hal.h":
                continue
            own = (path.parent / found[1]).is_file() and ".." not in found[1]
            kit = (ROOT / "vendors/kit" / found[1].removeprefix("kit/")).is_file()
            if not own and not kit:
                wrong.append(f"{shown(path, number)}: {found[1]}")
    assert wrong == []


def test_nothing_is_left_for_later() -> None:
    words = ("TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK", "NotImplemented" + "Error")
    marks = ("pytest.mark." + "skip", "pytest." + "skip", "x" + "fail(")
    pattern = re.compile(r"\b(" + "|".join(words) + r")\b|" + "|".join(map(re.escape, marks)))
    left = [
        shown(path, number)
        for path in handwritten(".py", ".c", ".h", ".yaml")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if pattern.search(line)
    ]
    assert left == []


@pytest.mark.parametrize("words", [("-m", "hal._generate"), ("hal/native/loader_cdef.py",)])
def test_generated_files_are_what_the_generator_writes(words: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, *words, "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.parametrize("module", ["hal", "hal.cli", "hal.certify.cli"])
def test_a_command_starts_without_heavy_packages(module: str) -> None:
    heavy = {"numpy", "rich", "jsonschema", "yaml", "jinja2", "importlib.metadata", "torch"}
    code = f"import sys, {module}; print(*sorted({heavy!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout.split(), done.stderr) == ([], "")
