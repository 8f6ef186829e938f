"""Timelines as tools that add them up read them; Holistic Trace Analysis sets the rules.

It takes a file as one rank's, counts a span that has `args.stream` as work of a device, and sorts
spans by name: `Memcpy …` and `Memset` move, kernels compute.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hal
from hal import dtypes
from hal.cli import run_group as run
from hal.cli.sim import command
from hal.vil.recipes import elementwise
from tests.sim_port.test_timing import peer_ends

Span = dict[str, Any]


def of_port(path: Path) -> None:
    """Two streams: three kernels, a copy each way, a fill."""
    image = elementwise("un", "exp", [dtypes.f32], dtypes.f32, tile=(64, 64))
    port = hal.load_port("sim:sim/npu-small", options={"trace": str(path)})
    with port.device(0) as device:
        x, y = (device.empty((256, 64), np.float32) for _ in range(2))
        kernel = device.load(image)["main"]
        streams = device.stream(), device.stream()
        streams[0].copy(x, np.zeros(x.shape, np.float32))
        for _ in range(3):
            kernel.launch(streams[0], 256, 64, x, y)
        streams[1].fill(device.alloc(4096), 0, dtypes.i32)
        for stream in streams:
            stream.synchronize()
        y.numpy()
    port.close()


def of_model(path: Path) -> None:
    """One layer by the closed forms."""
    args = ["run", "gpt3-layer", "--chip", "nvidia/h100-sxm", "--trace", str(path)]
    assert run(command, prog_name="hal sim", args=args) == 0


@pytest.fixture(params=[of_port, of_model])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A written trace, of either kind."""
    path = tmp_path / "trace.json"
    request.param(path)
    return path


def spans(path: Path, *, on_stream: bool) -> Iterator[Span]:
    """Spans of streams, or of what worked."""
    for event in json.loads(path.read_text(encoding="utf-8"))["traceEvents"]:
        if event["ph"] == "X" and ("stream" in event["args"]) == on_stream:
            yield event


def test_the_rank_stands_where_it_is_looked_for(file: Path) -> None:
    """Line by line, before the file is parsed, and with a space."""
    lines = file.read_text(encoding="utf-8").splitlines()
    found = [match for line in lines if (match := re.search(r'"rank":\s+(\d+)', line))]
    assert [match[1] for match in found] == ["0"]


def test_every_span_has_what_a_table_of_spans_needs(file: Path) -> None:
    for span in (*spans(file, on_stream=True), *spans(file, on_stream=False)):
        assert [type(span[key]) for key in ("name", "cat", "pid", "tid")] == [str, str, int, int]
        assert min(span["ts"], span["dur"]) >= 0


def test_work_on_a_stream_comes_one_after_another(file: Path) -> None:
    """Nothing is counted twice: copies of a span on engines' tracks have no stream."""
    streams: dict[int, list[Span]] = {}
    for span in spans(file, on_stream=True):
        streams.setdefault(span["args"]["stream"], []).append(span)
    for work in streams.values():
        work.sort(key=lambda span: span["ts"])
        for first, second in pairwise(work):
            assert first["ts"] + first["dur"] <= second["ts"] + 1e-3


def test_what_works_is_of_a_category_of_its_own(file: Path) -> None:
    assert {span["cat"] for span in spans(file, on_stream=False)} in ({"engine"}, {"resource"})


def test_copies_and_fills_have_the_names_of_moves(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    of_port(path)
    found = sorted((span["cat"], span["name"]) for span in spans(path, on_stream=True))
    moves = ["Memcpy DtoH", "Memcpy HtoD", "Memset"]
    assert found == [*(("gpu_memcpy", name) for name in moves), *[("kernel", "main")] * 3]


def test_a_copy_over_two_links_is_one_span_of_its_stream(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    peer_ends([(0, 2)], {"trace": str(path)})
    assert [span["name"] for span in spans(path, on_stream=True)] == ["Memcpy PtoP"]
    assert [span["name"] for span in spans(path, on_stream=False)] == ["Memcpy PtoP"] * 2
