"""Launch: grids, arguments, and what a launch refuses."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from hal.testing import Rig, Status, case, programs
from hal.testing.abi import Argument, status_name

Arguments = list[dict[str, Any]]
NEAR_END = [(2**64 - 4, 8), (4, 2**64 - 4), (2**63, 2**63)]
SCALARS = [
    (-1, -2, 1.5, -3),
    (2**31 - 1, 2**63 - 1, -0.0, 2**62),
    (-(2**31), -(2**63), 1e-45, -1),
    (0x12345678, 0x1122334455667788, 3.4028234663852886e38, 0x7766554433221100),
    (0x0F0F0F0F, -0x1122334455667788, float("inf"), 1 << 32),
]


def add_one(rig: Rig, count: int = 3) -> tuple[int, Arguments, int]:
    """Return the kernel add_one, arguments for `count` sevens, and the result's buffer."""
    x, y = rig.numbers([7] * count), rig.numbers([0] * count)
    arguments = [rig.symbol(count), rig.buffer(x, 4 * count), rig.buffer(y, 4 * count)]
    return rig.program(programs.add_one(), "add_one"), arguments, y


def low(value: int) -> int:
    """Return the low 32 bits as a signed number."""
    return int(struct.unpack("<i", struct.pack("<I", value & 0xFFFFFFFF))[0])


# ---- what the validate layer refuses ----


@case(rules=["HAL-LCH-001"], negative=True)
def test_launch_needs_a_descriptor(layer: Rig) -> None:
    kernel, _, _ = add_one(layer)
    stream, null = layer.stream(), layer.raw.NULL
    layer.refuse("launch.launch", stream, kernel, null, status=Status.INVALID_VALUE)


@case(rules=["HAL-LCH-002"], negative=True)
@pytest.mark.parametrize("size", [0, 8, 40, 47])
def test_launch_refuses_a_descriptor_that_is_too_small(layer: Rig, size: int) -> None:
    kernel, arguments, _ = add_one(layer)
    desc = layer.launch_desc(arguments)
    desc.size = size
    layer.refuse("launch.launch", layer.stream(), kernel, desc, status=Status.INVALID_VALUE)


@case(rules=["HAL-LCH-003"], negative=True)
def test_launch_refuses_a_longer_descriptor_with_an_unknown_field(layer: Rig) -> None:
    kernel, arguments, _ = add_one(layer)
    array = layer.raw.ffi.new("hal_argument[]", arguments)
    desc = layer.raw.longer(
        "launch_desc", tail=b"\1", grid=[1, 1, 1], argument_count=3, arguments=array
    )
    layer.refuse("launch.launch", layer.stream(), kernel, desc, status=Status.UNSUPPORTED)


@case(rules=["HAL-LCH-003"])
@pytest.mark.parametrize("caller", ["older", "newer"])
def test_launch_serves_descriptors_of_other_lengths(layer: Rig, caller: str) -> None:
    kernel, arguments, y = add_one(layer)
    stream, array = layer.stream(), layer.raw.ffi.new("hal_argument[]", arguments)
    tail = bytes(32) if caller == "newer" else b""
    desc = layer.raw.longer(
        "launch_desc", tail=tail, grid=[1, 1, 1], argument_count=3, arguments=array
    )
    if caller == "older":
        desc.size, desc.scratch_bytes = 48, 2**60
    layer.raw.ok("launch.launch", stream, kernel, desc)
    layer.wait(stream)
    assert layer.read(y, 3) == [8] * 3


@case(rules=["HAL-LCH-004"], negative=True)
def test_launch_needs_its_arguments(layer: Rig) -> None:
    kernel, _, _ = add_one(layer)
    desc = layer.raw.new("launch_desc", grid=[1, 1, 1], argument_count=3)
    layer.refuse("launch.launch", layer.stream(), kernel, desc, status=Status.INVALID_VALUE)


@case(rules=["HAL-LCH-005"], negative=True)
@pytest.mark.parametrize("flags", [1, 0x80000000])
def test_launch_refuses_unknown_flags(layer: Rig, flags: int) -> None:
    kernel, arguments, _ = add_one(layer)
    desc = layer.launch_desc(arguments)
    desc.flags = flags
    layer.refuse("launch.launch", layer.stream(), kernel, desc, status=Status.INVALID_VALUE)


@case(rules=["HAL-LCH-006"], negative=True)
@pytest.mark.parametrize("kind", [0, 6, 0xFFFFFFFF])
@pytest.mark.parametrize("place", [0, 2])
def test_launch_refuses_an_unknown_kind_of_argument(layer: Rig, place: int, kind: int) -> None:
    kernel, arguments, _ = add_one(layer)
    arguments[place]["kind"] = kind
    desc = layer.launch_desc(arguments)
    layer.refuse("launch.launch", layer.stream(), kernel, desc, status=Status.INVALID_VALUE)


# ---- what the port itself refuses ----


@case(rules=["HAL-LCH-010"], negative=True)
@pytest.mark.parametrize("handle", ["zero", "invented", "destroyed", "a device's"])
def test_launch_refuses_a_stream_that_is_none(rig: Rig, handle: str) -> None:
    kernel, arguments, y = add_one(rig)
    stream = rig.device if handle == "a device's" else rig.no_stream(handle)
    desc = rig.launch_desc(arguments)
    rig.refuse("launch.launch", stream, kernel, desc, status=Status.INVALID_HANDLE)
    assert rig.read(y, 3) == [0] * 3


@case(rules=["HAL-LCH-010"], negative=True)
@pytest.mark.parametrize("handle", ["zero", "invented", "unloaded", "a stream's"])
def test_launch_refuses_a_kernel_that_is_none(rig: Rig, handle: str) -> None:
    _, arguments, y = add_one(rig)
    kernel, desc = rig.no_kernel(handle), rig.launch_desc(arguments)
    rig.refuse("launch.launch", rig.stream(), kernel, desc, status=Status.INVALID_HANDLE)
    assert rig.read(y, 3) == [0] * 3


@case(rules=["HAL-LCH-010"], negative=True)
@pytest.mark.parametrize("handle", ["zero", "invented", "freed", "a stream's"])
@pytest.mark.parametrize("place", [1, 2])
def test_launch_refuses_a_buffer_that_is_none(rig: Rig, place: int, handle: str) -> None:
    kernel, arguments, y = add_one(rig)
    arguments[place] = rig.buffer(rig.no_memory(handle), 12)
    desc = rig.launch_desc(arguments)
    rig.refuse("launch.launch", rig.stream(), kernel, desc, status=Status.INVALID_HANDLE)
    assert rig.read(y, 3) == [0] * 3


@case(rules=["HAL-LCH-010", "HAL-XFR-018"], negative=True)
@pytest.mark.parametrize("what", ["kernel", "buffer"])
def test_launch_refuses_what_belongs_to_another_device(rig: Rig, what: str) -> None:
    other = rig.second()
    kernel, arguments, _ = add_one(rig)
    if what == "kernel":
        kernel = other.program(programs.add_one(), "add_one")
    else:
        arguments[1] = other.buffer(other.memory(12), 12)
    desc = rig.launch_desc(arguments)
    rig.refuse("launch.launch", rig.stream(), kernel, desc, status=Status.INVALID_HANDLE)
    rig.raw.ok("device.close", other.device, 10**10)


@case(rules=["HAL-LCH-011"], negative=True)
@pytest.mark.parametrize("count", ["none", "one less", "one more"])
def test_launch_refuses_a_wrong_number_of_arguments(rig: Rig, count: str) -> None:
    kernel, arguments, y = add_one(rig)
    given = {"none": [], "one less": arguments[:-1], "one more": [*arguments, rig.symbol(0)]}
    desc = rig.launch_desc(given[count])
    rig.refuse("launch.launch", rig.stream(), kernel, desc, status=Status.INVALID_VALUE)
    assert rig.read(y, 3) == [0] * 3


@case(rules=["HAL-LCH-011"], negative=True)
@pytest.mark.parametrize("kind", ["I32", "F32", "F64", "BUFFER"])
def test_launch_refuses_a_symbol_of_another_kind(rig: Rig, kind: str) -> None:
    kernel, arguments, y = add_one(rig)
    arguments[0]["kind"] = int(Argument[kind])
    desc = rig.launch_desc(arguments)
    rig.refuse("launch.launch", rig.stream(), kernel, desc, status=Status.INVALID_VALUE)
    assert rig.read(y, 3) == [0] * 3


@case(rules=["HAL-LCH-011"], negative=True)
@pytest.mark.parametrize("kind", ["I32", "I64", "F32", "F64"])
@pytest.mark.parametrize("place", [1, 2])
def test_launch_refuses_a_number_for_a_buffer(rig: Rig, place: int, kind: str) -> None:
    kernel, arguments, _ = add_one(rig)
    arguments[place]["kind"] = int(Argument[kind])
    desc = rig.launch_desc(arguments)
    rig.refuse("launch.launch", rig.stream(), kernel, desc, status=Status.INVALID_VALUE)


@case(rules=["HAL-LCH-011"], negative=True)
@pytest.mark.parametrize(("place", "kind"), [(0, "I64"), (1, "I32"), (2, "F64"), (2, "I32")])
def test_launch_refuses_a_scalar_of_another_kind(rig: Rig, place: int, kind: str) -> None:
    kernel, y, f = number_kernel(rig)
    arguments = number_arguments(rig, (1, 2, 3.0, 4), y, f)
    arguments[place]["kind"] = int(Argument[kind])
    desc = rig.launch_desc(arguments)
    rig.refuse("launch.launch", rig.stream(), kernel, desc, status=Status.INVALID_VALUE)
    assert rig.read(y, 6) == [0] * 6


@case(rules=["HAL-LCH-012"], negative=True)
@pytest.mark.parametrize(("offset", "bytes_"), [(0, 16), (4, 12), (12, 4), *NEAR_END])
@pytest.mark.parametrize("place", [1, 2])
def test_launch_refuses_a_range_beyond_its_buffer(
    rig: Rig, place: int, offset: int, bytes_: int
) -> None:
    kernel, arguments, y = add_one(rig)
    arguments[0] = rig.symbol(1)
    arguments[place]["buffer"] |= {"offset_bytes": offset, "bytes": bytes_}
    desc = rig.launch_desc(arguments)
    rig.refuse("launch.launch", rig.stream(), kernel, desc, status=Status.OUT_OF_RANGE)
    assert rig.read(y, 3) == [0] * 3


@case(rules=["HAL-LCH-012"], negative=True)
@pytest.mark.parametrize("bytes_", [0, 1, 8, 11])
@pytest.mark.parametrize("place", [1, 2])
def test_launch_refuses_a_range_that_is_too_small(rig: Rig, place: int, bytes_: int) -> None:
    kernel, arguments, y = add_one(rig)
    arguments[place]["buffer"]["bytes"] = bytes_
    desc = rig.launch_desc(arguments)
    rig.refuse("launch.launch", rig.stream(), kernel, desc, status=Status.OUT_OF_RANGE)
    assert rig.read(y, 3) == [0] * 3


@case(rules=["HAL-LCH-011"], negative=True)
@pytest.mark.parametrize("count", [-1, -(2**63), 2**62])
def test_launch_refuses_a_symbol_that_breaks_an_expression(rig: Rig, count: int) -> None:
    kernel, arguments, y = add_one(rig)
    arguments[0] = rig.symbol(count)
    desc = rig.launch_desc(arguments)
    rig.refuse("launch.launch", rig.stream(), kernel, desc, status=Status.INVALID_VALUE)
    assert rig.read(y, 3) == [0] * 3


@case(rules=["HAL-LCH-017"], negative=True)
@pytest.mark.parametrize("bytes_", ["2^40", "2^64 - 1"])
def test_launch_refuses_more_scratch_than_the_chip_has(rig: Rig, bytes_: str) -> None:
    kernel, arguments, y = add_one(rig)
    desc = rig.launch_desc(arguments)
    desc.scratch_bytes = {"2^40": 2**40, "2^64 - 1": 2**64 - 1}[bytes_]
    rig.refuse("launch.launch", rig.stream(), kernel, desc, status=Status.OUT_OF_RANGE)
    assert rig.read(y, 3) == [0] * 3


@case(rules=["HAL-LCH-018"], negative=True)
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("length", ["limit + 1", "2^32 - 1"])
def test_launch_refuses_a_grid_beyond_the_limits(
    rig: Rig, axis: int, length: str, hcd: Any
) -> None:
    limit = hcd.items("execution.limits.grid_max")[axis]
    if limit >= 2**32 - 1:
        return
    kernel, y = rig.program(programs.mark_points(), "mark_points"), rig.numbers([5] * 8)
    grid = [1, 1, 1]
    grid[axis] = limit + 1 if length == "limit + 1" else 2**32 - 1
    arguments = [*(rig.symbol(n) for n in (2, 2, 2)), rig.buffer(y, 32)]
    desc = rig.launch_desc(arguments, tuple(grid))
    rig.refuse("launch.launch", rig.stream(), kernel, desc, status=Status.OUT_OF_RANGE)
    assert rig.read(y, 8) == [5] * 8


@case(rules=["HAL-LCH-010", "HAL-ABI-013"], negative=True)
def test_a_refused_launch_is_not_counted_and_fails_no_stream(rig: Rig) -> None:
    kernel, arguments, y = add_one(rig)
    stream = rig.stream()
    wrong = rig.launch_desc(arguments[:-1])
    rig.refuse("launch.launch", stream, kernel, wrong, status=Status.INVALID_VALUE)
    rig.launch(stream, kernel, *arguments)
    rig.fault(stream)
    rig.raw.call("stream.synchronize", stream, 10**10)
    assert rig.raw.error()[1] == 2
    assert rig.read(y, 3) == [8] * 3


# ---- what runs ----


@case(rules=["HAL-LCH-013"])
@pytest.mark.parametrize("count", [1, 63, 64, 65, 1000, 4099])
def test_each_element_is_computed_and_no_other(rig: Rig, count: int) -> None:
    kernel = rig.program(programs.add_one(), "add_one")
    x, y = rig.numbers(range(count)), rig.numbers([-5] * (count + 64))
    stream = rig.stream()
    rig.launch(
        stream, kernel, rig.symbol(count), rig.buffer(x, 4 * count), rig.buffer(y, 4 * count)
    )
    rig.wait(stream)
    assert rig.read(y, count + 64) == [*range(1, count + 1), *[-5] * 64]


@case(rules=["HAL-LCH-013", "HAL-LCH-014"])
@pytest.mark.parametrize("grid", [(1, 1, 1), (7, 1, 1), (1, 5, 1), (1, 1, 6), (3, 4, 5)])
def test_each_program_of_the_grid_runs_once(rig: Rig, grid: tuple[int, int, int]) -> None:
    kernel = rig.program(programs.count_points(), "count_points")
    count = grid[0] * grid[1] * grid[2]
    y, stream = rig.numbers([100] * count), rig.stream()
    lengths = [rig.symbol(length) for length in grid]
    rig.launch(stream, kernel, *lengths, rig.buffer(y, 4 * count), grid=grid)
    rig.wait(stream)
    assert rig.read(y, count) == [101] * count


@case(rules=["HAL-LCH-014"])
@pytest.mark.parametrize("grid", [(2, 3, 4), (4, 3, 2), (1, 1, 9), (1, 9, 1), (9, 1, 1)])
def test_each_program_knows_its_place(rig: Rig, grid: tuple[int, int, int]) -> None:
    kernel = rig.program(programs.mark_points(), "mark_points")
    count = grid[0] * grid[1] * grid[2]
    y, stream = rig.numbers([-1] * count), rig.stream()
    lengths = [rig.symbol(length) for length in grid]
    rig.launch(stream, kernel, *lengths, rig.buffer(y, 4 * count), grid=grid)
    rig.wait(stream)
    places = [(x, y_, z) for z in range(grid[2]) for y_ in range(grid[1]) for x in range(grid[0])]
    assert rig.read(y, count) == [x + 1000 * y_ + 1000000 * z for x, y_, z in places]


@case(rules=["HAL-LCH-014"])
@pytest.mark.parametrize("grid", [(0, 1, 1), (1, 0, 1), (1, 1, 0), (0, 0, 0)])
def test_a_grid_with_a_zero_runs_nothing(rig: Rig, grid: tuple[int, int, int]) -> None:
    kernel = rig.program(programs.mark_points(), "mark_points")
    y, stream = rig.numbers([5] * 8), rig.stream()
    rig.launch(stream, kernel, *(rig.symbol(2) for _ in range(3)), rig.buffer(y, 32), grid=grid)
    rig.wait(stream)
    assert rig.read(y, 8) == [5] * 8


@case(rules=["HAL-LCH-013"])
def test_launches_of_a_stream_see_what_earlier_ones_wrote(rig: Rig) -> None:
    kernel = rig.program(programs.add_one(), "add_one")
    stream, first, second = rig.stream(), rig.numbers([0] * 100), rig.numbers([0] * 100)
    for turn in range(20):
        pair = (first, second) if turn % 2 == 0 else (second, first)
        rig.launch(stream, kernel, rig.symbol(100), *(rig.buffer(one, 400) for one in pair))
    rig.wait(stream)
    assert rig.read(first, 100) == [20] * 100


@case(rules=["HAL-LCH-013", "HAL-LCH-012"])
def test_a_kernel_works_on_a_range_inside_its_buffer(rig: Rig) -> None:
    kernel = rig.program(programs.add_one(), "add_one")
    memory, stream = rig.numbers(range(300)), rig.stream()
    source, target = rig.buffer(memory, 400), rig.buffer(memory, 400, offset=512)
    rig.launch(stream, kernel, rig.symbol(100), source, target)
    rig.wait(stream)
    assert rig.read(memory, 300) == [*range(128), *range(1, 101), *range(228, 300)]


@case(rules=["HAL-LCH-015"])
@pytest.mark.parametrize("what", ["arguments", "descriptor"])
def test_arguments_may_change_right_after_the_call(rig: Rig, what: str) -> None:
    kernel, arguments, y = add_one(rig)
    ffi, stream = rig.raw.ffi, rig.stream()
    array = ffi.new("hal_argument[]", arguments)
    desc = rig.raw.new("launch_desc", grid=[1, 1, 1], argument_count=3, arguments=array)
    with rig.held(stream):
        rig.raw.ok("launch.launch", stream, kernel, desc)
        if what == "arguments":
            ffi.memmove(array, b"\xff" * ffi.sizeof(array), ffi.sizeof(array))
        else:
            size = ffi.sizeof("hal_launch_desc")
            ffi.memmove(desc, b"\xff" * size, size)
    rig.wait(stream)
    assert rig.read(y, 3) == [8] * 3


@case(rules=["HAL-LCH-015"])
def test_each_launch_has_its_own_arguments(rig: Rig) -> None:
    kernel = rig.program(programs.slow(), "slow")
    stream, memories = rig.stream(), [rig.numbers([1]) for _ in range(6)]
    array = rig.raw.ffi.new("hal_argument[2]")
    desc = rig.raw.new("launch_desc", grid=[1, 1, 1], argument_count=2, arguments=array)
    with rig.held(stream):
        for turn, memory in enumerate(memories):
            array[0], array[1] = rig.symbol(turn), rig.buffer(memory, 4)
            rig.raw.ok("launch.launch", stream, kernel, desc)
    rig.wait(stream)
    got = [rig.read(memory, 1, dtype="<u4")[0] for memory in memories]
    assert got == [programs.after_loop(1, turn) for turn in range(6)]


# ---- arguments arrive whole ----


def number_kernel(rig: Rig) -> tuple[int, int, int]:
    """Return the kernel keep_numbers and its two output buffers."""
    kernel = rig.program(programs.keep_numbers(), "keep_numbers")
    return kernel, rig.numbers([0] * 6), rig.numbers([0.0], dtype="<f4")


def number_arguments(rig: Rig, numbers: tuple[int, int, float, int], y: int, f: int) -> Arguments:
    """Return arguments of keep_numbers."""
    i32, i64, f32, symbol = numbers
    return [
        rig.scalar(Argument.I32, i32),
        rig.scalar(Argument.I64, i64),
        rig.scalar(Argument.F32, f32),
        rig.symbol(symbol),
        rig.buffer(y, 24),
        rig.buffer(f, 4),
    ]


@case(rules=["HAL-LCH-016"])
@pytest.mark.parametrize("numbers", SCALARS, ids=["small", "max", "min", "mixed", "halves"])
def test_each_scalar_arrives_with_all_its_bits(
    rig: Rig, numbers: tuple[int, int, float, int]
) -> None:
    kernel, y, f = number_kernel(rig)
    stream = rig.stream()
    rig.launch(stream, kernel, *number_arguments(rig, numbers, y, f))
    rig.wait(stream)
    i32, i64, f32, symbol = numbers
    halves = [i32, low(i64), low(i64 >> 32), low(symbol), low(symbol >> 32), low(i32 >> 32)]
    assert rig.read(y, 6) == halves
    assert rig.download(f, 4) == struct.pack("<f", f32)


@case(rules=["HAL-LCH-016"], needs=["dtypes.f64.compute"])
@pytest.mark.parametrize("value", [0.1, -0.0, 5e-324, 1.7976931348623157e308])
def test_a_double_arrives_with_all_its_bits(rig: Rig, value: float) -> None:
    kernel = rig.program(programs.keep_doubles(), "keep_doubles")
    y, stream = rig.memory(16), rig.stream()
    first, second = rig.scalar(Argument.F64, value), rig.scalar(Argument.F64, -value)
    rig.launch(stream, kernel, first, rig.scalar(Argument.I32, 3), second, rig.buffer(y, 16))
    rig.wait(stream)
    assert rig.download(y, 16) == struct.pack("<2d", value, -value)


@case(rules=["HAL-LCH-016"])
@pytest.mark.parametrize("count", ["2", "17", "32", "33", "limit - 1", "limit"])
def test_each_argument_arrives_up_to_the_limit(rig: Rig, count: str, hcd: Any) -> None:
    limit = hcd.number("execution.limits.argument_count_max", 8)
    named = {"limit - 1": limit - 1, "limit": limit}
    total = min(limit, named[count] if count in named else int(count))
    kernel, y, stream = rig.program(programs.many(total), "many"), rig.numbers([0]), rig.stream()
    values = [(k * 2654435761 + 17) % 1000003 for k in range(total - 1)]
    rig.launch(stream, kernel, *(rig.symbol(value) for value in values), rig.buffer(y, 4))
    rig.wait(stream)
    assert rig.read(y, 1) == [low(sum((k + 1) * value for k, value in enumerate(values)))]


# ---- blocks and other optional answers ----


@case(rules=["HAL-LCH-030"], negative=True)
@pytest.mark.parametrize("absent", ["desc", "out"])
def test_suggest_needs_descriptor_and_output(layer: Rig, absent: str) -> None:
    kernel, arguments, _ = add_one(layer)
    desc = layer.raw.NULL if absent == "desc" else layer.launch_desc(arguments)
    out = layer.raw.NULL if absent == "out" else layer.raw.out("uint32_t", count=3)
    layer.refuse("launch.suggest", kernel, desc, out, status=Status.INVALID_VALUE)


@case(rules=["HAL-LCH-031", "HAL-ABI-007"], negative=True)
def test_suggest_refuses_a_kernel_that_is_none(rig: Rig) -> None:
    desc, out = rig.launch_desc([]), rig.raw.out("uint32_t", count=3)
    answer = status_name(rig.raw.call("launch.suggest", rig.no_kernel("zero"), desc, out))
    assert answer in ("INVALID_HANDLE", "UNSUPPORTED")
    assert rig.raw.untouched(out)
