"""What a kernel gets from a launch: scalars, the caller's grid, workspace; and the trace layer."""

from __future__ import annotations

import json
import logging

import numpy as np
import pytest

import hal
import hal.vil
from hal import errors

SET = """
vil 1.0
kernel set {{
  arg n: symbol
  arg value: scalar {dtype}
  arg y: {dtype} write bytes {size} * n
  launch one grid(ceildiv(n, 64)) (y, value, n)
}}
program one flat {{
  param y: {dtype} write
  param value: scalar {dtype}
  param n: symbol
  tile a: {dtype}[1, 64] near @0
  desc dy = y {{
    column origin %3 limit n digits (_, 1)
    dim n stride 1 base 0, c0 * 1
  }}
  sreg.mul %3, %0, 64
  fill a, value
  store dy, a
}}
"""

GRID = """
vil 1.0
kernel mark {
  arg y: i32 write bytes 256 * 64
  launch one grid caller (y)
}
program one flat {
  param y: i32 write
  tile a: i32[1, 1] near @0
  desc dy = y {
    column origin %3 limit 4096 digits (_, 1)
    dim 4096 stride 1 base 0, c0 * 1
  }
  sreg.mul %3, %1, 64
  sreg.add %3, %3, %0
  fill a, 1
  store dy, a
}
"""

SCALARS = {
    "i32": [0, 7, -7, 2**31 - 1, -(2**31)],
    "i64": [0, 7, -7, 2**63 - 1, -(2**63)],
    "f32": [0.0, 1.5, -1e38, float("inf")],
    "f64": [0.0, 1.5, -1e300, float("-inf")],
}


@pytest.mark.parametrize("dtype", SCALARS)
def test_a_scalar_arrives_with_all_its_bits(
    device: hal.Device, stream: hal.Stream, dtype: str
) -> None:
    y = device.empty(70, dtype)
    text = SET.format(dtype=dtype, size=y.dtype.bytes)
    kernel = device.load(hal.vil.parse(text))["set"]
    for value in SCALARS[dtype]:
        kernel.launch(stream, 70, value, y)
        expected = np.full(70, value, y.dtype.numpy)
        assert y.numpy(stream=stream).tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    ("dtype", "value"), [("i32", 2**31), ("i32", 1.5), ("i64", 2**63), ("f32", 1e39), ("f64", "x")]
)
def test_a_scalar_that_its_type_does_not_hold_is_refused(
    device: hal.Device, stream: hal.Stream, dtype: str, value: object
) -> None:
    y = device.empty(8, dtype)
    text = SET.format(dtype=dtype, size=y.dtype.bytes)
    kernel = device.load(hal.vil.parse(text))["set"]
    with pytest.raises(errors.InvalidValue, match=f"argument value of set is scalar {dtype}"):
        kernel.launch(stream, 8, value, y)


@pytest.mark.parametrize(
    ("grid", "marked"),
    [((1, 1, 1), 1), ((8, 4, 1), 32), ((0, 4, 1), 0), ((5,), 5), (3, 3)],
    ids=str,
)
def test_a_kernel_takes_the_callers_grid(
    device: hal.Device, stream: hal.Stream, grid: tuple[int, ...] | int, marked: int
) -> None:
    y = device.array(np.zeros(4096, np.int32))
    kernel = device.load(hal.vil.parse(GRID))["mark"]
    kernel.launch(stream, y, grid=grid)
    assert int(y.numpy(stream=stream).sum()) == marked
    stream.fill(y, 0)
    kernel.bind(y, grid=grid).launch(stream)
    assert int(y.numpy(stream=stream).sum()) == marked


@pytest.mark.parametrize("grid", [(), (1, 2, 3, 4), (-1, 1, 1), (2**32, 1, 1), ("a",)], ids=str)
def test_a_grid_that_cannot_be_is_refused(
    device: hal.Device, stream: hal.Stream, grid: tuple[int, ...]
) -> None:
    kernel = device.load(hal.vil.parse(GRID))["mark"]
    with pytest.raises(errors.OutOfRange, match="is not one to three lengths"):
        kernel.launch(stream, device.empty(4096, "i32"), grid=grid)


def test_a_kernel_that_takes_a_grid_needs_one(device: hal.Device, stream: hal.Stream) -> None:
    kernel = device.load(hal.vil.parse(GRID))["mark"]
    with pytest.raises(errors.InvalidValue, match="mark needs grid="):
        kernel.launch(stream, device.empty(4096, "i32"))


def test_two_arguments_that_overlap_are_refused(
    device: hal.Device, stream: hal.Stream, add: hal.Kernel
) -> None:
    whole = device.array(np.zeros(256, np.float32))
    with pytest.raises(errors.InvalidValue, match=r"launch\.launch: "):
        add.launch(stream, 1, 64, whole[0:64], whole[64:128], whole[32:96])


def test_the_trace_layer_tells_each_call(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="hal.trace.cpu"):
        port = hal.load_port("cpu", layers=("trace", "validate", "emulate"))
        with port.device(0) as device:
            device.alloc(64).free()
        port.close()
    calls = [json.loads(record.message)["call"] for record in caplog.records]
    assert [call for call in calls if call.startswith("memory.")] == ["memory.alloc", "memory.free"]


TWICE = """
vil 1.0
kernel twice {
  arg n: symbol
  arg x: f32 read bytes 4 * n
  arg y: f32 write bytes 4 * n
  workspace w bytes 4 * n
  launch add grid(ceildiv(n, 64)) (x, w, n)
  launch add grid(ceildiv(n, 64)) (w, y, n)
}
program add flat {
  param x: f32 read
  param y: f32 write
  param n: symbol
  tile a: f32[1, 64] near @0
  desc dx = x {
    column origin %3 limit n digits (_, 1)
    dim n stride 1 base 0, c0 * 1
  }
  desc dy = y {
    column origin %3 limit n digits (_, 1)
    dim n stride 1 base 0, c0 * 1
  }
  sreg.mul %3, %0, 64
  load a, dx
  bin.add a, a, a
  store dy, a
}
"""


def test_a_plan_runs_its_launches_in_order_over_a_workspace(
    device: hal.Device, stream: hal.Stream
) -> None:
    kernel = device.load(hal.vil.parse(TWICE))["twice"]
    for count in (1, 64, 1000):
        x, y = device.array(np.arange(count, dtype=np.float32)), device.empty(count, "f32")
        kernel.launch(stream, count, x, y)
        assert np.array_equal(y.numpy(stream=stream), 4 * x.numpy())


def test_a_graph_with_a_workspace_takes_new_arguments(
    device: hal.Device, stream: hal.Stream
) -> None:
    kernel = device.load(hal.vil.parse(TWICE))["twice"]
    x, y = device.array(np.ones(70, np.float32)), device.empty(200, "f32")
    with stream.capture() as graph:
        kernel.launch(stream, 70, x, y)
    graph.launch(stream)
    assert y.numpy(stream=stream)[:70].tolist() == [4.0] * 70
    more = device.array(np.full(200, 2, np.float32))
    graph.update(0, 200, more, y)
    graph.launch(stream)
    assert y.numpy(stream=stream).tolist() == [8.0] * 200


def test_new_arguments_of_a_graph_are_checked_at_once(
    device: hal.Device, stream: hal.Stream, add: hal.Kernel
) -> None:
    x, small = device.array(np.ones((1, 64), np.float32)), device.empty(63, "f32")
    with stream.capture() as graph:
        add.launch(stream, 1, 64, x, x, device.empty(64, "f32"))
    with pytest.raises(errors.OutOfRange, match=r"graph\.update_arguments: .*252.*256|256.*252"):
        graph.update(0, 1, 64, x, x, small)
    with pytest.raises(errors.OutOfRange, match=r"launch\.launch: "):
        add.bind(1, 64, x, x, small)
