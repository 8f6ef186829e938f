"""Predict the time of every row of a table of operators on one chip.

`plan(table)` checks a table and turns it into arrays once; `Plan.predict_us(target)` then gives
the times for any chip and any constants, which is what a fit calls again and again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hal.errors import HcdError, UsageError
from hal.sim import calibration, collective, eager, gemm, tables, vector
from hal.sim.calibration import Constants
from hal.sim.chip import DTYPE_BYTES, Chip, Link, element_type
from hal.sim.tables import Table

Array = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class Target:
    """What predictions are for: a chip with the constants of each family.

    Attributes:
        chip: The chip.
        constants: Family to its constants.
        link: Links to use instead of those of the chip; None for the chip's own.
    """

    chip: Chip
    constants: Mapping[str, Constants] = field(default_factory=dict)
    link: Link | None = None

    @staticmethod
    def of(
        chip: Chip,
        given: Sequence[Constants] = (),
        *,
        whole_lengths: bool = False,
        link: Link | None = None,
    ) -> Target:
        """Take the given constants, and for the other families those that suit the chip best."""
        found = {
            family: calibration.find(family, chip, whole_lengths=whole_lengths)
            for family in calibration.FAMILIES
        }
        found.update({constants.family: constants for constants in given})
        return Target(chip, found, link)

    def describe(self, families: Collection[str]) -> list[str]:
        """One line for each of some families: fitted, or whose constants stand in."""
        return [
            f"{family}: {'fitted to this chip' if c.chip == self.chip.name else c.origin}"
            for family, c in self.constants.items()
            if family in families
        ]


@dataclass(frozen=True)
class Group:
    """Rows of a table that one call of a formula predicts.

    Attributes:
        family: Family of constants that the formula uses.
        rows: Their places in the table.
        seconds: The formula on the arrays of these rows.
        line: Line of the first row, for messages.
    """

    family: str
    rows: tuple[int, ...]
    seconds: Callable[[Target], Array]
    line: int


@dataclass(frozen=True)
class Plan:
    """A checked table, ready to be predicted.

    Attributes:
        name: The table, for messages.
        count: Rows.
        groups: Who predicts which rows.
    """

    name: str
    count: int
    groups: tuple[Group, ...]

    @property
    def families(self) -> set[str]:
        """Families of constants that the rows use."""
        return {group.family for group in self.groups}

    def predict_us(self, target: Target) -> Array:
        """Microseconds of each row. Raises UsageError when the chip cannot run a row."""
        result = np.full(self.count, np.nan)
        for group in self.groups:
            try:
                result[list(group.rows)] = group.seconds(target) * 1e6
            except HcdError as error:
                raise UsageError(
                    f"line {group.line}: {target.chip.name}: {error.problem}",
                    call=self.name,
                    next_step=error.next_step,
                ) from None
        return result


def predict_us(target: Target, table: Table, *, harness: str = "") -> Array:
    """Microseconds of each row of a table; see `plan` and `Plan.predict_us` for the errors."""
    return plan(table, harness=harness).predict_us(target)


def plan(table: Table, *, harness: str = "") -> Plan:
    """Check a table and gather its rows by operator, element type and harness.

    Args:
        table: The operators.
        harness: `pytorch-eager` adds that framework's host time to rows without a cell `harness`.

    Raises UsageError: an operator, element type or harness is unknown, a column is missing, a cell
    is no number; the message names the line.
    """
    keys: dict[tuple[str, str, str], list[int]] = {}
    for index, name in enumerate(tables.operators(table)):
        around = table.rows[index].get("harness", "").strip().lower() or harness
        if around not in eager.HARNESSES:
            table.fail(index, f"harness {around!r} is unknown; known are {eager.HARNESSES[-1]}")
        if name in tables.COLLECTIVES:
            direct = "custom" in table.rows[index].get("library", "").lower()
            keys.setdefault((name, "direct" if direct else "", ""), []).append(index)
        else:
            key = (name, _dtype(table, index), "" if around == "none" else around)
            keys.setdefault(key, []).append(index)
    groups = []
    for (name, dtype, around), rows in keys.items():
        make = _formula(name)
        if make is None:
            table.fail(rows[0], f"the operator {name!r} is unknown; known are {', '.join(known())}")
        else:
            family, seconds = make(table, rows, name, dtype)
            if around:
                family, seconds = "eager", _called(family, name, seconds)
            groups.append(Group(family, tuple(rows), seconds, table.lines[rows[0]]))
    return Plan(table.name, len(table.rows), tuple(groups))


Seconds = Callable[[Target], Array]
Make = Callable[[Table, Sequence[int], str, str], tuple[str, Seconds]]


def _formula(name: str) -> Make | None:
    """The function that prepares the rows of an operator, or None for an unknown one."""
    if name in tables.MATMULS:
        return _products
    if name in tables.COLLECTIVES:
        return _collectives
    return _vectors if vector.operator(name) is not None else None


def known() -> list[str]:
    """Names of the operators that can be predicted."""
    return [*tables.MATMULS, *vector.OPERATORS, *vector.ALIASES, *tables.COLLECTIVES]


def _called(family: str, name: str, kernel: Seconds) -> Seconds:
    """Put the host time of one framework call around a kernel."""
    operator = "matmul" if name in tables.MATMULS else name

    def seconds(target: Target) -> Array:
        harness, inner = target.constants["eager"], target.constants[family]
        if family == "gemm":
            droop = inner["droop"] * harness["droop"]
            inner = replace(inner, values={**inner.values, "droop": droop})
        bare = Target(target.chip, {**target.constants, family: inner}, target.link)
        launch = inner["launch"] * target.chip.launch_s
        return eager.call_us(harness, operator, (kernel(bare) - launch) * 1e6) * 1e-6

    return seconds


def _dtype(table: Table, index: int) -> str:
    """The element type of a row; f16 where the table does not say."""
    name = element_type(table.rows[index].get("dtype", "") or "f16")
    if name not in DTYPE_BYTES:
        allowed = ", ".join(sorted(DTYPE_BYTES))
        given = table.rows[index].get("dtype")
        table.fail(index, f"dtype {given!r} is unknown; known are {allowed}")
    return name


def _column(table: Table, rows: Sequence[int], name: str, absent: float | None = None) -> Array:
    """Numbers of one column; `absent` stands for empty cells where the column may be left out."""
    return np.array(
        [
            absent
            if absent is not None and not table.rows[i].get(name, "").strip()
            else table.number(i, name)
            for i in rows
        ],
        dtype=np.float64,
    )


def _products(table: Table, rows: Sequence[int], name: str, dtype: str) -> tuple[str, Seconds]:
    m, n, k = (_column(table, rows, c) for c in ("m", "n", "k"))
    batch = _column(table, rows, "batch", 1.0)

    def seconds(target: Target) -> Array:
        chip, constants = target.chip, target.constants["gemm"]
        return gemm.predict_s(chip, constants, m, n, k, dtype=dtype, batch=batch)

    return "gemm", seconds


def _vectors(table: Table, rows: Sequence[int], name: str, dtype: str) -> tuple[str, Seconds]:
    m, n = _column(table, rows, "m"), _column(table, rows, "n", 1.0)

    def seconds(target: Target) -> Array:
        chip, constants = target.chip, target.constants["vector"]
        return vector.predict_s(chip, constants, name, m, n, dtype=dtype)

    return "vector", seconds


def _collectives(table: Table, rows: Sequence[int], name: str, how: str) -> tuple[str, Seconds]:
    count, size = _column(table, rows, "n_devices"), _column(table, rows, "bytes")
    operation = tables.COLLECTIVES[name]

    def seconds(target: Target) -> Array:
        chip, constants = target.chip, target.constants["collective"]
        return collective.predict_s(
            chip, constants, operation, count, size, direct=how == "direct", link=target.link
        )

    return "collective", seconds
