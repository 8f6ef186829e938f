"""Rows that fit a tile: one program holds a block of whole rows from the first load to the end."""

from __future__ import annotations

from collections.abc import Mapping

from hal.codegen import symbolic
from hal.codegen.choice import Choice
from hal.codegen.lowering import Lowering
from hal.codegen.rows_emit import accumulator_of, combine, keep, operand_of, reduced
from hal.codegen.rows_match import RowGroup
from hal.codegen.rows_parts import Values
from hal.codegen.scope import Scope
from hal.ir.nodes import ASSIGNMENTS, Assign, NamedCall
from hal.vil.expressions import Expr as VilExpr

__all__ = ["program", "tiles_at_once"]


def tiles_at_once(group: RowGroup) -> int:
    """Tiles as long as a row that live at once, at most: one for each statement's value and two."""
    return 2 + sum(1 for item in group.statements if group.is_full(item))


def program(
    lowering: Lowering, group: RowGroup, extents: Mapping[str, VilExpr], choice: Choice
) -> Scope:
    """The program; its grid counts blocks of rows."""
    height = choice.length("rows")
    stream = bool(dict(choice.tiles).get("stream"))
    scope = lowering.program("rows", extents=extents)
    total = symbolic.product(extents[name] for name in group.rows)
    with scope.grid(symbolic.ceil_ratio(total, height)) as (block,):
        scope.rows(*group.rows, length=height, origin=scope.compute("mul", block, height))
        scope.columns(*group.columns, length=choice.length("columns"))
        values = Values(scope, group.statements)
        for statement in group.statements:
            _statement(scope, group, values, statement, stream)
            values.next()
        values.close()
    return scope


def _statement(
    scope: Scope, group: RowGroup, values: Values, statement: Assign, stream: bool
) -> None:
    lowering = scope.lowering
    dtype = lowering.array(statement.target.array).dtype
    if isinstance(statement.value, NamedCall):
        tile = operand_of(scope, values, statement, None)
        result = reduced(scope, statement.value.function, tile, dtype)
        values.give_back(tile)
    elif statement.is_reduction:
        kind = accumulator_of(lowering, statement)
        tile = operand_of(scope, values, statement, kind)
        result = reduced(scope, ASSIGNMENTS[statement.assignment], tile, kind)
        values.give_back(tile)
        combine(scope, statement, result)
    else:
        result = values.take(statement, statement.value, want=dtype)
    values.bind(statement.target, keep(scope, values, group, statement, result, stream=stream))
