"""The Python object: paths, origins, canonical form, overlays, names, inheritance."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hal.errors import HcdError
from hal.hcd import Hcd, compare, from_flat, load, shipped

Child = Callable[[str], Hcd]
SHIPPED = sorted(name.partition("@")[0] for name in shipped())


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_description_is_right_and_survives_its_flat_form(name: str) -> None:
    hcd = load(name)
    assert hcd.name == name
    assert hcd.warnings == ()
    again = from_flat(hcd.flat())
    assert again.flat() == hcd.flat()
    assert again.sha256 == hcd.sha256
    assert dict(again.items()) == dict(hcd.items())


def test_flat_form_is_sorted_lines_of_path_tab_value() -> None:
    lines = load("sim/npu-small").flat().split(b"\n")
    assert lines[-1] == b""
    assert lines[:-1] == sorted(lines[:-1])
    assert b"memory.dram.capacity_bytes\t268435456" in lines
    assert b"compute.cube.operations.f16.shape\t[16,16,16]" in lines
    assert b"features.graph\tfalse" in lines
    assert b"identity.vendor\tsim" in lines
    assert b'kernels.vil.ops.mma.spaces_a\t["mma_a"]' in lines
    assert not [line for line in lines[:-1] if line.count(b"\t") != 1]


def test_text_with_tab_and_newline_stays_one_line(child: Child) -> None:
    hcd = child('identity: {description: "a\\tb\\nc\\\\d"}\n')
    assert b"identity.description\ta\\tb\\nc\\\\d\n" in hcd.flat()
    assert from_flat(hcd.flat())["identity.description"] == "a\tb\nc\\d"


def test_spelling_of_a_number_does_not_change_the_identity(child: Child) -> None:
    one = child("memory: {dram: {latency_ns: 120.0}}\n")
    other = child("memory: {dram: {latency_ns: 1.2e2}}\n")
    assert one.sha256 == other.sha256 == load("sim/npu-small").sha256


def test_value_list_object_and_absence_are_read_by_path() -> None:
    hcd = load("sim/npu-small")
    assert hcd["memory.dram.capacity_bytes"] == 268435456
    assert hcd["memory.dram"]["kind"] == "global"
    assert hcd.ids("clocks") == ["main"]
    assert hcd.get("memory.hbm.capacity_bytes") is None
    assert "memory.dram" in hcd
    assert "memory.hbm" not in hcd
    with pytest.raises(HcdError, match=r"did you mean memory.dram.capacity_bytes\?"):
        hcd["memory.dram.capacity_byte"]


def test_what_a_path_gives_cannot_change_the_description() -> None:
    hcd = load("sim/npu-small")
    hcd["execution.limits.grid_max"].append(1)
    hcd["memory.dram"]["kind"] = "x"
    hcd.data["memory"].clear()
    assert hcd["execution.limits.grid_max"] == [65535, 65535, 65535]
    assert hcd["memory.dram.kind"] == "global"


def test_child_merges_maps_lists_by_id_and_null(child: Child) -> None:
    hcd = child(
        "identity: {product: mine}\n"
        "memory:\n  - {id: dram, capacity_bytes: 1e9}\n"
        "features: {peer: null}\nlinks: null\nenergy: {memories: {spm: null}}\n"
        "execution: {limits: {grid_max: [1, 2, 3]}}\n"
    )
    assert hcd.name == "sim/mine"
    assert hcd["memory.dram.capacity_bytes"] == 10**9
    assert hcd["memory.dram.kind"] == "global"
    assert hcd["memory.spm.kind"] == "scratchpad"
    assert hcd["features.peer"] is False
    assert "links" not in hcd
    assert hcd["energy.memories"] == [{"id": "dram", "memory": "dram", "energy_pj_per_byte": 30}]
    assert hcd["execution.limits.grid_max"] == [1, 2, 3]


def test_origin_goes_through_extends(child: Child) -> None:
    hcd = child("memory: {dram: {latency_ns: 99}}\n")
    assert hcd.origin("memory.dram.latency_ns").endswith("child.hcd.yaml:3:29")
    assert "npu-small.hcd.yaml:" in hcd.origin("memory.dram.capacity_bytes")
    assert "vil-base.hcd.yaml:" in hcd.origin("kernels.vil.ops.mma.dtypes")


def test_file_beside_may_be_extended_and_circles_are_refused(tmp_path: Path) -> None:
    for name, parent in ("ab", "bc", "ca"):
        text = f'hcd_version: "1.0"\nextends: ./{parent}.yaml\n'
        (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(HcdError, match=r"goes in a circle: a.yaml -> b.yaml -> c.yaml -> a.yaml"):
        load(tmp_path / "a.yaml")
    (tmp_path / "c.yaml").write_text('hcd_version: "1.0"\nextends: ./d.yaml\n', encoding="utf-8")
    with pytest.raises(HcdError, match=r"c.yaml:2:10: extends: .*there is no such file"):
        load(tmp_path / "a.yaml")


def test_chain_of_parents_is_bounded(tmp_path: Path) -> None:
    for index in range(12):
        text = f'hcd_version: "1.0"\nextends: ./{index + 1}.yaml\n'
        (tmp_path / f"{index}.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(HcdError, match="more than 8 files extend each other"):
        load(tmp_path / "0.yaml")


@pytest.mark.parametrize("name", ["sim/npu-small", "sim/npu-small@1", "npu-small"])
def test_shipped_description_is_found_by_name(name: str) -> None:
    assert load(name).name == "sim/npu-small"


@pytest.mark.parametrize("name", ["sim/npu-smal", "sim/npu-small@9", "nothing", "", "a\0b"])
def test_unknown_name_is_one_clear_error(name: str) -> None:
    with pytest.raises(HcdError):
        load(name)


def test_overlay_replaces_leaves_and_is_checked_again() -> None:
    hcd = load("hal/cpu")
    more = hcd.overlay({"memory.dram.capacity_bytes": 10**11, "units.core.count": 64})
    assert more["memory.dram.capacity_bytes"] == 10**11
    assert more["units.core.count"] == 64
    assert hcd["units.core.count"] == 2
    assert more.origin("units.core.count") == "<overlay>:1:1"
    text = "units.core.count\t8\nexecution.limits.grid_max\t[7,8,9]\nfeatures.graph\ttrue\n"
    same = hcd.overlay(text)
    assert same["units.core.count"] == 8
    assert same["execution.limits.grid_max"] == [7, 8, 9]
    assert same["features.graph"] is True


def test_machine_smaller_than_its_description_is_no_mistake() -> None:
    hcd = load("hal/cpu").overlay({"memory.dram.capacity_bytes": 2**20})
    assert hcd["execution.limits.allocation_bytes_max"] == 2**32


@pytest.mark.parametrize(
    ("overlay", "part"),
    [
        ({"units.core.cunt": 1}, "did you mean count"),
        ({"units.core.count": 0}, "must be at least 1"),
        ({"units.core": 3}, "does not end at a value"),
        ("units.core.count 8", "a path, a tab and a value"),
        ("units.core.count\teight\n", "a whole number in units is needed"),
    ],
)
def test_wrong_overlay_is_refused(overlay: dict[str, object] | str, part: str) -> None:
    with pytest.raises(HcdError, match=part):
        load("hal/cpu").overlay(overlay)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"x",
        b"a\tb\n",
        b"\xff\t1\n",
        b"units.core\t1\nunits.core.count\t2\n",
        b"kind\tsystem\n",
    ],
)
def test_wrong_flat_text_is_refused(text: bytes) -> None:
    with pytest.raises(HcdError):
        from_flat(text)


def test_provenance_of_a_number_is_the_longest_pattern(child: Child) -> None:
    hcd = child(
        "provenance: {x: {covers: ['memory.spm.*', 'clocks.*'], source: measured, reference: x}}\n"
    )
    assert hcd.provenance("memory.spm.latency_cycles") == "measured"
    assert hcd.provenance("memory.dram.latency_ns") == "estimated"


def rows(reported: dict[str, object]) -> dict[str, str]:
    return {row.path: row.verdict for row in compare(load("sim/npu-small"), reported)}


@pytest.mark.parametrize(
    ("path", "reported", "verdict"),
    [
        ("units.core.count", 4, "pass"),
        ("units.core.count", 5, "fail"),
        ("execution.limits.stream_count_max", 33, "pass"),
        ("execution.limits.stream_count_max", 31, "fail"),
        ("execution.limits.timer_resolution_ns", 1, "pass"),
        ("execution.limits.timer_resolution_ns", 2, "fail"),
        ("execution.limits.grid_max", [65535, 65535, 70000], "pass"),
        ("execution.limits.grid_max", [65535, 65534, 70000], "fail"),
        ("execution.limits.grid_max", [65535], "fail"),
        ("memory.dram.capacity_bytes", 268435456 * 1.1, "pass"),
        ("memory.dram.capacity_bytes", 268435456 * 2, "fail"),
        ("kernels.vil.layouts", ["row", "col", "mma_a", "mma_b", "acc", "panel"], "pass"),
        ("kernels.vil.layouts", ["row"], "fail"),
        ("features.peer", False, "fail"),
        ("features.graph", True, "warn"),
        ("features.graph", False, "pass"),
        ("dtypes.f32.compute", "emulated", "fail"),
        ("memory.dram.channels", 1, "unchecked"),
    ],
)
def test_reported_value_is_judged_by_the_rule_of_its_leaf(
    path: str, reported: object, verdict: str
) -> None:
    assert rows({path: reported})[path] == verdict


def test_comparison_has_a_row_for_each_declared_leaf() -> None:
    hcd = load("sim/npu-small")
    assert set(rows({})) == {path for path, _ in hcd.items()}
    assert set(rows({}).values()) <= {"unchecked"}
    with pytest.raises(HcdError, match="there is no path"):
        rows({"memory.dram.colour": 1})


def test_import_of_the_package_is_light() -> None:
    code = "import sys, hal.hcd; print(sorted({'numpy', 'jsonschema', 'rich'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_load_of_a_right_file_needs_no_json_schema_library() -> None:
    code = "import sys, hal.hcd; hal.hcd.load('sim/npu-small'); print('jsonschema' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
