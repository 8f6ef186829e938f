"""Global memory for the tiles that near memory has no room for: a workspace of the plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hal.codegen.dialect.language import Dialect
from hal.dtypes import u8
from hal.errors import HcdError
from hal.vil.expressions import Binary, Const, Expr
from hal.vil.model import Binding, Kernel, Launch, Param, Workspace
from hal.vil.module import Module

__all__ = ["FAR", "with_far_memory"]

FAR = "hal_far"
"""The parameter of a program that has such memory."""


def with_far_memory(module: Module, bytes_: Mapping[str, int], language: Dialect) -> Module:
    """The module with a workspace for each launch of the programs that need one.

    Args:
        bytes_: Program to the bytes that one of its instances needs.

    Raises:
        HcdError: a launch takes the caller's grid, for which no workspace can be told.
    """
    programs = tuple(
        replace(item, params=(*item.params, Param(FAR, "buffer", u8, "inout")))
        if item.name in bytes_
        else item
        for item in module.programs
    )
    kernels = tuple(_kernel(kernel, bytes_, language) for kernel in module.kernels)
    return replace(module, programs=programs, kernels=kernels)


def _kernel(kernel: Kernel, bytes_: Mapping[str, int], language: Dialect) -> Kernel:
    spaces: list[Workspace] = []
    launches: list[Launch] = []
    for launch in kernel.launches:
        if launch.program in bytes_:
            name = f"{FAR}_{len(spaces)}"
            spaces.append(Workspace(name, _length(launch, bytes_[launch.program], language)))
            launch = replace(launch, bindings=(*launch.bindings, Binding(workspace=name)))
        launches.append(launch)
    return replace(kernel, workspaces=(*kernel.workspaces, *spaces), launches=tuple(launches))


def _length(launch: Launch, bytes_: int, language: Dialect) -> Expr:
    if launch.grid is None:
        raise HcdError(
            f"program {launch.program}: its tiles need {bytes_} bytes more than the "
            f"{language.near_bytes} of near memory that a program has, and its grid is the "
            "caller's, so that no workspace can be made for them",
            call=language.source,
            next_step="Give the launch a grid over the symbols, or use smaller tiles.",
        )
    total: Expr = Const(bytes_)
    for axis in launch.grid:
        total = Binary("*", total, axis)
    return total
