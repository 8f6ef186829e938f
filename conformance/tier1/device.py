"""Device: open, ask, wait, close."""

from __future__ import annotations

import pytest

from hal.testing import Rig, Status, case, programs
from hal.testing.abi import Copy, status_name
from hal.testing.raw import Raw
from hal.testing.rig import LONG_NS, check_health

NO_DEVICE = ["zero", "invented", "closed", "a stream's"]
TEXT_KEYS = ["device.name", "hcd.ref", "hcd.overlay"]


def count_of(raw: Raw) -> int:
    """Return the number of devices."""
    out = raw.out("uint32_t")
    raw.ok("port.device_count", out)
    return int(out[0])


# ---- open ----


@case(rules=["HAL-DEV-001"], negative=True)
def test_open_needs_an_output(layer: Rig) -> None:
    layer.refuse("device.open", layer.index, layer.raw.NULL, status=Status.INVALID_VALUE)


@case(rules=["HAL-DEV-002", "HAL-DEV-003"], negative=True)
@pytest.mark.parametrize("index", ["count", "count + 1", "2^31", "2^32 - 1"])
def test_open_refuses_an_index_that_is_too_large(rig: Rig, index: str) -> None:
    count = count_of(rig.raw)
    wanted = {"count": count, "count + 1": count + 1, "2^31": 2**31, "2^32 - 1": 2**32 - 1}[index]
    out = rig.raw.out("hal_device")
    rig.refuse("device.open", wanted, out, status=Status.OUT_OF_RANGE)


@case(rules=["HAL-DEV-004"])
def test_an_opened_device_works(rig: Rig) -> None:
    assert rig.device != 0
    check_health(rig.raw, rig.device)


@case(rules=["HAL-DEV-004"])
def test_two_opens_of_a_device_share_nothing(rig: Rig) -> None:
    other = rig.second()
    assert other.device != rig.device
    mine, theirs = rig.memory(4096), other.memory(4096)
    rig.fill(mine, b"\x11", 4096)
    other.fill(theirs, b"\x22", 4096)
    rig.raw.ok("device.close", other.device, LONG_NS)
    assert rig.download(mine, 4096) == b"\x11" * 4096
    check_health(rig.raw, rig.device)


# ---- close ----


@case(rules=["HAL-DEV-010"], negative=True)
@pytest.mark.parametrize("handle", NO_DEVICE)
def test_close_refuses_a_device_that_is_none(rig: Rig, handle: str) -> None:
    rig.refuse("device.close", rig.no_device(handle), 0, status=Status.INVALID_HANDLE)


@case(rules=["HAL-DEV-011"], negative=True)
@pytest.mark.parametrize("kind", ["device", "memory", "stream", "event", "module", "kernel"])
def test_after_close_no_handle_of_the_device_works(rig: Rig, kind: str) -> None:
    raw, other = rig.raw, rig.second()
    module = other.module(programs.add_one())
    handles = {"device": other.device, "memory": other.memory(64), "stream": other.stream(),
               "event": other.event(), "module": module,
               "kernel": other.kernel(module, "add_one")}  # fmt: skip
    raw.ok("device.close", other.device, LONG_NS)
    old = handles[kind]
    asks = {
        "device": ("memory.stats", old, raw.out("hal_memory_figures")),
        "memory": ("memory.free", old),
        "stream": ("stream.query", old),
        "event": ("event.destroy", old),
        "module": ("module.get_kernel", old, b"add_one", raw.out("hal_kernel")),
        "kernel": ("launch.launch", rig.stream(), old, rig.launch_desc([])),
    }
    rig.refuse(*asks[kind], status=Status.INVALID_HANDLE)


@case(rules=["HAL-DEV-010", "HAL-DEV-011"], negative=True)
def test_a_device_closes_once(rig: Rig) -> None:
    other = rig.second()
    rig.raw.ok("device.close", other.device, LONG_NS)
    rig.refuse("device.close", other.device, LONG_NS, status=Status.INVALID_HANDLE)


@case(rules=["HAL-DEV-011"])
def test_close_waits_for_work(rig: Rig) -> None:
    other = rig.second()
    stream, memory = other.stream(), other.memory(1 << 20)
    host = bytearray(1 << 20)
    rig.raw.ok("transfer.fill", stream, rig.raw.ref(memory, 0, 1 << 20), b"\x5c", 1)
    desc = other.copy_desc(
        Copy.DEVICE_TO_HOST,
        source=rig.raw.ref(memory, 0, 1 << 20),
        host_target=rig.raw.pointer(host),
    )
    rig.raw.ok("transfer.copy", stream, desc)
    rig.raw.ok("device.close", other.device, LONG_NS)
    assert bytes(host) == b"\x5c" * (1 << 20)


@case(rules=["HAL-DEV-010"], negative=True)
@pytest.mark.parametrize("timeout_ns", [0, 1_000_000])
def test_close_gives_up_in_time_and_the_device_goes_on(rig: Rig, timeout_ns: int) -> None:
    other = rig.second()
    stream, memory = other.stream(), other.memory(64)
    with other.held(stream):
        rig.raw.ok("transfer.fill", stream, rig.raw.ref(memory, 0, 64), b"\x21", 1)
        rig.refuse("device.close", other.device, timeout_ns, status=Status.TIMEOUT)
    other.wait(stream)
    assert other.download(memory, 64) == b"\x21" * 64
    rig.raw.ok("device.close", other.device, LONG_NS)


# ---- get_i64 ----


@case(rules=["HAL-DEV-020"], negative=True)
@pytest.mark.parametrize("absent", ["key", "value"])
def test_get_i64_needs_key_and_output(layer: Rig, absent: str) -> None:
    raw = layer.raw
    key = raw.NULL if absent == "key" else b"device.memory_bytes"
    out = raw.NULL if absent == "value" else raw.out("int64_t")
    layer.refuse("device.get_i64", layer.device, key, out, status=Status.INVALID_VALUE)


@case(rules=["HAL-DEV-021"], negative=True)
@pytest.mark.parametrize("key", ["", "no.such.key", "device", "device.memory_bytes.", "x" * 5000])
def test_get_i64_refuses_an_unknown_key(rig: Rig, key: str) -> None:
    out = rig.raw.out("int64_t")
    rig.refuse("device.get_i64", rig.device, key.encode(), out, status=Status.NOT_FOUND)


@case(rules=["HAL-DEV-022"], negative=True)
@pytest.mark.parametrize("handle", NO_DEVICE)
def test_get_i64_refuses_a_device_that_is_none(rig: Rig, handle: str) -> None:
    device, out = rig.no_device(handle), rig.raw.out("int64_t")
    key = b"device.memory_bytes"
    rig.refuse("device.get_i64", device, key, out, status=Status.INVALID_HANDLE)


@case(rules=["HAL-DEV-023"])
@pytest.mark.parametrize(
    ("key", "least"),
    [
        ("device.memory_bytes", 1),
        ("device.offset_alignment_bytes", 1),
        ("device.argument_limit", 8),
        ("device.stream_limit", 0),
    ],
)
def test_get_i64_answers_each_key_of_the_run_time(rig: Rig, key: str, least: int) -> None:
    value = rig.raw.i64(rig.device, key)
    assert value is not None
    assert value >= least
    assert rig.raw.i64(rig.device, key) == value


# ---- get_str ----


@case(rules=["HAL-DEV-030"], negative=True)
@pytest.mark.parametrize("absent", ["key", "text", "bytes"])
def test_get_str_needs_key_and_outputs(layer: Rig, absent: str) -> None:
    raw = layer.raw
    key = raw.NULL if absent == "key" else b"device.name"
    text = raw.NULL if absent == "text" else raw.out("char", count=32)
    need = raw.NULL if absent == "bytes" else raw.out("uint64_t")
    layer.refuse("device.get_str", layer.device, key, 32, text, need, status=Status.INVALID_VALUE)


@case(rules=["HAL-DEV-031"], negative=True)
@pytest.mark.parametrize("key", ["", "no.such.key", "device.nam", "hcd", "x" * 5000])
def test_get_str_refuses_an_unknown_key(rig: Rig, key: str) -> None:
    text, need = rig.raw.out("char", count=32), rig.raw.out("uint64_t")
    found = Status.NOT_FOUND
    rig.refuse("device.get_str", rig.device, key.encode(), 32, text, need, status=found)


@case(rules=["HAL-DEV-032"])
@pytest.mark.parametrize("key", TEXT_KEYS)
def test_get_str_tells_the_whole_length_and_cuts_to_the_room(rig: Rig, key: str) -> None:
    raw, name = rig.raw, key.encode()
    need = raw.out("uint64_t")
    raw.ok("device.get_str", rig.device, name, 0, raw.NULL, need)
    length = int(need[0])
    room = raw.out("char", count=length)
    raw.ok("device.get_str", rig.device, name, length, room, need)
    whole = bytes(raw.ffi.buffer(room, length))
    assert whole.index(b"\0") == length - 1
    assert whole[:-1].decode("utf-8").encode() == whole[:-1]
    for capacity in sorted({1, max(1, length - 1), length, length + 7}):
        cut = raw.out("char", count=length + 8)
        raw.ok("device.get_str", rig.device, name, capacity, cut, need)
        kept = min(capacity, length) - 1
        assert int(need[0]) == length
        assert bytes(raw.ffi.buffer(cut, kept + 1)) == whole[:kept] + b"\0"
        assert raw.guard_intact(cut, from_byte=min(capacity, length))


@case(rules=["HAL-DEV-032", "HAL-ABI-006"])
def test_the_device_has_a_name_and_an_hcd(rig: Rig) -> None:
    assert rig.raw.text(rig.device, "device.name") not in (None, "")
    assert rig.raw.text(rig.device, "hcd.ref") not in (None, "")
    overlay = rig.raw.text(rig.device, "hcd.overlay")
    assert overlay is not None
    assert [line.count("\t") for line in overlay.splitlines()] == [1] * len(overlay.splitlines())


@case(rules=["HAL-DEV-033"], negative=True)
@pytest.mark.parametrize("handle", NO_DEVICE)
def test_get_str_refuses_a_device_that_is_none(rig: Rig, handle: str) -> None:
    device = rig.no_device(handle)
    text, need = rig.raw.out("char", count=32), rig.raw.out("uint64_t")
    key, bad = b"device.name", Status.INVALID_HANDLE
    rig.refuse("device.get_str", device, key, 32, text, need, status=bad)


# ---- synchronize ----


@case(rules=["HAL-DEV-040"], negative=True)
@pytest.mark.parametrize("handle", NO_DEVICE)
def test_synchronize_refuses_a_device_that_is_none(rig: Rig, handle: str) -> None:
    device = rig.no_device(handle)
    rig.refuse("device.synchronize", device, LONG_NS, status=Status.INVALID_HANDLE)


@case(rules=["HAL-DEV-041"])
def test_synchronize_waits_for_each_stream(rig: Rig) -> None:
    kernel = rig.program(programs.slow(), "slow")
    streams = [rig.stream() for _ in range(4)]
    memories = [rig.numbers([index]) for index in range(4)]
    for stream, memory in zip(streams, memories, strict=True):
        rig.launch(stream, kernel, rig.symbol(20_000), rig.buffer(memory, 4))
    rig.raw.ok("device.synchronize", rig.device, LONG_NS)
    states = [status_name(rig.raw.call("stream.query", stream)) for stream in streams]
    assert states == ["OK"] * 4
    got = [rig.read(memory, 1, dtype="<u4")[0] for memory in memories]
    assert got == [programs.after_loop(index, 20_000) for index in range(4)]


@case(rules=["HAL-DEV-042"], negative=True)
@pytest.mark.parametrize("timeout_ns", [0, 1, 1_000_000])
def test_synchronize_gives_up_in_time_and_the_device_goes_on(rig: Rig, timeout_ns: int) -> None:
    stream, memory = rig.stream(), rig.memory(64)
    with rig.held(stream):
        rig.raw.ok("transfer.fill", stream, rig.raw.ref(memory, 0, 64), b"\x42", 1)
        rig.refuse("device.synchronize", rig.device, timeout_ns, status=Status.TIMEOUT)
    rig.raw.ok("device.synchronize", rig.device, LONG_NS)
    assert rig.download(memory, 64) == b"\x42" * 64


@case(rules=["HAL-DEV-041"])
def test_synchronize_of_an_idle_device_takes_no_time_out(rig: Rig) -> None:
    rig.raw.ok("device.synchronize", rig.device, 0)
    check_health(rig.raw, rig.device)
    rig.raw.ok("device.synchronize", rig.device, 0)
