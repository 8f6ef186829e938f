"""Validator: signatures, plans and bindings (docs/vil.md, sections 4.2 and 6)."""

from __future__ import annotations

from collections.abc import Iterator

from hal.vil.check_chip import Limits
from hal.vil.check_values import expression_problem, kind_problem, name_problems
from hal.vil.expressions import Const, Expr
from hal.vil.model import Argument, Binding, Kernel, Launch, Param
from hal.vil.module import Module
from hal.vil.problems import Problem

__all__ = ["kernel_problems"]

_READERS = ("read", "inout")
_WRITERS = ("write", "inout")


def kernel_problems(kernel: Kernel, module: Module, limits: Limits) -> Iterator[Problem]:
    """Every broken rule of one kernel."""
    where = f"kernel {kernel.name}"
    names = [item.name for item in kernel.arguments] + [item.name for item in kernel.workspaces]
    yield from name_problems(where, "names", names)
    yield from name_problems("module", "kernel", [kernel.name])
    symbols = [item.name for item in kernel.arguments if item.kind == "symbol"]

    def judge(place: str, expr: Expr | None) -> Iterator[Problem]:
        if expr is not None and (text := expression_problem(expr, symbols)):
            yield Problem(place, text, "structure")

    for index, item in enumerate(kernel.arguments):
        place = f"{where}, arg {item.name}"
        text = kind_problem(item.kind, item.dtype.name if item.dtype else None, item.access)
        if text:
            yield Problem(place, text, "structure")
        if (item.kind == "buffer") != (item.required_bytes is not None):
            yield Problem(place, "a buffer, and nothing else, has required bytes", "structure")
        yield from judge(place, item.required_bytes)
        earlier = [each.name for each in kernel.arguments[:index] if each.kind == "buffer"]
        if item.alias is not None and (item.kind != "buffer" or item.alias not in earlier):
            text = f"alias {item.alias} is not an earlier buffer argument"
            yield Problem(place, text, "structure")
    for workspace in kernel.workspaces:
        yield from judge(f"{where}, workspace {workspace.name}", workspace.bytes)
    for index, launch in enumerate(kernel.launches):
        place = f"{where}, launch {index} of {launch.program}"
        grid = launch.grid or ()
        expressions = [*grid, *(launch.block or ()), launch.scratch]
        for expr in [*expressions, *(binding.expression for binding in launch.bindings)]:
            yield from judge(place, expr)
        if launch.grid is not None and not 1 <= len(grid) <= 3:
            yield Problem(place, f"{len(grid)} grid axes; allowed 1 to 3", "structure")
        for axis in grid:
            if isinstance(axis, Const) and not 0 <= axis.value < 2**limits.grid_bits:
                text = f"a grid axis of {axis.value}; allowed 0 to 2^{limits.grid_bits} - 1"
                yield Problem(place, text, "chip")
        for text in _binding_problems(kernel, module, launch):
            yield Problem(place, text, "binding")


def _binding_problems(kernel: Kernel, module: Module, launch: Launch) -> Iterator[str]:
    programs = [item for item in module.programs if item.name == launch.program]
    if not programs:
        yield f"{launch.program} is not a program of the module"
        return
    params = programs[0].params
    if len(params) != len(launch.bindings):
        yield f"{len(launch.bindings)} arguments; the program has {len(params)} parameters"
        return
    arguments = {item.name: item for item in kernel.arguments}
    workspaces = {item.name for item in kernel.workspaces}
    used: dict[str, str] = {}
    for param, binding in zip(params, launch.bindings, strict=True):
        text = _one_binding(param, binding, arguments, workspaces)
        if text:
            yield f"parameter {param.name}: {text}"
        name = binding.argument or binding.workspace
        if param.kind == "buffer" and name is not None:
            before = used.get(name)
            if (before is not None and before != "read") or (before and param.access != "read"):
                yield f"parameter {param.name}: {name} is bound twice and written"
            used[name] = param.access if before is None or before == "read" else before


def _one_binding(
    param: Param, binding: Binding, arguments: dict[str, Argument], workspaces: set[str]
) -> str:
    given = [binding.argument, binding.workspace, binding.expression]
    if sum(item is not None for item in given) != 1:
        return "a binding is one of argument, workspace and expression"
    if param.kind == "symbol":
        return "" if binding.expression is not None else "a symbol takes an expression"
    if binding.expression is not None:
        return f"a {param.kind} takes a {param.kind}, not an expression"
    if binding.workspace is not None:
        if binding.workspace not in workspaces:
            return f"{binding.workspace} is not a workspace"
        return "" if param.kind == "buffer" else "a scalar does not take a workspace"
    assert binding.argument is not None
    argument = arguments.get(binding.argument)
    if argument is None or argument.kind != param.kind:
        return f"{binding.argument} is not a {param.kind} argument"
    if argument.dtype != param.dtype:
        return f"{argument.name} is {argument.dtype}, the parameter {param.dtype}"
    if param.kind == "scalar":
        return ""
    if param.access in _WRITERS and argument.access not in _WRITERS:
        return f"it is written, but {argument.name} is {argument.access}"
    if param.access in _READERS and argument.access not in _READERS:
        return f"it is read, but {argument.name} is {argument.access}"
    return ""
