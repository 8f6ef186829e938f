"""The laws of the whole ABI: version, tables, statuses, records, layouts, leaks, the log."""

from __future__ import annotations

import ctypes
import struct
import threading
from typing import Any

import pytest

from hal.testing import Rig, Status, case, programs
from hal.testing.abi import ABI_MAJOR, ABI_MINOR, FUNCTIONS, INTERFACES, status_name
from hal.testing.leaks import growth
from hal.testing.raw import Raw
from hal.testing.rig import LONG_NS

TIER1 = sorted({function.interface for function in FUNCTIONS if function.tier == 1})
FAILURES = ["value", "handle", "range", "memory", "module", "name", "state", "time", "execution"]
OUTPUTS = ["device.open", "memory.alloc", "memory.host_alloc", "memory.info", "memory.stats",
           "stream.create", "event.create", "module.load", "module.get_kernel", "device.get_i64",
           "device.get_str", "port.get_info"]  # fmt: skip


@pytest.fixture
def entry(raw: Raw) -> Any:
    """hal_port_entry of the open port, as ctypes calls it."""
    function = ctypes.CDLL(raw.target.path).hal_port_entry
    function.restype = ctypes.c_int32
    function.argtypes = [ctypes.c_uint32, ctypes.c_uint32, ctypes.POINTER(ctypes.c_void_p)]
    return function


def fail(rig: Rig, kind: str) -> tuple[str, tuple[Any, ...]]:
    """Return a call that must fail and the name of its status."""
    raw = rig.raw
    big = raw.new("memory_desc", bytes=2**63)
    host = rig.event(1) if kind == "state" else 0
    stream = rig.failed_stream() if kind == "execution" else rig.stream()
    if kind == "time":
        raw.ok("stream.wait_event", stream, rig.event(1))
    calls: dict[str, tuple[str, tuple[Any, ...]]] = {
        "value": ("INVALID_VALUE", ("memory.host_free", rig.device, raw.NULL)),
        "handle": ("INVALID_HANDLE", ("stream.query", 0x1234_5678_9ABC_DEF0)),
        "range": ("OUT_OF_RANGE", ("device.open", 2**32 - 1, raw.out("hal_device"))),
        "memory": ("OUT_OF_MEMORY", ("memory.alloc", rig.device, big, raw.out("hal_memory"))),
        "name": ("NOT_FOUND", ("device.get_i64", rig.device, b"no.such.key", raw.out("int64_t"))),
        "state": ("INVALID_STATE", ("event.record", host, stream)),
        "time": ("TIMEOUT", ("stream.synchronize", stream, 0)),
        "execution": ("EXECUTION_FAILED", ("stream.query", stream)),
        "module": (
            "INVALID_MODULE",
            ("module.load", rig.device, rig.module_desc(b"HVIL"), raw.out("hal_module")),
        ),
    }
    return calls[kind]


# ---- version and tables ----


@case(rules=["HAL-ABI-001"], negative=True)
@pytest.mark.parametrize("major", [ABI_MAJOR + 1, ABI_MAJOR + 7, 0x10001, 0xFFFFFFFF])
@pytest.mark.parametrize("minor", [0, 0xFFFFFFFF])
def test_the_entry_refuses_another_major(entry: Any, major: int, minor: int) -> None:
    root = ctypes.c_void_p(0xA5A5A5A5A5A5A5A5)
    status = entry(major, minor, ctypes.byref(root))
    assert (status_name(status), root.value) == ("VERSION", 0xA5A5A5A5A5A5A5A5)


@case(rules=["HAL-ABI-001"])
@pytest.mark.parametrize("minor", [0, ABI_MINOR, ABI_MINOR + 1, 1000])
def test_the_entry_serves_each_minor_of_its_major(entry: Any, minor: int) -> None:
    root = ctypes.c_void_p(None)
    assert status_name(entry(ABI_MAJOR, minor, ctypes.byref(root))) == "OK"
    assert root.value is not None
    size, major, _ = struct.unpack("<QII", ctypes.string_at(root.value, 16))
    assert size >= 40
    assert major == ABI_MAJOR


@case(rules=["HAL-ABI-002"])
@pytest.mark.parametrize("interface", TIER1)
def test_each_function_of_tier_1_is_there(raw: Raw, interface: str) -> None:
    wanted = [one.call for one in FUNCTIONS if (one.interface, one.tier) == (interface, 1)]
    missing = [call for call in wanted if not raw.has(call)]
    assert missing == []


@case(rules=["HAL-ABI-002"])
@pytest.mark.parametrize("interface", sorted(one if isinstance(one, str) else one.name
                                             for one in INTERFACES))  # fmt: skip
def test_each_table_starts_with_its_size(raw: Raw, interface: str) -> None:
    table = raw.table(interface)
    if table is None:
        assert interface not in TIER1
        return
    full = raw.ffi.sizeof(raw.ffi.typeof(table).item)
    assert table.size % 8 == 0
    assert 8 <= table.size <= full + 8 * 64


@case(rules=["HAL-ABI-002"])
def test_the_root_names_the_port(raw: Raw) -> None:
    texts = [raw.ffi.string(getattr(raw.root, field)).decode("utf-8")
             for field in ("name", "vendor", "version")]  # fmt: skip
    assert [text.strip() == text != "" for text in texts] == [True] * 3
    build = raw.ffi.string(raw.root.build_id).decode("utf-8")  # May be empty, never NULL.
    assert build.strip() == build
    assert raw.root.abi_major == ABI_MAJOR


# ---- out-structs ----


@case(rules=["HAL-ABI-003"])
@pytest.mark.parametrize("size", [16, 24, 32, 36])
def test_a_smaller_description_is_filled_up_to_its_size(rig: Rig, size: int) -> None:
    buffer = rig.memory(777)
    out = rig.raw.out("hal_memory_facts", size=size)
    rig.raw.ok("memory.info", buffer, out)
    assert out.bytes == 777
    assert rig.raw.guard_intact(out, from_byte=size)


@case(rules=["HAL-ABI-003"])
@pytest.mark.parametrize("size", [40, 44])
def test_smaller_figures_are_filled_up_to_their_size(rig: Rig, size: int) -> None:
    rig.memory(4096)
    out = rig.raw.out("hal_memory_figures", size=size)
    rig.raw.ok("memory.stats", rig.device, out)
    assert out.peak_bytes >= out.in_use_bytes >= 4096
    assert rig.raw.guard_intact(out, from_byte=size)


@case(rules=["HAL-ABI-003"])
@pytest.mark.parametrize("kind", ["memory_facts", "memory_figures", "error"])
def test_a_longer_struct_of_a_newer_caller_is_served(rig: Rig, kind: str) -> None:
    raw, buffer = rig.raw, rig.memory(777)
    plain = raw.ffi.sizeof(f"hal_{kind}")
    out = raw.out(f"hal_{kind}", size=plain + 32)
    calls = {
        "memory_facts": ("memory.info", buffer, out),
        "memory_figures": ("memory.stats", rig.device, out),
        "error": ("port.last_error", out),
    }
    raw.ok(*calls[kind])
    assert out.size == plain + 32
    assert raw.guard_intact(out, from_byte=plain + 32)


@case(rules=["HAL-ABI-012"], negative=True)
@pytest.mark.parametrize("call", OUTPUTS)
def test_a_call_that_fails_leaves_its_outputs_alone(rig: Rig, call: str) -> None:
    raw, bad = rig.raw, 0x7777_7777_7777_7777
    desc = raw.new("memory_desc", bytes=64)
    image = rig.module_desc(programs.add_one())
    text, need = raw.out("char", count=64), raw.out("uint64_t")
    calls: dict[str, tuple[Any, ...]] = {
        "device.open": (2**31, raw.out("hal_device")),
        "memory.alloc": (bad, desc, raw.out("hal_memory")),
        "memory.host_alloc": (bad, 64, raw.out("void *")),
        "memory.info": (bad, raw.out("hal_memory_facts")),
        "memory.stats": (bad, raw.out("hal_memory_figures")),
        "stream.create": (bad, 0, raw.out("hal_stream")),
        "event.create": (bad, 0, raw.out("hal_event")),
        "module.load": (bad, image, raw.out("hal_module")),
        "module.get_kernel": (bad, b"add_one", raw.out("hal_kernel")),
        "device.get_i64": (rig.device, b"no.such.key", raw.out("int64_t")),
        "device.get_str": (rig.device, b"no.such.key", 64, text, need),
        "port.get_info": (12345, 64, text, need),
    }
    others = {"device.open": Status.OUT_OF_RANGE, "device.get_i64": Status.NOT_FOUND,
              "device.get_str": Status.NOT_FOUND, "port.get_info": Status.NOT_FOUND}  # fmt: skip
    rig.refuse(call, *calls[call], status=others.get(call, Status.INVALID_HANDLE))


# ---- statuses and records ----


@case(rules=["HAL-ABI-011"], negative=True)
@pytest.mark.parametrize("kind", FAILURES)
def test_a_failure_has_its_status_in_all_32_bits(rig: Rig, kind: str) -> None:
    wanted, call = fail(rig, kind)
    assert status_name(rig.raw.call(*call)) == wanted
    assert status_name(rig.raw.error()[0]) == wanted


@case(rules=["HAL-ABI-011"])
def test_a_success_is_zero_in_all_32_bits(rig: Rig) -> None:
    stream, memory = rig.stream(), rig.memory(64)
    statuses = [
        rig.raw.call("transfer.fill", stream, rig.raw.ref(memory, 0, 64), b"\1", 1),
        rig.raw.call("stream.synchronize", stream, LONG_NS),
        rig.raw.call("stream.query", stream),
        rig.raw.call("memory.free", memory),
        rig.raw.call("stream.destroy", stream),
    ]
    assert statuses == [0] * 5


@case(rules=["HAL-ABI-005"], negative=True)
@pytest.mark.parametrize("kind", FAILURES)
def test_a_failure_has_a_text_that_ends(rig: Rig, kind: str) -> None:
    wanted, call = fail(rig, kind)
    assert status_name(rig.raw.call(*call)) == wanted
    texts = []
    for _ in range(2):
        out = rig.raw.out("hal_error")
        rig.raw.ok("port.last_error", out)
        texts.append(bytes(rig.raw.ffi.buffer(out.text)))
        bytearray(8192)
    end = texts[0].find(b"\0")
    assert 1 <= end <= 511
    assert texts[0][: end + 1] == texts[1][: end + 1]
    assert texts[0][:end].decode("utf-8").isprintable()


@case(rules=["HAL-ABI-005"], negative=True)
@pytest.mark.parametrize("name", ["x" * 600, "x" * 100_000, "ä" * 2000, "a" + "漢" * 2000])
def test_a_text_about_a_long_name_ends_too(rig: Rig, name: str) -> None:
    module, out = rig.module(programs.add_one()), rig.raw.out("hal_kernel")
    asked = name.encode()
    rig.refuse("module.get_kernel", module, asked, out, status=Status.NOT_FOUND)
    rig.refuse("device.get_i64", rig.device, asked, rig.raw.out("int64_t"), status=Status.NOT_FOUND)
    rig.raw.call("module.get_kernel", module, asked, out)
    record = rig.raw.out("hal_error")
    rig.raw.ok("port.last_error", record)
    text = bytes(rig.raw.ffi.buffer(record.text))
    assert 1 <= text.find(b"\0") <= 511
    text[: text.find(b"\0")].decode("utf-8")


@case(rules=["HAL-ABI-004"], negative=True)
@pytest.mark.parametrize("threads", [2, 8])
def test_each_thread_has_its_own_error(rig: Rig, threads: int) -> None:
    raw, gate = rig.raw, threading.Barrier(threads)
    seen: list[list[str]] = [[] for _ in range(threads)]

    def work(index: int) -> None:
        fresh = raw.error()
        for _ in range(50):
            if index % 2:
                raw.call("stream.query", 0)
            else:
                raw.call("device.open", 2**32 - 1, raw.ffi.new("hal_device *"))
            gate.wait()
            seen[index].append(status_name(raw.error()[0]))
        assert fresh[0] == 0

    crew = [threading.Thread(target=work, args=(index,)) for index in range(threads)]
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join()
    wanted = ["OUT_OF_RANGE", "INVALID_HANDLE"]
    assert seen == [[wanted[index % 2]] * 50 for index in range(threads)]


@case(rules=["HAL-ABI-004"])
def test_a_new_thread_has_no_error(rig: Rig) -> None:
    rig.raw.call("stream.query", 0)
    seen: list[tuple[int, int, str]] = []
    thread = threading.Thread(target=lambda: seen.append(rig.raw.error()))
    thread.start()
    thread.join()
    assert (seen[0][0], seen[0][1]) == (0, 0)
    assert status_name(rig.raw.error()[0]) == "INVALID_HANDLE"


@case(rules=["HAL-ABI-004", "HAL-ABI-013"], negative=True)
def test_a_streams_failure_is_told_to_the_thread_that_asks(rig: Rig) -> None:
    stream, seen = rig.failed_stream(), []

    def ask() -> None:
        seen.append((rig.raw.call("stream.query", stream), rig.raw.error()))

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    status, error = seen[0]
    assert (status_name(status), status_name(error[0])) == ("EXECUTION_FAILED",) * 2
    assert error[1] == 1


# ---- the HCD and the run time ----


@case(rules=["HAL-ABI-006"])
@pytest.mark.parametrize("section", ["features", "dtypes"])
def test_the_port_answers_what_the_hcd_claims(rig: Rig, hcd: Any, section: str) -> None:
    ending = ".compute" if section == "dtypes" else ""
    claimed = {path: text for path, text in hcd.below(section).items() if path.endswith(ending)}
    values = {"true": 1, "false": 0, "none": 0, "emulated": 1, "native": 2}
    wanted = {path: values[text] for path, text in claimed.items() if text in values}
    got = {path: rig.raw.i64(rig.device, path) for path in wanted}
    assert got == wanted
    assert len(wanted) >= 5


@case(rules=["HAL-ABI-006"])
@pytest.mark.parametrize(
    ("key", "path"),
    [
        ("device.argument_limit", "execution.limits.argument_count_max"),
        ("device.stream_limit", "execution.limits.stream_count_max"),
        ("device.offset_alignment_bytes", "execution.limits.offset_alignment_bytes"),
    ],
)
def test_the_limits_are_those_of_the_hcd(rig: Rig, hcd: Any, key: str, path: str) -> None:
    assert rig.raw.i64(rig.device, key) == hcd.number(path)


@case(rules=["HAL-ABI-006", "HAL-MEM-043"])
def test_the_memory_is_that_of_the_hcd(rig: Rig, hcd: Any) -> None:
    name = hcd.text("execution.buffers")
    wanted = hcd.number(f"memory.{name}.capacity_bytes")
    told = rig.raw.i64(rig.device, "device.memory_bytes")
    assert told == wanted, (
        f"device.memory_bytes is {told}, memory.{name}.capacity_bytes of the HCD {wanted}; "
        "correct the HCD, or report the number of this device in hcd.overlay"
    )
    assert rig.stats().total_bytes == wanted


# ---- layouts ----


@case(rules=["HAL-ABI-015"])
def test_a_description_of_memory_has_the_golden_layout(rig: Rig) -> None:
    buffer = rig.memory(777, alignment=128)
    out = rig.raw.out("hal_memory_facts")
    rig.raw.ok("memory.info", buffer, out)
    size, bytes_, alignment, device, flags, _ = struct.unpack(
        "<QQQQII", rig.raw.ffi.buffer(out, 40)
    )
    assert (size, bytes_, device, flags) == (40, 777, rig.device, 0)
    assert alignment % 128 == 0


@case(rules=["HAL-ABI-015"])
def test_the_figures_of_memory_have_the_golden_layout(rig: Rig) -> None:
    rig.raw.ok("memory.free", rig.memory(1 << 20))
    rig.memory(4096)
    out = rig.raw.out("hal_memory_figures")
    rig.raw.ok("memory.stats", rig.device, out)
    size, valid, _, total, in_use, peak, _ = struct.unpack("<QIIQQQQ", rig.raw.ffi.buffer(out, 48))
    assert (size, valid & ~1) == (48, 0)
    assert total == rig.raw.i64(rig.device, "device.memory_bytes")
    assert total >= peak >= (1 << 20) > in_use >= 4096


@case(rules=["HAL-ABI-015"], negative=True)
def test_the_record_of_an_error_has_the_golden_layout(rig: Rig) -> None:
    stream = rig.failed_stream()
    assert rig.raw.call("stream.query", stream) == Status.EXECUTION_FAILED
    out = rig.raw.out("hal_error")
    rig.raw.ok("port.last_error", out)
    size, status, _, operation = struct.unpack("<QiIQ", rig.raw.ffi.buffer(out, 24))
    assert (size, status, operation) == (536, int(Status.EXECUTION_FAILED), 1)


@case(rules=["HAL-ABI-015"])
def test_descriptors_are_read_at_the_golden_offsets(rig: Rig) -> None:
    raw = rig.raw
    source, target, stream = rig.numbers(range(68)), rig.numbers([0] * 132), rig.stream()
    packed = struct.pack("<QII6Q2Q", 80, 3, 0, source, 256, 16, target, 512, 16, 0, 0)
    desc = raw.ffi.cast("hal_copy_desc *", raw.keep(raw.ffi.new("uint8_t[]", packed)))
    raw.ok("transfer.copy", stream, desc)
    rig.wait(stream)
    assert rig.read(target, 132) == [0] * 128 + [64, 65, 66, 67]


# ---- leaks ----


@case(rules=["HAL-ABI-009"], timeout_s=60)
@pytest.mark.parametrize(
    "kind", ["memory", "pinned memory", "stream", "event", "host event", "module", "device"]
)
def test_making_and_ending_an_object_leaves_nothing_behind(rig: Rig, kind: str) -> None:
    raw = rig.raw
    image = programs.add_one()

    def once() -> None:
        if kind == "memory":
            raw.ok("memory.free", rig.memory(4096))
        elif kind == "pinned memory":
            out = raw.out("void *")
            raw.ok("memory.host_alloc", rig.device, 4096, out)
            raw.ok("memory.host_free", rig.device, out[0])
        elif kind == "stream":
            raw.ok("stream.destroy", rig.stream())
        elif kind == "event":
            raw.ok("event.destroy", rig.event())
        elif kind == "host event":
            event = rig.event(1)
            raw.ok("event.signal", event, 0)
            raw.ok("event.destroy", event)
        elif kind == "module":
            raw.ok("module.unload", rig.module(image))
        else:
            raw.ok("device.close", rig.second().device, LONG_NS)

    found = growth(rig, once, rounds=200)
    assert found == {}, f"each {kind} leaves something behind: {found}"


@case(rules=["HAL-ABI-009"], timeout_s=60)
@pytest.mark.parametrize("kind", ["fill", "launch", "record", "refusal"])
def test_work_leaves_nothing_behind(rig: Rig, kind: str) -> None:
    raw, stream, event = rig.raw, rig.stream(), rig.event()
    kernel, memory = rig.program(programs.slow(), "slow"), rig.numbers([1])
    place = raw.ref(memory, 0, 4)
    desc = rig.launch_desc([rig.symbol(1), rig.buffer(memory, 4)])

    def once() -> None:
        if kind == "fill":
            raw.ok("transfer.fill", stream, place, b"\1", 1)
        elif kind == "launch":
            raw.ok("launch.launch", stream, kernel, desc)
        elif kind == "record":
            raw.ok("event.record", event, stream)
            raw.ok("stream.wait_event", stream, event)
        else:
            raw.call("stream.query", 0)
        raw.ok("stream.synchronize", stream, LONG_NS)

    found = growth(rig, once, rounds=200)
    assert found == {}, f"each {kind} leaves something behind: {found}"


# ---- the log ----


@case(rules=["HAL-ABI-008"])
@pytest.mark.parametrize("after", ["a good run", "a failure"])
def test_no_log_line_comes_after_shutdown(unstarted: Raw, settings: Any, after: str) -> None:
    raw, lines, ended = unstarted, [], [False]

    def log(user: Any, level: int, text: Any) -> None:
        lines.append((ended[0], level, raw.ffi.string(text)))

    host = raw.host(log=raw.ffi.callback("void(void *, int32_t, const char *)", log))
    raw.ok("port.init", host)
    out = raw.out("hal_device")
    raw.ok("device.open", settings.device_index, out)
    rig = Rig(raw, int(out[0]), settings.device_index)
    if after == "a failure":
        rig.failed_stream()
    raw.ok("device.close", rig.device, LONG_NS)
    raw.ok("port.shutdown", LONG_NS)
    ended[0] = True
    raw.call("port.shutdown", 0)
    raw.call("device.open", settings.device_index, raw.out("hal_device"))
    raw.call("stream.query", 1)
    late = [line for line in lines if line[0]]
    assert late == []
    assert {0 <= level <= 3 for _, level, _ in lines} <= {True}
