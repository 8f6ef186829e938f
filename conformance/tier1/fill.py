"""Transfer: fills, what they refuse and what they write."""

from __future__ import annotations

import pytest

from hal.testing import Rig, Status, case
from hal.testing.seeds import bytes_of

WRAPPING = [(2**64 - 64, 128), (64, 2**64 - 64), (2**63, 2**63)]
PATTERNS = [b"\xc3", b"\x12\xf4", b"\x01\x23\x45\x67", b"\xf0\xe1\xd2\xc3\xb4\xa5\x96\x87"]


@case(rules=["HAL-XFR-020"], negative=True)
@pytest.mark.parametrize("absent", ["target", "pattern"])
def test_fill_needs_range_and_pattern(layer: Rig, absent: str) -> None:
    raw = layer.raw
    target = raw.NULL if absent == "target" else raw.ref(layer.memory(64), 0, 64)
    pattern = raw.NULL if absent == "pattern" else b"\1"
    stream = layer.stream()
    layer.refuse("transfer.fill", stream, target, pattern, 1, status=Status.INVALID_VALUE)


@case(rules=["HAL-XFR-021"], negative=True)
@pytest.mark.parametrize("length", [0, 3, 5, 6, 7, 9, 16, 0xFFFFFFFF])
def test_fill_refuses_a_pattern_of_an_odd_length(layer: Rig, length: int) -> None:
    target = layer.raw.ref(layer.memory(256), 0, 240)
    stream, pattern = layer.stream(), b"\1" * 16
    layer.refuse("transfer.fill", stream, target, pattern, length, status=Status.INVALID_VALUE)


@case(rules=["HAL-XFR-022"], negative=True)
@pytest.mark.parametrize(("length", "bytes_"), [(2, 3), (4, 6), (4, 1), (8, 12), (8, 4)])
def test_fill_refuses_a_range_of_broken_patterns(layer: Rig, length: int, bytes_: int) -> None:
    target = layer.raw.ref(layer.memory(64), 0, bytes_)
    stream, bad = layer.stream(), Status.INVALID_VALUE
    layer.refuse("transfer.fill", stream, target, b"\1" * 8, length, status=bad)


@case(rules=["HAL-XFR-023"], negative=True)
@pytest.mark.parametrize(("offset", "bytes_"), WRAPPING)
def test_the_layer_sees_a_fill_that_wraps(layer: Rig, offset: int, bytes_: int) -> None:
    target = layer.raw.ref(layer.memory(256), offset, bytes_)
    stream = layer.stream()
    layer.refuse("transfer.fill", stream, target, b"\1", 1, status=Status.OUT_OF_RANGE)


@case(rules=["HAL-XFR-024"], negative=True)
@pytest.mark.parametrize(
    ("offset", "bytes_"), [(0, 65), (64, 1), (1, 64), (60, 8), *WRAPPING, (2**64 - 1, 1)]
)
def test_fill_refuses_a_range_beyond_its_buffer(rig: Rig, offset: int, bytes_: int) -> None:
    memory, stream = rig.memory(64), rig.stream()
    rig.upload(memory, bytes_of(64))
    target = rig.raw.ref(memory, offset, bytes_)
    rig.refuse("transfer.fill", stream, target, b"\1", 1, status=Status.OUT_OF_RANGE)
    rig.wait(stream)
    assert rig.download(memory, 64) == bytes_of(64)


@case(rules=["HAL-XFR-025"], negative=True)
@pytest.mark.parametrize("handle", ["zero", "invented", "destroyed", "a device's"])
def test_fill_refuses_a_stream_that_is_none(rig: Rig, handle: str) -> None:
    stream = rig.device if handle == "a device's" else rig.no_stream(handle)
    target = rig.raw.ref(rig.memory(64), 0, 64)
    rig.refuse("transfer.fill", stream, target, b"\1", 1, status=Status.INVALID_HANDLE)


@case(rules=["HAL-XFR-025"], negative=True)
@pytest.mark.parametrize("handle", ["zero", "invented", "freed", "a stream's"])
def test_fill_refuses_a_buffer_that_is_none(rig: Rig, handle: str) -> None:
    target = rig.raw.ref(rig.no_memory(handle), 0, 4)
    rig.refuse("transfer.fill", rig.stream(), target, b"\1", 1, status=Status.INVALID_HANDLE)


@case(rules=["HAL-XFR-026", "HAL-XFR-027"])
@pytest.mark.parametrize("pattern", PATTERNS, ids=["1 byte", "2 bytes", "4 bytes", "8 bytes"])
@pytest.mark.parametrize("count", [1, 2, 513, 65_537])
def test_a_fill_repeats_each_byte_of_its_pattern(rig: Rig, pattern: bytes, count: int) -> None:
    length = len(pattern) * count
    memory = rig.memory(length + 512)
    rig.fill(memory, b"\x7e", length + 512)
    rig.fill(memory, pattern, count, offset=256)
    wanted = b"\x7e" * 256 + pattern * count + b"\x7e" * 256
    assert rig.download(memory, length + 512) == wanted


@case(rules=["HAL-XFR-026"])
@pytest.mark.parametrize("pattern", PATTERNS, ids=["1 byte", "2 bytes", "4 bytes", "8 bytes"])
@pytest.mark.parametrize("offset", [1, 3, 6, 61])
def test_a_fill_starts_at_an_odd_offset(rig: Rig, pattern: bytes, offset: int) -> None:
    at = rig.aligned(offset)
    memory = rig.memory(512)
    rig.upload(memory, bytes_of(512))
    rig.fill(memory, pattern, 9, offset=at)
    end = at + 9 * len(pattern)
    assert rig.download(memory, 512) == bytes_of(512)[:at] + pattern * 9 + bytes_of(512)[end:]


@case(rules=["HAL-XFR-026"])
@pytest.mark.parametrize("length", [1, 2, 4, 8])
def test_a_fill_of_nothing_does_nothing(rig: Rig, length: int) -> None:
    memory, stream = rig.memory(256), rig.stream()
    rig.upload(memory, bytes_of(256))
    rig.raw.ok("transfer.fill", stream, rig.raw.ref(memory, 256, 0), b"\1" * 8, length)
    rig.wait(stream)
    assert rig.download(memory, 256) == bytes_of(256)


@case(rules=["HAL-XFR-026"])
def test_range_and_pattern_of_a_fill_may_change_right_after_the_call(rig: Rig) -> None:
    ffi = rig.raw.ffi
    memory, stream = rig.memory(64), rig.stream()
    target, pattern = rig.raw.ref(memory, 0, 64), ffi.new("uint8_t[4]", [1, 2, 3, 4])
    with rig.held(stream):
        rig.raw.ok("transfer.fill", stream, target, pattern, 4)
        ffi.memmove(target, bytes(24), 24)
        ffi.memmove(pattern, b"\xff" * 4, 4)
    rig.wait(stream)
    assert rig.download(memory, 64) == bytes([1, 2, 3, 4]) * 16
