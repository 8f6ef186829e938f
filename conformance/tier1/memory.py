"""Memory: buffers in device memory and pinned host memory."""

from __future__ import annotations

from typing import Any

import pytest

from hal.testing import Rig, Status, case
from hal.testing.abi import MemoryFlag
from hal.testing.case import WHOLE_MEMORY_S
from hal.testing.rig import in_use_bytes

SIZES = [1, 2, 63, 64, 65, 4095, 4096, 4097, 65536]


# ---- alloc: what the validate layer refuses ----


@case(rules=["HAL-MEM-001"], negative=True)
@pytest.mark.parametrize("absent", ["desc", "out"])
def test_alloc_needs_descriptor_and_output(layer: Rig, absent: str) -> None:
    raw = layer.raw
    desc = raw.NULL if absent == "desc" else raw.new("memory_desc", bytes=64)
    out = raw.NULL if absent == "out" else raw.out("hal_memory")
    layer.refuse("memory.alloc", layer.device, desc, out, status=Status.INVALID_VALUE)


@case(rules=["HAL-MEM-002"], negative=True)
@pytest.mark.parametrize("size", [0, 8, 15])
def test_alloc_refuses_a_descriptor_that_is_too_small(layer: Rig, size: int) -> None:
    desc = layer.raw.new("memory_desc", size=size, bytes=64)
    out = layer.raw.out("hal_memory")
    layer.refuse("memory.alloc", layer.device, desc, out, status=Status.INVALID_VALUE)


@case(rules=["HAL-MEM-003"], negative=True)
def test_alloc_refuses_a_longer_descriptor_with_an_unknown_field(layer: Rig) -> None:
    desc = layer.raw.longer("memory_desc", tail=b"\1", bytes=64)
    out = layer.raw.out("hal_memory")
    layer.refuse("memory.alloc", layer.device, desc, out, status=Status.UNSUPPORTED)


@case(rules=["HAL-MEM-003"])
def test_alloc_serves_a_longer_descriptor_whose_tail_is_zero(layer: Rig) -> None:
    desc = layer.raw.longer("memory_desc", tail=b"\0" * 16, bytes=64)
    out = layer.raw.out("hal_memory")
    assert layer.raw.call("memory.alloc", layer.device, desc, out) == Status.OK


@case(rules=["HAL-MEM-004"], negative=True)
def test_alloc_refuses_size_zero(layer: Rig) -> None:
    desc = layer.raw.new("memory_desc", bytes=0)
    out = layer.raw.out("hal_memory")
    layer.refuse("memory.alloc", layer.device, desc, out, status=Status.INVALID_VALUE)


@case(rules=["HAL-MEM-005"], negative=True)
@pytest.mark.parametrize("alignment", [3, 24, 4097])
def test_alloc_refuses_an_alignment_that_is_no_power_of_two(layer: Rig, alignment: int) -> None:
    desc = layer.raw.new("memory_desc", bytes=64, alignment_bytes=alignment)
    out = layer.raw.out("hal_memory")
    layer.refuse("memory.alloc", layer.device, desc, out, status=Status.INVALID_VALUE)


@case(rules=["HAL-MEM-006"], negative=True)
@pytest.mark.parametrize("flags", [2, 0x80000000, 3])
def test_alloc_refuses_unknown_flags(layer: Rig, flags: int) -> None:
    desc = layer.raw.new("memory_desc", bytes=64, flags=flags)
    out = layer.raw.out("hal_memory")
    layer.refuse("memory.alloc", layer.device, desc, out, status=Status.INVALID_VALUE)


# ---- alloc: what the port itself owes ----


@case(rules=["HAL-MEM-007"], negative=True)
@pytest.mark.parametrize("handle", ["zero", "invented", "closed", "a stream's"])
def test_alloc_refuses_a_device_that_is_none(rig: Rig, handle: str) -> None:
    device = rig.no_device(handle)
    desc, out = rig.raw.new("memory_desc", bytes=64), rig.raw.out("hal_memory")
    rig.refuse("memory.alloc", device, desc, out, status=Status.INVALID_HANDLE)


@case(rules=["HAL-MEM-008", "HAL-MEM-009"], negative=True)
@pytest.mark.parametrize("bytes_", ["total + 1", "2^50", "2^64 - 1"])
def test_alloc_refuses_more_than_the_device_has(rig: Rig, bytes_: str) -> None:
    total = rig.stats().total_bytes
    wanted = {"total + 1": total + 1, "2^50": max(2**50, total + 1), "2^64 - 1": 2**64 - 1}[bytes_]
    desc, out = rig.raw.new("memory_desc", bytes=wanted), rig.raw.out("hal_memory")
    rig.refuse("memory.alloc", rig.device, desc, out, status=Status.OUT_OF_MEMORY)


@case(rules=["HAL-MEM-010"])
@pytest.mark.parametrize("bytes_", SIZES)
def test_live_buffers_share_no_byte(rig: Rig, bytes_: int) -> None:
    buffers = [rig.memory(bytes_) for _ in range(8)]
    wanted = [bytes([17 * (i + 1) % 256]) * bytes_ for i in range(8)]
    for buffer, data in zip(buffers, wanted, strict=True):
        rig.upload(buffer, data)
    assert [rig.download(buffer, bytes_) for buffer in buffers] == wanted


@case(rules=["HAL-MEM-011"])
@pytest.mark.parametrize("alignment", [1, 64, 256, 4096])
def test_a_buffer_starts_at_the_alignment_asked_for(rig: Rig, alignment: int) -> None:
    buffers = [rig.memory(bytes_, alignment=alignment) for bytes_ in (1, 100, 5000)]
    infos = [rig.info(buffer) for buffer in buffers]
    assert [info.alignment_bytes % alignment for info in infos] == [0, 0, 0]
    if rig.raw.has("memory.native_handle"):
        natives = [rig.native(buffer) for buffer in buffers]
        assert [native % alignment for native in natives if native is not None] in ([], [0, 0, 0])


@case(rules=["HAL-MEM-011"])
def test_a_buffer_starts_at_the_alignment_that_the_description_claims(rig: Rig, hcd: Any) -> None:
    path = f"memory.{hcd.text('execution.buffers')}.alignment_bytes"
    claimed = hcd.number(path, 1)
    told = [rig.info(rig.memory(bytes_)).alignment_bytes for bytes_ in (1, 100, 5000)]
    assert [alignment % claimed for alignment in told] == [0, 0, 0], (
        f"buffers start at multiples of {told}, {path} of the HCD is {claimed}; correct one of them"
    )


@case(rules=["HAL-MEM-012"])
@pytest.mark.parametrize("bytes_", SIZES)
def test_a_buffer_made_with_zero_reads_as_zeros(rig: Rig, bytes_: int) -> None:
    dirty = rig.memory(bytes_)
    rig.upload(dirty, b"\xff" * bytes_)
    rig.raw.ok("memory.free", dirty)
    clean = rig.memory(bytes_, flags=MemoryFlag.ZERO)
    assert rig.download(clean, bytes_) == bytes(bytes_)


@case(rules=["HAL-MEM-013"])
@pytest.mark.parametrize("bytes_", SIZES)
def test_a_buffer_keeps_what_is_written_to_it(rig: Rig, bytes_: int) -> None:
    data = bytes(i * 7 % 251 for i in range(bytes_))
    buffer = rig.memory(bytes_)
    rig.upload(buffer, data)
    assert rig.download(buffer, bytes_) == data


@case(rules=["HAL-MEM-014"])
def test_smaller_requests_succeed_after_out_of_memory(rig: Rig) -> None:
    total = rig.stats().total_bytes
    desc, out = rig.raw.new("memory_desc", bytes=total + 1), rig.raw.out("hal_memory")
    for _ in range(3):
        assert rig.raw.call("memory.alloc", rig.device, desc, out) == Status.OUT_OF_MEMORY
        buffer = rig.memory(4096)
        rig.upload(buffer, b"\x3c" * 4096)
        assert rig.download(buffer, 4096) == b"\x3c" * 4096


# ---- free ----


@case(rules=["HAL-MEM-020"], negative=True)
@pytest.mark.parametrize("handle", ["zero", "invented", "freed", "a device's"])
def test_free_refuses_a_buffer_that_is_none(rig: Rig, handle: str) -> None:
    rig.refuse("memory.free", rig.no_memory(handle), status=Status.INVALID_HANDLE)


@case(rules=["HAL-MEM-021"])
def test_freed_bytes_are_no_longer_in_use(rig: Rig) -> None:
    before = in_use_bytes(rig.raw, rig.device)
    buffer = rig.memory(10_000)
    during = in_use_bytes(rig.raw, rig.device)
    rig.raw.ok("memory.free", buffer)
    assert during >= before + 10_000
    assert in_use_bytes(rig.raw, rig.device) == before
    assert rig.raw.call("memory.free", buffer) == Status.INVALID_HANDLE


@case(rules=["HAL-MEM-022"])
def test_work_enqueued_before_free_still_sees_the_buffer(rig: Rig) -> None:
    data = bytes(range(256)) * 16
    source, target, stream = rig.memory(4096), rig.memory(4096), rig.stream()
    rig.upload(source, data)
    with rig.held(stream):
        rig.copy(stream, source, target, 4096)
        rig.raw.ok("memory.free", source)
        other = rig.memory(4096)
        rig.fill(other, b"\xee", 4096)
    rig.wait(stream)
    assert rig.download(target, 4096) == data


# ---- info ----


@case(rules=["HAL-MEM-030"], negative=True)
def test_info_needs_an_output(layer: Rig) -> None:
    buffer = layer.memory(64)
    layer.refuse("memory.info", buffer, layer.raw.NULL, status=Status.INVALID_VALUE)


@case(rules=["HAL-MEM-031"], negative=True)
@pytest.mark.parametrize("size", [0, 8, 15])
def test_info_refuses_an_output_that_is_too_small(layer: Rig, size: int) -> None:
    buffer = layer.memory(64)
    out = layer.raw.out("hal_memory_facts", size=size)
    layer.refuse("memory.info", buffer, out, status=Status.INVALID_VALUE)


@case(rules=["HAL-MEM-032"], negative=True)
@pytest.mark.parametrize("handle", ["zero", "invented", "freed", "a device's"])
def test_info_refuses_a_buffer_that_is_none(rig: Rig, handle: str) -> None:
    out = rig.raw.out("hal_memory_facts")
    rig.refuse("memory.info", rig.no_memory(handle), out, status=Status.INVALID_HANDLE)


@case(rules=["HAL-MEM-033"])
@pytest.mark.parametrize("bytes_", SIZES)
def test_info_tells_length_and_device(rig: Rig, bytes_: int) -> None:
    info = rig.info(rig.memory(bytes_))
    assert (info.bytes, info.device) == (bytes_, rig.device)


# ---- stats ----


@case(rules=["HAL-MEM-040"], negative=True)
def test_stats_needs_an_output(layer: Rig) -> None:
    layer.refuse("memory.stats", layer.device, layer.raw.NULL, status=Status.INVALID_VALUE)


@case(rules=["HAL-MEM-041"], negative=True)
@pytest.mark.parametrize("size", [0, 8, 39])
def test_stats_refuses_an_output_that_is_too_small(layer: Rig, size: int) -> None:
    out = layer.raw.out("hal_memory_figures", size=size)
    layer.refuse("memory.stats", layer.device, out, status=Status.INVALID_VALUE)


@case(rules=["HAL-MEM-042"], negative=True)
@pytest.mark.parametrize("handle", ["zero", "invented", "closed", "a stream's"])
def test_stats_refuses_a_device_that_is_none(rig: Rig, handle: str) -> None:
    out = rig.raw.out("hal_memory_figures")
    rig.refuse("memory.stats", rig.no_device(handle), out, status=Status.INVALID_HANDLE)


@case(rules=["HAL-MEM-043"])
def test_stats_follow_alloc_and_free(rig: Rig) -> None:
    first = rig.stats()
    one, two = rig.memory(100_000), rig.memory(50_000)
    full = rig.stats()
    rig.raw.ok("memory.free", one)
    half = rig.stats()
    rig.raw.ok("memory.free", two)
    last = rig.stats()
    assert full.in_use_bytes >= first.in_use_bytes + 150_000
    assert full.in_use_bytes - half.in_use_bytes >= 100_000
    assert last.in_use_bytes == first.in_use_bytes
    peaks = [first.peak_bytes, full.peak_bytes, half.peak_bytes, last.peak_bytes]
    assert peaks == sorted(peaks)
    assert full.peak_bytes >= full.in_use_bytes


@case(rules=["HAL-MEM-043", "HAL-ABI-006"], timeout_s=WHOLE_MEMORY_S)
def test_the_total_is_what_can_be_used(rig: Rig, hcd: Any) -> None:
    """In one buffer, or in as many as the chip's longest buffer makes of it."""
    total = rig.stats().total_bytes
    assert rig.raw.i64(rig.device, "device.memory_bytes") == total
    left, longest = total * 3 // 4, hcd.number("execution.limits.allocation_bytes_max", total)
    while left:
        size = min(left, longest)
        assert rig.info(rig.memory(size)).bytes == size
        left -= size


# ---- pinned host memory ----


@case(rules=["HAL-MEM-050"], negative=True)
def test_host_alloc_needs_an_output(layer: Rig) -> None:
    layer.refuse("memory.host_alloc", layer.device, 64, layer.raw.NULL, status=Status.INVALID_VALUE)


@case(rules=["HAL-MEM-051"], negative=True)
def test_host_alloc_refuses_size_zero(layer: Rig) -> None:
    out = layer.raw.out("void *")
    layer.refuse("memory.host_alloc", layer.device, 0, out, status=Status.INVALID_VALUE)


@case(rules=["HAL-MEM-052"], negative=True)
@pytest.mark.parametrize("handle", ["zero", "invented", "closed", "a stream's"])
def test_host_alloc_refuses_a_device_that_is_none(rig: Rig, handle: str) -> None:
    out = rig.raw.out("void *")
    rig.refuse("memory.host_alloc", rig.no_device(handle), 64, out, status=Status.INVALID_HANDLE)


@case(rules=["HAL-MEM-053"])
@pytest.mark.parametrize("bytes_", [1, 63, 4096, 1_000_000])
def test_pinned_memory_is_there_and_aligned(rig: Rig, bytes_: int) -> None:
    raw = rig.raw
    out = raw.out("void *")
    raw.ok("memory.host_alloc", rig.device, bytes_, out)
    view = raw.ffi.buffer(out[0], bytes_)
    view[:] = b"\x77" * bytes_
    assert int(raw.ffi.cast("uintptr_t", out[0])) % 64 == 0
    buffer = rig.memory(bytes_)
    rig.upload(buffer, view)
    assert rig.download(buffer, bytes_) == b"\x77" * bytes_


@case(rules=["HAL-MEM-054"], negative=True)
def test_host_alloc_refuses_more_than_the_host_has(rig: Rig) -> None:
    out = rig.raw.out("void *")
    rig.refuse("memory.host_alloc", rig.device, 2**62, out, status=Status.OUT_OF_MEMORY)


@case(rules=["HAL-MEM-060"], negative=True)
@pytest.mark.parametrize("pointer", ["null", "a host array", "inside", "freed"])
def test_host_free_refuses_a_pointer_that_it_did_not_give(rig: Rig, pointer: str) -> None:
    raw = rig.raw
    out = raw.out("void *")
    raw.ok("memory.host_alloc", rig.device, 4096, out)
    own = int(raw.ffi.cast("uintptr_t", out[0]))
    array = raw.keep(raw.ffi.new("char[4096]"))
    if pointer == "freed":
        raw.ok("memory.host_free", rig.device, out[0])
    wrong = {
        "null": 0,
        "a host array": int(raw.ffi.cast("uintptr_t", array)),
        "inside": own + 64,
        "freed": own,
    }[pointer]
    place = raw.ffi.cast("void *", wrong)
    rig.refuse("memory.host_free", rig.device, place, status=Status.INVALID_VALUE)


@case(rules=["HAL-MEM-061"], negative=True)
@pytest.mark.parametrize("handle", ["zero", "invented", "closed", "a stream's"])
def test_host_free_refuses_a_device_that_is_none(rig: Rig, handle: str) -> None:
    out = rig.raw.out("void *")
    rig.raw.ok("memory.host_alloc", rig.device, 64, out)
    device = rig.no_device(handle)
    rig.refuse("memory.host_free", device, out[0], status=Status.INVALID_HANDLE)
