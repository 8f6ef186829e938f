"""Fit the constants of one family to a table of measured times, and say how good both parts are."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from hal.errors import UsageError
from hal.sim import tables
from hal.sim.calibration import Constants, defaults, specification
from hal.sim.chip import Chip
from hal.sim.fit import Errors, block_split, errors, fit, log_error, random_split
from hal.sim.predict import Plan, Target, plan
from hal.sim.tables import Table

Mask = np.ndarray[Any, np.dtype[np.bool_]]
STARTS: Mapping[str, tuple[Mapping[str, float], ...]] = {
    "eager": (
        {},
        {"matmul": 30, "softmax": 15, "layernorm": 52, "gelu": 47},
    ),
    "gemm": (
        {},
        {"step": 280, "fill": 1.2, "tile": 2900, "cache_rate": 0.7},
        {"step": 330, "fill": 0.7, "tile": 2500, "cache_rate": 0.55, "overlap": 0.35},
        {"step": 140, "fill": 0.02, "tile": 1400, "cache_rate": 1.5},
    ),
}
"""Where a fit begins, as changes of the defaults; the best of them is kept."""


@dataclass(frozen=True)
class Split:
    """Which rows are fitted.

    Attributes:
        kind: `random` (a share of all rows), `even` (every second row, of few rows in order) or
            `block` (whole values of N and K held out).
        share: Share of the rows to fit, for `random`.
        rows_most: Most rows that the fit looks at.
        seed: Seed of the choice.
    """

    kind: str = "random"
    share: float = 0.3
    rows_most: int = 700
    seed: int = 1

    def fitted(self, table: Table) -> Mask:
        """Mask of the rows that may be fitted."""
        if self.kind == "even":
            return np.equal(np.arange(len(table.rows)) % 2, 0)
        if self.kind == "random":
            return random_split(len(table.rows), share=self.share, seed=self.seed)
        lengths = [
            np.array([table.number(i, name) for i in range(len(table.rows))]) for name in ("n", "k")
        ]
        return block_split(lengths, seed=self.seed)


@dataclass(frozen=True)
class Fit:
    """A finished calibration.

    Attributes:
        constants: The constants.
        fitted, unseen: Errors on the part that was fitted and on the other.
        record: What the calibration file says besides the constants.
    """

    constants: Constants
    fitted: Errors
    unseen: Errors
    record: Mapping[str, Any]


def only(table: Table, column: str, value: str) -> Table:
    """The rows of a table with a value in a column. Raises UsageError when there are none."""
    keep = [i for i, row in enumerate(table.rows) if row.get(column, "") == value]
    if not keep:
        there = ", ".join(sorted({row.get(column, "") for row in table.rows})[:8])
        raise UsageError(
            f"no row has {column} {value!r}", call=table.name, next_step=f"There are: {there}."
        )
    return replace(
        table,
        rows=tuple(table.rows[i] for i in keep),
        lines=tuple(table.lines[i] for i in keep),
    )


def calibrate(
    chip: Chip, table: Table, split: Split, *, source: str = "", harness: str = ""
) -> Fit:
    """Fit the one family of a table's operators.

    Args:
        chip: The chip that was measured.
        table: Operators with a column of measured times.
        split: Which rows are fitted.
        source: Where the measurements come from, for the record.
        harness: As for `plan`; with one, its host times are what is fitted.

    Raises:
        UsageError: the table mixes families, has too few rows, or a row is wrong.
    """
    work = plan(table, harness=harness)
    measured = np.array(tables.measured_us(table))
    families = sorted({group.family for group in work.groups})
    if len(families) != 1:
        raise UsageError(
            f"the rows need constants of more than one family: {', '.join(families)}",
            call=table.name,
            next_step="Calibrate one family at a time; --op NAME picks rows.",
        )
    family, mask = families[0], split.fitted(table)
    if mask.sum() < 2 * len(specification(family)):
        raise UsageError(
            f"{int(mask.sum())} rows to fit are too few for {len(specification(family))} constants",
            call=table.name,
            next_step="Give more rows, or a larger --share.",
        )
    constants = _best(chip, family, table, measured, mask, split, harness)
    whole = work.predict_us(Target.of(chip, [constants]))
    parts = errors(whole[mask], measured[mask]), errors(whole[~mask], measured[~mask])
    record = {
        "arch": chip.arch,
        "matrix_instruction": chip.matrix_instruction,
        "source": source or table.name,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "split": asdict(split),
        "errors": {
            name: {key: float(f"{value:.4g}") for key, value in asdict(part).items()}
            for name, part in zip(("fitted", "unseen"), parts, strict=True)
        },
    }
    return Fit(constants, *parts, record=record)


def _best(
    chip: Chip,
    family: str,
    table: Table,
    measured: Any,
    mask: Mask,
    split: Split,
    harness: str,
) -> Constants:
    """The best fit from several starts, on a sample of the rows of the mask."""
    rows = np.flatnonzero(mask)
    if len(rows) > split.rows_most:
        rows = np.random.default_rng(split.seed).choice(rows, split.rows_most, replace=False)
    part: Plan = plan(
        replace(
            table,
            rows=tuple(table.rows[i] for i in rows),
            lines=tuple(table.lines[i] for i in rows),
        ),
        harness=harness,
    )
    base = Target.of(chip)
    found = []
    for change in STARTS.get(family, ({},)):
        start = Constants(family, {**defaults(family).values, **change}, chip=chip.name)

        def predict(constants: Constants) -> Any:
            return part.predict_us(Target(chip, {**base.constants, family: constants}))

        constants = fit(family, predict, measured[rows], start=start, chip=chip.name)
        found.append((log_error(predict(constants), measured[rows]), constants))
    return min(found, key=lambda item: item[0])[1]
