"""Parts of expressions that several statements of a program need: computed once, kept in a tile."""

from __future__ import annotations

from collections.abc import Sequence

from hal.codegen.scope import Scope
from hal.dtypes import DType
from hal.ir.nodes import Access, Assign, Call, Cast, Expr, children
from hal.ir.passes.rewriting import accesses
from hal.vil.builder import TileHandle

__all__ = ["Values"]


class Values:
    """Tiles of the values of consecutive statements, with what they share computed once.

    `take` is called once for each statement, in order; `bind` says which tile holds what a
    statement wrote. A tile is released after the last statement that needs it.
    """

    def __init__(self, scope: Scope, statements: Sequence[Assign]) -> None:
        self._scope = scope
        self._statements = list(statements)
        self._position = 0
        self._last = _last_uses(self._statements)
        self._bound: dict[Expr, str] = {}

    def take(self, statement: Assign, operand: Expr, *, want: DType | None = None) -> TileHandle:
        """The tile of an operand of the next statement. `give_back` it afterwards."""
        assert statement is self._statements[self._position]
        for part in self._shared(operand):
            if part not in self._scope.bindings:
                self._scope.bindings[part] = self._scope.value(part)
                self._bound[part] = repr(part)
        bound = self._scope.bindings.get(operand)
        if bound is not None and (want is None or bound.tile.dtype == want):
            return bound
        return self._scope.value(operand, want=want)

    def give_back(self, tile: TileHandle) -> None:
        """Release a tile unless something is bound to it."""
        if all(tile.index != other.index for other in self._scope.bindings.values()):
            self._scope.release(tile)

    def bind(self, target: Access, tile: TileHandle) -> None:
        """From here on `target` is in this tile."""
        self._scope.bindings[target] = tile
        self._bound[target] = repr(target)

    def next(self) -> None:
        """The statement is done: what no later one needs is released."""
        for part, key in list(self._bound.items()):
            if self._last.get(key, -1) <= self._position:
                tile = self._scope.bindings.pop(part)
                del self._bound[part]
                self.give_back(tile)
        self._position += 1

    def close(self) -> None:
        """Release all that is bound still."""
        for part in list(self._bound):
            tile = self._scope.bindings.pop(part)
            self.give_back(tile)
        self._bound.clear()

    def _shared(self, expr: Expr) -> list[Expr]:
        """The largest parts that a later statement needs too and that hold the same then."""
        if expr in self._scope.bindings:
            return []
        if isinstance(expr, Access | Call | Cast):
            last = self._last.get(repr(expr), -1)
            changes = {
                target.array
                for item in self._statements[self._position : last]
                for target in item.targets
            }
            if last > self._position and not changes & {a.array for a in accesses(expr)}:
                return [expr]
        below = () if isinstance(expr, Access) else children(expr)
        return [part for child in below for part in self._shared(child)]


def _last_uses(statements: Sequence[Assign]) -> dict[str, int]:
    """Text of each part -> position of the last statement that has it."""
    found: dict[str, int] = {}
    for position, item in enumerate(statements):
        stack: list[Expr] = [item.value]
        while stack:
            part = stack.pop()
            if isinstance(part, Access | Call | Cast):
                found[repr(part)] = position
            stack += [] if isinstance(part, Access) else children(part)
    return found
