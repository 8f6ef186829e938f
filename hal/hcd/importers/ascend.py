"""Makes a description of an Ascend chip from its vendor's platform configuration.

The result extends `huawei/ascend-base`, which holds what the configuration lacks as estimates with
their reasons; everything that the result itself says comes from the file. Rates in the file are
bytes per cycle and core; what the description gives per chip is rate x cores (x clock).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from hal.errors import UsageError
from hal.hcd.importers.sections import Reader, read_sections
from hal.hcd.scan import one_line, raise_problems

BASE = "huawei/ascend-base"

_WIDTH = 100


class Imported(NamedTuple):
    """A description as text, and the entries of the file that it does not use."""

    soc: str
    text: str
    unused: dict[str, list[str]]


def import_ascend(
    path: str | Path, *, soc: str | None = None, memory_bytes: int | None = None
) -> Imported:
    """Reads a platform configuration (.ini, or CSV) and gives the text of a description.

    Args:
        path: The file.
        soc: Which chip of it; may be left out where the file has one.
        memory_bytes: Capacity of the device memory where the file leaves it empty.

    Raises:
        HcdError: with every mistake as `file:line:col: section.key: text`.
        UsageError: no such chip, none chosen among several, or a capacity that the file has too.
    """
    found = read_sections(path, soc)
    if len(found) > 1:
        raise UsageError(
            f"holds {len(found)} SoCs: {', '.join(found)}",
            call=one_line(path, 300),
            next_step="Choose one with --soc NAME.",
        )
    ((name, sections),) = found.items()
    reader = Reader(sections)
    chip = _chip(reader, name, memory_bytes)
    raise_problems(sorted(reader.problems), what=f"{sections.file}, SoC {one_line(name)}")
    unused = reader.unused()
    return Imported(name, _write(chip, sections.source, unused), unused)


class _Chip(NamedTuple):
    """What the configuration says, by the paths of a description."""

    comment: str
    identity: dict[str, str]
    clock_hz: int
    cores: int
    vectors_per_core: int
    memory: dict[str, dict[str, int]]
    paths: dict[str, int]
    burst_bytes: int
    matrix: dict[str, tuple[list[int], int]]
    lanes: dict[str, int]
    limits: dict[str, int]
    vil: dict[str, int]
    queue_depth: int | None
    capacity_was_told: bool


def _chip(read: Reader, soc: str, memory_bytes: int | None) -> _Chip:
    """Every value of the description; mistakes are noted in the reader (a 1 stands in)."""

    def need(section: str, key: str, what: str) -> int:
        return read.number(section, key, needed_for=what) or 1

    clock_hz = need("AICoreSpec", "cube_freq", "the clock, in MHz,") * 1_000_000
    cores = need("SoCInfo", "ai_core_cnt", "the number of cores")
    block = need("AICoreSpec", "ubblock_size", "alignment of the buffers")
    vector = need("AICoreSpec", "vec_calc_size", "the speed of the vector unit")
    step = [need("AICoreSpec", f"cube_{axis}_size", "the cube") for axis in "mnk"]
    memory = _memory(read, cores, clock_hz, memory_bytes) | _buffers(read, step, vector, block)
    limits = {
        "stream_count_max": read.number("SoCInfo", "max_stream_num")
        or need("SoCInfo", "normal_stream_num", "the limit of streams"),
        "allocation_bytes_max": memory["hbm"]["capacity_bytes"],
        "offset_alignment_bytes": block,
    }
    events = read.number("SoCInfo", "max_hardware_eventid_num")
    if events is not None:
        limits["event_count_max"] = events
    return _Chip(
        comment=f"{one_line(soc)}: {cores} AI cores at {clock_hz / 1e9:g} GHz.",
        identity=_identity(read, soc),
        clock_hz=clock_hz,
        cores=cores,
        vectors_per_core=_vectors(read, cores),
        memory=memory,
        paths=_paths(read),
        burst_bytes=block,
        matrix=_matrix(read, step),
        lanes={"f16": vector, "f32": max(1, vector // 2), "i32": max(1, vector // 2)},
        limits=limits,
        vil={
            "granule_rows": step[0],
            "granule_columns": step[1],
            "max_tile_bytes": memory["l0a"]["capacity_bytes"],
        },
        queue_depth=read.number("SoCInfo", "normal_stream_depth"),
        capacity_was_told=memory_bytes is not None,
    )


def _identity(read: Reader, soc: str) -> dict[str, str]:
    read.text("version", "SoC_version")
    product = re.sub(r"(?<=[a-z])(?=[0-9])", "-", soc.lower(), count=1)
    if re.fullmatch(r"[a-z0-9][a-z0-9_.-]{0,63}", product) is None:
        read.refuse("version", "SoC_version", f"is {one_line(soc)!r}, which makes no product name")
        product = "unknown"
    identity = {"product": product}
    arch = read.text("version", "CCEC_AIC_version")
    if arch is not None:
        identity["arch"] = arch.removesuffix("-cube")
    return identity


def _vectors(read: Reader, cores: int) -> int:
    """Vector units of one core: several where cube and vector cores are split, else one."""
    if read.text("SoCInfo", "cube_vector_combine") != "split":
        return 1
    total = read.number("SoCInfo", "vector_core_cnt", needed_for="a chip of split cores") or cores
    if total % cores:
        what = f"is {total}, no multiple of the {cores} AI cores"
        read.refuse("SoCInfo", "vector_core_cnt", what)
    return total // cores or 1


def _rate(read: Reader, key: str, what: str) -> int:
    """Bytes per cycle and core."""
    return read.number("AICoreMemoryRates", key, needed_for=what) or 1


def _memory(
    read: Reader, cores: int, clock_hz: int, memory_bytes: int | None
) -> dict[str, dict[str, int]]:
    """Capacity and bandwidth of the memories that the cores share."""
    if memory_bytes is not None and read.has("SoCInfo", "memory_size"):
        raise UsageError(
            "--memory-bytes is given, but the file has SoCInfo.memory_size",
            next_step="Leave the option out.",
        )
    capacity = memory_bytes or read.number(
        "SoCInfo",
        "memory_size",
        needed_for="the capacity of the device memory; or give it with --memory-bytes",
    )
    return {
        "hbm": {
            "capacity_bytes": capacity or 1,
            "bandwidth_bytes_per_s": _rate(read, "ddr_read_rate", "DRAM") * cores * clock_hz,
        },
        "l2": {
            "capacity_bytes": read.number("SoCInfo", "l2_size", needed_for="the L2 cache") or 1,
            "bandwidth_bytes_per_cycle": _rate(read, "l2_read_rate", "the L2 cache") * cores,
            "write_bandwidth_bytes_per_cycle": _rate(read, "l2_write_rate", "the L2 cache") * cores,
        },
    }


def _buffers(
    read: Reader, step: list[int], vector: int, alignment: int
) -> dict[str, dict[str, int]]:
    """Capacity and bandwidth of the buffers of one core.

    The cube reads one step of f16 operands (2 bytes) a cycle, the vector unit its f16 lanes.
    """
    rows, columns, depth = step
    bandwidths = {
        "l1": ("l1_size", _rate(read, "l1_to_l0_a_rate", "L1")),
        "l0a": ("l0_a_size", rows * depth * 2),
        "l0b": ("l0_b_size", depth * columns * 2),
        "l0c": ("l0_c_size", _rate(read, "l0_c_to_ub_rate", "L0C")),
        "ub": ("ub_size", vector * 2),
    }
    out = {
        name: {
            "capacity_bytes": read.number("AICoreSpec", key, needed_for=f"the capacity of {name}")
            or 1,
            "bandwidth_bytes_per_cycle": bandwidth,
            "alignment_bytes": alignment,
        }
        for name, (key, bandwidth) in bandwidths.items()
    }
    bank = read.number("AICoreSpec", "ubbank_size")
    if bank is not None and out["ub"]["capacity_bytes"] % bank == 0:
        out["ub"] |= {"banks": out["ub"]["capacity_bytes"] // bank, "bank_width_bytes": alignment}
    return out


def _paths(read: Reader) -> dict[str, int]:
    """Bytes that one core moves a cycle on each path of the base."""
    rates = {
        "hbm_ub": "ddr_read_rate",
        "hbm_l1": "ddr_read_rate",
        "l1_l0a": "l1_to_l0_a_rate",
        "l1_l0b": "l1_to_l0_b_rate",
        "l1_ub": "l1_to_ub_rate",
        "l0c_ub": "l0_c_to_ub_rate",
        "ub_l1": "ub_to_l1_rate",
        "ub_hbm": "ub_to_ddr_rate",
        "l0c_hbm": "ddr_write_rate",
    }
    return {
        path: read.number("AICoreMemoryRates", key, needed_for=f"the path {path}") or 1
        for path, key in rates.items()
    }


def _matrix(read: Reader, step: list[int]) -> dict[str, tuple[list[int], int]]:
    """Step and multiply-adds a cycle of each type; the cube makes one step a cycle."""
    steps = {"f16": step}
    if read.text("SoCInfo", "support_bf16") == "1":
        steps["bf16"] = step
    steps["i8"] = _step(read, "DT_INT8") or step
    single = _step(read, "DT_FLOAT")
    if single is not None:
        steps["f32"] = single
    return {name: (shape, shape[0] * shape[1] * shape[2]) for name, shape in steps.items()}


def _step(read: Reader, key: str) -> list[int] | None:
    """The step of the cube for a type as [m, n, k]; the file gives m,k,n."""
    text = read.text("DtypeMKN", key)
    if text is None:
        return None
    parts = re.fullmatch(r"([1-9]\d{0,4}) *, *([1-9]\d{0,4}) *, *([1-9]\d{0,4})", text, re.A)
    if parts is None:
        read.refuse("DtypeMKN", key, f"is {one_line(text)!r}; three sizes M,K,N are needed")
        return None
    m, k, n = (int(part) for part in parts.groups())
    return [m, n, k]


def _write(chip: _Chip, source: str, unused: dict[str, list[str]]) -> str:
    return "\n".join(_lines(chip, source, unused)) + "\n"


def _lines(chip: _Chip, source: str, unused: dict[str, list[str]]) -> Iterator[str]:
    """The lines of the file; the order and the wrapping never change, so that a diff is small."""
    yield f"# {chip.comment}"
    yield "# Written by `hal hcd import ascend-ini`. Each number is the file's (see provenance)"
    yield "# or made from it; what the file lacks is estimated in the parent, with its reason."
    if chip.capacity_was_told:
        yield "# The file lacks the capacity of the memory; it was given by hand."
    yield 'hcd_version: "1.0"'
    yield f"extends: {BASE}"
    yield "identity:"
    yield "  vendor: huawei"
    for key, text in chip.identity.items():
        yield f"  {key}: {_quoted(text)}"
    yield f"  description: {_quoted(chip.comment)}"
    yield ""
    yield f"clocks: [{{id: cube, sustained_hz: {chip.clock_hz}}}]"
    yield f"units: {{core: {{count: {chip.cores}}}, vector: {{count: {chip.vectors_per_core}}}}}"
    yield "memory:"
    for name, memory in chip.memory.items():
        yield from _mapping(name, memory)
    yield "paths:"
    for name, rate in chip.paths.items():
        yield f"  {name}: {{bytes_per_cycle: {rate}, min_burst_bytes: {chip.burst_bytes}}}"
    yield "compute:"
    yield "  cube:"
    yield "    operations:"
    for name, (shape, macs) in chip.matrix.items():
        yield f"      {name}: {{shape: [{', '.join(map(str, shape))}], macs_per_cycle: {macs}}}"
    if "bf16" not in chip.matrix:
        yield "      bf16: null"
    yield "  vector:"
    yield "    operations:"
    for name, lanes in chip.lanes.items():
        yield f"      {name}: {{lanes_per_cycle: {lanes}}}"
    yield "execution:"
    yield from _mapping("limits", chip.limits)
    yield "kernels:"
    yield from _mapping("vil", chip.vil)
    if chip.queue_depth is not None:
        yield f"overheads: {{queue_depth: {chip.queue_depth}}}"
    yield ""
    yield from _provenance(chip, source)
    yield from _unused(unused)


def _provenance(chip: _Chip, source: str) -> Iterator[str]:
    yield "provenance:"
    yield "  - id: platform_config"
    yield "    covers:"
    covers = ["clocks.cube.sustained_hz", "memory.hbm.bandwidth_bytes_per_s"]
    covers += [f"memory.{name}.bandwidth_bytes_per_cycle" for name in chip.memory if name != "hbm"]
    covers += ["memory.l2.write_bandwidth_bytes_per_cycle", "paths.*.bytes_per_cycle"]
    covers += ["paths.*.min_burst_bytes"]
    covers += [f"compute.cube.operations.{name}.macs_per_cycle" for name in chip.matrix]
    covers += [f"compute.vector.operations.{name}.lanes_per_cycle" for name in chip.lanes]
    for path in covers:
        yield f"      - {_quoted(path)}"
    yield "    source: datasheet"
    yield f"    reference: {_quoted(one_line(source, 500))}"
    yield "    conditions: >-"
    yield "      As the vendor declares it for its compiler. Rates are bytes per cycle and core;"
    yield "      those of the chip are rate x cores, and x clock for DRAM. The cube makes one step"
    yield "      m x n x k a cycle; f16 lanes are 2 bytes wide, those of f32 and i32 4."


def _unused(unused: dict[str, list[str]]) -> Iterator[str]:
    if not unused:
        return
    yield ""
    yield "# Entries of the file that no key of a description stands for:"
    for section, keys in unused.items():
        yield from _wrapped(f"#   {section}:", keys)


def _wrapped(head: str, keys: list[str]) -> Iterator[str]:
    """Words after a head, wrapped."""
    line = head
    for key in keys:
        if len(line) + len(key) + 1 > _WIDTH:
            yield line
            line = "#    "
        line += f" {key}"
    yield line


def _mapping(name: str, values: dict[str, int]) -> Iterator[str]:
    """`  name: {a: 1, b: 2}`, wrapped under the brace."""
    line = f"  {name}: {{"
    indent = " " * len(line)
    for index, (key, value) in enumerate(values.items()):
        cell = f"{key}: {value}" + ("}" if index == len(values) - 1 else ",")
        if len(line) + len(cell) + 1 > _WIDTH:
            yield line.rstrip()
            line = indent
        line += cell if line.endswith("{") or line == indent else f" {cell}"
    yield line


def _quoted(text: str) -> str:
    """A text as YAML reads it back, plain where that is safe."""
    if re.fullmatch(r"[A-Za-z][A-Za-z0-9_./@-]*", text) and text.lower() not in _WORDS:
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


_WORDS = frozenset(("true", "false", "null", "yes", "no", "on", "off"))
