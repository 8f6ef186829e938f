"""The template of a newer HAL for a port that is there: merged, and the author's edits stay.

`start_port` keeps what the template wrote in `.hal-template.yml`. That is the common ancestor of a
merge of three: the author's file, the template's then, the template's now (docs/decisions/0251).
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import yaml

from hal import _paths
from hal.errors import UsageError

__all__ = ["ANSWERS", "ORIGIN", "Change", "keep_origin", "render", "update"]

ANSWERS = ".copier-answers.yml"
ORIGIN = ".hal-template.yml"
_HEAD = (
    "# The files as the template wrote them; `hal port update` merges against them. "
    "Keep it in git.\n"
)


@dataclass(frozen=True)
class Change:
    """What happened to one file.

    Attributes:
        path: Within the port's folder.
        state: `new`, `updated` (it was as the template had written it), `merged`, `conflict`,
            `removed`, or `kept` (the author's word stands: the file was deleted or is no longer
            in the template).
    """

    path: str
    state: str


def render(answers: dict[str, object], into: Path) -> None:
    """Write the template's files for these answers to a folder."""
    import copier

    template = str(_paths.template_dir())
    copier.run_copy(template, into, data=answers, defaults=True, quiet=True)


def keep_origin(folder: Path, files: dict[str, str] | None = None) -> None:
    """Write down what the template has just written: `files`, or all that the folder holds."""
    text = yaml.safe_dump(_files(folder) if files is None else files, default_style="|")
    (folder / ORIGIN).write_text(_HEAD + text, encoding="utf-8")


def update(folder: Path) -> list[Change]:
    """Bring the changes of this HAL's template into a port's files.

    Args:
        folder: The port's folder, as `hal port new` made it.

    Returns:
        The files that changed or could have, in order. Conflicts have git's marks.

    Raises:
        UsageError: it is no such folder, or git, which merges, is not installed.
    """
    if not folder.is_dir():
        raise _refusal(f"{folder} is no folder", "Name a port's folder.")
    origin, answers = _origin(folder), _answers(folder)
    if shutil.which("git") is None:
        raise _refusal("git, which merges the files, is not installed", "Install git.")
    with tempfile.TemporaryDirectory() as place:
        fresh = Path(place) / str(answers["name"])
        render(answers, fresh)
        now = _files(fresh)
    found = [_one(folder, path, origin, now) for path in sorted({*origin, *now})]
    keep_origin(folder, now)
    return [change for change in found if change is not None]


def _one(folder: Path, path: str, origin: dict[str, str], now: dict[str, str]) -> Change | None:
    """Bring one file up to date; None when there is nothing to do."""
    before, after, target = origin.get(path), now.get(path), folder / path
    mine = _read(target)
    if before == after or mine == after:
        return None
    if after is None:
        if mine != before:
            return Change(path, "kept")
        target.unlink()
        return Change(path, "removed")
    if mine is None and before is not None:
        return Change(path, "kept")
    if mine is None or mine == before:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(after, encoding="utf-8")
        return Change(path, "new" if mine is None else "updated")
    merged, conflicts = _merge(mine, before or "", after)
    target.write_text(merged, encoding="utf-8")
    return Change(path, "conflict" if conflicts else "merged")


def _merge(mine: str, before: str, after: str) -> tuple[str, bool]:
    """The text of both sides, and whether they disagree somewhere."""
    labels = ("yours", "the template before", "the template now")
    with tempfile.TemporaryDirectory() as place:
        words = ["git", "merge-file", "-p"]
        for label in labels:
            words += ["-L", label]
        for number, text in enumerate((mine, before, after)):
            file = Path(place) / str(number)
            file.write_text(text, encoding="utf-8", newline="")
            words.append(str(file))
        done = subprocess.run(words, capture_output=True, check=False)
    if done.returncode < 0 or done.returncode > 127:  # The number of conflicts ends at 127.
        raise _refusal(f"git merge-file failed: {done.stderr.decode(errors='replace').strip()}", "")
    return done.stdout.decode("utf-8"), done.returncode > 0


def _origin(folder: Path) -> dict[str, str]:
    text = _read(folder / ORIGIN)
    if text is None:
        raise _refusal(
            f"{folder} has no {ORIGIN}, which says what the template wrote",
            "Name a folder that 'hal port new' made. For one of a HAL that did not keep it, "
            "'copier recopy' writes the files again: git shows what changed.",
        )
    return {str(path): str(body) for path, body in _mapping(folder / ORIGIN, text).items()}


def _answers(folder: Path) -> dict[str, object]:
    """What `hal port new` was told; what copier noted of itself is left out."""
    text = _read(folder / ANSWERS)
    found = _mapping(folder / ANSWERS, text or "")
    answers = {key: value for key, value in found.items() if not key.startswith("_")}
    if not isinstance(answers.get("name"), str):
        raise _refusal(f"{folder / ANSWERS} names no port", "Restore it from git.")
    return answers


def _mapping(file: Path, text: str) -> dict[str, object]:
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError:
        found = ""
    if found is not None and not isinstance(found, dict):
        raise _refusal(f"{file} is no mapping of YAML", "Restore it from git.")
    return found or {}


def _files(folder: Path) -> dict[str, str]:
    """Every file of a folder and its text."""
    files = (path for path in folder.rglob("*") if path.is_file())
    texts = {path.relative_to(folder).as_posix(): _read(path) or "" for path in sorted(files)}
    texts.pop(ORIGIN, None)
    return texts


def _read(path: Path) -> str | None:
    """The text of a file, with its line ends; None when there is none."""
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise _refusal(f"{path} cannot be read: {error}", "Restore it from git.") from None


def _refusal(problem: str, next_step: str) -> UsageError:
    return UsageError(problem, call="port.update", next_step=next_step)
