"""Kept releases never change, and what the registry says today only adds to them."""

from __future__ import annotations

import copy
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from hal._generate.__main__ import main
from hal._generate.registry import RegistryError, load
from hal._generate.release import EXAMPLE, KEPT, RELEASES, broken, check_releases, freeze, sums

ROOT = Path(__file__).resolve().parents[2]
LAYOUT = json.loads((ROOT / "tests/golden/layout.json").read_text(encoding="utf-8"))


def newer(**changes: Any) -> dict[str, Any]:
    """Today's layout as that of the next minor."""
    layout = copy.deepcopy(LAYOUT)
    layout["abi"]["minor"] += 1
    return layout | changes


def test_the_first_release_is_kept() -> None:
    assert (ROOT / RELEASES / "1.0").is_dir()


def test_what_was_kept_is_as_it_was(release: Path) -> None:
    assert (release / "SHA256SUMS").read_text(encoding="utf-8") == sums(release)
    files = {path.relative_to(release).as_posix() for path in release.rglob("*.*")}
    assert files == {*KEPT, EXAMPLE}


def test_today_only_adds_to_what_was_released() -> None:
    assert check_releases(ROOT, LAYOUT) == []


def test_a_change_without_a_new_minor_is_refused() -> None:
    layout = copy.deepcopy(LAYOUT)
    layout["constants"]["HAL_DTYPE_F4"] = 12
    assert broken(LAYOUT, layout) == [
        "it was released, and the registry differs from it; raise abi.minor"
    ]


def test_additions_in_a_new_minor_are_fine() -> None:
    layout = newer()
    layout["constants"]["HAL_DTYPE_F4"] = 12
    table = layout["structs"]["hal_memory_table"]
    table["fields"]["prefetch"] = {"offset": table["size"], "size": 8}
    table["size"] += 8
    assert broken(LAYOUT, layout) == []


def test_what_moves_or_goes_is_told_by_name() -> None:
    layout = newer()
    del layout["constants"]["HAL_DTYPE_F32"]
    layout["constants"]["HAL_OK"] = 1
    layout["structs"]["hal_memory_table"]["fields"]["free"]["offset"] = 24
    del layout["structs"]["hal_copy_desc"]
    layout["structs"]["hal_memory_ref"]["size"] = 32
    assert broken(LAYOUT, layout) == [
        "HAL_OK was 0 and is 1",
        "HAL_DTYPE_F32 was 1 and is gone",
        "hal_memory_ref has no size of its own, so it cannot change",
        "hal_copy_desc is gone",
        "hal_memory_table.free moved from {'offset': 16, 'size': 8} to {'offset': 24, 'size': 8}",
    ]


def test_a_field_in_the_padding_is_refused() -> None:
    kept, layout = copy.deepcopy(LAYOUT), newer()
    del kept["structs"]["hal_memory_desc"]["fields"]["reserved"]
    assert broken(kept, layout) == [
        "hal_memory_desc.reserved lies at 28, inside the 32 bytes that the release already fills"
    ]


def test_the_generator_refuses_a_registry_that_breaks_a_release(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(ROOT / "include/registry", tmp_path / "include/registry")
    shutil.copytree(ROOT / RELEASES, tmp_path / RELEASES)
    path = tmp_path / "include/registry/common.yaml"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("value: -14", "value: -15"), encoding="utf-8")
    assert main(["--root", str(tmp_path)]) == 2
    assert "ABI 1.0: " in capsys.readouterr().err
    assert not (tmp_path / "include/hal").exists()


def test_a_release_is_kept_once(tmp_path: Path) -> None:
    for source in KEPT.values():
        (tmp_path / source).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / source, tmp_path / source)
    (tmp_path / "vendors/kit").mkdir(parents=True)
    (tmp_path / "vendors/kit/kit.c").write_text("int kit;\n", encoding="utf-8")
    folder = freeze(tmp_path, {"major": 1, "minor": 7})
    assert folder == tmp_path / RELEASES / "1.7"
    assert (folder / "SHA256SUMS").read_text(encoding="utf-8") == sums(folder)
    with pytest.raises(RegistryError, match=r"is kept already and never changes; raise abi\.minor"):
        freeze(tmp_path, {"major": 1, "minor": 7})


@pytest.mark.parametrize(
    ("since", "minor", "reason"),
    [
        (1, 0, "since 1 is newer than the ABI's minor"),
        (1, 1, "flags stands after a field of minor 1"),
    ],
)
def test_fields_of_later_minors_stand_last(
    tmp_path: Path, since: int, minor: int, reason: str
) -> None:
    folder = tmp_path / "registry"
    shutil.copytree(ROOT / "include/registry", folder)
    common = folder / "common.yaml"
    text = common.read_text(encoding="utf-8")
    common.write_text(text.replace("minor: 0}", f"minor: {minor}}}", 1), encoding="utf-8")
    path = folder / "memory.yaml"
    text = path.read_text(encoding="utf-8")
    old = "{name: alignment_bytes, type: uint64_t,"
    path.write_text(text.replace(old, f"{old} since: {since},", 1), encoding="utf-8")
    with pytest.raises(RegistryError, match=reason):
        load(folder)
