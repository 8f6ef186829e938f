"""A program under construction: loads, stores and expressions on top of a Frame."""

from __future__ import annotations

from dataclasses import replace

from hal.codegen import symbolic
from hal.codegen.address import Addressed, address, linear
from hal.codegen.emit import Emitter
from hal.codegen.errors import CodegenError, Unsuited
from hal.codegen.frame import Frame
from hal.codegen.gathering_index import Joint, index_tile
from hal.codegen.placement import place_tiles
from hal.codegen.roles import ONE
from hal.dtypes import DType
from hal.ir import nodes as ir
from hal.vil.builder import TileHandle
from hal.vil.expressions import Const, Expr, symbols_of
from hal.vil.model import Param, Program, Value
from hal.vil.text_writer import descriptor_values

__all__ = ["Scope"]


class Scope(Frame):
    """One program. Strategies set roles, open loops, and ask for tiles of IR expressions.

    What it has beside its methods stands at Frame.
    """

    # ---- Memory ----

    def address(self, access: ir.Access, *, written: bool = False) -> Addressed:
        """The descriptor of an access under the roles that hold now."""
        return address(self, access, written=written)

    def load(
        self, access: ir.Access, *, space: str = "near", to: TileHandle | None = None
    ) -> TileHandle:
        """Loads an access in the array's dtype: R or 1 rows, C or 1 columns, as it depends.

        A gathered index must be uniform, or lie on the row axis alone.
        """
        found = self.address(access)
        rows = self.axes_of_tile["row"].length if found.rows else 1
        columns = self.axes_of_tile["column"].length if found.columns else 1
        dtype = self.lowering.array(access.array).dtype
        if found.gather is None:
            result = to or self.tile(dtype, rows, columns, space=space)
            self.p.load(result, found.descriptor)
            return result
        dimension, place = found.gather
        index = self.index_tile(place)
        result = to or self.tile(dtype, rows, columns, space=space)
        self.p.gather(result, found.descriptor, index, dim=dimension)
        self.release(index)
        return result

    def index_tile(self, place: ir.Expr | Joint) -> TileHandle:
        """A loaded index as an R × 1 tile of i32 or i64, for GATHER and SCATTER."""
        return index_tile(self, place)

    def store(self, access: ir.Access, tile: TileHandle, *, stream: bool = False) -> None:
        """Stores a tile, converted to the array's dtype and repeated where it is narrower."""
        found = self.address(access, written=True)
        if found.gather is not None:
            raise Unsuited("a store at loaded indices is a scatter")
        rows = self.axes_of_tile["row"].length if found.rows else 1
        columns = self.axes_of_tile["column"].length if found.columns else 1
        stored = self.convert(tile, self.lowering.array(access.array).dtype)
        whole = self.spread(stored, rows, columns)
        self.p.store(found.descriptor, whole, stream=stream)
        for item in {id(whole): whole, id(stored): stored}.values():
            if item is not tile:
                self.release(item)

    def scatter(self, function: str, access: ir.Access, tile: TileHandle) -> None:
        """Stores rows of a tile at loaded indices: function `set add max min`."""
        found = self.address(access, written=True)
        if found.gather is None:
            raise Unsuited("a scatter needs a loaded index")
        if function != "set":
            self.buffer(access.array, "read")
        dimension, place = found.gather
        index = self.index_tile(place)
        columns = self.axes_of_tile["column"].length if found.columns else 1
        rows = self.axes_of_tile["row"].length
        whole = self.spread(
            self.convert(tile, self.lowering.array(access.array).dtype), rows, columns
        )
        self.p.scatter(function, found.descriptor, whole, index, dim=dimension)
        self.release(index)
        if whole is not tile:
            self.release(whole)

    # ---- Expressions ----

    def value(self, expr: ir.Expr, *, want: DType | None = None) -> TileHandle:
        """A tile with the expression, in its compute dtype. The caller may release it.

        Args:
            want: Dtype of a weak literal that meets nothing else.
        """
        return Emitter(self, want).run(expr)

    def place(self, expr: ir.Expr) -> tuple[Value, Expr, Expr] | None:
        """An affine integer expression as base + row · r + column · c over tile elements.

        None when it has digits, loads, or is not affine.
        """
        try:
            found = linear(self, expr)
        except (Unsuited, CodegenError):
            return None
        if found.gather is not None:
            return None
        base: Value = found.base
        steps: dict[str, Expr] = {"row": Const(0), "column": Const(0)}
        for part in found.parts:
            if part.source == "sreg":
                base = self.total_with(base, part.sreg, part.coefficient)
                continue
            if part.size is not None or part.divisor != ONE:
                return None
            by = part.coefficient
            if part.source == "flat":
                width = self.axes_of_tile["column"].length
                steps["column"] = symbolic.plus(steps["column"], by)
                steps["row"] = symbolic.plus(steps["row"], symbolic.times(by, width))
                base = self.total_with(
                    base, self.axes_of_tile["row"].origin, symbolic.times(by, width)
                )
            else:
                steps[part.source] = symbolic.plus(steps[part.source], by)
                base = self.total_with(base, self.axes_of_tile[part.source].origin, by)
        return base, steps["row"], steps["column"]

    # ---- The end ----

    def build(self) -> Program:
        """The finished program: constants first, tiles placed, symbols declared."""
        program = self.p.build()
        instructions = (*self._first, *program.instructions)
        values: list[Value | None] = []
        for descriptor in program.descriptors:
            values += descriptor_values(descriptor)
        for item in instructions:
            values += item.values
            values += [ref.stage for ref in (item.d, item.a, item.b, item.c) if ref is not None]
        used = set().union(*(symbols_of(value) for value in values if isinstance(value, Expr)))
        order = [name for name in self.lowering.kernel.params if name in used]
        params = (*program.params, *(Param(name, "symbol") for name in order))
        whole = replace(program, params=params, instructions=instructions)
        return place_tiles(whole, self.target)
