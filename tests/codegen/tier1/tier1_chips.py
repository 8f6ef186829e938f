"""Chips that run the fifteen operations of tier 1, for the tests of the lowering table."""

from __future__ import annotations

from dataclasses import dataclass

from hal.dtypes import DType

TIER1 = frozenset("load store fill iota un bin sel cast red mma trn loop end if sreg".split())


@dataclass(frozen=True)
class Fifteen:
    """Grants tier 1 alone; `narrow` leaves no i64 tile arithmetic."""

    features: frozenset[str] = frozenset()
    narrow: bool = False

    def supports(self, op: str, function: str = "", *types: DType) -> bool:
        return op in TIER1 and not (self.narrow and any(t.name == "i64" for t in types))


BARE = Fifteen()
WITH_REGISTERS = Fifteen(frozenset({"sreg_from_tile"}))
NARROW = Fifteen(narrow=True)
EVERY = {"bare": BARE, "registers": WITH_REGISTERS, "narrow": NARROW}
