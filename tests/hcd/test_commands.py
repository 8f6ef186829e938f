"""The command `hal hcd`: exit codes, output for people and for programs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hal.cli.hcd import command
from hal.hcd import load, shipped

NAMES = sorted(name.partition("@")[0] for name in shipped())


def call(*words: str | Path) -> Result:
    return CliRunner().invoke(command, [str(word) for word in words])


def test_check_says_ok_with_the_hash() -> None:
    done = call("check", "sim/npu-small", "hal/cpu")
    assert done.exit_code == 0
    assert done.output.splitlines()[0].startswith("sim/npu-small: ok (chip sim/npu-small, sha256 ")


def test_check_of_a_wrong_file_exits_2_with_each_place(write: Callable[..., Path]) -> None:
    path = write("identity: {archh: x}\nfeatures: {graph: on}\n")
    done = call("check", path, "hal/cpu")
    assert done.exit_code == 2
    assert f"{path}:3:12: identity.archh: there is no such key" in done.output
    assert f"{path}:4:19: features.graph: is the text 'on'" in done.output
    assert "hal/cpu: ok" in done.output


def test_check_answers_a_program(write: Callable[..., Path]) -> None:
    good, bad = json.loads(call("check", "--json", "hal/cpu", write("a: 1\n")).stdout)
    assert good["ok"] is True
    assert good["sha256"] == load("hal/cpu").sha256
    assert bad["ok"] is False
    assert len(bad["problems"]) == 1


def test_check_of_what_is_no_file_exits_2(tmp_path: Path) -> None:
    assert call("check", tmp_path).exit_code == 2
    assert call("check", tmp_path / "none.yaml").exit_code == 2
    assert call("check").exit_code == 2


def test_show_prints_a_summary_a_section_and_json() -> None:
    assert "memory dram\t256 MiB global, 128.0 GB/s" in call("show", "sim/npu-small").output
    assert "memory.dram.kind\tglobal" in call("show", "sim/npu-small", "memory").output
    data = json.loads(call("show", "sim/npu-small", "--json").output)
    assert data["identity"]["product"] == "npu-small"
    assert "l01\tnpu0 - npu1 1 x 25.0 GB/s" in call("show", "sim/npu-small-x4").output
    assert "hal-core" in call("show", "hcd/profiles/hal-core.profile.yaml").output


def test_resolve_prints_values_with_their_origin_and_the_flat_form() -> None:
    lines = call("resolve", "sim/npu-small").output.splitlines()
    (line,) = [line for line in lines if line.startswith("kernels.vil.ops.mma.dtypes: ")]
    assert "vil-base.hcd.yaml:" in line
    assert call("resolve", "sim/npu-small", "--flat").stdout_bytes == load("sim/npu-small").flat()
    row = json.loads(call("resolve", "hal/cpu", "--json").output)["units.core.count"]
    assert row["value"] == 2
    assert "cpu.hcd.yaml:" in row["origin"]


def test_diff_exits_by_kept_promises(write: Callable[..., Path]) -> None:
    better = write("execution: {limits: {stream_count_max: 64}}\n", name="better.yaml")
    worse = write("execution: {limits: {stream_count_max: 16}}\n", name="worse.yaml")
    done = call("diff", "sim/npu-small", better)
    assert done.exit_code == 0
    assert "kept\texecution.limits.stream_count_max\t32\t64\tat_least" in done.output
    done = call("diff", "--json", "sim/npu-small", worse)
    assert done.exit_code == 1
    (row,) = json.loads(done.stdout)
    assert row == {
        "path": "execution.limits.stream_count_max",
        "rule": "at_least",
        "a": 32,
        "b": 16,
        "broken": True,
    }


def test_diff_calls_a_withdrawn_promise_broken(write: Callable[..., Path]) -> None:
    done = call("diff", "sim/npu-small", write("features: {peer: false}\n"))
    assert done.exit_code == 1
    assert "broken\tfeatures.peer\ttrue\tfalse\timplies" in done.output


def test_profile_names_what_is_lacking() -> None:
    done = call("profile", "sim/npu-small")
    assert done.exit_code == 0
    assert "hal-train: met" in done.output
    assert "features.ecc: declares false; needs implies true" in done.output
    assert call("profile", "sim/npu-small", "--profile", "hal-fleet").exit_code == 1
    assert call("profile", "sim/npu-small", "--profile", "hal-infer").exit_code == 0
    result = json.loads(call("profile", "hal/cpu", "--json").output)
    assert result["hal-core"] == {"met": True, "lacks": []}
    assert result["hal-train"]["lacks"][0]["path"] == "dtypes.bf16.compute"


def test_generated_files_are_fresh() -> None:
    assert call("docs", "--check").exit_code == 0


def test_example_of_the_guide_is_right(root: Path, tmp_path: Path) -> None:
    guide = (root / "docs" / "hcd.md").read_text(encoding="utf-8")
    file = tmp_path / "acme-x1.hcd.yaml"
    file.write_text(guide.split("```yaml\n")[1].split("```")[0], encoding="utf-8")
    hcd = load(file)
    assert hcd.name == "acme/x1"
    assert hcd["units.core.count"] == 8
    assert hcd.provenance("memory.dram.bandwidth_bytes_per_s") == "datasheet"
    assert "compute.cube.operations.f64" not in hcd


@pytest.mark.parametrize("name", [*NAMES, "hcd/profiles/hal-train.profile.yaml"])
def test_every_shipped_description_is_shown_and_resolved(name: str) -> None:
    assert call("show", name).exit_code == 0
    assert call("resolve", name).exit_code == 0
    assert call("diff", name, name).exit_code == 0


def test_chip_and_system_are_not_compared() -> None:
    error = call("diff", "sim/npu-small", "sim/npu-small-x4").exception
    assert "is a chip and sim/npu-small-x4 is a system" in str(error)
    error = call("profile", "sim/npu-small-x4").exception
    assert "is a system; profiles ask for what a chip has" in str(error)


def test_unknown_section_is_told() -> None:
    error = call("show", "sim/npu-small", "nothing").exception
    assert str(error) == "sim/npu-small: declares nothing under 'nothing'"


def test_part_with_holes_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "part.hcd.yaml"
    path.write_text(
        'hcd_version: "1.0"\nkind: part\n'
        'identity: {vendor: a, product: b, revision: "1", arch: c}\n'
        "units: [{id: core}]\nmemory: [{id: hbm}]\ncompute: [{id: cube}]\n",
        encoding="utf-8",
    )
    done = call("show", path)
    assert done.exit_code == 0
    assert "unit core\t" in done.output
