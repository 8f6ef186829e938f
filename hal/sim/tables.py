"""Tables of operators: reading, checking and writing the CSV files of `hal sim`.

A row is one operator. Columns, in any order and any case: `op` (matmul when absent and M, N, K are
there), `dtype`, `M`, `N`, `K`, optional `batch`, `n_devices` and `bytes` for collectives, optional
`harness`. Other columns are carried along untouched.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hal.errors import UsageError

MATMULS = ("matmul", "gemm", "linear", "bmm", "mm")
COLLECTIVES = {
    "all_reduce": "all_reduce", "allreduce": "all_reduce", "all_gather": "all_gather",
    "allgather": "all_gather", "reduce_scatter": "reduce_scatter",
    "reducescatter": "reduce_scatter", "alltoall": "all_to_all", "all_to_all": "all_to_all",
    "broadcast": "broadcast",
}  # fmt: skip
UNITS_US = {"us": 1.0, "ms": 1e3, "s": 1e6, "ns": 1e-3}
_MEASURED = ("measured", "measured_time", "time", "latency", "duration")


@dataclass(frozen=True)
class Table:
    """The rows of one CSV file.

    Attributes:
        name: The file, for messages.
        head: The names of the columns as they were written.
        rows: One mapping of lower-case column name to text for each row.
        lines: Line number of each row.
    """

    name: str
    head: tuple[str, ...]
    rows: tuple[Mapping[str, str], ...]
    lines: tuple[int, ...]

    def number(self, index: int, column: str, *, least: float = 1.0) -> float:
        """The positive number in a cell; UsageError names the line and the column."""
        text = self.rows[index].get(column, "").strip()
        if not text:
            self.fail(index, f"the column {column!r} is empty or missing")
        try:
            value = float(text)
        except ValueError:
            self.fail(index, f"{column} is {text!r}, not a number")
        if not least <= value < 1e18:
            self.fail(index, f"{column} is {text}; it must be at least {least:g}")
        return value

    def fail(self, index: int, text: str) -> None:
        """Refuse a row."""
        raise UsageError(f"line {self.lines[index]}: {text}", call=self.name)


def read(path: Path) -> Table:
    """Read a CSV file with a head line. Raises UsageError when it cannot be read or has no rows."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", call=str(path)) from None
    except UnicodeDecodeError as error:
        raise UsageError(f"byte {error.start} is not UTF-8", call=str(path)) from None
    return parse(text, str(path))


def parse(text: str, name: str) -> Table:
    """Parse CSV text; `name` stands for the file in messages."""
    reader = csv.reader(io.StringIO(text))
    try:
        head = next(reader, [])
        body = [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise UsageError(f"line {reader.line_num}: {error}", call=name) from None
    keys = [cell.strip().lower() for cell in head]
    if not any(keys):
        raise UsageError("has no head line with the names of its columns", call=name)
    twice = sorted({key for key in keys if key and keys.count(key) > 1})
    if twice:
        raise UsageError(f"two columns are named {twice[0]!r}", call=name)
    for line, row in body:
        if len(row) > len(head):
            raise UsageError(f"line {line} has {len(row)} cells, the head {len(head)}", call=name)
    rows = tuple(dict(zip(keys, row, strict=False)) for _, row in body)
    if not rows:
        raise UsageError("has no rows below its head line", call=name)
    return Table(name, tuple(head), rows, tuple(line for line, _ in body))


def operators(table: Table) -> list[str]:
    """The operator of each row, in lower case; rows without one are matrix products.

    Raises UsageError when there is neither a column `op` nor the columns M, N and K.
    """
    columns = {key for row in table.rows for key in row}
    if "op" not in columns:
        missing = [key.upper() for key in ("m", "n", "k") if key not in columns]
        if missing:
            raise UsageError(
                f"the columns op and {', '.join(missing)} are missing",
                call=table.name,
                next_step="Give op (matmul, softmax, all_reduce, …), or M, N and K for products.",
            )
    return [row.get("op", "").strip().lower() or "matmul" for row in table.rows]


def measured_us(table: Table) -> list[float]:
    """The measured time of each row in microseconds, by the unit in the column's name.

    Raises UsageError when no column holds times, or its name has no unit.
    """
    columns = {key for row in table.rows for key in row}
    for stem in _MEASURED:
        for unit, factor in UNITS_US.items():
            column = f"{stem}_{unit}"
            if column in columns:
                return [
                    table.number(i, column, least=1e-9) * factor for i in range(len(table.rows))
                ]
        if stem in columns:
            raise UsageError(
                f"the column {stem!r} has no unit",
                call=table.name,
                next_step=f"Name it {stem}_us, {stem}_ms, {stem}_s or {stem}_ns.",
            )
    raise UsageError(
        "there is no column of measured times",
        call=table.name,
        next_step="Name it measured_us (or _ms, _s, _ns).",
    )


def write(path: Path | None, table: Table, extra: Mapping[str, Sequence[Any]]) -> str:
    """Write a table with columns added, to a file or, for None, to the returned text alone.

    Raises UsageError when the path cannot be written.
    """
    out = io.StringIO()
    kept = [name for name in table.head if name.strip().lower() not in extra]
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*kept, *extra])
    for index, row in enumerate(table.rows):
        cells = [row.get(name.strip().lower(), "") for name in kept]
        writer.writerow([*cells, *(values[index] for values in extra.values())])
    text = out.getvalue()
    if path is not None:
        save(path, text)
    return text


def save(path: Path, text: str) -> None:
    """Write text to a file. Raises UsageError when the path cannot be written."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot be written: {error.strerror}", call=str(path)) from None
