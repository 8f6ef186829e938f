"""Reads sections of `key=value` with the place of each entry: an .ini file, or the same as CSV.

The CSV form holds many chips: columns soc, section, key, value, and, where they are known,
source_repo, source_path and source_commit.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from hal.errors import HcdError, UsageError
from hal.hcd.scan import Mark, Problem, one_line, raise_problems, read_text
from hal.hcd.schema import nearest

CSV_COLUMNS = ("soc", "section", "key", "value")
MAX_LISTED = 40  # Keys of one section that a list of unused ones names.
_SOURCE_COLUMNS = ("source_repo", "source_path", "source_commit")


class Entry(NamedTuple):
    """One value as text, and where it stands."""

    value: str
    mark: Mark


class Sections(NamedTuple):
    """The entries of one chip, and the source that a description made from them names."""

    file: str
    source: str
    entries: dict[tuple[str, str], Entry]


def read_sections(path: str | Path, soc: str | None) -> dict[str, Sections]:
    """The entries of the asked chip, or of every chip of the file, by the chip's name.

    Args:
        path: The file; a first line that holds commas makes it CSV.
        soc: Name of a chip as the file spells it; None for all. An .ini file holds one chip.

    Raises:
        HcdError: the file cannot be read, or with every mistake of it as `file:line:col: text`.
        UsageError: the file has no chip of that name.
    """
    file, text = one_line(path, 300), read_text(path)
    lines = text.splitlines()
    first = next((line for line in lines if line.strip()), "")
    is_csv = "," in first and not first.lstrip().startswith(("[", "#", ";"))
    found = _read_csv(file, lines) if is_csv else _read_ini(file, lines, Path(path).stem)
    if soc is None:
        return found
    if soc not in found:
        hint = nearest(soc, list(found))
        raise UsageError(
            f"has no SoC {one_line(soc)!r}{hint}",
            call=file,
            next_step=f"It has {', '.join(found)}.",
        )
    return {soc: found[soc]}


def _add(
    entries: dict[tuple[str, str], Entry],
    name: tuple[str, str],
    entry: Entry,
    problems: list[Problem],
) -> None:
    """Keeps an entry; the same key with another value is a mistake."""
    old = entries.setdefault(name, entry)
    if old.value != entry.value:
        text = (
            f"is {one_line(entry.value)!r}, but {one_line(old.value)!r} "
            f"at line {old.mark.line}; keep one of the two"
        )
        problems.append(Problem(entry.mark, _shown(name), text))


def _shown(name: tuple[str, str]) -> str:
    return one_line(".".join(name), 120)


def _read_ini(file: str, lines: Iterable[str], stem: str) -> dict[str, Sections]:
    entries: dict[tuple[str, str], Entry] = {}
    problems: list[Problem] = []
    section = ""
    for number, raw in enumerate(lines, 1):
        line, mark = raw.strip(), Mark(file, number, 1)
        if not line or line.startswith(("#", ";")):
            continue
        key, equals, value = (part.strip() for part in line.partition("="))
        if line.startswith("["):
            section = line[1:-1].strip()
            if not line.endswith("]") or not section:
                problems.append(Problem(mark, "", "a section reads [NAME]"))
        elif not equals or not key:
            what = f"is {one_line(line)!r}; a line reads key=value or [section]"
            problems.append(Problem(mark, "", what))
        elif not section:
            problems.append(Problem(mark, one_line(key), "stands before the first [section]"))
        else:
            _add(entries, (section, key), Entry(value, mark), problems)
    if not entries:
        raise HcdError(
            "holds no key=value line in a [section]",
            call=file,
            next_step=f"Give an .ini file, or CSV with the columns {', '.join(CSV_COLUMNS)}.",
        )
    raise_problems(problems, what=file)
    name = entries.get(("version", "SoC_version"))
    shown = Path(file).name
    return {name.value if name and name.value else stem: Sections(file, shown, entries)}


def _read_csv(file: str, lines: list[str]) -> dict[str, Sections]:
    rows = csv.reader(lines, strict=True)
    head: list[str] = []
    problems: list[Problem] = []
    found: dict[str, Sections] = {}
    try:
        for row in rows:
            mark = Mark(file, rows.line_num, 1)
            if not any(cell.strip() for cell in row):
                continue
            if not head:
                head = [cell.strip() for cell in row]
                _check_head(head, mark)
            elif len(row) != len(head):
                what = f"has {len(row)} cells; the head has {len(head)}"
                problems.append(Problem(mark, "", what))
            else:
                cells = dict(zip(head, (cell.strip() for cell in row), strict=True))
                _add_row(found, cells, mark, problems)
    except csv.Error as error:
        problems.append(Problem(Mark(file, rows.line_num, 1), "", f"is no CSV: {error}"))
    raise_problems(problems, what=file)
    if not found:
        raise HcdError("has a head but no row", call=file)
    return found


def _check_head(head: list[str], mark: Mark) -> None:
    missing = [name for name in CSV_COLUMNS if name not in head]
    if missing:
        what = f"lacks the column {', '.join(missing)}; needed are {', '.join(CSV_COLUMNS)}"
        raise_problems([Problem(mark, "", what)], what=mark.file)


def _add_row(
    found: dict[str, Sections], cells: dict[str, str], mark: Mark, problems: list[Problem]
) -> None:
    soc, name = cells["soc"], (cells["section"], cells["key"])
    if not (soc and all(name)):
        problems.append(Problem(mark, "", "soc, section and key are never empty"))
        return
    if soc not in found:
        found[soc] = Sections(mark.file, _source(cells, Path(mark.file).name), {})
    _add(found[soc].entries, name, Entry(cells["value"], mark), problems)


def _source(cells: dict[str, str], file: str) -> str:
    """`repository@commit path` as far as the row tells it, else the file's name."""
    repo, path, commit = (cells.get(name, "") for name in _SOURCE_COLUMNS)
    if not repo:
        return file
    return f"{repo}@{commit} {path}".replace("@ ", " ").strip()


class Reader:
    """Takes entries out of the sections, and remembers which ones and what was wrong."""

    def __init__(self, sections: Sections) -> None:
        self._entries = sections.entries
        self._file = sections.file
        self._used: set[tuple[str, str]] = set()
        self.problems: list[Problem] = []

    def text(self, section: str, key: str) -> str | None:
        """A value as text; None when the key is absent or empty."""
        entry = self._entries.get((section, key))
        if entry is None or not entry.value:
            return None
        self._used.add((section, key))
        return entry.value

    def has(self, section: str, key: str) -> bool:
        """Whether the key is there with a value, without using it."""
        return bool(self._entries.get((section, key), ("",))[0])

    def number(self, section: str, key: str, *, needed_for: str = "") -> int | None:
        """A whole number above zero. An absent one is a mistake when it is needed."""
        text = self.text(section, key)
        if text is None:
            if needed_for:
                self.refuse(section, key, self._lack(section, key, needed_for))
            return None
        if not (text.isascii() and text.isdigit() and 0 < len(text) <= 18 and int(text) > 0):
            self.refuse(section, key, f"is {one_line(text)!r}; a whole number above 0 is needed")
            return None
        return int(text)

    def refuse(self, section: str, key: str, what: str) -> None:
        """Notes a mistake at a key, or at its section where the key is absent."""
        entry = self._entries.get((section, key))
        if entry is not None:
            mark = entry.mark
        else:
            marks = [e.mark for name, e in self._entries.items() if name[0] == section]
            marks = marks or [e.mark for e in self._entries.values()]
            mark = min(marks, default=Mark(self._file, 1, 1))
        self.problems.append(Problem(mark, f"{section}.{key}", what))

    def _lack(self, section: str, key: str, needed_for: str) -> str:
        if (section, key) in self._entries:
            return f"is empty; needed for {needed_for}"
        return f"the key is missing; needed for {needed_for}"

    def unused(self) -> dict[str, list[str]]:
        """Section to the keys of it that were not used, in the order of the file.

        A section of more than MAX_LISTED of them is told as a count.
        """
        out: dict[str, list[str]] = {}
        for name in self._entries:
            if name not in self._used:
                out.setdefault(one_line(name[0]), []).append(one_line(name[1]))
        return {
            section: keys if len(keys) <= MAX_LISTED else [f"({len(keys)} entries)"]
            for section, keys in out.items()
        }
