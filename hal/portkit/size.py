"""The size of a port: lines of code by the rules of `cloc`, the part of tier 1, the description.

A function is beyond tier 1 when it stands under a line `// ---- Tier 2 ----`, `// ---- Tier 3 ----`
or `// ---- Optional ----` (until the next line of that form), or when only table entries that tier
1 does not require lead to it. Everything else counts to tier 1: declarations, hooks, tables, and
functions that nothing is seen to call. The figure is never too small by what was not understood.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from hal.errors import UsageError
from hal.portkit.c_source import SUFFIXES, Item, code_lines, items, read

__all__ = ["FileSize", "PortSize", "measure"]

_SECTION = re.compile(r"^\s*//\s*-{2,}\s*(.*?)\s*-{2,}\s*$")
_BEYOND = re.compile(r"tier [23]\b|optional\b", re.I)
_TABLE = re.compile(r"\bhal_(\w+)_table\s+\w+\s*=")
_KIT_TABLE = re.compile(r"\bKIT_(\w+)_TABLE\(([^()]*)\)")
_ENTRY = re.compile(r"\.(\w+)\s*=\s*&?(\w+)")
_HOOKS_BEYOND = {
    *("peer_info", "operator_info", "operator_supports", "operator_run"),
    *("copy_peer", "operate", "elapsed_ns"),
}
"""Hooks of the kit, and commands of a driver, that tier 1 does not need."""
_NOT_THE_PORT = {"build", "tests", "test", "out", "dist"}

Key = tuple[Path, str]


@dataclass
class FileSize:
    """Lines of one file: all of its code, and the part that belongs to tier 1."""

    path: str
    lines: int
    tier_1_lines: int


@dataclass
class PortSize:
    """What `hal port size` tells.

    Attributes:
        folder: The port's folder.
        lines: Lines of C and C++.
        tier_1_lines: The part of them that tier 1 needs.
        hcd_lines: Lines of the descriptions, without comments.
        dialect_lines: The part of them that says how kernels are written for the chip.
        files: Each source file.
        other_files: What else the folder holds: descriptions, the build, the package.
        beyond_tier_1: Names of the functions that tier 1 does not need.
    """

    folder: str
    lines: int = 0
    tier_1_lines: int = 0
    hcd_lines: int = 0
    dialect_lines: int = 0
    files: list[FileSize] = field(default_factory=list)
    other_files: list[str] = field(default_factory=list)
    beyond_tier_1: list[str] = field(default_factory=list)


def measure(folder: Path) -> PortSize:
    """Measure the port in a folder.

    Raises:
        UsageError: the folder is not there, or holds no C.
    """
    if not folder.is_dir():
        raise UsageError(
            f"{folder} is no folder", call="port.size", next_step="Name the folder of a port."
        )
    files = [path for path in sorted(folder.rglob("*")) if _is_of_the_port(path, folder)]
    texts = {path: read(path) for path in files if path.suffix in SUFFIXES}
    if not texts:
        raise UsageError(
            f"{folder} holds no C or C++ file",
            call="port.size",
            next_step="Name the folder that has the port's source, as vendors/NAME.",
        )
    size = PortSize(str(folder))
    beyond = _Tiers(texts).beyond()
    for path, text in texts.items():
        lines = code_lines(text)
        outside = {n for item in beyond[path] for n in range(item.first, item.last + 1)} & lines
        name = path.relative_to(folder).as_posix()
        size.files.append(FileSize(name, len(lines), len(lines) - len(outside)))
        size.beyond_tier_1 += [item.name for item in beyond[path] if item.kind == "function"]
    size.lines = sum(file.lines for file in size.files)
    size.tier_1_lines = sum(file.tier_1_lines for file in size.files)
    for path in files:
        if path.suffix not in SUFFIXES:
            size.other_files.append(path.relative_to(folder).as_posix())
        if path.name.endswith(".hcd.yaml"):
            lines_of = [line for line in read(path).splitlines() if _is_yaml_code(line)]
            size.hcd_lines += len(lines_of)
            size.dialect_lines += _dialect_lines(lines_of)
    return size


def _is_yaml_code(line: str) -> bool:
    return line.strip() != "" and not line.lstrip().startswith("#")


def _dialect_lines(lines: list[str]) -> int:
    """How many lines stand in a block `dialect:`, its head included."""
    count, indent = 0, None
    for line in lines:
        depth = len(line) - len(line.lstrip())
        if indent is not None and depth <= indent:
            indent = None
        if indent is None and line.strip().startswith("dialect:"):
            indent = depth
        count += indent is not None
    return count


def _is_of_the_port(path: Path, folder: Path) -> bool:
    parts = path.relative_to(folder).parts
    if not path.is_file() or path.suffix in {".so", ".whl", ".pyc"}:
        return False
    return not any(
        part in _NOT_THE_PORT or part.startswith((".", "build-", "__pycache__"))
        for part in parts[:-1]
    )


class _Tiers:
    """Which things of a port's files tier 1 does not need."""

    def __init__(self, texts: dict[Path, str]) -> None:
        self.items = {path: list(items(text)) for path, text in texts.items()}
        self.marked = {path: _marked_lines(text) for path, text in texts.items()}
        self.named: dict[str, list[Key]] = defaultdict(list)
        self.bodies: dict[Key, list[Item]] = defaultdict(list)
        for path, found in self.items.items():
            for item in found:
                if item.kind == "function":
                    self.bodies[path, item.name].append(item)
                    self.named[item.name].append((path, item.name))

    def beyond(self) -> dict[Path, list[Item]]:
        """Per file, the functions and prototypes beyond tier 1."""
        needed, optional = self._roots()
        first = self._reach(needed)
        later = self._reach(optional) - first
        out: dict[Path, list[Item]] = {}
        for path, found in self.items.items():
            names = {name for (_, name) in later} - {name for (_, name) in first}
            out[path] = [
                item
                for item in found
                if item.first in self.marked[path]
                or (item.kind == "function" and (path, item.name) in later)
                or (item.kind == "prototype" and item.name in names)
            ]
        return out

    def _roots(self) -> tuple[set[Key], set[Key]]:
        """The functions that tier 1's entries name, and those that other entries name."""
        from hal.testing.abi import FUNCTION_BY_CALL

        needed, optional = set[Key](), set[Key]()
        for path, found in self.items.items():
            for item in found:
                if item.kind not in {"value", "directive"} or item.first in self.marked[path]:
                    if item.kind == "function" and item.name == "hal_port_entry":
                        needed.add((path, item.name))
                    continue
                later = set[str]()
                for table, member, function in _entries(item.text):
                    known = FUNCTION_BY_CALL.get(f"{table}.{member}")
                    if (known and known.tier != 1) or (not table and member in _HOOKS_BEYOND):
                        later.add(function)
                optional |= self._keys(path, later)
                needed |= self._keys(path, set(re.findall(r"\w+", item.text)) - later)
        return needed, optional

    def _keys(self, path: Path, names: set[str]) -> set[Key]:
        """The functions that names mean in a file: its own, else those of the other files."""
        keys = set[Key]()
        for name in names & self.named.keys():
            own = (path, name)
            keys |= {own} if own in self.bodies else set(self.named[name])
        return keys

    def _reach(self, roots: set[Key]) -> set[Key]:
        """What the roots lead to; functions under a mark of a later tier are not entered."""
        reached, waiting = set[Key](), list(roots)
        while waiting:
            key = waiting.pop()
            if key in reached:
                continue
            reached.add(key)
            for item in self.bodies[key]:
                if item.first not in self.marked[key[0]]:
                    waiting += self._keys(key[0], set(re.findall(r"\w+", item.text)))
        return reached


def _entries(text: str) -> Iterator[tuple[str, str, str]]:
    """Table (or "", of no table), member and function of each entry that an item names."""
    table = _TABLE.search(text)
    for name, entries in _KIT_TABLE.findall(text):
        yield from (
            (name.lower(), member, function) for member, function in _ENTRY.findall(entries)
        )
    for member, function in _ENTRY.findall(_KIT_TABLE.sub("", text)):
        yield table[1] if table else "", member, function


def _marked_lines(text: str) -> set[int]:
    """The lines that stand under a mark of tier 2, tier 3 or what is optional."""
    marked, inside = set[int](), False
    for number, line in enumerate(text.splitlines(), 1):
        if found := _SECTION.match(line):
            inside = _BEYOND.match(found[1]) is not None
        elif inside:
            marked.add(number)
    return marked
