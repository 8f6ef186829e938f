"""Every mistake is told at its place, with what is allowed and a suggestion, all at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hal.errors import HcdError
from hal.hcd import load

Problems = Callable[[str], list[str]]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("identity: {archh: x}\n", "3:12: identity.archh: there is no such key"),
        ("identity: {archh: x}\n", "(did you mean arch?)"),
        ("features: {async_copi: true}\n", "(did you mean async_copy?)"),
        ("features: {graph: on}\n", "the text 'on'; true or false is needed (did you mean true?)"),
        ("memory: {dram: {kind: globl}}\n", "(did you mean global?)"),
        ("memory: {dram: {capacity_bytes: 80 GiB}}\n", "(did you mean 85899345920?)"),
        ("memory: {dram: {capacity_bytes: 1.5}}\n", "a whole number in bytes is needed"),
        ("memory: {dram: {capacity_bytes: true}}\n", "is the boolean true"),
        ("memory: {dram: {bandwidth_bytes_per_s: 0}}\n", "nothing moves at zero bytes a second"),
        ("memory: {dram: {latency_ns: -1}}\n", "a time is never negative"),
        ("memory: {dram: {latency_ns: -1}}\n", "3:29: memory.dram.latency_ns: is -1"),
        ("memory: {dram: {alignment_bytes: 96}}\n", "which is no power of two"),
        ("memory: {dram: {line_bytes: 64}}\n", "only for kind cache; here kind is global"),
        ("memory: {dram: {scope: cor}}\n", "is no entry of units"),
        ("units: {core: {count: 1000000000}}\n", "no chip holds more than 10^8"),
        ("units: {core: {count: 9999999}, mac: {count: 64}}\n", "at most 100,000,000 are believ"),
        ("units: {core: {parent: mac}}\n", "is a circle"),
        ("units: {core: {kind: chip}}\n", "has 2 units of kind chip"),
        ("units: {extra: {kind: core, count: 1, clock: main}}\n", "the key parent is missing"),
        ("clocks: {main: {boost_hz: 2000000}}\n", "below sustained_hz 1,000,000,000"),
        ("paths: {spm_dram: {engine: dma9}}\n", "is no entry of units"),
        ("paths: {new: {from: spm, to: spn}}\n", "did you mean spm?"),
        ("paths: {new: {from: spm, to: spm}}\n", "the key engine is missing: Entry of `units`"),
        ("compute: {cube: {operations: {f16: {shape: [16, 16]}}}}\n", "must have at least 3"),
        ("compute: {cube: {operations: {f16: {a: f32x}}}}\n", "is the text 'f32x'; allowed are"),
        ("compute: {cube: {operations: {f16: {a: i4}}}}\n", "which is no entry of dtypes"),
        ("execution: {core: load}\n", "is no unit of kind core"),
        ("execution: {buffers: spm}\n", "is no memory of kind global"),
        ("execution: {limits: {allocation_bytes_max: 999999999}}\n", "above the 268,435,456 bytes"),
        ("execution: {model: simt}\n", "the key simt is missing"),
        ("kernels: {order: [vil, cl]}\n", "'cl' is no entry of formats"),
        ("kernels: {formats: {x: {format: source.cl, runs_on: host}}}\n", "kernels.dialect"),
        ("kernels: {vil: {granule_rows: 3}}\n", "no multiple of granule_rows 3"),
        ("kernels: {vil: {spaces: {near: {memory: left}, vec: null}}}\n", "is not an entry of"),
        ("kernels: {vil: {spaces: {near: null}}}\n", "lacks near, which every chip has"),
        ("kernels: {vil: {spaces: {near: {capacity_bytes: 9999}}}}\n", "vil-core needs 65,536"),
        ("kernels: {vil: {spaces: {near: {capacity_bytes: 9999999}}}}\n", "above the 1,048,576"),
        ("kernels: {vil: {engines: {vector: {unit: none}}}}\n", "is no entry of units"),
        ("kernels: {vil: {layouts: [row, panel]}}\n", "panel and the key panel_rows go together"),
        ("kernels: {vil: {token_count: 0}}\n", "the explicit profile orders engines by tokens"),
        ("kernels: {vil: {ops: {mma: null}}}\n", "is below vil-core: lacks mma f32, mma i32"),
        ("kernels: {vil: {ops: {copy: null}}}\n", "lacks copy, which the explicit profile needs"),
        ("kernels: {vil: {ops: {sel: {functions: [add]}}}}\n", "operation sel has no functions"),
        ("kernels: {vil: {ops: {scan: {functions: [sin]}}}}\n", "sin is no function of scan"),
        ("dtypes: {f16: {compute: none}}\n", "f16 says compute: none in dtypes, so un cannot"),
        ("dtypes: {f16: {storage: false}}\n", "f16 says storage: false in dtypes, so load"),
        ("dtypes: {f16: {convert: false}}\n", "f16 says convert: false in dtypes, so cast"),
        ("kernels: {vil: {ops: {loop: {dtypes: [f32]}}}}\n", "the operation loop has no dtypes"),
        ("provenance: [{id: invented, covers: [clock.*], source: measured, reference: x}]\n",
         "no entry covers"),
        ("provenance: {x: {covers: [clock.*], source: measured, reference: x}}\n",
         "'clock.*' matches no number of this file"),
        ("energy: {memories: {x: {memory: y, energy_pj_per_byte: 1}}}\n", "is no entry of memory"),
        ("links: {ring: {duplex: ful}}\n", "(did you mean full?)"),
        ("memory: {none: null}\n", "null deletes what a parent has"),
        ("memory: 5\n", "is the number 5; a list is needed"),
        ("kernels: [1]\n", "is a list; a mapping of keys is needed"),
        ("hcd_version: 1.0\n", "the key is there twice"),
    ],
)  # fmt: skip
def test_mistake_is_told(problems: Problems, lines: str, expected: str) -> None:
    told = problems(lines)
    assert [line for line in told if expected in line] != [], "\n".join(told)


def test_all_mistakes_are_told_at_once_in_the_order_of_the_file(problems: Problems) -> None:
    told = problems(
        "identity: {archh: x}\nmemory: {dram: {latency_ns: -1, kind: globl}}\n"
        "memory: {}\nfeatures: {graph: on}\n"
    )
    own = [line for line in told if not line.startswith("hcd")]
    places = [tuple(map(int, line.split(": ")[0].split(":"))) for line in own]
    assert places == sorted(places)
    assert {line for line, _ in places} == {3, 4, 5, 6}


def test_wrong_tag_is_told_alone_and_not_its_keys(problems: Problems) -> None:
    assert len(problems("memory: {dram: {kind: globl}}\n")) == 2  # and execution.buffers


def test_id_that_stands_twice_is_refused(write: Callable[..., Path], root: Path) -> None:
    text = (root / "hcd/chips/npu-small.hcd.yaml").read_text(encoding="utf-8")
    text = text.replace("id: dram_left,", "id: dram_right,")
    with pytest.raises(HcdError, match=r"paths\.dram_right: the id is there twice; first at line"):
        load(write(text, head=""))


def test_version_must_be_text_of_major_one(write: Callable[..., Path]) -> None:
    for version, part in (("1.0", "put it in quotes"), ('"2.0"', "reads the major version 1")):
        path = write("", head=f"hcd_version: {version}\nextends: sim/npu-small\n")
        with pytest.raises(HcdError, match=part):
            load(path)


def test_newer_minor_is_read_with_a_warning(write: Callable[..., Path]) -> None:
    head = 'hcd_version: "1.7"\nextends: sim/npu-small\n'
    hcd = load(write("identity: {future: 1}\n", head=head))
    assert len(hcd.warnings) == 1
    assert "written for version 1.7, this SDK knows 1.0" in hcd.warnings[0]
    assert "identity.future" in hcd.warnings[0]
    assert "identity.future" not in hcd


def test_link_to_nowhere_and_unreachable_device_are_refused(write: Callable[..., Path]) -> None:
    head = 'hcd_version: "1.0"\nextends: sim/npu-small-x4\n'
    path = write("links: {l01: {ends: [npu0, npu9]}, l30: null}\n", head=head)
    with pytest.raises(HcdError) as caught:
        load(path)
    assert "'npu9' is no device and no switch" in str(caught.value)
    assert "devices.npu1: no chain of links joins it to npu0" in str(caught.value)


def test_device_of_unknown_chip_is_refused(write: Callable[..., Path]) -> None:
    head = 'hcd_version: "1.0"\nextends: sim/npu-small-x4\n'
    with pytest.raises(HcdError, match=r"did you mean sim/npu-small\?"):
        load(write("devices: {npu0: {chip: sim/npu-smal}}\n", head=head))
