"""Arrays: NumPy in and out, views, DLPack, and the pool that they come from."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import hal
from hal import dtypes, errors

Host = np.ndarray[Any, Any]


def values(dtype: dtypes.DType, shape: tuple[int, ...]) -> Host:
    """Small whole numbers of a dtype."""
    count = int(np.prod(shape))
    return (
        (np.arange(count) % 2 if dtype.kind == "bool" else np.arange(count) % 100)
        .astype(dtype.numpy)
        .reshape(shape)
    )


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_numpy_goes_in_and_comes_out(device: hal.Device, dtype: dtypes.DType) -> None:
    host = values(dtype, (3, 5))
    array = device.array(host)
    out = array.numpy()
    assert (array.dtype, array.shape, out.dtype) == (dtype, (3, 5), host.dtype)
    assert out.tobytes() == host.tobytes()


@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 0, 2), (2, 3, 4, 5)], ids=str)
def test_any_shape_goes_in_and_comes_out(device: hal.Device, shape: tuple[int, ...]) -> None:
    host = values(dtypes.f32, shape)
    out = device.array(host).numpy()
    assert out.shape == shape
    assert np.array_equal(out, host)


@pytest.mark.parametrize(
    "cut",
    [
        lambda h: h[::2, 1::3],
        lambda h: h.T,
        lambda h: h[::-1],
        lambda h: np.asfortranarray(h),
        lambda h: np.broadcast_to(h[0], (4, 12)),
        lambda h: h.astype(">f4"),
    ],
    ids=["steps", "transposed", "reversed", "fortran", "broadcast", "big-endian"],
)
def test_any_strides_are_packed_in_c_order(device: hal.Device, cut: Any) -> None:
    host = cut(np.arange(96, dtype=np.float32).reshape(8, 12))
    array = device.array(host)
    assert array.shape == host.shape
    assert np.array_equal(array.numpy(), host)


def test_a_list_is_an_array_of_the_type_asked_for(device: hal.Device) -> None:
    array = device.array([[1, 2], [3, 4]], dtype="bf16")
    assert array.dtype is dtypes.bf16
    assert array.numpy().astype(np.float32).tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize("dtype", [np.complex64, np.uint16, "U3", object], ids=str)
def test_a_type_that_the_hal_lacks_is_refused_with_those_it_has(
    device: hal.Device, dtype: Any
) -> None:
    with pytest.raises(errors.UsageError, match="Use one of f32, f16, bf16"):
        device.array(np.zeros(3, dtype))


@pytest.mark.parametrize("shape", [-1, (2, -3), (2**40, 2**40)], ids=str)
def test_a_shape_that_cannot_be_is_refused(device: hal.Device, shape: Any) -> None:
    with pytest.raises(errors.OutOfRange, match="cannot be"):
        device.empty(shape, "f32")


@pytest.mark.parametrize("shape", ["ab", 1.5, (1, None)], ids=str)
def test_a_shape_that_is_no_shape_is_refused(device: hal.Device, shape: Any) -> None:
    with pytest.raises(errors.UsageError, match="is no shape"):
        device.empty(shape, "f32")


def test_an_array_that_does_not_fit_is_out_of_memory(device: hal.Device) -> None:
    with pytest.raises(errors.OutOfMemory):
        device.empty(2**58, "u8")
    assert device.array([1.0]).numpy().tolist() == [1.0]


def test_parts_share_the_memory(device: hal.Device, stream: hal.Stream) -> None:
    array = device.array(np.zeros((4, 64), np.float32))
    stream.fill(array[1:3], 2.0)
    stream.fill(array[-1], 5.0)
    assert array.numpy(stream=stream).sum(axis=1).tolist() == [0, 128, 128, 320]
    assert (array[1:3].shape, array[-1].shape) == ((2, 64), (64,))


@pytest.mark.parametrize("key", [4, -5, slice(0, 5), slice(3, 2)], ids=str)
def test_a_part_outside_is_refused(device: hal.Device, key: Any) -> None:
    with pytest.raises(errors.OutOfRange, match="does not lie in an axis of 4"):
        device.empty((4, 2), "f32")[key]


def test_reshape_keeps_the_elements(device: hal.Device) -> None:
    array = device.array(np.arange(12, dtype=np.int32))
    assert array.reshape(3, -1).numpy().tolist() == np.arange(12).reshape(3, 4).tolist()
    with pytest.raises(errors.UsageError, match=r"\[12\] has 12 elements, \[5, 2\] has 10"):
        array.reshape(5, 2)


def test_a_buffer_can_be_seen_as_an_array(device: hal.Device, stream: hal.Stream) -> None:
    buffer = device.alloc(64)
    array = hal.Array.over(buffer, "i32", (4, 4))
    stream.fill(buffer, 3, "i32")
    assert array.numpy(stream=stream).tolist() == [[3] * 4] * 4
    with pytest.raises(errors.OutOfRange, match="needs 68 bytes"):
        hal.Array.over(buffer, "i32", 17)


def test_an_array_that_was_freed_is_refused_with_its_parts(
    device: hal.Device, stream: hal.Stream
) -> None:
    array = device.empty((4, 64), "f32")
    part = array[1]
    array.free()
    for used in (array, part):
        with pytest.raises(errors.InvalidHandle):
            stream.fill(used, 0.0)
    with pytest.raises(errors.InvalidHandle, match="was freed"):
        array.free()


def test_copy_refuses_to_convert(device: hal.Device, stream: hal.Stream) -> None:
    with pytest.raises(errors.InvalidValue, match="the source holds i32, the target f32"):
        stream.copy(device.empty(4, "f32"), np.zeros(4, np.int32))


def test_numpy_waits_for_the_work_of_a_stream_alone(
    device: hal.Device, stream: hal.Stream, gate: hal.Event
) -> None:
    array, other = device.array(np.zeros(8, np.float32)), device.stream()
    assert array.numpy(stream=other).tolist() == [0.0] * 8
    with pytest.raises(errors.Timeout):
        array.numpy(timeout_s=0.0)


def test_numpy_of_asarray_copies(device: hal.Device) -> None:
    array = device.array([1, 2, 3], dtype="i32")
    assert np.asarray(array).tolist() == [1, 2, 3]
    assert np.asarray(array, dtype=np.float64).dtype == np.float64


def test_memory_of_an_array_is_used_again(device: hal.Device) -> None:
    first = device.empty(1 << 16, "u8")
    first.free()
    before = device.pool.stats()
    second = device.empty(1 << 16, "u8")
    after = device.pool.stats()
    assert (after.hit_count - before.hit_count, after.miss_count) == (1, before.miss_count)
    second.free()


def test_memory_of_an_array_in_use_is_not_given_out_again(
    device: hal.Device, stream: hal.Stream, gate: hal.Event
) -> None:
    first = device.empty(1 << 12, "u8")
    stream.fill(first, 1)
    place = (first._handle, first.offset_bytes)
    first.free()
    second = device.empty(1 << 12, "u8")
    assert (second._handle, second.offset_bytes) != place
    assert device.pool.stats().waiting_bytes >= 1 << 12


def test_memory_that_belongs_to_a_stream_is_used_again_at_once(
    device: hal.Device, stream: hal.Stream, gate: hal.Event
) -> None:
    first = device.empty(1 << 12, "u8", stream=stream)
    stream.fill(first, 1)
    place = (first._handle, first.offset_bytes)
    first.free()
    second = device.empty(1 << 12, "u8", stream=stream)
    assert (second._handle, second.offset_bytes) == place


def test_a_collected_array_gives_its_memory_back(device: hal.Device) -> None:
    device.empty(64, "f32")
    gc.collect()
    assert device.pool.stats().live_count == 0


def test_trim_gives_unused_memory_back_to_the_device(device: hal.Device) -> None:
    device.empty(1 << 16, "u8").free()
    reserved = device.pool.stats().reserved_bytes
    assert device.pool.trim() == reserved
    assert device.pool.stats().reserved_bytes == 0


def test_a_thousand_arrays_do_not_overlap(device: hal.Device) -> None:
    arrays = [device.array(np.full(33, number, np.int32)) for number in range(300)]
    for kept in arrays[::3]:
        kept.free()
    arrays += [device.array(np.full(21, number, np.int32)) for number in range(300, 400)]
    live = [(n, a) for n, a in enumerate(arrays) if not a.is_closed]
    assert all(set(a.numpy().tolist()) == {n} for n, a in live)


def test_host_memory_is_shared_by_dlpack(cpu: hal.Device) -> None:
    array = cpu.array(np.arange(6, dtype=np.float32).reshape(2, 3))
    seen = np.from_dlpack(array)
    cpu.stream().fill(array, 4.0)
    cpu.synchronize()
    assert seen.tolist() == [[4.0] * 3] * 2
    assert array.numpy(copy=False).tolist() == seen.tolist()


def test_a_dlpack_view_keeps_the_array_alive(cpu: hal.Device) -> None:
    seen = np.from_dlpack(cpu.array(np.arange(6, dtype=np.int64)))
    gc.collect()
    assert cpu.pool.stats().live_count == 1
    assert seen.tolist() == [0, 1, 2, 3, 4, 5]
    del seen
    gc.collect()
    assert cpu.pool.stats().live_count == 0


def test_arrays_of_others_come_in_by_dlpack(device: hal.Device) -> None:
    host = np.arange(1024, dtype=np.float32).reshape(32, 32)
    assert np.array_equal(device.from_dlpack(host).numpy(), host)
    assert np.array_equal(device.from_dlpack(host.T).numpy(), host.T)


def test_what_speaks_no_dlpack_is_refused(device: hal.Device) -> None:
    with pytest.raises(errors.UsageError, match="list has no __dlpack__"):
        device.from_dlpack([1, 2])


def test_a_port_without_addresses_refuses_dlpack_and_says_what_to_do() -> None:
    with hal.open("sim") as device, pytest.raises(errors.Unsupported, match=r"array\.numpy\(\)"):
        np.from_dlpack(device.array([1.0]))
