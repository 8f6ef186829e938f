"""What the generator refuses: each mistake is named with file and line."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hal._generate.registry import RegistryError, load

ROOT = Path(__file__).parents[2]
REGISTRY = ROOT / "include/registry"
RULE = "{id: HAL-MEM-004, checked_by: host, break: skip_check, "
Edit = Callable[..., Path]


@pytest.fixture
def edited(tmp_path: Path) -> Edit:
    """A copy of the registry with one text of one file replaced by another."""

    def edit(old: str, new: str, file: str = "memory.yaml") -> Path:
        folder = tmp_path / "include/registry"
        shutil.copytree(REGISTRY, folder)
        text = (folder / file).read_text(encoding="utf-8")
        assert text.count(old) >= 1, f"{file} no longer has {old!r}"
        (folder / file).write_text(text.replace(old, new, 1), encoding="utf-8")
        return folder

    return edit


def line_of(text: str, file: str = "memory.yaml") -> int:
    """The 1-based line of the registry's file where a text stands."""
    lines = (REGISTRY / file).read_text(encoding="utf-8").split("\n")
    return next(number for number, line in enumerate(lines, 1) if text in line)


MISTAKES = [
    ("an empty brief", "brief: Makes a buffer in device memory.", 'brief: ""', "brief"),
    ("a rule without id", "id: HAL-MEM-004, ", "", "'id' is a required property"),
    ("a rule without checked_by", RULE, RULE.replace("checked_by: host, ", ""), "'checked_by'"),
    ("no way of breaking", RULE, RULE.replace("break: skip_check, ", ""), "how it is broken"),
    ("two ways of breaking", RULE, RULE + "mutant: M01, ", "either `break` or `mutant`"),
    ("a host rule without when", 'when: "desc->bytes == 0", ', "", "'when' is a required property"),
    ("a host rule with no check", RULE, RULE.replace("skip_check", "do_nothing"), "by skip_check"),
    ("an id twice", "id: HAL-MEM-004", "id: HAL-MEM-001", "exists already, at memory.yaml:"),
    ("an id of another interface", "id: HAL-MEM-004", "id: HAL-DEV-904", "HAL-MEM-NNN"),
    ("an id of no form", "id: HAL-MEM-004", "id: MEM-4", "does not match"),
    ("an unknown status", "status: OUT_OF_MEMORY,", "status: BROKEN,", "unknown status 'BROKEN'"),
    ("a status never returned", "status: OUT_OF_MEMORY,", "status: TIMEOUT,", "never returns"),
    ("an unknown type", "type: hal_device, dir", "type: hal_devise, dir", "unknown type"),
    ("a wrong length_of", "length_of: out_text", "length_of: text", "length_of names no"),
    ("an out value", "type: hal_memory, dir: in", "type: hal_memory, dir: out", "is a pointer"),
    ("a wrong minimum", "minimum: bytes", "minimum: length", "minimum names no field"),
    ("an unknown key", "tier: 1", "teir: 1", "'teir' was unexpected"),
    ("a key that is no text", "tier: 1", "tier: 1\n    7: 1", "7 is no text, and a key is"),
    ("a key twice", "tier: 1", "tier: 1\n    tier: 1", "'tier' stands twice"),
    ("no fallback", "    fallback: staged copies\n", "", "'fallback' is a required property"),
    ("a C name twice", "name: memory_desc", "name: memory_alloc", "C name hal_memory_alloc"),
    ("a constant twice", "name: ZERO", "name: ZERO, value: 1, brief: Yes.}\n      - {name: ZERO",
     "constant MEMORY_FLAG_ZERO"),
    ("a struct of no size", "    minimum: bytes\n    fields:\n",
     "    plain: true\n    fields:\n", "starts with `uint64_t size`"),
    ("a gap in the numbers", "number: 3", "number: 13", "4 is next"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "reason"), [m[1:] for m in MISTAKES], ids=[m[0] for m in MISTAKES]
)
def test_a_mistake_is_refused_by_file_and_line(
    edited: Edit, old: str, new: str, reason: str
) -> None:
    file = "device.yaml" if old.startswith("length_of") else "memory.yaml"
    with pytest.raises(RegistryError) as caught:
        load(edited(old, new, file))
    text = str(caught.value)
    assert reason in text
    assert all(line.split(":")[1].isdigit() for line in text.split("\n"))


def test_the_line_is_the_mistakes_own(edited: Edit) -> None:
    with pytest.raises(RegistryError) as caught:
        load(edited("status: OUT_OF_MEMORY,", "status: BROKEN,"))
    line = line_of("status: OUT_OF_MEMORY,")
    assert str(caught.value) == f"memory.yaml:{line}: unknown status 'BROKEN'"


def test_all_mistakes_are_told_at_once(edited: Edit) -> None:
    folder = edited("status: OUT_OF_MEMORY,", "status: BROKEN,")
    path = folder / "device.yaml"
    path.write_text(path.read_text().replace("status: OUT_OF_RANGE", "status: ODD"))
    with pytest.raises(RegistryError) as caught:
        load(folder)
    places = {line.split(":")[0] for line in str(caught.value).split("\n")}
    assert places == {"device.yaml", "memory.yaml"}


def test_laws_of_a_subject_have_ids_of_its_own(edited: Edit) -> None:
    with pytest.raises(RegistryError) as caught:
        load(edited("id: HAL-VIL-003", "id: HAL-ABI-903", "vil.yaml"))
    line = line_of("id: HAL-VIL-003", "vil.yaml")
    assert str(caught.value).startswith(f"vil.yaml:{line}: laws.2.id: 'HAL-ABI-903'")


def test_a_retired_id_is_not_used_again(edited: Edit) -> None:
    folder = edited("retired: []", "retired: [HAL-MEM-004]", "retired.yaml")
    with pytest.raises(RegistryError) as caught:
        load(folder)
    line = line_of("id: HAL-MEM-004")
    assert str(caught.value) == f"memory.yaml:{line}: HAL-MEM-004 is retired and is not used again"


def test_broken_yaml_is_refused_by_file_and_line(edited: Edit) -> None:
    with pytest.raises(RegistryError) as caught:
        load(edited("interface: memory", "interface: [memory"))
    assert str(caught.value).startswith("memory.yaml:2: ")


def test_a_file_has_the_name_of_its_interface(edited: Edit) -> None:
    folder = edited("number: 3", "number: 3")
    (folder / "memory.yaml").rename(folder / "storage.yaml")
    with pytest.raises(RegistryError) as caught:
        load(folder)
    assert str(caught.value) == "storage.yaml:1: it describes 'memory'"


def test_retired_ids_are_a_list(edited: Edit) -> None:
    with pytest.raises(RegistryError) as caught:
        load(edited("retired: []", "retired: HAL-MEM-004", "retired.yaml"))
    assert str(caught.value) == "retired.yaml:1: `retired` is a list of rule ids"


def test_a_condition_on_an_unknown_field_is_refused(edited: Edit) -> None:
    done = generate(edited('when: "desc->bytes == 0"', 'when: "desc->byte == 0"'))
    line = line_of("id: HAL-MEM-004")
    assert (done.returncode, done.stderr) == (2, f"memory.yaml:{line}: desc->byte names no field\n")


def test_a_folder_without_registry_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "include/registry"
    done = generate(folder)
    reason = f"{folder}: no registry is here; name the checkout with --root\n"
    assert (done.returncode, done.stderr) == (2, reason)


def generate(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the generator on the checkout that holds a registry folder."""
    words = [sys.executable, "-m", "hal._generate", "--root", str(folder.parents[1]), *options]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_command_tells_a_mistake_without_a_traceback(edited: Edit) -> None:
    done = generate(edited("id: HAL-MEM-004, ", ""))
    line = line_of("id: HAL-MEM-004")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"memory.yaml:{line}: functions.0.rules.3: 'id' is a required")


def test_check_names_each_file_that_differs_and_changes_none(edited: Edit) -> None:
    folder = edited("number: 3", "number: 3")
    assert generate(folder).returncode == 0
    assert generate(folder, "--check").returncode == 0
    header = folder.parents[1] / "include/hal/hal.h"
    text = header.read_text(encoding="utf-8").replace("HAL_OK 0", "HAL_OK 5")
    header.write_text(text, encoding="utf-8")
    done = generate(folder, "--check")
    assert done.returncode == 1
    assert done.stderr.split("\n")[0] == "include/hal/hal.h differs:"
    assert "-#define HAL_OK 5" in done.stderr
    assert header.read_text(encoding="utf-8") == text


def test_a_new_function_needs_the_registry_alone(edited: Edit) -> None:
    folder = edited("  - name: native_handle\n", "  - name: seventh_sense\n")
    assert generate(folder).returncode == 0
    names = ("include/hal/hal.h", "hal/native/layers/validate.c", "docs/interfaces/memory.md")
    texts = [(folder.parents[1] / name).read_text(encoding="utf-8") for name in names]
    assert ["seventh_sense" in text for text in texts] == [True, True, True]
