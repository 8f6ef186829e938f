"""Params from the shapes of arrays, and the checks that go with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hal.ir.analysis import params_of, value_of
from hal.ir.errors import IrValueError
from hal.ir.nodes import Expr, Kernel, ParamRef
from hal.ir.show import show_expression
from hal.wording import counted

__all__ = ["bind", "full_params", "shapes_of"]


def bind(
    kernel: Kernel,
    shapes: Mapping[str, Sequence[int]],
    params: Mapping[str, int] | None = None,
) -> dict[str, int]:
    """Solve the params of a kernel.

    A param is found where an extent is that param, or a linear term in it alone, as `2 * M + 1`.

    Args:
        shapes: Of all arrays or of some.
        params: Those that are known; the shapes must agree.

    Returns:
        What is known, in the order of the declaration; a param that nothing tells is missing.

    Raises:
        IrValueError: an unknown name, another rank, or an extent that does not fit.
    """
    found = dict(params or {})
    for name in found:
        if name not in kernel.params:
            raise _wrong(kernel, f"it has no param {name}", f"It has: {_listed(kernel.params)}.")
    facts: list[tuple[str, int, Expr, int]] = []
    for name, shape in shapes.items():
        declared = {array.name: array.shape for array in kernel.arrays}.get(name)
        if declared is None:
            known = _listed(array.name for array in kernel.arrays)
            raise _wrong(kernel, f"it has no array {name}", f"It has: {known}.")
        if len(declared) != len(shape):
            what = (
                f"{name} has {counted(len(declared), 'dimension')}, the one given has {len(shape)}"
            )
            raise _wrong(kernel, what, f"Its shape is {_shape(declared)}.")
        facts += [
            (name, d, e, int(n)) for d, (e, n) in enumerate(zip(declared, shape, strict=True))
        ]
    while any(_learn(expr, size, found) for _, _, expr, size in facts):
        pass
    for name, dimension, expr, size in facts:
        if any(param not in found for param in params_of(expr)):
            continue
        value = value_of(expr, found)
        if value != size:
            known = ", ".join(f"{param} = {found[param]}" for param in params_of(expr))
            because = f" ({known})" if known and not isinstance(expr, ParamRef) else ""
            raise _wrong(
                kernel,
                f"dimension {dimension} of {name} is {show_expression(expr)} = {value}{because}, "
                f"the array given has {size}",
                "Give arrays whose shapes agree.",
            )
    for name, value in found.items():
        if value < 0:
            raise _wrong(kernel, f"the param {name} is {value}", "A size is 0 or more.")
    return {name: found[name] for name in kernel.params if name in found}


def full_params(kernel: Kernel, params: Mapping[str, int]) -> dict[str, int]:
    """The params, all of them; raises IrValueError where one is missing."""
    missing = [name for name in kernel.params if name not in params]
    if missing:
        what = f"no shape tells the param{'s' if len(missing) > 1 else ''} {_listed(missing)}"
        raise _wrong(kernel, what, f"Give {missing[0]} as a param.")
    return dict(params)


def shapes_of(kernel: Kernel, arrays: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Shapes of the arrays given; raises IrValueError where one is missing or of another type."""
    for item in kernel.arrays_of("input", "inout"):
        if item.name not in arrays:
            what = f"the {item.role} {item.name} is missing"
            raise _wrong(kernel, what, f"Give an array {item.dtype}{_shape(item.shape)}.")
        given = arrays[item.name].dtype
        if given != item.dtype.numpy:
            raise _wrong(
                kernel,
                f"{item.name} is {item.dtype}, the array given has {given}",
                f"Convert it: {item.name}.astype({item.dtype.numpy.name!r}).",
            )
    return {name: tuple(array.shape) for name, array in arrays.items()}


def _learn(expr: Expr, size: int, found: dict[str, int]) -> bool:
    """Solve an extent for its only unknown param; True when something was learnt."""
    unknown = [name for name in params_of(expr) if name not in found]
    if len(unknown) != 1:
        return False
    name = unknown[0]

    def at(value: int) -> int:
        return value_of(expr, found | {name: value})

    slope = at(1) - at(0)
    if slope == 0 or (size - at(0)) % slope:
        return False
    value = (size - at(0)) // slope
    if value < 0 or at(value) != size or at(value + 1) - size != slope:
        return False
    found[name] = value
    return True


def _wrong(kernel: Kernel, problem: str, next_step: str) -> IrValueError:
    return IrValueError(problem, call=kernel.name, next_step=next_step)


def _listed(names: Any) -> str:
    return ", ".join(names) or "none"


def _shape(shape: Sequence[Expr]) -> str:
    return f"[{', '.join(show_expression(part) for part in shape)}]"
