"""What follows from a kernel: inlined lets, index ranges, dtypes, affine subscripts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from hal import dtypes
from hal.dtypes import DType
from hal.ir.nodes import (
    Access,
    Assign,
    Call,
    Cast,
    Const,
    Expr,
    Index,
    Kernel,
    Let,
    LetRef,
    NamedCall,
    ParamRef,
    ScalarRef,
    transform,
    walk,
)

__all__ = [
    "Affine",
    "affine",
    "compute_dtype",
    "concat_extents",
    "dtype_of",
    "index_extents",
    "indices_of",
    "inline_lets",
    "params_of",
    "reduced_indices",
    "value_of",
]

COMPARISONS = frozenset({"lt", "le", "eq", "ne", "isnan"})


def inline_lets(kernel: Kernel) -> Kernel:
    """The kernel with each let put where its name stands; a let sees those before it."""
    values: dict[str, Expr] = {}

    def put(expr: Expr) -> Expr:
        return transform(expr, lambda e: values[e.name] if isinstance(e, LetRef) else e)

    statements: list[Assign] = []
    for item in kernel.statements:
        if isinstance(item, Let):
            values[item.name] = put(item.value)
            continue
        targets = tuple(put(target) for target in item.targets)
        kept = tuple(target for target in targets if isinstance(target, Access))
        statements.append(replace(item, targets=kept, value=put(item.value)))
    return replace(kernel, statements=tuple(statements))


def indices_of(expr: Expr) -> tuple[str, ...]:
    """Names of the indices below an expression, in the order of their first mention."""
    return tuple(dict.fromkeys(item.name for item in walk(expr) if isinstance(item, Index)))


def params_of(expr: Expr) -> tuple[str, ...]:
    """Names of the params below an expression, in the order of their first mention."""
    return tuple(dict.fromkeys(item.name for item in walk(expr) if isinstance(item, ParamRef)))


def reduced_indices(statement: Assign) -> tuple[str, ...]:
    """Indices that stand only on the right (lets inlined), in the order of their first mention."""
    kept = {name for target in statement.targets for name in indices_of(target)}
    names = [name for name in indices_of(statement.value) if name not in kept]
    if isinstance(statement.value, NamedCall) and statement.value.function == "concat":
        names = [name for name in names if name != statement.value.axis]
    return tuple(names)


def index_extents(kernel: Kernel, statement: Assign) -> dict[str, Expr]:
    """Extent of each index of a statement (lets inlined).

    A declared extent counts first, then a dimension that the bare index subscripts: of a target,
    else of an access without pad, else of any. An index that none bounds is missing here; that two
    dimensions disagree is for the verifier to say.
    """
    found = {item.name: item.size for item in kernel.extents}
    reads = [item for item in walk(statement.value) if isinstance(item, Access)]
    inner = [item for target in statement.targets for item in walk(target)]
    reads += [item for item in inner if isinstance(item, Access) and item not in statement.targets]
    ordered = [*statement.targets, *(r for r in reads if r.pad is None), *reads]
    for access in ordered:
        for subscript, extent in zip(
            access.indices, kernel.array(access.array).shape, strict=False
        ):
            if isinstance(subscript, Index):
                found.setdefault(subscript.name, extent)
    used = set(indices_of(statement.value)).union(*(indices_of(t) for t in statement.targets))
    return {name: extent for name, extent in found.items() if name in used}


def concat_extents(kernel: Kernel, call: NamedCall, statement: Assign) -> list[Expr]:
    """Extent along the axis of each operand of a concat; KeyError where nothing bounds it."""
    found = []
    free = replace(kernel, extents=tuple(e for e in kernel.extents if e.name != call.axis))
    for operand in call.operands:
        part = replace(statement, targets=(), value=operand)
        found.append(index_extents(free, part)[call.axis])
    return found


def value_of(expr: Expr, values: Mapping[str, int]) -> int:
    """An integer expression over params and indices as a number; KeyError for an unknown name."""
    match expr:
        case Const(value=value):
            return int(value)
        case ParamRef(name=name) | Index(name=name):
            return values[name]
        case Call(function=function, operands=operands):
            a, *rest = (value_of(operand, values) for operand in operands)
            return _INTEGER[function](a, *rest)
    raise TypeError(f"not an integer expression: {expr!r}")


_INTEGER: dict[str, Callable[..., int]] = {
    "neg": lambda a: -a,
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "idiv": lambda a, b: a // b if b else 0,
    "imod": lambda a, b: a % b if b else 0,
    "max": max,
    "min": min,
}


def dtype_of(kernel: Kernel, expr: Expr) -> DType | None:
    """Type of an expression by the array API's promotion; None for a weak literal.

    Mixed float types promote to the wider (f16 with bf16: f32), integers alike (i8 with u8: i32).
    A weak literal takes the type that it meets. Raises TypeError where kinds mix.
    """
    match expr:
        case Const(value=value, dtype=dtype):
            return dtypes.bool_ if isinstance(value, bool) else dtype
        case Index() | ParamRef():
            return dtypes.i64
        case ScalarRef(name=name):
            return {item.name: item.dtype for item in kernel.scalars}[name]
        case LetRef(name=name):
            return dtype_of(kernel, kernel.lets[name])
        case Access(array=name):
            return kernel.array(name).dtype
        case Cast(dtype=dtype):
            return dtype
        case Call(function=function, operands=operands):
            return _call_dtype(kernel, function, operands)
        case NamedCall(operands=operands):
            return dtype_of(kernel, operands[0])
    raise TypeError(f"not an expression: {expr!r}")


def _call_dtype(kernel: Kernel, function: str, operands: tuple[Expr, ...]) -> DType | None:
    if function in COMPARISONS:
        return dtypes.bool_
    if function == "philox":
        return dtypes.f32
    parts = operands[1:] if function == "where" else operands
    found: DType | None = None
    for part in parts:
        found = promote(found, dtype_of(kernel, part))
    return found


def promote(left: DType | None, right: DType | None) -> DType | None:
    """The common type of two operands; None: a weak literal. TypeError where kinds mix."""
    if left is None or right is None or left == right:
        return left or right
    if left.kind != right.kind or left.kind not in ("float", "int"):
        raise TypeError(f"{left} and {right} have no common type; convert one of them")
    if left.bytes == right.bytes:  # f16 with bf16, i8 with u8
        return dtypes.f32 if left.kind == "float" else dtypes.i32
    return max(left, right, key=lambda dtype: dtype.bytes)


def compute_dtype(dtype: DType) -> DType:
    """Type in which an expression or sum of this type is computed, before one rounding.

    f32 for f16 bf16 and the 8-bit floats; i32 for i8 and u8; every other type itself.
    """
    if dtype.kind in ("float", "float8"):
        return dtypes.f64 if dtype == dtypes.f64 else dtypes.f32
    return dtypes.i32 if dtype.is_int and dtype.bytes < 4 else dtype


@dataclass(frozen=True, slots=True)
class Affine:
    """base + Σ coefficient · term. Coefficients and base are integer expressions over params.

    A term is an Index, or `Call(idiv | imod, …)` of an index (or of idiv of one) by a param
    expression, or a loaded or let value (a gather), which must have the coefficient 1.
    """

    base: Expr
    terms: tuple[tuple[Expr, Expr], ...]  # (term, coefficient)


def affine(expr: Expr) -> Affine | None:
    """An i64 expression as an affine sum; None where it is not one (a product of indices)."""
    if not indices_of(expr) and not any(isinstance(item, Access | LetRef) for item in walk(expr)):
        return Affine(expr, ())
    match expr:
        case Call(function="add", operands=(a, b)):
            return _sum(affine(a), affine(b), 1)
        case Call(function="sub", operands=(a, b)):
            return _sum(affine(a), affine(b), -1)
        case Call(function="neg", operands=(a,)):
            return _sum(Affine(Const(0), ()), affine(a), -1)
        case Call(function="mul", operands=(a, b)):
            left, right = affine(a), affine(b)
            if left is None or right is None or (left.terms and right.terms):
                return None
            part, factor = (left, right.base) if left.terms else (right, left.base)
            terms = tuple((term, _times(c, factor)) for term, c in part.terms)
            return Affine(_times(part.base, factor), terms)
        case Call(function="idiv" | "imod", operands=(a, b)):
            simple = isinstance(a, Index) or (
                isinstance(a, Call) and a.function in ("idiv", "imod")
            )
            return Affine(Const(0), ((expr, Const(1)),)) if simple and not indices_of(b) else None
        case Index() | Access() | LetRef():
            return Affine(Const(0), ((expr, Const(1)),))
        case Cast(operand=operand, dtype=dtype) if dtype.is_int:
            return affine(operand)
    return None


def _times(a: Expr, b: Expr) -> Expr:
    if isinstance(a, Const) and isinstance(b, Const):
        return Const(int(a.value) * int(b.value))
    if a == Const(1):
        return b
    return a if b == Const(1) else Call("mul", (a, b))


def _sum(left: Affine | None, right: Affine | None, sign: int) -> Affine | None:
    if left is None or right is None:
        return None
    terms = dict(left.terms)
    for term, coefficient in right.terms:
        signed = coefficient if sign == 1 else _times(Const(-1), coefficient)
        terms[term] = _plus(terms[term], signed) if term in terms else signed
    base = right.base if sign == 1 else _times(Const(-1), right.base)
    return Affine(_plus(left.base, base), tuple(terms.items()))


def _plus(a: Expr, b: Expr) -> Expr:
    if isinstance(a, Const) and isinstance(b, Const):
        return Const(int(a.value) + int(b.value))
    if a == Const(0):
        return b
    return a if b == Const(0) else Call("add", (a, b))
