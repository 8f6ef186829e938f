"""Normal form of integer sums: `i + (K - 1) - K + 3` is `i + 2`."""

from __future__ import annotations

from hal.ir.nodes import Call, Const, Expr, Index, ParamRef, walk

__all__ = ["simplify_sum"]


def simplify_sum(expr: Expr) -> Expr:
    """An i64 sum of indices and params in its normal form; anything else as it is.

    Terms stand in the order indices, products and quotients, params, number; equal ones are put
    together. i64 sums wrap, so every order gives the same value.
    """
    if not isinstance(expr, Call) or not _is_index_arithmetic(expr):
        return expr
    match expr.function, expr.operands:
        case ("idiv", (x, Const(value=1))):
            return x
        case ("add" | "sub" | "neg" | "mul", _):
            terms, constant = _terms(expr)
            if set(_mentioned(expr)) - {n for t, c in terms.items() if c for n in _mentioned(t)}:
                return expr  # i - i: the index must stay, it may be what a sum runs over
            return _rebuilt(terms, constant)
    return expr


def _mentioned(expr: Expr) -> list[str]:
    return [item.name for item in walk(expr) if isinstance(item, Index)]


def _is_index_arithmetic(expr: Expr) -> bool:
    """True when only indices, params and weak whole numbers stand below."""
    leaves = {"add", "sub", "mul", "neg", "idiv", "imod", "max", "min"}
    typed = False
    for item in walk(expr):
        match item:
            case Index() | ParamRef():
                typed = True
            case Const(value=value, dtype=dtype):
                if isinstance(value, bool | float) or dtype is not None:
                    return False
            case Call(function=function):
                if function not in leaves:
                    return False
            case _:
                return False
    return typed


def _terms(expr: Expr) -> tuple[dict[Expr, int], int]:
    """The sum as term -> coefficient, and its number."""
    match expr:
        case Const(value=value):
            return {}, int(value)
        case Call(function="add" | "sub" as function, operands=(a, b)):
            sign = 1 if function == "add" else -1
            terms, constant = _terms(a)
            terms = dict(terms)
            more, number = _terms(b)
            for term, coefficient in more.items():
                terms[term] = terms.get(term, 0) + sign * coefficient
            return terms, constant + sign * number
        case Call(function="neg", operands=(a,)):
            return _scaled(_terms(a), -1)
        case Call(function="mul", operands=(a, b)):
            left, right = _terms(a), _terms(b)
            if not right[0]:
                return _scaled(left, right[1])
            if not left[0]:
                return _scaled(right, left[1])
    return {expr: 1}, 0


def _scaled(part: tuple[dict[Expr, int], int], factor: int) -> tuple[dict[Expr, int], int]:
    return {term: c * factor for term, c in part[0].items()}, part[1] * factor


def _rank(term: Expr) -> tuple[int, str]:
    rank = {Index: 0, Call: 1, ParamRef: 2}.get(type(term), 1)
    return rank, repr(term)


def _rebuilt(terms: dict[Expr, int], constant: int) -> Expr:
    """Positive parts first, so that no negation stands where a subtraction does."""
    parts = [(t, c) for t, c in sorted(terms.items(), key=lambda x: _rank(x[0])) if c]
    if constant:
        parts.append((Const(1), constant))
    parts.sort(key=lambda part: part[1] < 0)
    if not parts:
        return Const(0)
    result: Expr | None = None
    for term, coefficient in parts:
        size = abs(coefficient) if result is not None else coefficient
        item = _times(term, size)
        if result is None:
            result = item
        else:
            result = Call("sub" if coefficient < 0 else "add", (result, item))
    assert result is not None
    return result


def _times(term: Expr, factor: int) -> Expr:
    if isinstance(term, Const):
        return Const(factor)
    return term if factor == 1 else Call("mul", (term, Const(factor)))
