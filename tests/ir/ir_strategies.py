"""Kernels made by hypothesis: any that the objects can hold, right or wrong in meaning."""

from __future__ import annotations

from hypothesis import strategies as st

from hal import dtypes
from hal.ir.expressions import FLAGS
from hal.ir.nodes import (
    ASSIGNMENTS,
    BINARY,
    UNARY,
    Access,
    Array,
    Assign,
    Call,
    Cast,
    Const,
    Expr,
    Extent,
    Index,
    Kernel,
    Let,
    LetRef,
    NamedCall,
    ParamRef,
    Scalar,
    ScalarRef,
    Schedule,
)
from hal.ir.program import Program

PARAMS, SCALARS, ARRAYS, LETS, INDICES = ("M", "N"), ("s", "k"), ("A", "B"), ("t",), ("i", "j")

dtype = st.sampled_from(dtypes.ALL)
number = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-3, 3),
    st.booleans(),
    st.floats(allow_nan=False),
)
literal = st.builds(Const, number, st.one_of(st.none(), dtype))
leaf = st.one_of(
    literal,
    st.builds(Index, st.sampled_from(INDICES)),
    st.builds(ParamRef, st.sampled_from(PARAMS)),
    st.builds(ScalarRef, st.sampled_from(SCALARS)),
    st.builds(LetRef, st.sampled_from(LETS)),
)


def _larger(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    many = st.lists(inner, max_size=3).map(tuple)
    return st.one_of(
        st.builds(Access, st.sampled_from(ARRAYS), many, st.one_of(st.none(), number)),
        st.builds(Call, st.sampled_from(sorted(UNARY)), st.tuples(inner)),
        st.builds(Call, st.sampled_from(sorted(BINARY)), st.tuples(inner, inner)),
        st.builds(Call, st.sampled_from(["where", "philox"]), st.tuples(inner, inner, inner)),
        st.builds(Cast, dtype, inner, st.booleans()),
    )


expression = st.recursive(leaf, _larger, max_leaves=12)


@st.composite
def named_calls(draw: st.DrawFn) -> NamedCall:
    """A call along an axis with some of its flags."""
    name = draw(st.sampled_from(sorted(FLAGS)))
    operands = draw(st.lists(expression, min_size=1, max_size=3 if name == "concat" else 1))
    flags = draw(st.sets(st.sampled_from(sorted(FLAGS[name])))) if FLAGS[name] else set()
    return NamedCall(name, tuple(operands), draw(st.sampled_from(INDICES)), frozenset(flags))


target = st.builds(
    Access, st.sampled_from(ARRAYS), st.lists(expression, max_size=2).map(tuple), st.none()
)
assign = st.builds(
    Assign,
    st.lists(target, min_size=1, max_size=2).map(tuple),
    st.sampled_from(sorted(ASSIGNMENTS)),
    st.one_of(expression, named_calls()),
)
_size = st.recursive(
    st.one_of(st.builds(Const, st.integers(0, 9)), st.builds(ParamRef, st.sampled_from(PARAMS))),
    lambda inner: st.builds(
        Call, st.sampled_from(["add", "sub", "mul", "idiv", "imod", "max"]), st.tuples(inner, inner)
    ),
    max_leaves=4,
)


@st.composite
def kernels(draw: st.DrawFn) -> Kernel:
    """A kernel whose names are declared; its meaning may be nonsense."""
    role = st.sampled_from(["input", "output", "inout", "temp"])
    shape = st.lists(_size, max_size=3).map(tuple)
    arrays = tuple(Array(n, draw(dtype), draw(shape), draw(role)) for n in ARRAYS)
    scalars = tuple(
        Scalar(n, draw(st.sampled_from([dtypes.f32, dtypes.f64, dtypes.i32, dtypes.i64])))
        for n in SCALARS
    )
    extents = tuple(Extent(n, draw(_size)) for n in draw(st.sets(st.sampled_from(INDICES))))
    first = Let("t", draw(st.one_of(literal, st.builds(Index, st.sampled_from(INDICES)))))
    rest = draw(st.lists(assign, max_size=3))
    name = draw(st.sampled_from(["K", "max", "softmax_2"]))
    return Kernel(name, PARAMS, arrays, (first, *rest), scalars, extents)


lengths = st.lists(st.tuples(st.sampled_from(INDICES), st.integers(1, 999)), max_size=2).map(tuple)
schedules = st.builds(
    Schedule,
    st.sampled_from(["K", "max"]),
    st.text("abc/-0 ", max_size=9),
    lengths,
    st.one_of(st.none(), st.integers(1, 4)),
    st.lists(st.tuples(st.sampled_from(ARRAYS), st.sampled_from(["near", "acc"])), max_size=2).map(
        tuple
    ),
    lengths,
)
programs = st.builds(
    Program, st.lists(kernels(), max_size=2).map(tuple), st.lists(schedules, max_size=2).map(tuple)
)

WORDS = (
    "kernel schedule param index scalar input output inout temp let operation : , ; { } [ ] ( ) "
    "= += *= max= min= -= + - * / // % < <= > >= == != and or xor not where pad exp max f32 f16 "
    'float int bool inf nan true 0 1 2.5 1e9 M N i j X Y t K "chip" for tile stages space split '
    "scan_add topk concat sort argmax philox saturate reverse # \n"
).split(" ")
"""Words to make soup from."""
