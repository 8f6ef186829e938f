"""The kit answers for exactly the features that the schema of chip descriptions lists."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]


def test_the_kit_knows_the_features_of_the_schema() -> None:
    schema = yaml.safe_load((ROOT / "hcd/schema/features.yaml").read_text(encoding="utf-8"))
    source = (ROOT / "vendors/kit/device.c").read_text(encoding="utf-8")
    listed = re.search(r"\bfeatures\[\] = \{(.*?)\};", source, re.DOTALL)
    assert listed is not None
    assert sorted(re.findall(r'"(\w+)"', listed[1])) == sorted(schema["properties"])
