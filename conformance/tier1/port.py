"""Port: start, stop, and what the port says of itself."""

from __future__ import annotations

from typing import Any

import pytest

from hal.testing import Rig, Status, case
from hal.testing.abi import PortInfo, status_name
from hal.testing.raw import Raw
from hal.testing.rig import LONG_NS, check_health

KEYS = [PortInfo.NAME, PortInfo.VERSION, PortInfo.RUNTIME, PortInfo.RUNS_ON]


def opened(port: Raw, index: int) -> int:
    """Open a device of a port that the case started itself."""
    out = port.out("hal_device")
    port.ok("device.open", index, out)
    return int(out[0])


def refused(port: Raw, call: str, *arguments: Any, status: int) -> None:
    """Check a refusal where no device is open: status, record and outputs."""
    answer = port.call(call, *arguments)
    error = port.error()
    assert status_name(answer) == status_name(status), error[2]
    assert status_name(error[0]) == status_name(status)
    assert error[2] != ""
    assert [port.untouched(out) for out in port.outs(arguments)].count(False) == 0


# ---- init and shutdown ----


@case(rules=["HAL-PRT-001"], negative=True)
def test_init_needs_a_host(unstarted_layer: Raw) -> None:
    refused(unstarted_layer, "port.init", unstarted_layer.NULL, status=Status.INVALID_VALUE)
    unstarted_layer.ok("port.init", unstarted_layer.host())
    unstarted_layer.ok("port.shutdown", LONG_NS)


@case(rules=["HAL-PRT-002"], negative=True)
@pytest.mark.parametrize("size", [0, 8, 31])
def test_init_refuses_a_host_that_is_too_small(unstarted_layer: Raw, size: int) -> None:
    host = unstarted_layer.host(size=size)
    refused(unstarted_layer, "port.init", host, status=Status.INVALID_VALUE)


@case(rules=["HAL-PRT-003"], negative=True)
def test_a_second_init_is_refused_and_the_first_goes_on(unstarted: Raw, settings: Any) -> None:
    unstarted.ok("port.init", unstarted.host())
    device = opened(unstarted, settings.device_index)
    refused(unstarted, "port.init", unstarted.host(), status=Status.INVALID_STATE)
    check_health(unstarted, device)
    unstarted.ok("device.close", device, LONG_NS)
    unstarted.ok("port.shutdown", LONG_NS)


@case(rules=["HAL-PRT-010"], negative=True)
@pytest.mark.parametrize("moment", ["before init", "after shutdown"])
def test_shutdown_without_init_is_refused(unstarted: Raw, moment: str) -> None:
    if moment == "after shutdown":
        unstarted.ok("port.init", unstarted.host())
        unstarted.ok("port.shutdown", LONG_NS)
    refused(unstarted, "port.shutdown", LONG_NS, status=Status.INVALID_STATE)
    unstarted.ok("port.init", unstarted.host())
    unstarted.ok("port.shutdown", LONG_NS)


@case(rules=["HAL-PRT-011"])
@pytest.mark.parametrize("rounds", [1, 5])
def test_the_port_starts_again_after_shutdown(unstarted: Raw, settings: Any, rounds: int) -> None:
    for _ in range(rounds + 1):
        unstarted.ok("port.init", unstarted.host())
        device = opened(unstarted, settings.device_index)
        check_health(unstarted, device)
        unstarted.ok("device.close", device, LONG_NS)
        unstarted.ok("port.shutdown", LONG_NS)


@case(rules=["HAL-PRT-011"], negative=True)
@pytest.mark.parametrize("kind", ["device", "memory", "stream", "event"])
def test_handles_of_an_earlier_start_are_refused(unstarted: Raw, settings: Any, kind: str) -> None:
    unstarted.ok("port.init", unstarted.host())
    rig = Rig(unstarted, opened(unstarted, settings.device_index))
    old = {"device": rig.device, "memory": rig.memory(64), "stream": rig.stream(),
           "event": rig.event()}[kind]  # fmt: skip
    unstarted.ok("port.shutdown", LONG_NS)
    unstarted.ok("port.init", unstarted.host())
    device = opened(unstarted, settings.device_index)
    facts = unstarted.out("hal_memory_facts")
    asks = {
        "device": ("device.synchronize", old, 0),
        "memory": ("memory.info", old, facts),
        "stream": ("stream.query", old),
        "event": ("event.query", old),
    }
    refused(unstarted, *asks[kind], status=Status.INVALID_HANDLE)
    check_health(unstarted, device)
    unstarted.ok("port.shutdown", LONG_NS)


@case(rules=["HAL-PRT-011"])
def test_shutdown_closes_devices_with_all_that_is_on_them(unstarted: Raw, settings: Any) -> None:
    unstarted.ok("port.init", unstarted.host())
    rig = Rig(unstarted, opened(unstarted, settings.device_index))
    memory, stream = rig.memory(4096), rig.stream()
    unstarted.ok("transfer.fill", stream, unstarted.ref(memory, 0, 4096), b"\x11", 1)
    unstarted.ok("port.shutdown", LONG_NS)
    unstarted.ok("port.init", unstarted.host())
    again = Rig(unstarted, opened(unstarted, settings.device_index))
    assert again.stats().in_use_bytes == 0
    unstarted.ok("port.shutdown", LONG_NS)


# ---- get_info ----


@case(rules=["HAL-PRT-020"], negative=True)
@pytest.mark.parametrize("absent", ["text", "bytes"])
def test_get_info_needs_its_outputs(layer: Rig, absent: str) -> None:
    raw = layer.raw
    text = raw.NULL if absent == "text" else raw.out("char", count=32)
    need = raw.NULL if absent == "bytes" else raw.out("uint64_t")
    layer.refuse("port.get_info", 1, 32, text, need, status=Status.INVALID_VALUE)


@case(rules=["HAL-PRT-021"], negative=True)
@pytest.mark.parametrize("key", [0, 5, 0x7FFFFFFF, 0xFFFFFFFF])
def test_get_info_refuses_an_unknown_key(rig: Rig, key: int) -> None:
    text, need = rig.raw.out("char", count=32), rig.raw.out("uint64_t")
    rig.refuse("port.get_info", key, 32, text, need, status=Status.NOT_FOUND)


@case(rules=["HAL-PRT-022"])
@pytest.mark.parametrize("key", KEYS, ids=[key.name for key in KEYS])
def test_get_info_tells_the_whole_length_and_cuts_to_the_room(raw: Raw, key: PortInfo) -> None:
    need = raw.out("uint64_t")
    raw.ok("port.get_info", int(key), 0, raw.NULL, need)
    length = int(need[0])
    room = raw.out("char", count=length)
    raw.ok("port.get_info", int(key), length, room, need)
    whole = bytes(raw.ffi.buffer(room, length))
    assert whole.index(b"\0") == length - 1
    for capacity in sorted({1, max(1, length - 1), length, length + 7}):
        cut = raw.out("char", count=length + 8)
        raw.ok("port.get_info", int(key), capacity, cut, need)
        kept = min(capacity, length) - 1
        assert int(need[0]) == length
        assert bytes(raw.ffi.buffer(cut, kept + 1)) == whole[:kept] + b"\0"
        assert raw.guard_intact(cut, from_byte=min(capacity, length))


@case(rules=["HAL-PRT-022", "HAL-ABI-006"])
def test_get_info_agrees_with_the_root(raw: Raw) -> None:
    name = raw.ffi.string(raw.root.name).decode()
    version = raw.ffi.string(raw.root.version).decode()
    assert (raw.info(PortInfo.NAME), raw.info(PortInfo.VERSION)) == (name, version)
    assert raw.info(PortInfo.RUNS_ON) in ("device", "host")


# ---- device_count ----


@case(rules=["HAL-PRT-030"], negative=True)
def test_device_count_needs_an_output(layer: Rig) -> None:
    layer.refuse("port.device_count", layer.raw.NULL, status=Status.INVALID_VALUE)


@case(rules=["HAL-PRT-031"])
def test_each_device_below_the_count_opens(raw: Raw, settings: Any) -> None:
    count = raw.out("uint32_t")
    raw.ok("port.device_count", count)
    assert int(count[0]) > settings.device_index
    devices = [opened(raw, index) for index in range(min(int(count[0]), 8))]
    assert len(set(devices)) == len(devices)
    assert 0 not in devices
    for device in devices:
        check_health(raw, device)


# ---- last_error ----


@case(rules=["HAL-PRT-040"], negative=True)
def test_last_error_needs_an_output(unstarted_layer: Raw) -> None:
    answer = unstarted_layer.call("port.last_error", unstarted_layer.NULL)
    assert status_name(answer) == "INVALID_VALUE"


@case(rules=["HAL-PRT-041"], negative=True)
@pytest.mark.parametrize("size", [0, 8, 24, 535])
def test_last_error_refuses_a_record_that_is_too_small(layer: Rig, size: int) -> None:
    out = layer.raw.out("hal_error", size=size)
    answer = layer.raw.call("port.last_error", out)
    assert status_name(answer) == "INVALID_VALUE"
    assert layer.raw.untouched(out)


@case(rules=["HAL-PRT-042"])
def test_last_error_keeps_the_failure_over_later_successes(rig: Rig) -> None:
    out = rig.raw.out("hal_device")
    status = rig.raw.call("device.open", 0xFFFFFFFF, out)
    first = rig.raw.error()
    memory = rig.memory(64)
    rig.fill(memory, b"\1", 64)
    rig.raw.ok("memory.free", memory)
    assert first[0] == status
    assert rig.raw.error() == first


@case(rules=["HAL-PRT-042"])
def test_last_error_holds_the_latest_of_two_failures(rig: Rig) -> None:
    raw = rig.raw
    out, need = raw.out("hal_device"), raw.out("uint64_t")
    statuses = [
        raw.call("device.open", 0xFFFFFFFF, out),
        raw.call("stream.query", 0),
        raw.call("port.get_info", 999, 0, raw.NULL, need),
    ]
    names = [status_name(status) for status in statuses]
    assert names == ["OUT_OF_RANGE", "INVALID_HANDLE", "NOT_FOUND"]
    assert status_name(raw.error()[0]) == "NOT_FOUND"


@case(rules=["HAL-PRT-042"])
def test_last_error_of_a_refused_call_has_no_operation(rig: Rig) -> None:
    stream = rig.failed_stream()
    rig.raw.call("transfer.fill", stream, rig.raw.ref(0, 0, 4), b"\1", 1)
    rig.raw.call("stream.query", 0)
    assert rig.raw.error()[1] == 0


# ---- extensions ----


@case(rules=["HAL-PRT-050"], negative=True)
@pytest.mark.parametrize("absent", ["name", "table"])
def test_get_extension_needs_name_and_output(layer: Rig, absent: str) -> None:
    raw = layer.raw
    name = raw.NULL if absent == "name" else b"none"
    table = raw.NULL if absent == "table" else raw.out("const void *")
    layer.refuse("port.get_extension", name, 1, table, status=Status.INVALID_VALUE)


@case(rules=["HAL-PRT-051", "HAL-ABI-007"], negative=True)
def test_an_unknown_extension_is_not_found(rig: Rig) -> None:
    table = rig.raw.out("const void *")
    has = rig.raw.has("port.get_extension")
    status = Status.NOT_FOUND if has else Status.UNSUPPORTED
    rig.refuse("port.get_extension", b"no such extension", 1, table, status=status)
