"""Calibration constants: what is fitted to measurements, at most ten numbers of a family.

A family is one group of formulas (`gemm`, `vector`, `collective`). Each constant has a meaning, a
range and a default; the defaults serve a chip that nobody measured. A calibration file holds the
constants of one family and one chip, how they were fitted, and the error on both parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hal.errors import UsageError

if TYPE_CHECKING:
    from hal.sim.chip import Chip

VERSION = 1
"""Version of the file format."""

CONSTANTS_MOST = 10


@dataclass(frozen=True)
class Constant:
    """One number that may be fitted.

    Attributes:
        name, unit, meaning: What it is.
        default: Its value for a chip that nobody measured.
        low, high: Physical range; a fit stays inside.
        lent: Whether a chip of another architecture may use it; not when it corrects a number
            that one description declares.
    """

    name: str
    unit: str
    default: float
    low: float
    high: float
    meaning: str
    lent: bool = True


FAMILIES: dict[str, tuple[Constant, ...]] = {
    "gemm": (
        Constant("launch", "launches", 0.93, 0.2, 2.0, "least time of a kernel inside a stream, as "
                 "a multiple of the declared launch"),
        Constant("matrix", "share", 0.9, 0.3, 1.0, "matrix units' rate within a tile"),
        Constant("step", "cycles", 200, 0, 1200, "latency of one K step that tiles of a core hide "
                 "from each other"),
        Constant("cache_rate", "share", 0.85, 0.05, 3.0, "of the declared cache bandwidth",
                 lent=False),
        Constant("dram", "share", 0.86, 0.5, 1.0, "of the declared DRAM bandwidth"),
        Constant("cache", "share", 0.43, 0.1, 1.2, "of the cache that keeps data to the next use"),
        Constant("overlap", "share", 0.2, 0.0, 0.6, "of the shorter phase that is not hidden"),
        Constant("fill", "us", 0.5, 0.0, 4.0, "time to fill the first software pipeline"),
        Constant("tile", "cycles", 2000, 0, 12000, "to start a 128 x 128 tile and write it out "
                 "through a port of 64 bytes a cycle"),
        Constant("droop", "share", 0.15, 0.0, 0.8, "longer time of dense runs far above 5 ms, when "
                 "the power limit lowers the clock"),
    ),
    "vector": (
        Constant("launch", "launches", 0.63, 0.2, 2.0, "least time of a kernel, as a multiple of "
                 "the declared launch"),
        Constant("dram", "share", 0.95, 0.5, 1.0, "of the declared DRAM bandwidth"),
        Constant("cache", "share", 0.55, 0.1, 1.2, "of the cache that keeps data to the next call"),
        Constant("cache_rate", "share", 0.42, 0.05, 3.0, "of the declared cache bandwidth"),
        Constant("lanes", "share", 1.0, 0.2, 2.0, "of the lanes' peak rate"),
        Constant("row", "cycles", 2300, 0, 12000, "latency of a sum along a row of 4,096 or more"),
        Constant("overlap", "share", 0.25, 0.0, 0.3, "of the shorter phase that is not hidden"),
    ),
    "collective": (
        Constant("launch", "us", 7.0, 0.5, 30.0, "time before the first byte, all chips ready"),
        Constant("hop", "latencies", 0.8, 0.2, 4.0, "time of a step, as a multiple of the declared "
                 "link latency"),
        Constant("root", "us", 9.0, 0.0, 60.0, "of the square root of the wire bytes in MiB"),
        Constant("wire", "share", 0.76, 0.3, 1.0, "of the declared link bandwidth"),
        Constant("pairs", "us", 3.0, 0.0, 20.0, "to set up the pairs of an all-to-all"),
        Constant("switch_launch", "us", 18.0, 5.0, 60.0, "as launch, for a sum in the switch"),
        Constant("switch_wire", "share", 0.69, 0.3, 1.0, "as wire, for a sum in the switch"),
        Constant("direct_launch", "us", 3.3, 0.5, 20.0, "as launch, for one kernel that reads from "
                 "all peers"),
        Constant("direct_wire", "share", 0.55, 0.1, 1.0, "as wire, for one kernel that reads from "
                 "all peers"),
    ),
    "eager": (
        Constant("matmul", "us", 27.0, 0.0, 80.0, "host time of one call"),
        Constant("softmax", "us", 13.0, 0.0, 80.0, "host time of one call"),
        Constant("layernorm", "us", 50.0, 0.0, 80.0, "host time of one call"),
        Constant("gelu", "us", 46.0, 0.0, 80.0, "host time of one call"),
        Constant("kernel", "times", 0.94, 0.6, 1.4, "kernels' time on this machine"),
        Constant("droop", "share", 0.5, 0.0, 1.0, "of the family gemm's droop; single calls leave "
                 "the power limit time to recover"),
        Constant("hidden", "us", 5.0, 0.0, 12.0, "of the kernel, while the host still works"),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Constants:
    """The constants of one family, by name, and where they come from.

    `constants[name]` is one value.

    Attributes:
        family: `gemm`, `vector` or `collective`.
        values: Name to value; all of the family.
        chip: The chip they were fitted to; empty for the defaults.
        record: What the file says of the fit: source, split, errors.
    """

    family: str
    values: Mapping[str, float]
    chip: str = ""
    record: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> float:
        return self.values[name]

    @property
    def origin(self) -> str:
        """Where they come from, in words."""
        return f"not fitted to this chip; constants of {self.chip}" if self.chip else "defaults"


def specification(family: str) -> tuple[Constant, ...]:
    """The constants of a family. Raises UsageError for an unknown one."""
    try:
        return FAMILIES[family]
    except KeyError:
        known = ", ".join(FAMILIES)
        raise UsageError(
            f"there is no family {family!r}", call="hal sim", next_step=f"Known: {known}."
        ) from None


def defaults(family: str) -> Constants:
    """The constants for a chip that nobody measured."""
    return Constants(family, {c.name: c.default for c in specification(family)})


def read(path: Path) -> list[Constants]:
    """Read a calibration file: one family, or a list of them under `calibrations`.

    Raises:
        UsageError: the file cannot be read, or is not a calibration of this version; the message
            says which key is wrong.
    """
    import yaml

    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", call=str(path)) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        text = str(error).splitlines()[0]
        raise UsageError(f"is not YAML: {text}", call=str(path)) from None
    blocks = data.get("calibrations", [data]) if isinstance(data, dict) else [data]
    if not isinstance(blocks, list):
        raise UsageError("calibrations must be a list", call=str(path))
    return [_block(block, str(path)) for block in blocks]


def _block(data: Any, call: str) -> Constants:
    """Check one block of a calibration file."""
    hint = "Write such a file with 'hal sim calibrate'."
    if not isinstance(data, dict) or not isinstance(data.get("constants"), dict):
        raise UsageError("holds no mapping 'constants'", call=call, next_step=hint)
    if data.get("calibration_version") != VERSION:
        found = data.get("calibration_version")
        raise UsageError(
            f"calibration_version is {found!r}; this SDK reads {VERSION}", call=call, next_step=hint
        )
    family = str(data.get("family"))
    specified = {c.name: c for c in specification(family)}
    given = data["constants"]
    if set(given) != set(specified):
        odd = ", ".join(sorted(set(given) ^ set(specified)))
        raise UsageError(f"constants of {family} are wrong or missing: {odd}", call=call)
    values: dict[str, float] = {}
    for name, constant in specified.items():
        value = given[name]
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise UsageError(f"constants.{name} is {value!r}, not a number", call=call)
        if not constant.low <= value <= constant.high:
            raise UsageError(
                f"constants.{name} is {value}, outside {constant.low:g} to {constant.high:g} "
                f"({constant.unit})",
                call=call,
            )
        values[name] = float(value)
    record = {k: v for k, v in data.items() if k not in ("constants", "family")}
    return Constants(family, values, chip=str(data.get("chip", "")), record=record)


def write(path: Path, constants: Constants, record: Mapping[str, Any]) -> None:
    """Write a calibration file. Raises UsageError when the path cannot be written."""
    import yaml

    document = {
        "calibration_version": VERSION,
        "chip": constants.chip,
        "family": constants.family,
        "constants": {name: float(f"{value:.4g}") for name, value in constants.values.items()},
        **record,
    }
    head = (
        "# Fitted by `hal sim calibrate`; see docs/simulator.md for the meaning of each number.\n"
    )
    text = head + yaml.safe_dump(document, sort_keys=False, width=98, allow_unicode=True)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot be written: {error.strerror}", call=str(path)) from None


@cache
def shipped() -> tuple[Constants, ...]:
    """The calibrations that come with the SDK, sorted by file name."""
    from hal import _paths

    files = sorted(_paths.calibration_dir().glob("*.yaml"))
    return tuple(block for path in files for block in read(path))


def find(family: str, chip: Chip, *, whole_lengths: bool = False) -> Constants:
    """The shipped constants that suit a chip best.

    In this order: those fitted to the chip; those of a chip of the same architecture; those of a
    measured chip whose matrix instructions are of the same kind (wide ones, that a core starts and
    forgets, against narrow ones); the defaults.

    Args:
        family: Family of the constants.
        chip: The chip to predict.
        whole_lengths: Take the fit that left whole values of N and K out.
    """
    blocks = [
        block
        for block in shipped()
        if block.family == family and (block.record["split"]["kind"] == "block") == whole_lengths
    ]
    for block in blocks:
        if block.chip == chip.name:
            return block
    for block in blocks:
        if block.record["arch"] == chip.arch:
            return block
    for block in blocks:
        if block.record["matrix_instruction"] == chip.matrix_instruction:
            own = {c.name: c.default for c in specification(family) if not c.lent}
            return replace(block, values={**block.values, **own})
    return defaults(family)
