"""What operators there are, and their kernels."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from hal import dtypes
from hal.errors import InvalidValue, NotFound
from hal.ir import Kernel, check, parse
from hal.ops.generated import GENERATED
from hal.ops.retype import fixed, retyped

__all__ = ["Operator", "domains", "get", "names", "operator"]

_LIBRARY = Path(__file__).parent / "library"


@dataclass(frozen=True, slots=True)
class Operator:
    """What the library says of an operator.

    Attributes:
        domain: What it belongs to, as `convolution`.
        meaning: One line.
        dtypes: What its arguments may be; the first is the default.
        law: Tolerance law of its results (`hal.testing.tolerance`).
        terms: How many numbers a sum adds, in params.
        keep: Arguments that stay f32.
        scalars, inputs, sizes: What samples are made of (`hal.ops.sample`).
        attributes: What a generated operator takes, with the defaults; empty for a text, whose
            attributes are its params.
    """

    name: str
    domain: str
    meaning: str
    dtypes: tuple[str, ...]
    law: str
    terms: str = "1"
    keep: tuple[str, ...] = ()
    scalars: Mapping[str, float | int] = field(default_factory=dict)
    inputs: Mapping[str, str] = field(default_factory=dict)
    sizes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The text for f32, with the default attributes."""
        if self.name in GENERATED:
            return GENERATED[self.name].write()
        return (_LIBRARY / f"{self.name}.hal").read_text(encoding="utf-8")


def names(domain: str | None = None) -> list[str]:
    """Names of all operators, or of one domain, in alphabetical order."""
    return sorted(n for n, item in _table().items() if domain in (None, item.domain))


def domains() -> list[str]:
    """Domains that have operators."""
    return sorted({item.domain for item in _table().values()})


def operator(name: str) -> Operator:
    """What the library says of an operator; raises NotFound."""
    table = _table()
    if name not in table:
        near = get_close_matches(name, table, n=2, cutoff=0.5)
        step = f"Did you mean {' or '.join(near)}?" if near else "hal.ops.names() lists them."
        raise NotFound(f"there is no operator {name}", call="ops.get", next_step=step)
    return table[name]


def get(name: str, dtype: str = "", **attributes: Any) -> Kernel:
    """The kernel of an operator.

    Args:
        dtype: Type of its arguments; the operator's first one by default.
        attributes: Params to fix, as `stride=2`; of a generated operator its own attributes.

    Raises:
        NotFound: there is no such operator.
        InvalidValue: the operator does not have that type or attribute.
    """
    found = operator(name)
    chosen = dtype or found.dtypes[0]
    if chosen not in found.dtypes:
        listed = " ".join(found.dtypes)
        what = f"{name} has no type {chosen}"
        raise InvalidValue(what, call="ops.get", next_step=f"It has: {listed}.")
    known = tuple(found.attributes) or _base(name).params
    for key in attributes:
        if key not in known and key not in _base(name).params:
            near = get_close_matches(key, known, n=1)
            step = f"Did you mean {near[0]}?" if near else f"It has: {', '.join(known)}."
            raise InvalidValue(f"{name} has no attribute {key}", call="ops.get", next_step=step)
    own = {key: value for key, value in attributes.items() if key in found.attributes}
    kernel = parse(GENERATED[name].write(**own), name).kernel() if own else _base(name)
    kernel = retyped(kernel, dtypes.by_name(chosen), found.keep)
    kernel = fixed(kernel, {key: v for key, v in attributes.items() if key not in own})
    check(kernel)
    return kernel


@cache
def _base(name: str) -> Kernel:
    return parse(operator(name).text, f"{name}.hal").kernel()


@cache
def _table() -> dict[str, Operator]:
    import yaml

    rows = yaml.safe_load((_LIBRARY / "operators.yaml").read_text(encoding="utf-8"))
    table = {name: _row(name, row) for name, row in rows.items()}
    for name, item in GENERATED.items():
        meaning = (item.write.__doc__ or "").splitlines()[0]
        defaults = {
            key: parameter.default
            for key, parameter in inspect.signature(item.write).parameters.items()
        }
        table[name] = Operator(
            name, item.domain, meaning, item.dtypes, item.law, item.terms, attributes=defaults
        )
    return table


def _row(name: str, row: Mapping[str, Any]) -> Operator:
    with (_LIBRARY / f"{name}.hal").open(encoding="utf-8") as text:
        meaning = text.readline().lstrip("# ").rstrip()
    return Operator(
        name,
        row["domain"],
        meaning,
        tuple(row["dtypes"]),
        row["law"],
        str(row.get("terms", "1")),
        tuple(row.get("keep", ())),
        row.get("scalars", {}),
        row.get("inputs", {}),
        row.get("sizes", {}),
    )
