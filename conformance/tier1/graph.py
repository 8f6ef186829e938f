"""Graph: recorded work, through the layers that users have; a port that lacks it is emulated."""

from __future__ import annotations

from typing import Any

import pytest

from hal.testing import Rig, Status, case, programs, record
from hal.testing.abi import Copy, status_name


@pytest.fixture(autouse=True)
def _say_who_does_it(stack: Rig) -> None:
    """Note in the report whether the port or the loader records and replays."""
    record.current().facts["graph"] = "native" if stack.raw.has("graph.begin") else "emulated"


def end(rig: Rig, stream: int) -> int:
    """End a recording and return the graph."""
    out = rig.raw.out("hal_graph")
    rig.raw.ok("graph.end", stream, out)
    assert int(out[0]) != 0
    return int(out[0])


def fill(rig: Rig, stream: int, memory: int, value: int) -> None:
    """Enqueue a fill of the first four bytes."""
    rig.raw.ok("transfer.fill", stream, rig.raw.ref(memory, 0, 4), bytes([value]), 1)


def copy(rig: Rig, stream: int, source: int, target: int) -> None:
    """Enqueue a copy of the first four bytes."""
    rig.copy(stream, source, target, 4)


@case(rules=["HAL-GRF-001"], negative=True)
def test_a_stream_that_records_does_not_begin_again(stack: Rig) -> None:
    stream = stack.stream()
    stack.raw.ok("graph.begin", stream)
    status = stack.raw.call("graph.begin", stream)
    assert status_name(status) == "INVALID_STATE"
    stack.raw.call("graph.end", stream, stack.raw.out("hal_graph"))


@case(rules=["HAL-GRF-002"])
@pytest.mark.parametrize("kind", ["fill", "copy", "upload", "download", "launch"])
def test_what_is_recorded_runs_only_at_a_launch(stack: Rig, kind: str) -> None:
    raw, stream = stack.raw, stack.stream()
    source, target = stack.numbers([7]), stack.numbers([0])
    host = bytearray(4) if kind == "download" else bytearray(b"\x07\0\0\0")
    kernel = stack.program(programs.slow(), "slow")
    raw.ok("graph.begin", stream)
    if kind == "fill":
        fill(stack, stream, target, 1)
    elif kind == "copy":
        copy(stack, stream, source, target)
    elif kind == "upload":
        desc = stack.copy_desc(
            Copy.HOST_TO_DEVICE, target=raw.ref(target, 0, 4), host_source=raw.pointer(host)
        )
        raw.ok("transfer.copy", stream, desc)
    elif kind == "download":
        desc = stack.copy_desc(
            Copy.DEVICE_TO_HOST, source=raw.ref(source, 0, 4), host_target=raw.pointer(host)
        )
        raw.ok("transfer.copy", stream, desc)
    else:
        stack.launch(stream, kernel, stack.symbol(3), stack.buffer(target, 4))
    graph = end(stack, stream)
    stack.wait(stream)
    before = stack.read(target, 1), bytes(host)
    raw.ok("graph.launch", graph, stream)
    stack.wait(stream)
    after = stack.read(target, 1, dtype="<u4"), bytes(host)
    seven = b"\x07\0\0\0"
    wanted: dict[str, Any] = {
        "fill": ([0x01010101], seven),
        "copy": ([7], seven),
        "upload": ([7], seven),
        "download": ([0], seven),
        "launch": ([programs.after_loop(0, 3)], seven),
    }
    assert before == ([0], bytes(4) if kind == "download" else seven)
    assert after == wanted[kind]


@case(rules=["HAL-GRF-010"], negative=True)
def test_end_needs_an_output(layer: Rig) -> None:
    layer.refuse("graph.end", layer.stream(), layer.raw.NULL, status=Status.INVALID_VALUE)


@case(rules=["HAL-GRF-011", "HAL-GRF-012"], negative=True)
def test_a_stream_that_does_not_record_has_nothing_to_end(stack: Rig) -> None:
    out = stack.raw.out("hal_graph")
    stack.refuse("graph.end", stack.stream(), out, status=Status.INVALID_STATE)


@case(rules=["HAL-GRF-011", "HAL-GRF-012"], negative=True)
@pytest.mark.parametrize("call", ["record", "wait", "synchronize"])
def test_what_cannot_be_recorded_voids_the_recording(stack: Rig, call: str) -> None:
    raw, stream, event = stack.raw, stack.stream(), stack.event()
    memory = stack.numbers([3])
    raw.ok("graph.begin", stream)
    fill(stack, stream, memory, 1)
    asks = {
        "record": ("event.record", event, stream),
        "wait": ("stream.wait_event", stream, event),
        "synchronize": ("stream.synchronize", stream, 0),
    }
    assert status_name(raw.call(*asks[call])) == "INVALID_STATE"
    out = raw.out("hal_graph")
    assert status_name(raw.call("graph.end", stream, out)) == "INVALID_STATE"
    assert raw.untouched(out)
    fill(stack, stream, memory, 2)
    stack.wait(stream)
    assert stack.read(memory, 1) == [0x02020202]


@case(rules=["HAL-GRF-020"], negative=True)
@pytest.mark.parametrize("handle", ["zero", "invented", "destroyed"])
def test_launch_refuses_a_graph_that_is_none(stack: Rig, handle: str) -> None:
    stream = stack.stream()
    graph = {"zero": 0, "invented": 0x5A5A5A5A, "destroyed": 0}[handle]
    if handle == "destroyed":
        stack.raw.ok("graph.begin", stream)
        graph = end(stack, stream)
        stack.raw.ok("graph.destroy", graph)
    stack.refuse("graph.launch", graph, stream, status=Status.INVALID_HANDLE)


@case(rules=["HAL-GRF-020"], negative=True)
@pytest.mark.parametrize("handle", ["zero", "invented", "destroyed"])
def test_launch_refuses_a_stream_that_is_none(stack: Rig, handle: str) -> None:
    stream = stack.stream()
    stack.raw.ok("graph.begin", stream)
    graph, bad = end(stack, stream), stack.no_stream(handle)
    stack.refuse("graph.launch", graph, bad, status=Status.INVALID_HANDLE)


@case(rules=["HAL-GRF-021"])
@pytest.mark.parametrize("times", [1, 2, 20])
def test_each_launch_does_all_the_work_once(stack: Rig, times: int) -> None:
    stream, other = stack.stream(), stack.stream()
    kernel = stack.program(programs.slow(), "slow")
    memory, target = stack.numbers([1]), stack.numbers([0])
    stack.raw.ok("graph.begin", stream)
    stack.launch(stream, kernel, stack.symbol(5), stack.buffer(memory, 4))
    stack.launch(stream, kernel, stack.symbol(2), stack.buffer(memory, 4))
    copy(stack, stream, memory, target)
    graph = end(stack, stream)
    with stack.held(other):
        for _ in range(times):
            stack.raw.ok("graph.launch", graph, other)
    stack.wait(other)
    wanted = programs.after_loop(1, 7 * times)
    assert stack.read(memory, 1, dtype="<u4") == [wanted]
    assert stack.read(target, 1, dtype="<u4") == [wanted]


@case(rules=["HAL-GRF-021"])
@pytest.mark.parametrize("what", ["memory", "module"])
def test_a_graph_keeps_what_it_uses(stack: Rig, what: str) -> None:
    stream = stack.stream()
    module = stack.module(programs.add_one())
    kernel = stack.kernel(module, "add_one")
    x, middle, y = stack.numbers([6] * 8), stack.numbers([0] * 8), stack.numbers([0] * 8)
    buffers = [stack.buffer(memory, 32) for memory in (x, middle, y)]
    stack.raw.ok("graph.begin", stream)
    stack.launch(stream, kernel, stack.symbol(8), buffers[0], buffers[1])
    stack.launch(stream, kernel, stack.symbol(8), buffers[1], buffers[2])
    graph = end(stack, stream)
    if what == "memory":
        stack.raw.ok("memory.free", middle)
        stack.fill(stack.memory(32), b"\xee", 32)
    stack.raw.ok("graph.launch", graph, stream)
    stack.wait(stream)
    assert stack.read(y, 8) == [8] * 8
    stack.raw.ok("graph.destroy", graph)


@case(rules=["HAL-GRF-030"], negative=True)
@pytest.mark.parametrize("handle", ["zero", "invented", "destroyed"])
def test_destroy_refuses_a_graph_that_is_none(stack: Rig, handle: str) -> None:
    graph = {"zero": 0, "invented": 0x5A5A5A5A, "destroyed": 0}[handle]
    if handle == "destroyed":
        stream = stack.stream()
        stack.raw.ok("graph.begin", stream)
        graph = end(stack, stream)
        stack.raw.ok("graph.destroy", graph)
    stack.refuse("graph.destroy", graph, status=Status.INVALID_HANDLE)


@case(rules=["HAL-GRF-030", "HAL-GRF-021"])
def test_launches_before_destroy_still_run(stack: Rig) -> None:
    stream, memory = stack.stream(), stack.numbers([0])
    stack.raw.ok("graph.begin", stream)
    fill(stack, stream, memory, 4)
    graph = end(stack, stream)
    with stack.held(stream):
        stack.raw.ok("graph.launch", graph, stream)
        stack.raw.ok("graph.destroy", graph)
    stack.wait(stream)
    assert stack.read(memory, 1) == [0x04040404]


@case(rules=["HAL-GRF-040"], negative=True)
def test_update_needs_its_arguments(layer: Rig) -> None:
    null = layer.raw.NULL
    layer.refuse("graph.update_arguments", 1, 0, null, 2, status=Status.INVALID_VALUE)


def recorded(stack: Rig) -> tuple[int, int, int]:
    """Return a graph of a fill and a launch of `slow` with 1 step, its stream and its buffer."""
    stream, memory = stack.stream(), stack.numbers([9])
    kernel = stack.program(programs.slow(), "slow")
    stack.raw.ok("graph.begin", stream)
    fill(stack, stream, memory, 0)
    stack.launch(stream, kernel, stack.symbol(1), stack.buffer(memory, 4))
    return end(stack, stream), stream, memory


@case(rules=["HAL-GRF-041"], negative=True)
@pytest.mark.parametrize("node", [2, 3, 0xFFFFFFFF])
def test_update_refuses_a_node_past_the_last(stack: Rig, node: int) -> None:
    graph, stream, memory = recorded(stack)
    array = stack.raw.ffi.new("hal_argument[2]", [stack.symbol(5), stack.buffer(memory, 4)])
    past = Status.OUT_OF_RANGE
    stack.refuse("graph.update_arguments", graph, node, array, 2, status=past)
    stack.raw.ok("graph.launch", graph, stream)
    stack.wait(stream)
    assert stack.read(memory, 1, dtype="<u4") == [programs.after_loop(0, 1)]


@case(rules=["HAL-GRF-042"])
def test_later_launches_use_the_new_arguments(stack: Rig) -> None:
    graph, stream, memory = recorded(stack)
    other = stack.numbers([100])
    array = stack.raw.ffi.new("hal_argument[2]", [stack.symbol(6), stack.buffer(other, 4)])
    with stack.held(stream):
        stack.raw.ok("graph.launch", graph, stream)
        stack.raw.ok("graph.update_arguments", graph, 1, array, 2)
        stack.raw.ok("graph.launch", graph, stream)
    stack.wait(stream)
    got = [stack.read(one, 1, dtype="<u4")[0] for one in (memory, other)]
    assert got == [0, programs.after_loop(100, 6)]
