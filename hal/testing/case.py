"""The decorator that makes a pytest function a certification case."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

__all__ = ["ATTRIBUTE", "WHOLE_MEMORY_S", "Case", "case"]

ATTRIBUTE = "hal_case"
"""Name of the attribute that carries a function's `Case`."""

DEFAULT_TIMEOUT_S = 20.0

WHOLE_MEMORY_S = 300.0
"""Limit in seconds of a case that takes most of a device's memory.

A device in the host's memory may touch each page of it: 12 GiB of zeros took 40 s on one machine.
"""

Function = TypeVar("Function", bound=Callable[..., object])


@dataclass(frozen=True)
class Case:
    """What a case says about itself.

    Attributes:
        rules: Ids of the registry that the case checks, for example `HAL-MEM-004`.
        negative: The case checks that something is refused.
        timeout_s: Wall-clock limit in seconds; the supervisor ends the case's process group then.
        needs: HCD paths that must be claimed; see `hal.testing.capability`.
        operator: Row of the report's heat map; empty when the case is not numeric.
        dtype: Column of the report's heat map; a case may also say it through `hal.testing.close`.
        soak: The case goes on for its share of `--budget`, on top of its limit.
    """

    rules: tuple[str, ...]
    negative: bool = False
    timeout_s: float = DEFAULT_TIMEOUT_S
    needs: tuple[str, ...] = ()
    operator: str = ""
    dtype: str = ""
    soak: bool = False


def case(
    *,
    rules: Sequence[str],
    negative: bool = False,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    needs: Sequence[str] = (),
    operator: str = "",
    dtype: str = "",
    soak: bool = False,
) -> Callable[[Function], Function]:
    """Make a pytest function a case of the certification.

    The tier is the folder, the group is the file and the id is `path::function[parameter]`. Ids
    never depend on the HCD: a shape around a tile is the parameter `tile-1`, not its number.

    Args:
        rules: At least one rule id; each must exist in the registry.
        negative: Set it when the case checks that something is refused.
        timeout_s: Limit in seconds of wall-clock time.
        needs: HCD paths without which the case is skipped, once all witnesses agree.
        operator: Row of the heat map for a numeric case.
        dtype: Column of the heat map for a numeric case.
        soak: Set it when the case uses the fixture `soak`.

    Raises:
        TypeError: no rule is given, or `rules` is one string.
    """
    if isinstance(rules, str) or not rules:
        raise TypeError(f"hal.testing.case: rules is {rules!r}; give a list of rule ids")
    record = Case(tuple(rules), negative, timeout_s, tuple(needs), operator, dtype, soak)

    def mark(function: Function) -> Function:
        setattr(function, ATTRIBUTE, record)
        return function

    return mark
