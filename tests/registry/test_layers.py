"""The generated layers: direct, validate, mutate, trace, forward, over a port of the test's own."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from hal._generated.constants import Status
from hal._generated.functions import FUNCTIONS
from hal._generated.rules import RULES

NUMBER = {function.call: number for number, function in enumerate(FUNCTIONS)}
Open = Callable[..., Any]


def alloc(stack: Any, **fields: Any) -> tuple[int, int]:
    """Allocate 64 bytes, unless the fields say otherwise; the status and the handle."""
    memory = stack.ffi.new("hal_memory *", 5)
    desc = stack.new("memory_desc", **{"bytes": 64, **fields})
    return stack.call("memory_alloc", 1, desc, memory), memory[0]


# ---- direct ----


def test_a_call_reaches_the_port_and_its_result_comes_back(stack: Open) -> None:
    opened = stack()
    assert alloc(opened) == (Status.OK, 77)
    assert opened.lib.port_calls == 1


def test_a_null_entry_is_unsupported(stack: Open) -> None:
    opened = stack()
    assert opened.call("memory_free", 9) == Status.UNSUPPORTED
    assert opened.text("absent_call") == "memory.free"


def test_an_entry_beyond_the_tables_size_is_unsupported(stack: Open) -> None:
    opened = stack(memory_bytes=8)
    assert alloc(opened) == (Status.UNSUPPORTED, 5)
    assert opened.lib.port_calls == 0


def test_an_entry_that_the_tables_size_cuts_is_unsupported(stack: Open) -> None:
    assert alloc(stack(memory_bytes=15))[0] == Status.UNSUPPORTED
    assert alloc(stack(memory_bytes=16))[0] == Status.OK


def test_a_missing_table_is_unsupported(stack: Open) -> None:
    opened = stack()
    assert opened.call("stream_query", 1) == Status.UNSUPPORTED
    assert opened.text("absent_call") == "stream.query"


def test_a_null_port_is_an_invalid_handle(stack: Open) -> None:
    opened = stack()
    assert opened.lib.hal_memory_free(opened.ffi.NULL, 1) == Status.INVALID_HANDLE


def test_a_failing_port_is_reported_once_to_the_loader(stack: Open) -> None:
    opened = stack()
    opened.lib.port_answer = Status.OUT_OF_MEMORY
    assert alloc(opened) == (Status.OUT_OF_MEMORY, 5)
    assert opened.text("failed_call") == "memory.alloc"


def test_what_the_port_has_is_known_by_number(stack: Open) -> None:
    opened = stack()
    have = {call for call, number in NUMBER.items() if opened.lib.stack_has(number)}
    assert have == {"port.get_info", "memory.alloc", "memory.stats", "launch.launch"}


def test_c_and_python_number_functions_alike(stack: Open) -> None:
    opened = stack()
    names = [opened.ffi.string(opened.lib.stack_function(n)).decode() for n in NUMBER.values()]
    assert names == list(NUMBER)


def test_c_names_each_status(stack: Open) -> None:
    opened = stack()
    names = [opened.ffi.string(opened.lib.stack_status(s)).decode() for s in Status]
    assert names == [s.name for s in Status]


# ---- validate ----


@pytest.mark.parametrize(
    ("rule", "fields", "detail"),
    [
        ("HAL-MEM-002", {"size": 8}, "desc->size = 8, HAL_MEMORY_DESC_MINIMUM = 16"),
        ("HAL-MEM-004", {"bytes": 0}, "desc->bytes = 0"),
        ("HAL-MEM-005", {"alignment_bytes": 48}, "desc->alignment_bytes = 48"),
        ("HAL-MEM-006", {"flags": 2}, "desc->flags = 2"),
    ],
)
def test_a_broken_host_rule_is_refused_with_its_values(
    stack: Open, rule: str, fields: dict[str, int], detail: str
) -> None:
    opened = stack()
    assert alloc(opened, **fields) == (Status.INVALID_VALUE, 5)
    assert (opened.text("refused_rule"), opened.text("refused_detail")) == (rule, detail)
    assert opened.lib.port_calls == 0


def test_a_null_pointer_is_refused_by_name(stack: Open) -> None:
    opened = stack()
    desc = opened.new("memory_desc", bytes=1)
    assert opened.call("memory_alloc", 1, desc, opened.ffi.NULL) == Status.INVALID_VALUE
    assert opened.text("refused_rule") == "HAL-MEM-001"
    assert opened.text("refused_detail") == "desc = given, out_memory = NULL"


def test_an_unknown_tail_that_says_something_is_refused(stack: Open) -> None:
    opened = stack()
    raw = opened.ffi.new("uint64_t[8]", [64, 16, 0, 0, 0, 0, 0, 1])
    memory = opened.ffi.new("hal_memory *")
    desc = opened.ffi.cast("hal_memory_desc *", raw)
    assert opened.call("memory_alloc", 1, desc, memory) == Status.UNSUPPORTED
    assert opened.text("refused_rule") == "HAL-MEM-003"
    raw[7] = 0
    assert opened.call("memory_alloc", 1, desc, memory) == Status.OK


def test_a_size_that_is_garbage_is_refused_without_being_read(stack: Open) -> None:
    opened = stack()
    assert alloc(opened, size=2**63)[0] == Status.UNSUPPORTED
    assert opened.text("refused_rule") == "HAL-MEM-003"


def test_a_smaller_struct_is_served_with_the_fields_it_has(stack: Open) -> None:
    opened = stack()
    assert alloc(opened, size=16, alignment_bytes=48, flags=2) == (Status.OK, 77)


def test_an_argument_of_an_unknown_kind_is_refused(stack: Open) -> None:
    opened = stack()
    arguments = opened.ffi.new("hal_argument[2]", [{"kind": 1}, {"kind": 6}])
    desc = opened.new("launch_desc", argument_count=2, arguments=arguments)
    assert opened.call("launch_launch", 1, 1, desc) == Status.INVALID_VALUE
    assert opened.text("refused_rule") == "HAL-LCH-006"
    arguments[1].kind = 5
    assert opened.call("launch_launch", 1, 1, desc) == Status.OK


def test_an_out_struct_is_zeroed_up_to_its_callers_size(stack: Open) -> None:
    opened = stack()
    opened.lib.port_answer = Status.INVALID_HANDLE
    figures = opened.new("memory_figures", total_bytes=9, free_bytes=9)
    assert opened.call("memory_stats", 1, figures) == Status.INVALID_HANDLE
    assert opened.lib.port_saw_zeroed_out == 1
    minimum = opened.lib.HAL_MEMORY_FIGURES_MINIMUM
    figures = opened.new("memory_figures", size=minimum, total_bytes=9, free_bytes=9)
    opened.call("memory_stats", 1, figures)
    assert (figures.size, figures.total_bytes, figures.free_bytes) == (minimum, 0, 9)


def test_a_host_rule_left_out_lets_the_call_through(stack: Open) -> None:
    opened = stack("HAL-MEM-004")
    assert alloc(opened, bytes=0) == (Status.OK, 77)
    assert alloc(opened, flags=2) == (Status.INVALID_VALUE, 5)


def test_a_null_pointer_reaches_the_port_when_its_rule_is_left_out(stack: Open) -> None:
    opened = stack("HAL-MEM-001")
    assert opened.call("memory_alloc", 1, opened.ffi.NULL, opened.ffi.NULL) == Status.OK
    assert opened.lib.port_calls == 1


# ---- mutate ----


def test_a_skipped_check_succeeds_for_its_own_status_alone(stack: Open) -> None:
    opened = stack("HAL-MEM-007")
    opened.lib.port_answer = Status.INVALID_HANDLE
    assert alloc(opened) == (Status.OK, 5)
    opened.lib.port_answer = Status.OUT_OF_MEMORY
    assert alloc(opened) == (Status.OUT_OF_MEMORY, 5)


def test_a_wrong_status_is_another_error(stack: Open) -> None:
    opened = stack("HAL-MEM-008")
    opened.lib.port_answer = Status.OUT_OF_MEMORY
    assert alloc(opened) == (Status.INVALID_VALUE, 5)
    opened.lib.port_answer = Status.OK
    assert alloc(opened) == (Status.OK, 77)


def test_write_out_scribbles_when_the_call_fails(stack: Open) -> None:
    opened = stack("HAL-MEM-009")
    opened.lib.port_answer = Status.OUT_OF_MEMORY
    assert alloc(opened) == (Status.OUT_OF_MEMORY, 0xA5A5A5A5A5A5A5A5)
    opened.lib.port_answer = Status.OK
    assert alloc(opened) == (Status.OK, 77)


def test_do_nothing_succeeds_without_the_port(stack: Open) -> None:
    opened = stack("HAL-MEM-013")
    assert alloc(opened) == (Status.OK, 0)
    assert opened.lib.port_calls == 0


def test_do_nothing_clears_a_text_as_far_as_its_room(stack: Open) -> None:
    opened = stack("HAL-PRT-022")
    text, length = opened.ffi.new("char[4]", b"xyzw"), opened.ffi.new("uint64_t *", 9)
    assert opened.call("port_get_info", 1, 3, text, length) == Status.OK
    assert (opened.ffi.buffer(text)[:], length[0]) == (b"\0\0\0w", 0)


def test_a_mutant_of_one_function_leaves_others_alone(stack: Open) -> None:
    opened = stack("HAL-PRT-022")
    assert alloc(opened) == (Status.OK, 77)


def test_c_finds_each_rule_by_its_id(stack: Open) -> None:
    assert all(stack(rule.id).port for rule in RULES)


def test_c_does_not_find_an_unknown_rule(native: Any) -> None:
    ffi, lib = native
    assert lib.stack_open(b"HAL-MEM-999", 0) == ffi.NULL


# ---- trace ----


def test_a_trace_line_tells_arguments_status_and_results(stack: Open) -> None:
    opened = stack()
    alloc(opened, alignment_bytes=256)
    line = json.loads(opened.text("traced"))
    assert line.pop("ns") >= 0
    assert line == {
        "call": "memory.alloc",
        "in": {
            "device": "0x1",
            "desc": {"size": 32, "bytes": 64, "alignment_bytes": 256, "flags": 0, "reserved": 0},
        },
        "status": "OK",
        "out": {"out_memory": "0x4d"},
    }


def test_a_trace_line_of_a_failure_has_no_results(stack: Open) -> None:
    opened = stack()
    opened.lib.port_answer = Status.DEVICE_LOST
    alloc(opened)
    line = json.loads(opened.text("traced"))
    assert (line["status"], line["out"]) == ("DEVICE_LOST", {})


def test_a_trace_line_shows_only_the_fields_that_a_struct_has(stack: Open) -> None:
    opened = stack()
    alloc(opened, size=16)
    assert json.loads(opened.text("traced"))["in"]["desc"] == {"size": 16, "bytes": 64}


@pytest.mark.parametrize(
    "name", ['quote " and \\', "line\nend", "ends in π", "π" * 400, "x" * 9000]
)
def test_a_trace_line_with_any_text_is_json(stack: Open, name: str) -> None:
    opened = stack()
    table = opened.ffi.new("void **")
    text = opened.ffi.new("char[]", name.encode())
    status = opened.call("port_get_extension", text, 1, opened.ffi.cast("const void **", table))
    line = json.loads(opened.text("traced"))
    assert (status, line["status"]) == (Status.UNSUPPORTED, "UNSUPPORTED")
    assert name.startswith(line["in"]["name"])
    assert line.get("cut", False) == (line["in"]["name"] != name)


def test_null_pointers_are_null_in_a_trace_line(stack: Open) -> None:
    opened = stack()
    opened.call("memory_alloc", 1, opened.ffi.NULL, opened.ffi.NULL)
    line = json.loads(opened.text("traced"))
    assert (line["in"], line["status"]) == ({"device": "0x1", "desc": None}, "INVALID_VALUE")


def test_layers_are_called_from_many_threads_at_once(stack: Open) -> None:
    opened = stack()
    statuses: list[int] = []
    workers = [
        threading.Thread(target=lambda: statuses.extend(alloc(opened)[0] for _ in range(50)))
        for _ in range(4)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(timeout=30)
    assert statuses == [Status.OK] * 200
