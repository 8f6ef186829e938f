"""What a run shows while it goes on: a bar on a terminal, plain lines in a log."""

from __future__ import annotations

import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from hal.certify import results as outcome
from hal.certify.causes import likeness

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

__all__ = ["Progress"]

PLAIN_EVERY_S = 5.0
ALIKE_SHOWN = 5
"""Failures that look alike and are shown while it runs; the summary has all by cause."""


class Progress:
    """Counts results and shows them.

    Args:
        title: What runs, as `cpu, tier 2`.
        total: How many cases there are.
        live: Whether to draw a bar; default when the error stream is a terminal.
        quiet: Show nothing at all.
        names: Words for what passed and for what failed.
    """

    def __init__(
        self,
        title: str,
        total: int,
        *,
        live: bool | None = None,
        quiet: bool = False,
        names: tuple[str, str] = ("pass", "fail"),
    ) -> None:
        self.names = names
        self.title = title
        self.total = total
        self.counts: Counter[str] = Counter()
        self._alike: Counter[tuple[str, str]] = Counter()
        self.quiet = quiet
        self._live = sys.stderr.isatty() if live is None else live
        self._bar: Bar | None = None
        self._task: TaskID | None = None
        self._last = time.monotonic()
        self._width = len(str(total))

    def __enter__(self) -> Progress:
        if self.quiet:
            return self
        if self._live:
            self._start_bar()
        else:
            self._say(f"{self.title}: {self.total} cases")
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
        elif not self.quiet:
            self._line()

    def _start_bar(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed}/{task.total}"),
            TextColumn("{task.fields[counts]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._bar.start()
        self._task = self._bar.add_task(self.title, total=self.total, counts="")

    def add(self, result: dict[str, Any]) -> None:
        """Count a result; what is bad is shown at once."""
        status = result["status"]
        self.counts[status] += 1
        if self.quiet:
            return
        if status in outcome.BAD:
            first = result["message"].splitlines()[0] if result["message"] else ""
            self._alike[key := (status, likeness(first))] += 1
            if self._alike[key] <= ALIKE_SHOWN:
                self._show(f"{status:5} {result['id']}: {first[:160]}")
            elif self._alike[key] == ALIKE_SHOWN + 1:
                self._show(f"{status:5} … more of this are counted alone: {key[1]}")
        self.step()

    def step(self) -> None:
        """Show that one more is done; who calls it alone counts for itself."""
        if self.quiet:
            return
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, advance=1, counts=self._text())
        elif time.monotonic() - self._last >= PLAIN_EVERY_S:
            self._line()

    def _text(self) -> str:
        bad = sum(self.counts[status] for status in outcome.BAD)
        parts = [f"{self.counts[outcome.PASS]} {self.names[0]}"]
        if bad:
            parts.append(f"{bad} {self.names[1]}")
        if self.counts[outcome.SKIP]:
            parts.append(f"{self.counts[outcome.SKIP]} skip")
        return ", ".join(parts)

    def _line(self) -> None:
        self._last = time.monotonic()
        done = sum(self.counts.values())
        self._say(f"{done:{self._width}}/{self.total}  {self._text()}")

    def _show(self, line: str) -> None:
        if self._bar is not None:
            self._bar.console.print(line, markup=False, highlight=False, soft_wrap=True)
        else:
            self._say(line)

    @staticmethod
    def _say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)
