"""Operators that work element by element, with NumPy's broadcasting."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from hal import dtypes
from hal.dsl.dim import Dim, Length, same
from hal.dsl.function import operator
from hal.dsl.tensor import Element, Tensor, Writer, apply, mapped, named_dtype, refuse
from hal.dtypes import DType
from hal.ir.analysis import promote
from hal.ir.nodes import Call, Cast, Const, Expr

__all__ = ["broadcast_shapes", "broadcast_to", "call", "elements_of", "where"]

ANY = ("float", "int", "bool")
NUMBER = ("float", "int")
FLOAT = ("float",)
LOGIC = ("int", "bool")

UNARY = {  # name: (function of the IR, kinds, what it gives)
    "negative": ("neg", NUMBER, "−x"),
    "abs": ("abs", NUMBER, "|x|"),
    "exp": ("exp", FLOAT, "e to the x"),
    "exp2": ("exp2", FLOAT, "2 to the x"),
    "log": ("log", FLOAT, "the natural logarithm"),
    "log2": ("log2", FLOAT, "the logarithm to base 2"),
    "sqrt": ("sqrt", FLOAT, "the square root"),
    "rsqrt": ("rsqrt", FLOAT, "1 / √x"),
    "reciprocal": ("rcp", FLOAT, "1 / x"),
    "sin": ("sin", FLOAT, "the sine of x in radians"),
    "cos": ("cos", FLOAT, "the cosine of x in radians"),
    "tanh": ("tanh", FLOAT, "the hyperbolic tangent"),
    "erf": ("erf", FLOAT, "the error function"),
    "floor": ("floor", FLOAT, "the largest integer ≤ x"),
    "ceil": ("ceil", FLOAT, "the smallest integer ≥ x"),
    "trunc": ("trunc", FLOAT, "x without its fraction"),
    "round": ("round", FLOAT, "the nearest integer, half to even"),
    "bitwise_invert": ("not", LOGIC, "all bits inverted; for bool the logical not"),
    "logical_not": ("not", ("bool",), "not x"),
    "isnan": ("isnan", FLOAT, "whether x is NaN"),
}
BINARY = {
    "add": ("add", NUMBER, "x + y"),
    "subtract": ("sub", NUMBER, "x − y"),
    "multiply": ("mul", NUMBER, "x · y"),
    "divide": ("div", FLOAT, "x / y"),
    "maximum": ("max", NUMBER, "the larger; NaN where one is NaN"),
    "minimum": ("min", NUMBER, "the smaller; NaN where one is NaN"),
    "pow": ("pow", FLOAT, "x to the y"),
    "fmod": ("fmod", FLOAT, "the remainder with the sign of x"),
    "bitwise_and": ("and", LOGIC, "x and y, bit by bit"),
    "bitwise_or": ("or", LOGIC, "x or y, bit by bit"),
    "bitwise_xor": ("xor", LOGIC, "x xor y, bit by bit"),
    "logical_and": ("and", ("bool",), "x and y"),
    "logical_or": ("or", ("bool",), "x or y"),
    "logical_xor": ("xor", ("bool",), "x xor y"),
    "bitwise_left_shift": ("shl", ("int",), "x · 2 to the y, wrapping"),
    "bitwise_right_shift": ("shr", ("int",), "x shifted right; the sign stays"),
    "less": ("lt", NUMBER, "x < y"),
    "less_equal": ("le", NUMBER, "x ≤ y"),
    "equal": ("eq", ANY, "x = y"),
    "not_equal": ("ne", ANY, "x ≠ y"),
}
COMPARISONS = frozenset({"lt", "le", "eq", "ne", "isnan"})


def broadcast_shapes(call: str, *shapes: Sequence[Length]) -> tuple[Length, ...]:
    """The common shape of several, by NumPy's rule."""
    result: list[Length] = [1] * max(map(len, shapes))
    for shape in shapes:
        for axis, length in enumerate(shape, len(result) - len(shape)):
            if same(length, 1):
                continue
            if same(result[axis], 1):
                result[axis] = length
            elif not same(result[axis], length):
                shown = " and ".join(str(list(s)) for s in shapes)
                raise refuse(
                    call,
                    f"{shown} do not fit together: {result[axis]} against {length}",
                    "Lengths must be equal or 1, counted from the last axis.",
                )
    return tuple(result)


def _subscripts(tensor: Tensor, subscripts: Sequence[Expr]) -> tuple[Expr, ...]:
    """The operand's subscripts for those of the broadcast result."""
    own = subscripts[len(subscripts) - tensor.ndim :]
    pairs = zip(own, tensor.shape, strict=True)
    return tuple(Const(0) if isinstance(n, int) and n == 1 else s for s, n in pairs)


def elements_of(build: Writer, tensor: Tensor, subscripts: Sequence[Expr]) -> Expr:
    """The element of a tensor that is broadcast to the shape of the subscripts."""
    return build.at(tensor, _subscripts(tensor, subscripts))


@operator(domain="shape")
def broadcast_to(x: Tensor, shape: Sequence[Length]) -> Tensor:
    """x repeated to a shape by NumPy's rule, without a copy."""
    if broadcast_shapes("broadcast_to", x.shape, shape) != tuple(shape):
        raise refuse("broadcast_to", f"{list(x.shape)} does not spread to {list(shape)}")
    return mapped([x], shape, x.dtype, lambda b, at: elements_of(b, x, at), is_view=True)


def _tensor_dtype(call: str, operands: Sequence[Any]) -> DType:
    """The common dtype of the operands that have one; weak ones count only without others."""
    found: DType | None = None
    strong = [x for x in operands if isinstance(x, Tensor) and not x.is_weak]
    weak = [x for x in operands if isinstance(x, Tensor) and x.is_weak]
    for item in strong or weak:
        try:
            found = promote(found, item.dtype)
        except TypeError as error:
            raise refuse(call, str(error), "Use astype().") from None
    for item in weak:
        if found is not None and item.dtype.is_float and not found.is_float:
            raise refuse(call, f"the scalar {item.name or item.dtype} does not go with {found}")
    if found is None:
        raise refuse(call, "none of the operands is a tensor")
    return found


def _checked_number(call: str, item: Any, dtype: DType) -> None:
    kinds = {bool: ("bool",), int: ("int", "float"), float: ("float",)}
    allowed = kinds.get(type(item))
    if allowed is None:
        raise refuse(call, f"{type(item).__name__} {item!r} is no operand", "Give a tensor.")
    if dtype.kind not in allowed:
        raise refuse(
            call,
            f"the {type(item).__name__} {item!r} does not go with {dtype}",
            "Convert the tensor with astype().",
        )


def _element(build: Writer, item: Any, subscripts: Sequence[Expr], dtype: DType) -> Expr:
    if isinstance(item, Tensor):
        value = elements_of(build, item, subscripts)
        if item.is_weak and item.dtype.kind == "int" and dtype.is_float:
            return Cast(dtype, value)
        return value
    if isinstance(item, Dim):
        return Cast(dtype, item.expr)
    return Const(item)


def call(name: str, function: str, kinds: Sequence[str], *operands: Any) -> Tensor:
    """The tensor of an elementwise function of the IR."""
    items = [_plain(item) for item in operands]
    dtype = _tensor_dtype(name, items)
    if dtype.kind not in kinds:
        raise refuse(name, f"{dtype} is not among {', '.join(kinds)}", _advice(function, dtype))
    for item in items:
        if not isinstance(item, Tensor | Dim):
            _checked_number(name, item, dtype)
    tensors = [item for item in items if isinstance(item, Tensor)]
    shape = broadcast_shapes(name, *(item.shape for item in tensors))
    result = dtypes.bool_ if function in COMPARISONS else dtype

    def element(build: Writer, subscripts: tuple[Expr, ...]) -> Expr:
        parts = tuple(_element(build, item, subscripts, dtype) for item in items)
        if all(isinstance(part, Const) for part in parts):
            parts = (Cast(dtype, parts[0]), *parts[1:])
        return Call(function, parts)

    tensor = mapped(tensors, shape, result, element)
    tensor.is_weak = tensor.is_view = all(item.is_weak for item in tensors)
    return tensor


def _advice(function: str, dtype: DType) -> str:
    if function == "div" and dtype.is_int:
        return "Use // or astype()."
    return "Use astype()."


def _plain(item: Any) -> Any:
    """NumPy scalars as Python's."""
    return item.item() if hasattr(item, "item") and not isinstance(item, Tensor) else item


def _make(name: str, row: tuple[str, tuple[str, ...], str], arity: int) -> None:
    function, kinds, text = row
    if arity == 1:

        def one(x: Tensor) -> Tensor:
            return call(name, function, kinds, x)

        _register(name, one, text)
        return

    def two(x: Any, y: Any) -> Tensor:
        return call(name, function, kinds, x, y)

    _register(name, two, text)


def _register(name: str, body: Callable[..., Tensor], text: str) -> None:
    body.__doc__ = f"Element by element: {text}."
    body.__name__ = body.__qualname__ = name
    globals()[name] = operator(name=name, domain="elementwise")(body)
    __all__.append(name)


for _name, _row in UNARY.items():
    _make(_name, _row, 1)
for _name, _row in BINARY.items():
    _make(_name, _row, 2)


@operator(domain="elementwise")
def greater(x: Any, y: Any) -> Tensor:
    """Element by element: x > y."""
    return call("greater", "lt", NUMBER, y, x)


@operator(domain="elementwise")
def greater_equal(x: Any, y: Any) -> Tensor:
    """Element by element: x ≥ y."""
    return call("greater_equal", "le", NUMBER, y, x)


@operator(domain="elementwise")
def floor_divide(x: Any, y: Any) -> Tensor:
    """Element by element: the quotient rounded down. An integer divided by 0 gives 0."""
    if _tensor_dtype("floor_divide", (x, y)).is_int:
        return call("floor_divide", "idiv", ("int",), x, y)
    return call("floor", "floor", FLOAT, call("floor_divide", "div", FLOAT, x, y))


@operator(domain="elementwise")
def remainder(x: Any, y: Any) -> Tensor:
    """Element by element: the remainder with the sign of y. An integer modulo 0 gives 0."""
    if _tensor_dtype("remainder", (x, y)).is_int:
        return call("remainder", "imod", ("int",), x, y)
    rest = call("remainder", "fmod", FLOAT, x, y)
    wrong = call("remainder", "lt", FLOAT, call("remainder", "mul", FLOAT, rest, y), 0.0)
    return apply("where", wrong, call("remainder", "add", FLOAT, rest, y), rest)


@operator(domain="elementwise")
def where(condition: Tensor, x: Any, y: Any) -> Tensor:
    """Element by element: x where the condition holds, else y."""
    if not isinstance(condition, Tensor) or condition.dtype != dtypes.bool_:
        raise refuse("where", "the condition must be a tensor of bool", "Compare first.")
    values = [_plain(x), _plain(y)]
    if not any(isinstance(item, Tensor) for item in values):
        raise refuse("where", "one of the two values must be a tensor", "Use full_like().")
    dtype = _tensor_dtype("where", values)
    for item in values:
        if not isinstance(item, Tensor | Dim):
            _checked_number("where", item, dtype)
    tensors = [item for item in (condition, *values) if isinstance(item, Tensor)]
    shape = broadcast_shapes("where", *(item.shape for item in tensors))

    def element(build: Writer, subscripts: tuple[Expr, ...]) -> Expr:
        chosen = elements_of(build, condition, subscripts)
        parts = tuple(_element(build, item, subscripts, dtype) for item in values)
        return Call("where", (chosen, *parts))

    return mapped(tensors, shape, dtype, element)


@operator(domain="elementwise")
def astype(x: Tensor, dtype: Any, *, saturate: bool = False) -> Tensor:
    """x converted to another dtype; `saturate` clamps what does not fit."""
    target = named_dtype("astype", dtype)
    if target == x.dtype:
        return x
    return mapped([x], x.shape, target, lambda b, at: Cast(target, b.at(x, at), saturate))


@operator(domain="elementwise")
def isinf(x: Tensor) -> Tensor:
    """Whether x is +inf or −inf."""
    return call("isinf", "eq", FLOAT, call("isinf", "abs", FLOAT, x), math.inf)


@operator(domain="elementwise")
def square(x: Tensor) -> Tensor:
    """x · x."""
    return call("square", "mul", NUMBER, x, x)


@operator(domain="elementwise")
def sign(x: Tensor) -> Tensor:
    """−1, 0 or 1; NaN where x is NaN."""
    one = apply(
        "where",
        call("sign", "lt", NUMBER, 0, x),
        full(x, x.shape, 1, x.dtype),
        full(x, x.shape, 0, x.dtype),
    )
    low = apply("where", call("sign", "lt", NUMBER, x, 0), full(x, x.shape, -1, x.dtype), one)
    if not x.dtype.is_float:
        return low
    return apply("where", call("sign", "isnan", FLOAT, x), x, low)


@operator(domain="elementwise")
def clip(x: Tensor, low: Any = None, high: Any = None) -> Tensor:
    """x moved into [low, high]."""
    raised = x if low is None else call("clip", "max", NUMBER, x, low)
    return raised if high is None else call("clip", "min", NUMBER, raised, high)


@operator(domain="creation")
def full_like(x: Tensor, value: Any, *, dtype: Any = None) -> Tensor:
    """A tensor of x's shape with one value everywhere."""
    return full(x, x.shape, value, dtype or x.dtype)


@operator(domain="creation")
def zeros_like(x: Tensor, *, dtype: Any = None) -> Tensor:
    """Zeros of x's shape."""
    return full(x, x.shape, 0, dtype or x.dtype)


@operator(domain="creation")
def ones_like(x: Tensor, *, dtype: Any = None) -> Tensor:
    """Ones of x's shape."""
    return full(x, x.shape, 1, dtype or x.dtype)


def full(like: Tensor, shape: Sequence[Length], value: Any, dtype: Any) -> Tensor:
    """A tensor with one value everywhere, in the trace of `like`."""
    kind = named_dtype("full", dtype)
    number = {"bool": bool, "int": int}.get(kind.kind, float)(_plain(value))
    tensor = mapped([like], shape, kind, lambda b, at: Const(number, kind), is_view=True)
    tensor.reads = ()
    return tensor


def iota(like: Tensor, shape: Sequence[Length], axis: int, dtype: Any) -> Tensor:
    """The position along an axis, in the trace of `like`."""
    kind = named_dtype("arange", dtype)
    element: Element = lambda b, at: at[axis] if kind == dtypes.i64 else Cast(kind, at[axis])  # noqa: E731
    tensor = mapped([like], shape, kind, element, is_view=True)
    tensor.reads = ()
    return tensor
