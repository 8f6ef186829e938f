"""From the subscripts of an access to a descriptor: bases, digits, coefficients, bounds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from hal.codegen import symbolic
from hal.codegen.errors import CodegenError, Unsuited
from hal.codegen.frame import Frame
from hal.codegen.gathering_index import Joint, is_loaded, scaled, summed
from hal.codegen.roles import ONE, Fixed, Part, Placed, TileAxis
from hal.ir import nodes as ir
from hal.ir.analysis import affine, indices_of
from hal.vil.builder import DescriptorHandle
from hal.vil.expressions import Const, Expr
from hal.vil.model import Axis, Digit, Dimension, SReg, Term
from hal.wording import counted

__all__ = ["Addressed", "Linear", "address", "linear"]

MOST_DIGITS = 3
MOST_DIMENSIONS = 5


@dataclass(frozen=True, slots=True)
class Linear:
    """base + Σ parts.

    Attributes:
        gather: What the coordinate gets added row by row: a whole-number expression with loaded
            values, or several subscripts at once; None without.
    """

    base: Expr
    parts: tuple[Part, ...]
    gather: ir.Expr | Joint | None = None


@dataclass(frozen=True, slots=True)
class _Coordinate:
    value: Linear
    extent: Expr
    stride: Expr
    inside: bool  # proven: never outside of the dimension

    @property
    def axes(self) -> frozenset[str]:
        return frozenset(part.source for part in self.value.parts if part.source != "sreg")


@dataclass(frozen=True, slots=True)
class Addressed:
    """A descriptor with what an instruction must know beside it.

    Attributes:
        rows, columns: The address depends on that tile axis.
        gather: (dimension, index) of a gather.
    """

    descriptor: DescriptorHandle
    rows: bool
    columns: bool
    gather: tuple[int, ir.Expr | Joint] | None = None


def address(scope: Frame, access: ir.Access, *, written: bool = False) -> Addressed:
    """Adds the descriptor of an access under the roles that hold now.

    Args:
        written: It is for a store, so the array is written.

    Raises:
        Unsuited: the roles do not allow it (too many digits, or a digit of a digit).
    """
    array = scope.lowering.array(access.array)
    coordinates = _coordinates(scope, access)
    gathers = [(n, c.value.gather) for n, c in enumerate(coordinates) if c.value.gather]
    digits: dict[str, list[tuple[Expr, Expr | None]]] = {"row": [], "column": []}
    dimensions = [_dimension(scope, item, digits) for item in coordinates]
    axes = {name: _axis(scope, name, places) for name, places in digits.items()}
    handle = scope.p.descriptor(
        scope.buffer(access.array, "write" if written else "read"),
        dimensions,
        row=axes["row"],
        column=axes["column"],
        fill=_fill(access, array.dtype.kind),
    )
    first = gathers[0] if gathers else None
    return Addressed(
        handle,
        bool(digits["row"]) or bool(gathers),
        bool(digits["column"]),
        None if first is None or first[1] is None else (first[0], first[1]),
    )


def _fill(access: ir.Access, kind: str) -> float | int:
    pad = 0 if access.pad is None else access.pad
    return float(pad) if kind in ("float", "float8") else int(pad)


def _axis(scope: Frame, name: str, places: Sequence[tuple[Expr, Expr | None]]) -> Axis:
    if not places:
        return Axis()
    axis: TileAxis = scope.axes_of_tile[name]
    origin = None if axis.origin == Const(0) else axis.origin
    digits = tuple(Digit(size, divisor) for divisor, size in places)
    return Axis(origin, axis.limit, digits)


def _coordinates(scope: Frame, access: ir.Access) -> list[_Coordinate]:
    shape = scope.lowering.shape(access.array)
    if len(shape) != len(access.indices):
        has = counted(len(shape), "dimension")
        text = f"{access.array} has {has}, the access {len(access.indices)}"
        raise CodegenError(text, span=access.span)
    found: list[_Coordinate] = []
    stride: Expr = ONE
    for subscript, extent in reversed(list(zip(access.indices, shape, strict=True))):
        value = linear(scope, subscript)
        found.append(_Coordinate(value, extent, stride, _inside(scope, subscript, extent)))
        stride = symbolic.times(stride, extent)
    found.reverse()
    if not found:
        return [_Coordinate(Linear(Const(0), ()), ONE, ONE, True)]
    if sum(item.value.gather is not None for item in found) > 1:
        found = _joint(access, found)
    merged = _merged(found, lambda a, b: a.axes == b.axes and bool(a.axes))
    if len(merged) > MOST_DIMENSIONS:
        merged = _merged(merged, lambda a, b: not a.axes or not b.axes)
    if len(merged) > MOST_DIMENSIONS:
        merged = _merged(merged, lambda a, b: True)
    while len(merged) > MOST_DIMENSIONS:
        merged = _checked(scope, merged)
    return merged


def _joint(access: ir.Access, items: list[_Coordinate]) -> list[_Coordinate]:
    """Several loaded subscripts as one dimension of elements, up to the last that they reach."""
    parts: list[tuple[ir.Expr, Expr, Expr]] = []
    rest: list[_Coordinate] = []
    reach: Expr = ONE
    for subscript, item in zip(access.indices, items, strict=True):
        if item.value.gather is None:
            rest.append(item)
            continue
        parts.append((subscript, item.extent, item.stride))
        reach = symbolic.plus(reach, symbolic.times(symbolic.plus(item.extent, -1), item.stride))
    whole = Linear(Const(0), (), Joint(tuple(parts)))
    return [_Coordinate(whole, reach, ONE, False), *rest]


def _inside(scope: Frame, subscript: ir.Expr, extent: Expr) -> bool:
    """True when the subscript is proven to lie in [0, extent)."""
    if isinstance(subscript, ir.Index):
        known = scope.extents.get(subscript.name)
        return known is not None and symbolic.equal(known, extent)
    size = symbolic.constant(extent)
    if isinstance(subscript, ir.Const) and size is not None:
        return 0 <= int(subscript.value) < size
    return False


def _merged(items: list[_Coordinate], may: object) -> list[_Coordinate]:
    """Neighbours that are proven inside, put together where `may` says so."""
    result: list[_Coordinate] = []
    for item in items:
        before = result[-1] if result else None
        joined = None
        if before is not None and may(before, item):  # type: ignore[operator]
            joined = _joined(before, item)
        if joined is None:
            result.append(item)
        else:
            result[-1] = joined
    return result


def _joined(outer: _Coordinate, inner: _Coordinate) -> _Coordinate | None:
    plain = outer.value.gather is None and inner.value.gather is None
    if not (outer.inside and inner.inside and plain):
        return None
    size = inner.extent
    parts = [
        replace(part, coefficient=symbolic.times(part.coefficient, size))
        for part in outer.value.parts
    ]
    base = symbolic.plus(symbolic.times(outer.value.base, size), inner.value.base)
    value = Linear(base, _merge_digits((*parts, *inner.value.parts)))
    return _Coordinate(value, symbolic.times(outer.extent, size), inner.stride, True)


def _checked(scope: Frame, items: list[_Coordinate]) -> list[_Coordinate]:
    """One dimension fewer: two neighbours without digits, their bounds judged by SREGs."""
    for number in range(len(items) - 1):
        pair = items[number : number + 2]
        if any(item.axes or item.value.gather for item in pair):
            continue
        size = pair[1].extent
        inner, outer = (scope.total(item.value.base, item.value.parts) for item in reversed(pair))
        place = scope.compute("add", scope.compute("mul", outer, size), inner)
        good = scope.within(outer, pair[0].extent)
        good = scope.compute("mul", good, scope.within(inner, size))
        place = scope.compute("sel", good, place, Const(-1))
        base = place if isinstance(place, Expr) else Const(0)
        parts = (Part("sreg", ONE, sreg=place),) if isinstance(place, SReg) else ()
        whole = symbolic.times(pair[0].extent, size)
        one = _Coordinate(Linear(base, parts), whole, pair[1].stride, False)
        return [*items[:number], one, *items[number + 2 :]]
    raise Unsuited(f"{len(items)} dimensions; a descriptor has at most {MOST_DIMENSIONS}")


def linear(scope: Frame, expr: ir.Expr) -> Linear:
    """An integer expression as base + Σ coefficient · (digit or SREG).

    Raises:
        Unsuited: it is not that under the roles that hold now.
        CodegenError: it is not affine.
    """
    if _is_register(scope, expr):
        value = scope.integer(expr)
        if isinstance(value, SReg):
            return Linear(Const(0), (Part("sreg", ONE, sreg=value),))
        return Linear(value, ())
    found = affine(expr)
    if found is None and is_loaded(expr):
        return Linear(Const(0), (), expr)
    if found is None:
        raise CodegenError("a subscript must be affine in the indices", span=_span(expr))
    base = symbolic.from_ir(found.base)
    parts: list[Part] = []
    gather: ir.Expr | None = None
    for term, by in found.terms:
        coefficient = symbolic.from_ir(by)
        if is_loaded(term) and not _is_register(scope, term):
            gather = summed(gather, scaled(term, by))
        elif scope.is_uniform(term):
            value = scope.integer(term)
            if isinstance(value, SReg):
                parts.append(Part("sreg", coefficient, sreg=value))
            else:
                base = symbolic.plus(base, symbolic.times(value, coefficient))
        else:
            divisor, size, axis = _digit(scope, term)
            parts.append(Part(axis, coefficient, divisor, size))
    return Linear(base, _merge_digits(parts), gather)


def _is_register(scope: Frame, expr: ir.Expr) -> bool:
    """True when the expression is one number in all of a tile, and can be read as such."""
    readable = "sreg_from_tile" in scope.target.features or not is_loaded(expr)
    return readable and scope.is_uniform(expr)


def _span(expr: ir.Expr) -> ir.Span | None:
    return next((s for e in ir.walk(expr) if (s := getattr(e, "span", None)) is not None), None)


def _digit(scope: Frame, term: ir.Expr) -> tuple[Expr, Expr | None, str]:
    """(divisor, size, axis) of an index on an axis, or of `//` and `%` of one."""
    if isinstance(term, ir.Index):
        role = scope.role(term.name)
        assert isinstance(role, Placed)
        return role.divisor, role.size, role.axis
    assert isinstance(term, ir.Call)
    divisor, size, axis = _digit(scope, term.operands[0])
    by = symbolic.from_ir(term.operands[1])
    if term.function == "idiv":
        return symbolic.times(divisor, by), _shrunk(size, by), axis
    if size is not None:
        _shrunk(size, by)
    return divisor, by, axis


def _shrunk(size: Expr | None, by: Expr) -> Expr | None:
    """size / by, which must be whole: otherwise a digit of a digit is no digit."""
    if size is None:
        return None
    whole, part = symbolic.constant(size), symbolic.constant(by)
    if whole is None or not part or whole % part:
        raise Unsuited("// or % of an index that is not the outermost of its axis")
    return Const(whole // part)


def _merge_digits(parts: Iterable[Part]) -> tuple[Part, ...]:
    """Digits that follow one another, with matching coefficients, become one."""
    items = [part for part in parts if part.coefficient != Const(0)]
    changed = True
    while changed:
        changed = False
        for outer in items:
            inner = next((item for item in items if _follows(outer, item)), None)
            if inner is None or inner.size is None:
                continue
            size = None if outer.size is None else symbolic.times(outer.size, inner.size)
            items[items.index(inner)] = replace(inner, size=size)
            items.remove(outer)
            changed = True
            break
    return tuple(items)


def _follows(outer: Part, inner: Part) -> bool:
    return (
        outer.source == inner.source != "sreg"
        and outer is not inner
        and inner.size is not None
        and symbolic.equal(symbolic.times(inner.divisor, inner.size), outer.divisor)
        and symbolic.equal(symbolic.times(inner.coefficient, inner.size), outer.coefficient)
    )


@dataclass(slots=True)
class _Terms:
    items: list[Term] = field(default_factory=list)


def _dimension(
    scope: Frame, item: _Coordinate, digits: dict[str, list[tuple[Expr, Expr | None]]]
) -> Dimension:
    terms = _Terms()

    def add(axis: str, part: Part, coefficient: Expr) -> None:
        place = (part.divisor, part.size)
        if place not in digits[axis]:
            digits[axis].append(place)
        if len(digits[axis]) > MOST_DIGITS:
            raise Unsuited(f"more than {MOST_DIGITS} digits of the {axis} axis")
        terms.items.append(Term(axis, digits[axis].index(place), coefficient))

    for part in item.value.parts:
        if part.source == "sreg":
            assert part.sreg is not None
            terms.items.append(Term("sreg", part.sreg.index, part.coefficient))
        elif part.source == "flat":
            if part.size is not None or part.divisor != ONE:
                raise Unsuited("an index in two tile axes is not alone in its subscript")
            width = scope.axes_of_tile["column"].length
            add("row", part, symbolic.times(part.coefficient, width))
            add("column", part, part.coefficient)
        else:
            add(part.source, part, part.coefficient)
    return Dimension(item.extent, item.stride, item.value.base, tuple(terms.items))


def uses_axis(scope: Frame, expr: ir.Expr) -> bool:
    """True when an index of the expression lies on a tile axis."""
    return any(not isinstance(scope.role(name), Fixed) for name in indices_of(expr))
