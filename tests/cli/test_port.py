"""`hal port new`: the folder it makes builds as it is and names only the new port."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from hal import _paths
from hal.errors import UsageError
from hal.port.discovery import all_candidates
from hal.portkit.kinds import KINDS
from hal.portkit.start_port import start_port


@pytest.fixture(scope="module")
def acme(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new port called acme."""
    return start_port("acme", tmp_path_factory.mktemp("ports"))


def test_it_makes_the_files_of_a_port(acme: Path) -> None:
    files = (path for path in acme.rglob("*") if path.is_file())
    assert sorted(path.relative_to(acme).as_posix() for path in files) == [
        ".copier-answers.yml",
        ".github/workflows/port.yml",
        ".gitignore",
        ".hal-template.yml",
        "CMakeLists.txt",
        "CMakePresets.json",
        "README.md",
        "acme.hcd.yaml",
        "port.c",
        "pyproject.toml",
        "tests/test_port.py",
    ]


def test_nothing_in_it_is_called_after_the_template(acme: Path) -> None:
    texts = {
        path.name: path.read_text(encoding="utf-8") for path in acme.iterdir() if path.is_file()
    }
    assert [name for name, text in texts.items() if "hal_port_template" in text] == []
    assert 'KIT_ENTRY(port, .name = "acme", .vendor = "your company"' in texts["port.c"]
    assert 'acme = "hal_port_acme:hal_port_acme.so"' in texts["pyproject.toml"]


def test_its_description_is_valid(acme: Path, run) -> None:
    done = run("hal.cli", "hcd", "check", acme / "acme.hcd.yaml")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("kind", ["npu", "gpu", "cpu"])
def test_each_kind_is_described_in_its_own_words(kind: str, run, tmp_path: Path) -> None:
    done = run("hal.cli", "port", "new", "acme", "--into", tmp_path, "--kind", kind)
    assert done.returncode == 0, done.stderr
    titles = {"npu": "## An NPU", "gpu": "## A GPU", "cpu": "## Processors"}
    readme = (tmp_path / "acme/README.md").read_text(encoding="utf-8")
    assert [k for k, title in titles.items() if title in readme] == [kind]
    done = run("hal.cli", "hcd", "check", tmp_path / "acme/acme.hcd.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    text = (tmp_path / "acme/acme.hcd.yaml").read_text(encoding="utf-8")
    assert ("simt" in text) == (kind == "gpu")


def test_its_workflow_is_yaml_that_builds_checks_and_certifies(acme: Path) -> None:
    text = (acme / ".github/workflows/port.yml").read_text(encoding="utf-8")
    steps = yaml.safe_load(text)["jobs"]["certify"]["steps"]
    commands = [step["run"].split(" .")[0] for step in steps if "run" in step]
    assert [c for c in commands if c.startswith("hal")] == [
        *("hal port build", "hal port check", "hal-certify", "hal port size", "hal port pack")
    ]


def test_it_builds_beside_its_description(acme: Path, run) -> None:
    cmake_dir = run("hal.cli", "paths", "cmake").stdout.strip()
    build = acme / "build"
    for words in (["-S", acme, "-B", build, f"-Dhal_DIR={cmake_dir}"], ["--build", build]):
        done = subprocess.run(["cmake", *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    assert (acme / "hal_port_acme.so").is_file()


@pytest.mark.parametrize("name", ["", "Acme", "9chips", "a-b", "a" * 33, "template", "kit", "../x"])
def test_a_name_that_cannot_name_a_library_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot name a port"):
        start_port(name, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_existing_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "acme").mkdir()
    with pytest.raises(UsageError, match="exists"):
        start_port("acme", tmp_path)
    assert list((tmp_path / "acme").iterdir()) == []


def test_the_name_of_a_port_that_is_there_is_refused(tmp_path: Path) -> None:
    taken = all_candidates()[0].name
    with pytest.raises(UsageError, match=f"there is a port '{taken}'"):
        start_port(taken, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("vendor", ["", 'Acme "Chips"', "Acme\\", "Acme\nChips"])
def test_a_vendor_that_cannot_stand_in_a_c_string_is_refused(vendor: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot name a vendor"):
        start_port("acme", tmp_path, vendor=vendor)
    assert list(tmp_path.iterdir()) == []


def test_the_vendor_stands_in_the_port_and_its_description(tmp_path: Path) -> None:
    folder = start_port("one", tmp_path, vendor="Acme Chips & Co.")
    assert '.vendor = "Acme Chips & Co."' in (folder / "port.c").read_text("utf-8")
    hcd = yaml.safe_load((folder / "one.hcd.yaml").read_text("utf-8"))
    assert hcd["identity"]["vendor"] == "acme-chips-co"


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(UsageError, match="cannot be made: Not a directory"):
        start_port("acme", tmp_path / "file")


def test_copier_writes_the_files_again_with_the_same_answers(tmp_path: Path) -> None:
    import copier

    folder = start_port("acme", tmp_path, kind="gpu", vendor="Acme Chips")
    before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    (folder / "CMakeLists.txt").unlink()
    copier.run_recopy(folder, defaults=True, overwrite=True, quiet=True)
    assert {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()} == before


def test_no_other_program_is_needed_to_make_it(tmp_path: Path, run) -> None:
    words = ("port", "new", "acme", "--into", tmp_path)
    done = run("hal.cli", *words, env={"PATH": str(tmp_path)})
    assert (done.returncode, done.stderr) == (0, "")


def test_the_words_for_the_command_and_the_template_are_the_same() -> None:
    questions = yaml.safe_load((_paths.template_dir() / "copier.yml").read_text("utf-8"))
    words = yaml.safe_load((_paths.template_dir() / "kinds.yaml").read_text("utf-8"))
    assert (tuple(questions["kind"]["choices"]), tuple(words)) == (KINDS, KINDS)
