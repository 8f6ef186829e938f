"""Holistic Trace Analysis reads our timelines. It is heavy: it has an environment of its own.

python -m venv FOLDER; FOLDER/bin/pip install HolisticTraceAnalysis
HAL_TEST_HTA=FOLDER pytest tests/sim_port/test_analysis.py
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.sim_port.test_trace import of_model, of_port

FOLDER = os.environ.get("HAL_TEST_HTA", "")
READ = """
import json, sys
from hta.trace_analysis import TraceAnalysis
analysis = TraceAnalysis(trace_dir=sys.argv[1])
table = analysis.get_temporal_breakdown(visualize=False)
ranks = [int(rank) for rank in table["rank"]]
print(json.dumps({"ranks": ranks, "kernel_us": float(table["kernel_time(us)"].sum())}))
"""


@pytest.mark.parametrize("write", [of_port, of_model] if FOLDER else [])
def test_holistic_trace_analysis_breaks_the_time_down(write: object, tmp_path: Path) -> None:
    assert callable(write)
    write(tmp_path / "trace.json")
    done = subprocess.run(
        [Path(FOLDER) / "bin/python", "-c", READ, tmp_path],
        env={**os.environ, "HTA_DISABLE_NS_ROUNDING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.strip().splitlines()[-1])
    assert found["ranks"] == [0]
    assert found["kernel_us"] > 0
