"""How launches are timed."""

from __future__ import annotations

import pytest

from hal.tune import measuring


class Clock:
    """A clock that calls move on; the process does not."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(measuring.time, "perf_counter", lambda: self.now)


def test_the_shortest_of_single_calls_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    lengths = iter([3.0, 1.0, 5.0, 2.0])

    def call() -> None:
        clock.now += next(lengths)

    assert measuring.shortest_call_s(call, 10.0) == 1.0
    assert list(lengths) == []


def test_one_call_is_made_in_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    calls = []

    def call() -> None:
        calls.append(1)
        clock.now += 7.0

    assert measuring.shortest_call_s(call, 0.0) == 7.0
    assert len(calls) == 1
