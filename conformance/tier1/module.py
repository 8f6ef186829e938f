"""Module: images that load, images that must not, kernels by name."""

from __future__ import annotations

import random
import struct
from typing import Any

import pytest

from hal.testing import Rig, Status, case, programs
from hal.testing.abi import PortInfo, status_name
from hal.testing.images import as_loaded, preferred_format
from hal.testing.rig import LONG_NS

NO_MODULE = ["zero", "invented", "unloaded", "a stream's"]
CUTS = [0.0, 0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99]


def refuse_image(rig: Rig, image: bytes) -> None:
    """Check that an image is INVALID_MODULE; its bytes lie right before a page that is fenced."""
    from hal.testing.guard import GuardedBuffer

    raw, out = rig.raw, rig.raw.out("hal_module")
    format_, image = as_loaded(image, programs.two_kernels())
    with GuardedBuffer(len(image)) as place:
        place.array()[:] = list(image)
        pointer = raw.ffi.cast("void *", place.address)
        desc = raw.new(
            "module_desc", format=format_.encode(), image=pointer, image_bytes=len(image)
        )
        rig.refuse("module.load", rig.device, desc, out, status=Status.INVALID_MODULE)


def runs_add_one(rig: Rig, module: int) -> bool:
    """Tell whether `add_one` of a module works."""
    stream, x, y = rig.stream(), rig.numbers([41] * 70), rig.numbers([0] * 70)
    arguments = rig.symbol(70), rig.buffer(x, 280), rig.buffer(y, 280)
    rig.launch(stream, rig.kernel(module, "add_one"), *arguments)
    rig.wait(stream)
    return rig.read(y, 70) == [42] * 70


# ---- load: what the validate layer refuses ----


@case(rules=["HAL-MOD-001"], negative=True)
@pytest.mark.parametrize("absent", ["desc", "out"])
def test_load_needs_descriptor_and_output(layer: Rig, absent: str) -> None:
    raw = layer.raw
    desc = raw.NULL if absent == "desc" else layer.module_desc(programs.add_one())
    out = raw.NULL if absent == "out" else raw.out("hal_module")
    layer.refuse("module.load", layer.device, desc, out, status=Status.INVALID_VALUE)


@case(rules=["HAL-MOD-002"], negative=True)
@pytest.mark.parametrize("size", [0, 8, 24, 31])
def test_load_refuses_a_descriptor_that_is_too_small(layer: Rig, size: int) -> None:
    desc, out = layer.module_desc(programs.add_one()), layer.raw.out("hal_module")
    desc.size = size
    layer.refuse("module.load", layer.device, desc, out, status=Status.INVALID_VALUE)


@case(rules=["HAL-MOD-003"], negative=True)
def test_load_refuses_a_longer_descriptor_with_an_unknown_field(layer: Rig) -> None:
    format_, image = as_loaded(programs.add_one())
    desc = layer.raw.longer(
        "module_desc", tail=bytes(15) + b"\x80", format=format_.encode(), image=image,
        image_bytes=len(image),
    )  # fmt: skip
    out = layer.raw.out("hal_module")
    layer.refuse("module.load", layer.device, desc, out, status=Status.UNSUPPORTED)


@case(rules=["HAL-MOD-003"])
@pytest.mark.parametrize("caller", ["older", "newer"])
def test_load_serves_descriptors_of_other_lengths(layer: Rig, caller: str) -> None:
    format_, image = as_loaded(programs.add_one())
    tail = bytes(16) if caller == "newer" else b""
    desc = layer.raw.longer(
        "module_desc", tail=tail, format=format_.encode(), image=image, image_bytes=len(image)
    )
    if caller == "older":
        desc.size, desc.flags = 32, 0xFFFFFFFF
    out = layer.raw.out("hal_module")
    layer.raw.ok("module.load", layer.device, desc, out)
    assert runs_add_one(layer, int(out[0]))


@case(rules=["HAL-MOD-004"], negative=True)
@pytest.mark.parametrize("absent", ["format", "image", "length"])
def test_load_needs_format_and_image(layer: Rig, absent: str) -> None:
    desc, out = layer.module_desc(programs.add_one()), layer.raw.out("hal_module")
    if absent == "length":
        desc.image_bytes = 0
    else:
        setattr(desc, absent, layer.raw.NULL)
    layer.refuse("module.load", layer.device, desc, out, status=Status.INVALID_VALUE)


@case(rules=["HAL-MOD-005"], negative=True)
@pytest.mark.parametrize("flags", [1, 0x80000000])
def test_load_refuses_unknown_flags(layer: Rig, flags: int) -> None:
    desc, out = layer.module_desc(programs.add_one()), layer.raw.out("hal_module")
    desc.flags = flags
    layer.refuse("module.load", layer.device, desc, out, status=Status.INVALID_VALUE)


# ---- load: what the port itself refuses ----


@case(rules=["HAL-MOD-006", "HAL-MOD-008"], negative=True)
@pytest.mark.parametrize("format_", ["", "vil", "vil.v2", "vil.v1 ", "VIL.V1", "none.v1"])
def test_load_refuses_a_format_that_the_chip_does_not_list(rig: Rig, format_: str) -> None:
    desc = rig.module_desc(programs.add_one(), format=format_)
    out = rig.raw.out("hal_module")
    rig.refuse("module.load", rig.device, desc, out, status=Status.UNSUPPORTED)


@case(rules=["HAL-MOD-007", "HAL-MOD-008"], negative=True)
@pytest.mark.parametrize("part", CUTS)
def test_load_refuses_an_image_that_is_cut_short(rig: Rig, part: float) -> None:
    image = programs.two_kernels()
    refuse_image(rig, image[: max(1, int(len(image) * part))])


@case(rules=["HAL-MOD-007", "HAL-MOD-008"], negative=True)
@pytest.mark.parametrize(
    ("offset", "packing", "value"),
    [
        (0, "<4s", b"HVIX"),
        (0, "<4s", b"\x7fELF"),
        (4, "<H", 2),
        (4, "<H", 0),
        (8, "<I", 0),
        (8, "<I", 0xFFFFFFFF),
        (12, "<I", 40),
        (16, "<I", 0xFFFFFFF8),
        (20, "<I", 0xFFFFFFF8),
        (24, "<Q", 1 << 63),
        (32, "<I", 0xFFFFFFF8),
        (36, "<I", 0xFFFFFFFF),
        (40, "<Q", 1),
    ],
)
def test_load_refuses_a_wrong_header(rig: Rig, offset: int, packing: str, value: Any) -> None:
    image = bytearray(programs.two_kernels())
    struct.pack_into(packing, image, offset, value)
    refuse_image(rig, bytes(image))


@case(rules=["HAL-MOD-007"], negative=True)
@pytest.mark.parametrize("content", ["zeros", "ones", "text", "noise"])
def test_load_refuses_what_is_no_image(rig: Rig, content: str) -> None:
    noise = random.Random(7).randbytes(777)
    refuse_image(rig, {"zeros": bytes(512), "ones": b"\xff" * 512, "noise": noise,
                       "text": b"vil 1.0\nkernel k {\n}\n"}[content])  # fmt: skip


@case(rules=["HAL-MOD-007"], negative=True)
@pytest.mark.parametrize("seed", range(4))
def test_a_flipped_bit_is_refused_or_harmless(rig: Rig, seed: int) -> None:
    """No damage crashes the port or makes it write its output before it refuses."""
    image = programs.two_kernels()
    source = random.Random(seed)
    answers = set()
    for _ in range(60):
        damaged = bytearray(image)
        for _ in range(source.choice((1, 1, 2, 8))):
            damaged[source.randrange(len(image))] ^= 1 << source.randrange(8)
        out = rig.raw.out("hal_module")
        desc = rig.module_desc(bytes(damaged), like=image)
        status = status_name(rig.raw.call("module.load", rig.device, desc, out))
        answers.add(status)
        if status == "OK":
            rig.raw.ok("module.unload", int(out[0]))
        else:
            assert rig.raw.untouched(out)
    assert answers <= {"OK", "INVALID_MODULE", "UNSUPPORTED"}
    assert "INVALID_MODULE" in answers
    assert runs_add_one(rig, rig.module(image))


@case(rules=["HAL-MOD-009"], negative=True)
@pytest.mark.parametrize("handle", ["zero", "invented", "closed", "a stream's"])
def test_load_refuses_a_device_that_is_none(rig: Rig, handle: str) -> None:
    device = rig.no_device(handle)
    desc, out = rig.module_desc(programs.add_one()), rig.raw.out("hal_module")
    rig.refuse("module.load", device, desc, out, status=Status.INVALID_HANDLE)


@case(rules=["HAL-MOD-010"])
def test_a_module_gives_its_kernels(rig: Rig) -> None:
    module = rig.module(programs.two_kernels())
    kernels = {rig.kernel(module, name) for name in ("add_one", "negate")}
    assert module != 0
    assert len(kernels - {0}) == 2
    assert runs_add_one(rig, module)


@case(rules=["HAL-MOD-010"])
def test_the_image_is_read_during_the_call(rig: Rig) -> None:
    format_, made = as_loaded(programs.add_one())
    image = bytearray(made)
    pointer = rig.raw.pointer(image)
    desc = rig.raw.new(
        "module_desc", format=format_.encode(), image=pointer, image_bytes=len(image)
    )
    out = rig.raw.out("hal_module")
    rig.raw.ok("module.load", rig.device, desc, out)
    image[:] = b"\xff" * len(image)
    assert runs_add_one(rig, int(out[0]))


@case(rules=["HAL-MOD-010", "HAL-MOD-034"])
def test_one_image_loads_twice(rig: Rig) -> None:
    first, second = rig.module(programs.add_one()), rig.module(programs.add_one())
    assert first != second
    rig.raw.ok("module.unload", first)
    assert runs_add_one(rig, second)


@case(rules=["HAL-MOD-011", "HAL-ABI-006"])
def test_kernels_run_where_the_hcd_says(rig: Rig, hcd: Any) -> None:
    formats = hcd.below("kernels.formats")
    names = {path.rpartition(".")[0] for path in formats}
    said = {formats.get(f"{name}.runs_on", "device") for name in names
            if formats.get(f"{name}.format") == preferred_format()}  # fmt: skip
    told = rig.raw.info(PortInfo.RUNS_ON)
    places = " and ".join(sorted(said))
    assert said == {told}, f"kernels.formats of the HCD says runs_on {places}, the port {told}"
    if rig.raw.has("module.kernel_info"):
        kernel, out = rig.program(programs.add_one(), "add_one"), rig.raw.out("int64_t")
        rig.raw.ok("module.kernel_info", kernel, 3, out)
        assert int(out[0]) == (said == {"host"})


# ---- unload ----


@case(rules=["HAL-MOD-020"], negative=True)
@pytest.mark.parametrize("handle", NO_MODULE)
def test_unload_refuses_a_module_that_is_none(rig: Rig, handle: str) -> None:
    rig.refuse("module.unload", rig.no_module(handle), status=Status.INVALID_HANDLE)


@case(rules=["HAL-MOD-021"])
@pytest.mark.parametrize("launches", [1, 5])
def test_a_launch_enqueued_before_unload_still_runs(rig: Rig, launches: int) -> None:
    module = rig.module(programs.slow())
    kernel, stream, memory = rig.kernel(module, "slow"), rig.stream(), rig.numbers([2])
    with rig.held(stream):
        for _ in range(launches):
            rig.launch(stream, kernel, rig.symbol(50), rig.buffer(memory, 4))
        rig.raw.ok("module.unload", module)
        for _ in range(4):
            rig.raw.ok("module.unload", rig.module(programs.two_kernels()))
    rig.wait(stream)
    assert rig.read(memory, 1, dtype="<u4") == [programs.after_loop(2, 50 * launches)]


@case(rules=["HAL-MOD-021"])
def test_a_module_can_be_unloaded_while_its_kernel_runs(rig: Rig) -> None:
    module = rig.module(programs.slow())
    kernel, stream, memory = rig.kernel(module, "slow"), rig.stream(), rig.numbers([2])
    rig.launch(stream, kernel, rig.symbol(30_000), rig.buffer(memory, 4))
    rig.raw.ok("module.unload", module)
    rig.wait(stream)
    assert rig.read(memory, 1, dtype="<u4") == [programs.after_loop(2, 30_000)]


@case(rules=["HAL-MOD-022"], negative=True)
@pytest.mark.parametrize("what", ["module", "kernel"])
def test_after_unload_module_and_kernels_are_refused(rig: Rig, what: str) -> None:
    if what == "module":
        out = rig.raw.out("hal_kernel")
        module = rig.no_module("unloaded")
        bad = Status.INVALID_HANDLE
        rig.refuse("module.get_kernel", module, b"add_one", out, status=bad)
    else:
        kernel, x, y = rig.no_kernel("unloaded"), rig.numbers([1]), rig.numbers([2])
        desc = rig.launch_desc([rig.symbol(1), rig.buffer(x, 4), rig.buffer(y, 4)])
        rig.refuse("launch.launch", rig.stream(), kernel, desc, status=Status.INVALID_HANDLE)
        assert rig.read(y, 1) == [2]


# ---- get_kernel ----


@case(rules=["HAL-MOD-030"], negative=True)
@pytest.mark.parametrize("absent", ["name", "out"])
def test_get_kernel_needs_name_and_output(layer: Rig, absent: str) -> None:
    module = layer.module(programs.add_one())
    name = layer.raw.NULL if absent == "name" else b"add_one"
    out = layer.raw.NULL if absent == "out" else layer.raw.out("hal_kernel")
    layer.refuse("module.get_kernel", module, name, out, status=Status.INVALID_VALUE)


@case(rules=["HAL-MOD-031", "HAL-MOD-033"], negative=True)
@pytest.mark.parametrize("name", ["", "none", "add_on", "add_one_", "ADD_ONE", "n", "y" * 3000])
def test_get_kernel_does_not_find_an_unknown_name(rig: Rig, name: str) -> None:
    module, out = rig.module(programs.add_one()), rig.raw.out("hal_kernel")
    rig.refuse("module.get_kernel", module, name.encode(), out, status=Status.NOT_FOUND)


@case(rules=["HAL-MOD-032"], negative=True)
@pytest.mark.parametrize("handle", NO_MODULE)
def test_get_kernel_refuses_a_module_that_is_none(rig: Rig, handle: str) -> None:
    module, out = rig.no_module(handle), rig.raw.out("hal_kernel")
    rig.refuse("module.get_kernel", module, b"add_one", out, status=Status.INVALID_HANDLE)


@case(rules=["HAL-MOD-034"])
@pytest.mark.parametrize(("name", "wanted"), [("add_one", 8), ("negate", -7)])
def test_a_kernel_is_the_one_of_its_name(rig: Rig, name: str, wanted: int) -> None:
    kernel = rig.program(programs.two_kernels(), name)
    stream, x, y = rig.stream(), rig.numbers([7] * 3), rig.numbers([0] * 3)
    rig.launch(stream, kernel, rig.symbol(3), rig.buffer(x, 12), rig.buffer(y, 12))
    rig.raw.ok("stream.synchronize", stream, LONG_NS)
    assert rig.read(y, 3) == [wanted] * 3
