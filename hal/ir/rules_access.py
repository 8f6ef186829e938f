"""Rules about indices, subscripts, and what statements read and write."""

from __future__ import annotations

from collections.abc import Iterator

from hal import dtypes
from hal.ir.analysis import (
    affine,
    concat_extents,
    index_extents,
    indices_of,
    inline_lets,
    reduced_indices,
)
from hal.ir.expressions import FLAGS
from hal.ir.nodes import (
    Access,
    Assign,
    Call,
    Cast,
    Const,
    Expr,
    Index,
    Kernel,
    NamedCall,
    ScalarRef,
    Span,
    walk,
)
from hal.ir.problems import Finding
from hal.ir.rules_names import INTEGER_FUNCTIONS, near, span_of
from hal.ir.rules_types import Mixed, type_of
from hal.ir.show import show_expression
from hal.wording import counted

__all__ = [
    "find_alias_reads",
    "find_bad_named_calls",
    "find_bad_subscripts",
    "find_bad_targets",
    "find_doubly_bound",
    "find_early_reads",
    "find_plain_sums",
    "find_unbounded",
    "find_written_inputs",
    "same_extent",
]


def _reads(statement: Assign) -> list[Access]:
    """Accesses that a statement loads, those in subscripts of its targets too."""
    found = [item for item in walk(statement.value) if isinstance(item, Access)]
    for target in statement.targets:
        for part in target.indices:
            found += [item for item in walk(part) if isinstance(item, Access)]
    return found


def find_written_inputs(kernel: Kernel) -> Iterator[Finding]:
    """HAL-IR-014."""
    for statement in kernel.assigns:
        for target in statement.targets:
            if kernel.array(target.array).role == "input":
                step = "Declare it inout, or write to an output."
                yield Finding(
                    f"{target.array} is an input, it cannot be written", target.span, step
                )


def find_early_reads(kernel: Kernel) -> Iterator[Finding]:
    """HAL-IR-015."""
    written = {array.name for array in kernel.arrays_of("input", "inout")}
    for statement in inline_lets(kernel).assigns:
        for item in _reads(statement):
            if item.array not in written:
                role = kernel.array(item.array).role
                yield Finding(
                    f"the {role} {item.array} is read before a statement writes it",
                    item.span or statement.span,
                    "Write it in an earlier statement.",
                )
        written |= {target.array for target in statement.targets}


def find_alias_reads(kernel: Kernel) -> Iterator[Finding]:
    """HAL-IR-016."""
    for statement in inline_lets(kernel).assigns:
        names = {target.array for target in statement.targets}
        if len(names) < len(statement.targets):
            yield Finding("two targets are one array", statement.span, "Use two arrays.")
        reduced = bool(reduced_indices(statement)) and statement.is_reduction
        plain = not isinstance(statement.value, NamedCall) and not reduced
        for item in _reads(statement):
            if item.array not in names:
                continue
            target = next(target for target in statement.targets if target.array == item.array)
            scatter = any(
                isinstance(inner, Access) for part in target.indices for inner in walk(part)
            )
            if not plain or scatter or item.indices != target.indices or item.pad is not None:
                yield Finding(
                    f"{show_expression(item)} is read while {show_expression(target)} is written",
                    item.span or statement.span,
                    "Keep the old values in a temp by a statement before.",
                )


def _names_in_order(statement: Assign) -> list[str]:
    found = [name for target in statement.targets for name in indices_of(target)]
    return list(dict.fromkeys([*found, *indices_of(statement.value)]))


def _span_of_index(statement: Assign, name: str) -> Span | None:
    for whole in (*statement.targets, statement.value):
        for item in walk(whole):
            if isinstance(item, Index) and item.name == name:
                return item.span or statement.span
    return statement.span


def find_unbounded(kernel: Kernel) -> Iterator[Finding]:
    """HAL-IR-009."""
    for statement in inline_lets(kernel).assigns:
        extents = index_extents(kernel, statement)
        value = statement.value
        axis = value.axis if isinstance(value, NamedCall) and value.function == "concat" else ""
        for name in _names_in_order(statement):
            if name not in extents and name != axis:
                known = {*kernel.params, *(s.name for s in kernel.scalars), *kernel.lets}
                hint = near(name, known)
                step = f"Declare it: index {name} : EXTENT."
                yield Finding(
                    f"nothing bounds the index {name}",
                    _span_of_index(statement, name),
                    f"{step} {hint}".rstrip(),
                )


Polynomial = dict[tuple[str, ...], int]


def _polynomial(expr: Expr) -> Polynomial:
    """An extent as Σ coefficient · product of params; what is not + - * counts as one name."""
    match expr:
        case Const(value=value):
            return {(): int(value)} if value else {}
        case Call(function="add" | "sub" as function, operands=(a, b)):
            found = dict(_polynomial(a))
            for key, factor in _polynomial(b).items():
                found[key] = found.get(key, 0) + (factor if function == "add" else -factor)
            return {key: factor for key, factor in found.items() if factor}
        case Call(function="mul", operands=(a, b)):
            product: Polynomial = {}
            for left, one in _polynomial(a).items():
                for right, other in _polynomial(b).items():
                    key = tuple(sorted((*left, *right)))
                    product[key] = product.get(key, 0) + one * other
            return {key: factor for key, factor in product.items() if factor}
    return {(show_expression(expr),): 1}


def same_extent(left: Expr, right: Expr) -> bool:
    """True when two extents are equal for every value of the params, as far as + - * tell."""
    return left == right or _polynomial(left) == _polynomial(right)


def find_doubly_bound(kernel: Kernel) -> Iterator[Finding]:
    """HAL-IR-010."""
    free = {extent.name for extent in kernel.extents}
    for statement in inline_lets(kernel).assigns:
        skip = set(free)
        if isinstance(statement.value, NamedCall) and statement.value.function == "concat":
            skip.add(statement.value.axis)
        seen: dict[str, tuple[Expr, str]] = {}
        for item in (*statement.targets, *_reads(statement)):
            if item.pad is not None:
                continue
            shape = kernel.array(item.array).shape
            for part, extent in zip(item.indices, shape, strict=True):
                if not isinstance(part, Index) or part.name in skip:
                    continue
                first, where = seen.setdefault(part.name, (extent, item.array))
                if not same_extent(first, extent):
                    yield Finding(
                        f"{part.name} runs over {show_expression(first)} in {where} and over "
                        f"{show_expression(extent)} in {item.array}",
                        part.span or item.span or statement.span,
                        "Use two indices, a pad, or one param for both.",
                    )
                    skip.add(part.name)


def find_bad_subscripts(kernel: Kernel) -> Iterator[Finding]:
    """HAL-IR-017."""
    for statement in inline_lets(kernel).assigns:
        for item in (*statement.targets, *_reads(statement)):
            for part in item.indices:
                text, step = _subscript_fault(part)
                if text:
                    yield Finding(
                        f"the subscript {show_expression(part)} of {item.array} {text}",
                        span_of(part) or item.span or statement.span,
                        step,
                    )


def _subscript_fault(part: Expr) -> tuple[str, str]:
    """What is wrong with a subscript, and the next step; empty when it is right."""
    for inner in _outside_loads(part):
        if isinstance(inner, ScalarRef):
            return f"holds the scalar {inner.name}", "Make it a param."
        if isinstance(inner, Call) and inner.function not in INTEGER_FUNCTIONS:
            return f"holds {inner.function}", "Use + - * // % of indices, params and numbers."
    found = affine(part)
    if found is None:
        step = "Multiply indices by numbers and params only; take // and % of one bare index."
        return "is not affine", step
    loads = [(term, c) for term, c in found.terms if isinstance(term, Access)]
    if len(loads) > 1:
        return "has two loaded indices", "Add them up in a temp first."
    if any(c != Const(1) for _, c in loads):
        return "multiplies a loaded index", "Multiply it in a temp first."
    for term, coefficient in found.terms:
        parts = [coefficient, *(term.operands[1:] if isinstance(term, Call) else ())]
        if any(isinstance(i, Access | Index) for whole in parts for i in walk(whole)):
            return "is not affine", "Divide by numbers and params only."
    if any(
        isinstance(i, Call) and i.function in ("max", "min") and indices_of(i)
        for i in _outside_loads(part)
    ):
        return "is not affine", "Use max and min of params only."
    return "", ""


def _outside_loads(expr: Expr) -> Iterator[Expr]:
    """Parts of a subscript, those of a loaded index left out."""
    yield expr
    if isinstance(expr, Call):
        for operand in expr.operands:
            yield from _outside_loads(operand)
    elif isinstance(expr, Cast):
        yield from _outside_loads(expr.operand)


def find_bad_targets(kernel: Kernel) -> Iterator[Finding]:
    """HAL-IR-018."""
    for statement in inline_lets(kernel).assigns:
        for target in statement.targets:
            text = _target_fault(target, bare=isinstance(statement.value, NamedCall))
            if text:
                yield Finding(
                    f"{show_expression(target)}: {text}",
                    target.span or statement.span,
                    "Write to a temp first, and copy it from there.",
                )


def _target_fault(target: Access, *, bare: bool) -> str:
    if target.pad is not None:
        return "a target has no pad"
    seen: set[str] = set()
    loads = 0
    for part in target.indices:
        found = affine(part)
        terms = found.terms if found else ()
        if bare and not isinstance(part, Index):
            return "a call along an axis needs bare indices"
        if len(terms) > 1:
            return "a subscript of a target holds one index"
        for term, coefficient in terms:
            if isinstance(term, Access):
                loads += 1
            elif not isinstance(term, Index):
                return "a subscript of a target has no // and %"
            elif term.name in seen:
                return f"{term.name} stands twice, so elements between are never written"
            else:
                seen.add(term.name)
                if isinstance(coefficient, Const) and coefficient.value <= 0:
                    return f"the factor of {term.name} is not positive"
    return "a target has at most one loaded index" if loads > 1 else ""


def find_plain_sums(kernel: Kernel) -> Iterator[Finding]:
    """HAL-IR-019."""
    for statement in inline_lets(kernel).assigns:
        if statement.is_reduction or isinstance(statement.value, NamedCall):
            continue
        for name in reduced_indices(statement):
            yield Finding(
                f"{name} stands only on the right of `=`",
                _span_of_index(statement, name),
                "Use += *= max= or min= to reduce it.",
            )
            break


def find_bad_named_calls(kernel: Kernel) -> Iterator[Finding]:
    """HAL-IR-020."""
    for statement in inline_lets(kernel).assigns:
        inner = [item for item in walk(statement.value) if isinstance(item, NamedCall)]
        call = statement.value
        if not isinstance(call, NamedCall):
            if inner:
                step = "Put its result into a temp first."
                yield Finding(f"{inner[0].function} stands alone on the right", inner[0].span, step)
            if len(statement.targets) != 1:
                yield Finding("only topk and sort have two targets", statement.span)
            continue
        text = _call_fault(kernel, statement, call)
        if text:
            yield Finding(text, call.span or statement.span, _FORMS[call.function])


_FORMS = {name: f"Write Y[i, j] = {name}(X[i, j], j)." for name in FLAGS if name[:4] == "scan"}
_FORMS |= {name: f"Write P[i] = {name}(X[i, j], j)." for name in ("argmax", "argmin")}
_FORMS |= {
    "topk": "Write V[i, r], P[i, r] = topk(X[i, j], j).",
    "sort": "Write V[i, j], P[i, j] = sort(X[i, j], j).",
    "concat": "Write Y[i, j] = concat(A[i, j], B[i, j], j).",
}


def _call_fault(kernel: Kernel, statement: Assign, call: NamedCall) -> str:
    name = call.function
    count = 2 if name in ("topk", "sort") else 1
    if statement.is_reduction:
        return f"{name} is assigned by `=`"
    if len(statement.targets) != count:
        return f"{name} has {counted(count, 'target')}, found {len(statement.targets)}"
    wrong = call.flags - FLAGS[name]
    if wrong:
        return f"{name} has no flag {min(wrong)}"
    if not call.operands or (len(call.operands) > 1 and name != "concat"):
        return f"{name} takes one value"
    if name == "concat":
        return _concat_fault(kernel, statement, call)
    outer = {n for target in statement.targets for n in indices_of(target)}
    inner = set(indices_of(call.operands[0]))
    if call.axis not in inner:
        return f"the value of {name} does not run along {call.axis}"
    if any(indices_of(target) != indices_of(statement.target) for target in statement.targets):
        return f"the targets of {name} have different subscripts"
    kept = inner - {call.axis}
    if name == "topk":
        good = kept < outer and len(outer - kept) == 1 and call.axis not in outer
    else:
        good = outer == (kept if name in ("argmax", "argmin") else inner)
    if not good:
        return f"the indices of {name}'s target and value do not fit"
    return _call_type_fault(kernel, statement, call)


def _call_type_fault(kernel: Kernel, statement: Assign, call: NamedCall) -> str:
    try:
        found = type_of(kernel, call.operands[0])
    except Mixed:
        return ""
    if found.kind not in ("float", "int") or found.dtype is None:
        return f"{call.function} takes float or int, not {found}"
    if call.function.startswith("scan"):
        return ""
    target = kernel.array(statement.targets[-1].array)
    if target.dtype not in (dtypes.i32, dtypes.i64):
        return f"{call.function} puts positions into i32 or i64, {target.name} is {target.dtype}"
    return ""


def _concat_fault(kernel: Kernel, statement: Assign, call: NamedCall) -> str:
    outer = set(indices_of(statement.target))
    for operand in call.operands:
        if set(indices_of(operand)) != outer:
            return "the indices of concat's target and values do not fit"
    if call.axis not in outer:
        return f"the target of concat does not run along {call.axis}"
    try:
        concat_extents(kernel, call, statement)
    except KeyError:
        return f"a value of concat has no dimension that runs along {call.axis} alone"
    return ""
