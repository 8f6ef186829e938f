"""Words of messages that go by a number."""

from __future__ import annotations

__all__ = ["counted"]


def counted(count: int, noun: str, plural: str = "") -> str:
    """A number with its noun: `1 case`, `2 cases`, `3 processes` for the plural `processes`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"
