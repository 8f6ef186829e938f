"""A length of time as an option takes it."""

from __future__ import annotations

import re

import click

__all__ = ["seconds"]


def seconds(context: click.Context, param: click.Parameter, value: str) -> float:
    """`30s`, `2m` or `30` as seconds above zero: the callback of an option.

    Raises:
        click.BadParameter: the text is no such time.
    """
    del context
    found = re.fullmatch(r"([0-9]*\.?[0-9]+)\s*(s|m|min)?", value.strip())
    if found is None or float(found[1]) <= 0:
        raise click.BadParameter(f"{value!r} is no time; write 30s or 2m", param=param)
    return float(found[1]) * (60 if found[2] in ("m", "min") else 1)
