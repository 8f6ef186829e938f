"""Descriptions made from the platform configurations of Ascend chips."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hal.cli.hcd import command
from hal.errors import HcdError, UsageError
from hal.hcd import load
from hal.hcd.importers.ascend import import_ascend

EXCERPT = Path(__file__).parent / "data" / "ascend_platform_config.csv"
SHIPPED = ("Ascend910B1", "Ascend910B2", "Ascend910B3", "Ascend910B4")


def call(*words: str | Path) -> Result:
    return CliRunner().invoke(command, ["import", "ascend-ini", *map(str, words)])


@pytest.fixture
def ini(tmp_path: Path) -> Callable[..., Path]:
    """Writes Ascend910B1 as the vendor's .ini file; keyword arguments replace values, None drops.

    A key is written `section__key`.
    """

    def write(tail: str = "", **changes: str | None) -> Path:
        lines: list[str] = ["# a comment", ""]
        section = ""
        with EXCERPT.open(encoding="utf-8", newline="") as stream:
            for row in csv.DictReader(stream):
                if row["soc"] != "Ascend910B1":
                    continue
                if row["section"] != section:
                    section = row["section"]
                    lines.append(f"[{section}]")
                value = changes.get(f"{section}__{row['key']}", row["value"])
                if value is not None:
                    lines.append(f"{row['key']}={value}")
        path = tmp_path / "chip.ini"
        path.write_text("\n".join(lines) + "\n" + tail, encoding="utf-8")
        return path

    return write


def problems_of(path: Path) -> list[str]:
    with pytest.raises(HcdError) as caught:
        import_ascend(path)
    return [line.replace(str(path), "F") for line in caught.value.problems]


@pytest.mark.parametrize("soc", SHIPPED)
def test_shipped_chip_is_what_the_importer_writes(root: Path, soc: str) -> None:
    name = soc.lower().replace("ascend", "ascend-")
    shipped = (root / "hcd" / "chips" / f"{name}.hcd.yaml").read_text(encoding="utf-8")
    assert import_ascend(EXCERPT, soc=soc).text == shipped


def test_whole_file_of_the_vendor_gives_the_same(root: Path) -> None:
    path = root.parent / "shared" / "data" / "ascend_platform_config.csv"
    source = path if path.exists() else EXCERPT  # The excerpt is a part of it, row by row.
    for soc in SHIPPED:
        assert import_ascend(source, soc=soc).text == import_ascend(EXCERPT, soc=soc).text


def test_numbers_are_those_of_the_file(ini: Callable[..., Path], tmp_path: Path) -> None:
    path = ini(
        SoCInfo__ai_core_cnt="10",
        SoCInfo__vector_core_cnt="30",
        AICoreSpec__cube_freq="1000",
        AICoreMemoryRates__ddr_read_rate="40",
        AICoreSpec__ub_size="131072",
        DtypeMKN__DT_INT8="8,64,16",
    )
    out = tmp_path / "chip.hcd.yaml"
    assert call(path, "--out", out).exit_code == 0
    hcd = load(out)
    assert hcd.name == "huawei/ascend-910b1"
    assert hcd["units.core.count"] == 10
    assert hcd["units.vector.count"] == 3
    assert hcd["clocks.cube.sustained_hz"] == 1_000_000_000
    assert hcd["memory.hbm.bandwidth_bytes_per_s"] == 40 * 10 * 1_000_000_000
    assert hcd["memory.ub.banks"] == 131072 // 4096
    assert hcd["compute.cube.operations.i8.shape"] == [8, 16, 64]
    assert hcd["compute.cube.operations.i8.macs_per_cycle"] == 8 * 64 * 16
    assert "chip.ini" in hcd["provenance.platform_config.reference"]


def test_every_number_says_whether_it_was_read_or_estimated() -> None:
    hcd = load("huawei/ascend-910b1")
    assert hcd.provenance("paths.l1_l0a.bytes_per_cycle") == "datasheet"
    assert hcd.provenance("memory.l2.bandwidth_bytes_per_cycle") == "datasheet"
    assert hcd.provenance("memory.hbm.latency_ns") == "estimated"
    assert hcd.provenance("compute.cube.operations.f32.macs_per_cycle") == "estimated"
    assert "links" not in hcd


def test_type_that_the_file_lacks_is_taken_out(ini: Callable[..., Path], tmp_path: Path) -> None:
    out = tmp_path / "chip.hcd.yaml"
    assert call(ini(SoCInfo__support_bf16="0"), "--out", out).exit_code == 0
    assert "compute.cube.operations.bf16" not in load(out)


def test_f32_step_of_newer_files_is_read(ini: Callable[..., Path], tmp_path: Path) -> None:
    out = tmp_path / "chip.hcd.yaml"
    assert call(ini("DT_FLOAT=16,8,16\n"), "--out", out).exit_code == 0
    assert load(out)["compute.cube.operations.f32.macs_per_cycle"] == 16 * 8 * 16
    assert load(out).provenance("compute.cube.operations.f32.macs_per_cycle") == "datasheet"


def test_what_is_not_used_is_listed(ini: Callable[..., Path], tmp_path: Path) -> None:
    many = "".join(f"{index}=Intrinsic_{index}|float16\n" for index in range(50))
    done = call(ini(f"[Map]\n{many}"), "--out", tmp_path / "chip.hcd.yaml")
    assert "not used: AICoreMemoryRates: ddr_rate, l2_rate, ub_to_l2_rate\n" in done.output
    assert "not used: Map: (50 entries)\n" in done.output
    assert "cube_freq" not in done.output
    assert "#   Map: (50 entries)\n" in (tmp_path / "chip.hcd.yaml").read_text(encoding="utf-8")


def test_without_out_the_description_goes_to_standard_output(ini: Callable[..., Path]) -> None:
    path = ini()
    assert call(path).output == import_ascend(path).text


def test_all_that_is_missing_is_told_at_once_with_places(ini: Callable[..., Path]) -> None:
    path = ini(SoCInfo__memory_size="", AICoreSpec__l1_size=None, AICoreSpec__cube_freq="fast")
    capacity, clock, buffer = problems_of(path)
    assert capacity == (
        "F:21:1: SoCInfo.memory_size: is empty; needed for the capacity of the device memory; "
        "or give it with --memory-bytes"
    )
    assert clock == "F:38:1: AICoreSpec.cube_freq: is 'fast'; a whole number above 0 is needed"
    assert buffer == "F:38:1: AICoreSpec.l1_size: the key is missing; needed for the capacity of l1"


def test_capacity_is_told_by_hand_only_where_it_is_missing(ini: Callable[..., Path]) -> None:
    text = import_ascend(ini(SoCInfo__memory_size=""), memory_bytes=1 << 30).text
    assert "capacity_bytes: 1073741824" in text
    assert "it was given by hand" in text
    with pytest.raises(UsageError, match=r"the file has SoCInfo\.memory_size"):
        import_ascend(ini(), memory_bytes=1 << 30)


@pytest.mark.parametrize("value", ["0", "-1", "1e9", "٣", "9" * 30, "16 16"])
def test_number_that_is_none_is_refused(ini: Callable[..., Path], value: str) -> None:
    (problem,) = problems_of(ini(SoCInfo__l2_size=value))
    assert problem.endswith("a whole number above 0 is needed")


def test_split_of_the_cores_must_come_out_even(ini: Callable[..., Path]) -> None:
    (problem,) = problems_of(ini(SoCInfo__vector_core_cnt="50"))
    assert problem.endswith("vector_core_cnt: is 50, no multiple of the 24 AI cores")


def test_same_key_twice_with_two_values_is_refused(ini: Callable[..., Path]) -> None:
    (problem,) = problems_of(ini("DT_INT8=1,2,3\n"))
    assert "DtypeMKN.DT_INT8: is '1,2,3', but '16,32,16' at line " in problem


def test_line_that_is_none_is_refused_with_its_place(ini: Callable[..., Path]) -> None:
    path = ini("what is this\n[open\n")
    first, second = problems_of(path)
    assert first.endswith("is 'what is this'; a line reads key=value or [section]")
    assert second.endswith("a section reads [NAME]")


def test_chip_is_chosen_by_name() -> None:
    done = call(EXCERPT)
    assert "Choose one with --soc NAME" in str(done.exception)
    done = call(EXCERPT, "--soc", "Ascend910B5")
    assert "has no SoC 'Ascend910B5' (did you mean Ascend910B4?)" in str(done.exception)


def write(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "input"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "holds no key=value line"),
        ("some words\n", "holds no key=value line"),
        ("soc,section,key\nA,b,c\n", "lacks the column value"),
        ("soc,section,key,value\n", "has a head but no row"),
        ("soc,section,key,value\nA,b,c\n", ":2:1: has 3 cells; the head has 4"),
        ("soc,section,key,value\nA,b,,1\n", ":2:1: soc, section and key are never empty"),
        ('soc,section,key,value\nA,b,c,"1\n', "is no CSV"),
        ("soc,section,key,value\nÄ ,version,x,1\n", "the key is missing"),
        (b"[a]\nx=\xff\n", "not UTF-8"),
    ],
)
def test_file_of_another_kind_gives_one_clear_error(
    tmp_path: Path, text: str | bytes, told: str
) -> None:
    with pytest.raises(HcdError) as caught:
        import_ascend(write(tmp_path, text))
    assert told in str(caught.value)


def test_output_that_cannot_be_written_is_told(tmp_path: Path, ini: Callable[..., Path]) -> None:
    error = call(ini(), "--out", tmp_path).exception
    assert isinstance(error, UsageError)
    assert "cannot be written: Is a directory. Give another --out." in str(error)
