"""VIL programs that cases of streams, events, modules and launches run.

They need only what every chip has: 32-bit integers and floats, tiles of at most 64 columns. Each
function returns the bytes of an image for `rig.module`; the kernel's name is the function's.
"""

from __future__ import annotations

from functools import lru_cache

__all__ = [
    "MULTIPLIER",
    "add_one",
    "after_loop",
    "argmax_of_nothing",
    "assemble",
    "count_points",
    "keep_doubles",
    "keep_numbers",
    "many",
    "mark_points",
    "outside",
    "slow",
    "two_kernels",
]

MULTIPLIER = 1103515245
"""`slow` multiplies by this number."""


@lru_cache(maxsize=32)
def assemble(text: str) -> bytes:
    """Return the image of a module in text form."""
    import hal.vil

    return bytes(hal.vil.encode(hal.vil.parse(text)))


_ROW = """
  tile t: i32[1, 64] near @0
  tile one: i32[1, 64] near @256
  desc in = X {
    column origin %3 limit n digits (_, 1)
    dim n stride 1 base 0, c0 * 1
  }
  desc out = Y {
    column origin %3 limit n digits (_, 1)
    dim n stride 1 base 0, c0 * 1
  }
  sreg.mul %3, %0, 64
"""


def _row_kernel(name: str, step: str) -> str:
    """Return a kernel and its program: Y[0..n) from X[0..n), 64 elements a program."""
    return f"""
kernel {name} {{
  arg n: symbol
  arg X: i32 read bytes 4 * n
  arg Y: i32 write bytes 4 * n
  launch {name}_p grid(ceildiv(n, 64)) (n, X, Y)
}}
program {name}_p flat {{
  param n: symbol
  param X: i32 read
  param Y: i32 write
{_ROW}
  load t, in
  {step}
  store out, t
}}
"""


def add_one() -> bytes:
    """Y = X + 1 over n 32-bit integers. Arguments: n, X, Y."""
    return assemble("vil 1.0\n" + _row_kernel("add_one", "fill one, 1\n  bin.add t, t, one"))


def two_kernels() -> bytes:
    """Two kernels of one module, `add_one` and `negate`. Arguments of both: n, X, Y."""
    first = _row_kernel("add_one", "fill one, 1\n  bin.add t, t, one")
    second = _row_kernel("negate", "un.neg t, t")
    return assemble("vil 1.0\n" + first + second)


def slow() -> bytes:
    """X = X · MULTIPLIER + 1, `steps` times over, on one integer. Arguments: steps, X.

    Each step needs the one before, so that no chip is done early; see `after_loop`.
    """
    return assemble(f"""vil 1.0
kernel slow {{
  arg steps: symbol
  arg X: i32 inout bytes 4
  launch p grid() (steps, X)
}}
program p flat {{
  param steps: symbol
  param X: i32 inout
  tile t: i32[1, 1] near @0
  tile m: i32[1, 1] near @64
  tile one: i32[1, 1] near @128
  desc x = X {{
    dim 1 stride 1 base 0
  }}
  fill m, {MULTIPLIER}
  fill one, 1
  load t, x
  loop %3, steps
    bin.mul t, t, m
    bin.add t, t, one
  end
  store x, t
}}
""")


def after_loop(value: int, steps: int) -> int:
    """Return what `slow` makes of a value, as an unsigned 32-bit number."""
    factor, term, scale, add = 1, 0, MULTIPLIER, 1
    while steps:
        if steps & 1:
            factor, term = factor * scale & 0xFFFFFFFF, (term * scale + add) & 0xFFFFFFFF
        scale, add = scale * scale & 0xFFFFFFFF, (add * scale + add) & 0xFFFFFFFF
        steps >>= 1
    return (value * factor + term) & 0xFFFFFFFF


def _points(name: str, access: str, body: str) -> str:
    """Return a kernel over the caller's grid; program (x, y, z) has the element (z·b + y)·a + x."""
    return f"""vil 1.0
kernel {name} {{
  arg a: symbol
  arg b: symbol
  arg c: symbol
  arg Y: i32 {access} bytes 4 * a * b * c
  launch p grid caller (a, b, c, Y)
}}
program p flat {{
  param a: symbol
  param b: symbol
  param c: symbol
  param Y: i32 {access}
  tile t: i32[1, 1] near @0
  tile one: i32[1, 1] near @64
  desc place = Y {{
    dim c stride a * b base %2
    dim b stride a base %1
    dim a stride 1 base %0
  }}
  {body}
  store place, t
}}
"""


def mark_points() -> bytes:
    """Program (x, y, z) writes x + 1000·y + 1000000·z to its element. Arguments: a, b, c, Y."""
    steps = "sreg.mul %3, %1, 1000\n  sreg.add %3, %3, %0\n  sreg.mul %4, %2, 1000000"
    body = f"{steps}\n  sreg.add %3, %3, %4\n  iota t base=%3"
    return assemble(_points("mark_points", "write", body))


def count_points() -> bytes:
    """Program (x, y, z) adds one to its element. Arguments: a, b, c, Y."""
    body = "load t, place\n  fill one, 1\n  bin.add t, t, one"
    return assemble(_points("count_points", "inout", body))


def outside() -> bytes:
    """Reads element `at` of X, which may lie outside: a fault. Arguments: at, X, Y."""
    return assemble("""vil 1.0
kernel outside {
  arg at: symbol
  arg X: i32 read bytes 4
  arg Y: i32 write bytes 4
  launch p grid() (at, X, Y)
}
program p flat {
  param at: symbol
  param X: i32 read
  param Y: i32 write
  tile t: i32[1, 1] near @0
  desc in = X {
    dim at + 1 stride 1 base at
  }
  desc out = Y {
    dim 1 stride 1 base 0
  }
  load t, in
  store out, t
}
""")


def argmax_of_nothing() -> bytes:
    """Y = index of the largest of X[0..n); n = 0 is a fault. Arguments: n, X, Y."""
    return assemble("""vil 1.0
kernel argmax_of_nothing {
  arg n: symbol
  arg X: i32 read bytes 4 * n
  arg Y: i32 write bytes 4
  launch p grid() (n, X, Y)
}
program p flat {
  param n: symbol
  param X: i32 read
  param Y: i32 write
  tile t: i32[1, 64] near @0
  tile r: i32[1, 1] near @256
  desc in = X {
    column limit n digits (_, 1)
    dim n stride 1 base 0, c0 * 1
  }
  desc out = Y {
    dim 1 stride 1 base 0
  }
  load t, in
  red.argmax r, t axis=cols
  store out, r
}
""")


def keep_numbers() -> bytes:
    """Writes its scalars' bits. Arguments: i: i32, l: i64, f: f32, s: symbol, Y (6 i32), F (1 f32).

    Y = i, low and high half of l, low and high half of s, high half of i as an i64.
    """
    lines = ["sreg.arg %3, i", "sreg.arg %4, l", "sreg.mov %5, s"]
    stores = [("%3", 0), ("%4", 1), ("%6", 2), ("%5", 3), ("%7", 4), ("%8", 5)]
    lines += [f"sreg.shr {high}, {low}, 32" for high, low in
              (("%6", "%4"), ("%7", "%5"), ("%8", "%3"))]  # fmt: skip
    descs = ""
    for register, place in stores:
        descs += f"  desc y{place} = Y {{\n    dim 6 stride 1 base {place}\n  }}\n"
        lines += [f"iota t base={register}", f"store y{place}, t"]
    body = "\n  ".join(lines)
    return assemble(f"""vil 1.0
kernel keep_numbers {{
  arg i: scalar i32
  arg l: scalar i64
  arg f: scalar f32
  arg s: symbol
  arg Y: i32 write bytes 24
  arg F: f32 write bytes 4
  launch p grid() (i, l, f, s, Y, F)
}}
program p flat {{
  param i: scalar i32
  param l: scalar i64
  param f: scalar f32
  param s: symbol
  param Y: i32 write
  param F: f32 write
  tile t: i32[1, 1] near @0
  tile g: f32[1, 1] near @64
{descs}  desc out = F {{
    dim 1 stride 1 base 0
  }}
  {body}
  fill g, f
  store out, g
}}
""")


def keep_doubles() -> bytes:
    """Writes two f64 scalars; needs f64 tiles. Arguments: a: f64, i: i32, b: f64, Y (2 f64)."""
    return assemble("""vil 1.0
kernel keep_doubles {
  arg a: scalar f64
  arg i: scalar i32
  arg b: scalar f64
  arg Y: f64 write bytes 16
  launch p grid() (a, i, b, Y)
}
program p flat {
  param a: scalar f64
  param i: scalar i32
  param b: scalar f64
  param Y: f64 write
  tile t: f64[1, 1] near @0
  desc y0 = Y {
    dim 2 stride 1 base 0
  }
  desc y1 = Y {
    dim 2 stride 1 base 1
  }
  fill t, a
  store y0, t
  fill t, b
  store y1, t
}
""")


def many(count: int) -> bytes:
    """Writes a weighted sum of its first count − 1 arguments, all symbols, to the last one, Y.

    Y = Σ (k + 1) · s_k, cut to 32 bits.
    """
    names = [f"s{k}" for k in range(count - 1)]
    arguments = "".join(f"  arg {name}: symbol\n" for name in names)
    params = "".join(f"  param {name}: symbol\n" for name in names)
    terms = [f"{k + 1} * {name}" for k, name in enumerate(names)]
    sums = [" + ".join(terms[start : start + 8]) for start in range(0, len(terms), 8)]
    steps = "".join(f"  sreg.add %3, %3, {part}\n" for part in sums)
    return assemble(f"""vil 1.0
kernel many {{
{arguments}  arg Y: i32 write bytes 4
  launch p grid() ({", ".join(names)}, Y)
}}
program p flat {{
{params}  param Y: i32 write
  tile t: i32[1, 1] near @0
  desc out = Y {{
    dim 1 stride 1 base 0
  }}
{steps}  iota t base=%3
  store out, t
}}
""")
