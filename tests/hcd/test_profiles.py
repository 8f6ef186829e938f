"""Profiles ask by path; what a chip lacks is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from hal.errors import HcdError
from hal.hcd import load
from hal.hcd.profiles import load_profile, missing, requirements, shipped_profiles

HEAD = 'hcd_version: "1.0"\nkind: profile\nprofile: {}\nversion: "1"\n'


def profile(folder: Path, body: str, *, name: str = "mine") -> Path:
    path = folder / f"{name}.profile.yaml"
    path.write_text(HEAD.format(name) + body, encoding="utf-8")
    return path


def test_four_profiles_are_shipped_each_including_the_one_below() -> None:
    names = ["hal-core", "hal-infer", "hal-train", "hal-fleet"]
    assert set(names) == set(shipped_profiles())
    counts = [len(requirements(load_profile(name))) for name in names]
    assert counts == sorted(set(counts))


@pytest.mark.parametrize("name", ["sim/npu-small", "sim/npu-systolic", "nvidia/a100-sxm-80gb"])
def test_shipped_chip_can_train(name: str) -> None:
    assert missing(load(name), load_profile("hal-train")) == []


@pytest.mark.parametrize(
    ("requires", "lacks"),
    [
        ("execution.limits.stream_count_max: 32", 0),
        ("execution.limits.stream_count_max: 33", 1),
        ("execution.limits.timer_resolution_ns: 1", 0),
        ("execution.limits.timer_resolution_ns: 0.5", 1),
        ("features.peer: true", 0),
        ("features.graph: true", 1),
        ("kernels.vil.layouts: [row, acc]", 0),
        ("kernels.vil.layouts: [row, panel]", 1),
        ("kernels.vil.profile: [flat, explicit]", 0),
        ("kernels.vil.profile: [flat]", 1),
        ("memory.hbm.capacity_bytes: 1", 1),
        ("execution.limits.grid_max: [65535, 1, 1]", 0),
        ("execution.limits.grid_max: [65536, 1, 1]", 1),
    ],
)
def test_requirement_is_compared_by_the_rule_of_its_leaf(
    tmp_path: Path, requires: str, lacks: int
) -> None:
    wanted = load_profile(profile(tmp_path, f"requires: {{'{requires.split(':')[0]}': "
                                            f"{requires.split(': ')[1]}}}\n"))  # fmt: skip
    assert len(missing(load("sim/npu-small"), wanted)) == lacks


def test_profile_that_asks_for_an_unknown_path_is_refused(tmp_path: Path) -> None:
    path = profile(tmp_path, "requires:\n  features.grph: true\n")
    with pytest.raises(HcdError, match=r":6:3: requires.features.grph: .*did you mean graph"):
        load(path)


def test_unknown_profile_and_chip_in_its_place_are_refused() -> None:
    with pytest.raises(HcdError, match=r"did you mean hal-core\?"):
        load_profile("hal-cor")
    with pytest.raises(HcdError, match="is a chip, not a profile"):
        load_profile("hcd/chips/npu-small.hcd.yaml")
