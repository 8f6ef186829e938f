"""Buffers, views and pinned host memory."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import hal
from hal import errors


def read(stream: hal.Stream, source: hal.Buffer | hal.View) -> bytes:
    out = np.empty(source.bytes, np.uint8)
    stream.copy(out, source)
    stream.synchronize(timeout_s=10)
    return out.tobytes()


def test_bytes_go_in_and_come_out(device: hal.Device, stream: hal.Stream) -> None:
    buffer = device.alloc(6)
    stream.copy(buffer, b"abcdef")
    assert read(stream, buffer) == b"abcdef"


def test_a_zeroed_buffer_reads_as_zeros(device: hal.Device, stream: hal.Stream) -> None:
    assert read(stream, device.alloc(100, zero=True)) == bytes(100)


@pytest.mark.parametrize("size", [0, -1, 2**64])
def test_alloc_refuses_a_length_that_cannot_be(device: hal.Device, size: int) -> None:
    with pytest.raises(errors.InvalidValue, match=rf"memory\.alloc: bytes is {size} "):
        device.alloc(size)


@pytest.mark.parametrize("size", [1.5, "8", None])
def test_alloc_refuses_a_length_that_is_no_number(device: hal.Device, size: object) -> None:
    with pytest.raises(errors.UsageError, match="whole numbers"):
        device.alloc(size)  # type: ignore[arg-type]


def test_alloc_refuses_an_alignment_that_is_no_power_of_two(device: hal.Device) -> None:
    with pytest.raises(errors.InvalidValue, match="power of two"):
        device.alloc(64, alignment=3)


def test_alloc_beyond_the_device_is_out_of_memory_and_smaller_ones_go_on(
    device: hal.Device,
) -> None:
    with pytest.raises(errors.OutOfMemory, match=r"memory\.alloc: ") as caught:
        device.alloc(2**60)
    assert caught.value.device == device.name
    assert device.alloc(64).bytes == 64


def test_free_twice_is_one_clear_error(device: hal.Device) -> None:
    buffer = device.alloc(64)
    buffer.free()
    with pytest.raises(errors.InvalidHandle, match=r"buffer of 64 bytes was freed"):
        buffer.free()


def test_use_after_free_is_one_clear_error(device: hal.Device, stream: hal.Stream) -> None:
    buffer = device.alloc(64)
    view = buffer[0:8]
    buffer.free()
    with pytest.raises(
        errors.InvalidHandle, match=r"transfer\.fill: this buffer of 64 bytes was freed"
    ):
        stream.fill(buffer, b"\0")
    with pytest.raises(errors.InvalidHandle, match="under this view was freed"):
        stream.fill(view, b"\0")
    stream.fill(device.alloc(8), b"\0")
    stream.synchronize(timeout_s=10)


def test_work_enqueued_before_free_still_sees_the_buffer(
    device: hal.Device, stream: hal.Stream, gate: hal.Event
) -> None:
    buffer, out = device.alloc(4), np.zeros(4, np.uint8)
    stream.copy(buffer, b"keep")
    stream.copy(out, buffer)
    buffer.free()
    gate.signal()
    stream.synchronize(timeout_s=10)
    assert out.tobytes() == b"keep"


def test_a_view_reads_and_writes_its_part(device: hal.Device, stream: hal.Stream) -> None:
    step = device.offset_alignment_bytes
    buffer = device.alloc(4 * step, zero=True)
    part = buffer[step : 3 * step][step:]
    stream.fill(part, b"\7")
    expected = bytes(2 * step) + b"\7" * step + bytes(step)
    assert read(stream, buffer) == expected
    assert (part.offset_bytes, part.bytes) == (2 * step, step)


@pytest.mark.parametrize("cut", [slice(0, 65), slice(-1, 4), slice(8, 4), slice(65, 66)], ids=str)
def test_a_view_outside_its_buffer_is_refused(device: hal.Device, cut: slice) -> None:
    with pytest.raises(errors.OutOfRange, match="does not lie in the 64 bytes"):
        device.alloc(64)[cut]


def test_a_view_is_no_step_and_no_index(device: hal.Device) -> None:
    buffer = device.alloc(64)
    for key in (3, slice(0, 8, 2), "a"):
        with pytest.raises(errors.UsageError, match="cut as"):
            buffer[key]  # type: ignore[index]


def test_copy_between_buffers_of_two_lengths_names_both(
    device: hal.Device, stream: hal.Stream
) -> None:
    with pytest.raises(errors.InvalidValue, match="source has 64 bytes, the target 32"):
        stream.copy(device.alloc(32), device.alloc(64))


def test_copy_without_device_memory_is_refused(stream: hal.Stream) -> None:
    with pytest.raises(errors.UsageError, match="neither the target"):
        stream.copy(np.zeros(4), np.zeros(4))


def test_copy_into_memory_that_cannot_be_written_is_refused(
    device: hal.Device, stream: hal.Stream
) -> None:
    frozen = np.zeros(8, np.uint8)
    frozen.flags.writeable = False
    with pytest.raises(errors.InvalidValue, match="not writable"):
        stream.copy(frozen, device.alloc(8))
    with pytest.raises(errors.UsageError, match="writable host memory"):
        stream.copy(b"12345678", device.alloc(8))


def test_copy_into_a_strided_target_is_refused_with_its_strides(
    device: hal.Device, stream: hal.Stream
) -> None:
    with pytest.raises(errors.InvalidValue, match=r"not contiguous \(strides \(2,\)\)"):
        stream.copy(np.zeros(16, np.uint8)[::2], device.alloc(8))


def test_the_source_may_change_right_after_a_copy(
    device: hal.Device, stream: hal.Stream, gate: hal.Event
) -> None:
    buffer, source, out = device.alloc(4), np.full(4, 5, np.uint8), np.zeros(4, np.uint8)
    stream.copy(buffer, source)
    source[:] = 9
    stream.copy(out, buffer)
    gate.signal()
    stream.synchronize(timeout_s=10)
    assert out.tolist() == [5, 5, 5, 5]


def test_a_host_target_lives_until_the_copy_is_done(
    device: hal.Device, stream: hal.Stream, gate: hal.Event
) -> None:
    out = np.zeros(1 << 16, np.uint8)
    stream.copy(out, device.alloc(1 << 16, zero=True))
    del out
    gc.collect()
    gate.signal()
    stream.synchronize(timeout_s=10)
    assert stream._borrowed == []


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [(b"\1", b"\1" * 8), (b"\1\2", b"\1\2" * 4), (b"abcd", b"abcdabcd"), (b"12345678",) * 2],
)
def test_fill_repeats_a_pattern(
    device: hal.Device, stream: hal.Stream, pattern: bytes, expected: bytes
) -> None:
    buffer = device.alloc(8)
    stream.fill(buffer, pattern)
    assert read(stream, buffer) == expected


@pytest.mark.parametrize("pattern", [b"", b"123", b"123456789"])
def test_fill_refuses_a_pattern_of_another_length(
    device: hal.Device, stream: hal.Stream, pattern: bytes
) -> None:
    with pytest.raises(errors.InvalidValue, match="1, 2, 4 or 8 bytes"):
        stream.fill(device.alloc(16), pattern)


def test_fill_with_a_number_needs_a_type(device: hal.Device, stream: hal.Stream) -> None:
    with pytest.raises(errors.UsageError, match="has no element type"):
        stream.fill(device.alloc(16), 1)
    buffer = device.alloc(8)
    stream.fill(buffer, -2, "i32")
    assert read(stream, buffer) == b"\xfe\xff\xff\xff" * 2


@pytest.mark.parametrize(
    ("value", "dtype"), [(300, "u8"), (-1, "u8"), (2**31, "i32"), ("x", "f32")]
)
def test_fill_refuses_a_number_that_the_type_does_not_hold(
    device: hal.Device, stream: hal.Stream, value: object, dtype: str
) -> None:
    with pytest.raises(errors.InvalidValue, match=f"is no {dtype}"):
        stream.fill(device.alloc(16), value, dtype)


def test_rows_are_copied_with_a_pitch_on_each_side(device: hal.Device, stream: hal.Stream) -> None:
    buffer = device.alloc(12, zero=True)
    source = np.arange(6, dtype=np.uint8) + 1
    stream.copy_2d(buffer, source, rows=3, row_bytes=2, target_pitch_bytes=4, source_pitch_bytes=2)
    assert read(stream, buffer) == bytes([1, 2, 0, 0, 3, 4, 0, 0, 5, 6, 0, 0])


def test_pinned_memory_is_host_memory_that_copies(device: hal.Device, stream: hal.Stream) -> None:
    pinned, buffer = device.pinned(16), device.alloc(16)
    pinned.array("f32")[:] = [1, 2, 3, 4]
    stream.copy(buffer, pinned, borrow=True)
    out = device.pinned(16)
    stream.copy(out, buffer)
    stream.synchronize(timeout_s=10)
    assert out.array(np.float32, (2, 2)).tolist() == [[1, 2], [3, 4]]


def test_an_array_over_pinned_memory_outlives_it_and_its_device() -> None:
    with hal.open("cpu") as device:
        pinned = device.pinned(64)
        array = pinned.array("u8")
        array[:] = 7
        pinned.close()
    assert int(array.sum()) == 7 * 64


def test_pinned_memory_refuses_what_does_not_fit(device: hal.Device) -> None:
    with pytest.raises(errors.OutOfRange, match="needs 20 bytes; there are 16"):
        device.pinned(16).array("f32", 5)
    with pytest.raises(errors.OutOfRange, match="at least 1"):
        device.pinned(0)


def test_pinned_memory_is_freed_once(device: hal.Device) -> None:
    pinned = device.pinned(16)
    pinned.free()
    with pytest.raises(errors.InvalidHandle, match="pinned memory of 16 bytes was closed"):
        pinned.free()
