"""Transfer: copies, what they refuse, what they move and when."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from hal.testing import Rig, Status, case, programs
from hal.testing.abi import Copy, CopyFlag
from hal.testing.case import WHOLE_MEMORY_S
from hal.testing.guard import GuardedBuffer
from hal.testing.rig import LONG_NS
from hal.testing.seeds import bytes_of

KINDS = [Copy.HOST_TO_DEVICE, Copy.DEVICE_TO_HOST, Copy.DEVICE_TO_DEVICE]
NAMES = ["to device", "to host", "on device"]
SIZES = [1, 3, 4095, 4096, 4097, 65535, 65536, 65537, 1048575, 1048576, 1048577]
GUARD = 256
"""Bytes around a range; a multiple of any chip's alignment of offsets."""

NEAR_END = [(2**64 - 64, 128), (2**64 - 1, 1), (64, 2**64 - 64), (2**63, 2**63)]


def copy_of(rig: Rig, kind: Copy, source: Any, target: Any, host: Any = None, **more: Any) -> Any:
    """Return a copy descriptor of one of the three directions; the ranges are `ref`s."""
    fields: dict[str, Any] = dict(more)
    if kind != Copy.HOST_TO_DEVICE:
        fields["source"] = source
    if kind != Copy.DEVICE_TO_HOST:
        fields["target"] = target
    if kind == Copy.HOST_TO_DEVICE:
        fields["host_source"] = host
    if kind == Copy.DEVICE_TO_HOST:
        fields["host_target"] = host
    return rig.copy_desc(kind, **fields)


def host_bytes(rig: Rig, count: int) -> Any:
    """Return a pointer to host memory full of 0xA5."""
    return rig.raw.pointer(bytearray(b"\xa5" * count))


# ---- copy: what the validate layer refuses ----


@case(rules=["HAL-XFR-001"], negative=True)
def test_copy_needs_a_descriptor(layer: Rig) -> None:
    stream = layer.stream()
    layer.refuse("transfer.copy", stream, layer.raw.NULL, status=Status.INVALID_VALUE)


@case(rules=["HAL-XFR-002"], negative=True)
@pytest.mark.parametrize("size", [0, 8, 16, 79])
def test_copy_refuses_a_descriptor_that_is_too_small(layer: Rig, size: int) -> None:
    desc = layer.copy_desc(Copy.DEVICE_TO_DEVICE, size=size)
    layer.refuse("transfer.copy", layer.stream(), desc, status=Status.INVALID_VALUE)


@case(rules=["HAL-XFR-003"], negative=True)
def test_copy_refuses_a_longer_descriptor_with_an_unknown_field(layer: Rig) -> None:
    memory = layer.memory(64)
    place = layer.raw.ref(memory, 0, 32)
    desc = layer.raw.longer("copy_desc", tail=bytes(7) + b"\1", kind=3, source=place, target=place)
    layer.refuse("transfer.copy", layer.stream(), desc, status=Status.UNSUPPORTED)


@case(rules=["HAL-XFR-003"])
def test_copy_serves_a_longer_descriptor_whose_tail_is_zero(layer: Rig) -> None:
    source, target, stream = layer.memory(64), layer.memory(64), layer.stream()
    layer.upload(source, bytes_of(64))
    desc = layer.raw.longer(
        "copy_desc",
        tail=bytes(24),
        kind=3,
        source=layer.raw.ref(source, 0, 64),
        target=layer.raw.ref(target, 0, 64),
    )
    layer.raw.ok("transfer.copy", stream, desc)
    layer.wait(stream)
    assert layer.download(target, 64) == bytes_of(64)


@case(rules=["HAL-XFR-004"], negative=True)
@pytest.mark.parametrize("kind", [0, 4, 0xFFFFFFFF])
def test_copy_refuses_an_unknown_direction(layer: Rig, kind: int) -> None:
    memory = layer.memory(64)
    place = layer.raw.ref(memory, 0, 64)
    host = host_bytes(layer, 64)
    desc = layer.raw.new(
        "copy_desc", kind=kind, source=place, target=place, host_source=host, host_target=host
    )
    layer.refuse("transfer.copy", layer.stream(), desc, status=Status.INVALID_VALUE)


@case(rules=["HAL-XFR-005"], negative=True)
@pytest.mark.parametrize("flags", [2, 3, 0x80000000])
def test_copy_refuses_unknown_flags(layer: Rig, flags: int) -> None:
    place = layer.raw.ref(layer.memory(64), 0, 64)
    host = host_bytes(layer, 64)
    desc = layer.copy_desc(Copy.HOST_TO_DEVICE, flags=flags, target=place, host_source=host)
    layer.refuse("transfer.copy", layer.stream(), desc, status=Status.INVALID_VALUE)


@case(rules=["HAL-XFR-006"], negative=True)
@pytest.mark.parametrize("kind", KINDS[:2], ids=NAMES[:2])
def test_copy_needs_host_memory(layer: Rig, kind: Copy) -> None:
    place = layer.raw.ref(layer.memory(64), 0, 64)
    desc = copy_of(layer, kind, place, place, layer.raw.NULL)
    layer.refuse("transfer.copy", layer.stream(), desc, status=Status.INVALID_VALUE)


@case(rules=["HAL-XFR-007"], negative=True)
@pytest.mark.parametrize(("source", "target"), [(32, 64), (64, 32), (0, 1), (1, 0)])
def test_copy_refuses_ranges_of_two_lengths(layer: Rig, source: int, target: int) -> None:
    memory = layer.memory(128)
    desc = layer.copy_desc(
        Copy.DEVICE_TO_DEVICE,
        source=layer.raw.ref(memory, 0, source),
        target=layer.raw.ref(memory, 64, target),
    )
    layer.refuse("transfer.copy", layer.stream(), desc, status=Status.INVALID_VALUE)


@case(rules=["HAL-XFR-008"], negative=True)
@pytest.mark.parametrize(("offset", "bytes_"), NEAR_END[:1] + NEAR_END[2:])
@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
def test_the_layer_sees_an_offset_that_wraps(
    layer: Rig, kind: Copy, offset: int, bytes_: int
) -> None:
    wrong = layer.raw.ref(layer.memory(256), offset, bytes_)
    desc = copy_of(layer, kind, wrong, wrong, host_bytes(layer, 256))
    layer.refuse("transfer.copy", layer.stream(), desc, status=Status.OUT_OF_RANGE)


# ---- copy: what the port itself refuses ----


@case(rules=["HAL-XFR-010"], negative=True)
@pytest.mark.parametrize(("offset", "bytes_"), [(0, 65), (64, 1), (1, 64), (60, 8), *NEAR_END])
@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
def test_copy_refuses_a_range_beyond_its_buffer(
    rig: Rig, kind: Copy, offset: int, bytes_: int
) -> None:
    wrong_side, right_side, stream = rig.memory(64), rig.memory(256), rig.stream()
    rig.fill(wrong_side, b"\x31", 64)
    rig.fill(right_side, b"\x32", 256)
    wrong = rig.raw.ref(wrong_side, offset, bytes_)
    right = rig.raw.ref(right_side, 0, bytes_)
    host = bytearray(b"\xa5" * 256)
    desc = copy_of(rig, kind, wrong, wrong if kind == 1 else right, rig.raw.pointer(host))
    rig.refuse("transfer.copy", stream, desc, status=Status.OUT_OF_RANGE)
    rig.wait(stream)
    assert bytes(host) == b"\xa5" * 256
    assert rig.download(wrong_side, 64) == b"\x31" * 64
    assert rig.download(right_side, 256) == b"\x32" * 256


@case(rules=["HAL-XFR-010"], negative=True)
@pytest.mark.parametrize(("offset", "bytes_"), [(64, 1), (1, 64), (2**64 - 1, 2)])
def test_copy_refuses_a_target_beyond_its_buffer(rig: Rig, offset: int, bytes_: int) -> None:
    source, target = rig.memory(256), rig.memory(64)
    desc = rig.copy_desc(
        Copy.DEVICE_TO_DEVICE,
        source=rig.raw.ref(source, 0, bytes_),
        target=rig.raw.ref(target, offset, bytes_),
    )
    rig.refuse("transfer.copy", rig.stream(), desc, status=Status.OUT_OF_RANGE)


@case(rules=["HAL-XFR-010"])
@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
def test_a_range_may_end_where_its_buffer_ends(rig: Rig, kind: Copy) -> None:
    memory, other = rig.memory(GUARD + 16), rig.memory(GUARD + 16)
    stream = rig.stream()
    host = rig.raw.pointer(bytearray(b"\x5a" * 16))
    last = rig.raw.ref(memory, GUARD, 16)
    desc = copy_of(rig, kind, last, last if kind == 1 else rig.raw.ref(other, GUARD, 16), host)
    rig.raw.ok("transfer.copy", stream, desc)
    rig.wait(stream)


@case(rules=["HAL-XFR-011"], negative=True)
@pytest.mark.parametrize("handle", ["zero", "invented", "destroyed", "a device's"])
def test_copy_refuses_a_stream_that_is_none(rig: Rig, handle: str) -> None:
    stream = rig.device if handle == "a device's" else rig.no_stream(handle)
    place = rig.raw.ref(rig.memory(64), 0, 64)
    desc = rig.copy_desc(Copy.HOST_TO_DEVICE, target=place, host_source=host_bytes(rig, 64))
    rig.refuse("transfer.copy", stream, desc, status=Status.INVALID_HANDLE)


@case(rules=["HAL-XFR-011"], negative=True)
@pytest.mark.parametrize("handle", ["zero", "invented", "freed", "a device's"])
@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
def test_copy_refuses_a_buffer_that_is_none(rig: Rig, kind: Copy, handle: str) -> None:
    memory = rig.device if handle == "a device's" else rig.no_memory(handle)
    wrong, right = rig.raw.ref(memory, 0, 32), rig.raw.ref(rig.memory(32), 0, 32)
    target = wrong if kind == Copy.HOST_TO_DEVICE else right
    desc = copy_of(rig, kind, wrong, target, host_bytes(rig, 32))
    rig.refuse("transfer.copy", rig.stream(), desc, status=Status.INVALID_HANDLE)


@case(rules=["HAL-XFR-018"], negative=True)
@pytest.mark.parametrize("side", ["source", "target", "upload", "download", "fill"])
def test_a_buffer_of_another_device_is_refused(rig: Rig, side: str) -> None:
    other = rig.second()
    mine, theirs = rig.raw.ref(rig.memory(64), 0, 64), rig.raw.ref(other.memory(64), 0, 64)
    host = host_bytes(rig, 64)
    stream = rig.stream()
    copies = {
        "source": (Copy.DEVICE_TO_DEVICE, theirs, mine),
        "target": (Copy.DEVICE_TO_DEVICE, mine, theirs),
        "upload": (Copy.HOST_TO_DEVICE, None, theirs),
        "download": (Copy.DEVICE_TO_HOST, theirs, None),
    }
    if side == "fill":
        bad = Status.INVALID_HANDLE
        rig.refuse("transfer.fill", stream, theirs, b"\1", 1, status=bad)
    else:
        kind, source, target = copies[side]
        desc = copy_of(rig, kind, source, target, host)
        rig.refuse("transfer.copy", stream, desc, status=Status.INVALID_HANDLE)
    rig.raw.ok("device.close", other.device, LONG_NS)


@case(rules=["HAL-XFR-010", "HAL-ABI-013"], negative=True)
def test_a_refused_copy_is_not_counted_and_fails_no_stream(rig: Rig) -> None:
    stream, memory = rig.stream(), rig.memory(64)
    desc = rig.copy_desc(
        Copy.DEVICE_TO_DEVICE,
        source=rig.raw.ref(memory, 0, 65),
        target=rig.raw.ref(memory, 0, 65),
    )
    rig.refuse("transfer.copy", stream, desc, status=Status.OUT_OF_RANGE)
    rig.wait(stream)
    rig.fault(stream)
    rig.raw.call("stream.synchronize", stream, LONG_NS)
    assert rig.raw.error()[1] == 1


# ---- copy: what it moves ----


@case(rules=["HAL-XFR-012"])
@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
def test_a_copy_of_nothing_does_nothing(rig: Rig, kind: Copy) -> None:
    memory, stream = rig.memory(GUARD), rig.stream()
    rig.upload(memory, bytes_of(GUARD))
    empty = rig.raw.ref(memory, GUARD, 0)
    desc = copy_of(rig, kind, empty, empty, rig.raw.NULL)
    rig.raw.ok("transfer.copy", stream, desc)
    rig.wait(stream)
    assert rig.download(memory, GUARD) == bytes_of(GUARD)


@case(rules=["HAL-XFR-012", "HAL-XFR-013"])
@pytest.mark.parametrize("bytes_", SIZES)
def test_a_copy_moves_each_byte_and_no_other(rig: Rig, bytes_: int) -> None:
    data, guard = bytes_of(bytes_), b"\x6b" * GUARD
    total = bytes_ + 2 * GUARD
    source, target, stream = rig.memory(total), rig.memory(total), rig.stream()
    rig.upload(source, guard + data + guard)
    rig.fill(target, b"\x7e", total)
    desc = rig.copy_desc(
        Copy.DEVICE_TO_DEVICE,
        source=rig.raw.ref(source, GUARD, bytes_),
        target=rig.raw.ref(target, GUARD, bytes_),
    )
    rig.raw.ok("transfer.copy", stream, desc)
    rig.wait(stream)
    assert rig.download(target, total) == b"\x7e" * GUARD + data + b"\x7e" * GUARD


@case(rules=["HAL-XFR-012"])
@pytest.mark.parametrize("bytes_", [1, 7, 4096, 4097, 100_003])
def test_a_download_writes_each_host_byte_and_no_other(rig: Rig, bytes_: int) -> None:
    memory, stream = rig.memory(bytes_ + 2 * GUARD), rig.stream()
    rig.upload(memory, bytes_of(bytes_ + 2 * GUARD))
    with GuardedBuffer(bytes_) as host:
        desc = rig.copy_desc(
            Copy.DEVICE_TO_HOST,
            source=rig.raw.ref(memory, GUARD, bytes_),
            host_target=rig.raw.ffi.cast("void *", host.address),
        )
        rig.raw.ok("transfer.copy", stream, desc)
        rig.wait(stream)
        assert host.array().tobytes() == bytes_of(bytes_ + GUARD)[GUARD:]
        assert host.intact()


@case(rules=["HAL-XFR-012"])
@pytest.mark.parametrize("bytes_", [1, 7, 4096, 4097, 100_003])
def test_an_upload_reads_each_host_byte_and_no_other(rig: Rig, bytes_: int) -> None:
    memory, stream = rig.memory(bytes_), rig.stream()
    with GuardedBuffer(bytes_) as host:
        host.array()[:] = list(bytes_of(bytes_))
        desc = rig.copy_desc(
            Copy.HOST_TO_DEVICE,
            target=rig.raw.ref(memory, 0, bytes_),
            host_source=rig.raw.ffi.cast("void *", host.address),
        )
        rig.raw.ok("transfer.copy", stream, desc)
        rig.wait(stream)
        assert host.intact()
    assert rig.download(memory, bytes_) == bytes_of(bytes_)


@case(rules=["HAL-XFR-012"])
@pytest.mark.parametrize("offset", [1, 3, 63, 64, 4095, 4097])
def test_a_copy_starts_at_its_offset(rig: Rig, offset: int, hcd: Any) -> None:
    at = rig.aligned(offset)
    data = bytes_of(8192)
    memory = rig.memory(8192)
    rig.upload(memory, data)
    rig.upload(memory, b"\xee" * 100, offset=at)
    assert rig.download(memory, 8192) == data[:at] + b"\xee" * 100 + data[at + 100 :]


@case(rules=["HAL-XFR-013"])
def test_a_long_copy_moves_each_byte(rig: Rig) -> None:
    """Six MiB and one byte, with a value of its own in each page."""
    import numpy as np

    count = (6 << 20) + 1
    data = (np.arange(count, dtype=np.uint32) // 4096 * 31 + 7).astype(np.uint8)
    source, target, stream = rig.memory(count), rig.memory(count), rig.stream()
    rig.upload(source, data)
    rig.copy(stream, source, target, count)
    rig.wait(stream)
    assert np.array_equal(np.frombuffer(rig.download(target, count), np.uint8), data)


@case(rules=["HAL-XFR-013", "HAL-MEM-010"], timeout_s=WHOLE_MEMORY_S)
def test_offsets_and_lengths_have_64_bits(rig: Rig, hcd: Any) -> None:
    """Bytes on both sides of 4 GiB, where the device has that much; else near its end."""
    total = rig.stats().total_bytes - rig.stats().in_use_bytes
    longest = hcd.number("execution.limits.allocation_bytes_max", total)
    size = min((1 << 32) + (1 << 20), total - (total >> 3), host_room(), longest)
    memory, stream = rig.memory(size), rig.stream()
    low = size - (1 << 32) if size > 1 << 32 else 0
    marks = {low: b"\x11" * 512, size - 512: b"\x22" * 512}
    for offset, mark in marks.items():
        rig.upload(memory, mark, offset=offset)
    assert {offset: rig.download(memory, 512, offset=offset) for offset in marks} == marks
    rig.raw.ok("transfer.fill", stream, rig.raw.ref(memory, size - 256, 256), b"\x33", 1)
    rig.wait(stream)
    assert rig.download(memory, 512, offset=low) == b"\x11" * 512
    assert rig.download(memory, 512, offset=size - 512) == b"\x22" * 256 + b"\x33" * 256


def host_room() -> int:
    """Return half the host's free memory: a device may live in it."""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    facts = dict(line.split(":", 1) for line in lines)
    return int(facts["MemAvailable"].split()[0]) * 1024 // 2


@case(rules=["HAL-XFR-014"])
@pytest.mark.parametrize("distance", [1, 4, 64, 1000, 4096, 70_000])
@pytest.mark.parametrize("direction", ["up", "down"])
def test_overlapping_ranges_copy_as_if_through_a_third_place(
    rig: Rig, direction: str, distance: int
) -> None:
    count, distance = 100_000, rig.aligned(distance)
    data = bytes_of(count + distance)
    memory, stream = rig.memory(count + distance), rig.stream()
    rig.upload(memory, data)
    low, high = rig.raw.ref(memory, 0, count), rig.raw.ref(memory, distance, count)
    source, target = (low, high) if direction == "up" else (high, low)
    desc = rig.copy_desc(Copy.DEVICE_TO_DEVICE, source=source, target=target)
    rig.raw.ok("transfer.copy", stream, desc)
    rig.wait(stream)
    wanted = data[:distance] + data[:count] if direction == "up" else data[distance:] + data[count:]
    assert rig.download(memory, count + distance) == wanted


@case(rules=["HAL-XFR-014"])
def test_a_range_copied_onto_itself_stays(rig: Rig) -> None:
    memory, stream = rig.memory(5000), rig.stream()
    rig.upload(memory, bytes_of(5000))
    rig.copy(stream, memory, memory, 5000)
    rig.wait(stream)
    assert rig.download(memory, 5000) == bytes_of(5000)


@case(rules=["HAL-XFR-015"])
@pytest.mark.parametrize("bytes_", [1, 64, 4096, 65536, 1048577])
def test_an_upload_is_done_with_its_source_at_return(rig: Rig, bytes_: int) -> None:
    memory, stream = rig.memory(bytes_), rig.stream()
    host = bytearray(bytes_of(bytes_))
    desc = rig.copy_desc(
        Copy.HOST_TO_DEVICE,
        target=rig.raw.ref(memory, 0, bytes_),
        host_source=rig.raw.pointer(host),
    )
    with rig.held(stream):
        rig.raw.ok("transfer.copy", stream, desc)
        host[:] = b"\xff" * bytes_
    rig.wait(stream)
    assert rig.download(memory, bytes_) == bytes_of(bytes_)


@case(rules=["HAL-XFR-015", "HAL-XFR-012"])
def test_a_borrowed_source_is_read_in_stream_order(rig: Rig) -> None:
    memory, stream = rig.memory(4096), rig.stream()
    host = bytearray(bytes_of(4096))
    desc = rig.copy_desc(
        Copy.HOST_TO_DEVICE,
        flags=int(CopyFlag.BORROW),
        target=rig.raw.ref(memory, 0, 4096),
        host_source=rig.raw.pointer(host),
    )
    rig.raw.ok("transfer.copy", stream, desc)
    rig.wait(stream)
    assert rig.download(memory, 4096) == bytes_of(4096)


@case(rules=["HAL-XFR-015"])
def test_the_descriptor_may_change_right_after_the_call(rig: Rig) -> None:
    source, target, stream = rig.numbers([7] * 16), rig.memory(64), rig.stream()
    desc = rig.copy_desc(
        Copy.DEVICE_TO_DEVICE,
        source=rig.raw.ref(source, 0, 64),
        target=rig.raw.ref(target, 0, 64),
    )
    with rig.held(stream):
        rig.raw.ok("transfer.copy", stream, desc)
        rig.raw.ffi.memmove(desc, bytes(rig.raw.ffi.sizeof("hal_copy_desc")),
                            rig.raw.ffi.sizeof("hal_copy_desc"))  # fmt: skip
    rig.wait(stream)
    assert rig.read(target, 16) == [7] * 16


@case(rules=["HAL-XFR-016"])
@pytest.mark.parametrize("bytes_", [64, 4096, 4 << 20])
def test_host_bytes_are_there_when_an_event_behind_the_copy_is_complete(
    rig: Rig, bytes_: int
) -> None:
    memory, stream, event = rig.memory(bytes_), rig.stream(), rig.event()
    rig.upload(memory, bytes_of(bytes_))
    host = bytearray(bytes_)
    desc = rig.copy_desc(
        Copy.DEVICE_TO_HOST,
        source=rig.raw.ref(memory, 0, bytes_),
        host_target=rig.raw.pointer(host),
    )
    with rig.held(stream):
        rig.raw.ok("transfer.copy", stream, desc)
        rig.raw.ok("event.record", event, stream)
        assert bytes(host) == bytes(bytes_)
    rig.raw.ok("event.synchronize", event, LONG_NS)
    assert bytes(host) == bytes_of(bytes_)


# ---- order ----


@case(rules=["HAL-XFR-017"])
@pytest.mark.parametrize("kind", ["download", "upload", "copy"])
def test_a_copy_waits_for_a_kernel_before_it(rig: Rig, kind: str) -> None:
    steps = 50_000
    kernel = rig.program(programs.slow(), "slow")
    memory, other, stream = rig.numbers([5]), rig.numbers([0]), rig.stream()
    host = bytearray(4)
    rig.launch(stream, kernel, rig.symbol(steps), rig.buffer(memory, 4))
    result = programs.after_loop(5, steps).to_bytes(4, "little")
    if kind == "download":
        desc = rig.copy_desc(
            Copy.DEVICE_TO_HOST,
            source=rig.raw.ref(memory, 0, 4),
            host_target=rig.raw.pointer(host),
        )
        rig.raw.ok("transfer.copy", stream, desc)
        rig.wait(stream)
        assert bytes(host) == result
    elif kind == "upload":
        rig.upload(memory, b"\1\2\3\4", stream=stream)
        rig.wait(stream)
        assert rig.download(memory, 4) == b"\1\2\3\4"
    else:
        rig.copy(stream, memory, other, 4)
        rig.wait(stream)
        assert rig.download(other, 4) == result


@case(rules=["HAL-XFR-017"])
@pytest.mark.parametrize("steps", [2, 16])
def test_a_chain_of_copies_runs_in_its_order(rig: Rig, steps: int) -> None:
    stream = rig.stream()
    chain = [rig.memory(4096) for _ in range(steps + 1)]
    for memory in chain:
        rig.fill(memory, b"\0", 4096)
    with rig.held(stream):
        rig.raw.ok("transfer.fill", stream, rig.raw.ref(chain[0], 0, 4096), b"\x77", 1)
        for source, target in itertools.pairwise(chain):
            rig.copy(stream, source, target, 4096)
        rig.raw.ok("transfer.fill", stream, rig.raw.ref(chain[0], 0, 4096), b"\x99", 1)
    rig.wait(stream)
    got = [rig.download(memory, 4096)[:1] for memory in chain]
    assert got == [b"\x99"] + [b"\x77"] * steps


@case(rules=["HAL-XFR-017"])
def test_a_held_stream_moves_nothing(rig: Rig) -> None:
    source, target, stream = rig.numbers([9] * 64), rig.numbers([0] * 64), rig.stream()
    with rig.held(stream):
        rig.copy(stream, source, target, 256)
        assert rig.read(target, 64) == [0] * 64
    rig.wait(stream)
    assert rig.read(target, 64) == [9] * 64
