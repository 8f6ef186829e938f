"""The text form: what parses, what is refused and where, and that printing loses nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest

from hal.ir import IrTextError, Program, parse, show

MATMUL = """# A matrix product.
kernel MatrixMul {
  # sizes
  param M, N, K : int  # three
  input: f32[M, K] A, f32[K, N] B
  output: f32[M, N] C
  operation: C[i, j] += A[i, k] * B[k, j]  # k is reduced
  # end
}

# advice
schedule MatrixMul for "sim/npu-systolic" { tile i 128, k 64; stages 2; space A near; split k 4 }
"""
KERNEL = """
kernel T {{
  param M, N : int
  index d : 3
  scalar f32 lr, i64 seed
  input: f32[M, N] X, f32[N] bias, bool[M] keep
  output: f32[M, N] Y
  let t = X[i, j] + bias[j]
  operation: {}
}}
"""


def value_of(text: str) -> str:
    """What the printer makes of an expression."""
    shown = show(parse(KERNEL.format(f"Y[i, j] = {text}"), verify=False))
    return next(line for line in shown.splitlines() if "operation" in line).split(" = ", 1)[1]


def test_the_canonical_text_is_its_own_print() -> None:
    assert show(parse(MATMUL)) == MATMUL


@pytest.mark.parametrize(
    "text",
    [
        "a + b - c",
        "a - (b - c)",
        "a * (b + c) // d % 2",
        "-t * -(1) - -1",
        "a < b and not c == d or a <= b xor c",
        "(not keep[i]) == keep[i]",
        "not (keep[i] and keep[i])",
        "where(j < i, X[i, j], 0)",
        "where(j < i, X[i + d - 1, (j + 1) // 2] pad -inf, 0.0)",
        "(X[i + d, j] pad 0) * 2",
        "f32((1)) + f16(1) + i8(t, saturate) + i8(2.5, saturate)",
        "philox(seed, 0, i * N + j)",
        "max(exp(-t), pow(lr, 2)) + 1e-05 + 1e+16 + nan",
        "-(-t) + -inf",
        "-9223372036854775808 + 9223372036854775807",
    ],
)
def test_a_minimal_expression_is_its_own_print(text: str) -> None:
    assert value_of(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a > b", "b < a"),
        ("a >= b", "b <= a"),
        ("((a)) + (b * c)", "a + b * c"),
        ("float(t)", "f32(t)"),
        ("add(a, mul(b, c))", "a + b * c"),
        (".5 + 1.", "0.5 + 1.0"),
        ("- 1", "-1"),
    ],
)
def test_other_spellings_print_in_one_way(text: str, shown: str) -> None:
    assert value_of(text) == shown


def test_statements_are_separated_by_lines_semicolons_or_sections() -> None:
    forms = [
        "Y[i, j] = t; Y[i, j] += 1.0",
        "Y[i, j] = t\n Y[i, j] += 1.0",
        "Y[i, j] = t\n operation: Y[i, j] += 1.0",
        "Y[i, j] =\n t Y[i, j]\n += 1.0 ;",
    ]
    programs = [parse(KERNEL.format(form)) for form in forms]
    assert programs == [programs[0]] * 4
    assert len(programs[0].kernels[0].assigns) == 2


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("kernel A { inptu: f32[] X }", (1, 12), "Did you mean `input`?"),
        ("kernel A {\n  input: f23[] X }", (2, 10), "expected an element type, found `f23`"),
        ("kernel A {\n param M : int input: f32[L] X }", (2, 27), "L is no param"),
        (KERNEL.format("Y[i, j] = expp(t)"), (9, 24), "Did you mean `exp`?"),
        (KERNEL.format("Y[i, j] -= t"), (9, 22), "Write `+=` and a minus on the right."),
        (KERNEL.format("Y[i, j] = t ** 2"), (9, 27), "A power is pow(a, b)."),
        (KERNEL.format("Y[i, j] = sum(t, j)"), (9, 24), "C[i] += X[i, k]"),
        (KERNEL.format("Y[i, j] = table(i, j)"), (9, 24), "An array is table[i, j]."),
        (KERNEL.format("Y[i, j] = t if i else 0"), (9, 26), "where(condition, a, b)"),
        (KERNEL.format("Y = t"), (9, 14), "needs subscripts"),
        (KERNEL.format("Y[i, j] = X"), (9, 24), "the array X needs subscripts"),
        (KERNEL.format("Y[i, j] = 1 < i < 2"), (9, 30), "comparisons do not chain"),
        (KERNEL.format("Y[i, j] = max(t)"), (9, 24), "max takes 2 operands, found 1"),
        (KERNEL.format("Y[i, j] = 1e999"), (9, 24), "Write `inf`."),
        (KERNEL.format("Y[i, j] = 9223372036854775808"), (9, 24), "does not fit 64 bits"),
        (KERNEL.format("Y[i, j] = scan_add(t)"), (9, 24), "needs the index that it runs along"),
        (KERNEL.format("Y[i, j] = 1 + scan_add(t, j)"), (9, 28), "Put its result into a temp"),
        (KERNEL.format("Y[i, j] = scan_add(t, j) + 1"), (9, 39), "Put its result into a temp"),
        (KERNEL.format("Y[i, j] pad 0 = t"), (9, 14), "a target has no pad"),
        (KERNEL.format("Y[i, j] = t $ 2"), (9, 26), "the character '$' belongs to no word"),
        (KERNEL.format("max[i, j] = t"), (9, 14), "a word of the language"),
        ('schedule A for "x { }', (1, 16), "no closing quote"),
        ('schedule A for "x" { tiel i 2 }', (1, 22), "Did you mean `tile`?"),
        ('schedule A for "x" { tile i 0 }', (1, 29), "1 or more"),
        ("kernel A { ", (1, 1), "has no `}`"),
        ("", (0, 0), ""),
    ],
)
def test_a_mistake_is_shown_with_its_place(text: str, place: tuple[int, int], words: str) -> None:
    if place == (0, 0):
        assert parse(text) == Program()
        return
    with pytest.raises(IrTextError) as caught:
        parse(text, "k.hal")
    error = caught.value
    assert (error.line, error.column) == place
    assert words in str(error)
    assert str(error).startswith(f"k.hal:{place[0]}:{place[1]}: ")
    line, caret = str(error).splitlines()[-2:]
    assert line[2:] == text.split("\n")[place[0] - 1].rstrip("\n")
    assert caret.index("^") - 2 == place[1] - 1


@pytest.mark.parametrize("text", ["(" * 5000, "-(" * 5000, "not " * 5000, "exp(" * 5000, "X[" * 99])
def test_deep_nesting_is_refused(text: str) -> None:
    with pytest.raises(IrTextError, match="levels of parentheses"):
        parse(KERNEL.format(f"Y[i, j] = {text}"))


def test_a_long_chain_is_refused_by_its_depth() -> None:
    with pytest.raises(IrTextError, match="more than 120 levels deep"):
        parse(KERNEL.format("Y[i, j] = " + " + ".join(["t"] * 4000)))


def test_reading_and_judging_need_no_numpy() -> None:
    code = "import sys, hal.ir as ir; ir.parse('kernel K { }'); print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("False\n", "")
