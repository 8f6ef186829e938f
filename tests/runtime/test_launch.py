"""Modules, kernels, launches, graphs and profiles."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import hal
from hal import dtypes, errors
from hal.vil.recipes import elementwise

M, N = 3, 50


@pytest.fixture
def x(device: hal.Device) -> hal.Array:
    return device.array(np.arange(M * N, dtype=np.float32).reshape(M, N))


@pytest.fixture
def y(device: hal.Device) -> hal.Array:
    return device.array(np.zeros((M, N), np.float32))


def test_a_kernel_runs(stream: hal.Stream, add: hal.Kernel, x: hal.Array, y: hal.Array) -> None:
    add.launch(stream, M, N, x, x, y)
    assert np.array_equal(y.numpy(stream=stream), 2 * x.numpy())


def test_a_kernel_tells_its_signature(add: hal.Kernel) -> None:
    shown = [str(parameter) for parameter in add.signature]
    assert sorted(shown) == [
        "M: symbol",
        "N: symbol",
        "X0: f32 read",
        "X1: f32 read",
        "Y: f32 write",
    ]


def test_buffers_and_views_are_arguments_too(
    device: hal.Device, stream: hal.Stream, add: hal.Kernel, x: hal.Array
) -> None:
    target = device.alloc(4 * M * N + 4096)
    add.launch(stream, M, N, x, x, target[4096:])
    out = hal.Array.over(target, "f32", (M, N), offset_bytes=4096)
    assert np.array_equal(out.numpy(stream=stream), 2 * x.numpy())


def test_numpy_numbers_are_arguments_too(
    stream: hal.Stream, add: hal.Kernel, x: hal.Array, y: hal.Array
) -> None:
    add.launch(stream, np.int64(M), np.int32(N), x, x, y)
    assert np.array_equal(y.numpy(stream=stream), 2 * x.numpy())


@pytest.mark.parametrize("count", [0, 1, 4, 6])
def test_a_wrong_count_of_arguments_lists_the_parameters(
    stream: hal.Stream, add: hal.Kernel, x: hal.Array, count: int
) -> None:
    arguments = [M, N, x, x, x, x][:count]
    with pytest.raises(errors.InvalidValue, match=r"takes 5 arguments \(M, N, X0, X1, Y\)"):
        add.launch(stream, *arguments)


def test_a_wrong_type_of_argument_names_it(
    device: hal.Device, stream: hal.Stream, add: hal.Kernel, x: hal.Array, y: hal.Array
) -> None:
    whole = device.empty((M, N), "i32")
    wrong: list[tuple[list[Any], str]] = [
        ([M, N, x, whole, y], "argument X1 of main is a buffer of f32; an array of i32 was given"),
        ([M, N, x, 3, y], "argument X1 of main is a buffer of f32; int 3 was given"),
        ([M, N, x, x.numpy(), y], "argument X1 of main is a buffer of f32; a ndarray was given"),
        ([M, 2.5, x, x, y], "argument N of main is symbol i64: a whole number"),
        ([M, "2", x, x, y], "argument N of main is symbol i64: a whole number"),
        ([M, 2**63, x, x, y], "argument N of main is symbol i64: a whole number"),
        ([M, x, x, x, y], "argument N of main is symbol i64: a whole number"),
    ]
    for arguments, text in wrong:
        with pytest.raises(errors.InvalidValue) as caught:
            add.launch(stream, *arguments)
        assert str(caught.value).startswith(f"launch.launch: {text}")
    add.launch(stream, M, N, x, x, y)
    assert np.array_equal(y.numpy(stream=stream), 2 * x.numpy())


def test_a_buffer_that_is_too_small_is_refused(
    device: hal.Device, stream: hal.Stream, add: hal.Kernel, x: hal.Array
) -> None:
    with pytest.raises(errors.OutOfRange, match=r"launch\.launch: ") as caught:
        add.launch(stream, M, N, x, x, device.empty(M * N - 1, "f32"))
    assert "600" in str(caught.value)
    assert "596" in str(caught.value)


def test_freed_memory_is_refused_by_name(
    stream: hal.Stream, add: hal.Kernel, x: hal.Array, y: hal.Array
) -> None:
    x.free()
    with pytest.raises(errors.InvalidHandle, match=r"this array f32\[3, 50\] was freed"):
        add.launch(stream, M, N, x, x, y)


def test_a_stream_or_memory_of_another_device_is_refused(
    device: hal.Device, stream: hal.Stream, add: hal.Kernel, x: hal.Array, y: hal.Array
) -> None:
    with device.port.device(0) as other:
        foreign = other.empty((M, N), "f32")
        with pytest.raises(errors.InvalidHandle, match="argument Y of main is memory of another"):
            add.launch(stream, M, N, x, x, foreign)
        with pytest.raises(errors.InvalidHandle, match="main is on"):
            add.launch(other.stream(), M, N, x, x, y)


def test_a_launch_without_a_stream_is_refused(add: hal.Kernel, x: hal.Array) -> None:
    with pytest.raises(errors.InvalidValue, match="first argument of launch is the stream"):
        add.launch(x, M, N, x, x, x)


def test_a_grid_is_refused_by_a_kernel_that_computes_its_own(
    stream: hal.Stream, add: hal.Kernel, x: hal.Array, y: hal.Array
) -> None:
    with pytest.raises(errors.InvalidValue, match="computes its own grid"):
        add.launch(stream, M, N, x, x, y, grid=(1, 1, 1))


def test_a_kernel_ends_with_its_module(
    stream: hal.Stream, add: hal.Kernel, x: hal.Array, y: hal.Array
) -> None:
    add.launch(stream, M, N, x, x, y)
    add.module.close()
    with pytest.raises(errors.InvalidHandle, match="went with its module"):
        add.launch(stream, M, N, x, x, y)
    assert np.array_equal(y.numpy(stream=stream), 2 * x.numpy())


def test_a_kernel_that_is_not_there_is_answered_with_those_that_are(add: hal.Kernel) -> None:
    with pytest.raises(errors.NotFound, match="there is no kernel 'mian'; the module has main"):
        add.module["mian"]
    assert (list(add.module), "main" in add.module, len(add.module)) == (["main"], True, 1)


@pytest.mark.parametrize(
    "image", [b"", b"x", b"HVIL", b"HVIL" + bytes(100)], ids=["empty", "short", "magic", "zeros"]
)
def test_a_damaged_image_is_refused_and_the_device_goes_on(
    device: hal.Device, image: bytes
) -> None:
    with pytest.raises(errors.InvalidModule, match=r"module\.load: "):
        device.load(image)
    assert len(device.load(bytes(elementwise("un", "neg", [dtypes.f32], dtypes.f32)))) == 1


def test_an_image_that_was_cut_or_changed_never_makes_a_traceback(device: hal.Device) -> None:
    image = bytes(elementwise("un", "neg", [dtypes.f32], dtypes.f32))
    for end in range(0, len(image), 37):
        with pytest.raises(errors.HalError):
            device.load(image[:end])


def test_what_is_no_image_is_refused(device: hal.Device) -> None:
    with pytest.raises(errors.UsageError, match=r"hal\.vil\.parse"):
        device.load("vil 1.0")  # type: ignore[arg-type]


def test_an_unknown_format_is_unsupported(device: hal.Device) -> None:
    image = bytes(elementwise("un", "neg", [dtypes.f32], dtypes.f32))
    with pytest.raises(errors.Unsupported, match=r"module\.load"):
        device.load(image, format="binary.nothing")


def test_a_bound_launch_repeats(
    stream: hal.Stream, add: hal.Kernel, x: hal.Array, y: hal.Array
) -> None:
    bound = add.bind(M, N, x, x, y)
    for _ in range(3):
        bound.launch(stream)
    assert np.array_equal(y.numpy(stream=stream), 2 * x.numpy())


def test_a_bound_launch_refuses_freed_memory(
    stream: hal.Stream, add: hal.Kernel, x: hal.Array, y: hal.Array
) -> None:
    bound = add.bind(M, N, x, x, y)
    y.free()
    with pytest.raises(errors.InvalidHandle, match=r"array f32\[3, 50\] was freed"):
        bound.launch(stream)


def test_threads_launch_one_kernel_on_streams_of_their_own(
    device: hal.Device, add: hal.Kernel
) -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            own, target = device.stream(), device.empty((M, N), "f32")
            part = device.array(np.full((M, N), number, np.float32))
            for _ in range(50):
                add.launch(own, M, N, part, part, target)
            assert set(target.numpy(stream=own).ravel().tolist()) == {2.0 * number}
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_graph_does_nothing_until_it_is_launched(
    stream: hal.Stream, add: hal.Kernel, x: hal.Array, y: hal.Array
) -> None:
    with stream.capture() as graph:
        add.launch(stream, M, N, x, x, y)
        stream.fill(x, 1.0)
    assert y.numpy(stream=stream).sum() == 0
    first = x.numpy()
    graph.launch(stream)
    assert np.array_equal(y.numpy(stream=stream), 2 * first)
    graph.launch(stream)
    assert y.numpy(stream=stream).tolist() == [[2.0] * N] * M
    assert graph.node_count == 2


def test_a_graphs_launch_takes_new_arguments(
    device: hal.Device, stream: hal.Stream, add: hal.Kernel, x: hal.Array, y: hal.Array
) -> None:
    with stream.capture() as graph:
        stream.fill(y, 0.0)
        add.launch(stream, M, N, x, x, y)
    ones = device.array(np.ones((M, N), np.float32))
    graph.update(1, M, N, ones, ones, y)
    graph.launch(stream)
    assert y.numpy(stream=stream).tolist() == [[2.0] * N] * M
    with pytest.raises(errors.OutOfRange, match="there is no node 2; the graph has 2"):
        graph.update(2, M, N, ones, ones, y)
    with pytest.raises(errors.UsageError, match="node 0 is a copy or fill"):
        graph.update(0, M, N, ones, ones, y)


def test_a_graph_keeps_its_memory(
    stream: hal.Stream, add: hal.Kernel, device: hal.Device, y: hal.Array
) -> None:
    with stream.capture() as graph:
        ones = device.array(np.ones((M, N), np.float32))
        add.launch(stream, M, N, ones, ones, y)
    del ones
    other = device.array(np.full((M, N), 9, np.float32))
    graph.launch(stream)
    assert y.numpy(stream=stream).tolist() == [[2.0] * N] * M
    assert other.numpy()[0, 0] == 9


def test_an_exception_throws_the_capture_away_and_the_stream_goes_on(
    stream: hal.Stream, add: hal.Kernel, x: hal.Array, y: hal.Array
) -> None:
    with pytest.raises(KeyError), stream.capture() as graph:
        add.launch(stream, M, N, x, x, y)
        raise KeyError("mine")
    with pytest.raises(errors.InvalidState, match="still being recorded, or its recording failed"):
        graph.launch(stream)
    add.launch(stream, M, N, x, x, y)
    assert np.array_equal(y.numpy(stream=stream), 2 * x.numpy())


def test_a_closed_graph_is_refused_and_an_empty_one_runs(stream: hal.Stream) -> None:
    with stream.capture() as graph:
        pass
    graph.launch(stream)
    graph.close()
    graph.close()
    with pytest.raises(errors.InvalidHandle, match="this graph of 0 nodes was closed"):
        graph.launch(stream)


def test_host_memory_of_a_graph_outlives_it_while_work_runs(
    device: hal.Device, stream: hal.Stream
) -> None:
    source, target = device.array(np.ones(64, np.float32)), np.zeros(64, np.float32)
    alive = weakref.ref(target)
    with stream.capture() as graph:
        stream.copy(target, source)
    gate = device.event(host=True)
    stream.wait(gate)
    graph.launch(stream)
    graph.close()
    del graph, target
    gc.collect()
    assert alive() is not None
    gate.signal()
    device.synchronize(timeout_s=10)
    gc.collect()
    assert alive() is None


def test_a_capture_refuses_events(device: hal.Device, stream: hal.Stream) -> None:
    with pytest.raises(errors.InvalidState, match="recording a graph"), stream.capture():
        stream.record(device.event())
    stream.synchronize(timeout_s=10)


def test_a_profile_has_a_record_for_each_operation(
    device: hal.Device, stream: hal.Stream, add: hal.Kernel, x: hal.Array, y: hal.Array
) -> None:
    with device.profile() as profile:
        stream.fill(y, 0.0)
        add.launch(stream, M, N, x, x, y)
        stream.copy(y, x)
    kinds = [record.kind for record in profile.records if record.stream == stream.handle]
    assert kinds == ["fill", "launch", "copy"]
    ids = [record.operation_id for record in profile.records if record.stream == stream.handle]
    assert ids == [1, 2, 3]
    assert all(record.begin_ns <= record.end_ns for record in profile.records)
    assert profile.dropped == 0


def test_a_profile_keeps_the_kinds_asked_for(
    device: hal.Device, stream: hal.Stream, y: hal.Array
) -> None:
    with device.profile("fill") as profile:
        stream.fill(y, 0.0)
        stream.copy(y, y)
    assert [record.kind for record in profile.records] == ["fill"]
    with pytest.raises(errors.UsageError, match="there is no kind 'noise'"):
        device.profile("noise")


def test_real_time_is_told_on_the_hosts_clock_too(cpu: hal.Device) -> None:
    array, stream = cpu.empty(1024, "f32"), cpu.stream()
    with cpu.profile() as profile:
        stream.fill(array, 1.0)
    record, first, last = profile.records[0], profile.start, profile.stop
    assert first is not None and last is not None
    slack = 10_000_000 + first.uncertainty_ns + last.uncertainty_ns
    assert record.host_begin_ns is not None and record.host_end_ns is not None
    assert first.host_ns - slack <= record.host_begin_ns <= record.host_end_ns
    assert record.host_end_ns <= last.host_ns + slack
