"""Each rule of the verifier with kernels that break it, and kernels that break none."""

from __future__ import annotations

import pytest

from hal import dtypes
from hal.ir import IrError, IrTextError, check, parse, verify
from hal.ir.nodes import Access, Array, Assign, Call, Const, Index, Kernel, LetRef, Scalar
from hal.ir.verify import RULES, verify_schedule

HEAD = """kernel K {
  param M, N, K : int
  index d : 3
  scalar f32 s, i32 n
  input: f32[M, N] X, f32[N, K] W, i32[M] t, bool[M, N] m, i8[M] q, f16[M] h, bf16[M] g
  inout: f32[M, N] Z, f32[N] z
  output: f32[M, N] Y, f32[M] y, i32[M] p, i8[M] w, bool[M] b, f32[M, K] C, f32[M, M] D
  temp: f32[M] u
"""

BROKEN: list[tuple[str, str, str]] = [
    ("HAL-IR-002", "let X = s operation: y[i] = X", "X is an input already"),
    ("HAL-IR-002", "let a = s let a = s operation: y[i] = a", "a is a let already"),
    ("HAL-IR-002", "operation: y[a] = s let a = s", "a is a let, and an index here"),
    ("HAL-IR-003", "operation: y[i] = XX[i, j]", "there is no array called XX. Did you mean X?"),
    ("HAL-IR-005", "operation: y[i] += X[i]", "X has 2 dimensions, 1 subscript given"),
    ("HAL-IR-005", "operation: y[] = s", "y has 1 dimension, 0 subscripts given"),
    ("HAL-IR-011", "operation: y[i] = 0.5 * i", "a fraction does not fit i64"),
    ("HAL-IR-011", "operation: Y[i, j] = X[i, j] * j", "f32 and i64 have no common type"),
    ("HAL-IR-011", "operation: y[i] = exp(t[i])", "exp does not take i32"),
    ("HAL-IR-011", "operation: p[i] = t[i] / 2", "Use // for whole numbers"),
    ("HAL-IR-011", "operation: p[i] = t[i] + 4294967296", "4294967296 does not fit i32"),
    (
        "HAL-IR-011",
        "operation: Y[i, j] = where(X[i, j], 1, 0)",
        "where needs a bool first, not f32",
    ),
    ("HAL-IR-011", "operation: Y[i, j] = X[i, j] and m[i, j]", "and does not take f32"),
    ("HAL-IR-011", "operation: Y[i, j] = X[s, j]", "a subscript of X is f32"),
    ("HAL-IR-011", "operation: Y[i, j] = X[q[i], j]", "a subscript of X is i8"),
    ("HAL-IR-011", "operation: y[i] = philox(s, 0, i)", "philox takes whole numbers, not f32"),
    ("HAL-IR-012", "operation: y[i] = i", "y is f32, the value is i64. Convert it: f32(…)."),
    ("HAL-IR-012", "operation: p[i] = i", "p is i32, the value is i64"),
    ("HAL-IR-012", "operation: w[i] = 200", "w is i8, the value is a whole number"),
    ("HAL-IR-012", "operation: b[i] = t[i]", "b is bool, the value is i32"),
    ("HAL-IR-012", "operation: b[i] max= m[i, j]", "b is bool, it cannot be reduced into"),
    ("HAL-IR-013", "operation: p[i] = t[i + 1] pad 0.5", "t is i32, the pad is 0.5"),
    ("HAL-IR-013", "operation: w[i] = q[i + 1] pad 200", "q is i8, the pad is 200"),
    ("HAL-IR-013", "operation: b[i] = m[i + 1, 0] pad 0", "Use false or true"),
    ("HAL-IR-014", "operation: X[i, j] = s", "X is an input, it cannot be written"),
    ("HAL-IR-015", "operation: y[i] = u[i]", "the temp u is read before a statement writes it"),
    ("HAL-IR-015", "operation: y[i] = y[i] + 1", "the output y is read before"),
    ("HAL-IR-016", "operation: Z[i, j] = Z[i, j + 1] pad 0", "is read while Z[i, j] is written"),
    ("HAL-IR-016", "operation: z[j] += X[i, j] * z[j]", "z[j] is read while z[j] is written"),
    ("HAL-IR-016", "operation: z[t[j]] += z[t[j]]", "is read while z[t[j]] is written"),
    ("HAL-IR-016", "operation: Z[i, j] = scan_add(Z[i, j], j)", "is read while"),
    ("HAL-IR-009", "operation: y[i] = X[i + r, 0] pad 0", "nothing bounds the index r"),
    ("HAL-IR-009", "operation: y[i] = lr", "nothing bounds the index lr"),
    ("HAL-IR-010", "operation: y[i] += X[i, i]", "i runs over M in y and over N in X"),
    ("HAL-IR-010", "operation: C[i, j] += X[i, k] * W[j, k]", "j runs over K in C and over N in W"),
    ("HAL-IR-017", "operation: y[i] += X[i * j, 0] pad 0 + X[i, j]", "is not affine"),
    ("HAL-IR-017", "operation: y[i] = X[i // i, 0] pad 0", "is not affine"),
    ("HAL-IR-017", "operation: y[i] = X[t[i] + t[i + 1] pad 0, 0]", "has two loaded indices"),
    ("HAL-IR-017", "operation: y[i] = X[2 * t[i], 0]", "multiplies a loaded index"),
    ("HAL-IR-017", "operation: y[i] = X[n, 0] pad 0", "holds the scalar n. Make it a param."),
    ("HAL-IR-017", "operation: y[i] = X[shl(i, 1), 0] pad 0", "holds shl"),
    ("HAL-IR-017", "operation: y[i] = X[max(i, 1), 0] pad 0", "is not affine"),
    ("HAL-IR-018", "operation: D[i, i] = s", "i stands twice"),
    ("HAL-IR-018", "operation: C[i // 2, j] = X[i, 0]", "a subscript of a target has no // and %"),
    ("HAL-IR-018", "operation: C[t[i], t[i]] += X[i, 0]", "at most one loaded index"),
    ("HAL-IR-018", "operation: y[i + d] += X[i, 0]", "a subscript of a target holds one index"),
    ("HAL-IR-018", "operation: y[M - 1 - i] = h[i]", "the factor of i is not positive"),
    ("HAL-IR-018", "operation: y[i + 1] = argmax(X[i, j], j)", "needs bare indices"),
    ("HAL-IR-019", "operation: y[i] = X[i, j]", "j stands only on the right of `=`"),
    ("HAL-IR-020", "operation: y[i] += argmax(X[i, j], j)", "argmax is assigned by `=`"),
    ("HAL-IR-020", "operation: y[i] = argmax(X[i, j], j)", "positions into i32 or i64, y is f32"),
    ("HAL-IR-020", "operation: p[i] = argmax(X[i, j], i)", "do not fit"),
    ("HAL-IR-020", "operation: p[i] = argmax(t[i], j)", "does not run along j"),
    ("HAL-IR-020", "operation: p[i] = argmax(m[i, j], j)", "takes float or int, not bool"),
    ("HAL-IR-020", "operation: y[i] = topk(X[i, j], j)", "topk has 2 targets, found 1"),
    ("HAL-IR-020", "operation: y[i], p[i] = X[i, 0]", "only topk and sort have two targets"),
    ("HAL-IR-020", "operation: Y[i, j] = concat(X[i, j], h[i], j)", "do not fit"),
    ("HAL-IR-020", "operation: Y[i, j] = concat(X[i, j + 1], j)", "no dimension that runs along j"),
]


@pytest.mark.parametrize(("rule", "body", "words"), BROKEN)
def test_a_broken_rule_is_named_with_its_place(rule: str, body: str, words: str) -> None:
    text = f"{HEAD}  {body}\n}}\n"
    with pytest.raises(IrTextError) as caught:
        parse(text, "k.hal")
    message = str(caught.value)
    assert words in message
    assert f"({rule})" in message
    assert message.startswith("k.hal:9:")
    assert verify(parse(text, verify=False).kernel())[0].rule == rule


F32 = dtypes.f32
X = Array("X", F32, (Const(4),), "input")
Y = Array("Y", F32, (Const(4),), "output")
I = Index("i")  # noqa: E741
COPY = Assign((Access("Y", (I,)),), "=", Access("X", (I,)))


def kernel(*statements: Assign, **parts: object) -> Kernel:
    """A kernel made in Python."""
    return Kernel(**{"name": "K", "params": (), "arrays": (X, Y), "statements": statements} | parts)  # type: ignore[arg-type]


def value(expr: object) -> Kernel:
    """A kernel that stores an expression."""
    return kernel(Assign((Access("Y", (I,)),), "=", expr))  # type: ignore[arg-type]


def tall(levels: int) -> Kernel:
    """A kernel whose value is a tower."""
    expr = Access("X", (I,))
    for _ in range(levels):
        expr = Call("neg", (expr,))  # type: ignore[assignment]
    return value(expr)


MADE: list[tuple[str, Kernel, str]] = [
    ("HAL-IR-001", kernel(COPY, name="a-b"), "'a-b' cannot name a kernel"),
    ("HAL-IR-001", kernel(COPY, params=("max",)), "max is a word of the language, not a param"),
    ("HAL-IR-003", value(LetRef("t")), "there is no let before this called t"),
    (
        "HAL-IR-004",
        kernel(COPY, arrays=(X, Array("Y", F32, (Call("div", (Const(4), Const(2))),), "output"))),
        "the shape of Y must be whole numbers",
    ),
    ("HAL-IR-004", kernel(COPY, arrays=(X, Array("Y", F32, (I,), "output"))), "the shape of Y"),
    ("HAL-IR-006", value(Call("cosh", (Access("X", (I,)),))), "Did you mean cos?"),
    ("HAL-IR-006", value(Call("max", (Access("X", (I,)),))), "max takes 2 operands, found 1"),
    ("HAL-IR-006", kernel(Assign((Access("Y", (I,)),), "-=", Const(1))), "'-=' assigns nothing"),
    ("HAL-IR-007", tall(300), "302 levels deep"),
    ("HAL-IR-008", kernel(COPY, scalars=(Scalar("a", dtypes.f16),)), "the scalar a is f16"),
    ("HAL-IR-008", kernel(COPY, arrays=(X, Array("Y", F32, (Const(4),), "out"))), "role 'out'"),
]


@pytest.mark.parametrize(("rule", "broken", "words"), MADE)
def test_a_kernel_made_in_python_is_judged_too(rule: str, broken: Kernel, words: str) -> None:
    with pytest.raises(IrError) as caught:
        check(broken)
    assert words in str(caught.value)
    assert f"({rule})" in str(caught.value)


def test_lets_that_double_are_refused_before_they_are_put_in_place() -> None:
    lets = ["let a0 = X[i, j]", *(f"let a{n + 1} = a{n} + a{n}" for n in range(60))]
    body = "\n".join([*lets, "operation: Y[i, j] = a60"])
    with pytest.raises(IrTextError, match=r"HAL-IR-007"):
        parse(f"{HEAD}{body} }}")


def test_every_rule_has_an_example_that_breaks_it() -> None:
    assert sorted({rule.id for rule in RULES} - {item[0] for item in (*BROKEN, *MADE)}) == []
    assert len({rule.id for rule in RULES}) == len(RULES)


@pytest.mark.parametrize(
    "body",
    [
        "operation: C[i, k] += X[i, j] * W[j, k]",
        "operation: z[t[i]] += X[i, 0]",
        "operation: Z[i, j] = Z[i, j] - s * X[i, j]",
        "operation: z[j] += s * z[j]",
        "operation: y[i] += X[(i * 2 + d), j] pad 0",
        "operation: Y[i, j] = X[t[i] + 1, j // 2]",
        "operation: Y[i, j] = X[i // N % K, j] pad -inf",
        "operation: y[i] = h[i] * g[i] + f32(i)",
        "operation: p[i] = t[i] * q[i]; p[i] += q[i] * q[i]",
        "operation: u[i] max= X[i, j] operation: Y[i, j] = exp(X[i, j] - u[i])",
        "operation: Y[i, 0] = h[i]",
        "operation: b[i] = t[i] == 3 and i < N or m[i, 0]",
        "operation: Y[i, j] = where(m[i, j], X[i, j], 0)",
        "operation: Y[i, j] = scan_max(2 * X[i, j], j, reverse)",
    ],
)
def test_a_right_kernel_has_no_problems(body: str) -> None:
    assert verify(parse(f"{HEAD}{body} }}", verify=False).kernel()) == []


def test_extents_that_are_equal_as_sums_bind_one_index() -> None:
    text = """kernel K { param M, N : int  input: f32[M + N, 2 * (M + 1)] X
    output: f32[N + M, M + 2 + M] Y  operation: Y[i, j] = X[i, j] }"""
    assert verify(parse(text).kernel()) == []


@pytest.mark.parametrize(
    ("schedule", "rule", "words"),
    [
        ("KK for", "HAL-IR-030", "there is no kernel KK. Did you mean K?"),
        ("tile a 4", "HAL-IR-031", "K has no index a"),
        ("split i 4", "HAL-IR-032", "i is not reduced, it cannot be split. Reduced are: j."),
        ("space XX near", "HAL-IR-033", "K has no array XX. Did you mean X?"),
        ("space X neer", "HAL-IR-033", "there is no space neer. Did you mean near?"),
    ],
)
def test_a_schedule_names_what_its_kernel_has(schedule: str, rule: str, words: str) -> None:
    kernel_name = schedule.split()[0] if " for" in schedule else "K"
    clause = "" if " for" in schedule else schedule
    product = f"{HEAD}operation: C[i, k] += X[i, j] * W[j, k] }}\n"
    text = f'{product}schedule {kernel_name} for "a" {{ {clause} }}'
    with pytest.raises(IrTextError) as caught:
        parse(text, "k.hal")
    assert words in str(caught.value)
    pair = clause.partition(" ")[2] or "schedule"
    column = text.splitlines()[9].index(pair) + 1
    assert str(caught.value).startswith(f"k.hal:10:{column}: ")
    program = parse(text, verify=False)
    assert [p.rule for p in verify_schedule(program.schedules[0], program.kernels)] == [rule]
