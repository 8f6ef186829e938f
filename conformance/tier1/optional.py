"""Functions that a port may lack. One that is there has its effect, whatever the HCD says."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from hal.testing import Rig, Status, case, programs
from hal.testing.abi import Copy, status_name
from hal.testing.seeds import bytes_of

# ---- what the validate layer refuses ----


@case(rules=["HAL-MEM-070", "HAL-MEM-080"], negative=True)
@pytest.mark.parametrize("wrong", ["no memory", "no length", "unregister nothing"])
def test_registering_needs_memory(layer: Rig, wrong: str) -> None:
    raw, host = layer.raw, layer.raw.pointer(bytearray(64))
    calls = {
        "no memory": ("memory.host_register", layer.device, raw.NULL, 64),
        "no length": ("memory.host_register", layer.device, host, 0),
        "unregister nothing": ("memory.host_unregister", layer.device, raw.NULL),
    }
    layer.refuse(*calls[wrong], status=Status.INVALID_VALUE)


@case(rules=["HAL-MEM-090", "HAL-MEM-100"], negative=True)
@pytest.mark.parametrize("wrong", ["export to nothing", "import nothing", "import to nothing"])
def test_sharing_needs_its_parameters(layer: Rig, wrong: str) -> None:
    raw, handle = layer.raw, layer.raw.new("ipc_handle")
    calls = {
        "export to nothing": ("memory.export_handle", layer.memory(64), raw.NULL),
        "import nothing": ("memory.import_handle", layer.device, raw.NULL, raw.out("hal_memory")),
        "import to nothing": ("memory.import_handle", layer.device, handle, raw.NULL),
    }
    layer.refuse(*calls[wrong], status=Status.INVALID_VALUE)


@case(rules=["HAL-MEM-110", "HAL-MEM-120"], negative=True)
@pytest.mark.parametrize("wrong", ["no memory", "no length", "no output", "show to nothing"])
def test_wrapping_needs_its_parameters(layer: Rig, wrong: str) -> None:
    raw, out = layer.raw, layer.raw.out("hal_memory")
    calls = {
        "no memory": ("memory.wrap", layer.device, 0, 64, out),
        "no length": ("memory.wrap", layer.device, 4096, 0, out),
        "no output": ("memory.wrap", layer.device, 4096, 64, raw.NULL),
        "show to nothing": ("memory.native_handle", layer.memory(64), raw.NULL),
    }
    layer.refuse(*calls[wrong], status=Status.INVALID_VALUE)


@case(
    rules=["HAL-XFR-040", "HAL-XFR-041", "HAL-XFR-042", "HAL-XFR-043", "HAL-XFR-046",
           "HAL-XFR-047"], negative=True,
)  # fmt: skip
@pytest.mark.parametrize("wrong", ["nothing", "small", "tail", "direction", "pitch", "flags"])
def test_rows_need_a_whole_descriptor(layer: Rig, wrong: str) -> None:
    raw, place = layer.raw, layer.raw.ref(layer.memory(256), 0, 256)
    fields: dict[str, Any] = {"kind": 3, "source": place, "target": place, "rows": 2,
                              "source_pitch_bytes": 64, "target_pitch_bytes": 64,
                              "row_bytes": 32}  # fmt: skip
    changes: dict[str, dict[str, Any]] = {
        "small": {"size": 111},
        "direction": {"kind": 9},
        "pitch": {"target_pitch_bytes": 31},
        "flags": {"flags": 4},
    }
    fields |= changes.get(wrong, {})
    desc = raw.NULL
    if wrong == "tail":
        desc = raw.longer("copy_2d_desc", tail=b"\1", **fields)
    elif wrong != "nothing":
        desc = raw.new("copy_2d_desc", **fields)
    status = Status.UNSUPPORTED if wrong == "tail" else Status.INVALID_VALUE
    layer.refuse("transfer.copy_2d", layer.stream(), desc, status=status)


@case(rules=["HAL-MOD-040", "HAL-MOD-050"], negative=True)
@pytest.mark.parametrize("wrong", ["no value", "no length", "no room"])
def test_asking_a_module_needs_outputs(layer: Rig, wrong: str) -> None:
    raw = layer.raw
    module = layer.module(programs.add_one())
    kernel = layer.kernel(module, "add_one")
    room = raw.ffi.cast("void *", raw.out("uint8_t", count=64))
    calls = {
        "no value": ("module.kernel_info", kernel, 1, raw.NULL),
        "no length": ("module.serialize", module, 64, room, raw.NULL),
        "no room": ("module.serialize", module, 64, raw.NULL, raw.out("uint64_t")),
    }
    layer.refuse(*calls[wrong], status=Status.INVALID_VALUE)


@case(rules=["HAL-LCH-032", "HAL-LCH-033"], negative=True)
@pytest.mark.parametrize("wrong", ["small", "tail"])
def test_suggest_needs_a_whole_descriptor(layer: Rig, wrong: str) -> None:
    raw, kernel = layer.raw, layer.program(programs.add_one(), "add_one")
    out = raw.out("uint32_t", count=3)
    desc = raw.new("launch_desc", size=40) if wrong == "small" else raw.longer(
        "launch_desc", tail=b"\1")  # fmt: skip
    status = Status.INVALID_VALUE if wrong == "small" else Status.UNSUPPORTED
    layer.refuse("launch.suggest", kernel, desc, out, status=status)


@case(rules=["HAL-PRF-040"], negative=True)
@pytest.mark.parametrize("absent", ["name", "value"])
def test_a_counter_needs_name_and_output(layer: Rig, absent: str) -> None:
    name = layer.raw.NULL if absent == "name" else b"none"
    out = layer.raw.NULL if absent == "value" else layer.raw.out("int64_t")
    layer.refuse("profile.counter", layer.device, name, out, status=Status.INVALID_VALUE)


# ---- host calls ----


@case(rules=["HAL-STR-051", "HAL-ABI-007"], needs=["features.host_call"])
def test_a_host_call_runs_once_in_the_order_of_its_stream(rig: Rig) -> None:
    raw, stream, seen = rig.raw, rig.stream(), []
    first, second = bytearray(4), bytearray(4)
    memory = rig.numbers([0])

    def note(user: Any) -> None:
        seen.append((int(raw.ffi.cast("uintptr_t", user)), bytes(first), bytes(second)))

    function = raw.ffi.callback("void(void *)", note)

    def download(host: bytearray) -> None:
        desc = rig.copy_desc(
            Copy.DEVICE_TO_HOST, source=raw.ref(memory, 0, 4), host_target=raw.pointer(host)
        )
        raw.ok("transfer.copy", stream, desc)

    with rig.held(stream):
        raw.ok("transfer.fill", stream, raw.ref(memory, 0, 4), b"\5", 1)
        download(first)
        raw.ok("stream.host_call", stream, function, raw.ffi.cast("void *", 77))
        download(second)
        assert seen == []
    rig.wait(stream)
    assert seen == [(77, b"\5" * 4, bytes(4))]
    assert bytes(second) == b"\5" * 4


@case(rules=["HAL-STR-051"], negative=True, needs=["features.host_call"])
@pytest.mark.parametrize("handle", ["zero", "invented", "destroyed"])
def test_host_call_refuses_a_stream_that_is_none(rig: Rig, handle: str) -> None:
    raw, seen = rig.raw, []
    function = raw.keep(raw.ffi.callback("void(void *)", seen.append))
    stream, bad = rig.no_stream(handle), Status.INVALID_HANDLE
    rig.refuse("stream.host_call", stream, function, raw.NULL, status=bad)
    assert seen == []


# ---- native handles ----


@case(rules=["HAL-MEM-121"], negative=True, needs=["features.native_handles"])
@pytest.mark.parametrize("handle", ["zero", "invented", "freed", "a device's"])
def test_native_handle_refuses_a_buffer_that_is_none(rig: Rig, handle: str) -> None:
    memory, out = rig.no_memory(handle), rig.raw.out("uint64_t")
    rig.refuse("memory.native_handle", memory, out, status=Status.INVALID_HANDLE)


@case(rules=["HAL-MEM-111", "HAL-ABI-007"], needs=["features.native_handles"])
def test_a_wrapped_buffer_is_the_memory_that_it_wraps(rig: Rig) -> None:
    raw, base, out = rig.raw, rig.memory(4096), rig.raw.out("hal_memory")
    native = rig.native(base)
    assert native
    raw.ok("memory.wrap", rig.device, native, 4096, out)
    wrapped = int(out[0])
    rig.upload(base, bytes_of(4096))
    assert rig.download(wrapped, 4096) == bytes_of(4096)
    rig.upload(wrapped, bytes_of(4096, 1))
    raw.ok("memory.free", wrapped)
    assert rig.download(base, 4096) == bytes_of(4096, 1)


@case(rules=["HAL-MEM-111", "HAL-XFR-010"], negative=True, needs=["features.native_handles"])
def test_a_wrapped_buffer_has_bounds_too(rig: Rig) -> None:
    raw, base, out = rig.raw, rig.memory(4096), rig.raw.out("hal_memory")
    raw.ok("memory.wrap", rig.device, rig.native(base), 64, out)
    place, stream = raw.ref(int(out[0]), 0, 65), rig.stream()
    rig.refuse("transfer.fill", stream, place, b"\1", 1, status=Status.OUT_OF_RANGE)


# ---- rows ----


def rows_desc(rig: Rig, source: int, target: int, rows: int) -> Any:
    """Return a copy of rows: 24 bytes each, 40 apart in the source, 32 apart in the target."""
    return rig.raw.new(
        "copy_2d_desc",
        kind=int(Copy.DEVICE_TO_DEVICE),
        source=rig.raw.ref(source, 0, 400),
        target=rig.raw.ref(target, 0, 320),
        source_pitch_bytes=40,
        target_pitch_bytes=32,
        row_bytes=24,
        rows=rows,
    )


@case(rules=["HAL-XFR-045", "HAL-ABI-007"], needs=["features.copy_2d"])
def test_rows_land_at_their_pitch(rig: Rig) -> None:
    source, target, stream = rig.memory(400), rig.memory(320), rig.stream()
    rig.upload(source, bytes_of(400))
    rig.fill(target, b"\x7e", 320)
    rig.raw.ok("transfer.copy_2d", stream, rows_desc(rig, source, target, 10))
    rig.wait(stream)
    rows = [bytes_of(400)[40 * row : 40 * row + 24] + b"\x7e" * 8 for row in range(10)]
    assert rig.download(target, 320) == b"".join(rows)


@case(rules=["HAL-XFR-044"], negative=True, needs=["features.copy_2d"])
@pytest.mark.parametrize("rows", [11, 2**40, 2**63])
def test_rows_beyond_a_range_are_refused(rig: Rig, rows: int) -> None:
    source, target = rig.memory(400), rig.memory(320)
    rig.fill(target, b"\x7e", 320)
    desc = rows_desc(rig, source, target, rows)
    rig.refuse("transfer.copy_2d", rig.stream(), desc, status=Status.OUT_OF_RANGE)
    assert rig.download(target, 320) == b"\x7e" * 320


# ---- pinning ----


@case(rules=["HAL-MEM-071", "HAL-MEM-081"], negative=True, needs=["features.host_register"])
def test_memory_is_registered_once_and_ended_once(rig: Rig) -> None:
    raw, host = rig.raw, bytearray(8192)
    place = raw.pointer(host)
    raw.ok("memory.host_register", rig.device, place, 8192)
    rig.refuse("memory.host_register", rig.device, place, 8192, status=Status.INVALID_STATE)
    raw.ok("memory.host_unregister", rig.device, place)
    rig.refuse("memory.host_unregister", rig.device, place, status=Status.INVALID_VALUE)


# ---- sharing ----


@case(rules=["HAL-MEM-101"], negative=True, needs=["features.ipc"])
def test_bytes_that_no_export_made_are_refused(rig: Rig) -> None:
    handle, out = rig.raw.new("ipc_handle"), rig.raw.out("hal_memory")
    rig.refuse("memory.import_handle", rig.device, handle, out, status=Status.NOT_FOUND)


@case(rules=["HAL-MEM-091"], negative=True, needs=["features.ipc"])
def test_export_refuses_a_buffer_that_is_none(rig: Rig) -> None:
    memory, out = rig.no_memory("freed"), rig.raw.out("hal_ipc_handle")
    rig.refuse("memory.export_handle", memory, out, status=Status.INVALID_HANDLE)


# ---- modules ----


@case(rules=["HAL-ABI-007", "HAL-MOD-051"], needs=["features.module_serialize"])
def test_a_serialized_module_loads_again(rig: Rig) -> None:
    raw, module = rig.raw, rig.module(programs.add_one())
    need = raw.out("uint64_t")
    raw.ok("module.serialize", module, 0, raw.NULL, need)
    room = ctypes.create_string_buffer(int(need[0]))
    place = raw.ffi.cast("void *", ctypes.addressof(room))
    raw.ok("module.serialize", module, int(need[0]), place, need)
    assert rig.kernel(rig.module(room.raw), "add_one") != 0


@case(rules=["HAL-MOD-041", "HAL-MOD-042", "HAL-ABI-007"], negative=True)
@pytest.mark.parametrize("wrong", ["kernel", "key"])
def test_kernel_info_refuses_what_it_does_not_know(rig: Rig, wrong: str) -> None:
    kernel, out = rig.program(programs.add_one(), "add_one"), rig.raw.out("int64_t")
    asked = (rig.no_kernel("unloaded"), 1) if wrong == "kernel" else (kernel, 999)
    status = Status.INVALID_HANDLE if wrong == "kernel" else Status.NOT_FOUND
    has = rig.raw.has("module.kernel_info")
    rig.refuse("module.kernel_info", *asked, out, status=status if has else Status.UNSUPPORTED)


@case(rules=["HAL-ABI-007"])
def test_kernel_info_counts_the_arguments(rig: Rig) -> None:
    kernel, out = rig.program(programs.add_one(), "add_one"), rig.raw.out("int64_t")
    status = rig.raw.call("module.kernel_info", kernel, 1, out)
    assert status_name(status) in ("OK", "UNSUPPORTED")
    assert status != 0 or int(out[0]) == 3


@case(rules=["HAL-PRF-041"], negative=True, needs=["features.counters"])
def test_an_unknown_counter_is_not_found(rig: Rig) -> None:
    out, name = rig.raw.out("int64_t"), b"no such counter"
    rig.refuse("profile.counter", rig.device, name, out, status=Status.NOT_FOUND)


@case(rules=["HAL-DEV-060"], negative=True, needs=["features.device_reset"])
@pytest.mark.parametrize("handle", ["zero", "invented", "closed"])
def test_reset_refuses_a_device_that_is_none(rig: Rig, handle: str) -> None:
    rig.refuse("device.reset", rig.no_device(handle), status=Status.INVALID_HANDLE)


@case(rules=["HAL-DEV-061", "HAL-ABI-007"], needs=["features.device_reset"])
def test_after_reset_older_objects_are_refused(rig: Rig) -> None:
    other = rig.second()
    memory, stream = other.memory(64), other.stream()
    rig.raw.ok("device.reset", other.device)
    assert status_name(rig.raw.call("memory.free", memory)) == "INVALID_HANDLE"
    assert status_name(rig.raw.call("stream.query", stream)) == "INVALID_HANDLE"
    rig.raw.ok("device.close", other.device, 10**10)


@case(rules=["HAL-ABI-007", "HAL-LCH-031"], needs=["features.launch_suggest"])
def test_suggest_proposes_a_block(rig: Rig) -> None:
    kernel, out = rig.program(programs.add_one(), "add_one"), rig.raw.out("uint32_t", count=3)
    rig.raw.ok("launch.suggest", kernel, rig.launch_desc([]), out)
    assert [1 <= out[axis] < 2**20 for axis in range(3)] == [True] * 3
