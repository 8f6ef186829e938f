"""The strategy for calls that see a whole axis: scan, argmax, argmin, topk, sort, concat.

One walk along the axis with a running result takes every length; see `named_fold` and
`named_order`. A concat is one plain statement for each operand. An operand that cannot lie on the
axis (a subscript loaded along it, philox) is computed into a workspace before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hal import dtypes
from hal.codegen import symbolic
from hal.codegen.lowering import Lowering
from hal.codegen.named_fold import position, scan
from hal.codegen.named_order import entry_index, order
from hal.codegen.named_walk import Match, Plan, is_mixed, plans, renamed, value_dtype
from hal.codegen.parts import free_index, lower_statements, new_array
from hal.codegen.shapes import size_of, statement_bytes
from hal.codegen.target import Target
from hal.ir.analysis import concat_extents, dtype_of, index_extents
from hal.ir.nodes import Access, Assign, Call, Const, Expr, Extent, Index, Kernel, NamedCall

__all__ = ["candidates", "cost", "lower", "match"]

LIST_COLUMNS = 64
"""Entries of a list where nothing says how many are wanted."""
MOST_LIST_COLUMNS = 1024


def match(kernel: Kernel, statements: Sequence[Assign], target: Target) -> Match | None:
    """Takes the first statement where its value is a named call."""
    first = statements[0]
    return Match(kernel, (first,)) if isinstance(first.value, NamedCall) else None


def candidates(match: Match, target: Target, sizes: Mapping[str, int]) -> list[Plan]:
    """Where the indices may lie, the most promising first."""
    if match.call.function == "concat":
        return [Plan(1, (), (), 1, 1)]
    is_ordered = match.call.function in ("topk", "sort")
    found = plans(match, target, sizes, columns=is_ordered)
    if not is_ordered:
        return found
    count = match.extents[entry_index(match)]
    wanted = symbolic.constant(count)
    if wanted is None:
        wanted = size_of(count, sizes) if sizes else LIST_COLUMNS
    kind = value_dtype(match.kernel, match.operand)
    has_topk = target.supports("topk", "", kind)
    result = []
    for plan in found:
        most = max(1, target.limits.max_tile_bytes // 8 // plan.height)
        width = target.rounded_columns(max(1, min(wanted, MOST_LIST_COLUMNS, most)))
        plan = replace(plan, list_width=width)
        if not has_topk:  # then the list and the tile share the shapes of their masks
            plan = replace(plan, width=width)
        result.append(plan)
    return result


def cost(match: Match, choice: Plan, target: Target, sizes: Mapping[str, int]) -> float:
    """Seconds: what is moved, once."""
    moved = statement_bytes(match.kernel, match.statement, sizes)
    return target.launch_s + moved / target.bandwidth_bytes_per_s


def lower(lowering: Lowering, match: Match, choice: Plan) -> None:
    """Adds the launches of the statement."""
    function = match.call.function
    if function == "concat":
        _concat(lowering, match)
    elif is_mixed(match.operand, match.call.axis):
        _computed_first(lowering, match)
    elif function.startswith("scan"):
        scan(lowering, match, choice)
    elif function.startswith("arg"):
        position(lowering, match, choice)
    else:
        order(lowering, match, choice)
    lowering.started(match.statement)


def _computed_first(lowering: Lowering, match: Match) -> None:
    """The operand goes to a workspace, and the call reads that."""
    extents = index_extents(lowering.kernel, match.statement)
    names = (*match.others, match.call.axis)
    dtype = dtype_of(lowering.kernel, match.operand)
    if dtype is None or dtype == dtypes.bool_:
        dtype = value_dtype(lowering.kernel, match.operand)
    array = new_array(lowering, "operand", dtype, [extents[name] for name in names])
    access = Access(array.name, tuple(Index(name) for name in names))
    lower_statements(lowering, [Assign((access,), "=", match.operand)])
    call = replace(match.call, operands=(access,))
    lower_statements(lowering, [replace(match.statement, value=call)], ("named",))


def _concat(lowering: Lowering, match: Match) -> None:
    """One statement for each operand, its index moved by what lies before."""
    call, statement = match.call, match.statement
    sizes = concat_extents(lowering.kernel, call, statement)
    taken = set(index_extents(lowering.kernel, statement)) | set(lowering.kernel.params)
    taken |= {item.name for item in lowering.kernel.extents}
    before: Expr = Const(0)
    for operand, size in zip(call.operands, sizes, strict=True):
        name = free_index(taken, f"{call.axis}_part")
        lowering.kernel = replace(
            lowering.kernel, extents=(*lowering.kernel.extents, Extent(name, size))
        )
        moved = Index(name) if before == Const(0) else Call("add", (Index(name), before))
        indices = tuple(moved if i == Index(call.axis) else i for i in statement.target.indices)
        target = replace(statement.target, indices=indices)
        value = renamed(operand, call.axis, name)
        lower_statements(lowering, [Assign((target,), "=", value)])
        before = size if before == Const(0) else Call("add", (before, size))
