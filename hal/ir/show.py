"""Objects to the text form, in one canonical way: `parse(show(x)) == x`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from hal.ir.expressions import OPERATORS, UNARY_BINDS
from hal.ir.lexer import Comment
from hal.ir.nodes import (
    Access,
    Array,
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
    Schedule,
    Statement,
)
from hal.ir.program import Program

__all__ = ["show", "show_expression", "show_statement"]

_OPERATOR = {
    function: (binds, text) for text, (binds, function) in OPERATORS.items() if text[0] != ">"
}
_COMPARISON = 5
_ATOM = 9
_COLUMNS = 100


def show(item: Kernel | Program) -> str:
    """A kernel, or a program with its comments, as text that ends with a newline."""
    program = item if isinstance(item, Program) else Program((item,))
    places = program.places or ((0, 0),) * len(program.kernels)
    blocks = [list(_kernel(*pair)) for pair in zip(program.kernels, places, strict=True)]
    blocks += [[(s.span.line if s.span else 0, _schedule(s))] for s in program.schedules]
    if all(block[0][0] for block in blocks):
        blocks.sort(key=lambda block: block[0][0])
    lines: list[tuple[int, str]] = []
    for block in blocks:
        lines += [(0, ""), *block] if lines else block
    return "".join(line + "\n" for line in _with_comments(lines, program.comments))


def show_statement(statement: Statement) -> str:
    """`let t = …` or `C[i, j] += …`, without `operation:`."""
    if isinstance(statement, Let):
        return f"let {statement.name} = {show_expression(statement.value)}"
    targets = ", ".join(show_expression(target) for target in statement.targets)
    return f"{targets} {statement.assignment} {show_expression(statement.value)}"


def show_expression(expr: Expr) -> str:
    """An expression with no more parentheses than it needs."""
    return _shown(expr)[0]


def _with_comments(lines: list[tuple[int, str]], comments: tuple[Comment, ...]) -> Iterator[str]:
    """The lines, each comment before or behind the first line that stood at its place."""
    waiting = list(comments)
    for at, (place, text) in enumerate(lines):
        while place and waiting and waiting[0].line < place:
            yield _indent_of(text) + waiting.pop(0).text
        last = all(later != place for later, _ in lines[at + 1 :])
        if place and last and waiting and waiting[0].line == place and not waiting[0].alone:
            text += "  " + waiting.pop(0).text
        yield text
    for comment in waiting:
        yield comment.text


def _indent_of(text: str) -> str:
    return "  " if text.startswith("  ") or text == "}" else ""


def _kernel(kernel: Kernel, places: tuple[int, int]) -> Iterator[tuple[int, str]]:
    yield (kernel.span.line if kernel.span else 0, f"kernel {kernel.name} {{")
    if kernel.params:
        yield places[0], f"  param {', '.join(kernel.params)} : int"
    for size, names, line in _ranges(kernel):
        yield line, f"  index {', '.join(names)} : {size}"
    if kernel.scalars:
        line = kernel.scalars[0].span.line if kernel.scalars[0].span else 0
        listed = ", ".join(f"{item.dtype} {item.name}" for item in kernel.scalars)
        yield line, f"  scalar {listed}"
    for line, text in _arrays(kernel.arrays):
        yield line, text
    for statement in kernel.statements:
        line = statement.span.line if statement.span else 0
        head = "operation: " if isinstance(statement, Assign) else ""
        yield line, f"  {head}{show_statement(statement)}"
    yield places[1], "}"


def _ranges(kernel: Kernel) -> Iterator[tuple[str, list[str], int]]:
    """Declared extents: (size, names of one line, place)."""
    names: list[str] = []
    shown, line = "", 0
    for item in kernel.extents:
        size = show_expression(item.size)
        if names and size != shown:
            yield shown, names, line
            names = []
        if not names:
            shown, line = size, item.span.line if item.span else 0
        names.append(item.name)
    if names:
        yield shown, names, line


def _arrays(arrays: Iterable[Array]) -> Iterator[tuple[int, str]]:
    """Arrays that follow one another in one role share a line, as far as it reaches."""
    text, role, line = "", "", 0
    for array in arrays:
        shape = ", ".join(show_expression(part) for part in array.shape)
        item = f"{array.dtype}[{shape}] {array.name}"
        place = array.span.line if array.span else 0
        same = array.role == role and line == place
        if text and same and len(text) + len(item) + 2 <= _COLUMNS:
            text += f", {item}"
            continue
        if text:
            yield line, text
        role, line = array.role, place
        text = f"  {role}: {item}"
    if text:
        yield line, text


def _schedule(item: Schedule) -> str:
    clauses = []
    if item.tiles:
        clauses.append("tile " + ", ".join(f"{name} {length}" for name, length in item.tiles))
    if item.stages is not None:
        clauses.append(f"stages {item.stages}")
    if item.spaces:
        clauses.append("space " + ", ".join(f"{name} {space}" for name, space in item.spaces))
    if item.split:
        clauses.append("split " + ", ".join(f"{name} {parts}" for name, parts in item.split))
    inner = f" {'; '.join(clauses)} " if clauses else ""
    return f'schedule {item.kernel} for "{item.chip}" {{{inner}}}'


def _shown(expr: Expr) -> tuple[str, int]:
    """Text of an expression, and how tightly its outermost operator binds."""
    match expr:
        case Const(value=value, dtype=None):
            return _number(value), _ATOM
        case Const(value=value, dtype=dtype):
            return f"{dtype}({_number(value)})", _ATOM
        case Index(name=name) | ParamRef(name=name) | ScalarRef(name=name) | LetRef(name=name):
            return name, _ATOM
        case Access(array=name, indices=indices, pad=pad):
            inner = ", ".join(show_expression(part) for part in indices)
            if pad is None:
                return f"{name}[{inner}]", _ATOM
            return f"{name}[{inner}] pad {_number(pad)}", 0  # alone or in parentheses
        case Cast(dtype=dtype, operand=operand, saturate=saturate):
            inner = show_expression(operand)
            if _begins_as_literal(operand, saturate):
                inner = f"({inner})"
            return f"{dtype}({inner}{', saturate' if saturate else ''})", _ATOM
        case Call(function=function, operands=operands):
            return _call(function, operands)
        case NamedCall(function=function, operands=operands, axis=axis, flags=flags):
            parts = [*(show_expression(part) for part in operands), axis, *sorted(flags)]
            return f"{function}({', '.join(parts)})", _ATOM
    raise TypeError(f"not an expression: {expr!r}")


def _begins_as_literal(operand: Expr, saturate: bool) -> bool:
    """True where `f16(x)` would read as a literal of that type."""
    return isinstance(operand, Const) and operand.dtype is None and not saturate


def _call(function: str, operands: tuple[Expr, ...]) -> tuple[str, int]:
    if function in _OPERATOR and len(operands) == 2:
        binds, text = _OPERATOR[function]
        left = _within(operands[0], binds + (binds == _COMPARISON))
        right = _within(operands[1], binds + 1)
        return f"{left} {text} {right}", binds
    if function == "not":
        return f"not {_within(operands[0], UNARY_BINDS['not'])}", UNARY_BINDS["not"]
    if function == "neg":
        operand = operands[0]
        inner = _within(operand, _ATOM)
        if isinstance(operand, Const) and operand.dtype is None:
            inner = f"({inner})"  # -1 is a literal
        return f"-{inner}", UNARY_BINDS["neg"]
    return f"{function}({', '.join(show_expression(part) for part in operands)})", _ATOM


def _within(expr: Expr, least: int) -> str:
    text, binds = _shown(expr)
    return text if binds >= least else f"({text})"


def _number(value: int | float | bool) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return repr(value)
