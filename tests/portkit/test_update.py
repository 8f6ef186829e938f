"""`hal port update`: a change of the template reaches a port, and the author's edits stay."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hal import _paths
from hal.errors import UsageError
from hal.portkit import update as module
from hal.portkit.start_port import start_port
from hal.portkit.update import ORIGIN, Change, update


@pytest.fixture
def template(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the template, which a test can make newer."""
    copy = tmp_path / "template"
    shutil.copytree(_paths.template_dir(), copy)
    monkeypatch.setattr(module._paths, "template_dir", lambda: copy)
    return copy


@pytest.fixture
def acme(tmp_path: Path, template: Path) -> Path:
    """A port of that template."""
    return start_port("acme", tmp_path, kind="gpu", vendor="Acme Chips")


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new, 1), encoding="utf-8")


def test_a_port_of_this_template_is_up_to_date(acme: Path) -> None:
    edit(acme / "port.c", "return 1;", "return acme_count();")
    assert update(acme) == []


def test_both_changes_of_a_file_are_kept(acme: Path, template: Path) -> None:
    edit(acme / "port.c", "static void stop(void) {}", "static void stop(void) { acme_exit(); }")
    edit(template / "hooks.c", '#include "kit_tables.h"', '#include "kit_new.h"')
    assert update(acme) == [Change("port.c", "merged")]
    text = (acme / "port.c").read_text(encoding="utf-8")
    assert "acme_exit();" in text and '#include "kit_new.h"' in text and "<<<<" not in text
    assert update(acme) == []


def test_a_file_that_the_author_left_alone_is_the_template_s(acme: Path, template: Path) -> None:
    edit(template / "project" / "README.md.jinja", "# The port of", "# A port of")
    assert update(acme) == [Change("README.md", "updated")]
    assert (acme / "README.md").read_text(encoding="utf-8").startswith("# A port of the chip acme")


def test_a_conflict_is_named_and_holds_both_sides(acme: Path, template: Path, run) -> None:
    edit(acme / "port.c", '#include "kit_tables.h"', '#include "kit_tables.h"  // mine')
    edit(template / "hooks.c", '#include "kit_tables.h"', '#include "kit_new.h"')
    assert update(acme) == [Change("port.c", "conflict")]
    text = (acme / "port.c").read_text(encoding="utf-8")
    assert "<<<<<<< yours" in text and ">>>>>>> the template now" in text
    assert "// mine" in text and "kit_new.h" in text


def test_files_come_and_go_with_the_template(acme: Path, template: Path) -> None:
    (template / "project" / "NOTES.md").write_text("notes\n", encoding="utf-8")
    (template / "project" / "CMakePresets.json").unlink()
    assert update(acme) == [Change("CMakePresets.json", "removed"), Change("NOTES.md", "new")]
    assert (acme / "NOTES.md").is_file() and not (acme / "CMakePresets.json").exists()


def test_what_the_author_deleted_stays_deleted(acme: Path, template: Path) -> None:
    (acme / "README.md").unlink()
    edit(template / "project" / "README.md.jinja", "# The port of", "# A port of")
    assert update(acme) == [Change("README.md", "kept")]
    assert not (acme / "README.md").exists()


def test_a_port_on_another_machine_is_updated_from_its_own_hal(acme: Path) -> None:
    edit(acme / ".copier-answers.yml", "_src_path: ", "_src_path: /nowhere")
    assert update(acme) == []


def test_a_folder_that_is_no_such_port_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"has no {ORIGIN}"):
        update(tmp_path)
    with pytest.raises(UsageError, match="none is no folder"):
        update(tmp_path / "none")


def test_without_git_it_says_so_and_changes_nothing(
    acme: Path, template: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edit(template / "project" / "README.md.jinja", "# The port of", "# A port of")
    before = (acme / ORIGIN).read_bytes()
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UsageError, match="Install git"):
        update(acme)
    assert (acme / ORIGIN).read_bytes() == before


def test_the_command_tells_what_it_did(tmp_path: Path, run) -> None:
    acme = start_port("acme", tmp_path)
    edit(acme / ORIGIN, "# The port of the chip acme", "# An older title")
    edit(acme / "README.md", "# The port of the chip acme", "# My title")
    done = run("hal.cli", "port", "update", acme)
    assert (done.returncode, done.stderr) == (1, "")
    assert "conflict  README.md: both changed the same lines: look for <<<<<<<" in done.stdout
    assert f"Settle README.md, then: hal port build {acme}" in done.stdout
    again = run("hal.cli", "port", "update", acme)
    assert (again.returncode, again.stdout) == (0, f"{acme} is up to date.\n")
